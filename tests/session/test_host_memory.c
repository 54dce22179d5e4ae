/* The host's part of a plan: what a run takes, kind by kind and to the byte, and the sentence that refuses it. */
#include "session/host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "plan/staging.h"
#include "report/account.h"
#include "report/plan_report.h"
#include "store/saver.h"
#include "store/snapshot.h"
#include "train/metrics.h"

#include "session/fixture.h"

#define MIB ((size_t)1 << 20)

/* A mini-batch of the fixture: 16 samples of 2 × 4 × 4 floats, and a class each. */
enum { MINI_BATCH = 16 * 32 * 4 + 16 * 8, EVALUATION = 14 * 32 * 4 + 128 };

static size_t sum_of(const gp_host_memory *host) {
    size_t sum = 0;
    for (int k = 0; k < GP_HOST_KINDS; k++) sum += host->bytes[k];
    return sum;
}

static void a_run_takes_what_it_reserves(void **state) {
    (void)state;
    gp_session *session = fixture_session(FIXTURE_CHANGES("data.threads=3"));
    const gp_plan *plan = session->plan;
    const gp_host_memory *host = &session->host;
    assert_int_equal(host->bytes[GP_HOST_ARENAS], plan->arena[0] + plan->arena[1]);
    assert_int_equal(host->bytes[GP_HOST_TRAINING], 4 * MINI_BATCH);
    assert_int_equal(host->bytes[GP_HOST_EVALUATION], EVALUATION); /* there is one */
    assert_int_equal(host->bytes[GP_HOST_ORDER], 50 * sizeof(int64_t));
    assert_int_equal(host->bytes[GP_HOST_READING],
                     3 * (gp_dataset_scratch(session->train) + gp_dataset_scratch(session->eval)));
    assert_int_equal(host->bytes[GP_HOST_SOURCES], gp_dataset_held(session->train) + gp_dataset_held(session->eval));
    assert_int_equal(host->bytes[GP_HOST_STATE], 0); /* nobody asks for a snapshot beside its steps */
    assert_int_equal(host->snapshot, gp_state_bytes(plan));
    assert_int_equal(host->bytes[GP_HOST_PREDICTION], 0);
    assert_int_equal(host->bytes[GP_HOST_PARAMETER], 8 * 8 * 9 * sizeof(float));
    assert_int_equal(host->bytes[GP_HOST_PINNED], 0);
    assert_in_range(host->bytes[GP_HOST_RUN], 1, 64 << 10);
    assert_true(plan->bound[0] > 0 && plan->bound[1] > 0);
    assert_int_equal(host->bytes[GP_HOST_BOUND], plan->bound[0] + plan->bound[1]);
    assert_int_equal(host->threads, 2 + 3 + 3 + 1); /* workers, readers, the saver */
    assert_int_equal(host->planned, sum_of(host));
    assert_int_equal(host->program, 0); /* not measured yet */
    gp_session_close(&session);
}

/* For a snapshot that is written while the run goes on, and from one configuration to the next. */
static gp_session *open_with(const gp_session_options *options, const char *const *changes) {
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(FIXTURE_CONFIG, changes);
    if (gp_session_open(&config, options, &session, &err) != GP_OK) fail_msg("%s", err.text);
    return session;
}

static void a_copy_of_the_state_is_planned_where_one_is_taken(void **state) {
    (void)state;
    static const char *const taking[] = {"train.save_every=1", "train.save_every=1 minutes",
                                         "changes={2: {optimizer.sgd.lr: 0.01}}"};
    for (size_t i = 0; i < sizeof taking / sizeof *taking; i++) {
        gp_session *session = fixture_session(FIXTURE_CHANGES(taking[i]));
        assert_int_equal(session->host.bytes[GP_HOST_STATE], gp_state_bytes(session->plan));
        gp_session_close(&session);
    }
}

