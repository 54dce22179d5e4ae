/* Workers on CPUs and GPUs of several processes, each process a thread: messages over the wire, through buffers of the
 * host, have the bits of one process. Every call that fails, and every failure elsewhere, ends all processes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/philox.h"
#include "cuda/recorder.h"
#include "device/cpu/cpu.h"
#include "device/cuda/cuda.h"
#include "pipeline/far.h"
#include "pipeline/follow.h"
#include "pipeline/harness.h"
#include "plan/identity.h"
#include "plan/lines.h"
#include "plan/memory.h"
#include "plan/staging.h"
#include "process/loop_wire.h"

enum {
    MOST_PROCESSES = 4,
    MOST_WORKERS = 6,
    MICRO_BATCHES = 5,
    BATCH = 15,
    LAST = 6,
    EVALUATED = 8,
    STEPS = 3,
    DELAY = 100
};

/* A training, and the processes of its workers. */
typedef struct setting {
    const char *name, *model;
    int stages;
    int64_t layers[4];
    int replicas[4]; /* 0: one each */
    gp_schedule schedule;
    int processes;
    int process[MOST_WORKERS];
    const char *kinds; /* [worker] C: a CPU; G: a GPU */
    gp_carrier carrier;
    int devices; /* GPUs of the workers; 0: one each */
    bool shards;
    bool lines; /* are expected */
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
    gp_error cause; /* of the first that failed; lock */
} team;

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

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

/* The run takes what the plan says. */
static gp_status check_staging(member *its) {
    size_t planned;
    GP_RETURN_IF_FAILED(gp_staging_bytes(its->h.plan, &planned, &its->err));
    if (gp_far_staged(its->h.run) == planned) return GP_OK;
    return gp_fail(&its->err, GP_INTERNAL, "%zu bytes of staging, but %zu are planned", gp_far_staged(its->h.run),
                   planned);
}

static gp_status open_run(member *its) {
    GP_RETURN_IF_FAILED(gp_run_create_team(its->h.plan, &its->hooks, its->wire, &its->h.run, &its->err));
    watch(its, its->h.run);
    return check_staging(its);
}

static void *follow(void *context) {
    member *its = context;
    gp_feed feed = {.context = &its->h, .take = take};
    bool goes_on = false;
    its->status = open_run(its);
    if (its->status == GP_OK) its->status = gp_run_follow(its->h.run, &feed, &goes_on, &its->err);
    if (its->status != GP_OK) end_all(its->team, &its->err);
    watch(its, NULL);
    gp_run_destroy(&its->h.run);
    return NULL;
}

static harness_options options_of(const setting *its, gp_checkpoint_mode mode, bool lockstep,
                                  const gp_device_kind *kinds[MOST_WORKERS]) {
    for (int w = 0; its->kinds[w]; w++) kinds[w] = its->kinds[w] == 'G' ? &gp_cuda_kind : &gp_cpu_kind;
    return (harness_options){.model = its->model,
                             .layers = its->layers,
                             .stages = its->stages,
                             .replicas = its->replicas[0] ? its->replicas : NULL,
                             .schedule = its->schedule,
                             .kinds = kinds,
                             .carrier = its->carrier,
                             .checkpoint = mode,
                             .lockstep = lockstep,
                             .shard_optimizer = its->shards,
                             .bucket = 200,
                             .micro_batches = MICRO_BATCHES,
                             .batch = BATCH,
                             .last = LAST,
                             .evaluation = EVALUATED,
                             .devices = its->devices ? its->devices : MOST_WORKERS,
                             .norms = true,
                             .clip_norm = 0.5};
}

