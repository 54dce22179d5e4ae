/* After which steps an evaluation or a snapshot follows, and what became of the snapshots. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "settings/rate.h"
#include "train/trainer_internal.h"

bool gp_trainer_evaluates(const gp_trainer *t, int64_t step) {
    if (!t->session->eval) return false;
    if (step == t->session->steps || (t->session->changes > 0 && step == t->session->after)) return true;
    return gp_time_is_due(t->session->config->train.eval_every, t->length, step);
}

double gp_save_interval(const gp_every *every, double pause) {
    enum { MINUTE = 60, TIMES = 100 }; /* about: a hundredth of the time at most */
    double seconds = MINUTE * every->minutes;
    return every->about && TIMES * pause > seconds ? TIMES * pause : seconds;
}

bool gp_trainer_takes_snapshots(const gp_trainer *t) {
    const gp_every *every = &t->session->config->train.save_every;
    bool any = every->time.count > 0 || every->minutes > 0;
    return t->session->steps > 0 && any && !(t->short_of_disk && every->about);
}

bool gp_trainer_saves(const gp_trainer *t, int64_t step) {
    const gp_every *every = &t->session->config->train.save_every;
    if (t->saved == step || step == 0 || !gp_trainer_takes_snapshots(t)) return false;
    if (t->save_due) return true;
    if (every->time.count > 0) return gp_time_is_due(every->time, t->length, step);
    return gp_now() - t->saved_at >= gp_save_interval(every, t->pause);
}

/* Samples of the epoch of the last step that were taken. */
static int64_t taken_samples(const gp_trainer *t) {
    const gp_epochs *epochs = &t->session->epochs;
    if (epochs->count == 0 || t->reached.step == 0) return 0;
    const gp_epoch_place next = gp_epochs_place(epochs, t->reached.step);
    return next.epoch == t->reached.epoch ? next.taken : epochs->samples;
}

/* The evaluation that a change makes by itself is of the new configuration; it follows from the change. */
static bool evaluation_is_missing(const gp_trainer *t) {
    bool changed = t->session->changes > 0 && t->reached.step == t->session->after;
    return !changed && t->reached.evaluated != t->reached.step && gp_trainer_evaluates(t, t->reached.step);
}

gp_status gp_trainer_refuse_state(gp_trainer *t, gp_error *err) {
    const gp_error cause = *err;
    if (cause.status != GP_NUMERIC) return cause.status;
    t->told = true;
    return gp_fail(err, GP_NUMERIC,
                   "after step %" PRId64 ": %s; such values are not saved, and the run stops; a lower learning rate or "
                   "a warm-up may help",
                   t->reached.step, cause.text);
}

/* Whether a copy of the state may be taken. No process holds one of what all have. That of a snapshot at about a
 * time is not planned: where it has no room the run pauses until the file is written. */
static bool has_room(const gp_trainer *t) {
    gp_machine_memory machine;
    if (t->session->plan->processes > 1) return false;
    if (!t->session->config->train.save_every.about) return true;
    gp_machine_memory_read("", &machine);
    return gp_host_memory_has_room(&t->session->host, &machine);
}

gp_status gp_trainer_find_folder(gp_trainer *t, gp_error *err) {
    bool moved;
    GP_RETURN_IF_FAILED(gp_folder_find(&t->folder, &moved, err));
    if (!moved) return GP_OK;
    gp_progress_warn(&t->progress, "the run folder was moved to %s, and the run goes on there", t->folder.path.text);
    if (t->saver) gp_saver_move(t->saver, &t->folder.path);
    return GP_OK;
}

/* `beside`: the run goes on while the file is written. */
static gp_status save(gp_trainer *t, bool beside, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_trainer_find_folder(t, err));
    t->reached.samples = taken_samples(t);
    t->reached.steps = t->session->steps;
    t->reached.due = evaluation_is_missing(t);
    t->reached.file_text = t->session->whole->file_text;
    t->reached.train_samples = t->session->train_samples;
    t->reached.eval_samples = t->session->eval_samples;
    t->reached.descending = gp_sums_descend(t->session->plan);
    t->reached.libraries = t->libraries;
    if (gp_saver_snapshot(t->saver, t->run, &t->reached, beside, err) != GP_OK) return gp_trainer_refuse_state(t, err);
    t->saved = t->reached.step;
    t->saved_at = gp_now();
    t->save_due = false;
    return GP_OK;
}

/* A snapshot that cannot be written is no reason to end a run that could go on to the next. */
static void say_failure(gp_trainer *t, gp_status status, const gp_error *failure) {
    if (status != GP_OK) gp_progress_warn(&t->progress, "no snapshot was written: %s; the run goes on", failure->text);
}

gp_status gp_trainer_save(gp_trainer *t, gp_error *err) {
    gp_error failure = {0};
    double began = gp_now();
    say_failure(t, gp_saver_poll(t->saver, &failure), &failure);
    if (t->under_way.step > 0 || !gp_trainer_saves(t, t->reached.step)) return GP_OK;
    say_failure(t, gp_saver_wait(t->saver, &failure), &failure);
    GP_RETURN_IF_FAILED(save(t, has_room(t), err));
    t->pause = gp_now() - began;
    return GP_OK;
}

gp_status gp_trainer_save_before_best(gp_trainer *t, gp_error *err) {
    gp_error failure = {0};
    int64_t *steps = NULL;
    int count = 0;
    if (!gp_trainer_takes_snapshots(t)) return GP_OK;
    say_failure(t, gp_saver_wait(t->saver, &failure), &failure);
    if (gp_snapshot_list(t->folder.path.text, &steps, &count, NULL) != GP_OK) return GP_OK;
    free(steps);
    if (count > 0) return GP_OK;
    GP_RETURN_IF_FAILED(save(t, false, err));
    say_failure(t, gp_saver_wait(t->saver, &failure), &failure);
    return GP_OK;
}

gp_status gp_trainer_save_now(gp_trainer *t, gp_error *err) {
    gp_error failure = {0};
    gp_status before = gp_saver_wait(t->saver, &failure);
    if (before == GP_OK && t->saved == t->reached.step) return GP_OK;
    if (t->saved != t->reached.step) say_failure(t, before, &failure);
    GP_RETURN_IF_FAILED(save(t, false, err));
    return gp_saver_wait(t->saver, err);
}
