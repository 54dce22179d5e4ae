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
                             .real = GP_F32,
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
static size_t word_of(const gp_plan *plan, gp_wait_kind kind, uint32_t edge, uint16_t micro) {
    return (kind * plan->stages->edge_count + edge) * MICRO_BATCHES + micro;
}

static gp_status hear(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    const gp_worker_waits *waits = &h->plan->minis[site->mini].waits->worker[site->worker];
    (void)err;
    labels_come_to(h->plan, site);
    for (size_t i = waits->first[site->pc]; i < waits->first[site->pc + 1]; i++)
        recorder_hear(
            word_of(h->plan, (gp_wait_kind)waits->items[i].kind, waits->items[i].edge, waits->items[i].micro));
    return GP_OK;
}

static gp_status tell(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    (void)err;
    if (site->instr->op == GP_INSTR_SEND || site->instr->op == GP_INSTR_RECV)
        recorder_tell(word_of(h->plan, site->instr->op == GP_INSTR_SEND ? GP_WAIT_SENT : GP_WAIT_PULLED,
                              site->instr->edge, site->instr->micro));
    return GP_OK;
}

gp_status training_run(const harness_options *options, int steps, training_outcome *out, gp_error *err) {
    static const struct {
        int64_t samples;
        bool training;
    } turns[TRAINING_STEPS] = {{BATCH, true}, {EVALUATED, false}, {BATCH, true}, {LAST, true}};
    harness h;
    gp_step_result result;
    uint64_t hash = 0;
    const gp_hooks hooks = {.before = hear, .after = tell, .context = &h};
    harness_plan(&h, options);
    gp_status status = harness_try_start(&h, &hooks, err);
    for (uint32_t i = 0; i < (uint32_t)steps && status == GP_OK; i++) {
        recorder_meet();
        status = harness_step(&h, turns[i].samples, turns[i].training, i + 1, &result, err);
        if (status != GP_OK || !out) continue;
        out->losses[i] = result.loss_sum;
        hash = gp_hash_bytes(hash, &result.loss_sum, sizeof result.loss_sum);
    }
    recorder_meet();
    if (status == GP_OK && out) {
        uint64_t kept = harness_hash(&h);
        out->hash = gp_hash_bytes(hash, &kept, sizeof kept);
        recorder_meet();
    }
    harness_end(&h);
    return status;
}
