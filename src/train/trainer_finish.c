/* The trainer after its last step: what is saved, and what is said. */
#include <inttypes.h>
#include <stdlib.h>

#include "train/folder.h"
#include "train/trainer_internal.h"
#include "train/weights.h"

static gp_status save_model(gp_trainer *t, gp_error *err) {
    char *path = NULL;
    GP_RETURN_IF_FAILED(gp_folder_file(t->options->folder, "model.safetensors", &path, err));
    gp_status status = gp_weights_save(t->run, t->session->plan, path, err);
    free(path);
    return status;
}

static void say_done(gp_trainer *t, double seconds) {
    const char *folder = t->options->folder;
    if (t->step == 0)
        gp_progress_end(&t->progress, "done: evaluated in %.1f s; model saved in %s", seconds, folder);
    else if (t->accuracy >= 0)
        gp_progress_end(&t->progress, "done: %" PRId64 " steps in %.1f s, loss %.4f, accuracy %.4f; model saved in %s",
                        t->step, seconds, t->loss, t->accuracy, folder);
    else
        gp_progress_end(&t->progress, "done: %" PRId64 " steps in %.1f s, loss %.4f; model saved in %s", t->step,
                        seconds, t->loss, folder);
}

static void say_end(gp_trainer *t, gp_status status, bool saved, double seconds) {
    const char *how = status != GP_OK ? "stopped" : "interrupted";
    if (status == GP_OK && !t->interrupted)
        say_done(t, seconds);
    else if (saved)
        gp_progress_end(&t->progress, "%s after %" PRId64 " of %" PRId64 " steps; model saved in %s", how, t->step,
                        t->session->steps, t->options->folder);
    else
        gp_progress_end(&t->progress, "%s after %" PRId64 " of %" PRId64 " steps; no model saved", how, t->step,
                        t->session->steps);
}

gp_status gp_trainer_finish(gp_trainer *t, gp_status status, gp_error *err) {
    double seconds = gp_now() - t->progress.began;
    gp_error later = {0};
    bool saved = false;
    if (t->weights) {
        gp_status saving = save_model(t, status == GP_OK ? err : &later);
        saved = saving == GP_OK;
        if (status == GP_OK) status = saving;
    }
    gp_status traced = gp_tracing_close(&t->tracing, status == GP_OK ? err : &later);
    if (status == GP_OK) status = traced;
    if (t->metrics) {
        const char *how = status != GP_OK ? "failed" : t->interrupted ? "interrupted" : "done";
        gp_status ended = gp_metrics_end(t->metrics, how, t->step, seconds, status == GP_OK ? err : &later);
        if (status == GP_OK) status = ended;
        ended = gp_metrics_close(&t->metrics, status == GP_OK ? err : &later);
        if (status == GP_OK) status = ended;
    }
    say_end(t, status, saved, seconds);
    return status;
}
