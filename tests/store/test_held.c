/* The state between two configurations of a run of several processes: each process holds its own part, and the next
 * run, with another cut, other replicas and other processes of its workers, has every tensor. Processes are threads
 * here. */
#include "store/held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/follow.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "process/loop_wire.h"
#include "store/parts.h"
#include "store/snapshot.h"

enum { PROCESSES = 3, RUNS = 2 };

/* A process: its runs, one after the other, and what it holds between them. */
typedef struct member {
    harness h[RUNS];
    int at; /* the run that it is in */
    gp_held *held;
    pthread_t thread;
    gp_status status;
    gp_error err;
} member;

static member members[PROCESSES];
static loop_hub *hubs[RUNS];

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

/* As the guards of the processes do. */
static void cancel_all(void *context, int rank, const gp_error *cause) {
    (void)context;
    (void)rank;
    for (int p = 0; p < PROCESSES; p++)
        for (int r = 0; r < RUNS; r++)
            if (members[p].h[r].run) (void)gp_cancel_raise(gp_run_cancel(members[p].h[r].run), cause);
}

static gp_status take_part(member *own, gp_error *err) {
    harness *h = &own->h[own->at];
    return gp_held_take(h->run, h->plan, &own->held, err);
}

static gp_status give_part(member *own, gp_error *err) {
    harness *h = &own->h[own->at];
    return gp_held_give(own->held, h->run, h->plan, err);
}

static gp_status answer(void *context, int question, int64_t number, gp_error *err) {
    (void)number;
    return question == GP_ASK_HOLD ? take_part(context, err) : give_part(context, err);
}

static gp_status take_data(void *context, bool training, int64_t epoch, int64_t index, int64_t samples,
                           gp_step_input *out, int64_t *counted, gp_error *err) {
    member *own = context;
    harness *h = &own->h[own->at];
    (void)training, (void)epoch, (void)counted, (void)err;
    harness_make_data(h, samples, (uint32_t)index);
    out->input = h->input;
    out->target = h->target;
    return GP_OK;
}

static void *follow(void *argument) {
    member *own = argument;
    const gp_feed feed = {own, take_data, answer};
    bool goes_on = true;
    for (own->at = 0; own->at < RUNS && own->status == GP_OK && goes_on; own->at++)
        own->status = gp_run_follow(own->h[own->at].run, &feed, &goes_on, &own->err);
    if (own->status != GP_OK) cancel_all(NULL, 0, &own->err);
    return NULL;
}

typedef struct shape {
    int stages;
    int64_t layers[4];
    int replicas[4], process[4];
    bool shards;
    int processes; /* that have workers are fewer, perhaps */
} shape;

static void make_runs(const shape its[RUNS], const gp_update updates[RUNS]) {
    gp_error err = {0};
    memset(members, 0, sizeof members);
    for (int r = 0; r < RUNS; r++) {
        hubs[r] = loop_open(PROCESSES, 7 + (uint64_t)r, 100, cancel_all, NULL);
        for (int p = 0; p < PROCESSES; p++) {
            const harness_options options = {.model = network_skips,
                                             .layers = its[r].layers,
                                             .stages = its[r].stages,
                                             .replicas = its[r].replicas,
                                             .shard_optimizer = its[r].shards,
                                             .kind = &gp_ref_kind,
                                             .micro_batches = 2,
                                             .batch = 8,
                                             .update = &updates[r],
                                             .processes = PROCESSES,
                                             .rank = p,
                                             .process = its[r].process};
            harness *h = &members[p].h[r];
            harness_plan(h, &options);
            must(gp_run_create_team(h->plan, NULL, loop_wire_of(hubs[r], p), &h->run, &err), &err);
        }
    }
    for (int p = 1; p < PROCESSES; p++)
        assert_int_equal(gp_thread_start(&members[p].thread, 0, follow, &members[p]), 0);
}

static void end_runs(gp_status status) {
    if (status == GP_OK) gp_run_destroy(&members[0].h[1].run);
    for (int p = 1; p < PROCESSES; p++) pthread_join(members[p].thread, NULL);
    for (int p = 1; p < PROCESSES && status == GP_OK; p++) must(members[p].status, &members[p].err);
    for (int p = 0; p < PROCESSES; p++) {
        gp_held_destroy(&members[p].held);
        for (int r = 0; r < RUNS; r++) harness_end(&members[p].h[r]);
    }
    for (int r = 0; r < RUNS; r++) loop_close(&hubs[r]);
}

static void ask(int question, gp_status (*own)(member *, gp_error *)) {
    gp_error err = {0}, failure = {0};
    gp_run *run = members[0].h[members[0].at].run;
    must(gp_run_ask(run, question, 0, &err), &err);
    must(own(&members[0], &err), &err);
    must(gp_run_answers(run, &failure, &err), &err);
    must(failure.status, &failure);
}