/* Every thread of the recorder is at rest after a read of all parameters. */
static gp_status train(harness *h, uint64_t *hash, gp_error *err) {
    *hash = 0;
    for (uint32_t step = 1; step <= STEPS + 1; step++) {
        gp_step_result result;
        bool training = step <= STEPS;
        int64_t samples = !training ? EVALUATED : step == 2 ? LAST : BATCH;
        recorder_meet();
        GP_RETURN_IF_FAILED(harness_step(h, samples, training, step, &result, err));
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

static void begin_team(team *all, const setting *its, const harness_options *options, bool alone, uint64_t seed,
                       before_hook before) {
    *all = (team){.processes = alone ? 1 : its->processes};
    pthread_mutex_init(&all->lock, NULL);
    if (!alone) all->hub = loop_open(all->processes, seed, seed % 4 == 1 ? DELAY : 0, wire_failed, all);
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
        assert_int_equal(m->h.plan->lines, !alone && its->lines);
        m->hooks = (gp_hooks){.before = before, .after = tell, .context = m};
    }
    for (int p = 1; p < all->processes; p++)
        assert_int_equal(pthread_create(&all->member[p].thread, NULL, follow, &all->member[p]), 0);
}

/* The first cause. */
static gp_status run_team(const setting *its, const harness_options *options, bool alone, uint64_t seed,
                          before_hook before, uint64_t *hash, gp_error *err) {
    static team all;
    begin_team(&all, its, options, alone, seed, before);
    lead(&all, hash);
    end_team(&all);
    *err = all.cause;
    return all.cause.status;
}

static uint64_t bits(const setting *its, gp_checkpoint_mode mode, bool lockstep, bool alone, recorder_policy policy,
                     uint64_t seed, recorder_counts *counts) {
    const gp_device_kind *kinds[MOST_WORKERS];
    const harness_options options = options_of(its, mode, lockstep, kinds);
    gp_error err = {0};
    uint64_t hash = 0;
    recorder_begin(&(recorder_options){policy, seed, MOST_WORKERS, -1, -1, 0, 0, 0});
    gp_status status = run_team(its, &options, alone, seed, hear, &hash, &err);
    const char *sentence = recorder_end(counts);
    if (sentence) fail_msg("%s: %s (%s)", its->name, sentence, status == GP_OK ? "" : err.text);
    if (status != GP_OK) fail_msg("%s: %s", its->name, err.text);
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

static const char norms[] = "input: {shape: [12]}\n"
                            "layers:\n"
                            "  - linear: {name: a, out: 10}\n"
                            "  - batch_norm: {name: b, sync: true}\n"
                            "  - relu: {name: c}\n"
                            "  - linear: {name: d, out: 10}\n"
                            "  - batch_norm: {name: e, sync: true}\n"
                            "  - relu: {name: f}\n"
                            "  - add: {name: g, from: [-1, c]}\n"
                            "  - batch_norm: {name: h, sync: true}\n"
                            "  - linear: {name: i, out: 4}\n"
                            "loss: cross_entropy\n";

#define SCHEDULED(its, n)                                                                                              \
    { .kind = GP_SCHEDULE_##its, .chunks = (n) }
static const setting settings[] = {
    {.name = "a CPU, then a GPU",
     .model = vectors,
     .stages = 2,
     .layers = {3, 5},
     .schedule = SCHEDULED(GPIPE, 0),
     .processes = 2,
     .process = {0, 1},
     .kinds = "CG"},
    {.name = "a GPU, then CPUs",
     .model = vectors,
     .stages = 3,
     .layers = {2, 3, 3},
     .schedule = SCHEDULED(1F1B, 0),
     .processes = 2,
     .process = {0, 1, 0},
     .kinds = "GCC"},
    {.name = "by turns",
     .model = vectors,
     .stages = 4,
     .layers = {2, 2, 2, 2},
     .schedule = SCHEDULED(1F1B, 0),
     .processes = 4,
     .process = {3, 2, 0, 1},
     .kinds = "CGCG",
     .carrier = GP_CARRIER_WIRE},
    {.name = "interleaved",
     .model = vectors,
     .stages = 4,
     .layers = {2, 2, 2, 2},
     .schedule = SCHEDULED(INTERLEAVED, 2),
     .processes = 2,
     .process = {0, 1},
     .kinds = "CG"},
    {.name = "zb_v",
     .model = vectors,
     .stages = 4,
     .layers = {2, 2, 2, 2},
     .schedule = SCHEDULED(ZB_V, 0),
     .processes = 2,
     .process = {1, 0},
     .kinds = "GC"},
    {.name = "replicas",
     .model = vectors,
     .stages = 2,
     .layers = {3, 5},
     .replicas = {2, 2},
     .schedule = SCHEDULED(1F1B, 0),
     .processes = 2,
     .process = {0, 1, 0, 1},
     .kinds = "CCGG",
     .carrier = GP_CARRIER_WIRE},
    {.name = "one GPU for two workers",
     .model = vectors,
     .stages = 4,
     .layers = {2, 2, 2, 2},
     .schedule = SCHEDULED(GPIPE, 0),
     .processes = 2,
     .process = {0, 1, 1, 0},
     .kinds = "GGGG",
     .devices = 1},
    {.name = "GPUs and shards",
     .model = vectors,
     .stages = 2,
     .layers = {3, 5},
     .replicas = {2, 2},
     .schedule = SCHEDULED(GPIPE, 0),
     .processes = 4,
     .process = {0, 1, 2, 3},
     .kinds = "GGGG",
     .carrier = GP_CARRIER_WIRE,
     .shards = true},
    {.name = "an idle replica",
     .model = vectors,
     .stages = 2,
     .layers = {3, 5},
     .replicas = {4, 1}, /* of 3 samples */
     .schedule = SCHEDULED(GPIPE, 0),
     .processes = 3,
     .process = {0, 1, 0, 2, 1},
     .kinds = "GGGGC",
     .carrier = GP_CARRIER_WIRE},
    {.name = "synchronised",
     .model = norms,
     .stages = 2,
     .layers = {4, 5},
     .replicas = {2, 3},
     .schedule = SCHEDULED(1F1B, 0),
     .processes = 3,
     .process = {0, 1, 0, 1, 2},
     .kinds = "GGGGG",
     .carrier = GP_CARRIER_WIRE},
    {.name = "lines and the wire",
     .model = vectors,
     .stages = 3,
     .layers = {2, 3, 3},
     .schedule = SCHEDULED(1F1B, 0),
     .processes = 3,
     .process = {0, 1, 2},
     .kinds = "GCG",
     .lines = true},
};
enum { PAIR = 0, INTERLEAVED = 3, SHARED = 6, SHARDS = 7, SETTINGS = sizeof settings / sizeof *settings };

/* Which modes: each setting meets others than the one before. */
static void several_processes_have_the_bits_of_one(void **state) {
    (void)state;
    for (int s = 0; s < SETTINGS; s++)
        for (int way = 0; way < 6; way++) {
            gp_checkpoint_mode mode = (gp_checkpoint_mode)(way / 2);
            bool lockstep = way % 2;
            if (!test_is_large() && (way + s) % 3 != test_first(3)) continue;
            recorder_counts counts;
            uint64_t one = bits(&settings[s], mode, lockstep, true, RECORDER_LAZY, 0, &counts);
            for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
                uint64_t seed = (uint64_t)(policy + way);
                uint64_t several = bits(&settings[s], mode, lockstep, false, (recorder_policy)policy, seed, &counts);
                if (several != one) fail_msg("%s, way %d, policy %d: other bits", settings[s].name, way, policy);
                assert_int_equal(counts.messages > 0, settings[s].lines);
            }
        }
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* After a failure threads of one process do not hear of one another, so in these settings each process has one worker.
 */
static void fail_calls(const setting *its, long stride) {
    const gp_device_kind *kinds[MOST_WORKERS];
    const harness_options options = options_of(its, GP_CHECKPOINT_NEVER, false, kinds);
    recorder_counts counts;
    (void)bits(its, GP_CHECKPOINT_NEVER, false, false, RECORDER_EAGER, 0, &counts);
    long failed = 0, tried = 0;
    for (long call = test_first((int)stride); call < counts.calls; call += stride, tried++) {
        gp_error err = {0};
        uint64_t hash;
        recorder_begin(&(recorder_options){RECORDER_EAGER, 0, MOST_WORKERS, -1, call, 0, 0, 0});
        gp_status status = run_team(its, &options, false, 0, hear, &hash, &err);
        const char *sentence = recorder_end(NULL);
        if (sentence) fail_msg("call %ld: %s (%s)", call, sentence, err.text);
        if (status == GP_OK) continue;
        failed++;
        if (!strstr(err.text, "made to fail") || !strstr(err.text, "worker ")) fail_msg("call %ld: %s", call, err.text);
    }
    print_message("%s: %ld of %ld calls failed a run\n", its->name, failed, tried);
    assert_true(failed > tried / 8); /* see test_cuda_lines.c */
}

static void each_call_fails(void **state) {
    (void)state;
    fail_calls(&settings[INTERLEAVED], test_pick(401, 101, 1));
    fail_calls(&settings[SHARDS], test_pick(997, 401, 1));
}

static int failing_rank, failing_pc;

static gp_status fail_here(void *context, const gp_site *site, gp_error *err) {
    member *its = context;
    if (site->step == 2 && (int)site->pc == failing_pc && its->h.options.rank == failing_rank)
        return gp_fail(err, GP_INTERNAL, "made to fail here");
    return hear(context, site, err);
}

/* The other process waits for a message, or for its GPU, and ends. */
static void a_failure_elsewhere_ends_all(void **state) {
    (void)state;
    const gp_device_kind *kinds[MOST_WORKERS];
    for (failing_rank = 0; failing_rank < 2; failing_rank++)
        for (failing_pc = 1; failing_pc < 20; failing_pc += 6) {
            const harness_options options = options_of(&settings[PAIR], GP_CHECKPOINT_NEVER, false, kinds);
            uint64_t hash;
            gp_error err = {0};
            recorder_begin(&(recorder_options){RECORDER_LAZY, 0, MOST_WORKERS, -1, -1, 0, 0, 0});
            (void)run_team(&settings[PAIR], &options, false, 1, fail_here, &hash, &err);
            if (!strstr(err.text, "made to fail here")) fail_msg("%s", err.text);
            const char *sentence = recorder_end(NULL);
            if (sentence) fail_msg("%s", sentence);
        }
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Plans of process 0. */
static void plan_of(const setting *its, const gp_device_kind *gpu, harness *h) {
    static const gp_device_kind *kinds[MOST_WORKERS];
    harness_options options = options_of(its, GP_CHECKPOINT_NEVER, false, kinds);
    for (int w = 0; its->kinds[w]; w++) kinds[w] = its->kinds[w] == 'G' ? gpu : &gp_cpu_kind;
    options.process = its->process;
    options.processes = its->processes;
    harness_plan(h, &options);
}

static const setting pair_of_gpus = {.name = "two GPUs",
                                     .model = vectors,
                                     .stages = 2,
                                     .layers = {3, 5},
                                     .schedule = SCHEDULED(GPIPE, 0),
                                     .processes = 2,
                                     .process = {0, 1},
                                     .kinds = "GG"};

static gp_transport transport_of_scalars(const gp_plan *plan) {
    for (size_t c = 0; c < plan->stages->collective_count; c++)
        if (plan->stages->collectives[c].part == GP_PART_SCALARS) return plan->stages->collectives[c].transport;
    fail_msg("no scalars");
    return GP_TRANSPORT_THREADS;
}

/* Lines, if the program has them and no GPU is shared. The processes must agree. */
static void the_plan_chooses(void **state) {
    (void)state;
    gp_device_kind without = gp_cuda_kind;
    setting its = pair_of_gpus;
    harness h[3];
    size_t bytes;
    gp_error err = {0};
    without.has_lines = NULL;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, MOST_WORKERS, -1, -1, 0, 0, 0});
    plan_of(&its, &gp_cuda_kind, &h[0]);
    plan_of(&its, &without, &h[1]);
    its.carrier = GP_CARRIER_WIRE;
    plan_of(&its, &gp_cuda_kind, &h[2]);
    assert_true(h[0].plan->lines && !h[1].plan->lines && !h[2].plan->lines);
    assert_int_equal(transport_of_scalars(h[0].plan), GP_TRANSPORT_NCCL);
    assert_int_equal(transport_of_scalars(h[2].plan), GP_TRANSPORT_MPI);
    assert_string_equal(gp_plan_gpu_messages(h[0].plan), "nccl");
    assert_string_equal(gp_plan_gpu_messages(h[2].plan), "mpi");
    assert_true(gp_identity_plan(h[0].plan) != gp_identity_plan(h[2].plan));
    must(gp_staging_bytes(h[0].plan, &bytes, &err), &err);
    assert_int_equal(bytes, 0);
    must(gp_staging_bytes(h[2].plan, &bytes, &err), &err);
    assert_true(bytes > 0);
    /* What comes over the wire is pinned on its way in, and what goes on its way out. */
    assert_true(gp_memory_pinned(h[2].plan, 0) > gp_memory_pinned(h[0].plan, 0));
    for (int i = 0; i < 3; i++) harness_end(&h[i]);
    assert_null(recorder_end(NULL));
}

/* On three workers, and on CPUs alone. */
static void a_plan_says_what_carries(void **state) {
    (void)state;
    setting its = settings[SETTINGS - 1];
    harness h;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, MOST_WORKERS, -1, -1, 0, 0, 0});
    plan_of(&its, &gp_cuda_kind, &h);
    assert_string_equal(gp_plan_gpu_messages(h.plan), "nccl and mpi");
    harness_end(&h);
    its.kinds = "CCC";
    plan_of(&its, &gp_cuda_kind, &h);
    assert_null(gp_plan_gpu_messages(h.plan));
    harness_end(&h);
    assert_null(recorder_end(NULL));
}

