#include "train/rate.h"

#include <math.h>
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

static const gp_run_length plenty = {1000, 7, NULL};

static void without_a_warmup_the_rate_is_constant(void **state) {
    (void)state;
    const gp_optimizer_config optimizer = {.lr = 0.1};
    assert_true(gp_rate(&optimizer, plenty, 0) == 0.1); /* an evaluation before the first step */
    assert_true(gp_rate(&optimizer, plenty, 1) == 0.1);
    assert_true(gp_rate(&optimizer, plenty, 1000000) == 0.1);
}

static void a_warmup_rises_from_its_share_in_equal_steps(void **state) {
    (void)state;
    const gp_optimizer_config from_zero = {.lr = 0.5, .warmup = {4, false}};
    const gp_optimizer_config from_half = {.lr = 0.5, .warmup = {1, true}, .warmup_from = 0.5};
    const double zero[] = {0.125, 0.25, 0.375, 0.5, 0.5, 0.5}, half[] = {0.3125, 0.375, 0.4375, 0.5, 0.5, 0.5};
    for (int s = 1; s <= 6; s++) {
        assert_true(gp_rate(&from_zero, plenty, s) == zero[s - 1]);
        assert_true(gp_rate(&from_half, (gp_run_length){1000, 4, NULL}, s) == half[s - 1]);
    }
}

/* f + (1 − f) need not round to 1. */
static void a_warmup_ends_at_the_rate_itself(void **state) {
    (void)state;
    for (int i = 0; i <= 1000; i++) {
        const gp_optimizer_config optimizer = {.lr = 0.1, .warmup = {3, false}, .warmup_from = i * 0.001};
        assert_true(gp_rate(&optimizer, plenty, 3) == 0.1);
    }
}

static void expect_rates(const gp_optimizer_config *optimizer, gp_run_length run, const double *rates, int count) {
    for (int s = 1; s <= count; s++) {
        double rate = gp_rate(optimizer, run, s);
        if (!(fabs(rate - rates[s - 1]) <= 1e-15)) fail_msg("step %d: %.17g is not %.17g", s, rate, rates[s - 1]);
    }
}

/* The literal rates are torch.optim.lr_scheduler's, stepped once per step. */
static void steps_count_from_the_start_of_the_run(void **state) {
    (void)state;
    gp_optimizer_config optimizer = {
        .lr = 0.5, .lr_schedule = GP_LR_STEP, .lr_every = {3, false}, .lr_gamma = 0.25, .warmup = {2, false}};
    expect_rates(&optimizer, plenty, (const double[]){0.25, 0.5, 0.5, 0.125, 0.125, 0.125, 0.03125}, 7);
    optimizer.warmup.count = 5; /* longer than a step: what it missed is made up for at once */
    expect_rates(&optimizer, plenty, (const double[]){0.1, 0.2, 0.3, 0.4, 0.5, 0.125, 0.03125}, 7);
    optimizer.lr_every = (gp_time){1, true};
    optimizer.warmup.count = 0;
    expect_rates(&optimizer, (gp_run_length){100, 2, NULL}, (const double[]){0.5, 0.5, 0.125, 0.125, 0.03125}, 5);
}

static void milestones_count_from_the_start_of_the_run(void **state) {
    (void)state;
    gp_time steps[] = {{2, false}, {5, false}, {6, false}}, epochs[] = {{1, true}, {2, true}};
    gp_optimizer_config optimizer = {
        .lr = 1, .lr_schedule = GP_LR_MULTISTEP, .lr_milestones = steps, .lr_milestone_count = 3, .lr_gamma = 0.5};
    expect_rates(&optimizer, plenty, (const double[]){1, 1, 0.5, 0.5, 0.5, 0.25, 0.125, 0.125}, 8);
    optimizer.lr_milestones = epochs;
    optimizer.lr_milestone_count = 2;
    expect_rates(&optimizer, (gp_run_length){100, 3, NULL}, (const double[]){1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25}, 8);
}

/* CosineAnnealingLR(T_max=4, eta_min=0.2) from 1 after two steps of warm-up in a run of six. */
static void the_cosine_spans_what_the_warmup_leaves(void **state) {
    (void)state;
    const gp_optimizer_config optimizer = {.lr = 1, .lr_schedule = GP_LR_COSINE, .lr_min = 0.2, .warmup = {2, false}};
    const double half = sqrt(0.5);
    expect_rates(&optimizer, (gp_run_length){6, 3, NULL},
                 (const double[]){0.5, 1, 1, 0.2 + 0.4 * (1 + half), 0.6, 0.2 + 0.4 * (1 - half)}, 6);
    assert_true(gp_rate(&optimizer, (gp_run_length){6, 3, NULL}, 3) == 1);
}

static void a_warmup_longer_than_the_run_leaves_no_schedule(void **state) {
    (void)state;
    const gp_optimizer_config optimizer = {.lr = 1, .lr_schedule = GP_LR_COSINE, .warmup = {1, true}};
    expect_rates(&optimizer, (gp_run_length){4, 4, NULL}, (const double[]){0.25, 0.5, 0.75, 1}, 4);
    expect_rates(&optimizer, (gp_run_length){2, 4, NULL}, (const double[]){0.25, 0.5}, 2);
}

/* A closed form: step a million is as exact as step two. */
static void rates_do_not_drift(void **state) {
    (void)state;
    const gp_optimizer_config step = {.lr = 1, .lr_schedule = GP_LR_STEP, .lr_every = {1000, false}, .lr_gamma = 0.5};
    const gp_optimizer_config cosine = {.lr = 2, .lr_schedule = GP_LR_COSINE};
    assert_true(gp_rate(&step, (gp_run_length){2000000, 1, NULL}, 1000001) == ldexp(1, -1000));
    assert_true(fabs(gp_rate(&cosine, (gp_run_length){4000000, 1, NULL}, 2000001) - 1) < 1e-15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_in_steps_and_epochs),
        cmocka_unit_test(more_steps_than_can_be_counted_are_the_most),
        cmocka_unit_test(without_a_warmup_the_rate_is_constant),
        cmocka_unit_test(a_warmup_rises_from_its_share_in_equal_steps),
        cmocka_unit_test(a_warmup_ends_at_the_rate_itself),
        cmocka_unit_test(steps_count_from_the_start_of_the_run),
        cmocka_unit_test(milestones_count_from_the_start_of_the_run),
        cmocka_unit_test(the_cosine_spans_what_the_warmup_leaves),
        cmocka_unit_test(a_warmup_longer_than_the_run_leaves_no_schedule),
        cmocka_unit_test(rates_do_not_drift),
    };
    return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
