/* The exponential and the logarithm of the CPU device's own loops, beside those of the C library in f64, over all
 * floats of their ranges (the small size: every 1009th). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "device/cpu/loops/exponential.h"
#include "size.h"

/* In units of the last place of the f32 next to `want`. */
static double error_of(float got, double want) {
    int exponent = fabs(want) < 0x1p-126 ? -126 : ilogb(want);
    return fabs((double)got - want) / ldexp(1, exponent - 23);
}

/* The floats from `first` to `last`, whose bits count upwards; returns the largest error. */
static double worst_error(float (*function)(float), double (*exact)(double), float first, float last) {
    uint32_t stride = (uint32_t)test_pick(100003, 1009, 1);
    double worst = 0;
    for (uint32_t bits = gp_bits_of(first) + (uint32_t)test_first((int)stride); bits <= gp_bits_of(last);
         bits += stride) {
        double error = error_of(function(gp_float_of(bits)), exact((double)gp_float_of(bits)));
        if (isnan(error)) fail_msg("of %a: not a number", (double)gp_float_of(bits));
        if (error > worst) worst = error;
    }
    return worst;
}

static void test_exponential(void **state) {
    (void)state;
    double error = worst_error(gp_exponential, exp, -0.0F, -87);
    print_message("exponential: within %.3f units in the last place\n", error);
    assert_true(error <= 1);
    assert_true(gp_exponential(0) == 1 && gp_exponential(-0.0F) == 1);
    assert_true(gp_exponential(-87) > 0);
    assert_true(gp_exponential(nextafterf(-87, -88)) == 0);
    assert_true(gp_exponential(-3e38F) == 0 && gp_exponential(-INFINITY) == 0);
    assert_true(isnan(gp_exponential(NAN)));
}

static void test_logarithm(void **state) {
    (void)state;
    double error = worst_error(gp_log_of_one_and, log1p, 0, 1);
    print_message("logarithm: within %.3f units in the last place\n", error);
    assert_true(error <= 2);
    assert_true(gp_log_of_one_and(0) == 0);
    assert_true(isnan(gp_log_of_one_and(NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_logarithm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