/* In a process each copy of an edge goes from its slot; over the wire, from a ring. One buffer for each copy in flight,
 * two at a receiver, and as many bytes as the largest copy has. */
static void an_edge_has_a_ring(void **state) {
    (void)state;
    harness h;
    gp_error err = {0};
    gp_copy_orders *orders = NULL;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, MOST_WORKERS, -1, -1, 0, 0, 0});
    plan_of(&settings[PAIR], &gp_cuda_kind, &h);
    must(gp_copy_orders_create(h.plan, &orders, &err), &err);
    for (size_t e = 0; e < h.plan->stages->edge_count; e++) {
        const gp_edge *edge = &h.plan->stages->edges[e];
        for (int receives = 0; receives < 2; receives++) {
            const gp_staging_ring its = gp_staging_of_edge(h.plan, orders, (uint32_t)e, receives);
            bool on_gpu = (receives ? edge->to : edge->from) == 1;
            size_t count = orders->in_flight[e];
            if (receives && count > 2) count = 2;
            assert_int_equal(its.count, on_gpu ? count : 0);
            if (on_gpu) assert_int_equal(its.bytes, GP_ALIGNMENT); /* 3 samples of 10 numbers, 120 bytes */
        }
    }
    gp_copy_orders_destroy(&orders);
    harness_end(&h);
    assert_null(recorder_end(NULL));
}

