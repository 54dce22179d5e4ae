#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>

#include "pipeline/diagnose.h"
#include "train/norms.h"
#include "train/rate.h"
#include "train/trainer_internal.h"

bool gp_trainer_stopping(const gp_trainer *t) {
    return t->options->stop && *t->options->stop;
}

gp_step_input gp_trainer_input(const gp_trainer *t, const gp_batch *batch, int64_t step) {
    return (gp_step_input){.input = batch->input,
                           .target = batch->target,
                           .seed = t->session->config->train.seed,
                           .step = (uint32_t)step,
                           .rate = gp_rate(&t->session->config->optimizer, t->length, step),
                           .divisor = batch->counts > 0 ? (double)batch->counts : 1};
}

gp_status gp_trainer_batch(gp_trainer *t, const gp_batch *batch, bool training, const gp_step_input *input,
                           gp_step_result *result, gp_error *err) {
    int mini;
    GP_RETURN_IF_FAILED(gp_session_find_mini(t->session, training, batch->samples, &mini, err));
    GP_RETURN_IF_FAILED(gp_tracing_before(t->tracing, t->run, mini, input->step, err));
    if (training)
        GP_RETURN_IF_FAILED(gp_account_before(t->account, t->run, mini, gp_tracing_recorder(t->tracing), err));
    double began = gp_now();
    gp_status status = gp_run_step(t->run, mini, input, result, err);
    if (training && status == GP_OK) gp_account_after(t->account, t->run, mini, gp_now() - began);
    gp_tracing_after(t->tracing, t->run, input->step);
    return status;
}

/* The sentence goes on with the tensor where it began, which a second pass names. */
static gp_status refuse_step(gp_trainer *t, const gp_batch *batch, const gp_step_input *input,
                             const gp_step_record *record, gp_error *err) {
    bool loss = !isfinite(record->loss);
    gp_finding finding = {0};
    gp_error failure = {0};
    char text[GP_FINDING_TEXT] = "";
    int mini = gp_plan_find(t->session->plan, true, batch->samples);
    gp_status second = gp_run_diagnose(t->run, mini, input, &finding, &failure);
    if (second == GP_OK && finding.found) gp_finding_text(text, t->session->plan, mini, &finding);
    bool data = finding.found && finding.role.role == GP_ROLE_INPUT;
    return gp_fail(err, GP_NUMERIC,
                   "step %" PRId64 ": the %s is %s: the update was not applied, and the run stops%s%s%s", record->step,
                   loss ? "loss" : "norm of the gradients",
                   isnan(loss ? record->loss : record->grad_norm) ? "not a number" : "infinite",
                   data ? "" : "; a lower learning rate or a warm-up may help",
                   second != GP_OK ? "; a second pass, to find where it began, failed: "
                   : *text         ? "; first not finite: "
                                   : "",
                   second != GP_OK ? failure.text : text);
}

static bool norms_are_due(const gp_trainer *t) {
    if (t->options->verbosity != GP_VERBOSE || !t->session->norms) return false;
    return t->step == 1 || t->step == t->session->steps || (t->eval_every > 0 && t->step % t->eval_every == 0);
}

static gp_status train_step(gp_trainer *t, const gp_batch *batch, gp_error *err) {
    double began = gp_now();
    int64_t step = t->step + 1;
    gp_step_input input = gp_trainer_input(t, batch, step);
    gp_step_result result;
    gp_status status = gp_trainer_batch(t, batch, true, &input, &result, err);
    if (status != GP_OK) return gp_error_context(err, "step %" PRId64 ": ", step);
    gp_step_record record = {.step = step,
                             .epoch = batch->epoch,
                             .loss = result.loss_sum / input.divisor,
                             .rate = input.rate,
                             .samples = batch->samples,
                             .seconds = gp_now() - began,
                             .normed = t->session->config->optimizer.clip_norm > 0,
                             .grad_norm = result.grad_norm};
    t->epoch = batch->epoch;
    GP_RETURN_IF_FAILED(gp_metrics_step(t->metrics, &record, err));
    if (!result.finite) return refuse_step(t, batch, &input, &record, err);
    t->step = step;
    t->loss = record.loss;
    t->metrics_bytes = gp_metrics_bytes(t->metrics);
    gp_progress_step(&t->progress, &record);
    return norms_are_due(t) ? gp_norms_print(&t->progress, t->run, t->session->plan, step, err) : GP_OK;
}

/* Said once: the file's lines wait in memory from now on. */
static void watch_metrics(gp_trainer *t) {
    gp_error failure = {0};
    if (gp_metrics_poll(t->metrics, &failure) != GP_OK)
        gp_progress_warn(&t->progress, "%s; its lines wait, and the run goes on", failure.text);
}

static bool evaluation_is_due(const gp_trainer *t) {
    if (!t->session->eval || t->evaluated == t->step) return false;
    if (t->step == t->session->steps) return true;
    return t->step > 0 && t->eval_every > 0 && t->step % t->eval_every == 0;
}

/* Each turn finishes a step, which a run that was stopped in its evaluation has left to do, and begins the next. */
static gp_status train_batches(gp_trainer *t, gp_loader *loader, gp_error *err) {
    for (;;) {
        const gp_batch *batch;
        if (evaluation_is_due(t)) GP_RETURN_IF_FAILED(gp_trainer_evaluate(t, err));
        if (t->interrupted) return GP_OK;
        watch_metrics(t);
        GP_RETURN_IF_FAILED(gp_trainer_save(t, err));
        if (t->step >= t->session->steps) return GP_OK;
        t->interrupted = gp_trainer_stopping(t);
        if (t->interrupted) return GP_OK;
        GP_RETURN_IF_FAILED(gp_loader_take(loader, &batch, err));
        if (!batch) return gp_fail(err, GP_INTERNAL, "the loader ended before the run");
        GP_RETURN_IF_FAILED(train_step(t, batch, err));
    }
}

static gp_status train(gp_trainer *t, gp_error *err) {
    const gp_config *config = t->session->config;
    if (t->session->steps == 0) return gp_trainer_evaluate(t, err);
    gp_loader_options options = {.batch = config->data.batch,
                                 .shuffle = config->data.shuffle,
                                 .drop_last = config->data.drop_last,
                                 .seed = config->train.seed,
                                 .first_epoch = 1,
                                 .skip = t->step,
                                 .depth = GP_PREFETCH,
                                 .threads = config->data.threads};
    gp_loader *loader = NULL;
    GP_RETURN_IF_FAILED(gp_loader_create(t->session->train, &t->session->spec, &options, &loader, err));
    gp_status status = train_batches(t, loader, err);
    gp_loader_destroy(&loader);
    return status;
}

gp_status gp_train(gp_session *session, const gp_train_options *options, gp_error *err) {
    gp_trainer t = {
        .session = session, .options = options, .accuracy = -1, .evaluated = -1, .best_step = -1, .saved = -1};
    gp_progress_start(&t.progress, options->verbosity, session, options->folder);
    gp_status status = gp_trainer_start(&t, err);
    if (status == GP_OK) status = train(&t, err);
    status = gp_trainer_finish(&t, status, err);
    gp_saver_destroy(&t.saver);
    gp_run_destroy(&t.run);
    gp_account_close(&t.account);
    return status;
}
