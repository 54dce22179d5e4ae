/* Two processes that ask each other of their messages, without any network and without waiting: a test says what time
 * it is, and which questions and answers arrive. */
#include "process/deliveries.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double beat = 0.25, timeout = 3;

typedef struct pair {
    gp_deliveries *of[2]; /* [rank] */
    double now;
    int questions; /* that process 1 has asked */
} pair;

static void open_pair(pair *its) {
    gp_error err = {0};
    *its = (pair){.now = 1000};
    for (int r = 0; r < 2; r++) assert_int_equal(gp_deliveries_create(r, 2, &its->of[r], &err), GP_OK);
}

static void close_pair(pair *its) {
    for (int r = 0; r < 2; r++) gp_deliveries_destroy(&its->of[r]);
    assert_null(its->of[0]);
}

static void begin(pair *its, int rank, gp_parcel *parcel, uint32_t tag, size_t bytes, bool receives) {
    gp_parcel_init(parcel);
    gp_parcel_fill(parcel, 1, 1 - rank, tag, NULL, bytes, receives);
    gp_deliveries_begin(its->of[rank], parcel);
}

/* What process `rank` asks is answered at once. GP_LOST, when a message is. */
static gp_status pass(pair *its, int rank, gp_error *err) {
    gp_delivery_question question;
    gp_delivery_answer answer;
    gp_status status = GP_OK;
    int to;
    its->now += beat;
    while (status == GP_OK && gp_deliveries_ask(its->of[rank], its->now, timeout, &to, &question)) {
        its->questions++;
        assert_int_equal(to, 1 - rank);
        assert_true(gp_deliveries_answer(its->of[to], rank, &question, &answer));
        status = gp_deliveries_hear(its->of[rank], to, &answer, its->now, timeout, err);
    }
    return status;
}

/* Seconds until a message is lost; 0: none is within `most`. */
static double until_lost(pair *its, int rank, double most, gp_error *err) {
    double began = its->now;
    while (its->now - began < most)
        if (pass(its, rank, err) != GP_OK) return its->now - began;
    return 0;
}

static void expect_lost(pair *its, int rank, double least, double most, const char *text) {
    gp_error err = {0};
    double seconds = until_lost(its, rank, 2 * most, &err);
    if (seconds < least || seconds > most) fail_msg("lost after %.2f s", seconds);
    assert_int_equal(err.status, GP_LOST);
    assert_non_null(strstr(err.text, text));
}

/* ---- what is lost ------------------------------------------------------------------------------------------------ */

static void a_message_that_does_not_arrive(void **state) {
    (void)state;
    pair its;
    gp_parcel sent, received;
    open_pair(&its);
    begin(&its, 0, &sent, 5, 100, false);
    gp_deliveries_end(its.of[0], &sent); /* MPI has taken it */
    begin(&its, 1, &received, 5, 100, true);
    expect_lost(&its, 1, 1 + timeout, 2 + timeout,
                "process 1 has waited for 3 s for a message of process 0, which has sent it: MPI does not deliver it");
    close_pair(&its);
}

/* It has arrived, but its sender is not told. */
static void a_message_that_does_not_end(void **state) {
    (void)state;
    pair its;
    gp_parcel sent, received;
    open_pair(&its);
    begin(&its, 0, &sent, 5, 100, false);
    begin(&its, 1, &received, 5, 100, true);
    gp_deliveries_end(its.of[1], &received);
    expect_lost(&its, 0, 1 + timeout, 2 + timeout,
                "process 0 has waited for 3 s for the end of a message to process 1, which receives it");
    close_pair(&its);
}

/* Receives that begin ahead stand before it, more than one question has room for. */
static void a_message_among_many(void **state) {
    enum { AHEAD = 200 };
    (void)state;
    pair its;
    static gp_parcel ahead[AHEAD], first[2], sent, received;
    open_pair(&its);
    for (uint32_t i = 0; i < AHEAD; i++) begin(&its, 1, &ahead[i], i, 1 << 30, true);
    for (int i = 0; i < 2; i++) begin(&its, i, &first[i], AHEAD, 100, i);
    for (int i = 0; i < 2; i++) gp_deliveries_end(its.of[i], &first[i]);
    begin(&its, 1, &received, AHEAD, 100, true);
    gp_error err = {0};
    assert_true(until_lost(&its, 1, 1000, &err) == 0); /* process 0 has sent the first of that tag only */
    begin(&its, 0, &sent, AHEAD, 100, false);
    expect_lost(&its, 1, timeout, 4 + timeout, "process 1 has waited for 3 s for a message of process 0");
    close_pair(&its);
}

