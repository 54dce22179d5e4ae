/* What has to hold for the reference device's ops over all cases of op_cases.h: the backward passes of linear ops are
 * their adjoints, those of the others are the differences of their forward; f32 is f64 rounded; in place is apart. And
 * dropout, whose masks are drawn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "device/op_bench.h"
#include "device/op_run.h"
#include "device/op_whole.h"
#include "device/ref/ref.h"

/* A bench with a case's operands, filled. */
static op_bench bench_of_case(gp_op_kind kind, int number, gp_dtype dtype) {
    op_bench b;
    op_bench_init(&b, &gp_ref_kind, kind);
    gp_op_case_make(kind, number, dtype, &b.op_case);
    for (int i = 0; i < (int)b.op_case.desc.operands; i++) {
        if (!b.op_case.desc.operand[i].present) continue;
        op_bench_set(&b, i, b.op_case.desc.operand[i], NULL);
        gp_op_case_fill(&b.op_case, i, b.host[i]);
    }
    return b;
}

/* A bench for another op with the attributes of a case. */
static op_bench bench_like(gp_op_kind kind, const op_bench *like) {
    op_bench b;
    op_bench_init(&b, &gp_ref_kind, kind);
    b.op_case.desc.attributes = like->op_case.desc.attributes;
    b.op_case.args = like->op_case.args;
    return b;
}

static void take_operand(op_bench *to, int operand, const op_bench *from, int from_operand) {
    const gp_tensor *tensor = &from->op_case.desc.operand[from_operand];
    op_bench_set(to, operand, *tensor, NULL);
    memcpy(to->host[operand], from->host[from_operand], gp_tensor_bytes(tensor));
}

static void assert_near(double a, double b, double tolerance, const op_bench *bench) {
    if (fabs(a - b) <= tolerance * fmax(1, fabs(b))) return;
    char text[GP_CASE_TEXT];
    fail_msg("%s: %.17g is not %.17g", gp_op_case_text(text, &bench->op_case), a, b);
}

static void fill_normal(op_bench *b, int operand, gp_tensor tensor, int number) {
    op_bench_set(b, operand, tensor, NULL);
    b->op_case.fill[operand] = GP_CASE_NORMAL;
    b->op_case.number = number;
    gp_op_case_fill(&b->op_case, operand, b->host[operand]);
}

/* ⟨product(x, w), dy⟩ = ⟨x, backward_data(dy, w)⟩ = ⟨w, backward_weights(x, dy)⟩. Both families have equal positions.
 */
static void check_product(gp_op_kind forward, gp_op_kind backward_data, gp_op_kind backward_weights, int number) {
    op_bench f = bench_of_case(forward, number, GP_F64);
    free(f.host[GP_CONV_FORWARD_B]);
    f.host[GP_CONV_FORWARD_B] = NULL;
    memset(&f.op_case.desc.operand[GP_CONV_FORWARD_B], 0, sizeof(gp_tensor));
    op_bench_run(&f);
    op_bench d = bench_like(backward_data, &f);
    fill_normal(&d, GP_CONV_BACKWARD_DATA_DY, f.op_case.desc.operand[GP_CONV_FORWARD_Y], number + 1000);
    take_operand(&d, GP_CONV_BACKWARD_DATA_W, &f, GP_CONV_FORWARD_W);
    op_bench_set(&d, GP_CONV_BACKWARD_DATA_DX, f.op_case.desc.operand[GP_CONV_FORWARD_X], NULL);
    op_bench_run(&d);
    op_bench w = bench_like(backward_weights, &f);
    take_operand(&w, GP_CONV_BACKWARD_WEIGHTS_X, &f, GP_CONV_FORWARD_X);
    take_operand(&w, GP_CONV_BACKWARD_WEIGHTS_DY, &d, GP_CONV_BACKWARD_DATA_DY);
    op_bench_set(&w, GP_CONV_BACKWARD_WEIGHTS_DW, f.op_case.desc.operand[GP_CONV_FORWARD_W], NULL);
    op_bench_run(&w);
    double product = op_bench_dot(&f, GP_CONV_FORWARD_Y, &d, GP_CONV_BACKWARD_DATA_DY);
    assert_near(op_bench_dot(&f, GP_CONV_FORWARD_X, &d, GP_CONV_BACKWARD_DATA_DX), product, 1e-10, &d);
    assert_near(op_bench_dot(&f, GP_CONV_FORWARD_W, &w, GP_CONV_BACKWARD_WEIGHTS_DW), product, 1e-10, &w);
    op_bench_fini(&f);
    op_bench_fini(&d);
    op_bench_fini(&w);
}

static void test_adjoints_of_products(void **state) {
    (void)state;
    for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) {
        check_product(GP_OP_CONV_FORWARD, GP_OP_CONV_BACKWARD_DATA, GP_OP_CONV_BACKWARD_WEIGHTS, number);
        check_product(GP_OP_LINEAR_FORWARD, GP_OP_LINEAR_BACKWARD_DATA, GP_OP_LINEAR_BACKWARD_WEIGHTS, number);
    }
}