/* Each process holds its part while the configuration changes, and copies nothing for a snapshot. */
static void processes_hold_their_parts(void **state) {
    (void)state;
    const int64_t samples[] = {50, 14};
    const char *const devices = "pipeline.devices=[{cpu: {rank: 0}}, {cpu: {rank: 1}}]";
    size_t sum = 0, all = 0;
    for (int rank = 0; rank < 2; rank++) {
        const gp_session_options options = {.processes = 2, .rank = rank, .data_samples = rank > 0 ? samples : NULL};
        gp_session *session = open_with(&options, FIXTURE_CHANGES(devices, "changes={2: {optimizer.sgd.lr: 0.01}}"));
        size_t own = session->host.bytes[GP_HOST_STATE];
        assert_int_equal(own, gp_state_own_bytes(session->plan));
        assert_true(own > 0);
        sum += own;
        all = gp_state_bytes(session->plan);
        gp_session_close(&session);
        session = open_with(&options, FIXTURE_CHANGES(devices, "train.save_every=1"));
        assert_int_equal(session->host.bytes[GP_HOST_STATE], 0);
        gp_session_close(&session);
    }
    assert_int_equal(sum, all);
}

static void what_a_run_lacks_takes_nothing(void **state) {
    (void)state;
    static const char alone[] = FIXTURE_MODEL "data: {train: {tensors: d.safetensors}, batch: 16, shuffle: false}\n"
                                              "pipeline: {devices: [cpu]}\n"
                                              "optimizer: {sgd: {lr: 0.1}}\n"
                                              "train: {steps: 1}\n";
    gp_config *config = fixture_config(alone, NULL);
    gp_session *session = NULL;
    gp_error err = {0};
    assert_int_equal(gp_session_open(&config, NULL, &session, &err), GP_OK);
    assert_int_equal(session->host.bytes[GP_HOST_ORDER], 0);
    assert_int_equal(session->host.bytes[GP_HOST_EVALUATION], 0);
    gp_session_close(&session);
    session = fixture_session(FIXTURE_CHANGES("train.steps=0"));
    assert_int_equal(session->host.bytes[GP_HOST_TRAINING], 0);
    assert_int_equal(session->host.bytes[GP_HOST_RECORDS], 0);
    assert_int_equal(session->host.bytes[GP_HOST_EVALUATION], EVALUATION);
    gp_session_close(&session);
}

/* Evaluations in mini-batches that are larger than training's are the evaluation's own. */
static void each_loader_has_the_size_of_its_data(void **state) {
    (void)state;
    gp_session *session = fixture_session(FIXTURE_CHANGES("data.batch=40", "data.train.take=[0, 10]",
                                                          "data.eval.take=[0, 64]", "pipeline.micro_batches=5"));
    assert_int_equal(session->host.bytes[GP_HOST_TRAINING], 4 * (10 * 128 + 128));
    assert_int_equal(session->host.bytes[GP_HOST_EVALUATION], 2 * (40 * 128 + 384));
    gp_session_close(&session);
}

/* Buffers for inputs, or for targets, or none: the first stage, the last, and one between them. */
static void a_process_reserves_for_what_it_loads(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        int rank, workers;
        bool inputs, targets;
    } cases[] = {
        {"pipeline.devices=[{cpu: {rank: 0}}, {cpu: {rank: 0}}, {cpu: {rank: 1}}]", 0, 2, true, false},
        {"pipeline.devices=[{cpu: {rank: 0}}, {cpu: {rank: 1}}, {cpu: {rank: 1}}]", 1, 2, false, true},
        {"pipeline.devices=[{cpu: {rank: 0}}, {cpu: {rank: 1}}, {cpu: {rank: 0}}]", 0, 2, true, true},
        {"pipeline.devices=[{cpu: {rank: 1}}, {cpu: {rank: 0}}, {cpu: {rank: 1}}]", 0, 1, false, false},
        {"pipeline.devices=[{cpu: {rank: 0}}, {cpu: {rank: 1}}, {cpu: {rank: 0}}]", 1, 1, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t samples[] = {50, 14}; /* process 0 has told the other one */
        int rank = cases[i].rank;
        const gp_session_options options = {.processes = 2, .rank = rank, .data_samples = rank > 0 ? samples : NULL};
        gp_session *session =
            open_with(&options, FIXTURE_CHANGES(cases[i].devices, "pipeline.balance=[3, 2, 3]", "data.threads=3"));
        const gp_host_memory *host = &session->host;
        size_t inputs = cases[i].inputs ? 16 * 128 : 0, targets = cases[i].targets ? 16 * 8 : 0;
        bool any = cases[i].inputs || cases[i].targets;
        assert_int_equal(host->bytes[GP_HOST_TRAINING], 4 * (inputs + targets));
        assert_int_equal(host->bytes[GP_HOST_EVALUATION],
                         (cases[i].inputs ? 14 * 128 : 0) + (cases[i].targets ? 128 : 0)); /* aligned */
        assert_int_equal(host->bytes[GP_HOST_ORDER], any ? 50 * sizeof(int64_t) : 0);
        assert_true((host->bytes[GP_HOST_READING] > 0) == any);
        assert_int_equal(host->threads, cases[i].workers + (any ? 6 : 0) + 1); /* readers, the saver */
        gp_session_close(&session);
    }
}

