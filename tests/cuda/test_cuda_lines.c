/* Workers on GPUs of several processes, each process a thread: messages over lines have the bits of one process, in
 * every order of execution; every call that fails, and every failure elsewhere, ends all processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/recorder.h"
#include "cuda/team.h"
#include "device/cuda/cuda.h"
#include "pipeline/harness.h"
#include "plan/lines.h"

enum { MICRO_BATCHES = 3, BATCH = 6, EVALUATED = 4, STEPS = 2 };

/* ---- equal bits -------------------------------------------------------------------------------------------------- */

#define PICTURES                                                                                                       \
    "input: {shape: [2, 5, 4]}\n"                                                                                      \
    "layers:\n"                                                                                                        \
    "  - conv: {out: 4, kernel: 3, pad: 1}\n"                                                                          \
    "  - batch_norm: {name: a}\n"                                                                                      \
    "  - relu\n"                                                                                                       \
    "  - conv: {out: 4, kernel: 3, pad: 1, bias: false}\n"                                                             \
    "  - batch_norm\n"                                                                                                 \
    "  - add: [-1, a]\n"                                                                                               \
    "  - relu\n"                                                                                                       \
    "  - batch_norm: {affine: false}\n"                                                                                \
    "  - flatten\n"                                                                                                    \
    "  - linear: 5\n"                                                                                                  \
    "loss: cross_entropy\n"
static const char pictures[] = PICTURES;
static const char joint[] = PICTURES "rules: {batch_norm: {sync: 2}}\n";
static const char joint_all[] = PICTURES "rules: {batch_norm: {sync: true}}\n";