/* ⟨forward(x), dy⟩ = ⟨x, backward(dy)⟩ for ops of one input. */
static void check_one_input(gp_op_kind forward, gp_op_kind backward, int number) {
    op_bench f = bench_of_case(forward, number, GP_F64);
    op_bench_run(&f);
    op_bench d = bench_like(backward, &f);
    fill_normal(&d, 0, f.op_case.desc.operand[1], number + 1000);
    op_bench_set(&d, 1, f.op_case.desc.operand[0], NULL);
    op_bench_run(&d);
    assert_near(op_bench_dot(&f, 0, &d, 1), op_bench_dot(&f, 1, &d, 0), 1e-10, &d);
    op_bench_fini(&f);
    op_bench_fini(&d);
}

/* Where the index is the forward's own, the maximum is linear. */
static void check_max_pool(int number) {
    op_bench f = bench_of_case(GP_OP_MAX_POOL_FORWARD, number, GP_F64);
    const gp_tensor y = f.op_case.desc.operand[GP_MAX_POOL_FORWARD_Y];
    gp_tensor index = gp_tensor_plain(gp_pool_index_dtype(&f.op_case.desc.attributes.pool), 4, y.dim);
    op_bench_set(&f, GP_MAX_POOL_FORWARD_INDEX, index, NULL);
    op_bench_run(&f);
    op_bench d = bench_like(GP_OP_MAX_POOL_BACKWARD, &f);
    take_operand(&d, GP_MAX_POOL_BACKWARD_INDEX, &f, GP_MAX_POOL_FORWARD_INDEX);
    fill_normal(&d, GP_MAX_POOL_BACKWARD_DY, y, number + 1000);
    op_bench_set(&d, GP_MAX_POOL_BACKWARD_DX, f.op_case.desc.operand[GP_MAX_POOL_FORWARD_X], NULL);
    op_bench_run(&d);
    assert_near(op_bench_dot(&f, GP_MAX_POOL_FORWARD_X, &d, GP_MAX_POOL_BACKWARD_DX),
                op_bench_dot(&f, GP_MAX_POOL_FORWARD_Y, &d, GP_MAX_POOL_BACKWARD_DY), 1e-10, &d);
    op_bench_fini(&f);
    op_bench_fini(&d);
}

static void test_adjoints_of_pools_and_flatten(void **state) {
    (void)state;
    for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) {
        check_max_pool(number);
        check_one_input(GP_OP_AVG_POOL_FORWARD, GP_OP_AVG_POOL_BACKWARD, number);
        check_one_input(GP_OP_UPSAMPLE_FORWARD, GP_OP_UPSAMPLE_BACKWARD, number);
        check_one_input(GP_OP_MEAN_POOL_FORWARD, GP_OP_MEAN_POOL_BACKWARD, number);
        check_one_input(GP_OP_FLATTEN, GP_OP_UNFLATTEN, number);
        check_one_input(GP_OP_UNFLATTEN, GP_OP_FLATTEN, number);
    }
}

static gp_tensor stats_of(int64_t width) {
    return gp_tensor_plain(GP_F64, 2, (const int64_t[]){3, width});
}

/* Σ dy·norm(x) with the statistics of x itself. The benches: statistics, application, reduce, data. */
static double normalised(op_bench *statistics, op_bench *apply, const op_bench *reduce) {
    op_bench_run(statistics);
    const gp_tensor *stats = &statistics->op_case.desc.operand[GP_NORM_STATISTICS_STATS];
    for (int64_t c = 0; c < stats->dim[1]; c++) {
        op_bench_put(apply, GP_NORM_APPLY_MEAN, c, op_bench_get(statistics, GP_NORM_STATISTICS_STATS, c));
        op_bench_put(apply, GP_NORM_APPLY_VARIANCE, c,
                     op_bench_get(statistics, GP_NORM_STATISTICS_STATS, stats->dim[1] + c));
    }
    op_bench_run(apply);
    return op_bench_dot(apply, GP_NORM_APPLY_Y, reduce, GP_NORM_BACKWARD_REDUCE_DY);
}

static void check_norm_differences(op_bench *statistics, op_bench *apply, const op_bench *reduce,
                                   const op_bench *data) {
    const double h = 1e-5;
    int64_t elements = gp_tensor_elements(&data->op_case.desc.operand[GP_NORM_BACKWARD_DATA_DX]);
    for (int64_t i = 0; i < elements; i += 1 + elements / 12) {
        double x = op_bench_get(apply, GP_NORM_APPLY_X, i), value[2];
        for (int side = 0; side < 2; side++) {
            op_bench_put(statistics, GP_NORM_STATISTICS_X, i, side ? x + h : x - h);
            op_bench_put(apply, GP_NORM_APPLY_X, i, side ? x + h : x - h);
            value[side] = normalised(statistics, apply, reduce);
        }
        op_bench_put(statistics, GP_NORM_STATISTICS_X, i, x);
        op_bench_put(apply, GP_NORM_APPLY_X, i, x);
        assert_near(op_bench_get(data, GP_NORM_BACKWARD_DATA_DX, i), (value[1] - value[0]) / (2 * h), 1e-5, data);
    }
}