/* ---- what is not ------------------------------------------------------------------------------------------------- */

/* A process that computes is asked ever more rarely, by all that wait for it. */
static void questions_become_rare(void **state) {
    (void)state;
    static const double minute = 60;
    pair its;
    gp_parcel received;
    gp_delivery_question question;
    gp_delivery_answer answer;
    gp_error err = {0};
    int asked = 0, to;
    open_pair(&its);
    begin(&its, 1, &received, 5, 100, true);
    for (double end = its.now + 10 * minute; its.now < end; its.now += beat)
        while (gp_deliveries_ask(its.of[1], its.now, minute, &to, &question)) {
            asked++;
            assert_true(gp_deliveries_answer(its.of[0], 1, &question, &answer));
            assert_int_equal(gp_deliveries_hear(its.of[1], 0, &answer, its.now, minute, &err), GP_OK);
        }
    if (asked < 60 || asked > 120) fail_msg("%d questions in ten minutes", asked);
    close_pair(&its);
}

/* Process 0 computes for an hour before it sends. Both directions have a message of the same tag. */
static void a_message_that_is_not_sent_yet(void **state) {
    (void)state;
    pair its;
    gp_error err = {0};
    gp_parcel receives[2], sends[2];
    open_pair(&its);
    begin(&its, 1, &receives[1], 5, 100, true);
    begin(&its, 1, &sends[1], 5, 1 << 20, false);
    assert_true(until_lost(&its, 1, 3600, &err) == 0);
    begin(&its, 0, &receives[0], 5, 1 << 20, true);
    gp_deliveries_end(its.of[0], &receives[0]);
    gp_deliveries_end(its.of[1], &sends[1]);
    assert_true(until_lost(&its, 1, 3600, &err) == 0);
    begin(&its, 0, &sends[0], 5, 100, false);
    assert_true(until_lost(&its, 1, timeout - 1, &err) == 0);
    gp_deliveries_end(its.of[1], &receives[1]);
    assert_true(until_lost(&its, 1, 3600, &err) == 0);
    assert_true(its.questions > 1000);
    close_pair(&its);
}

/* A gibibyte takes 90 s at 100 Mbit/s. Nothing of it is known to move meanwhile. */
static void a_large_message_on_a_slow_link(void **state) {
    (void)state;
    pair its;
    gp_error err = {0};
    gp_parcel sent, received;
    open_pair(&its);
    begin(&its, 0, &sent, 5, 1 << 30, false);
    begin(&its, 1, &received, 5, 1 << 30, true);
    assert_true(until_lost(&its, 1, 1000, &err) == 0);
    assert_true(until_lost(&its, 0, 1000, &err) == 0);
    expect_lost(&its, 1, 60, 120, "process 1 has waited for 107");
    close_pair(&its);
}

static void a_movement_starts_the_time_again(void **state) {
    (void)state;
    pair its;
    gp_error err = {0};
    gp_parcel sent, received, other;
    open_pair(&its);
    begin(&its, 0, &sent, 5, 100, false);
    begin(&its, 1, &received, 5, 100, true);
    for (int i = 0; i < 100; i++) {
        assert_true(until_lost(&its, 1, timeout, &err) == 0);
        begin(&its, 1, &other, 6, 100, false);
        assert_true(until_lost(&its, 1, timeout, &err) == 0);
        gp_deliveries_end(its.of[1], &other);
        assert_true(until_lost(&its, 1, timeout, &err) == 0);
        gp_deliveries_move(its.of[1]);
    }
    expect_lost(&its, 1, timeout, 2 + timeout, "process 1");
    close_pair(&its);
}

/* Process 0, or the one between, answers late, since it was stopped: that time does not count. What was dropped is
 * asked again. */
