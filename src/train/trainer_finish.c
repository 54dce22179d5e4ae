/* The trainer after its last step: what is saved, and what is said. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "train/trainer_internal.h"

enum { HOW_FAR = 96 };

/* −1: there is none. */
static int64_t newest_snapshot(const gp_trainer *t) {
    int64_t *steps = NULL, step = -1;
    int count = 0;
    if (gp_snapshot_list(t->folder.path.text, &steps, &count, NULL) == GP_OK && count > 0) step = steps[0];
    free(steps);
    return step;
}

/* The failure goes on with what is not lost. */
static void name_snapshot(const gp_trainer *t, gp_error *err) {
    int64_t step = err ? newest_snapshot(t) : -1;
    if (step < 0) return;
    const gp_error cause = *err;
    gp_fail(err, cause.status, "%s; the snapshot of step %" PRId64 " stands, and --resume goes on from it", cause.text,
            step);
}

static gp_status save_model(gp_trainer *t, gp_error *err) {
    char step[24];
    snprintf(step, sizeof step, "%" PRId64, t->reached.step);
    const char *metadata[] = {"format", "pt", "step", step, NULL};
    gp_status status = gp_saver_model(t->saver, t->run, "model.safetensors", metadata, err);
    if (status == GP_IO) name_snapshot(t, err);
    return status;
}

/* The snapshot of the end was not written; `status` is the run's so far. An interrupted run is not saved without it. A
 * run that was ended meanwhile has failed, and says so. */
static gp_status say_unsaved(gp_trainer *t, gp_status status, const gp_error *cause, gp_error *err) {
    if (gp_cancelled(gp_run_cancel(t->run)))
        return status == GP_OK ? gp_cancel_cause(gp_run_cancel(t->run), err) : status;
    if (status == GP_OK && t->interrupted)
        return gp_fail(err, cause->status, "interrupted after step %" PRId64 ", and no snapshot was written: %s",
                       t->reached.step, cause->text);
    gp_progress_warn(&t->progress, "no snapshot of the end was written: %s", cause->text);
    return status;
}

/* A run that takes snapshots leaves one of its end, to be gone on with further; one that was asked to end leaves one in
 * any case. *wanted: whether it should; it stands where GP_OK is returned. */
static gp_status save_snapshot(gp_trainer *t, bool *wanted, gp_error *err) {
    *wanted = t->session->steps > 0 && (t->interrupted || gp_trainer_takes_snapshots(t));
    return *wanted ? gp_trainer_save_now(t, err) : GP_OK;
}

/* Of a run that has ended with `status`: what is not finite makes it fail, or is said beside the cause of its failure.
 * Where workers failed there is nothing to look at. */
static gp_status check_state(gp_trainer *t, gp_status status, gp_error *err) {
    gp_error cause = {0};
    if (t->told || gp_saver_check(t->saver, t->run, &cause) == GP_OK) return status;
    if (gp_trainer_refuse_state(t, &cause) != GP_NUMERIC) return status;
    if (status != GP_OK)
        gp_progress_warn(&t->progress, "%s", cause.text);
    else
        *err = cause;
    return status == GP_OK ? cause.status : status;
}

static void say_done(gp_trainer *t, double seconds) {
    const char *folder = t->folder.path.text;
    char loss[GP_LOSS_TEXT];
    if (t->reached.step == 0)
        gp_progress_line(&t->progress, "done: evaluated in %.1f s; model saved in %s", seconds, folder);
    else if (t->reached.accuracy >= 0)
        gp_progress_line(&t->progress, "done: %" PRId64 " steps in %.1f s, loss %s, accuracy %.4f; model saved in %s",
                         t->reached.step, seconds, gp_loss_text(loss, t->reached.loss), t->reached.accuracy, folder);
    else
        gp_progress_line(&t->progress, "done: %" PRId64 " steps in %.1f s, loss %s; model saved in %s", t->reached.step,
                         seconds, gp_loss_text(loss, t->reached.loss), folder);
}

/* "interrupted after 3 of 8 steps" */
static const char *how_far(const gp_trainer *t, gp_status status, char text[HOW_FAR]) {
    const char *how = status != GP_OK ? "stopped" : "interrupted";
    if (t->session->steps == 0)
        snprintf(text, HOW_FAR, "%s before the evaluation ended", how);
    else
        snprintf(text, HOW_FAR, "%s after %" PRId64 " of %" PRId64 " steps", how, t->reached.step, t->session->steps);
    return text;
}

