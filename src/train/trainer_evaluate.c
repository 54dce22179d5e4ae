/* The trainer's evaluations. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/folder.h"
#include "train/trainer_internal.h"

/* Stops between mini-batches where the run is asked to end: *whole is false then. */
static gp_status evaluate_batches(gp_trainer *t, gp_loader *loader, double *loss, double *accuracy, bool *whole,
                                  gp_error *err) {
    double loss_sum = 0, right = 0, counts = 0;
    *whole = false;
    for (;;) {
        const gp_batch *batch;
        gp_step_result result;
        GP_RETURN_IF_FAILED(gp_loader_take(loader, &batch, err));
        if (!batch) break;
        if (gp_trainer_stopping(t)) return GP_OK;
        gp_step_input input = gp_trainer_input(t, batch, t->step);
        GP_RETURN_IF_FAILED(gp_trainer_batch(t, batch, false, &input, &result, err));
        loss_sum += result.loss_sum;
        right += result.right;
        counts += (double)batch->counts;
    }
    *loss = counts > 0 ? loss_sum / counts : 0;
    *accuracy = t->session->spec.classes == 0 ? NAN : counts > 0 ? right / counts : 0;
    *whole = true;
    return GP_OK;
}

static gp_status save_best(gp_trainer *t, const char *figure, double value, gp_error *err) {
    char step[24], number[32], *path = NULL;
    snprintf(step, sizeof step, "%" PRId64, t->step);
    snprintf(number, sizeof number, "%.9g", value);
    const char *metadata[] = {"format", "pt", "step", step, figure, number, NULL};
    GP_RETURN_IF_FAILED(gp_folder_file(t->options->folder, "best.safetensors", &path, err));
    gp_status status = gp_saver_model(t->saver, t->run, path, metadata, err);
    free(path);
    return status;
}

/* What the evaluations are compared by: the accuracy where the loss has one. A tie leaves the earlier; a model that
 * could not be written is not the best, so that the file is what a snapshot says of it. */
static gp_status keep_best(gp_trainer *t, double loss, double accuracy, gp_error *err) {
    bool by_accuracy = t->session->spec.classes > 0;
    double value = by_accuracy ? accuracy : loss;
    bool first = t->best_step < 0 && isfinite(value);
    if (!first && !(by_accuracy ? value > t->best : value < t->best)) return GP_OK;
    gp_error failure = {0};
    gp_status status = save_best(t, by_accuracy ? "accuracy" : "loss", value, &failure);
    if (status == GP_IO) {
        gp_progress_warn(&t->progress, "the best model was not saved: %s; the run goes on", failure.text);
        return GP_OK;
    }
    if (status != GP_OK) {
        if (err) *err = failure;
        return status;
    }
    t->best_step = t->step;
    t->best = value;
    t->best_differs = false;
    return GP_OK;
}

gp_status gp_trainer_evaluate(gp_trainer *t, gp_error *err) {
    if (!t->session->eval) return GP_OK;
    gp_loader *loader = NULL;
    double loss = 0, accuracy = 0;
    bool whole;
    GP_RETURN_IF_FAILED(gp_session_evaluation(t->session, &loader, err));
    gp_status status = evaluate_batches(t, loader, &loss, &accuracy, &whole, err);
    gp_loader_destroy(&loader);
    if (status != GP_OK) return gp_error_context(err, "evaluation after step %" PRId64 ": ", t->step);
    if (!whole) {
        t->interrupted = true;
        return GP_OK;
    }
    t->accuracy = accuracy;
    t->evaluated = t->step;
    if (t->saved == t->step) t->saved = -1; /* that snapshot lacks what follows */
    gp_progress_eval(&t->progress, t->step, t->epoch, loss, accuracy);
    GP_RETURN_IF_FAILED(gp_metrics_eval(t->metrics, t->step, loss, accuracy, err));
    t->metrics_bytes = gp_metrics_bytes(t->metrics);
    return keep_best(t, loss, accuracy, err);
}