static void time_without_answers_does_not_count(void **state) {
    (void)state;
    pair its;
    gp_error err = {0};
    gp_parcel sent, received;
    gp_delivery_question question;
    gp_delivery_answer answer;
    int to;
    open_pair(&its);
    begin(&its, 0, &sent, 5, 100, false);
    begin(&its, 1, &received, 5, 100, true);
    assert_true(until_lost(&its, 1, 2, &err) == 0);
    for (int i = 0; i < 2; i++) {
        its.now += beat;
        assert_true(gp_deliveries_ask(its.of[1], its.now, timeout, &to, &question));
        assert_true(gp_deliveries_answer(its.of[0], 1, &question, &answer));
        for (double end = its.now + timeout; its.now + beat <= end; its.now += beat)
            assert_false(gp_deliveries_ask(its.of[1], its.now, timeout, &to, &question));
        its.now += 2 * beat;
    }
    assert_int_equal(gp_deliveries_hear(its.of[1], 0, &answer, its.now, timeout, &err), GP_OK);
    assert_true(until_lost(&its, 1, 1, &err) == 0);
    expect_lost(&its, 1, beat, 2 * timeout, "process 1");
    close_pair(&its);
}

static void nothing_is_asked_after_the_end(void **state) {
    (void)state;
    pair its;
    gp_error err = {0};
    gp_parcel sent, received;
    open_pair(&its);
    begin(&its, 0, &sent, 5, 100, false);
    begin(&its, 1, &received, 5, 100, true);
    gp_deliveries_stop(its.of[1]);
    assert_true(until_lost(&its, 1, 100, &err) == 0);
    assert_int_equal(its.questions, 0);
    begin(&its, 1, &received, 5, 100, true); /* is left alone */
    gp_deliveries_end(its.of[1], &received);
    close_pair(&its);
}

/* ---- what no process of the run says ----------------------------------------------------------------------------- */

static void numbers_of_others_are_checked(void **state) {
    (void)state;
    pair its;
    gp_error err = {0};
    gp_parcel sent, received;
    gp_delivery_question question = {.count = 0};
    gp_delivery_answer answer = {.begun = UINT64_MAX};
    int to;
    open_pair(&its);
    assert_false(gp_deliveries_answer(its.of[0], 1, &question, &answer));
    question.count = GP_DELIVERY_ITEMS + 1;
    assert_false(gp_deliveries_answer(its.of[0], 1, &question, &answer));
    question.count = GP_DELIVERY_ITEMS;
    assert_false(gp_deliveries_answer(its.of[0], -1, &question, &answer));
    assert_false(gp_deliveries_answer(its.of[0], 2, &question, &answer));
    memset(question.item, 0xff, sizeof question.item);
    assert_true(gp_deliveries_answer(its.of[0], 1, &question, &answer));
    assert_true(answer.begun == 0);

    begin(&its, 0, &sent, 5, 100, false);
    begin(&its, 1, &received, 5, 100, true);
    (void)gp_deliveries_ask(its.of[1], its.now, timeout, &to, &question);
    its.now += 2;
    assert_true(gp_deliveries_ask(its.of[1], its.now, timeout, &to, &question));
    answer = (gp_delivery_answer){.begun = UINT64_MAX, .serial = question.serial + 1};
    for (int from = -1; from < 3; from++) /* without a question, or to another one */
        for (int i = 0; i < 100; i++)
            assert_int_equal(gp_deliveries_hear(its.of[1], from, &answer, its.now += beat, timeout, &err), GP_OK);
    answer.begun = UINT64_MAX - 1; /* items that were not asked of */
    answer.serial--;
    assert_int_equal(gp_deliveries_hear(its.of[1], 0, &answer, its.now, timeout, &err), GP_OK);
    expect_lost(&its, 1, timeout, 2 + timeout, "process 1 has waited for 3 s");
    close_pair(&its);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_does_not_arrive),
        cmocka_unit_test(a_message_that_does_not_end),
        cmocka_unit_test(a_message_among_many),
        cmocka_unit_test(questions_become_rare),
        cmocka_unit_test(a_message_that_is_not_sent_yet),
        cmocka_unit_test(a_large_message_on_a_slow_link),
        cmocka_unit_test(a_movement_starts_the_time_again),
        cmocka_unit_test(time_without_answers_does_not_count),
        cmocka_unit_test(nothing_is_asked_after_the_end),
        cmocka_unit_test(numbers_of_others_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
