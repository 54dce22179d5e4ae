/* Workers on CPUs and GPUs of several processes, each process a thread: messages over the wire, through buffers of the
 * host, have the bits of one process. Every call that fails, and every failure elsewhere, ends all processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cuda/recorder.h"
#include "cuda/team.h"
#include "device/cpu/cpu.h"
#include "device/cuda/cuda.h"
#include "pipeline/harness.h"
#include "plan/identity.h"
#include "plan/lines.h"
#include "plan/memory.h"
#include "plan/staging.h"

enum { MICRO_BATCHES = 5, BATCH = 15, LAST = 6, EVALUATED = 8, STEPS = 3, DELAY = 100, BUCKET = 200 };

/* A training, and the devices of its workers. */
typedef struct setting {
    const char *name;
    team_setting training;
    const char *kinds; /* [worker] C: a CPU; G: a GPU */
    gp_carrier carrier;
    int devices; /* GPUs of the workers; 0: one each */
    bool lines;  /* are expected */
} setting;

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

static team_options options_of(const setting *its, gp_checkpoint_mode mode, bool lockstep,
                               const gp_device_kind *kinds[TEAM_MAX_WORKERS]) {
    for (int w = 0; its->kinds[w]; w++) kinds[w] = its->kinds[w] == 'G' ? &gp_cuda_kind : &gp_cpu_kind;
    team_options options = team_options_of(&its->training, mode, lockstep);
    options.name = its->name;
    options.steps = STEPS;
    options.lines = its->lines;
    options.training.kinds = kinds;
    options.training.carrier = its->carrier;
    options.training.micro_batches = MICRO_BATCHES;
    options.training.batch = BATCH;
    options.training.last = LAST;
    options.training.evaluation = EVALUATED;
    if (its->devices > 0) options.training.devices = its->devices;
    return options;
}

/* ---- equal bits -------------------------------------------------------------------------------------------------- */

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
     .training = {.model = team_vectors,
                  .stages = 2,
                  .layers = {3, 5},
                  .schedule = SCHEDULED(GPIPE, 0),
                  .processes = 2,
                  .process = {0, 1},
                  .bucket = BUCKET},
     .kinds = "CG"},
    {.name = "a GPU, then CPUs",
     .training = {.model = team_vectors,
                  .stages = 3,
                  .layers = {2, 3, 3},
                  .schedule = SCHEDULED(1F1B, 0),
                  .processes = 2,
                  .process = {0, 1, 0},
                  .bucket = BUCKET},
     .kinds = "GCC"},
    {.name = "by turns",
     .training = {.model = team_vectors,
                  .stages = 4,
                  .layers = {2, 2, 2, 2},
                  .schedule = SCHEDULED(1F1B, 0),
                  .processes = 4,
                  .process = {3, 2, 0, 1},
                  .bucket = BUCKET},
     .kinds = "CGCG",
     .carrier = GP_CARRIER_WIRE},
    {.name = "interleaved",
     .training = {.model = team_vectors,
                  .stages = 4,
                  .layers = {2, 2, 2, 2},
                  .schedule = SCHEDULED(INTERLEAVED, 2),
                  .processes = 2,
                  .process = {0, 1},
                  .bucket = BUCKET},
     .kinds = "CG"},
    {.name = "zb_v",
     .training = {.model = team_vectors,
                  .stages = 4,
                  .layers = {2, 2, 2, 2},
                  .schedule = SCHEDULED(ZB_V, 0),
                  .processes = 2,
                  .process = {1, 0},
                  .bucket = BUCKET},
     .kinds = "GC"},
    {.name = "replicas",
     .training = {.model = team_vectors,
                  .stages = 2,
                  .layers = {3, 5},
                  .replicas = {2, 2},
                  .schedule = SCHEDULED(1F1B, 0),
                  .processes = 2,
                  .process = {0, 1, 0, 1},
                  .bucket = BUCKET},
     .kinds = "CCGG",
     .carrier = GP_CARRIER_WIRE},
    {.name = "one GPU for two workers",
     .training = {.model = team_vectors,
                  .stages = 4,
                  .layers = {2, 2, 2, 2},
                  .schedule = SCHEDULED(GPIPE, 0),
                  .processes = 2,
                  .process = {0, 1, 1, 0},
                  .bucket = BUCKET},
     .kinds = "GGGG",
     .devices = 1},
    {.name = "GPUs and shards",
     .training = {.model = team_vectors,
                  .stages = 2,
                  .layers = {3, 5},
                  .replicas = {2, 2},
                  .schedule = SCHEDULED(GPIPE, 0),
                  .processes = 4,
                  .process = {0, 1, 2, 3},
                  .bucket = BUCKET,
                  .shards = true},
     .kinds = "GGGG",
     .carrier = GP_CARRIER_WIRE},
    {.name = "an idle replica",
     .training = {.model = team_vectors,
                  .stages = 2,
                  .layers = {3, 5},
                  .replicas = {4, 1}, /* of 3 samples */
                  .schedule = SCHEDULED(GPIPE, 0),
                  .processes = 3,
                  .process = {0, 1, 0, 2, 1},
                  .bucket = BUCKET},
     .kinds = "GGGGC",
     .carrier = GP_CARRIER_WIRE},
    {.name = "synchronised",
     .training = {.model = norms,
                  .stages = 2,
                  .layers = {4, 5},
                  .replicas = {2, 3},
                  .schedule = SCHEDULED(1F1B, 0),
                  .processes = 3,
                  .process = {0, 1, 0, 1, 2},
                  .bucket = BUCKET},
     .kinds = "GGGGG",
     .carrier = GP_CARRIER_WIRE},
    {.name = "lines and the wire",
     .training = {.model = team_vectors,
                  .stages = 3,
                  .layers = {2, 3, 3},
                  .schedule = SCHEDULED(1F1B, 0),
                  .processes = 3,
                  .process = {0, 1, 2},
                  .bucket = BUCKET},
     .kinds = "GCG",
     .lines = true},
};
enum { PAIR = 0, INTERLEAVED = 3, SHARED = 6, SHARDS = 7, SETTINGS = sizeof settings / sizeof *settings };