/* The hash of the state before, and in the next run. */
static void carry(uint64_t *before, uint64_t *after) {
    gp_error err = {0};
    gp_step_result result;
    harness *first = &members[0].h[0], *next = &members[0].h[1];
    must(harness_fill(first, &err), &err);
    for (uint32_t step = 1; step <= 2; step++) must(harness_step(first, 8, true, step, &result, &err), &err);
    *before = harness_hash(first);
    ask(GP_ASK_HOLD, take_part);
    must(gp_run_announce_next(first->run, &err), &err);
    gp_run_destroy(&first->run);
    members[0].at = 1;
    ask(GP_ASK_GIVE, give_part);
    must(gp_run_refresh(next->run, &err), &err);
    *after = harness_hash(next);
}

static const gp_update momentum = {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9}},
                       plain = {.op = GP_OP_SGD, .states = 0};

static void the_next_run_has_every_tensor(void **state) {
    (void)state;
    static const shape shapes[][RUNS] = {
        {{2, {6, 11}, {1, 1}, {0, 1}, false, 2}, {3, {2, 6, 9}, {1, 1, 1}, {2, 1, 0}, false, 3}},
        {{2, {6, 11}, {2, 1}, {1, 2, 0}, false, 3}, {2, {9, 8}, {1, 1}, {2, 2}, false, 1}},
        {{1, {17}, {3}, {0, 1, 2}, true, 3}, {2, {6, 11}, {1, 2}, {0, 1, 2}, false, 3}},
        {{2, {6, 11}, {1, 1}, {0, 0}, false, 1}, {1, {17}, {3}, {0, 1, 2}, true, 3}},
    };
    const gp_update same[] = {momentum, momentum};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint64_t before, after;
        make_runs(shapes[i], same);
        carry(&before, &after);
        assert_true(before == after);
        end_runs(GP_OK);
    }
}

/* Together the processes have room for the state, and for no tensor twice. */
static void each_process_holds_its_part(void **state) {
    (void)state;
    static const shape shapes[RUNS] = {{2, {6, 11}, {2, 1}, {0, 1, 2}, false, 3}, {1, {17}, {3}, {0, 1, 2}, true, 3}};
    const gp_update same[] = {momentum, momentum};
    uint64_t before, after;
    make_runs(shapes, same);
    for (int r = 0; r < RUNS; r++) {
        size_t sum = 0, all = gp_state_bytes(members[0].h[r].plan);
        for (int p = 0; p < PROCESSES; p++) {
            size_t own = gp_state_own_bytes(members[p].h[r].plan);
            assert_true(own < all);
            sum += own;
        }
        assert_int_equal(sum, all);
    }
    carry(&before, &after);
    assert_true(before == after);
    end_runs(GP_OK);
}

/* The next optimizer has no state where the first had one; and the other way round. */
static void a_state_that_there_was_not_is_zero(void **state) {
    (void)state;
    static const shape shapes[RUNS] = {{2, {6, 11}, {1, 1}, {0, 1}, false, 2}, {2, {9, 8}, {1, 1}, {2, 1}, false, 2}};
    const gp_update more[] = {plain, momentum};
    gp_error err = {0};
    uint64_t before, after;
    make_runs(shapes, more);
    carry(&before, &after);
    harness *next = &members[0].h[1];
    int tensors = 0;
    for (int p = 0; p < next->graph->param_count; p++) {
        static float values[1 << 16];
        if (next->graph->params[p].spec.buffer) continue;
        const gp_tensor_copy momenta = {p, 0, values};
        memset(values, 1, sizeof values);
        must(gp_run_read(next->run, &momenta, 1, &err), &err);
        assert_true(values[0] == 0);
        tensors++;
    }
    assert_true(tensors > 0);
    end_runs(GP_OK);
}

/* Whoever holds it says so, and all end. */
static void a_value_that_is_not_finite_ends_all(void **state) {
    (void)state;
    static const shape shapes[RUNS] = {{2, {6, 11}, {1, 1}, {2, 1}, false, 2}, {2, {9, 8}, {1, 1}, {2, 1}, false, 2}};
    const gp_update same[] = {momentum, momentum};
    gp_error err = {0}, failure = {0};
    static float bad[1 << 16];
    make_runs(shapes, same);
    const harness *h = &members[0].h[0];
    must(harness_fill(&members[0].h[0], &err), &err);
    memset(bad, 0xFF, sizeof bad);
    assert_int_equal(gp_run_home(h->plan, 0), 2);
    must(gp_run_write(h->run, &(gp_tensor_copy){0, -1, bad}, 1, &err), &err);
    must(gp_run_ask(h->run, GP_ASK_HOLD, 0, &err), &err);
    gp_status status = take_part(&members[0], &err);
    if (status == GP_OK) status = gp_run_answers(h->run, &failure, &err);
    /* Process 0 waits for a message when the others end, or posts a command of its own: then it gets the cause. */
    assert_true(status == GP_CANCELLED || status == GP_NUMERIC);
    assert_int_equal(gp_cancel_cause(gp_run_cancel(h->run), &err), GP_NUMERIC);
    assert_non_null(strstr(err.text, "weight is not finite"));
    end_runs(status);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_run_has_every_tensor),
        cmocka_unit_test(each_process_holds_its_part),
        cmocka_unit_test(a_state_that_there_was_not_is_zero),
        cmocka_unit_test(a_value_that_is_not_finite_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
