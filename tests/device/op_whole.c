#include "device/op_whole.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/op_trial.h"
#include "device/rows.h"

/* A part borrows operands of the whole and owns what it writes. */
static trial part_of(const trial *whole, gp_op_kind kind) {
    trial part = {.op_case = whole->op_case};
    gp_op_desc_init(&part.op_case.desc, kind);
    part.op_case.desc.threads = whole->op_case.desc.threads;
    return part;
}

static void lend(trial *part, int to, const trial *from, int operand) {
    part->op_case.desc.operand[to] = from->op_case.desc.operand[operand];
    part->host[to] = from->host[operand];
}

/* Runs the part with `written` like operand `as` of the whole; the caller frees what it wrote. */
static void run_part(const gp_device_kind *kind, trial *part, int written, const trial *whole, int as) {
    const gp_tensor *tensor = &whole->op_case.desc.operand[as];
    part->op_case.desc.operand[written] = *tensor;
    part->host[written] = malloc(gp_tensor_bytes(tensor));
    assert_non_null(part->host[written]);
    memset(part->host[written], 0xff, gp_tensor_bytes(tensor)); /* what lies between its rows is poison */
    trial_run(kind, part);
}

static void expect_bits(const trial *whole, int operand, const trial *part, int written) {
    char text[GP_CASE_TEXT];
    const gp_tensor *tensor = &whole->op_case.desc.operand[operand];
    if (memcmp(whole->host[operand], part->host[written], gp_tensor_bytes(tensor)))
        fail_msg("%s: %s is not what its parts make", gp_op_case_text(text, &whole->op_case),
                 gp_op_operand_name(whole->op_case.desc.kind, operand));
}

/* norm_apply of a whole whose gamma and beta follow `gamma`, if it has any; like x. */
static trial apply(const gp_device_kind *kind, const trial *whole, int mean, int gamma) {
    trial part = part_of(whole, GP_OP_NORM_APPLY);
    part.op_case.desc.attributes.norm = whole->op_case.desc.attributes.norm;
    lend(&part, GP_NORM_APPLY_X, whole, 0);
    for (int i = 0; i < 2; i++) {
        lend(&part, GP_NORM_APPLY_MEAN + i, whole, mean + i);
        lend(&part, GP_NORM_APPLY_GAMMA + i, whole, gamma + i);
    }
    run_part(kind, &part, GP_NORM_APPLY_Y, whole, 0);
    return part;
}

static trial relu(const gp_device_kind *kind, const trial *whole, const trial *of, int operand) {
    trial part = part_of(whole, GP_OP_RELU_FORWARD);
    lend(&part, GP_RELU_FORWARD_X, of, operand);
    run_part(kind, &part, GP_RELU_FORWARD_Y, of, operand);
    return part;
}

static trial relu_backward(const gp_device_kind *kind, const trial *whole, const trial *of, int y, int dy) {
    trial part = part_of(whole, GP_OP_RELU_BACKWARD);
    lend(&part, GP_RELU_BACKWARD_Y, of, y);
    lend(&part, GP_RELU_BACKWARD_DY, whole, dy);
    run_part(kind, &part, GP_RELU_BACKWARD_DX, whole, dy);
    return part;
}

static void check_forward(const gp_device_kind *kind, const trial *whole) {
    trial norm = apply(kind, whole, GP_NORM_APPLY_RELU_MEAN, GP_NORM_APPLY_RELU_GAMMA), sum = {0}, last;
    if (whole->host[GP_NORM_APPLY_RELU_ADDEND]) {
        sum = part_of(whole, GP_OP_ADD);
        lend(&sum, GP_ADD_A, whole, GP_NORM_APPLY_RELU_ADDEND);
        lend(&sum, GP_ADD_B, &norm, GP_NORM_APPLY_Y);
        run_part(kind, &sum, GP_ADD_Y, whole, GP_NORM_APPLY_RELU_ADDEND);
    }
    last = part_of(whole, GP_OP_RELU_FORWARD);
    lend(&last, GP_RELU_FORWARD_X, sum.host[GP_ADD_Y] ? &sum : &norm,
         sum.host[GP_ADD_Y] ? (int)GP_ADD_Y : (int)GP_NORM_APPLY_Y);
    run_part(kind, &last, GP_RELU_FORWARD_Y, whole, GP_NORM_APPLY_RELU_Y);
    expect_bits(whole, GP_NORM_APPLY_RELU_Y, &last, GP_RELU_FORWARD_Y);
    free(norm.host[GP_NORM_APPLY_Y]);
    free(sum.host[GP_ADD_Y]);
    free(last.host[GP_RELU_FORWARD_Y]);
}

static void check_reduce(const gp_device_kind *kind, const trial *whole, const trial *dz, int mean, int sums) {
    trial reduce = part_of(whole, GP_OP_NORM_BACKWARD_REDUCE);
    reduce.op_case.desc.attributes.norm = whole->op_case.desc.attributes.norm;
    lend(&reduce, GP_NORM_BACKWARD_REDUCE_X, whole, 0);
    lend(&reduce, GP_NORM_BACKWARD_REDUCE_DY, dz, GP_RELU_BACKWARD_DX);
    for (int i = 0; i < 2; i++) lend(&reduce, GP_NORM_BACKWARD_REDUCE_MEAN + i, whole, mean + i);
    run_part(kind, &reduce, GP_NORM_BACKWARD_REDUCE_SUMS, whole, sums);
    expect_bits(whole, sums, &reduce, GP_NORM_BACKWARD_REDUCE_SUMS);
    free(reduce.host[GP_NORM_BACKWARD_REDUCE_SUMS]);
}

