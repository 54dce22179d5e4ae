/* A bench for one op with operands written out by hand: set operands, run, compare. For cmocka tests, main thread only.
 *
 * Values are given as doubles in row-major order of the tensor, whatever its dtype and strides; gaps between elements
 * hold poison before and have to hold it afterwards.
 */
#ifndef GP_TESTS_DEVICE_OP_BENCH_H
#define GP_TESTS_DEVICE_OP_BENCH_H

#include "device/device.h"
#include "device/op_cases.h"

typedef struct op_bench {
    const gp_device_kind *kind;
    gp_op_case op_case;
    void *host[GP_MAX_OPERANDS];
} op_bench;

/* Begins with an op of threads 1 and no operands. */
void op_bench_init(op_bench *bench, const gp_device_kind *kind, gp_op_kind op);
void op_bench_fini(op_bench *bench);
/* values NULL: poison. */
void op_bench_set(op_bench *bench, int operand, gp_tensor tensor, const double *values);
void op_bench_scalars(op_bench *bench, int operand, gp_step_scalars scalars);
/* Runs it, and fails the test where that does not succeed or gaps are overwritten. */
void op_bench_run(op_bench *bench);
gp_status op_bench_try(op_bench *bench, gp_error *err);
double op_bench_get(const op_bench *bench, int operand, int64_t i);
void op_bench_put(op_bench *bench, int operand, int64_t i, double value);
/* Fails the test where element i is further from values[i] than tolerance, NaN being equal to NaN. */
void op_bench_expect(const op_bench *bench, int operand, const double *values, double tolerance);
/* Σ over the elements of a[i]·b[i]. */
double op_bench_dot(const op_bench *a, int operand_a, const op_bench *b, int operand_b);

/* A plain tensor; and one that is a slice of the channels of a tensor wider by `more`. */
gp_tensor op_plain(gp_dtype dtype, int rank, int64_t a, int64_t b, int64_t c, int64_t d);
gp_tensor op_slice(gp_dtype dtype, int64_t more, int rank, int64_t a, int64_t b, int64_t c, int64_t d);

#endif
