#include "train/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void times_in_steps_and_epochs(void **state) {
    (void)state;
    assert_int_equal(gp_time_steps((gp_time){500, false}, 7), 500);
    assert_int_equal(gp_time_steps((gp_time){0, false}, 7), 0);
    assert_int_equal(gp_time_steps((gp_time){3, true}, 7), 21);
    assert_int_equal(gp_time_steps((gp_time){0, true}, 7), 0);
}

static void more_steps_than_can_be_counted_are_the_most(void **state) {
    (void)state;
    assert_true(gp_time_steps((gp_time){INT64_C(1) << 53, true}, INT64_C(1) << 20) == INT64_MAX);
}

static void without_a_warmup_the_rate_is_constant(void **state) {
    (void)state;
    const gp_optimizer_config optimizer = {.lr = 0.1};
    assert_true(gp_rate(&optimizer, 0, 0) == 0.1); /* an evaluation before the first step */
    assert_true(gp_rate(&optimizer, 0, 1) == 0.1);
    assert_true(gp_rate(&optimizer, 0, 1000000) == 0.1);
}

static void a_warmup_rises_from_its_share_in_equal_steps(void **state) {
    (void)state;
    const gp_optimizer_config from_zero = {.lr = 0.5}, from_half = {.lr = 0.5, .warmup_from = 0.5};
    const double zero[] = {0.125, 0.25, 0.375, 0.5, 0.5, 0.5}, half[] = {0.3125, 0.375, 0.4375, 0.5, 0.5, 0.5};
    for (int s = 1; s <= 6; s++) {
        assert_true(gp_rate(&from_zero, 4, s) == zero[s - 1]);
        assert_true(gp_rate(&from_half, 4, s) == half[s - 1]);
    }
}

/* f + (1 − f) need not round to 1. */
static void a_warmup_ends_at_the_rate_itself(void **state) {
    (void)state;
    for (int i = 0; i <= 1000; i++) {
        const gp_optimizer_config optimizer = {.lr = 0.1, .warmup_from = i * 0.001};
        assert_true(gp_rate(&optimizer, 3, 3) == 0.1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_in_steps_and_epochs),
        cmocka_unit_test(more_steps_than_can_be_counted_are_the_most),
        cmocka_unit_test(without_a_warmup_the_rate_is_constant),
        cmocka_unit_test(a_warmup_rises_from_its_share_in_equal_steps),
        cmocka_unit_test(a_warmup_ends_at_the_rate_itself),
    };
    return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