static void say_end(gp_trainer *t, gp_status status, bool saved, bool snapshot, double seconds) {
    char far[HOW_FAR];
    if (status == GP_OK && !t->interrupted)
        say_done(t, seconds);
    else if (saved && snapshot)
        gp_progress_line(&t->progress, "%s; model and snapshot saved in %s%s", how_far(t, status, far),
                         t->folder.path.text,
                         status == GP_NUMERIC ? "" : ": --resume goes on"); /* but would fail there again */
    else if (saved)
        gp_progress_line(&t->progress, "%s; model saved in %s", how_far(t, status, far), t->folder.path.text);
    else
        gp_progress_line(&t->progress, "%s; no model saved%s", how_far(t, status, far),
                         status != GP_NUMERIC && newest_snapshot(t) > 0 ? ": --resume goes on from the last snapshot"
                                                                        : "");
}

static void say_best(gp_trainer *t) {
    const char *folder = t->folder.path.text;
    if (t->best_differs && t->reached.best_step >= 0)
        gp_progress_warn(&t->progress,
                         "%s/best.safetensors is not the model of step %" PRId64 ", whose evaluation is the run's best",
                         folder, t->reached.best_step);
    else if (t->best_differs)
        gp_progress_warn(&t->progress, "%s/best.safetensors is of an evaluation that is not the run's", folder);
}

static void say_report(gp_trainer *t, const gp_account_result *account) {
    FILE *out = gp_progress_out(&t->progress);
    if (!out) return;
    gp_account_report(account, out);
    if (t->progress.verbosity == GP_VERBOSE) gp_account_table(account, out);
}

/* The run ended before a step of the timeline. */
static void say_empty_timeline(gp_trainer *t) {
    const gp_trace_options *trace = &t->options->trace;
    if (gp_tracing_is_empty(t->tracing))
        gp_progress_warn(&t->progress,
                         "%s: the timeline is empty: the run ended after step %" PRId64
                         ", and no step of --trace-steps %" PRId64 ":%" PRId64 " ran",
                         trace->path, t->reached.step, trace->first, trace->last);
}

/* A capture that no step has begun leaves no report of Nsight's. */
static void end_capture(gp_trainer *t, gp_status status) {
    const gp_capture_options *asked = &t->options->capture;
    gp_error failure = {0};
    if (gp_capture_end(&t->capture, t->session->plan, &failure) != GP_OK)
        gp_progress_warn(&t->progress, "%s", failure.text);
    if (status == GP_OK && asked->last && !t->capture.began)
        gp_progress_warn(&t->progress,
                         "nothing was captured: the run ended after step %" PRId64
                         ", and no step of --capture-steps %" PRId64 ":%" PRId64 " ran",
                         t->reached.step, asked->first, asked->last);
}

gp_status gp_trainer_finish(gp_trainer *t, gp_status status, gp_error *err) {
    double seconds = gp_now() - t->progress.began;
    gp_account_result *account = NULL;
    gp_error later = {0};
    if (t->account && gp_account_settle(t->account, &account, &later) != GP_OK)
        gp_progress_warn(&t->progress, "there is no report of the steps: %s", later.text);
    bool saved = false, snapshot = false;
    if (t->weights) {
        status = check_state(t, status, err);
        bool well = status == GP_OK;
        gp_error unsaved = {0};
        gp_status saving = gp_trainer_find_folder(t, well ? err : &later);
        bool there = saving == GP_OK;
        gp_status kept = there ? save_snapshot(t, &snapshot, &unsaved) : GP_OK;
        snapshot = snapshot && kept == GP_OK;
        if (there) saving = save_model(t, well ? err : &later);
        saved = saving == GP_OK;
        if (well) status = saving;
        if (well && kept != GP_OK) status = say_unsaved(t, status, &unsaved, err);
    }
    say_empty_timeline(t);
    end_capture(t, status);
    gp_status traced = gp_tracing_close(&t->tracing, status == GP_OK ? err : &later);
    if (status == GP_OK) status = traced;
    if (t->metrics) {
        const char *how = status != GP_OK ? "failed" : t->interrupted ? "interrupted" : "done";
        gp_status ended =
            gp_metrics_end(t->metrics, how, t->reached.step, seconds, account, status == GP_OK ? err : &later);
        if (status == GP_OK) status = ended;
        ended = gp_metrics_close(&t->metrics, status == GP_OK ? err : &later);
        if (status == GP_OK) status = ended;
    }
    if (account) say_report(t, account);
    gp_account_result_destroy(&account);
    say_best(t);
    say_end(t, status, saved, snapshot, seconds);
    if (status != GP_OK || !t->interrupted) return status;
    if (err) *err = (gp_error){.status = GP_INTERRUPTED};
    return GP_INTERRUPTED;
}
