#include "cuda/team.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "pipeline/far.h"
#include "pipeline/follow.h"
#include "plan/staging.h"
#include "process/loop_wire.h"

/* One process. */
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
    member member[TEAM_MAX_PROCESSES];
    const team_options *options;
    int processes;
    loop_hub *hub; /* NULL: one process */
    pthread_mutex_t lock;
    gp_error cause; /* of the first that failed; lock */
} team;

/* ---- settings ---------------------------------------------------------------------------------------------------- */

const char team_vectors[] = "input: {shape: [12]}\n"
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

team_options team_options_of(const team_setting *its, gp_checkpoint_mode mode, bool lockstep) {
    return (team_options){.training = {.model = its->model,
                                       .layers = its->layers,
                                       .stages = its->stages,
                                       .replicas = its->replicas[0] ? its->replicas : NULL,
                                       .schedule = its->schedule,
                                       .processes = its->processes,
                                       .process = its->process,
                                       .checkpoint = mode,
                                       .lockstep = lockstep,
                                       .bucket = its->bucket,
                                       .shard_optimizer = its->shards,
                                       .devices = TEAM_GPUS,
                                       .norms = true,
                                       .clip_norm = 0.5}};
}

/* ---- what threads have seen -------------------------------------------------------------------------------------- */

static size_t word_of(const harness *h, uint64_t step, const gp_wait *event) {
    const gp_stages *stages = h->plan->stages;
    int micros = h->options.micro_batches;
    return step * gp_event_count(stages, micros) + gp_event_number(stages, micros, event);
}

gp_status team_hear(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    const gp_worker_waits *waits = &h->plan->minis[site->mini].waits->worker[site->worker];
    (void)err;
    for (size_t i = waits->first[site->pc]; i < waits->first[site->pc + 1]; i++)
        if (!gp_plan_stage_is_far(h->plan, gp_event_stage(h->plan->stages, &waits->items[i])))
            recorder_hear(word_of(h, site->step, &waits->items[i]));
    return GP_OK;
}

