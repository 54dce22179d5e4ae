/* The trainer's evaluations. */
#include <inttypes.h>

#include <math.h>

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

gp_status gp_trainer_evaluate(gp_trainer *t, gp_error *err) {
    if (!t->session->eval) return GP_OK;
    gp_loader_options options = {
        .batch = t->session->config->data.batch, .first_epoch = 1, .epochs = 1, .depth = GP_PREFETCH};
    gp_loader *loader = NULL;
    double loss = 0, accuracy = 0;
    bool whole;
    GP_RETURN_IF_FAILED(gp_loader_create(t->session->eval, &t->session->spec, &options, &loader, err));
    gp_status status = evaluate_batches(t, loader, &loss, &accuracy, &whole, err);
    gp_loader_destroy(&loader);
    if (status != GP_OK) return gp_error_context(err, "evaluation after step %" PRId64 ": ", t->step);
    if (!whole) {
        t->interrupted = true;
        return GP_OK;
    }
    t->accuracy = accuracy;
    gp_progress_eval(&t->progress, t->step, t->epoch, loss, accuracy);
    return gp_metrics_eval(t->metrics, t->step, loss, accuracy, err);
}