static void check_data(const gp_device_kind *kind, const trial *whole, const trial *dz) {
    trial data = part_of(whole, GP_OP_NORM_BACKWARD_DATA);
    data.op_case.desc.attributes.norm = whole->op_case.desc.attributes.norm;
    lend(&data, GP_NORM_BACKWARD_DATA_X, whole, GP_NORM_RELU_BACKWARD_DATA_X);
    lend(&data, GP_NORM_BACKWARD_DATA_DY, dz, GP_RELU_BACKWARD_DX);
    lend(&data, GP_NORM_BACKWARD_DATA_MEAN, whole, GP_NORM_RELU_BACKWARD_DATA_MEAN);
    lend(&data, GP_NORM_BACKWARD_DATA_VARIANCE, whole, GP_NORM_RELU_BACKWARD_DATA_VARIANCE);
    lend(&data, GP_NORM_BACKWARD_DATA_GAMMA, whole, GP_NORM_RELU_BACKWARD_DATA_GAMMA);
    lend(&data, GP_NORM_BACKWARD_DATA_SUMS, whole, GP_NORM_RELU_BACKWARD_DATA_SUMS);
    run_part(kind, &data, GP_NORM_BACKWARD_DATA_DX, whole, GP_NORM_RELU_BACKWARD_DATA_DX);
    expect_bits(whole, GP_NORM_RELU_BACKWARD_DATA_DX, &data, GP_NORM_BACKWARD_DATA_DX);
    free(data.host[GP_NORM_BACKWARD_DATA_DX]);
}

/* Those that find y again. */
static void check_masked(const gp_device_kind *kind, const trial *whole) {
    trial norm = apply(kind, whole, GP_NORM_RELU_BACKWARD_DATA_MEAN, GP_NORM_RELU_BACKWARD_DATA_GAMMA);
    trial y = relu(kind, whole, &norm, GP_NORM_APPLY_Y);
    trial dz = relu_backward(kind, whole, &y, GP_RELU_FORWARD_Y, GP_NORM_RELU_BACKWARD_DATA_DY);
    if (whole->op_case.desc.kind == GP_OP_NORM_RELU_BACKWARD_DATA)
        check_data(kind, whole, &dz);
    else
        check_reduce(kind, whole, &dz, GP_NORM_RELU_BACKWARD_REDUCE_MEAN, GP_NORM_RELU_BACKWARD_REDUCE_SUMS);
    free(norm.host[GP_NORM_APPLY_Y]);
    free(y.host[GP_RELU_FORWARD_Y]);
    free(dz.host[GP_RELU_BACKWARD_DX]);
}

static void check_shared(const gp_device_kind *kind, const trial *whole) {
    trial sum = part_of(whole, GP_OP_ADD), dz = part_of(whole, GP_OP_RELU_BACKWARD);
    lend(&dz, GP_RELU_BACKWARD_Y, whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y);
    lend(&dz, GP_RELU_BACKWARD_DY, whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY);
    if (whole->host[GP_NORM_ADD_RELU_BACKWARD_REDUCE_ADDEND]) {
        lend(&sum, GP_ADD_A, whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY);
        lend(&sum, GP_ADD_B, whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_ADDEND);
        run_part(kind, &sum, GP_ADD_Y, whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY);
        lend(&dz, GP_RELU_BACKWARD_DY, &sum, GP_ADD_Y);
    }
    run_part(kind, &dz, GP_RELU_BACKWARD_DX, whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ);
    expect_bits(whole, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, &dz, GP_RELU_BACKWARD_DX);
    check_reduce(kind, whole, &dz, GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN, GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS);
    free(sum.host[GP_ADD_Y]);
    free(dz.host[GP_RELU_BACKWARD_DX]);
}

/* Some rows of x are the mean: without a beta what relu sees is 0 then. */
static void meet_threshold(const trial *whole, int mean) {
    gp_rows rows = gp_rows_of(&whole->op_case.desc.operand[0]);
    for (int64_t r = 0; r < rows.count; r += 3)
        for (int64_t c = 0; c < rows.width; c++) {
            if (whole->op_case.desc.operand[0].dtype == GP_F32)
                ((float *)whole->host[0])[r * rows.pitch + c] = ((float *)whole->host[mean])[c];
            else
                ((double *)whole->host[0])[r * rows.pitch + c] = ((double *)whole->host[mean])[c];
        }
}

static void check(const gp_device_kind *kind, gp_op_kind op, int number, gp_dtype real, int threads) {
    trial whole;
    gp_op_case_make(op, number, real, &whole.op_case);
    whole.op_case.desc.threads = (uint32_t)threads;
    trial_fill(&whole);
    meet_threshold(&whole, op == GP_OP_NORM_APPLY_RELU                 ? (int)GP_NORM_APPLY_RELU_MEAN
                           : op == GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE ? (int)GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN
                                                                       : (int)GP_NORM_RELU_BACKWARD_DATA_MEAN);
    trial_run(kind, &whole);
    if (op == GP_OP_NORM_APPLY_RELU)
        check_forward(kind, &whole);
    else if (op == GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE)
        check_shared(kind, &whole);
    else
        check_masked(kind, &whole);
    trial_fini(&whole);
}

void op_whole_check(const gp_device_kind *kind, gp_dtype real, int threads) {
    static const gp_op_kind wholes[] = {GP_OP_NORM_APPLY_RELU, GP_OP_NORM_RELU_BACKWARD_REDUCE,
                                        GP_OP_NORM_RELU_BACKWARD_DATA, GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE};
    for (size_t w = 0; w < sizeof wholes / sizeof wholes[0]; w++)
        for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP)
            check(kind, wholes[w], number, real, threads);
}