static void check_norm(int number) {
    op_bench apply = bench_of_case(GP_OP_NORM_APPLY, number, GP_F64);
    const gp_op_desc *desc = &apply.op_case.desc;
    const gp_tensor x = desc->operand[GP_NORM_APPLY_X], vector = desc->operand[GP_NORM_APPLY_MEAN];
    const gp_tensor pair = gp_tensor_plain(GP_F64, 2, (const int64_t[]){2, vector.dim[0]});
    op_bench statistics = bench_like(GP_OP_NORM_STATISTICS, &apply);
    take_operand(&statistics, GP_NORM_STATISTICS_X, &apply, GP_NORM_APPLY_X);
    op_bench_set(&statistics, GP_NORM_STATISTICS_STATS, stats_of(vector.dim[0]), NULL);
    op_bench reduce = bench_like(GP_OP_NORM_BACKWARD_REDUCE, &apply);
    fill_normal(&reduce, GP_NORM_BACKWARD_REDUCE_DY, x, number + 1000);
    normalised(&statistics, &apply, &reduce);
    take_operand(&reduce, GP_NORM_BACKWARD_REDUCE_X, &apply, GP_NORM_APPLY_X);
    take_operand(&reduce, GP_NORM_BACKWARD_REDUCE_MEAN, &apply, GP_NORM_APPLY_MEAN);
    take_operand(&reduce, GP_NORM_BACKWARD_REDUCE_VARIANCE, &apply, GP_NORM_APPLY_VARIANCE);
    op_bench_set(&reduce, GP_NORM_BACKWARD_REDUCE_SUMS, pair, NULL);
    op_bench_run(&reduce);
    op_bench data = bench_like(GP_OP_NORM_BACKWARD_DATA, &apply);
    take_operand(&data, GP_NORM_BACKWARD_DATA_X, &apply, GP_NORM_APPLY_X);
    take_operand(&data, GP_NORM_BACKWARD_DATA_DY, &reduce, GP_NORM_BACKWARD_REDUCE_DY);
    take_operand(&data, GP_NORM_BACKWARD_DATA_MEAN, &apply, GP_NORM_APPLY_MEAN);
    take_operand(&data, GP_NORM_BACKWARD_DATA_VARIANCE, &apply, GP_NORM_APPLY_VARIANCE);
    if (desc->operand[GP_NORM_APPLY_GAMMA].present) {
        take_operand(&data, GP_NORM_BACKWARD_DATA_GAMMA, &apply, GP_NORM_APPLY_GAMMA);
    }
    take_operand(&data, GP_NORM_BACKWARD_DATA_SUMS, &reduce, GP_NORM_BACKWARD_REDUCE_SUMS);
    op_bench_set(&data, GP_NORM_BACKWARD_DATA_DX, x, NULL);
    op_bench_run(&data);
    /* Few rows can have next to no variance, where differences say nothing. */
    if (gp_tensor_rows(&x) >= 8) check_norm_differences(&statistics, &apply, &reduce, &data);
    op_bench_fini(&apply);
    op_bench_fini(&statistics);
    op_bench_fini(&reduce);
    op_bench_fini(&data);
}

static void test_differences_of_norm(void **state) {
    (void)state;
    for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) check_norm(number);
}

/* Batch norm, an addition in every second case, relu, and their backward. */
typedef struct norm_relu {
    op_bench statistics, forward, reduce, data;
    bool adds;
    int dy, dz, sums; /* of reduce; dz: where it adds */
} norm_relu;

/* Σ dy·y with the statistics of x itself; how many y are not 0. */
static double value_of(norm_relu *n, int64_t *passed) {
    op_bench_run(&n->statistics);
    const gp_tensor *stats = &n->statistics.op_case.desc.operand[GP_NORM_STATISTICS_STATS];
    for (int64_t c = 0; c < stats->dim[1]; c++)
        for (int64_t i = 0; i < 2; i++)
            op_bench_put(&n->forward, (int)(GP_NORM_APPLY_RELU_MEAN + i), c,
                         op_bench_get(&n->statistics, GP_NORM_STATISTICS_STATS, i * stats->dim[1] + c));
    op_bench_run(&n->forward);
    *passed = 0;
    int64_t elements = gp_tensor_elements(&n->forward.op_case.desc.operand[GP_NORM_APPLY_RELU_Y]);
    for (int64_t i = 0; i < elements; i++) *passed += op_bench_get(&n->forward, GP_NORM_APPLY_RELU_Y, i) > 0;
    return op_bench_dot(&n->forward, GP_NORM_APPLY_RELU_Y, &n->reduce, n->dy);
}

