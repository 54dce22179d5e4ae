/* The trainer between two configurations of one run: everything that belongs to the first is closed, and opened again
 * with the second. */
#include <inttypes.h>

#include "pipeline/follow.h"
#include "train/trainer_internal.h"

/* What else ends with the configuration. */
static void close_parts(gp_trainer *t) {
    gp_trainer_end_run(t);
    gp_account_close(&t->account);
}

/* A timeline is of one plan: it ends with the configuration in which it began. */
static void close_timeline(gp_trainer *t) {
    const gp_trace_options *trace = &t->options->trace;
    gp_error failure = {0};
    if (!t->tracing) return;
    if (trace->last > t->reached.step && trace->first <= t->reached.step)
        gp_progress_warn(&t->progress, "the timeline ends with step %" PRId64 ", since the configuration changes",
                         t->reached.step);
    if (gp_tracing_close(&t->tracing, &failure) != GP_OK) gp_progress_warn(&t->progress, "%s", failure.text);
}

/* The plan of the configuration that holds now. A plan that cannot be written is no reason to end a run that could go
 * on. */
static void write_next_plan(gp_trainer *t) {
    gp_error failure = {0};
    if (gp_trainer_find_folder(t, &failure) != GP_OK || gp_trainer_write_plan(t, &failure) != GP_OK)
        gp_progress_warn(&t->progress, "plan.json is still that of the configuration before: %s; the run goes on",
                         failure.text);
}

static gp_status open_next(gp_trainer *t, gp_error *err) {
    const gp_trace_options *trace = &t->options->trace;
    GP_RETURN_IF_FAILED(gp_session_change(t->session, err));
    if (trace->path && trace->first > t->reached.step)
        GP_RETURN_IF_FAILED(gp_tracing_open(trace, t->session, &t->tracing, err));
    GP_RETURN_IF_FAILED(gp_trainer_open(t, err));
    t->weights = true;
    write_next_plan(t);
    return GP_OK;
}

static void say_change(gp_trainer *t, const gp_change *change) {
    for (int i = 0; i < change->settings.count; i++)
        gp_progress_line(&t->progress, "from step %" PRId64 " on: %s is %s", change->step,
                         change->settings.item[i].path, change->settings.item[i].value);
}

/* A snapshot that cannot be written is no reason to end a run that could go on. */
static gp_status save_before(gp_trainer *t, int64_t step, gp_error *err) {
    gp_error failure = {0};
    if (t->short_of_disk) return GP_OK;
    gp_status status = gp_trainer_save_now(t, &failure);
    if (status == GP_OK) return GP_OK;
    t->saved = -1;
    if (status == GP_IO) {
        gp_progress_warn(&t->progress,
                         "no snapshot was written before the change at step %" PRId64 ": %s; the run goes on", step,
                         failure.text);
        return GP_OK;
    }
    if (err) *err = failure;
    return status;
}

gp_status gp_trainer_change(gp_trainer *t, gp_error *err) {
    const gp_change *change = &t->session->whole->changes[t->session->changes];
    GP_RETURN_IF_FAILED(save_before(t, change->step, err));
    close_timeline(t);
    gp_status status = gp_trainer_take_state(t, err);
    if (status == GP_OK) status = gp_run_announce_next(t->run, err);
    close_parts(t);
    if (status == GP_OK) status = open_next(t, err);
    if (status != GP_OK) return gp_error_context(err, "the change at step %" PRId64 ": ", change->step);
    GP_RETURN_IF_FAILED(gp_metrics_change(t->metrics, change->step, t->session->steps, &change->settings, err));
    say_change(t, change);
    return GP_OK;
}
