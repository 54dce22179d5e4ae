/* One mini-batch of a run: taken from a loader, and run. */
#include "base/clock.h"
#include "pipeline/follow.h"
#include "train/trainer_internal.h"

bool gp_trainer_stopping(const gp_trainer *t) {
    if (t->options->processes && gp_processes_are_asked(t->options->processes)) return true;
    return t->options->stop && *t->options->stop;
}

void gp_trainer_end_run(gp_trainer *t) {
    if (t->run) gp_run_dismiss(t->run);
    if (t->options->processes) gp_processes_watch(t->options->processes, NULL);
    gp_train_lookout_end(&t->lookout);
    gp_run_destroy(&t->run);
}

gp_step_input gp_trainer_input(const gp_trainer *t, const gp_batch *batch, int64_t step) {
    return (gp_step_input){.input = batch->input,
                           .target = batch->target,
                           .seed = t->session->config->train.seed,
                           .step = (uint32_t)step,
                           .rate = gp_rate(&t->session->config->optimizer, t->length, step),
                           .divisor = batch->counts > 0 ? (double)batch->counts : 1,
                           .epoch = batch->epoch,
                           .index = batch->index};
}

gp_status gp_trainer_batch(gp_trainer *t, int mini, const gp_step_input *input, gp_step_result *result, gp_error *err) {
    bool training = t->session->plan->minis[mini].training;
    GP_RETURN_IF_FAILED(gp_tracing_before(t->tracing, t->run, mini, input->step, err));
    if (training)
        GP_RETURN_IF_FAILED(gp_account_before(t->account, t->run, mini, gp_tracing_recorder(t->tracing), err));
    double began = gp_now();
    gp_status status = gp_run_step(t->run, mini, input, result, err);
    if (training && status == GP_OK) gp_account_after(t->account, t->run, mini, gp_now() - began);
    gp_tracing_after(t->tracing, t->run, input->step);
    return status;
}

/* If some targets are read by other processes, and it is not certain that all count, they say how many do. */
static gp_status count_targets(gp_trainer *t, bool training, int64_t step, gp_batch *batch, gp_error *err) {
    const gp_step_input input = {.step = (uint32_t)step, .epoch = batch->epoch, .index = batch->index};
    int mini;
    if (batch->counts >= 0) return GP_OK;
    GP_RETURN_IF_FAILED(gp_session_find_mini(t->session, training, batch->samples, &mini, err));
    return gp_run_count(t->run, mini, &input, batch->counted, &batch->counts, err);
}

static gp_status take_batch(gp_trainer *t, gp_loader *loader, int64_t step, const gp_batch **out, gp_error *err) {
    const gp_batch *read = NULL;
    GP_RETURN_IF_FAILED(gp_loader_take(loader, &read, err));
    *out = read ? &t->taken : NULL;
    if (!read) return GP_OK;
    t->taken = *read;
    return count_targets(t, loader == t->training, step, &t->taken, err);
}

gp_status gp_trainer_take(gp_trainer *t, gp_loader *loader, const gp_batch **out, gp_error *err) {
    bool training = loader == t->training;
    int64_t step = t->reached.step + (t->under_way.step > 0) + training;
    GP_RETURN_IF_FAILED(gp_tracing_before_take(t->tracing, training, step, err));
    uint64_t began = gp_clock();
    gp_status status = take_batch(t, loader, step, out, err);
    uint64_t ended = gp_clock();
    t->data_seconds = 1e-9 * (double)(ended - began);
    gp_tracing_after_take(t->tracing, training, step, began, ended);
    return status;
}