/* What `operand` of the forward changes in the value, against its gradient; not where relu has its kink. */
static void check_difference(norm_relu *n, int operand, int64_t i, double gradient) {
    const double h = 1e-6;
    double at = op_bench_get(&n->forward, operand, i), value[2];
    int64_t passed[3];
    value_of(n, &passed[2]);
    for (int side = 0; side < 2; side++) {
        op_bench_put(&n->forward, operand, i, side ? at + h : at - h);
        if (operand == GP_NORM_APPLY_RELU_X)
            op_bench_put(&n->statistics, GP_NORM_STATISTICS_X, i, side ? at + h : at - h);
        value[side] = value_of(n, &passed[side]);
    }
    op_bench_put(&n->forward, operand, i, at);
    if (operand == GP_NORM_APPLY_RELU_X) op_bench_put(&n->statistics, GP_NORM_STATISTICS_X, i, at);
    if (passed[0] != passed[2] || passed[1] != passed[2]) return;
    assert_near(gradient, (value[1] - value[0]) / (2 * h), 1e-5, &n->data);
}

/* x, dy, mean, variance, and gamma where both have it, for an op of the backward pass. */
static void take_inputs(op_bench *to, int x, int mean, const norm_relu *n) {
    take_operand(to, x, &n->forward, GP_NORM_APPLY_RELU_X);
    take_operand(to, mean, &n->forward, GP_NORM_APPLY_RELU_MEAN);
    take_operand(to, mean + 1, &n->forward, GP_NORM_APPLY_RELU_VARIANCE);
}

static void take_affine(op_bench *to, int gamma, int count, const norm_relu *n) {
    for (int i = 0; i < count; i++)
        if (n->forward.op_case.desc.operand[GP_NORM_APPLY_RELU_GAMMA + i].present)
            take_operand(to, gamma + i, &n->forward, GP_NORM_APPLY_RELU_GAMMA + i);
}

static void run_backward(norm_relu *n, gp_tensor x, gp_tensor pair) {
    if (n->adds) {
        take_inputs(&n->reduce, GP_NORM_ADD_RELU_BACKWARD_REDUCE_X, GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN, n);
        take_operand(&n->reduce, GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y, &n->forward, GP_NORM_APPLY_RELU_Y);
        op_bench_set(&n->reduce, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, x, NULL);
    } else {
        take_inputs(&n->reduce, GP_NORM_RELU_BACKWARD_REDUCE_X, GP_NORM_RELU_BACKWARD_REDUCE_MEAN, n);
        take_affine(&n->reduce, GP_NORM_RELU_BACKWARD_REDUCE_GAMMA, 2, n);
    }
    op_bench_set(&n->reduce, n->sums, pair, NULL);
    op_bench_run(&n->reduce);
    take_inputs(&n->data, GP_NORM_BACKWARD_DATA_X, GP_NORM_BACKWARD_DATA_MEAN, n);
    take_affine(&n->data, GP_NORM_BACKWARD_DATA_GAMMA, n->adds ? 1 : 2, n);
    take_operand(&n->data, GP_NORM_BACKWARD_DATA_DY, &n->reduce, n->adds ? n->dz : n->dy);
    take_operand(&n->data, n->adds ? (int)GP_NORM_BACKWARD_DATA_SUMS : (int)GP_NORM_RELU_BACKWARD_DATA_SUMS, &n->reduce,
                 n->sums);
    op_bench_set(&n->data, n->adds ? (int)GP_NORM_BACKWARD_DATA_DX : (int)GP_NORM_RELU_BACKWARD_DATA_DX, x, NULL);
    op_bench_run(&n->data);
}

_Static_assert((int)GP_NORM_RELU_BACKWARD_DATA_GAMMA == (int)GP_NORM_BACKWARD_DATA_GAMMA &&
                   (int)GP_NORM_RELU_BACKWARD_DATA_DY == (int)GP_NORM_BACKWARD_DATA_DY,
               "both ways share these positions");

static void check_norm_relu(int number) {
    norm_relu n = {.forward = bench_of_case(GP_OP_NORM_APPLY_RELU, number, GP_F64)};
    const gp_op_desc *desc = &n.forward.op_case.desc;
    const gp_tensor x = desc->operand[GP_NORM_APPLY_RELU_X];
    int64_t width = desc->operand[GP_NORM_APPLY_RELU_MEAN].dim[0], elements = gp_tensor_elements(&x), passed;
    const gp_tensor pair = gp_tensor_plain(GP_F64, 2, (const int64_t[]){2, width});
    n.adds = desc->operand[GP_NORM_APPLY_RELU_ADDEND].present;
    n.dy = n.adds ? (int)GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY : (int)GP_NORM_RELU_BACKWARD_REDUCE_DY;
    n.sums = n.adds ? (int)GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS : (int)GP_NORM_RELU_BACKWARD_REDUCE_SUMS;
    n.dz = GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ;
    n.statistics = bench_like(GP_OP_NORM_STATISTICS, &n.forward);
    n.reduce = bench_like(n.adds ? GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE : GP_OP_NORM_RELU_BACKWARD_REDUCE, &n.forward);
    n.data = bench_like(n.adds ? GP_OP_NORM_BACKWARD_DATA : GP_OP_NORM_RELU_BACKWARD_DATA, &n.forward);
    take_operand(&n.statistics, GP_NORM_STATISTICS_X, &n.forward, GP_NORM_APPLY_RELU_X);
    op_bench_set(&n.statistics, GP_NORM_STATISTICS_STATS, stats_of(width), NULL);
    fill_normal(&n.reduce, n.dy, x, number + 1000);
    value_of(&n, &passed);
    run_backward(&n, x, pair);
    int dx = n.adds ? (int)GP_NORM_BACKWARD_DATA_DX : (int)GP_NORM_RELU_BACKWARD_DATA_DX;
    /* Few rows can have next to no variance, where differences say nothing; many take long. */
    int64_t step = 1 + elements / 6;
    for (int64_t i = 0; i < elements && gp_tensor_rows(&x) >= 8 && elements < 20000; i += step) {
        check_difference(&n, GP_NORM_APPLY_RELU_X, i, op_bench_get(&n.data, dx, i));
        if (n.adds) check_difference(&n, GP_NORM_APPLY_RELU_ADDEND, i, op_bench_get(&n.reduce, n.dz, i));
        for (int p = 0; p < 2 && desc->operand[GP_NORM_APPLY_RELU_GAMMA].present; p++)
            check_difference(&n, GP_NORM_APPLY_RELU_GAMMA + p, i % width,
                             op_bench_get(&n.reduce, n.sums, p * width + i % width));
    }
    op_bench_fini(&n.statistics);
    op_bench_fini(&n.forward);
    op_bench_fini(&n.reduce);
    op_bench_fini(&n.data);
}

