/* Signals, barrier and cancellation between threads. Threads return a status; the asserts are the main thread's. */
#include <setjmp.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sync.h"

enum { THREADS = 4, ROUNDS = 2000, SPINS = 2 };

static const uint32_t spins[SPINS] = {0, 100};

typedef struct shared {
    gp_cancel cancel;
    gp_signal ping, pong;
    gp_barrier barrier;
    uint64_t plain;           /* written between signals, without a lock */
    uint64_t counts[THREADS]; /* each its thread's, read by all between barriers */
    uint32_t spin;            /* microseconds, of all threads */
    bool pause;               /* threads sleep now and then, so that others sleep in their waits */
} shared;

typedef struct member {
    shared *all;
    int index;
    pthread_t thread;
    gp_status status;
    gp_error err;
    const char *broken;
} member;

static void init_shared(shared *all, int parties) {
    gp_error err = {0};
    memset(all, 0, sizeof *all);
    assert_int_equal(gp_cancel_init(&all->cancel, &err), GP_OK);
    gp_signal_init(&all->ping);
    gp_signal_init(&all->pong);
    gp_barrier_init(&all->barrier, parties);
}

static void start(member *members, shared *all, int count, void *(*work)(void *)) {
    for (int i = 0; i < count; i++) {
        members[i] = (member){.all = all, .index = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, work, &members[i]), 0);
    }
}

static void join(member *members, int count) {
    for (int i = 0; i < count; i++) assert_int_equal(pthread_join(members[i].thread, NULL), 0);
}

static void *play_pong(void *argument) {
    member *me = argument;
    shared *all = me->all;
    gp_wait_spin(all->spin);
    for (uint64_t i = 1; i <= ROUNDS && me->status == GP_OK; i++) {
        me->status = gp_signal_wait(&all->ping, i, &all->cancel, &me->err);
        if (all->plain != 2 * i - 1) me->broken = "what was written before the raise is not there";
        all->plain = 2 * i;
        if (all->pause && i % 64 == 0) usleep(500);
        gp_signal_raise(&all->pong, i);
    }
    return NULL;
}

static void ping_pong(uint32_t spin, bool pause) {
    shared all;
    member other;
    gp_error err = {0};
    init_shared(&all, 2);
    all.pause = pause;
    all.spin = spin;
    gp_wait_spin(spin);
    start(&other, &all, 1, play_pong);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        all.plain = 2 * i - 1;
        if (pause && i % 50 == 0) usleep(500);
        gp_signal_raise(&all.ping, i);
        assert_int_equal(gp_signal_wait(&all.pong, i, &all.cancel, &err), GP_OK);
        assert_int_equal(all.plain, 2 * i);
    }
    join(&other, 1);
    gp_wait_spin(0);
    assert_int_equal(other.status, GP_OK);
    assert_null(other.broken);
    gp_cancel_fini(&all.cancel);
}

static void test_signals(void **state) {
    (void)state;
    for (int m = 0; m < SPINS; m++) ping_pong(spins[m], false);
}

static void test_signals_with_sleepers(void **state) {
    (void)state;
    for (int m = 0; m < SPINS; m++) ping_pong(spins[m], true);
}

static void test_signal_values(void **state) {
    (void)state;
    shared all;
    gp_error err = {0};
    init_shared(&all, 1);
    assert_true(gp_signal_reached(&all.ping, 0));
    assert_false(gp_signal_reached(&all.ping, 1));
    gp_signal_raise(&all.ping, 5);
    assert_true(gp_signal_reached(&all.ping, 5));
    assert_false(gp_signal_reached(&all.ping, 6));
    assert_int_equal(gp_signal_wait(&all.ping, 3, &all.cancel, &err), GP_OK);
    assert_int_equal(gp_signal_wait(&all.ping, 5, &all.cancel, &err), GP_OK);
    gp_cancel_fini(&all.cancel);
}

static void *wait_for_ping(void *argument) {
    member *me = argument;
    gp_wait_spin(me->all->spin);
    me->status = gp_signal_wait(&me->all->ping, 7, &me->all->cancel, &me->err);
    if (me->status == GP_OK && me->all->plain != 42) me->broken = "what was written before the raise is not there";
    return NULL;
}

/* One raise lets all who wait go on. */
static void test_many_waiters(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        shared all;
        member members[THREADS];
        init_shared(&all, THREADS);
        start(members, &all, THREADS, wait_for_ping);
        if (round % 2) usleep(3000);
        all.plain = 42;
        gp_signal_raise(&all.ping, 7);
        join(members, THREADS);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(members[i].status, GP_OK);
            assert_null(members[i].broken);
        }
        gp_cancel_fini(&all.cancel);
    }
}

/* Between two meetings each adds to its own count; after a meeting all counts are equal. */
static void *meet_again(void *argument) {
    member *me = argument;
    shared *all = me->all;
    for (uint64_t round = 1; round <= ROUNDS / 4 && me->status == GP_OK; round++) {
        all->counts[me->index] = round;
        if (all->pause && (round + (uint64_t)me->index) % 37 == 0) usleep(300);
        me->status = gp_barrier_meet(&all->barrier, &all->cancel, &me->err);
        for (int i = 0; i < THREADS && me->status == GP_OK; i++)
            if (all->counts[i] != round) me->broken = "the barrier let a thread through before all had come";
        if (me->status == GP_OK) me->status = gp_barrier_meet(&all->barrier, &all->cancel, &me->err);
    }
    return NULL;
}

