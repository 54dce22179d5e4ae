/* The trainer before its first step. */
#include <errno.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/replace.h"
#include "pipeline/follow.h"
#include "report/plan_json.h"
#include "session/inputs.h"
#include "session/loaders.h"
#include "settings/rate.h"
#include "store/disk.h"
#include "store/folder.h"
#include "store/parts.h"
#include "store/weights.h"
#include "train/opening.h"
#include "train/trainer_internal.h"

gp_status gp_trainer_write_plan(gp_trainer *t, gp_error *err) {
    const gp_plan_json json = gp_plan_json_of(t->session);
    GP_RETURN_IF_FAILED(gp_folder_check_entry(t->folder.path.text, "plan.json", err));
    return gp_plan_json_replace(&json, gp_folder_file(t->folder.path.text, "plan.json").text, err);
}

static gp_status open_metrics(gp_trainer *t, gp_error *err) {
    const gp_resume *resume = t->options->resume;
    const gp_path path = gp_folder_file(t->folder.path.text, "metrics.jsonl");
    bool lost = false;
    gp_status status = resume ? gp_metrics_reopen(path.text, resume->snapshot.reached.metrics_bytes, t->reached.step,
                                                  t->progress.began, &t->metrics, &lost, err)
                              : gp_metrics_open(path.text, t->progress.began, &t->metrics, err);
    GP_RETURN_IF_FAILED(status);
    if (lost) gp_progress_warn(&t->progress, "%s lacks lines of steps before the snapshot", path.text);
    status = resume ? gp_metrics_resume(t->metrics, t->session, t->reached.step, &resume->changes, err)
                    : gp_metrics_start(t->metrics, t->session, err);
    t->reached.metrics_bytes = gp_metrics_bytes(t->metrics);
    return status;
}

