/* The trainer's evaluations. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pipeline/diagnose.h"
#include "train/trainer_internal.h"

typedef struct evaluation {
    double data_seconds;         /* that it waited for data */
    double loss, accuracy;       /* means over the targets that count; accuracy NaN: the loss has none */
    bool whole;                  /* the run was not asked to end within it */
    char origin[GP_ORIGIN_TEXT]; /* the first tensor that was not finite; "": none was found */
} evaluation;

/* A second pass of the first mini-batch whose loss is not finite says where that began. */
static gp_status find_origin(gp_trainer *t, const gp_batch *batch, int mini, const gp_step_input *input,
                             evaluation *out, gp_error *err) {
    gp_finding finding = {0};
    GP_RETURN_IF_FAILED(gp_run_diagnose(t->run, mini, input, &finding, err));
    gp_trainer_origin(out->origin, t, t->evaluation, batch, mini, &finding);
    return GP_OK;
}

/* Stops between mini-batches where the run is asked to end. */
static gp_status evaluate_batches(gp_trainer *t, evaluation *out, gp_error *err) {
    double loss_sum = 0, right = 0, counts = 0;
    gp_tracing_before_evaluation(t->tracing, t->reached.step);
    GP_RETURN_IF_FAILED(gp_loader_restart(t->evaluation, err));
    for (;;) {
        const gp_batch *batch;
        gp_step_result result;
        int mini;
        GP_RETURN_IF_FAILED(gp_trainer_take(t, t->evaluation, &batch, err));
        out->data_seconds += t->data_seconds;
        if (!batch) break;
        if (gp_trainer_stopping(t)) return GP_OK;
        gp_step_input input = gp_trainer_input(t, batch, t->reached.step);
        GP_RETURN_IF_FAILED(gp_session_find_mini(t->session, false, batch->samples, &mini, err));
        GP_RETURN_IF_FAILED(gp_trainer_batch(t, mini, &input, &result, err));
        if (!isfinite(result.loss_sum) && isfinite(loss_sum))
            GP_RETURN_IF_FAILED(find_origin(t, batch, mini, &input, out, err));
        loss_sum += result.loss_sum;
        right += result.right;
        counts += (double)batch->counts;
    }
    out->loss = counts > 0 ? loss_sum / counts : 0;
    out->accuracy = t->session->spec.classes == 0 ? NAN : counts > 0 ? right / counts : 0;
    out->whole = true;
    return GP_OK;
}

gp_status gp_trainer_save_best(gp_trainer *t, gp_error *err) {
    char step[24], number[32];
    snprintf(step, sizeof step, "%" PRId64, t->reached.step);
    snprintf(number, sizeof number, "%.9g", t->reached.best);
    const char *figure = t->session->spec.classes > 0 ? "accuracy" : "loss";
    const char *metadata[] = {"format", "pt", "step", step, figure, number, NULL};
    return gp_saver_model(t->saver, t->run, "best.safetensors", metadata, err);
}

/* Evaluations are compared by accuracy, or by loss where the loss has no classes. Only those that
 * are finite come here. A tie leaves the earlier; a model that could not be written is not the best, so that the file
 * is what a snapshot says of it. */
static gp_status keep_best(gp_trainer *t, const evaluation *its, gp_error *err) {
    bool by_accuracy = t->session->spec.classes > 0;
    double value = by_accuracy ? its->accuracy : its->loss;
    if (t->reached.best_step >= 0 && !(by_accuracy ? value > t->reached.best : value < t->reached.best)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_trainer_find_folder(t, err));
    const gp_reached before = t->reached;
    gp_error failure = {0};
    t->reached.best_step = t->reached.step;
    t->reached.best = value;
    if (before.best_step < 0) GP_RETURN_IF_FAILED(gp_trainer_save_before_best(t, err));
    gp_status status = gp_trainer_save_best(t, &failure);
    if (status == GP_OK) {
        t->best_differs = false;
        return GP_OK;
    }
    t->reached.best_step = before.best_step;
    t->reached.best = before.best;
    if (status != GP_IO) {
        *err = failure;
        return gp_trainer_refuse_state(t, err);
    }
    gp_progress_warn(&t->progress, "the best model was not saved: %s; the run goes on", failure.text);
    return GP_OK;
}

/* The run goes on, but for one that only evaluates: it has no other result. */
static gp_status say_not_finite(gp_trainer *t, const evaluation *its, gp_error *err) {
    char loss[GP_LOSS_TEXT];
    const char *between = *its->origin ? "; first not finite: " : "";
    gp_loss_text(loss, its->loss);
    if (t->session->steps == 0)
        return gp_fail(err, GP_NUMERIC, "the evaluation is not finite: its loss is %s%s%s", loss, between, its->origin);
    gp_progress_warn(&t->progress,
                     "the evaluation after step %" PRId64
                     " is not finite: its loss is %s, and it is never the best%s%s",
                     t->reached.step, loss, between, its->origin);
    return GP_OK;
}

gp_status gp_trainer_evaluate(gp_trainer *t, gp_error *err) {
    if (!t->session->eval) return GP_OK;
    evaluation its = {0};
    double began = gp_now();
    if (evaluate_batches(t, &its, err) != GP_OK)
        return gp_error_context(err, "evaluation after step %" PRId64 ": ", t->reached.step);
    if (!its.whole) {
        t->interrupted = true;
        return GP_OK;
    }
    gp_tracing_result(t->tracing, false, t->reached.step, t->reached.epoch, its.loss);
    t->reached.accuracy = its.accuracy;
    t->reached.evaluated = t->reached.step;
    if (t->saved == t->reached.step) t->saved = -1; /* that snapshot lacks what follows */
    gp_eval_record record = {.step = t->reached.step,
                             .epoch = t->reached.epoch,
                             .loss = its.loss,
                             .accuracy = its.accuracy,
                             .seconds = gp_now() - began,
                             .data_seconds = its.data_seconds};
    gp_progress_eval(&t->progress, &record);
    GP_RETURN_IF_FAILED(gp_metrics_eval(t->metrics, &record, err));
    t->reached.metrics_bytes = gp_metrics_bytes(t->metrics);
    if (!isfinite(its.loss)) return say_not_finite(t, &its, err);
    return keep_best(t, &its, err);
}
