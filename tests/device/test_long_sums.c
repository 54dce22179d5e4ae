/* Sums over two million elements whose mean is large beside their spread: the CPU device against the reference device,
 * which adds in f64. A sum that goes on in f32 from element to element loses up to four digits here. */
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

enum { ELEMENTS = 1 << 21 };

/* Elements of an operand: evenly spread over [mean − spread, mean + spread], the same in every run. */
typedef struct fill {
    double mean, spread;
} fill;

typedef struct operand {
    int rank;
    int64_t dim[4];
    fill fill;
} long_operand;

/* Operands in the op's order; rank 0: absent. Written ones need no fill. */
typedef struct long_sum {
    const char *name;
    gp_op_kind kind;
    long_operand operand[GP_MAX_OPERANDS];
    gp_conv_attributes conv;
    double bound; /* of the largest element */
} long_sum;

#define ONE_BY_ONE(g)                                                                                                  \
    { {1, 1}, {1, 1}, {0, 0}, {1, 1}, g }
#define THREE_BY_THREE(g)                                                                                              \
    { {3, 3}, {1, 1}, {1, 1}, {1, 1}, g }
#define LARGE                                                                                                          \
    { 100, 1 }
#define SMALL                                                                                                          \
    { 1e-4, 1e-5 }

static const long_sum sums[] = {
    {"conv 1x1, 1 channel",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     {{4, {8, 512, 512, 1}, LARGE}, {4, {8, 512, 512, 1}, SMALL}, {4, {1, 1, 1, 1}, {0, 0}}, {1, {1}, {0, 0}}},
     ONE_BY_ONE(1),
     1e-7},
    {"conv 3x3, 1 channel",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     {{4, {8, 512, 512, 1}, LARGE}, {4, {8, 512, 512, 1}, SMALL}, {4, {1, 1, 3, 3}, {0, 0}}, {1, {1}, {0, 0}}},
     THREE_BY_THREE(1),
     1e-7},
    {"conv 3x3, 3 channels to 8",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     {{4, {8, 128, 256, 3}, LARGE}, {4, {8, 128, 256, 8}, SMALL}, {4, {8, 3, 3, 3}, {0, 0}}, {1, {8}, {0, 0}}},
     THREE_BY_THREE(1),
     1e-7},
    {"conv 1x1, 16 channels to 8",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     {{4, {8, 128, 256, 16}, LARGE}, {4, {8, 128, 256, 8}, SMALL}, {4, {8, 16, 1, 1}, {0, 0}}, {1, {8}, {0, 0}}},
     ONE_BY_ONE(1),
     1e-7},
    {"conv 1x1 depthwise, 8 channels",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     {{4, {8, 128, 256, 8}, LARGE}, {4, {8, 128, 256, 8}, SMALL}, {4, {8, 1, 1, 1}, {0, 0}}, {1, {8}, {0, 0}}},
     ONE_BY_ONE(8),
     1e-7},
    {"conv 1x1 depthwise, 64 channels",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     {{4, {8, 64, 64, 64}, LARGE}, {4, {8, 64, 64, 64}, SMALL}, {4, {64, 1, 1, 1}, {0, 0}}, {1, {64}, {0, 0}}},
     ONE_BY_ONE(64),
     1e-7},
    {"conv 3x3 depthwise, 8 channels",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     {{4, {8, 128, 256, 8}, LARGE}, {4, {8, 128, 256, 8}, SMALL}, {4, {8, 1, 3, 3}, {0, 0}}, {1, {8}, {0, 0}}},
     THREE_BY_THREE(8),
     1e-7},
    {"conv 3x3 depthwise, 64 channels",
     GP_OP_CONV_BACKWARD_WEIGHTS,
     {{4, {8, 64, 64, 64}, LARGE}, {4, {8, 64, 64, 64}, SMALL}, {4, {64, 1, 3, 3}, {0, 0}}, {1, {64}, {0, 0}}},
     THREE_BY_THREE(64),
     1e-7},
    {"linear, 8 to 8",
     GP_OP_LINEAR_BACKWARD_WEIGHTS,
     {{2, {ELEMENTS / 8, 8}, LARGE}, {2, {ELEMENTS / 8, 8}, SMALL}, {2, {8, 8}, {0, 0}}, {1, {8}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"linear, 1 to 1",
     GP_OP_LINEAR_BACKWARD_WEIGHTS,
     {{2, {ELEMENTS, 1}, LARGE}, {2, {ELEMENTS, 1}, SMALL}, {2, {1, 1}, {0, 0}}, {1, {1}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"linear forward, 2097152 to 1",
     GP_OP_LINEAR_FORWARD,
     {{2, {1, ELEMENTS}, LARGE}, {2, {1, ELEMENTS}, SMALL}, {0, {0}, {0, 0}}, {2, {1, 1}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"norm_statistics, 1 channel",
     GP_OP_NORM_STATISTICS,
     {{2, {ELEMENTS, 1}, LARGE}, {2, {2, 1}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"norm_statistics, 8 channels",
     GP_OP_NORM_STATISTICS,
     {{2, {ELEMENTS / 8, 8}, LARGE}, {2, {2, 8}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"norm_backward_reduce, 1 channel",
     GP_OP_NORM_BACKWARD_REDUCE,
     {{2, {ELEMENTS, 1}, LARGE}, {2, {ELEMENTS, 1}, SMALL}, {1, {1}, {99, 0}}, {1, {1}, {1, 0}}, {2, {2, 1}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"norm_backward_reduce, 8 channels",
     GP_OP_NORM_BACKWARD_REDUCE,
     {{2, {ELEMENTS / 8, 8}, LARGE},
      {2, {ELEMENTS / 8, 8}, SMALL},
      {1, {8}, {99, 0}},
      {1, {8}, {1, 0}},
      {2, {2, 8}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"mean_pool",
     GP_OP_MEAN_POOL_FORWARD,
     {{4, {1, 1024, 2048, 1}, LARGE}, {4, {1, 1, 1, 1}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"square_sum", GP_OP_SQUARE_SUM, {{1, {ELEMENTS}, LARGE}, {0, {0}, {0, 0}}}, {{0}, {0}, {0}, {0}, 0}, 1e-7},
    {"mse",
     GP_OP_ELEMENT_LOSS_FORWARD,
     {{2, {8, ELEMENTS / 8}, LARGE}, {2, {8, ELEMENTS / 8}, SMALL}, {1, {2}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
    {"cross_entropy",
     GP_OP_CROSS_ENTROPY_FORWARD,
     {{2, {ELEMENTS / 8, 8}, LARGE}, {1, {ELEMENTS / 8}, {0, 0}}, {1, {2}, {0, 0}}},
     {{0}, {0}, {0}, {0}, 0},
     1e-7},
};

static double next_number(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 40) / (double)(1 << 24);
}

static gp_dtype dtype_of(gp_op_kind kind, int operand) {
    if (kind == GP_OP_CROSS_ENTROPY_FORWARD && operand == GP_CROSS_ENTROPY_FORWARD_TARGET) return GP_I64;
    bool sum = (kind == GP_OP_CROSS_ENTROPY_FORWARD || kind == GP_OP_ELEMENT_LOSS_FORWARD) && operand == 2;
    return sum || (kind == GP_OP_SQUARE_SUM && operand == GP_SQUARE_SUM_SUM) ? GP_F64 : GP_F32;
}

static void set_operand(op_bench *bench, const long_sum *sum, int i) {
    const long_operand *its = &sum->operand[i];
    bool is_number = sum->kind == GP_OP_SQUARE_SUM && i == GP_SQUARE_SUM_SUM;
    if (is_number) op_bench_set(bench, i, gp_tensor_plain(GP_F64, 1, (const int64_t[]){1}), NULL);
    if (its->rank == 0) return;
    gp_tensor tensor = gp_tensor_plain(dtype_of(sum->kind, i), its->rank, its->dim);
    op_bench_set(bench, i, tensor, NULL);
    if (!gp_op_reads(sum->kind, i)) return;
    uint64_t state = (uint64_t)i + 1;
    int64_t elements = gp_tensor_elements(&tensor);
    for (int64_t e = 0; e < elements; e++) {
        double value = its->fill.mean + (2 * next_number(&state) - 1) * its->fill.spread;
        if (tensor.dtype == GP_I64)
            ((int64_t *)bench->host[i])[e] = e % 8;
        else
            ((float *)bench->host[i])[e] = (float)value;
    }
}

static void run_on(const gp_device_kind *kind, const long_sum *sum, op_bench *bench) {
    op_bench_init(bench, kind, sum->kind);
    if (sum->conv.kernel[0]) bench->op_case.desc.attributes.conv = sum->conv;
    if (sum->kind == GP_OP_CROSS_ENTROPY_FORWARD) bench->op_case.desc.attributes.cross_entropy.ignore = -1;
    for (int i = 0; i < gp_op_operand_count(sum->kind); i++) set_operand(bench, sum, i);
    op_bench_run(bench);
}

/* The largest difference of an operand, of its largest element. */
static double error_of(const op_bench *got, const op_bench *want, int operand) {
    double largest = 0, difference = 0;
    int64_t elements = gp_tensor_elements(&want->op_case.desc.operand[operand]);
    for (int64_t i = 0; i < elements; i++) {
        double value = op_bench_get(want, operand, i);
        largest = fmax(largest, fabs(value));
        difference = fmax(difference, fabs(op_bench_get(got, operand, i) - value));
    }
    return difference / largest;
}

static void test_long_sums(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof sums / sizeof sums[0]; s++) {
        op_bench got, want;
        run_on(&gp_cpu_kind, &sums[s], &got);
        run_on(&gp_ref_kind, &sums[s], &want);
        for (int i = 0; i < gp_op_operand_count(sums[s].kind); i++) {
            if (!gp_op_writes(sums[s].kind, i) || !want.host[i]) continue;
            double error = error_of(&got, &want, i);
            print_message("%-36s %-8s %.1e\n", sums[s].name, gp_op_operand_name(sums[s].kind, i), error);
        }
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