static const team_setting settings[] = {
    {team_vectors, 2, {3, 5}, {0}, {.kind = GP_SCHEDULE_GPIPE}, 2, {0, 1}, 0, false},
    {team_vectors, 3, {2, 3, 3}, {0}, {.kind = GP_SCHEDULE_1F1B}, 2, {0, 1, 0}, 0, false},
    {team_vectors, 4, {2, 2, 2, 2}, {0}, {.kind = GP_SCHEDULE_GPIPE}, 3, {0, 1, 1, 2}, 0, false},
    {team_vectors, 4, {2, 2, 2, 2}, {0}, {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, 2, {0, 1}, 0, false},
    {team_vectors, 4, {2, 2, 2, 2}, {0}, {.kind = GP_SCHEDULE_ZB_V}, 2, {0, 1}, 0, false},
    {team_vectors, 2, {3, 5}, {2, 2}, {.kind = GP_SCHEDULE_1F1B}, 2, {0, 1, 0, 1}, 0, false},
    {team_vectors, 4, {2, 2, 2, 2}, {2, 2}, {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, 2, {0, 1, 0, 1}, 0, false},
    {team_vectors, 2, {3, 5}, {2, 1}, {.kind = GP_SCHEDULE_GPIPE}, 3, {0, 1, 2}, 0, false},
    /* Replicas: buckets that are sent within the backward, shards, shares without a sample. */
    {team_vectors, 1, {8}, {2}, {.kind = GP_SCHEDULE_GPIPE}, 2, {0, 1}, 300, false},
    {team_vectors, 2, {3, 5}, {3, 2}, {.kind = GP_SCHEDULE_ZB_H1}, 3, {0, 1, 2, 0, 1}, 200, false},
    {team_vectors, 1, {8}, {4}, {.kind = GP_SCHEDULE_GPIPE}, 4, {0, 1, 2, 3}, 300, true},
    {pictures, 1, {10}, {2}, {.kind = GP_SCHEDULE_1F1B}, 2, {0, 1}, 400, true},
    /* Synchronised batch norm, of groups in one process, in several, and in both. */
    {joint, 1, {10}, {2}, {.kind = GP_SCHEDULE_GPIPE}, 2, {0, 1}, 400, false},
    {joint, 1, {10}, {4}, {.kind = GP_SCHEDULE_GPIPE}, 3, {0, 1, 2, 2}, 0, false},
    {joint, 2, {4, 6}, {2, 2}, {.kind = GP_SCHEDULE_1F1B}, 3, {0, 1, 2, 2}, 300, true},
    {joint_all, 1, {10}, {3}, {.kind = GP_SCHEDULE_GPIPE}, 2, {0, 0, 1}, 0, false},
};

static const char *name_of(const team_setting *its) {
    static char name[16];
    snprintf(name, sizeof name, "setting %d", (int)(its - settings));
    return name;
}

static team_options options_of(const team_setting *its, gp_checkpoint_mode mode, bool lockstep) {
    team_options options = team_options_of(its, mode, lockstep);
    options.name = name_of(its);
    options.steps = STEPS;
    options.lines = true;
    options.seed = 1;
    options.training.kind = &gp_cuda_kind;
    options.training.micro_batches = MICRO_BATCHES;
    options.training.batch = BATCH;
    options.training.evaluation = EVALUATED;
    return options;
}

static void several_processes_have_the_bits_of_one(void **state) {
    (void)state;
    long messages = 0;
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++)
            for (int lockstep = 0; lockstep < 2; lockstep++) {
                if (!test_is_large() && (mode + lockstep + (int)s) % 3 != test_first(3)) continue;
                recorder_counts counts;
                team_options options = options_of(&settings[s], (gp_checkpoint_mode)mode, lockstep);
                options.alone = true;
                uint64_t one = team_bits(&options, RECORDER_LAZY, 0, &counts);
                assert_int_equal(counts.messages, 0);
                options.alone = false;
                for (int policy = 0; policy < RECORDER_POLICIES; policy++)
                    for (uint64_t seed = 0; seed < 2; seed++) {
                        uint64_t several = team_bits(&options, (recorder_policy)policy, seed, &counts);
                        if (several != one) fail_msg("setting %zu, policy %d, seed %d", s, policy, (int)seed);
                        messages += counts.messages;
                    }
            }
    assert_true(messages > 0);
}

/* ---- every wait is needed ---------------------------------------------------------------------------------------- */

static void no_wait_may_be_missing(void **state) {
    (void)state;
    const team_options options = options_of(&settings[0], GP_CHECKPOINT_ALWAYS, false);
    recorder_counts counts;
    (void)team_bits(&options, RECORDER_LAZY, 1, &counts);
    long found = 0, tried = 0;
    const int stride = test_pick(29, 7, 1);
    for (long wait = test_first(stride); wait < counts.waits; wait += stride, tried++) {
        const recorder_options recorder = {RECORDER_LAZY, 1, TEAM_GPUS, wait, -1, 0, 0, 0};
        team_outcome its;
        team_run(&options, &recorder, &its);
        found += its.sentence || its.err.status != GP_OK;
    }
    print_message("%ld of %ld missing waits were found\n", found, tried);
    /* Some are not needed, since no queue follows other workers (plan.c, gp_mini_queues), and more if a thread has seen
     * by chance what the wait is for. */
    assert_true(found > tried / 4);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void each_call_fails(void **state) {
    (void)state;
    const team_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false);
    team_fail_calls(&options, test_pick(997, 211, 1));
}

static gp_status fail_here(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    if (site->step == 2 && site->pc == 2 && h->options.rank == 1) return gp_fail(err, GP_INTERNAL, "made to fail here");
    return team_hear(context, site, err);
}

/* The other process has messages under way that never arrive: they are aborted. */
static void a_failure_elsewhere_aborts_what_is_under_way(void **state) {
    (void)state;
    team_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false);
    options.before = fail_here;
    for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
        const recorder_options recorder = {(recorder_policy)policy, 0, TEAM_GPUS, -1, -1, 0, 0, 0};
        team_outcome its;
        team_run(&options, &recorder, &its);
        if (!strstr(its.err.text, "made to fail here")) fail_msg("%s", its.err.text);
        assert_true(its.aborted > 0);
        if (its.sentence) fail_msg("policy %d: %s", policy, its.sentence);
    }
}

static gp_status break_lines(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    if (site->step == 2 && site->pc == 2 && h->options.rank == 1) {
        recorder_fail_lines();
        return gp_fail(err, GP_CANCELLED, "cancelled");
    }
    return team_hear(context, site, err);
}

/* It is polled where the host waits for its queues: there the error comes out. */
static void what_a_line_says_later_ends_the_run(void **state) {
    (void)state;
    const recorder_options recorder = {RECORDER_LAZY, 0, TEAM_GPUS, -1, -1, 0, 0, 0};
    team_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false);
    team_outcome its;
    options.before = break_lines;
    options.silent = true;
    team_run(&options, &recorder, &its);
    assert_int_equal(its.err.status, GP_DEVICE);
    if (!strstr(its.err.text, "the other process: made to fail") || !strstr(its.err.text, "worker 0"))
        fail_msg("%s", its.err.text);
    if (its.sentence) fail_msg("%s", its.sentence);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Edges share a line only if both programs have their messages in one order. */
