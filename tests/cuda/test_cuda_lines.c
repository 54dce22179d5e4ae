/* Workers on GPUs of several processes, each process a thread: messages over lines have the bits of one process, in
 * every order of execution; every call that fails, and every failure elsewhere, ends all processes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "cuda/recorder.h"
#include "device/cpu/cpu.h"
#include "device/cuda/cuda.h"
#include "pipeline/follow.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "plan/lines.h"
#include "process/loop_wire.h"

enum { MOST_PROCESSES = 4, MICRO_BATCHES = 3, BATCH = 6, STEPS = 2, SOLO = -1 };

/* A training, and the processes of its workers. */
typedef struct setting {
    const char *model;
    int stages;
    int64_t layers[4];
    int replicas[4]; /* 0: one each */
    gp_schedule schedule;
    int processes;
    int process[6];
    size_t bucket; /* bytes */
    bool shards;
} setting;

typedef struct member {
    harness h;
    gp_hooks hooks;
    pthread_t thread;
    gp_status status;
    gp_error err;
    gp_run *run; /* that others may end; team->lock */
    struct team *team;
    gp_wire *wire;
} member;

/* All processes of one training. */
typedef struct team {
    member member[MOST_PROCESSES];
    int processes;
    loop_hub *hub; /* NULL: one process */
    pthread_mutex_t lock;
    bool silent;    /* no one tells the others that it failed */
    gp_error cause; /* of the first that did; lock */
} team;

/* ---- what threads have seen -------------------------------------------------------------------------------------- */

static size_t word_of(const gp_plan *plan, uint64_t step, const gp_wait *event) {
    return step * gp_event_count(plan->stages, MICRO_BATCHES) + gp_event_number(plan->stages, MICRO_BATCHES, event);
}

/* Of what happens in this process; of the others a thread sees nothing. */
static gp_status hear(void *context, const gp_site *site, gp_error *err) {
    const harness *h = &((member *)context)->h;
    const gp_worker_waits *waits = &h->plan->minis[site->mini].waits->worker[site->worker];
    (void)err;
    for (size_t i = waits->first[site->pc]; i < waits->first[site->pc + 1]; i++)
        if (!gp_plan_stage_is_far(h->plan, gp_event_stage(h->plan->stages, &waits->items[i])))
            recorder_hear(word_of(h->plan, site->step, &waits->items[i]));
    return GP_OK;
}

static gp_status tell(void *context, const gp_site *site, gp_error *err) {
    const harness *h = &((member *)context)->h;
    gp_wait event;
    (void)err;
    if (gp_instr_event(site->instr, &event)) recorder_tell(word_of(h->plan, site->step, &event));
    return GP_OK;
}

/* ---- the processes ----------------------------------------------------------------------------------------------- */

static gp_status take(void *context, bool training, int64_t epoch, int64_t index, int64_t samples, gp_step_input *out,
                      int64_t *counted, gp_error *err) {
    harness *h = context;
    *counted = 0; /* no test asks */
    (void)training;
    (void)epoch;
    (void)index;
    (void)err;
    harness_make_data(h, samples, out->step);
    out->input = h->input;
    out->target = h->target;
    return GP_OK;
}

/* What one process meets, the others end with, as the guard has it. */
static void end_all(team *all, const gp_error *cause) {
    pthread_mutex_lock(&all->lock);
    if (all->cause.status == GP_OK) all->cause = *cause;
    for (int p = 0; p < all->processes; p++)
        if (all->member[p].run) (void)gp_cancel_raise(gp_run_cancel(all->member[p].run), cause);
    pthread_mutex_unlock(&all->lock);
}

/* From here on the others can end the run; NULL: no longer. */
static void watch(member *its, gp_run *run) {
    pthread_mutex_lock(&its->team->lock);
    its->run = run;
    if (run && its->team->cause.status != GP_OK) (void)gp_cancel_raise(gp_run_cancel(run), &its->team->cause);
    pthread_mutex_unlock(&its->team->lock);
}