/* Which modes: each setting meets others than the one before. */
static void several_processes_have_the_bits_of_one(void **state) {
    (void)state;
    for (int s = 0; s < SETTINGS; s++)
        for (int way = 0; way < 6; way++) {
            if (!test_is_large() && (way + s) % 3 != test_first(3)) continue;
            const gp_device_kind *kinds[TEAM_MAX_WORKERS];
            team_options options = options_of(&settings[s], (gp_checkpoint_mode)(way / 2), way % 2, kinds);
            options.alone = true;
            uint64_t one = team_bits(&options, RECORDER_LAZY, 0, NULL);
            options.alone = false;
            for (int policy = 0; policy < RECORDER_POLICIES; policy++) {
                recorder_counts counts;
                options.seed = (uint64_t)(policy + way);
                options.delay = options.seed % 4 == 1 ? DELAY : 0;
                uint64_t several = team_bits(&options, (recorder_policy)policy, options.seed, &counts);
                if (several != one) fail_msg("%s, way %d, policy %d: other bits", settings[s].name, way, policy);
                assert_int_equal(counts.messages > 0, settings[s].lines);
            }
        }
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* After a failure threads of one process do not hear of one another, so in these settings each process has one worker.
 */
static void each_call_fails(void **state) {
    (void)state;
    const gp_device_kind *kinds[TEAM_MAX_WORKERS];
    team_options options = options_of(&settings[INTERLEAVED], GP_CHECKPOINT_NEVER, false, kinds);
    team_fail_calls(&options, test_pick(401, 101, 1));
    options = options_of(&settings[SHARDS], GP_CHECKPOINT_NEVER, false, kinds);
    team_fail_calls(&options, test_pick(997, 401, 1));
}

static int failing_rank, failing_pc;

static gp_status fail_here(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    if (site->step == 2 && (int)site->pc == failing_pc && h->options.rank == failing_rank)
        return gp_fail(err, GP_INTERNAL, "made to fail here");
    return team_hear(context, site, err);
}

/* The other process waits for a message, or for its GPU, and ends. */
static void a_failure_elsewhere_ends_all(void **state) {
    (void)state;
    const recorder_options recorder = {RECORDER_LAZY, 0, TEAM_GPUS, -1, -1, 0, 0, 0};
    const gp_device_kind *kinds[TEAM_MAX_WORKERS];
    team_options options = options_of(&settings[PAIR], GP_CHECKPOINT_NEVER, false, kinds);
    options.before = fail_here;
    options.seed = 1;
    options.delay = DELAY;
    for (failing_rank = 0; failing_rank < 2; failing_rank++)
        for (failing_pc = 1; failing_pc < 20; failing_pc += 6) {
            team_outcome its;
            team_run(&options, &recorder, &its);
            if (!strstr(its.err.text, "made to fail here")) fail_msg("%s", its.err.text);
            if (its.sentence) fail_msg("%s", its.sentence);
        }
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Plans of process 0. */
static void plan_of(const setting *its, const gp_device_kind *gpu, harness *h) {
    static const gp_device_kind *kinds[TEAM_MAX_WORKERS];
    const team_options options = options_of(its, GP_CHECKPOINT_NEVER, false, kinds);
    for (int w = 0; its->kinds[w]; w++) kinds[w] = its->kinds[w] == 'G' ? gpu : &gp_cpu_kind;
    harness_plan(h, &options.training);
}

static const setting pair_of_gpus = {.name = "two GPUs",
                                     .training = {.model = team_vectors,
                                                  .stages = 2,
                                                  .layers = {3, 5},
                                                  .schedule = SCHEDULED(GPIPE, 0),
                                                  .processes = 2,
                                                  .process = {0, 1},
                                                  .bucket = BUCKET},
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
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, TEAM_GPUS, -1, -1, 0, 0, 0});
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
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, TEAM_GPUS, -1, -1, 0, 0, 0});
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
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, TEAM_GPUS, -1, -1, 0, 0, 0});
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
    recorder_begin(&(recorder_options){RECORDER_LAZY, 0, TEAM_GPUS, -1, -1, 0, 0, 0});
    expect_refusal(
        &pair_of_gpus, &without,
        "stage 0 and stage 1 are on GPUs of different processes, but this program was built without NCCL: install "
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