/* A GPU's process has buffers for its messages over the wire. */
static void messages_of_a_gpu_take_buffers(void **state) {
    (void)state;
    const char *const devices = "pipeline.devices=[{cpu: {rank: 0}}, {cuda: {rank: 1}}]";
    const int64_t samples[] = {50, 14};
    gp_error err = {0};
    if (!gp_cuda_built()) skip();
    for (int rank = 0; rank < 2; rank++) {
        const gp_session_options options = {.processes = 2, .rank = rank, .data_samples = rank > 0 ? samples : NULL};
        gp_session *session = open_with(&options, FIXTURE_CHANGES(devices, "pipeline.transport=mpi"));
        size_t bytes;
        assert_int_equal(gp_staging_bytes(session->plan, &bytes, &err), GP_OK);
        assert_int_equal(session->host.bytes[GP_HOST_STAGING], bytes);
        assert_true(rank == 0 || bytes > 0);
        assert_int_equal(session->host.planned, sum_of(&session->host));
        assert_false(session->plan->lines);
        gp_session_close(&session);
    }
}

/* Process 0 knows what each of the others finds out by itself. */
static void process_0_knows_what_each_takes(void **state) {
    (void)state;
    const int64_t samples[] = {50, 14};
    const char *const *changes =
        FIXTURE_CHANGES("pipeline.devices=[{cpu: {rank: 0}}, {cpu: {rank: 1}}, {cpu: {rank: 2}}, {cpu: {rank: 2}}]",
                        "pipeline.balance=[3, 2, 2, 1]", "data.threads=3");
    gp_error err = {0};
    size_t *bytes = NULL;
    gp_session *first = open_with(&(gp_session_options){.processes = 3}, changes);
    if (gp_host_memory_processes(first, NULL, &bytes, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(bytes[0], first->host.planned);
    for (int rank = 1; rank < 3; rank++) {
        const gp_session_options options = {.processes = 3, .rank = rank, .data_samples = samples};
        gp_session *session = open_with(&options, changes);
        assert_int_equal(bytes[rank], session->host.planned);
        gp_session_close(&session);
    }
    assert_true(bytes[0] != bytes[1] && bytes[1] != bytes[2]);
    assert_int_equal(first->plan->rank, 0);
    free(bytes);
    gp_session_close(&first);
}

/* Three processes; the arenas of those on the same machine count. */
static void neighbours_are_those_on_the_machine(void **state) {
    (void)state;
    static const struct {
        int machines[3], rank;
        bool counts[3]; /* worker's */
    } cases[] = {
        {{0, 0, 0}, 0, {false, true, true}},   {{0, 0, 0}, 1, {true, false, true}},
        {{0, 1, 0}, 0, {false, false, true}},  {{0, 1, 1}, 2, {false, true, false}},
        {{0, 1, 2}, 1, {false, false, false}},
    };
    const int64_t samples[] = {50, 14};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gp_session_options options = {
            .processes = 3, .rank = cases[i].rank, .machines = cases[i].machines, .data_samples = samples};
        gp_session *session =
            open_with(&options, FIXTURE_CHANGES("pipeline.devices=[cpu, cpu, cpu]", "pipeline.balance=[3, 2, 3]"));
        size_t expected = 0;
        for (int w = 0; w < 3; w++) expected += cases[i].counts[w] ? session->plan->arena[w] : 0;
        assert_int_equal(session->host.neighbours, expected);
        gp_session_close(&session);
    }
    gp_session *session = open_with(&(gp_session_options){.processes = 2}, NULL);
    assert_int_equal(session->host.neighbours, 0); /* who is where is not known */
    gp_session_close(&session);
}

/* Steps 3 to 6 train, and one evaluation follows step 4: what is recorded is room for all of them. */
static void a_timeline_is_planned(void **state) {
    (void)state;
    const gp_trace_options trace = {.path = "t.json", .first = 3, .last = 6},
                           later = {.path = "t.json", .first = 8, .last = 20};
    gp_session *session = open_with(&(gp_session_options){.trace = &trace}, NULL);
    gp_session *without = open_with(&(gp_session_options){.trace = &(gp_trace_options){0}}, NULL);
    gp_session *after = open_with(&(gp_session_options){.trace = &later}, NULL);
    size_t timeline = session->host.bytes[GP_HOST_RECORDS] - without->host.bytes[GP_HOST_RECORDS], spans = 0;
    for (int w = 0; w < 2; w++) {
        const gp_mini_plan *minis = session->plan->minis;
        spans += 4 * minis[0].programs->worker[w].count; /* the largest */
    }
    assert_in_range(timeline, spans * sizeof(gp_span), 4 * spans * sizeof(gp_span));
    assert_true(after->host.bytes[GP_HOST_RECORDS] < session->host.bytes[GP_HOST_RECORDS]); /* one step */
    gp_session_close(&session);
    gp_session_close(&without);
    gp_session_close(&after);
}

static void a_prediction_holds_a_mini_batch(void **state) {
    (void)state;
    gp_error err = {0};
    gp_session *session = fixture_session(NULL);
    gp_run *run = NULL;
    gp_saver *saver = NULL;
    assert_int_equal(gp_run_create(session->plan, NULL, &run, &err), GP_OK);
    assert_int_equal(gp_saver_create(session->plan, fixture_path(""), "", 1, &saver, &err), GP_OK);
    assert_int_equal(gp_saver_model(saver, run, "w.safetensors", NULL, &err), GP_OK);
    gp_saver_destroy(&saver);
    gp_run_destroy(&run);
    gp_session_close(&session);
    session =
        open_with(&(gp_session_options){.weights = fixture_path("w.safetensors")}, FIXTURE_CHANGES("train.steps=0"));
    assert_int_equal(session->host.bytes[GP_HOST_PREDICTION], 16 * 3 * sizeof(float));
    assert_int_equal(session->host.bytes[GP_HOST_STATE], 0);
    assert_int_equal(session->host.bytes[GP_HOST_EVALUATION], EVALUATION);
    assert_int_equal(session->host.threads, 2 + 1);
    gp_session_close(&session);
}

/* A process that resumes after a change takes no copy for it; one that meets a change has it with each configuration.
 */
static void a_change_before_the_process_takes_no_copy(void **state) {
    (void)state;
    static const char changing[] = "changes={2: {optimizer.sgd.lr: 0.01}, 4: {optimizer.sgd.lr: 0.005}}";
    gp_error err = {0};
    gp_session *last = open_with(&(gp_session_options){.resumes = true, .step = 4}, FIXTURE_CHANGES(changing));
    assert_int_equal(last->changes, 2);
    assert_int_equal(last->host.bytes[GP_HOST_STATE], 0);
    gp_session_close(&last);
    gp_session *before = open_with(&(gp_session_options){.resumes = true, .step = 2}, FIXTURE_CHANGES(changing));
    for (int changes = 1; changes <= 2; changes++) {
        assert_int_equal(before->changes, changes);
        assert_int_equal(before->host.bytes[GP_HOST_STATE], gp_state_bytes(before->plan));
        if (changes == 1 && gp_session_change(before, &err) != GP_OK) fail_msg("%s", err.text);
    }
    gp_session_close(&before);
}

/* ---- against the machine ------------------------------------------------------------------------------------------
 */

static gp_host_memory sample_host(void) {
    gp_host_memory host = {.planned = 100 * MIB, .stacks = 32 * MIB};
    host.bytes[GP_HOST_ARENAS] = 10 * MIB;
    host.bytes[GP_HOST_TRAINING] = 60 * MIB;
    host.bytes[GP_HOST_SOURCES] = 26 * MIB;
    host.bytes[GP_HOST_STATE] = 3 * MIB;
    host.bytes[GP_HOST_THREADS] = 1 * MIB;
    return host;
}

static gp_machine_memory machine_of(size_t physical, size_t cgroup, size_t space) {
    return (gp_machine_memory){
        .limit = {physical, cgroup, space}, .taken = {50 * MIB, 50 * MIB, 200 * MIB}, .group_left = SIZE_MAX};
}

static void expect(gp_machine_memory machine, const char *sentence) {
    gp_host_memory host = sample_host();
    gp_error err = {0};
    gp_status status = gp_host_memory_check(&host, &machine, &err);
    if (!sentence) {
        if (status != GP_OK) fail_msg("%s", err.text);
        return;
    }
    assert_int_equal(status, GP_MEMORY);
    assert_string_equal(err.text, sentence);
}

/* Of 100 MiB, 26 are there already; threads take their stacks of the address space, and less of the memory. The copy of
 * the state is what the run can do without: where that is enough, it is the advice. */
static void what_is_refused_says_by_which_limit(void **state) {
    (void)state;
    const size_t none = SIZE_MAX;
    expect(machine_of(none, none, none), NULL);
    expect(machine_of(124 * MIB, none, none), NULL);
    expect(machine_of(124 * MIB - 1, none, none),
           "the run needs 74.0 MiB more memory (data, training: 60.0 MiB; arenas of CPU workers: 10.0 MiB; "
           "copy of the run's state: 3.00 MiB), but the machine's memory, 124.0 MiB in all, has 74.0 "
           "MiB left; leave out train.save_every and changes");
    expect(machine_of(none, 124 * MIB, none), NULL);
    expect(machine_of(110 * MIB, 100 * MIB, none),
           "the run needs 74.0 MiB more memory (data, training: 60.0 MiB; arenas of CPU workers: 10.0 MiB; "
           "copy of the run's state: 3.00 MiB), but the control group's memory (cgroup), 100.0 MiB in "
           "all, has "
           "50.0 MiB left; lower data.batch");
    expect(machine_of(none, none, 305 * MIB), NULL);
    expect(machine_of(none, 1000 * MIB, 304 * MIB),
           "the run needs 105.0 MiB more memory (data, training: 60.0 MiB; threads, est.: 32.0 MiB; "
           "arenas of CPU workers: 10.0 MiB), but the address space (RLIMIT_AS, ulimit -v), 304.0 MiB in all, "
           "has 104.0 MiB left; leave out train.save_every and changes");
}

/* They take memory of the machine and of its control group, and no address space of this process. */
static void other_processes_take_memory_too(void **state) {
    (void)state;
    gp_host_memory host = sample_host();
    gp_machine_memory machine = machine_of(132 * MIB, SIZE_MAX, 305 * MIB);
    gp_error err = {0};
    host.neighbours = 8 * MIB;
    assert_int_equal(gp_host_memory_check(&host, &machine, &err), GP_OK);
    machine.limit[GP_LIMIT_PHYSICAL]--;
    assert_int_equal(gp_host_memory_check(&host, &machine, &err), GP_MEMORY);
    assert_string_equal(err.text,
                        "the run needs 82.0 MiB more memory (data, training: 60.0 MiB; arenas of CPU workers: "
                        "10.0 MiB; copy of the run's state: 3.00 MiB; its other processes on this machine: "
                        "8.00 MiB), but the machine's memory, 132.0 MiB in all, has 82.0 MiB left; leave out "
                        "train.save_every and changes");
    machine = machine_of(SIZE_MAX, 132 * MIB - 1, SIZE_MAX);
    assert_int_equal(gp_host_memory_check(&host, &machine, &err), GP_MEMORY);
}

/* Of 103 MiB in all, 20 are held: 80 are still to come beside the copy of 3. */
static void a_snapshot_at_about_a_time_takes_what_is_left(void **state) {
    (void)state;
    gp_host_memory host = sample_host();
    gp_machine_memory machine = machine_of(SIZE_MAX, SIZE_MAX, SIZE_MAX);
    host.program = 30 * MIB;
    host.snapshot = 3 * MIB;
    machine.available = SIZE_MAX;
    assert_true(gp_host_memory_has_room(&host, &machine));
    machine.limit[GP_LIMIT_PHYSICAL] = 133 * MIB;
    assert_true(gp_host_memory_has_room(&host, &machine));
    machine.limit[GP_LIMIT_PHYSICAL]--;
    assert_false(gp_host_memory_has_room(&host, &machine));
    machine = machine_of(SIZE_MAX, 133 * MIB - 1, SIZE_MAX);
    machine.available = SIZE_MAX;
    assert_false(gp_host_memory_has_room(&host, &machine));
    machine = machine_of(SIZE_MAX, SIZE_MAX, 283 * MIB - 1);
    machine.available = SIZE_MAX;
    assert_false(gp_host_memory_has_room(&host, &machine));
    machine = machine_of(SIZE_MAX, SIZE_MAX, SIZE_MAX);
    machine.available = 83 * MIB - 1; /* other programs have the rest */
    assert_false(gp_host_memory_has_room(&host, &machine));
    machine.available = machine.group_left = 83 * MIB;
    assert_true(gp_host_memory_has_room(&host, &machine));
    machine.group_left--; /* other programs of the control group have the rest */
    assert_false(gp_host_memory_has_room(&host, &machine));
    machine.group_left = SIZE_MAX;
    machine.taken[GP_LIMIT_PHYSICAL] = 200 * MIB; /* all is held but the copy */
    machine.available = 3 * MIB;
    assert_true(gp_host_memory_has_room(&host, &machine));
    machine.available--;
    assert_false(gp_host_memory_has_room(&host, &machine));
}

static void expect_advice(gp_host_kind largest, const char *advice) {
    gp_host_memory host = sample_host();
    gp_error err = {0};
    const gp_machine_memory machine = machine_of(60 * MIB, SIZE_MAX, SIZE_MAX);
    host.bytes[largest] += 90 * MIB;
    host.planned += 90 * MIB;
    assert_int_equal(gp_host_memory_check(&host, &machine, &err), GP_MEMORY);
    size_t length = strlen(err.text), end = strlen(advice);
    if (length < end || strcmp(err.text + length - end, advice) != 0) fail_msg("%s", err.text);
}

static void the_advice_is_for_the_largest_kind(void **state) {
    (void)state;
    expect_advice(GP_HOST_ARENAS, " left; lower data.batch");
    expect_advice(GP_HOST_EVALUATION, " left; lower data.batch");
    expect_advice(GP_HOST_SOURCES, " left; lower data.batch"); /* they are there already */
    expect_advice(GP_HOST_ORDER, " left; set data.shuffle: false, which needs none of it");
    expect_advice(GP_HOST_READING, " left; lower data.threads");
    expect_advice(GP_HOST_RECORDS, " left; trace fewer steps (--trace-steps), or lower pipeline.micro_batches");
    expect_advice(GP_HOST_STATE, " left; leave out train.save_every and changes");
    expect_advice(GP_HOST_PARAMETER, " left; use a smaller model");
    expect_advice(GP_HOST_THREADS, " left; use fewer threads or smaller stacks (ulimit -s)");
}

static void no_size_is_too_large(void **state) {
    (void)state;
    gp_error err = {0};
    gp_session *session = fixture_session(NULL);
    assert_int_equal(gp_session_check_machine(session, &err), GP_OK);
    assert_true(session->host.program > 0);
    session->plan->arena[0] = (size_t)1 << 50;
    assert_int_equal(gp_host_memory_plan(session, NULL, &session->host, &err), GP_OK);
    assert_int_equal(gp_session_check_machine(session, &err), GP_MEMORY);
    assert_non_null(strstr(err.text, "the run needs 1.00 PiB more memory (arenas of CPU workers: 1.00 PiB; "));
    session->plan->arena[0] = SIZE_MAX;
    assert_int_equal(gp_host_memory_plan(session, NULL, &session->host, &err), GP_OK);
    assert_true(session->host.planned == SIZE_MAX);
    assert_int_equal(gp_session_check_machine(session, &err), GP_MEMORY);
    gp_session_close(&session);
}

/* ---- the report ----------------------------------------------------------------------------------------------------
 */

static void the_report_has_a_line_for_each(void **state) {
    (void)state;
    gp_session *session = fixture_session(FIXTURE_CHANGES("data.eval.take=[0, 64]"));
    gp_error err = {0};
    char *text = NULL, line[128];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (gp_plan_report(session->plan, NULL, &session->host, NULL, out, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "\nhost memory of the run (without the program and its libraries)\n"
                                 "  arenas of CPU workers "));
    assert_non_null(strstr(text, "\n  data, training: 3 mini-batches ahead, 1 in use                8.50 KiB\n"));
    assert_non_null(strstr(text, "\n  data, evaluation: 3 mini-batches ahead, 1 in use              8.50 KiB\n"));
    assert_non_null(strstr(text, "\n  data, shuffled order                                             400 B\n"));
    snprintf(line, sizeof line, "\n    in bytes%60zu\n", session->host.planned);
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, "\n  copy of the run's state for snapshots, if there is room "));
    free(text);
    gp_session_close(&session);
}