static void test_differences_of_norm_and_relu(void **state) {
    (void)state;
    for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) check_norm_relu(number);
}

static double loss_of(op_bench *forward) {
    op_bench_run(forward);
    return op_bench_get(forward, GP_CROSS_ENTROPY_FORWARD_PARTIAL, 0);
}

/* The operands of all losses have these positions. */
_Static_assert((int)GP_ELEMENT_LOSS_FORWARD_PARTIAL == (int)GP_CROSS_ENTROPY_FORWARD_PARTIAL &&
                   (int)GP_ELEMENT_LOSS_BACKWARD_DX == (int)GP_CROSS_ENTROPY_BACKWARD_DX,
               "x, target, partial; x, target, scalars, dx");

static void check_loss_differences(gp_op_kind forward_kind, gp_op_kind backward_kind, int number) {
    const double h = 1e-5;
    op_bench forward = bench_of_case(forward_kind, number, GP_F64);
    op_bench backward = bench_like(backward_kind, &forward);
    take_operand(&backward, GP_CROSS_ENTROPY_BACKWARD_X, &forward, GP_CROSS_ENTROPY_FORWARD_X);
    take_operand(&backward, GP_CROSS_ENTROPY_BACKWARD_TARGET, &forward, GP_CROSS_ENTROPY_FORWARD_TARGET);
    op_bench_scalars(&backward, GP_CROSS_ENTROPY_BACKWARD_SCALARS, (gp_step_scalars){.divisor = 3});
    op_bench_set(&backward, GP_CROSS_ENTROPY_BACKWARD_DX, forward.op_case.desc.operand[0], NULL);
    op_bench_run(&backward);
    int64_t elements = gp_tensor_elements(&forward.op_case.desc.operand[0]);
    double scale = fmax(1, fabs(loss_of(&forward)) * 1e-3); /* of what is lost where large sums are subtracted */
    for (int64_t i = 0; i < elements; i += 1 + elements / 20) {
        double x = op_bench_get(&forward, GP_CROSS_ENTROPY_FORWARD_X, i);
        op_bench_put(&forward, GP_CROSS_ENTROPY_FORWARD_X, i, x + h);
        double above = loss_of(&forward);
        op_bench_put(&forward, GP_CROSS_ENTROPY_FORWARD_X, i, x - h);
        double below = loss_of(&forward);
        op_bench_put(&forward, GP_CROSS_ENTROPY_FORWARD_X, i, x);
        assert_near(op_bench_get(&backward, GP_CROSS_ENTROPY_BACKWARD_DX, i), (above - below) / (2 * h) / 3,
                    1e-6 * scale, &backward);
    }
    op_bench_fini(&forward);
    op_bench_fini(&backward);
}

static void test_differences_of_losses(void **state) {
    (void)state;
    for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) {
        check_loss_differences(GP_OP_CROSS_ENTROPY_FORWARD, GP_OP_CROSS_ENTROPY_BACKWARD, number);
        check_loss_differences(GP_OP_ELEMENT_LOSS_FORWARD, GP_OP_ELEMENT_LOSS_BACKWARD, number);
    }
}

