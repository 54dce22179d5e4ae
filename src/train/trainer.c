#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>

#include "settings/rate.h"
#include "train/trainer_internal.h"

/* Said once: the file's lines wait in memory from now on; or it was removed, and another one begins, or cannot
 * begin. A snapshot says how long the new one is. */
static gp_status watch_metrics(gp_trainer *t, gp_error *err) {
    gp_error failure = {0};
    if (gp_metrics_poll(t->metrics, &failure) != GP_OK)
        gp_progress_warn(&t->progress, "%s; its lines wait, and the run goes on", failure.text);
    if (!gp_metrics_are_gone(t->metrics)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_trainer_find_folder(t, err));
    const gp_path path = gp_folder_file(t->folder.path.text, "metrics.jsonl");
    bool renewed;
    if (gp_metrics_renew(t->metrics, path.text, &renewed, &failure) != GP_OK && !t->metrics_told) {
        t->metrics_told = true;
        gp_progress_warn(&t->progress, "%s; the run goes on", failure.text);
    }
    if (!renewed) return GP_OK;
    t->metrics_told = false;
    t->save_due = true;
    if (t->saved == t->reached.step) t->saved = -1;
    t->reached.metrics_bytes = gp_metrics_bytes(t->metrics);
    gp_progress_warn(&t->progress,
                     "%s was removed after step %" PRId64 ": its lines are lost, and the run goes on in a new one",
                     path.text, t->reached.step);
    return GP_OK;
}

static bool evaluation_is_due(const gp_trainer *t) {
    return t->under_way.step == 0 && t->reached.evaluated != t->reached.step &&
           gp_trainer_evaluates(t, t->reached.step);
}

/* Each turn finishes a step, which a run that was stopped in its evaluation has left to do, and begins the next. */
static gp_status train_batches(gp_trainer *t, gp_loader *loader, gp_error *err) {
    for (;;) {
        const gp_batch *batch;
        GP_RETURN_IF_FAILED(gp_trainer_catch_up(t, loader, err));
        if (evaluation_is_due(t)) GP_RETURN_IF_FAILED(gp_trainer_evaluate(t, err));
        if (t->interrupted) return GP_OK;
        GP_RETURN_IF_FAILED(watch_metrics(t, err));
        GP_RETURN_IF_FAILED(gp_trainer_save(t, err));
        if (t->reached.step >= gp_session_last(t->session)) return GP_OK;
        t->interrupted = t->under_way.step == 0 && gp_trainer_stopping(t);
        if (t->interrupted) return GP_OK;
        gp_first_step_waits(t->progress.watch);
        GP_RETURN_IF_FAILED(gp_trainer_take(t, loader, &batch, err));
        gp_first_step_computes(t->progress.watch);
        if (!batch) return gp_fail(err, GP_INTERNAL, "the loader ended before the run");
        GP_RETURN_IF_FAILED(gp_trainer_step(t, batch, err));
    }
}

static gp_status train(gp_trainer *t, gp_error *err) {
    if (t->session->steps == 0) return gp_trainer_evaluate(t, err);
    for (;;) {
        if (train_batches(t, t->training, err) != GP_OK) return gp_trainer_abandon(t, err);
        if (t->interrupted || t->reached.step < t->session->until) return GP_OK;
        GP_RETURN_IF_FAILED(gp_trainer_change(t, err));
    }
}

gp_status gp_train(gp_session *session, const gp_train_options *options, gp_error *err) {
    gp_trainer t = {.session = session,
                    .options = options,
                    .reached = {.accuracy = -1, .evaluated = -1, .best_step = -1},
                    .saved = -1};
    gp_folder_hold(options->folder, &t.folder);
    gp_progress_start(&t.progress, options->verbosity, session, options->processes, options->folder);
    bool silent = options->verbosity == GP_QUIET || session->steps == 0;
    t.progress.watch = gp_first_step_watch(session, silent ? NULL : stdout, options->patience);
    gp_status status = gp_trainer_start(&t, err);
    if (status == GP_OK) status = train(&t, err);
    gp_first_step_end(&t.progress.watch);
    status = gp_trainer_finish(&t, status, err);
    if (status != GP_OK && options->processes && t.run && gp_cancelled(gp_run_cancel(t.run)))
        gp_processes_fail(options->processes, err); /* before closing, which takes time */
    else if (options->processes && (status == GP_OK || status == GP_INTERRUPTED))
        gp_processes_saved(options->processes, status); /* likewise */
    gp_loader_destroy(&t.training);
    gp_loader_destroy(&t.evaluation);
    gp_saver_destroy(&t.saver);
    gp_held_destroy(&t.held);
    gp_trainer_end_run(&t);
    gp_account_close(&t.account);
    gp_folder_release(&t.folder);
    return status;
}
