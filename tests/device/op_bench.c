#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/op_bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/op_run.h"

void op_bench_init(op_bench *bench, const gp_device_kind *kind, gp_op_kind op) {
    memset(bench, 0, sizeof *bench);
    bench->kind = kind;
    gp_op_desc_init(&bench->op_case.desc, op);
    bench->op_case.desc.threads = 1;
}

void op_bench_fini(op_bench *bench) {
    for (int i = 0; i < GP_MAX_OPERANDS; i++) free(bench->host[i]);
    memset(bench, 0, sizeof *bench);
}

static size_t offset_of(const gp_tensor *tensor, int64_t i) {
    int64_t offset = 0;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        offset += i % tensor->dim[d] * tensor->stride[d];
        i /= tensor->dim[d];
    }
    return (size_t)offset;
}

double op_bench_get(const op_bench *bench, int operand, int64_t i) {
    const gp_tensor *tensor = &bench->op_case.desc.operand[operand];
    size_t at = offset_of(tensor, i);
    const void *data = bench->host[operand];
    switch (tensor->dtype) {
    case GP_F32: return (double)((const float *)data)[at];
    case GP_F64: return ((const double *)data)[at];
    case GP_I32: return (double)((const int32_t *)data)[at];
    case GP_I64: return (double)((const int64_t *)data)[at];
    default: return (double)((const uint8_t *)data)[at];
    }
}

void op_bench_put(op_bench *bench, int operand, int64_t i, double value) {
    const gp_tensor *tensor = &bench->op_case.desc.operand[operand];
    size_t at = offset_of(tensor, i);
    void *data = bench->host[operand];
    switch (tensor->dtype) {
    case GP_F32: ((float *)data)[at] = (float)value; break;
    case GP_F64: ((double *)data)[at] = value; break;
    case GP_I32: ((int32_t *)data)[at] = (int32_t)value; break;
    case GP_I64: ((int64_t *)data)[at] = (int64_t)value; break;
    default: ((uint8_t *)data)[at] = (uint8_t)value; break;
    }
}

void op_bench_set(op_bench *bench, int operand, gp_tensor tensor, const double *values) {
    free(bench->host[operand]);
    bench->op_case.desc.operand[operand] = tensor;
    bench->host[operand] = malloc(gp_tensor_bytes(&tensor));
    assert_non_null(bench->host[operand]);
    memset(bench->host[operand], 0xff, gp_tensor_bytes(&tensor));
    if (!values) return;
    int64_t elements = gp_tensor_elements(&tensor);
    for (int64_t i = 0; i < elements; i++) op_bench_put(bench, operand, i, values[i]);
}

void op_bench_scalars(op_bench *bench, int operand, gp_step_scalars scalars) {
    op_bench_set(bench, operand, gp_tensor_scalars(), NULL);
    memcpy(bench->host[operand], &scalars, sizeof scalars);
}

gp_status op_bench_try(op_bench *bench, gp_error *err) {
    return gp_op_case_run(bench->kind, &bench->op_case, bench->host, err);
}

void op_bench_run(op_bench *bench) {
    gp_error err = {0};
    if (op_bench_try(bench, &err) != GP_OK) fail_msg("%s", err.text);
    for (int i = 0; i < (int)bench->op_case.desc.operands; i++) {
        const gp_tensor *tensor = &bench->op_case.desc.operand[i];
        if (tensor->present) assert_true(gp_op_gaps_kept(tensor, bench->host[i]));
    }
}

void op_bench_expect(const op_bench *bench, int operand, const double *values, double tolerance) {
    const gp_op_desc *desc = &bench->op_case.desc;
    int64_t elements = gp_tensor_elements(&desc->operand[operand]);
    for (int64_t i = 0; i < elements; i++) {
        double got = op_bench_get(bench, operand, i);
        bool equal = got == values[i] || (isnan(got) && isnan(values[i])) || fabs(got - values[i]) <= tolerance;
        if (!equal) {
            fail_msg("%s: element %lld of %s is %.17g, not %.17g", gp_op_name(desc->kind), (long long)i,
                     gp_op_operand_name(desc->kind, operand), got, values[i]);
        }
    }
}

double op_bench_dot(const op_bench *a, int operand_a, const op_bench *b, int operand_b) {
    int64_t elements = gp_tensor_elements(&a->op_case.desc.operand[operand_a]);
    assert_true(gp_tensor_same_dims(&a->op_case.desc.operand[operand_a], &b->op_case.desc.operand[operand_b]));
    double sum = 0;
    for (int64_t i = 0; i < elements; i++) sum += op_bench_get(a, operand_a, i) * op_bench_get(b, operand_b, i);
    return sum;
}

gp_tensor op_plain(gp_dtype dtype, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return gp_tensor_plain(dtype, rank, (const int64_t[]){a, b, c, d});
}

gp_tensor op_slice(gp_dtype dtype, int64_t more, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    int64_t dim[] = {a, b, c, d};
    int64_t channels = dim[rank - 1];
    dim[rank - 1] += more;
    return gp_tensor_channels(gp_tensor_plain(dtype, rank, dim), channels);
}