/* The same case in f32 and f64: values differ by f32's rounding of inputs and outputs. */
static void test_f32_is_f64_rounded(void **state) {
    (void)state;
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) {
            op_bench narrow = bench_of_case((gp_op_kind)kind, number, GP_F32);
            op_bench wide = bench_of_case((gp_op_kind)kind, number, GP_F64);
            op_bench_run(&narrow);
            op_bench_run(&wide);
            for (int i = 0; i < (int)wide.op_case.desc.operands; i++) {
                const gp_tensor *tensor = &wide.op_case.desc.operand[i];
                if (!tensor->present || wide.op_case.fill[i] == GP_CASE_BYTES) continue;
                double scale = 1;
                int64_t elements = gp_tensor_elements(tensor);
                for (int64_t e = 0; e < elements; e++) scale = fmax(scale, fabs(op_bench_get(&wide, i, e)));
                for (int64_t e = 0; e < elements; e++) {
                    double difference = op_bench_get(&narrow, i, e) - op_bench_get(&wide, i, e);
                    if (!(fabs(difference) <= 2e-6 * scale)) {
                        char text[GP_CASE_TEXT];
                        fail_msg("%s: element %lld of operand %d", gp_op_case_text(text, &narrow.op_case), (long long)e,
                                 i);
                    }
                }
            }
            op_bench_fini(&narrow);
            op_bench_fini(&wide);
        }
    }
}

/* Runs a case with written operand `to` at the address of read operand `from`, and compares with the case apart. */
static void check_in_place(gp_op_cache *cache, gp_op_kind kind, int number, int from, int to) {
    op_bench apart = bench_of_case(kind, number, GP_F32);
    if (!apart.op_case.desc.operand[from].present) {
        op_bench_fini(&apart);
        return;
    }
    op_bench_set(&apart, to, apart.op_case.desc.operand[from], NULL);
    op_bench one = bench_of_case(kind, number, GP_F32);
    one.op_case.desc.operand[to] = one.op_case.desc.operand[from];
    op_bench_run(&apart);
    const gp_prepared *prepared;
    gp_error err = {0};
    assert_int_equal(gp_op_prepare(cache, &gp_ref_kind, &one.op_case.desc, &prepared, &err), GP_OK);
    assert_true(prepared->in_place[to] & 1u << from);
    void *operands[GP_MAX_OPERANDS];
    memcpy(operands, one.host, sizeof operands);
    operands[to] = operands[from];
    assert_int_equal(gp_device_run(&gp_ref_kind, NULL, prepared, operands, NULL, &one.op_case.args, &err), GP_OK);
    assert_memory_equal(operands[to], apart.host[to], gp_tensor_bytes(&apart.op_case.desc.operand[to]));
    op_bench_fini(&apart);
    op_bench_fini(&one);
}

/* What does the work of several ops does it bit for bit. */
static void test_wholes(void **state) {
    (void)state;
    op_whole_check(&gp_ref_kind, GP_F32, 1);
    op_whole_check(&gp_ref_kind, GP_F64, 1);
}

static void test_in_place_is_apart(void **state) {
    (void)state;
    static const struct {
        gp_op_kind kind;
        int from, to;
    } pairs[] = {
        {GP_OP_RELU_FORWARD, GP_RELU_FORWARD_X, GP_RELU_FORWARD_Y},
        {GP_OP_RELU_BACKWARD, GP_RELU_BACKWARD_Y, GP_RELU_BACKWARD_DX},
        {GP_OP_RELU_BACKWARD, GP_RELU_BACKWARD_DY, GP_RELU_BACKWARD_DX},
        {GP_OP_ACTIVATION_FORWARD, GP_ACTIVATION_FORWARD_X, GP_ACTIVATION_FORWARD_Y},
        {GP_OP_ACTIVATION_BACKWARD, GP_ACTIVATION_BACKWARD_A, GP_ACTIVATION_BACKWARD_DX},
        {GP_OP_ACTIVATION_BACKWARD, GP_ACTIVATION_BACKWARD_DY, GP_ACTIVATION_BACKWARD_DX},
        {GP_OP_GROUP_NORM_FORWARD, GP_GROUP_NORM_FORWARD_X, GP_GROUP_NORM_FORWARD_Y},
        {GP_OP_GROUP_NORM_BACKWARD_DATA, GP_GROUP_NORM_BACKWARD_DATA_X, GP_GROUP_NORM_BACKWARD_DATA_DX},
        {GP_OP_GROUP_NORM_BACKWARD_DATA, GP_GROUP_NORM_BACKWARD_DATA_DY, GP_GROUP_NORM_BACKWARD_DATA_DX},
        {GP_OP_ADD, GP_ADD_A, GP_ADD_Y},
        {GP_OP_ADD, GP_ADD_B, GP_ADD_Y},
        {GP_OP_COPY, GP_COPY_X, GP_COPY_Y},
        {GP_OP_DROPOUT, GP_DROPOUT_X, GP_DROPOUT_Y},
        {GP_OP_NORM_APPLY, GP_NORM_APPLY_X, GP_NORM_APPLY_Y},
        {GP_OP_NORM_BACKWARD_DATA, GP_NORM_BACKWARD_DATA_X, GP_NORM_BACKWARD_DATA_DX},
        {GP_OP_NORM_BACKWARD_DATA, GP_NORM_BACKWARD_DATA_DY, GP_NORM_BACKWARD_DATA_DX},
        {GP_OP_NORM_APPLY_RELU, GP_NORM_APPLY_RELU_X, GP_NORM_APPLY_RELU_Y},
        {GP_OP_NORM_RELU_BACKWARD_DATA, GP_NORM_RELU_BACKWARD_DATA_X, GP_NORM_RELU_BACKWARD_DATA_DX},
        {GP_OP_NORM_RELU_BACKWARD_DATA, GP_NORM_RELU_BACKWARD_DATA_DY, GP_NORM_RELU_BACKWARD_DATA_DX},
        {GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, GP_NORM_ADD_RELU_BACKWARD_REDUCE_ADDEND,
         GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ},
        {GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ},
        {GP_OP_CROSS_ENTROPY_BACKWARD, GP_CROSS_ENTROPY_BACKWARD_X, GP_CROSS_ENTROPY_BACKWARD_DX},
        {GP_OP_ELEMENT_LOSS_BACKWARD, GP_ELEMENT_LOSS_BACKWARD_X, GP_ELEMENT_LOSS_BACKWARD_DX},
    };
    gp_op_cache *cache;
    assert_int_equal(gp_op_cache_create(&cache, NULL), GP_OK);
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) {
            check_in_place(cache, pairs[p].kind, number, pairs[p].from, pairs[p].to);
        }
    }
    op_bench other_strides = bench_of_case(GP_OP_ADD, 3, GP_F32);
    other_strides.op_case.desc.operand[GP_ADD_Y].stride[0] += 1;
    op_bench reorder = bench_of_case(GP_OP_REORDER, 3, GP_F32);
    const gp_prepared *prepared;
    assert_int_equal(gp_op_prepare(cache, &gp_ref_kind, &other_strides.op_case.desc, &prepared, NULL), GP_OK);
    assert_int_equal(prepared->in_place[GP_ADD_Y], 0);
    assert_int_equal(gp_op_prepare(cache, &gp_ref_kind, &reorder.op_case.desc, &prepared, NULL), GP_OK);
    assert_int_equal(prepared->in_place[GP_COPY_Y], 0);
    op_bench_fini(&other_strides);
    op_bench_fini(&reorder);
    gp_op_cache_destroy(&cache);
}