static void test_barrier(void **state) {
    (void)state;
    for (int pause = 0; pause < 2; pause++) {
        shared all;
        member members[THREADS];
        init_shared(&all, THREADS);
        all.pause = pause;
        start(members, &all, THREADS, meet_again);
        join(members, THREADS);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(members[i].status, GP_OK);
            assert_null(members[i].broken);
            assert_int_equal(all.counts[i], ROUNDS / 4);
        }
        gp_cancel_fini(&all.cancel);
    }
}

static void test_barrier_of_one(void **state) {
    (void)state;
    shared all;
    gp_error err = {0};
    init_shared(&all, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(gp_barrier_meet(&all.barrier, &all.cancel, &err), GP_OK);
    gp_cancel_fini(&all.cancel);
}

static void *meet_once(void *argument) {
    member *me = argument;
    gp_wait_spin(me->all->spin);
    me->status = gp_barrier_meet(&me->all->barrier, &me->all->cancel, &me->err);
    return NULL;
}

/* Threads that wait for what never comes leave when the run is cancelled, before or while they wait. */
static void cancel_waiters(uint32_t spin, void *(*work)(void *), bool before) {
    shared all;
    member members[THREADS];
    const gp_error cause = {.status = GP_INJECTED, .text = "the cause"};
    init_shared(&all, THREADS + 1);
    all.spin = spin;
    if (before) assert_true(gp_cancel_raise(&all.cancel, &cause));
    start(members, &all, THREADS, work);
    if (!before) {
        usleep(5000);
        assert_true(gp_cancel_raise(&all.cancel, &cause));
    }
    join(members, THREADS);
    for (int i = 0; i < THREADS; i++) assert_int_equal(members[i].status, GP_CANCELLED);
    gp_cancel_fini(&all.cancel);
}

static void test_cancelled_waits(void **state) {
    (void)state;
    for (int m = 0; m < SPINS; m++)
        for (int before = 0; before < 2; before++) {
            cancel_waiters(spins[m], wait_for_ping, before);
            cancel_waiters(spins[m], meet_once, before);
        }
    cancel_waiters(UINT32_MAX, wait_for_ping, false); /* while it spins */
}

/* What has already happened is not lost to a cancellation. */
static void test_reached_after_cancel(void **state) {
    (void)state;
    shared all;
    gp_error err = {0};
    const gp_error cause = {.status = GP_INJECTED, .text = "the cause"};
    init_shared(&all, 1);
    gp_signal_raise(&all.ping, 1);
    assert_true(gp_cancel_raise(&all.cancel, &cause));
    assert_int_equal(gp_signal_wait(&all.ping, 1, &all.cancel, &err), GP_OK);
    assert_int_equal(gp_signal_wait(&all.ping, 2, &all.cancel, &err), GP_CANCELLED);
    gp_cancel_fini(&all.cancel);
}

static void *raise_mine(void *argument) {
    member *me = argument;
    gp_error mine = {0};
    gp_status status = gp_fail(&mine, GP_INJECTED, "thread %d", me->index);
    /* Met by all, so that they raise at the same time. */
    if (gp_barrier_meet(&me->all->barrier, &me->all->cancel, &me->err) != GP_OK) me->broken = "no meeting";
    me->status = gp_cancel_raise(&me->all->cancel, &mine) ? GP_OK : status;
    if (!gp_cancelled(&me->all->cancel)) me->broken = "not cancelled after a raise";
    if (gp_cancel_cause(&me->all->cancel, &me->err) != GP_INJECTED) me->broken = "no cause after a raise";
    return NULL;
}

/* Exactly one of many is the first, and all see its cause. */
static void test_first_cause(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        shared all;
        member members[THREADS];
        gp_error err = {0};
        char expected[32];
        int winner = -1;
        init_shared(&all, THREADS);
        assert_int_equal(gp_cancel_cause(&all.cancel, &err), GP_OK);
        assert_false(gp_cancelled(&all.cancel));
        start(members, &all, THREADS, raise_mine);
        join(members, THREADS);
        for (int i = 0; i < THREADS; i++) {
            /* The first may have raised before another left the meeting. */
            if (members[i].status != GP_OK) continue;
            assert_int_equal(winner, -1);
            winner = i;
        }
        assert_true(winner >= 0);
        snprintf(expected, sizeof expected, "thread %d", winner);
        assert_int_equal(gp_cancel_cause(&all.cancel, &err), GP_INJECTED);
        assert_string_equal(err.text, expected);
        for (int i = 0; i < THREADS; i++) assert_string_equal(members[i].err.text, expected);
        gp_cancel_fini(&all.cancel);
    }
}

/* A cause without a status is a cancellation all the same. */
static void test_cause_without_status(void **state) {
    (void)state;
    shared all;
    gp_error err = {0};
    const gp_error nothing = {0};
    init_shared(&all, 1);
    assert_true(gp_cancel_raise(&all.cancel, &nothing));
    assert_int_equal(gp_cancel_cause(&all.cancel, &err), GP_CANCELLED);
    assert_int_equal(gp_cancel_cause(&all.cancel, NULL), GP_CANCELLED);
    gp_cancel_fini(&all.cancel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_signals_with_sleepers),
        cmocka_unit_test(test_signal_values),

        cmocka_unit_test(test_many_waiters),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_barrier_of_one),
        cmocka_unit_test(test_cancelled_waits),
        cmocka_unit_test(test_reached_after_cancel),
        cmocka_unit_test(test_first_cause),
        cmocka_unit_test(test_cause_without_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