static gp_status tell(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    gp_wait event;
    (void)err;
    if (gp_instr_event(site->instr, &event)) recorder_tell(word_of(h, site->step, &event));
    return GP_OK;
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Ends the runs of all processes, as the guard does. */
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

static void wire_failed(void *context, int rank, const gp_error *cause) {
    (void)rank;
    end_all(context, cause);
}

/* ---- the processes ----------------------------------------------------------------------------------------------- */

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

static void *follow(void *context) {
    member *its = context;
    gp_feed feed = {.context = &its->h, .take = take};
    bool goes_on = false;
    its->status = open_run(its);
    if (its->status == GP_OK) its->status = gp_run_follow(its->h.run, &feed, &goes_on, &its->err);
    if (its->status != GP_OK && !its->team->options->silent) end_all(its->team, &its->err);
    watch(its, NULL);
    gp_run_destroy(&its->h.run);
    return NULL;
}

/* After it every thread of the recorder is at rest. */
static gp_status hash_params(harness *h, uint64_t *hash, gp_error *err) {
    double values[4096];
    *hash = 0;
    for (int p = 0; p < h->graph->param_count; p++) {
        int64_t elements;
        if (!gp_shape_elements(h->graph->params[p].spec.shape, &elements) || elements > 4096)
            return gp_fail(err, GP_INTERNAL, "a parameter is too large for this test");
        GP_RETURN_IF_FAILED(gp_run_read(h->run, &(gp_tensor_copy){p, -1, values}, 1, err));
        *hash = gp_hash_bytes(*hash, values, (uint64_t)elements * sizeof(float));
    }
    return GP_OK;
}

static int64_t samples_of(const harness_options *its, bool training, uint32_t step) {
    if (!training) return its->evaluation;
    return step == 2 && its->last ? its->last : its->batch;
}

static gp_status train(harness *h, int steps, uint64_t *hash, gp_error *err) {
    for (int s = 1; s <= steps + 1; s++) {
        gp_step_result result;
        uint64_t kept;
        uint32_t step = (uint32_t)s;
        bool training = s <= steps;
        recorder_meet();
        GP_RETURN_IF_FAILED(harness_step(h, samples_of(&h->options, training, step), training, step, &result, err));
        GP_RETURN_IF_FAILED(hash_params(h, &kept, err));
        *hash = gp_hash_bytes(gp_hash_bytes(*hash, &kept, sizeof kept), &result.loss_sum, sizeof result.loss_sum);
    }
    return GP_OK;
}

/* What process 0 does. */
static void lead(team *all, uint64_t *hash) {
    member *its = &all->member[0];
    its->status = open_run(its);
    if (its->status == GP_OK) its->status = harness_fill(&its->h, &its->err);
    if (its->status == GP_OK) its->status = train(&its->h, all->options->steps, hash, &its->err);
    if (its->status != GP_OK) end_all(all, &its->err);
}

/* ---- the team ---------------------------------------------------------------------------------------------------- */

static void plan_member(team *all, int rank) {
    const team_options *options = all->options;
    member *its = &all->member[rank];
    harness_options own = options->training;
    own.rank = rank;
    if (options->alone) {
        own.process = NULL;
        own.processes = 0;
    } else {
        its->wire = loop_wire_of(all->hub, rank);
    }
    its->team = all;
    harness_plan(&its->h, &own);
    assert_int_equal(its->h.plan->lines, !options->alone && options->lines);
    its->hooks = (gp_hooks){&its->h, options->before ? options->before : team_hear, tell};
}

static void begin_team(team *all, const team_options *options) {
    *all = (team){.options = options, .processes = options->alone ? 1 : options->training.processes};
    assert_in_range(all->processes, 1, TEAM_MAX_PROCESSES);
    pthread_mutex_init(&all->lock, NULL);
    if (!options->alone) all->hub = loop_open(all->processes, options->seed, options->delay, wire_failed, all);
    for (int p = 0; p < all->processes; p++) plan_member(all, p);
    for (int p = 1; p < all->processes; p++)
        assert_int_equal(pthread_create(&all->member[p].thread, NULL, follow, &all->member[p]), 0);
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

void team_run(const team_options *options, const recorder_options *recorder, team_outcome *out) {
    static team all;
    *out = (team_outcome){.hash = 0};
    recorder_begin(recorder);
    begin_team(&all, options);
    lead(&all, &out->hash);
    end_team(&all);
    out->err = all.cause;
    out->aborted = recorder_aborted_lines();
    out->sentence = recorder_end(&out->counts);
}

uint64_t team_bits(const team_options *options, recorder_policy policy, uint64_t seed, recorder_counts *counts) {
    const recorder_options recorder = {policy, seed, TEAM_GPUS, -1, -1, 0, 0, 0};
    team_outcome its;
    team_run(options, &recorder, &its);
    if (its.sentence) fail_msg("%s: %s (%s)", options->name, its.sentence, its.err.text);
    if (its.err.status != GP_OK) fail_msg("%s: %s", options->name, its.err.text);
    assert_int_equal(its.aborted, 0);
    if (counts) *counts = its.counts;
    return its.hash;
}

void team_fail_calls(const team_options *options, long stride) {
    recorder_counts counts;
    (void)team_bits(options, RECORDER_EAGER, 0, &counts);
    long failed = 0, tried = 0;
    for (long call = test_first((int)stride); call < counts.calls; call += stride, tried++) {
        const recorder_options recorder = {RECORDER_EAGER, 0, TEAM_GPUS, -1, call, 0, 0, 0};
        team_outcome its;
        team_run(options, &recorder, &its);
        if (its.sentence) fail_msg("call %ld: %s (%s)", call, its.sentence, its.err.text);
        if (its.err.status == GP_OK) continue;
        failed++;
        if (!strstr(its.err.text, "made to fail") || !strstr(its.err.text, "worker "))
            fail_msg("call %ld: %s", call, its.err.text);
    }
    print_message("%s: %ld of %ld calls failed a run\n", options->name, failed, tried);
    /* How often threads ask whether something is over is different each time; so a run may have fewer calls. */
    assert_true(failed > tried / 8);
}