/* Which elements of ones of this shape survive; the bench stays open. */
static op_bench dropped(gp_tensor tensor, double p, gp_step_scalars scalars, uint32_t node, int64_t first_sample) {
    op_bench b;
    op_bench_init(&b, &gp_ref_kind, GP_OP_DROPOUT);
    b.op_case.desc.attributes.dropout = (gp_dropout_attributes){p, node, GP_RANDOM_DROPOUT, 0, 0};
    b.op_case.args.first_sample = first_sample;
    op_bench_set(&b, GP_DROPOUT_X, tensor, NULL);
    op_bench_scalars(&b, GP_DROPOUT_SCALARS, scalars);
    op_bench_set(&b, GP_DROPOUT_Y, tensor, NULL);
    for (int64_t i = 0; i < gp_tensor_elements(&tensor); i++) op_bench_put(&b, GP_DROPOUT_X, i, 1);
    op_bench_run(&b);
    return b;
}

static const gp_step_scalars step_one = {.seed = 0x123456789abcdef, .step = 1};

static void test_dropout_share(void **state) {
    (void)state;
    const double shares[] = {0, 0.1, 0.5, 0.9};
    for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
        double p = shares[s];
        op_bench b = dropped(op_slice(GP_F64, 2, 4, 20, 10, 10, 5), p, step_one, 7, 0);
        int64_t kept = 0, elements = 20 * 10 * 10 * 5;
        for (int64_t i = 0; i < elements; i++) {
            double y = op_bench_get(&b, GP_DROPOUT_Y, i);
            assert_true(y == 0 || y == 1 / (1 - p));
            kept += y != 0;
        }
        double expected = (double)elements * (1 - p), deviation = sqrt((double)elements * p * (1 - p));
        assert_true(fabs((double)kept - expected) <= 4 * deviation);
        op_bench_fini(&b);
    }
}

static int64_t count_different(const op_bench *a, const op_bench *b) {
    int64_t different = 0, elements = gp_tensor_elements(&a->op_case.desc.operand[GP_DROPOUT_Y]);
    for (int64_t i = 0; i < elements; i++) {
        different += op_bench_get(a, GP_DROPOUT_Y, i) != op_bench_get(b, GP_DROPOUT_Y, i);
    }
    return different;
}

static void test_dropout_depends_on_seed_step_node_and_place(void **state) {
    (void)state;
    gp_tensor tensor = op_plain(GP_F32, 2, 10, 100, 0, 0);
    gp_step_scalars seed = step_one, step = step_one;
    seed.seed ^= 1;
    step.step++;
    op_bench first = dropped(tensor, 0.5, step_one, 7, 3);
    op_bench others[] = {dropped(tensor, 0.5, step_one, 7, 3), dropped(tensor, 0.5, seed, 7, 3),
                         dropped(tensor, 0.5, step, 7, 3), dropped(tensor, 0.5, step_one, 8, 3),
                         dropped(tensor, 0.5, step_one, 7, 13)};
    for (int i = 0; i < 5; i++) {
        int64_t different = count_different(&first, &others[i]);
        assert_true(i == 0 ? different == 0 : different > 400 && different < 600);
        op_bench_fini(&others[i]);
    }
    op_bench_fini(&first);
}