static void expect_refusal(const setting *its, const gp_device_kind *gpu, const char *sentence) {
    static gp_plan plan;
    harness h;
    setting other = *its;
    gp_error err = {0};
    other.carrier = GP_CARRIER_WIRE;
    plan_of(&other, gpu, &h);
    plan = *h.plan;
    assert_int_equal(gp_lines_choose(&plan, GP_CARRIER_LINES, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, sentence);
    harness_end(&h);
}

static void lines_that_cannot_be_are_refused(void **state) {
    (void)state;
    gp_device_kind without = gp_cuda_kind;
    without.has_lines = NULL;
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, MOST_WORKERS, -1, -1, 0, 0, 0});
    expect_refusal(
        &pair_of_gpus, &without,
        "stages 0 and 1 are on GPUs of different processes, but this program was built without NCCL: install "
        "NCCL, and build again, or use pipeline.transport: mpi");
    expect_refusal(&settings[SHARED], &gp_cuda_kind,
                   "workers 0 and 3 share cuda:0, and exchange messages with other processes: give each of them a GPU "
                   "of its own, or use pipeline.transport: mpi");
    assert_null(recorder_end(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_chooses),
        cmocka_unit_test(a_plan_says_what_carries),
        cmocka_unit_test(an_edge_has_a_ring),
        cmocka_unit_test(lines_that_cannot_be_are_refused),
        cmocka_unit_test(several_processes_have_the_bits_of_one),
        cmocka_unit_test(each_call_fails),
        cmocka_unit_test(a_failure_elsewhere_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
