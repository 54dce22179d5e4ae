#include "cuda/training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/philox.h"
#include "cuda/labels.h"
#include "cuda/recorder.h"
#include "device/cuda/cuda.h"

enum { BATCH = 6, LAST = 5, EVALUATED = 4, MICRO_BATCHES = 3 };

harness_options training_options(const training_cut *its, gp_checkpoint_mode mode, bool lockstep, int devices) {
    return (harness_options){.model = its->model,
                             .layers = its->layers,
                             .stages = its->stages,
                             .kind = &gp_cuda_kind,
                             .checkpoint = mode,
                             .lockstep = lockstep,
                             .micro_batches = MICRO_BATCHES,
                             .batch = BATCH,
                             .last = LAST,
                             .evaluation = EVALUATED,
                             .devices = devices,
                             .norms = true,
                             .clip_norm = 0.5};
}

/* What a worker has seen goes with the signals that it raises. */
static size_t word_of(const gp_plan *plan, uint64_t step, const gp_wait *event) {
    return step * gp_event_count(plan->stages, MICRO_BATCHES) + gp_event_number(plan->stages, MICRO_BATCHES, event);
}

static gp_status hear(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    const gp_worker_waits *waits = &h->plan->minis[site->mini].waits->worker[site->worker];
    (void)err;
    labels_come_to(h->plan, site);
    for (size_t i = waits->first[site->pc]; i < waits->first[site->pc + 1]; i++)
        recorder_hear(word_of(h->plan, site->step, &waits->items[i]));
    return GP_OK;
}

static gp_status tell(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    gp_wait event;
    (void)err;
    if (gp_instr_event(site->instr, &event)) recorder_tell(word_of(h->plan, site->step, &event));
    return GP_OK;
}

typedef struct turn {
    int64_t samples;
    bool training;
} turn;

static turn turn_of(const harness *h, int i) {
    const harness_options *its = &h->options;
    const turn turns[TRAINING_STEPS] = {
        {its->batch, true}, {its->batch, true}, {its->batch, true}, {its->evaluation, false}, {its->last, true}};
    return turns[i];
}

/* Whether turn `i` begins behind the one before it. */
static bool is_behind(const harness *h, int i, bool alone) {
    turn its = turn_of(h, i);
    if (alone || i == 0 || its.samples != turn_of(h, i - 1).samples) return false;
    return gp_plan_overlaps(h->plan, gp_plan_find(h->plan, its.training, its.samples));
}

static gp_status end_turn(harness *h, int i, training_outcome *out, gp_error *err) {
    gp_step_result result;
    GP_RETURN_IF_FAILED(gp_run_end(h->run, &result, err));
    if (out) out->losses[i] = result.loss_sum;
    return GP_OK;
}

static gp_status run_turns(harness *h, int steps, bool alone, training_outcome *out, gp_error *err) {
    int ended = 0;
    for (int i = 0; i < steps; i++) {
        int most = is_behind(h, i, alone) ? 1 : 0;
        for (; i - ended > most; ended++) GP_RETURN_IF_FAILED(end_turn(h, ended, out, err));
        if (ended == i) recorder_meet();
        turn its = turn_of(h, i);
        GP_RETURN_IF_FAILED(harness_begin(h, its.samples, its.training, (uint32_t)i + 1, err));
    }
    for (; ended < steps; ended++) GP_RETURN_IF_FAILED(end_turn(h, ended, out, err));
    return GP_OK;
}

gp_status training_run(const harness_options *options, int steps, bool alone, training_outcome *out, gp_error *err) {
    harness h;
    const gp_hooks hooks = {.before = hear, .after = tell, .context = &h};
    harness_plan(&h, options);
    gp_status status = harness_try_start(&h, &hooks, err);
    if (status == GP_OK) status = run_turns(&h, steps, alone, out, err);
    recorder_meet();
    if (status == GP_OK && out) {
        uint64_t kept = harness_hash(&h);
        out->hash = gp_hash_bytes(gp_hash_bytes(0, out->losses, sizeof out->losses), &kept, sizeof kept);
        recorder_meet();
    }
    harness_end(&h);
    return status;
}