static bool decides_balance(const char *path) {
    static const char *const keys[] = {"pipeline.devices", "pipeline.schedule", "pipeline.balance"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (gp_paths_meet(path, keys[i])) return true;
    return false;
}

/* A balance of the first configuration, if this one has the same stages. */
static gp_status resolve(gp_trainer *t, gp_error *err) {
    const gp_session *session = t->session;
    const int64_t *balance = session->whole->pipeline.balance == GP_BALANCE_LAYERS ? NULL : session->layers;
    for (int c = 0; c < session->changes; c++)
        for (int i = 0; i < session->whole->changes[c].settings.count; i++)
            if (decides_balance(session->whole->changes[c].settings.item[i].path)) balance = NULL;
    return gp_config_resolve(session->whole, balance, session->whole->pipeline.stages, err);
}

static gp_status start_saver(gp_trainer *t, gp_error *err) {
    char *text = NULL;
    GP_RETURN_IF_FAILED(resolve(t, err));
    GP_RETURN_IF_FAILED(gp_config_text(t->session->whole, &text, err));
    gp_status status =
        gp_saver_create(t->session->plan, t->folder.path.text, text, t->session->config->train.keep, &t->saver, err);
    if (status == GP_OK) gp_saver_share(t->saver, t->shared);
    free(text);
    t->saved_at = gp_now();
    return status;
}

/* The model that this run begins with stays until the new model replaces it. */
static gp_status remove_file(const gp_trainer *t, const char *path, gp_error *err) {
    const char *init = t->session->config->train.init;
    if (!(init && gp_file_is(path, init)) && unlink(path) != 0 && errno != ENOENT)
        return gp_fail(err, GP_IO, "%s: cannot be removed: %s", path, strerror(errno));
    return GP_OK;
}

/* Whether a file is one of a folder's. */
static bool lies_in(const char *file, const char *folder) {
    char *its = NULL;
    bool same = gp_file_folder(file, &its, NULL) == GP_OK && gp_file_is(its, folder);
    free(its);
    return same;
}

static gp_status remove_snapshot(const gp_trainer *t, int64_t step, gp_error *err) {
    const char *folder = t->folder.path.text, *init = t->session->config->train.init;
    const gp_path path = gp_snapshot_folder(folder, step);
    if (!(init && (gp_file_is(path.text, init) || lies_in(init, path.text)))) gp_snapshot_remove_folder(folder, step);
    return remove_file(t, gp_snapshot_file(folder, step).text, err);
}

static gp_status remove_snapshots(const gp_trainer *t, gp_error *err) {
    int64_t *steps = NULL;
    int count = 0;
    GP_RETURN_IF_FAILED(gp_snapshot_list(t->folder.path.text, &steps, &count, err));
    gp_status status = GP_OK;
    for (int i = 0; i < count && status == GP_OK; i++) status = remove_snapshot(t, steps[i], err);
    free(steps);
    return status;
}

static gp_status remove_own(const gp_trainer *t, const char *name, gp_error *err) {
    return remove_file(t, gp_folder_file(t->folder.path.text, name).text, err);
}

/* Where --force writes over a run, its models go before a configuration stands there that is not theirs. */
static gp_status remove_old_run(const gp_trainer *t, gp_error *err) {
    GP_RETURN_IF_FAILED(remove_own(t, "model.safetensors", err));
    GP_RETURN_IF_FAILED(remove_own(t, "best.safetensors", err));
    return remove_snapshots(t, err);
}

static bool is_input(const void *config, const char *path) {
    return gp_inputs_has(config, path);
}

/* A user may have given the temporary file of a killed run as weights or data: such a file stays. */
static void remove_stale(const gp_trainer *t) {
    const gp_file_use use = {is_input, t->session->config};
    gp_file_remove_stale(t->folder.path.text, gp_folder_is_own_file, &use);
    gp_file_remove_stale(gp_folder_file(t->folder.path.text, "snapshots").text, gp_snapshot_is_name, &use);
    gp_snapshot_remove_incomplete(t->folder.path.text);
    gp_parts_remove_tokens(t->folder.path.text);
}

static bool saves_by_time(const gp_every *every) {
    return every->time.count > 0 || every->minutes > 0;
}

/* Snapshots that later configurations write: one before each change; INT64_MAX: more, if they save by time. Raises
 * *keep to the most that one of them keeps. *asked: one of them does not say `about`. */
static int64_t count_later_snapshots(const gp_session *session, int64_t *keep, bool *asked) {
    const gp_config *whole = session->whole;
    int64_t count = whole->change_count - session->changes;
    for (int c = session->changes; c < whole->change_count; c++) {
        const gp_train_config *train = &whole->changes[c].config->train;
        if (train->keep > *keep) *keep = train->keep;
        if (saves_by_time(&train->save_every)) count = INT64_MAX;
        *asked = *asked || !train->save_every.about;
    }
    return count;
}

/* Snapshots that the run and those before it would leave, if no change came and none were removed: one beside the first
 * best model, too. A run that takes none writes one when it is interrupted. */
static int64_t count_snapshots(const gp_trainer *t) {
    const gp_every *every = &t->session->config->train.save_every;
    const gp_resume *resume = t->options->resume;
    int64_t steps = t->session->steps, done = resume ? resume->snapshot.reached.step : 0;
    int64_t period = gp_time_steps(every->time, t->length.epoch_steps), *stand = NULL;
    int before = 0;
    if (steps > 0 && every->minutes > 0) return INT64_MAX;
    if (resume && gp_snapshot_list(t->folder.path.text, &stand, &before, NULL) == GP_OK) free(stand);
    if (steps == 0 || period == 0) return before + (steps > 0);
    return before + (t->session->eval != NULL) + steps / period - done / period + (steps % period != 0);
}

/* Before the first step, rather than when hours of training are to be saved. Snapshots at about a time refuse no run.
 */
static gp_status check_disk(gp_trainer *t, gp_error *err) {
    const gp_train_config *config = &t->session->config->train;
    const gp_saver_sizes sizes = gp_saver_file_sizes(t->saver);
    const gp_plan_json json = gp_plan_json_of(t->session);
    uint64_t plan = 0;
    GP_RETURN_IF_FAILED(gp_plan_json_bytes(&json, &plan, err));
    bool asked = !config->save_every.about;
    int64_t keep = config->keep, later = count_later_snapshots(t->session, &keep, &asked);
    int64_t snapshots = count_snapshots(t);
    gp_disk_use use = {.model = sizes.model,
                       .snapshot = sizes.snapshot,
                       .config = sizes.config,
                       .plan = plan,
                       .best = t->session->eval != NULL,
                       .keep = keep,
                       .snapshots = later > INT64_MAX - snapshots ? INT64_MAX : snapshots + later,
                       .saves_by_time = saves_by_time(&config->save_every) && asked};
    const char *folder = t->folder.path.text;
    uint64_t room = gp_disk_free(folder), held = gp_disk_held(folder, config->init);
    if (asked) return gp_disk_check(&use, folder, room, held, err);
    gp_error failure = {0};
    t->short_of_disk = gp_disk_check(&use, folder, room, held, &failure) != GP_OK;
    use.snapshots = 0;
    GP_RETURN_IF_FAILED(gp_disk_check(&use, folder, room, held, err));
    if (t->short_of_disk)
        gp_progress_warn(&t->progress, "%s; the run takes no snapshots, unless it is interrupted", failure.text);
    return GP_OK;
}

static gp_status begin(gp_trainer *t, gp_error *err) {
    const gp_train_config *config = &t->session->config->train;
    if (config->init)
        GP_RETURN_IF_FAILED(gp_weights_load(t->run, t->session->plan, config, err));
    else
        GP_RETURN_IF_FAILED(gp_weights_initialise(t->run, t->session->plan, config->seed, err));
    t->weights = true;
    return remove_old_run(t, err);
}

/* A run that was killed may have written the best model of an evaluation behind its snapshot. Where the run comes by
 * there again it writes that file again, the same; so what is wrong is said at its end, and a better model of a later
 * step stays until then. Where it was killed between a snapshot and the best model of the same step, that is written
 * now. */
static gp_status check_best(gp_trainer *t, gp_error *err) {
    int64_t step = -1;
    gp_error failure = {0};
    GP_RETURN_IF_FAILED(gp_folder_model_step(t->folder.path.text, "best.safetensors", &step, err));
    t->best_differs = step != t->reached.best_step;
    if (!t->best_differs || t->reached.best_step < 0 || t->reached.best_step != t->reached.step) return GP_OK;
    if (step > t->reached.step) return GP_OK;
    gp_status status = gp_trainer_save_best(t, &failure);
    t->best_differs = status != GP_OK;
    if (status == GP_OK || status == GP_IO) return GP_OK;
    *err = failure;
    return status;
}

/* written: NULL: an older snapshot, which does not say it. */
static void compare_libraries(gp_trainer *t, const char *written) {
    static const char sums[] = "sums may differ in their last digits from those of a run that was not interrupted";
    if (!written)
        gp_progress_warn(&t->progress,
                         "the snapshot is from an older version, which may have computed in another way: %s", sums);
    else if (strcmp(written, t->libraries) != 0)
        gp_progress_warn(&t->progress, "the snapshot was written with %s, and the run goes on with %s: %s", written,
                         t->libraries, sums);
}

static gp_status go_on(gp_trainer *t, const gp_resume *resume, gp_error *err) {
    const gp_reached *reached = &resume->snapshot.reached;
    GP_RETURN_IF_FAILED(gp_snapshot_load(&resume->snapshot, t->run, t->session->plan, err));
    t->weights = true;
    gp_saver_tidy(t->saver, reached->step);
    t->reached = *reached;
    t->saved = reached->step;
    if (resume->passed_over) gp_progress_warn(&t->progress, "not used: %s", resume->passed_over);
    compare_libraries(t, reached->libraries);
    gp_progress_resume(&t->progress, t->reached.step, resume->path.text);
    for (int i = 0; i < resume->changes.count; i++)
        gp_progress_line(&t->progress, "from step %" PRId64 " on: %s is %s", t->reached.step + 1,
                         resume->changes.item[i].path, resume->changes.item[i].value);
    return GP_OK;
}

/* A value that --set named stays in force: the snapshot that the run goes on from gets it before the first step.
 * Without it, a run that ends before its next snapshot would go on with the old value. The tensors stay those of the
 * old configuration, since the change may be taken back. A snapshot of version 1 stays as it is. */
static void keep_changes(gp_trainer *t, const gp_resume *resume) {
    gp_reached reached = resume->snapshot.reached;
    gp_error failure = {0};
    if (resume->changes.count == 0 || !reached.file_text) return;
    reached.metrics_bytes = t->reached.metrics_bytes;
    reached.file_text = t->session->whole->file_text;
    if (gp_saver_rewrite(t->saver, resume->snapshot.file, &reached, &failure) != GP_OK)
        gp_progress_warn(&t->progress, "no snapshot has the changed keys yet: %s; the run goes on", failure.text);
}

/* All buffers of the configuration, so that no evaluation finds the memory gone. */
static gp_status create_loaders(gp_trainer *t, int64_t step, gp_error *err) {
    gp_session *session = t->session;
    const gp_trace_options *trace = &t->options->trace;
    if (session->steps > 0) {
        const gp_loader_options options = gp_loaders_training(session, step, trace);
        GP_RETURN_IF_FAILED(gp_loader_create(session->train, &session->spec, &options, &t->training, err));
    }
    if (session->eval) {
        const gp_loader_options options = gp_loaders_evaluation(session, trace);
        GP_RETURN_IF_FAILED(gp_loader_create(session->eval, &session->spec, &options, &t->evaluation, err));
    }
    gp_tracing_loaders(t->tracing, t->training, t->evaluation);
    return GP_OK;
}

/* The old plan goes first: a run that is killed between the two files leaves no plan of another configuration. */
static gp_status write_config_and_plan(gp_trainer *t, gp_error *err) {
    GP_RETURN_IF_FAILED(remove_own(t, "plan.json", err));
    GP_RETURN_IF_FAILED(
        gp_config_write(t->session->whole, gp_folder_file(t->folder.path.text, "config.yaml").text, err));
    return gp_trainer_write_plan(t, err);
}

gp_status gp_trainer_open(gp_trainer *t, gp_error *err) {
    const gp_resume *resume = t->options->resume;
    bool begins = !t->saver;
    gp_session *session = t->session;
    t->length = gp_session_length(session);
    gp_device_libraries(session->plan->devices, session->plan->workers, t->libraries);
    t->progress.steps = session->steps;
    if (session->steps > 0) GP_RETURN_IF_FAILED(gp_account_open(session, &t->account, err));
    if (begins) GP_RETURN_IF_FAILED(start_saver(t, err));
    GP_RETURN_IF_FAILED(begins ? gp_opening_send(t, err) : gp_phase_send(t, err));
    GP_RETURN_IF_FAILED(gp_train_lookout_share(&t->lookout, t->options->processes, session, err));
    gp_wire *wire = t->options->processes ? gp_processes_wire(t->options->processes) : NULL;
    GP_RETURN_IF_FAILED(gp_run_create_team(session->plan, t->options->hooks, wire, &t->run, err));
    if (wire) gp_processes_watch(t->options->processes, gp_run_cancel(t->run));
    gp_run_note(t->run, t->options->verbosity == GP_VERBOSE);
    GP_RETURN_IF_FAILED(
        gp_train_lookout_begin(&t->lookout, t->run, session->plan, session->config->pipeline.timeout, err));
    if (begins) return create_loaders(t, resume ? resume->snapshot.reached.step : 0, err);
    GP_RETURN_IF_FAILED(gp_trainer_give_state(t, err));
    gp_saver_destroy(&t->saver);
    GP_RETURN_IF_FAILED(start_saver(t, err));
    GP_RETURN_IF_FAILED(gp_saver_reserve(t->saver, err));
    return create_loaders(t, t->reached.step, err);
}

/* Where other processes do not see the run folder, process 0 writes the snapshots alone. */
static gp_status ask_for_folder(gp_trainer *t, gp_error *err) {
    gp_error failure = {0};
    int64_t token;
    if (!t->options->processes) return GP_OK;
    GP_RETURN_IF_FAILED(gp_parts_show_folder(t->folder.path.text, &token, err));
    gp_status status = gp_run_ask(t->run, GP_ASK_SEES, token, err);
    if (status == GP_OK) status = gp_run_answers(t->run, &failure, err);
    gp_parts_hide_folder(t->folder.path.text, token);
    GP_RETURN_IF_FAILED(status);
    t->shared = failure.status == GP_OK;
    gp_saver_share(t->saver, t->shared);
    if (!t->shared)
        gp_progress_warn(&t->progress, "%s; process 0 writes all snapshots, and they take longer", failure.text);
    return GP_OK;
}

gp_status gp_trainer_start(gp_trainer *t, gp_error *err) {
    t->capture.asked = t->options->capture;
    GP_RETURN_IF_FAILED(gp_tracing_open(&t->options->trace, t->session, &t->tracing, err));
    GP_RETURN_IF_FAILED(gp_trainer_open(t, err));
    remove_stale(t);
    GP_RETURN_IF_FAILED(check_disk(t, err));
    GP_RETURN_IF_FAILED(t->options->resume ? go_on(t, t->options->resume, err) : begin(t, err));
    GP_RETURN_IF_FAILED(gp_saver_reserve(t->saver, err)); /* now that the buffer for loading is free */
    if (t->options->resume) GP_RETURN_IF_FAILED(check_best(t, err));
    if (t->session->plan->pin && t->options->processes)
        gp_progress_warn(&t->progress, "pipeline.pin has no effect with several processes: the launcher pins them "
                                       "(mpirun --bind-to core), or not");
    else if (t->session->plan->pin && !gp_run_is_pinned(t->run))
        gp_progress_warn(&t->progress,
                         "pipeline.pin: this process may not use a processor for each of its %d threads "
                         "(affinity mask, or CPU quota of its control group), so they are not pinned",
                         gp_plan_threads(t->session->plan));
    GP_RETURN_IF_FAILED(write_config_and_plan(t, err));
    GP_RETURN_IF_FAILED(ask_for_folder(t, err));
    GP_RETURN_IF_FAILED(open_metrics(t, err));
    if (!t->options->resume) return GP_OK;
    keep_changes(t, t->options->resume);
    gp_safetensors_release(t->options->resume->snapshot.file); /* it may be removed while the run goes on */
    return GP_OK;
}