static gp_status open_run(member *its) {
    gp_status status = gp_run_create_team(its->h.plan, &its->hooks, its->wire, &its->h.run, &its->err);
    if (status == GP_OK) watch(its, its->h.run);
    return status;
}

static void *follow(void *context) {
    member *its = context;
    gp_feed feed = {.context = &its->h, .take = take};
    bool goes_on = false;
    its->status = open_run(its);
    if (its->status == GP_OK) its->status = gp_run_follow(its->h.run, &feed, &goes_on, &its->err);
    if (its->status != GP_OK && !its->team->silent) end_all(its->team, &its->err);
    watch(its, NULL);
    gp_run_destroy(&its->h.run);
    return NULL;
}

static harness_options options_of(const setting *its, gp_checkpoint_mode mode, bool lockstep) {
    return (harness_options){.model = its->model,
                             .layers = its->layers,
                             .stages = its->stages,
                             .replicas = its->replicas[0] ? its->replicas : NULL,
                             .schedule = its->schedule,
                             .kind = &gp_cuda_kind,
                             .checkpoint = mode,
                             .lockstep = lockstep,
                             .micro_batches = MICRO_BATCHES,
                             .batch = BATCH,
                             .evaluation = 4,
                             .devices = 6,
                             .bucket = its->bucket,
                             .shard_optimizer = its->shards,
                             .norms = true,
                             .clip_norm = 0.5};
}

/* Every thread of the recorder is at rest after a read of all parameters. */
static gp_status train(harness *h, uint64_t *hash, gp_error *err) {
    *hash = 0;
    for (uint32_t step = 1; step <= STEPS + 1; step++) {
        gp_step_result result;
        bool training = step <= STEPS;
        recorder_meet();
        GP_RETURN_IF_FAILED(harness_step(h, training ? BATCH : 4, training, step, &result, err));
        uint64_t kept = 0;
        double values[4096];
        for (int p = 0; p < h->graph->param_count; p++) {
            int64_t elements;
            if (!gp_shape_elements(h->graph->params[p].spec.shape, &elements) || elements > 4096)
                return gp_fail(err, GP_INTERNAL, "a parameter is too large for this test");
            GP_RETURN_IF_FAILED(gp_run_read(h->run, &(gp_tensor_copy){p, -1, values}, 1, err));
            kept = gp_hash_bytes(kept, values, (uint64_t)elements * sizeof(float));
        }
        *hash = gp_hash_bytes(gp_hash_bytes(*hash, &kept, sizeof kept), &result.loss_sum, sizeof result.loss_sum);
    }
    return GP_OK;
}

static void wire_failed(void *context, int rank, const gp_error *cause) {
    (void)rank;
    end_all(context, cause);
}

static void end_team(team *all) {
    watch(&all->member[0], NULL);
    gp_run_destroy(&all->member[0].h.run);
    for (int p = 1; p < all->processes; p++) pthread_join(all->member[p].thread, NULL);
    recorder_meet();
    for (int p = 0; p < all->processes; p++) harness_end(&all->member[p].h);
    if (all->hub) loop_close(&all->hub);
    pthread_mutex_destroy(&all->lock);
}

/* What process 0 does. */
static void lead(team *all, uint64_t *hash) {
    member *its = &all->member[0];
    its->status = open_run(its);
    if (its->status == GP_OK) its->status = harness_fill(&its->h, &its->err);
    if (its->status == GP_OK) its->status = train(&its->h, hash, &its->err);
    if (its->status != GP_OK) end_all(all, &its->err);
}

typedef gp_status (*before_hook)(void *context, const gp_site *site, gp_error *err);

