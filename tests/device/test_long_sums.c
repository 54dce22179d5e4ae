/* Long sums of numbers that are nearly equal: the CPU device against the reference device, which adds in f64. A sum
 * that goes on in f32 from element to element rounds in the same direction again and again here, and loses up to five
 * digits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/op_bench.h"
#include "device/op_commit.h"
#include "device/ref/ref.h"

enum { ELEMENTS = 1 << 19 };

/* What the sums in f64 leave: the result's rounding to f32, and ref's. Sums in f32 over at most 128 numbers, which are
 * then added in f64, may be off by 128 roundings. */
#define EXACT  0x1p-23
#define BLOCKS (128 * 0x1p-24 + EXACT)

/* Elements of an operand: evenly spread over [mean − spread, mean + spread], the same in every run. */
typedef struct long_operand {
    int rank; /* 0: absent */
    int64_t dim[4];
    double mean, spread;
    gp_dtype dtype;
} long_operand;

typedef struct long_sum {
    const char *name;
    gp_op_kind kind;
    int checked;  /* the written operand that is compared */
    double bound; /* of its difference from ref, as a share of its largest element */
    bool own;     /* no library's code: the number of threads changes no bit */
    int64_t groups, kernel;
    long_operand operand[GP_MAX_OPERANDS];
} long_sum;

/* The numbers of the issue that this test was made for: near 100, and gradients near 1e-4. */
#define LARGE  100, 1e-4, GP_F32
#define SMALL  1e-4, 1e-9, GP_F32
#define RESULT 0, 0, GP_F32
#define TOTAL  0, 0, GP_F64

