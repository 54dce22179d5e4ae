/* Losses of the CPU device: gaps between rows change no bit, the class of a row is the first of the largest, and
 * gradients keep their digits where the loss is small. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/op_bench.h"
#include "device/ref/ref.h"

static double pseudo_random(int64_t i) {
    return (double)(i * 7919 % 2003) / 200 - 5;
}

static gp_tensor pixels(int64_t gap, int64_t width) {
    return op_slice(GP_F32, gap, 4, 3, 19, 23, width);
}

static double element_loss(uint32_t function, int64_t width, int64_t gap) {
    op_bench bench;
    op_bench_init(&bench, &gp_cpu_kind, GP_OP_ELEMENT_LOSS_FORWARD);
    bench.op_case.desc.attributes.element_loss.function = function;
    for (int i = 0; i < 2; i++) {
        op_bench_set(&bench, i, pixels(gap * (i + 1), width), NULL);
        for (int64_t e = 0; e < 3 * 19 * 23 * width; e++) op_bench_put(&bench, i, e, pseudo_random(e + 1000 * i));
    }
    op_bench_set(&bench, GP_ELEMENT_LOSS_FORWARD_PARTIAL, op_plain(GP_F64, 1, 2, 0, 0, 0), NULL);
    op_bench_run(&bench);
    double loss = op_bench_get(&bench, GP_ELEMENT_LOSS_FORWARD_PARTIAL, 0);
    op_bench_fini(&bench);
    return loss;
}

static void test_gaps_change_no_bit(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 3, 16, 17, 600};
    for (uint32_t function = 0; function < GP_ELEMENT_LOSSES; function++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
            assert_true(element_loss(function, widths[w], 0) == element_loss(function, widths[w], 5));
}

/* Each row has its largest value at up to three classes. */
enum { ROWS = 160 };

static double logit(int64_t row, int64_t c, int64_t classes, bool nan_first) {
    if (nan_first && c == 0) return NAN;
    if (c == row % classes || c == (row * 5 + 3) % classes || c == (row * 11 + 70) % classes) return 7;
    return pseudo_random(row * classes + c);
}

static double count_right(const gp_device_kind *kind, int64_t classes, bool nan_first) {
    op_bench bench;
    op_bench_init(&bench, kind, GP_OP_CROSS_ENTROPY_FORWARD);
    bench.op_case.desc.attributes.cross_entropy.ignore = -1;
    op_bench_set(&bench, GP_CROSS_ENTROPY_FORWARD_X, op_plain(GP_F32, 2, ROWS, classes, 0, 0), NULL);
    op_bench_set(&bench, GP_CROSS_ENTROPY_FORWARD_TARGET, op_plain(GP_I64, 1, ROWS, 0, 0, 0), NULL);
    op_bench_set(&bench, GP_CROSS_ENTROPY_FORWARD_PARTIAL, op_plain(GP_F64, 1, 2, 0, 0, 0), NULL);
    for (int64_t row = 0; row < ROWS; row++) {
        op_bench_put(&bench, GP_CROSS_ENTROPY_FORWARD_TARGET, row, nan_first ? 0 : (double)(row % classes));
        for (int64_t c = 0; c < classes; c++)
            op_bench_put(&bench, GP_CROSS_ENTROPY_FORWARD_X, row * classes + c, logit(row, c, classes, nan_first));
    }
    op_bench_run(&bench);
    double right = op_bench_get(&bench, GP_CROSS_ENTROPY_FORWARD_PARTIAL, 1);
    op_bench_fini(&bench);
    return right;
}

static void test_first_of_the_largest(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 2, 7, 8, 15, 16, 17, 33, 64, 65, 100, 127, 128, 130, 145};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        double want = count_right(&gp_ref_kind, widths[w], false);
        assert_true(count_right(&gp_cpu_kind, widths[w], false) == want);
        if (widths[w] > 16) assert_true(want > 0 && want < ROWS);
        assert_true(count_right(&gp_cpu_kind, widths[w], true) == ROWS); /* the first, as no other is larger */
    }
}

/* One logit for each of the targets 0 and 1: what is left when a target of 1 is taken from a sigmoid near 1. */
static void test_small_gradients(void **state) {
    (void)state;
    enum { COUNT = 64 };
    op_bench bench;
    op_bench_init(&bench, &gp_cpu_kind, GP_OP_ELEMENT_LOSS_BACKWARD);
    bench.op_case.desc.attributes.element_loss.function = GP_ELEMENT_BCE_LOGITS;
    gp_tensor tensor = op_plain(GP_F32, 2, 1, COUNT, 0, 0);
    op_bench_set(&bench, GP_ELEMENT_LOSS_BACKWARD_X, tensor, NULL);
    op_bench_set(&bench, GP_ELEMENT_LOSS_BACKWARD_TARGET, tensor, NULL);
    op_bench_set(&bench, GP_ELEMENT_LOSS_BACKWARD_DX, tensor, NULL);
    op_bench_scalars(&bench, GP_ELEMENT_LOSS_BACKWARD_SCALARS, (gp_step_scalars){.divisor = 1, .finite = 1});
    for (int i = 0; i < COUNT; i++) {
        op_bench_put(&bench, GP_ELEMENT_LOSS_BACKWARD_X, i, i % 2 ? -i / 4.0 : i / 4.0);
        op_bench_put(&bench, GP_ELEMENT_LOSS_BACKWARD_TARGET, i, i % 2 ? 0 : 1);
    }
    op_bench_run(&bench);
    for (int i = 0; i < COUNT; i++) {
        double size = 1 / (1 + exp(i / 4.0)), want = i % 2 ? size : -size;
        double got = op_bench_get(&bench, GP_ELEMENT_LOSS_BACKWARD_DX, i);
        if (!(fabs(got - want) <= 2e-6 * size)) fail_msg("logit %g: %.9g, not %.9g", i / 4.0, got, want);
    }
    op_bench_fini(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaps_change_no_bit),
        cmocka_unit_test(test_first_of_the_largest),
        cmocka_unit_test(test_small_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