static void begin_team(team *all, const setting *its, const harness_options *options, bool alone, before_hook before) {
    *all = (team){.processes = alone ? 1 : its->processes};
    pthread_mutex_init(&all->lock, NULL);
    if (!alone) all->hub = loop_open(all->processes, 1, 0, wire_failed, all);
    for (int p = 0; p < all->processes; p++) {
        member *m = &all->member[p];
        harness_options own = *options;
        if (!alone) {
            own.process = its->process;
            own.processes = its->processes;
            own.rank = p;
            m->wire = loop_wire_of(all->hub, p);
        }
        m->team = all;
        harness_plan(&m->h, &own);
        m->hooks = (gp_hooks){.before = before, .after = tell, .context = m};
    }
    for (int p = 1; p < all->processes; p++)
        assert_int_equal(pthread_create(&all->member[p].thread, NULL, follow, &all->member[p]), 0);
}

/* The first cause. */
static gp_status run_team(const setting *its, const harness_options *options, bool alone, uint64_t *hash,
                          gp_error *err) {
    static team all;
    begin_team(&all, its, options, alone, hear);
    lead(&all, hash);
    end_team(&all);
    *err = all.cause;
    return all.cause.status;
}

static uint64_t bits(const setting *its, gp_checkpoint_mode mode, bool lockstep, bool alone, recorder_policy policy,
                     uint64_t seed, recorder_counts *counts) {
    const harness_options options = options_of(its, mode, lockstep);
    gp_error err = {0};
    uint64_t hash = 0;
    recorder_begin(&(recorder_options){policy, seed, 6, -1, -1, 0, 0, 0});
    gp_status status = run_team(its, &options, alone, &hash, &err);
    const char *sentence = recorder_end(counts);
    if (sentence) fail_msg("%s (%s)", sentence, status == GP_OK ? "" : err.text);
    if (status != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(alone ? 0 : recorder_aborted_lines(), 0);
    return hash;
}

/* ---- equal bits -------------------------------------------------------------------------------------------------- */

static const char vectors[] = "input: {shape: [12]}\n"
                              "layers:\n"
                              "  - linear: {name: a, out: 10}\n"
                              "  - relu: {name: b}\n"
                              "  - linear: {name: c, out: 10}\n"
                              "  - add: {name: d, from: [-1, a]}\n"
                              "  - relu: {name: e}\n"
                              "  - linear: {name: f, out: 10}\n"
                              "  - add: {name: g, from: [-1, b]}\n"
                              "  - linear: {name: h, out: 4}\n"
                              "loss: cross_entropy\n";

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

static const setting settings[] = {
    {vectors, 2, {3, 5}, {0}, {.kind = GP_SCHEDULE_GPIPE}, 2, {0, 1}, 0, false},
    {vectors, 3, {2, 3, 3}, {0}, {.kind = GP_SCHEDULE_1F1B}, 2, {0, 1, 0}, 0, false},
    {vectors, 4, {2, 2, 2, 2}, {0}, {.kind = GP_SCHEDULE_GPIPE}, 3, {0, 1, 1, 2}, 0, false},
    {vectors, 4, {2, 2, 2, 2}, {0}, {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, 2, {0, 1}, 0, false},
    {vectors, 4, {2, 2, 2, 2}, {0}, {.kind = GP_SCHEDULE_ZB_V}, 2, {0, 1}, 0, false},
    {vectors, 2, {3, 5}, {2, 2}, {.kind = GP_SCHEDULE_1F1B}, 2, {0, 1, 0, 1}, 0, false},
    {vectors, 4, {2, 2, 2, 2}, {2, 2}, {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, 2, {0, 1, 0, 1}, 0, false},
    {vectors, 2, {3, 5}, {2, 1}, {.kind = GP_SCHEDULE_GPIPE}, 3, {0, 1, 2}, 0, false},
    /* Replicas: buckets that are sent within the backward, shards, shares without a sample. */
    {vectors, 1, {8}, {2}, {.kind = GP_SCHEDULE_GPIPE}, 2, {0, 1}, 300, false},
    {vectors, 2, {3, 5}, {3, 2}, {.kind = GP_SCHEDULE_ZB_H1}, 3, {0, 1, 2, 0, 1}, 200, false},
    {vectors, 1, {8}, {4}, {.kind = GP_SCHEDULE_GPIPE}, 4, {0, 1, 2, 3}, 300, true},
    {pictures, 1, {10}, {2}, {.kind = GP_SCHEDULE_1F1B}, 2, {0, 1}, 400, true},
    /* Synchronised batch norm, of groups in one process, in several, and in both. */
    {joint, 1, {10}, {2}, {.kind = GP_SCHEDULE_GPIPE}, 2, {0, 1}, 400, false},
    {joint, 1, {10}, {4}, {.kind = GP_SCHEDULE_GPIPE}, 3, {0, 1, 2, 2}, 0, false},
    {joint, 2, {4, 6}, {2, 2}, {.kind = GP_SCHEDULE_1F1B}, 3, {0, 1, 2, 2}, 300, true},
    {joint_all, 1, {10}, {3}, {.kind = GP_SCHEDULE_GPIPE}, 2, {0, 0, 1}, 0, false},
};

static void several_processes_have_the_bits_of_one(void **state) {
    (void)state;
    long messages = 0;
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++)
            for (int lockstep = 0; lockstep < 2; lockstep++) {
                gp_checkpoint_mode its = (gp_checkpoint_mode)mode;
                if (!test_is_large() && (mode + lockstep + (int)s) % 3 != test_first(3)) continue;
                recorder_counts counts;
                uint64_t one = bits(&settings[s], its, lockstep, true, RECORDER_LAZY, 0, &counts);
                assert_int_equal(counts.messages, 0);
                for (int policy = 0; policy < RECORDER_POLICIES; policy++)
                    for (uint64_t seed = 0; seed < 2; seed++) {
                        uint64_t several =
                            bits(&settings[s], its, lockstep, false, (recorder_policy)policy, seed, &counts);
                        if (several != one) fail_msg("setting %zu, policy %d, seed %d", s, policy, (int)seed);
                        messages += counts.messages;
                    }
            }
    assert_true(messages > 0);
}

/* ---- every wait is needed ---------------------------------------------------------------------------------------- */

static void no_wait_may_be_missing(void **state) {
    (void)state;
    const harness_options options = options_of(&settings[0], GP_CHECKPOINT_ALWAYS, false);
    recorder_counts counts;
    (void)bits(&settings[0], GP_CHECKPOINT_ALWAYS, false, false, RECORDER_LAZY, 1, &counts);
    long found = 0, tried = 0;
    const int stride = test_pick(29, 7, 1);
    for (long wait = test_first(stride); wait < counts.waits; wait += stride, tried++) {
        gp_error err = {0};
        uint64_t hash;
        recorder_begin(&(recorder_options){RECORDER_LAZY, 1, 6, wait, -1, 0, 0, 0});
        gp_status status = run_team(&settings[0], &options, false, &hash, &err);
        const char *sentence = recorder_end(NULL);
        found += sentence || status != GP_OK;
    }
    print_message("%ld of %ld missing waits were found\n", found, tried);
    /* Some are not needed, since no queue follows other workers (plan.c, gp_mini_queues), and more if a thread has seen
     * by chance what the wait is for. */
    assert_true(found > tried / 4);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void each_call_fails(void **state) {
    (void)state;
    const harness_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false);
    recorder_counts counts;
    (void)bits(&settings[0], GP_CHECKPOINT_NEVER, false, false, RECORDER_EAGER, 0, &counts);
    long failed = 0, tried = 0;
    const long stride = test_pick(997, 211, 1);
    for (long call = test_first((int)stride); call < counts.calls; call += stride, tried++) {
        gp_error err = {0};
        uint64_t hash;
        recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 6, -1, call, 0, 0, 0});
        gp_status status = run_team(&settings[0], &options, false, &hash, &err);
        const char *sentence = recorder_end(NULL);
        if (sentence) fail_msg("call %ld: %s", call, sentence);
        if (status == GP_OK) continue;
        failed++;
        if (!strstr(err.text, "made to fail") || !strstr(err.text, "worker ")) fail_msg("call %ld: %s", call, err.text);
    }
    print_message("%ld of %ld calls failed a run\n", failed, tried);
    /* How often threads ask whether something is over is different each time; so a run may have fewer calls. */
    assert_true(failed > tried / 8);
}