static const long_sum sums[] = {
    {"conv 1x1, 1 channel: db",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     GP_CONV_BACKWARD_WEIGHTS_DB,
     EXACT,
     true,
     1,
     1,
     {{4, {2, 512, 512, 1}, LARGE}, {4, {2, 512, 512, 1}, SMALL}, {4, {1, 1, 1, 1}, RESULT}, {1, {1}, RESULT}}},
    {"conv 1x1, 1 channel: dw",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     GP_CONV_BACKWARD_WEIGHTS_DW,
     EXACT,
     true,
     1,
     1,
     {{4, {2, 512, 512, 1}, LARGE}, {4, {2, 512, 512, 1}, SMALL}, {4, {1, 1, 1, 1}, RESULT}, {0}}},
    {"conv 1x1 depthwise: dw",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     GP_CONV_BACKWARD_WEIGHTS_DW,
     EXACT,
     true,
     72,
     1,
     {{4, {2, 60, 61, 72}, LARGE}, {4, {2, 60, 61, 72}, SMALL}, {4, {72, 1, 1, 1}, RESULT}, {1, {72}, RESULT}}},
    {"conv 3x3, 3 channels to 5: db",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     GP_CONV_BACKWARD_WEIGHTS_DB,
     EXACT,
     false,
     1,
     3,
     {{4, {2, 128, 128, 3}, LARGE}, {4, {2, 128, 128, 5}, SMALL}, {4, {5, 3, 3, 3}, RESULT}, {1, {5}, RESULT}}},
    {"linear: db",
     GP_OP_LINEAR_BACKWARD_WEIGHTS,
     GP_LINEAR_BACKWARD_WEIGHTS_DB,
     EXACT,
     false,
     0,
     0,
     {{2, {ELEMENTS / 2, 1}, LARGE}, {2, {ELEMENTS / 2, 2}, SMALL}, {2, {2, 1}, RESULT}, {1, {2}, RESULT}}},
    {"norm_statistics",
     GP_OP_NORM_STATISTICS,
     GP_NORM_STATISTICS_STATS,
     EXACT,
     true,
     0,
     0,
     {{2, {ELEMENTS, 1}, LARGE}, {2, {3, 1}, RESULT}}},
    {"norm_backward_reduce",
     GP_OP_NORM_BACKWARD_REDUCE,
     GP_NORM_BACKWARD_REDUCE_SUMS,
     BLOCKS,
     true,
     0,
     0,
     {{2, {ELEMENTS, 1}, LARGE},
      {2, {ELEMENTS, 1}, SMALL},
      {1, {1}, 99, 0, GP_F32},
      {1, {1}, 1, 0, GP_F32},
      {2, {2, 1}, RESULT}}},
    {"norm_relu_backward_reduce",
     GP_OP_NORM_RELU_BACKWARD_REDUCE,
     GP_NORM_RELU_BACKWARD_REDUCE_SUMS,
     BLOCKS,
     true,
     0,
     0,
     {{2, {ELEMENTS, 1}, LARGE},
      {2, {ELEMENTS, 1}, SMALL},
      {1, {1}, 99, 0, GP_F32},
      {1, {1}, 1, 0, GP_F32},
      {0},
      {0},
      {2, {2, 1}, RESULT}}},
    {"group_norm_forward",
     GP_OP_GROUP_NORM_FORWARD,
     GP_GROUP_NORM_FORWARD_STATS,
     EXACT,
     true,
     1,
     0,
     {{3, {1, ELEMENTS, 1}, LARGE}, {0}, {0}, {3, {1, ELEMENTS, 1}, RESULT}, {3, {1, 1, 2}, RESULT}}},
    {"group_norm_backward_weights: dgamma",
     GP_OP_GROUP_NORM_BACKWARD_WEIGHTS,
     GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA,
     3 * EXACT, /* of each product, before it is added */
     true,
     1,
     0,
     {{3, {1, ELEMENTS, 1}, LARGE},
      {3, {1, ELEMENTS, 1}, SMALL},
      {3, {1, 1, 2}, 1, 0, GP_F32},
      {1, {1}, RESULT},
      {1, {1}, RESULT}}},
    {"group_norm_backward_weights: dbeta",
     GP_OP_GROUP_NORM_BACKWARD_WEIGHTS,
     GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA,
     EXACT,
     true,
     1,
     0,
     {{3, {1, ELEMENTS, 1}, LARGE},
      {3, {1, ELEMENTS, 1}, SMALL},
      {3, {1, 1, 2}, 1, 0, GP_F32},
      {1, {1}, RESULT},
      {1, {1}, RESULT}}},
    {"mean_pool",
     GP_OP_MEAN_POOL_FORWARD,
     GP_MEAN_POOL_FORWARD_Y,
     BLOCKS,
     true,
     0,
     0,
     {{4, {1, 512, 1024, 1}, LARGE}, {4, {1, 1, 1, 1}, RESULT}}},
    {"avg_pool",
     GP_OP_AVG_POOL_FORWARD,
     GP_AVG_POOL_FORWARD_Y,
     EXACT,
     true,
     0,
     512,
     {{4, {2, 512, 512, 1}, LARGE}, {4, {2, 1, 1, 1}, RESULT}}},
    {"square_sum", GP_OP_SQUARE_SUM, GP_SQUARE_SUM_SUM, EXACT, true, 0, 0, {{1, {ELEMENTS}, LARGE}, {1, {1}, TOTAL}}},
    {"mse",
     GP_OP_ELEMENT_LOSS_FORWARD,
     GP_ELEMENT_LOSS_FORWARD_PARTIAL,
     EXACT,
     true,
     0,
     0,
     {{2, {2, ELEMENTS / 2}, LARGE}, {2, {2, ELEMENTS / 2}, SMALL}, {1, {2}, TOTAL}}},
    {"cross_entropy",
     GP_OP_CROSS_ENTROPY_FORWARD,
     GP_CROSS_ENTROPY_FORWARD_PARTIAL,
     EXACT,
     true,
     0,
     0,
     {{2, {ELEMENTS / 4, 4}, SMALL}, {1, {ELEMENTS / 4}, 0, 0, GP_I64}, {1, {2}, TOTAL}}},
};