/* Pieces of 2, 2 and 1 samples draw what the whole draws. */
static void test_dropout_does_not_see_the_cut(void **state) {
    (void)state;
    const int64_t first[] = {0, 2, 4, 5}, sample = 3 * 5 * 7;
    op_bench whole = dropped(op_slice(GP_F32, 1, 4, 5, 3, 5, 7), 0.4, step_one, 7, 20);
    for (int piece = 0; piece < 3; piece++) {
        int64_t samples = first[piece + 1] - first[piece];
        op_bench b = dropped(op_plain(GP_F32, 4, samples, 3, 5, 7), 0.4, step_one, 7, 20 + first[piece]);
        for (int64_t i = 0; i < samples * sample; i++) {
            assert_true(op_bench_get(&b, GP_DROPOUT_Y, i) ==
                        op_bench_get(&whole, GP_DROPOUT_Y, first[piece] * sample + i));
        }
        op_bench_fini(&b);
    }
    op_bench_fini(&whole);
}

/* A picture [c,h,w] and its flat form draw alike: elements count in channels-first order. And a literal mask, computed
 * from the counters by hand, so that the order of words and the key cannot change unseen. */
static void test_dropout_counts_channels_first(void **state) {
    (void)state;
    const int64_t h = 3, w = 5, c = 7;
    op_bench picture = dropped(op_plain(GP_F32, 4, 2, h, w, c), 0.5, step_one, 7, 1);
    op_bench flat = dropped(op_plain(GP_F32, 2, 2, c * h * w, 0, 0), 0.5, step_one, 7, 1);
    for (int64_t n = 0; n < 2; n++) {
        for (int64_t e = 0; e < c * h * w; e++) {
            int64_t channel = e / (h * w), place = e % (h * w);
            double expected = op_bench_get(&flat, GP_DROPOUT_Y, n * c * h * w + e);
            assert_true(op_bench_get(&picture, GP_DROPOUT_Y, (n * h * w + place) * c + channel) == expected);
            gp_philox counter = {{(uint32_t)e / 4, (uint32_t)n + 1, 7 << 8 | GP_RANDOM_DROPOUT, 1}};
            uint32_t word = gp_philox_draw(step_one.seed, counter).word[e % 4];
            assert_true(expected == (gp_philox_uniform(word) < 0.5 ? 0 : 2));
        }
    }
    op_bench_fini(&picture);
    op_bench_fini(&flat);
}

/* Whole channels: all places of a channel alike, drawn by the channel's number from the sample's place; pieces of a
 * mini-batch draw what the whole draws. */
static void test_dropout_of_channels(void **state) {
    (void)state;
    const int64_t n = 5, h = 3, w = 2, c = 70;
    int64_t kept = 0;
    for (int64_t first = 0; first < n; first++) {
        op_bench b;
        op_bench_init(&b, &gp_ref_kind, GP_OP_DROPOUT);
        b.op_case.desc.attributes.dropout = (gp_dropout_attributes){0.25, 7, GP_RANDOM_DROPOUT, 1, 0};
        b.op_case.args.first_sample = 20 + first;
        gp_tensor tensor = op_slice(GP_F32, 2, 4, n - first, h, w, c);
        op_bench_set(&b, GP_DROPOUT_X, tensor, NULL);
        op_bench_scalars(&b, GP_DROPOUT_SCALARS, step_one);
        op_bench_set(&b, GP_DROPOUT_Y, tensor, NULL);
        for (int64_t i = 0; i < gp_tensor_elements(&tensor); i++) op_bench_put(&b, GP_DROPOUT_X, i, 3);
        op_bench_run(&b);
        for (int64_t i = 0; i < gp_tensor_elements(&tensor); i++) {
            int64_t channel = i % c, sample = first + i / (h * w * c);
            gp_philox counter = {{(uint32_t)channel / 4, (uint32_t)sample + 20, 7 << 8 | GP_RANDOM_DROPOUT, 1}};
            bool keeps = gp_philox_uniform(gp_philox_draw(step_one.seed, counter).word[channel % 4]) >= 0.25;
            assert_true(op_bench_get(&b, GP_DROPOUT_Y, i) == (keeps ? 4 : 0));
            kept += first == 0 && keeps;
        }
        op_bench_fini(&b);
    }
    assert_in_range(kept, 6 * 220, 6 * 305); /* of 350 channels about 262 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adjoints_of_products),
        cmocka_unit_test(test_adjoints_of_pools_and_flatten),
        cmocka_unit_test(test_differences_of_norm),
        cmocka_unit_test(test_differences_of_norm_and_relu),
        cmocka_unit_test(test_differences_of_losses),
        cmocka_unit_test(test_f32_is_f64_rounded),
        cmocka_unit_test(test_in_place_is_apart),
        cmocka_unit_test(test_wholes),
        cmocka_unit_test(test_dropout_share),
        cmocka_unit_test(test_dropout_depends_on_seed_step_node_and_place),
        cmocka_unit_test(test_dropout_does_not_see_the_cut),
        cmocka_unit_test(test_dropout_counts_channels_first),
        cmocka_unit_test(test_dropout_of_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