static gp_status fail_here(void *context, const gp_site *site, gp_error *err) {
    member *its = context;
    if (site->step == 2 && site->pc == 2 && its->h.options.rank == 1)
        return gp_fail(err, GP_INTERNAL, "made to fail here");
    return hear(context, site, err);
}

/* The other process has messages under way that never arrive: they are aborted. */
static void a_failure_elsewhere_aborts_what_is_under_way(void **state) {
    (void)state;
    for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
        static team all;
        const harness_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false);
        uint64_t hash;
        recorder_begin(&(recorder_options){(recorder_policy)policy, 0, 6, -1, -1, 0, 0, 0});
        begin_team(&all, &settings[0], &options, false, fail_here);
        lead(&all, &hash);
        end_team(&all);
        if (!strstr(all.cause.text, "made to fail here")) fail_msg("%s", all.cause.text);
        assert_true(recorder_aborted_lines() > 0);
        const char *sentence = recorder_end(NULL);
        if (sentence) fail_msg("policy %d: %s", policy, sentence);
    }
}

static gp_status break_lines(void *context, const gp_site *site, gp_error *err) {
    member *its = context;
    if (site->step == 2 && site->pc == 2 && its->h.options.rank == 1) {
        recorder_fail_lines();
        its->team->silent = true;
        return gp_fail(err, GP_CANCELLED, "cancelled");
    }
    return hear(context, site, err);
}