static void flows_share_lines_in_one_order(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        harness_options options = options_of(&settings[s], GP_CHECKPOINT_NEVER, false).training;
        harness h[2];
        gp_lines *lines[2] = {NULL};
        gp_error err = {0};
        recorder_begin(&(recorder_options){RECORDER_LAZY, 0, TEAM_GPUS, -1, -1, 0, 0, 0});
        for (int p = 0; p < 2; p++) {
            options.rank = p;
            harness_plan(&h[p], &options);
            assert_int_equal(gp_lines_create(h[p].plan, p, &lines[p], &err), GP_OK);
        }
        /* Both have the same lines between them. */
        for (int a = 0, b = 0; a < lines[0]->line_count; a++) {
            const gp_line_plan *x = &lines[0]->lines[a];
            assert_true(a == 0 || x[-1].number < x->number);
            if (h[0].plan->process[x->from] != 1 && h[0].plan->process[x->to] != 1) continue;
            while (b < lines[1]->line_count && lines[1]->lines[b].number < x->number) b++;
            assert_true(b < lines[1]->line_count);
            assert_memory_equal(&lines[1]->lines[b], x, sizeof *x);
        }
        assert_true(lines[0]->line_count <= lines[0]->flow_count);
        for (int p = 0; p < 2; p++) {
            gp_lines_destroy(&lines[p]);
            harness_end(&h[p]);
        }
        assert_null(recorder_end(NULL));
    }
}

/* As many replicas, each in a process of its own. */
static gp_status lines_of(const char *model, int64_t layers, int replicas, gp_error *err) {
    int process[24];
    harness_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false).training;
    gp_lines *lines = NULL;
    harness h;
    for (int r = 0; r < replicas; r++) process[r] = r;
    options.model = model;
    options.layers = &layers;
    options.stages = 1;
    options.replicas = &replicas;
    options.process = process;
    options.processes = options.devices = replicas;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, replicas, -1, -1, 0, 0, 0});
    harness_plan(&h, &options);
    gp_status status = gp_lines_create(h.plan, 0, &lines, err);
    gp_lines_destroy(&lines);
    harness_end(&h);
    assert_null(recorder_end(NULL));
    return status;
}

static void too_many_replicas_are_refused(void **state) {
    (void)state;
    gp_error err = {0};
    assert_int_equal(lines_of(team_vectors, 8, 13, &err), GP_OK);
    assert_int_equal(lines_of(joint_all, 10, 9, &err), GP_OK);
    assert_int_equal(lines_of(team_vectors, 8, 16, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text,
                        "worker 0: cuda:0 would need 34 queues for messages of other processes, and 32 of its "
                        "multiprocessors; 30 and 64 are possible. Connect it with fewer stages and replicas of other "
                        "processes, or use pipeline.transport: mpi");
    assert_int_equal(lines_of(joint_all, 10, 12, &err), GP_UNSUPPORTED);
}

/* One value goes to many stages. */
static void too_many_multiprocessors_are_refused(void **state) {
    (void)state;
    enum { STAGES = 17 };
    char model[4096] = "input: {shape: [4]}\nlayers:\n  - linear: {name: a, out: 4}\n";
    int64_t layers[STAGES];
    int process[STAGES];
    harness_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false).training;
    gp_lines *lines = NULL;
    gp_error err = {0};
    harness h;
    for (int s = 0; s < STAGES; s++) {
        layers[s] = 1;
        process[s] = s;
        if (s > 0) strcat(model, "  - add: [-1, a]\n");
    }
    strcat(model, "loss: cross_entropy\n");
    options.model = model;
    options.layers = layers;
    options.stages = STAGES;
    options.process = process;
    options.processes = options.devices = STAGES;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, STAGES, -1, -1, 0, 0, 0});
    harness_plan(&h, &options);
    assert_int_equal(gp_lines_create(h.plan, 0, &lines, &err), GP_UNSUPPORTED);
    if (!strstr(err.text, "would need 21 queues") || !strstr(err.text, "and 70 of its multiprocessors"))
        fail_msg("%s", err.text);
    harness_end(&h);
    assert_null(recorder_end(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(flows_share_lines_in_one_order),
                                       cmocka_unit_test(too_many_replicas_are_refused),
                                       cmocka_unit_test(too_many_multiprocessors_are_refused),
                                       cmocka_unit_test(several_processes_have_the_bits_of_one),
                                       cmocka_unit_test(no_wait_may_be_missing),
                                       cmocka_unit_test(each_call_fails),
                                       cmocka_unit_test(a_failure_elsewhere_aborts_what_is_under_way),
                                       cmocka_unit_test(what_a_line_says_later_ends_the_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
