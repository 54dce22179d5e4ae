/* Measuring links between the threads of a test, on a wire that is late, with a clock of the test's own. */
#include "profile/link_times.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "process/loop_wire.h"

enum { TAG = 7, ROUNDS_AT_MOST = 200 };

static void wire_failed(void *context, int rank, const gp_error *cause) {
    (void)rank;
    *(gp_error *)context = *cause;
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

/* Between two looks of a pair it goes on by what is next: short rounds first, then long ones. */
static struct {
    uint64_t now, shorts, longs; /* nanoseconds */
    int looks, rounds;           /* looks so far; short rounds that the test expects */
} fake;

static uint64_t look(void) {
    if (fake.looks % 2 == 1) fake.now += fake.looks / 2 < fake.rounds ? fake.shorts : fake.longs;
    fake.looks++;
    return fake.now;
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

typedef struct answerer {
    gp_link_route route;
    gp_status status;
    gp_error err;
} answerer;

static void *answer(void *argument) {
    answerer *its = argument;
    its->status = gp_link_answer(&its->route, &its->err);
    return NULL;
}

/* Process 0 asks process 2 of three, and expects so many rounds of short messages, and of long ones. */
static gp_profile_link ask(uint64_t shorts, uint64_t longs, int rounds, int long_rounds) {
    gp_error failure = {0}, err = {0};
    gp_cancel cancel;
    pthread_t thread;
    gp_profile_link found = {0};
    assert_int_equal(gp_cancel_init(&cancel, &err), GP_OK);
    loop_hub *hub = loop_open(3, 5, 20, wire_failed, &failure);
    answerer its = {.route = {loop_wire_of(hub, 2), 0, TAG, &cancel}};
    assert_int_equal(gp_thread_start(&thread, 0, answer, &its), 0);
    fake.now = 1;
    fake.looks = 0;
    fake.shorts = shorts;
    fake.longs = longs;
    fake.rounds = rounds;
    const gp_link_route route = {loop_wire_of(hub, 0), 2, TAG, &cancel};
    gp_status status = gp_link_ask(&route, look, &found, &err);
    pthread_join(thread, NULL);
    if (status != GP_OK) fail_msg("%s", err.text);
    if (its.status != GP_OK) fail_msg("%s", its.err.text);
    assert_int_equal(failure.status, GP_OK);
    assert_int_equal(fake.looks, 2 * (rounds + long_rounds));
    assert_int_equal(loop_held(hub), 0);
    loop_close(&hub);
    gp_cancel_fini(&cancel);
    return found;
}

static bool near(double value, double expected) {
    return value > expected * (1 - 1e-9) && value < expected * (1 + 1e-9);
}

/* 20 µs there and back; with 4 MiB each way 8.02 ms. All sizes are gone through, then nine rounds of the largest. */
static void a_fast_link_is_timed_with_its_largest_messages(void **state) {
    (void)state;
    gp_profile_link found = ask(20000, 8020000, ROUNDS_AT_MOST, 3 + 9);
    assert_true(found.known);
    assert_true(near(found.latency, 10e-6));
    assert_true(near(found.per_byte, 4e-3 / (1 << 22)));
}

/* 64 KiB there and back take 0.8 s: they are sent once more, and no larger ones. */
static void a_slow_link_ends_in_time(void **state) {
    (void)state;
    gp_profile_link found = ask(200000000, 800000000, 3, 1 + 1);
    assert_true(near(found.latency, 0.1));
    assert_true(near(found.per_byte, 0.3 / (1 << 16)));
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

/* The run ends while the other process is silent: no side waits for ever, and the wire uses no memory of theirs. */
static void an_end_of_the_run_ends_both_sides(void **state) {
    (void)state;
    gp_error failure = {0}, err = {0};
    const gp_error cause = {.status = GP_IO, .text = "process 1 is lost"};
    for (int asks = 0; asks < 2; asks++) {
        gp_cancel cancel;
        gp_profile_link found = {0};
        assert_int_equal(gp_cancel_init(&cancel, &err), GP_OK);
        loop_hub *hub = loop_open(2, 1, 0, wire_failed, &failure);
        const gp_link_route route = {loop_wire_of(hub, asks ? 0 : 1), asks ? 1 : 0, TAG, &cancel};
        gp_cancel_raise(&cancel, &cause);
        gp_status status = asks ? gp_link_ask(&route, NULL, &found, &err) : gp_link_answer(&route, &err);
        assert_int_equal(status, GP_CANCELLED);
        assert_false(found.known);
        for (int wait = 0; wait < 1000 && loop_held(hub) > 1; wait++) sched_yield();
        assert_true(loop_held(hub) <= 1); /* a call that was copied before may lie there */
        loop_close(&hub);
        gp_cancel_fini(&cancel);
    }
}

/* A number that is no call is no size either. */
static void a_call_that_does_not_exist_is_refused(void **state) {
    (void)state;
    gp_error failure = {0}, err = {0};
    gp_cancel cancel;
    pthread_t thread;
    const uint64_t call = 5;
    assert_int_equal(gp_cancel_init(&cancel, &err), GP_OK);
    loop_hub *hub = loop_open(2, 1, 0, wire_failed, &failure);
    answerer its = {.route = {loop_wire_of(hub, 1), 0, TAG, &cancel}};
    assert_int_equal(gp_thread_start(&thread, 0, answer, &its), 0);
    assert_int_equal(gp_wire_send_now(loop_wire_of(hub, 0), 1, TAG, &call, sizeof call, &cancel, &err), GP_OK);
    pthread_join(thread, NULL);
    assert_int_equal(its.status, GP_INTERNAL);
    assert_string_equal(its.err.text, "process 0 measures links with a call that does not exist: 5");
    loop_close(&hub);
    gp_cancel_fini(&cancel);
}

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

static void estimates_are_of_medians(void **state) {
    (void)state;
    double shorts[] = {4, 900, 2}, longs[] = {70, 14, 12, 13}; /* medians: 4 and 13.5 */
    gp_profile_link found = gp_link_estimate(shorts, 3, longs, 4, 2);
    assert_true(found.known && near(found.latency, 2) && near(found.per_byte, (13.5 - 4) / 2 / 2));
    /* Short messages that were disturbed may take longer than long ones. */
    found = gp_link_estimate((double[]){30}, 1, (double[]){20}, 1, 5);
    assert_true(near(found.latency, 15) && near(found.per_byte, 1));
    found = gp_link_estimate((double[]){0}, 1, (double[]){0}, 1, 1); /* the clock stood still */
    assert_true(!(found.latency > 0) && found.per_byte > 0);
}

static void one_process_stands_for_each_kind(void **state) {
    (void)state;
    static const int one[] = {0, 0, 0}, two[] = {0, 1, 0, 1}, alone[] = {0, 1, 2};
    assert_int_equal(gp_link_peer(one, 3, GP_LINK_HOST), 1);
    assert_int_equal(gp_link_peer(one, 3, GP_LINK_NETWORK), -1);
    assert_int_equal(gp_link_peer(two, 4, GP_LINK_HOST), 2);
    assert_int_equal(gp_link_peer(two, 4, GP_LINK_NETWORK), 1);
    assert_int_equal(gp_link_peer(alone, 3, GP_LINK_HOST), -1);
    assert_int_equal(gp_link_peer(alone, 3, GP_LINK_NETWORK), 1);
    assert_int_equal(gp_link_peer(one, 3, GP_LINK_PROCESS), -1);
    assert_int_equal(gp_link_peer(one, 1, GP_LINK_HOST), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_link_is_timed_with_its_largest_messages),
        cmocka_unit_test(a_slow_link_ends_in_time),
        cmocka_unit_test(an_end_of_the_run_ends_both_sides),
        cmocka_unit_test(a_call_that_does_not_exist_is_refused),
        cmocka_unit_test(estimates_are_of_medians),
        cmocka_unit_test(one_process_stands_for_each_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