/* It is polled where the host waits for its queues: there the error comes out. */
static void what_a_line_says_later_ends_the_run(void **state) {
    (void)state;
    static team all;
    const harness_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false);
    uint64_t hash;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 6, -1, -1, 0, 0, 0});
    begin_team(&all, &settings[0], &options, false, break_lines);
    lead(&all, &hash);
    end_team(&all);
    const gp_error *err = &all.cause;
    assert_int_equal(err->status, GP_DEVICE);
    if (!strstr(err->text, "the other process: made to fail") || !strstr(err->text, "worker 0"))
        fail_msg("%s", err->text);
    const char *sentence = recorder_end(NULL);
    if (sentence) fail_msg("%s", sentence);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Edges share a line only if both programs have their messages in one order. */
static void flows_share_lines_in_one_order(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        harness_options options = options_of(&settings[s], GP_CHECKPOINT_NEVER, false);
        harness h[2];
        gp_lines *lines[2] = {NULL};
        gp_error err = {0};
        recorder_begin(&(recorder_options){RECORDER_LAZY, 0, 6, -1, -1, 0, 0, 0});
        for (int p = 0; p < 2; p++) {
            options.process = settings[s].process;
            options.processes = settings[s].processes;
            options.rank = p;
            harness_plan(&h[p], &options);
            assert_int_equal(gp_lines_create(h[p].plan, &lines[p], &err), GP_OK);
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
    harness_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false);
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
    gp_status status = gp_lines_create(h.plan, &lines, err);
    gp_lines_destroy(&lines);
    harness_end(&h);
    assert_null(recorder_end(NULL));
    return status;
}

static void too_many_replicas_are_refused(void **state) {
    (void)state;
    gp_error err = {0};
    assert_int_equal(lines_of(vectors, 8, 13, &err), GP_OK);
    assert_int_equal(lines_of(joint_all, 10, 9, &err), GP_OK);
    assert_int_equal(lines_of(vectors, 8, 16, &err), GP_UNSUPPORTED);
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
    harness_options options = options_of(&settings[0], GP_CHECKPOINT_NEVER, false);
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
    assert_int_equal(gp_lines_create(h.plan, &lines, &err), GP_UNSUPPORTED);
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