static void fill(const long_operand *its, int i, void *data) {
    uint64_t state = (uint64_t)i + 1;
    int64_t elements = 1;
    for (int d = 0; d < its->rank; d++) elements *= its->dim[d];
    for (int64_t e = 0; e < elements; e++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        double value = its->mean + ((double)(state >> 40) * 0x1p-23 - 1) * its->spread;
        if (its->dtype == GP_I64)
            ((int64_t *)data)[e] = 0;
        else
            ((float *)data)[e] = (float)value;
    }
}

static void set_attributes(gp_op_desc *desc, const long_sum *sum) {
    int64_t pad = desc->kind == GP_OP_CONV_BACKWARD_WEIGHTS ? sum->kernel / 2 : 0;
    switch ((int)sum->kind) {
    case GP_OP_CONV_BACKWARD_WEIGHTS:
        desc->attributes.conv =
            (gp_conv_attributes){{sum->kernel, sum->kernel}, {1, 1}, {pad, pad}, {1, 1}, sum->groups};
        break;
    case GP_OP_AVG_POOL_FORWARD:
        desc->attributes.pool = (gp_pool_attributes){{sum->kernel, sum->kernel}, {1, 1}, {0, 0}, 0};
        break;
    case GP_OP_GROUP_NORM_FORWARD:
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS: desc->attributes.group_norm.groups = sum->groups; break;
    case GP_OP_CROSS_ENTROPY_FORWARD: desc->attributes.cross_entropy.ignore = -1; break;
    default: break;
    }
}

static void run_on(const gp_device_kind *kind, const long_sum *sum, int threads, op_bench *bench) {
    op_bench_init(bench, kind, sum->kind);
    bench->op_case.desc.threads = (uint32_t)threads;
    set_attributes(&bench->op_case.desc, sum);
    for (int i = 0; i < gp_op_operand_count(sum->kind); i++) {
        const long_operand *its = &sum->operand[i];
        if (its->rank == 0) continue;
        op_bench_set(bench, i, gp_tensor_plain(its->dtype, its->rank, its->dim), NULL);
        if (gp_op_reads(sum->kind, i)) fill(its, i, bench->host[i]);
    }
    op_bench_run(bench);
}

/* The largest difference, as a share of the largest element. */
static double error_of(const op_bench *got, const op_bench *want, int checked) {
    double largest = 0, difference = 0;
    int64_t elements = gp_tensor_elements(&want->op_case.desc.operand[checked]);
    for (int64_t i = 0; i < elements; i++) {
        double value = op_bench_get(want, checked, i);
        largest = fmax(largest, fabs(value));
        difference = fmax(difference, fabs(op_bench_get(got, checked, i) - value));
    }
    return difference / largest;
}

static void check_threads(const long_sum *sum, const op_bench *one) {
    op_bench three;
    run_on(&gp_cpu_kind, sum, 3, &three);
    size_t bytes = gp_tensor_bytes(&one->op_case.desc.operand[sum->checked]);
    if (memcmp(three.host[sum->checked], one->host[sum->checked], bytes) != 0)
        fail_msg("%s: three threads find other bits than one", sum->name);
    op_bench_fini(&three);
}

static void test_long_sums(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof sums / sizeof sums[0]; s++) {
        op_bench got, want;
        run_on(&gp_cpu_kind, &sums[s], 1, &got);
        run_on(&gp_ref_kind, &sums[s], 1, &want);
        double error = error_of(&got, &want, sums[s].checked);
        print_message("%-36s %.1e\n", sums[s].name, error);
        if (!(error <= sums[s].bound))
            fail_msg("%s: off by %.2g of the largest, bound %.2g", sums[s].name, error, sums[s].bound);
        if (sums[s].own) check_threads(&sums[s], &got);
        op_bench_fini(&got);
        op_bench_fini(&want);
    }
}

static void test_large_mean_of_pieces(void **state) {
    (void)state;
    check_large_mean_commit(&gp_ref_kind);
    check_large_mean_commit(&gp_cpu_kind);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_sums),
        cmocka_unit_test(test_large_mean_of_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