/* Without /proc the peak is 0: neither the report nor metrics.jsonl gives it as one. */
static void a_peak_that_is_not_known_is_none(void **state) {
    (void)state;
    gp_error err = {0};
    gp_metrics *metrics = NULL;
    const gp_account_result result = {.steps = 9, .recorded = 8, .host = {.planned = 100 * MIB}};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    gp_account_report(&result, out);
    assert_int_equal(fclose(out), 0);
    if (!strstr(text, "\n  host memory          100.0 MiB   not known  the program and its libraries take 0 B\n"))
        fail_msg("%s", text);
    free(text);
    assert_int_equal(gp_metrics_open(fixture_path("metrics.jsonl"), 0, &metrics, &err), GP_OK);
    assert_int_equal(gp_metrics_end(metrics, "done", 9, 1, &result, &err), GP_OK);
    assert_int_equal(gp_metrics_close(&metrics, &err), GP_OK);
    text = fixture_read(fixture_path("metrics.jsonl"), &bytes);
    if (!strstr(text, "\"resident_bytes\":null")) fail_msg("%s", text);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_takes_what_it_reserves),
        cmocka_unit_test(a_copy_of_the_state_is_planned_where_one_is_taken),
        cmocka_unit_test(processes_hold_their_parts),
        cmocka_unit_test(what_a_run_lacks_takes_nothing),
        cmocka_unit_test(each_loader_has_the_size_of_its_data),
        cmocka_unit_test(a_process_reserves_for_what_it_loads),
        cmocka_unit_test(messages_of_a_gpu_take_buffers),
        cmocka_unit_test(process_0_knows_what_each_takes),
        cmocka_unit_test(neighbours_are_those_on_the_machine),
        cmocka_unit_test(a_timeline_is_planned),
        cmocka_unit_test(a_prediction_holds_a_mini_batch),
        cmocka_unit_test(a_change_before_the_process_takes_no_copy),
        cmocka_unit_test(what_is_refused_says_by_which_limit),
        cmocka_unit_test(other_processes_take_memory_too),
        cmocka_unit_test(a_snapshot_at_about_a_time_takes_what_is_left),
        cmocka_unit_test(the_advice_is_for_the_largest_kind),
        cmocka_unit_test(no_size_is_too_large),
        cmocka_unit_test(a_peak_that_is_not_known_is_none),
        cmocka_unit_test(the_report_has_a_line_for_each),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
