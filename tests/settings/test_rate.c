#include "settings/rate.h"

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

static gp_epochs epochs_of(int64_t samples, int64_t batch, bool drop_last) {
    gp_epochs epochs = {.samples = samples};
    gp_error err = {0};
    assert_int_equal(gp_epochs_add(&epochs, 0, batch, drop_last, &err), GP_OK);
    return epochs;
}

static void change(gp_epochs *epochs, int64_t after, int64_t batch, bool drop_last) {
    gp_error err = {0};
    assert_int_equal(gp_epochs_add(epochs, after, batch, drop_last, &err), GP_OK);
}

static void expect_place(const gp_epochs *epochs, int64_t step, int64_t epoch, int64_t taken) {
    const gp_epoch_place place = gp_epochs_place(epochs, step);
    assert_int_equal(place.epoch, epoch);
    assert_int_equal(place.taken, taken);
    assert_int_equal(gp_epochs_ended(epochs, step), epoch - 1);
}

static void without_a_change_epochs_are_equal(void **state) {
    (void)state;
    gp_epochs epochs = epochs_of(50, 16, false);
    for (int64_t s = 0; s < 20; s++) expect_place(&epochs, s, 1 + s / 4, s % 4 * 16);
    for (int64_t e = 0; e < 5; e++) assert_int_equal(gp_epochs_steps(&epochs, e), 4 * e);
    assert_true(gp_epochs_steps(&epochs, INT64_C(1) << 62) == INT64_MAX);
    gp_epochs_fini(&epochs);
}

/* 18 steps of 16: 4 epochs and 32 samples. Then 7, 7 and 4, and 8 steps an epoch. Then 50 after 8 steps of these. */
static void a_change_goes_on_within_the_epoch(void **state) {
    (void)state;
    gp_epochs epochs = epochs_of(50, 16, false);
    change(&epochs, 18, 7, false);
    expect_place(&epochs, 16, 5, 0);
    expect_place(&epochs, 18, 5, 32);
    expect_place(&epochs, 20, 5, 46);
    expect_place(&epochs, 21, 6, 0);
    expect_place(&epochs, 28, 6, 49);
    expect_place(&epochs, 29, 7, 0);
    const int64_t ends[] = {0, 4, 8, 12, 16, 21, 29, 37};
    for (int e = 0; e < 8; e++) assert_int_equal(gp_epochs_steps(&epochs, e), ends[e]);
    change(&epochs, 26, 50, false);
    expect_place(&epochs, 26, 6, 35);
    expect_place(&epochs, 27, 7, 0);
    assert_int_equal(gp_epochs_steps(&epochs, 6), 27);
    assert_int_equal(gp_epochs_steps(&epochs, 10), 31);
    gp_epochs_fini(&epochs);
}

static void what_is_left_is_dropped(void **state) {
    (void)state;
    gp_epochs epochs = epochs_of(50, 16, true);
    gp_error err = {0};
    expect_place(&epochs, 3, 2, 0); /* the 2 samples that are left out do not come back */
    change(&epochs, 4, 40, true);   /* 34 are left: the epoch has ended */
    expect_place(&epochs, 4, 3, 0);
    assert_int_equal(gp_epochs_steps(&epochs, 1), 3);
    assert_int_equal(gp_epochs_steps(&epochs, 2), 4);
    assert_int_equal(gp_epochs_steps(&epochs, 3), 5);
    assert_int_equal(gp_epochs_add(&epochs, 9, 51, true, &err), GP_DATA);
    gp_epochs_fini(&epochs);
}

/* Times in epochs, where epochs end after 4, 8, 12, 16, 21 and 29 steps. */
static void times_follow_the_epochs(void **state) {
    (void)state;
    gp_epochs epochs = epochs_of(50, 16, false);
    change(&epochs, 18, 7, false);
    const gp_run_length run = {40, 8, &epochs};
    const gp_time two = {2, true}, ten = {10, false};
    const int64_t due[] = {8, 16, 29};
    for (int64_t s = 0, next = 0; s < 30; s++) {
        bool is = next < 3 && s == due[next];
        assert_int_equal(gp_time_is_due(two, run, s), is);
        assert_int_equal(gp_time_is_due(ten, run, s), s > 0 && s % 10 == 0);
        next += is;
    }
    assert_false(gp_time_is_due((gp_time){0, true}, run, 4));
    const gp_optimizer_config step = {.lr = 1, .lr_schedule = GP_LR_STEP, .lr_every = {2, true}, .lr_gamma = 0.5};
    assert_true(gp_rate(&step, run, 16) == 0.5 && gp_rate(&step, run, 17) == 0.25);
    assert_true(gp_rate(&step, run, 29) == 0.25 && gp_rate(&step, run, 30) == 0.125);
    gp_time milestone = {5, true};
    const gp_optimizer_config multistep = {
        .lr = 1, .lr_schedule = GP_LR_MULTISTEP, .lr_milestones = &milestone, .lr_milestone_count = 1, .lr_gamma = 0.5};
    assert_true(gp_rate(&multistep, run, 21) == 1 && gp_rate(&multistep, run, 22) == 0.5);
    gp_time milestones[] = {{2, true}, {5, true}, {6, true}};
    double gammas[] = {0.25, 3, 0.5};
    const gp_optimizer_config by_milestone = {.lr = 8,
                                              .lr_schedule = GP_LR_MULTISTEP,
                                              .lr_milestones = milestones,
                                              .lr_milestone_count = 3,
                                              .lr_gammas = gammas,
                                              .lr_gamma_count = 3,
                                              .lr_gamma = 100};
    assert_true(gp_rate(&by_milestone, run, 1) == 8 && gp_rate(&by_milestone, run, 21) == 2);
    assert_true(gp_rate(&by_milestone, run, 22) == 6 && gp_rate(&by_milestone, run, 1000) == 3);
    const gp_optimizer_config warm = {.lr = 1, .warmup = {5, true}};
    assert_true(gp_rate(&warm, run, 20) == 20.0 / 21 && gp_rate(&warm, run, 21) == 1);
    gp_epochs_fini(&epochs);
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
        cmocka_unit_test(without_a_change_epochs_are_equal),
        cmocka_unit_test(a_change_goes_on_within_the_epoch),
        cmocka_unit_test(what_is_left_is_dropped),
        cmocka_unit_test(times_follow_the_epochs),
    };
    return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
