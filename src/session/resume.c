#include "session/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "session/session_internal.h"
#include "store/folder.h"

/* Only what is proven damaged: what passes (no memory, too many open files, no right to read) proves nothing of the
 * file, and going on from an older one would end with the newer one's removal. */
static gp_status pass_over(gp_resume *resume, const gp_error *cause, gp_error *err) {
    char *both = NULL;
    if (cause->status != GP_DATA) {
        if (err) *err = *cause;
        return cause->status;
    }
    GP_RETURN_IF_FAILED(gp_format_text(&both, err, "%s%s%s", resume->passed_over ? resume->passed_over : "",
                                       resume->passed_over ? "; " : "", cause->text));
    free(resume->passed_over);
    resume->passed_over = both;
    return GP_OK;
}

/* Whether --set names the source: "data", "data.train", or a key within it other than its transforms. */
static bool is_named(const gp_config *config, const char *source) {
    size_t whole = strlen(source);
    for (int i = 0; i < config->override_count; i++) {
        const char *path = config->override[i];
        size_t length = strcspn(path, "="), common = length < whole ? length : whole;
        if (strncmp(path, source, common) != 0) continue;
        if (length <= whole && (length == whole || source[length] == '.')) return true;
        if (length > whole && path[whole] == '.' && strncmp(path + whole, ".transform", 10) != 0) return true;
    }
    return false;
}

/* Whether the snapshot of a step can be used: *usable, or its reason among those passed over. */
static gp_status try_snapshot(gp_config **config, const char *folder, int64_t step, gp_resume *resume, bool *usable,
                              gp_error *err) {
    gp_error cause = {0};
    *usable = false;
    resume->path = gp_snapshot_path(folder, step);
    if (gp_snapshot_open(resume->path.text, &resume->snapshot, &cause) != GP_OK) return pass_over(resume, &cause, err);
    gp_status status = GP_OK;
    if (resume->snapshot.reached.step != step)
        status =
            gp_fail(&cause, GP_DATA, "%s: it is of step %" PRId64, resume->path.text, resume->snapshot.reached.step);
    *usable = status == GP_OK;
    resume->names_train = is_named(*config, "data.train");
    resume->names_eval = is_named(*config, "data.eval");
    if (*usable) return gp_resume_merge(config, &resume->snapshot, resume->path.text, &resume->changes, err);
    gp_snapshot_close(&resume->snapshot);
    return pass_over(resume, &cause, err);
}

/* Training that would be lost if a run began there. */
static gp_status refuse_model(const char *folder, const char *name, gp_error *err) {
    const gp_path path = gp_folder_file(folder, name);
    if (access(path.text, F_OK) != 0) return GP_OK;
    char *absolute = realpath(path.text, NULL); /* paths of --set are relative to the configuration's folder */
    gp_fail(err, GP_USAGE,
            "%s has a model (%s) but no snapshot to go on from; to train on from the model, without the optimizer's "
            "state: -o ANOTHER --set train.init=%s; to begin again: --force",
            folder, name, absolute ? absolute : path.text);
    free(absolute);
    return GP_USAGE;
}

gp_status gp_resume_find(const char *folder, bool *found, gp_error *err) {
    int64_t *steps = NULL;
    int count = 0;
    GP_RETURN_IF_FAILED(gp_snapshot_list(folder, &steps, &count, err));
    free(steps);
    *found = count > 0;
    if (*found) return GP_OK;
    GP_RETURN_IF_FAILED(refuse_model(folder, "model.safetensors", err));
    GP_RETURN_IF_FAILED(refuse_model(folder, "best.safetensors", err));
    return gp_folder_check_remains(folder, err);
}

static gp_status find_snapshot(gp_config **config, const char *folder, gp_resume *resume, gp_error *err) {
    int64_t *steps = NULL;
    int count = 0;
    bool usable = false;
    GP_RETURN_IF_FAILED(gp_snapshot_list(folder, &steps, &count, err));
    gp_status status = GP_OK;
    for (int i = 0; i < count && !usable && status == GP_OK; i++)
        status = try_snapshot(config, folder, steps[i], resume, &usable, err);
    free(steps);
    if (status == GP_OK && !usable)
        status = gp_fail(err, GP_DATA, "no snapshot of %s can be used: %s", folder, resume->passed_over);
    return status;
}

/* A model of another step stands there where its own could not be written, or the end has moved; half of the line that
 * says that the run ended, where it was killed meanwhile. */
static gp_status find_finished(const gp_session *session, const char *folder, gp_resume *resume, gp_error *err) {
    const gp_reached *reached = &resume->snapshot.reached;
    int64_t saved = -1;
    bool evaluated = !session->eval || reached->evaluated == reached->step || reached->step > session->steps;
    GP_RETURN_IF_FAILED(gp_folder_model_step(folder, "model.safetensors", &saved, err));
    resume->finished = reached->step >= session->steps && evaluated && saved == reached->step &&
                       !gp_folder_ends_within_line(gp_folder_file(folder, "metrics.jsonl").text);
    return GP_OK;
}

gp_status gp_resume_open(gp_config **config, const char *folder, gp_resume *out, gp_error *err) {
    gp_resume resume = {0};
    gp_status status = find_snapshot(config, folder, &resume, err);
    const gp_reached *reached = &resume.snapshot.reached;
    /* An evaluation that was not made is that of the configuration before a change. */
    resume.step = reached->due && reached->step > 0 ? reached->step : reached->step + 1;
    if (status != GP_OK)
        gp_resume_close(&resume);
    else
        *out = resume;
    return status;
}

/* The order of the samples follows from their number: with another one epochs would skip some, or repeat them. */
static gp_status check_samples(const gp_resume *resume, const gp_source_config *source, const char *key, int64_t before,
                               int64_t now, gp_error *err) {
    if (before < 0 || now == before) return GP_OK;
    return gp_fail_at(err, GP_DATA, source->place,
                      "%s has %" PRId64 " samples, but had %" PRId64
                      " when %s was written; to go on with these data all "
                      "the same, name them again with --set %s.…",
                      key, now, before, resume->path.text, key);
}

static gp_status check_data(const gp_resume *resume, const gp_session *session, gp_error *err) {
    const gp_reached *reached = &resume->snapshot.reached;
    const gp_data_config *data = &session->config->data;
    if (session->train && !resume->names_train)
        GP_RETURN_IF_FAILED(
            check_samples(resume, &data->train, "data.train", reached->train_samples, session->train_samples, err));
    if (!session->eval || resume->names_eval) return GP_OK;
    return check_samples(resume, &data->eval, "data.eval", reached->eval_samples, session->eval_samples, err);
}

/* A schedule's file may have been changed in place. What the configuration changes is checked there (gp_may_change). */
static gp_status check_order(const gp_resume *resume, const gp_session *session, gp_error *err) {
    static const char *const orders[] = {"from the first micro-batch to the last",
                                         "from the last micro-batch to the first"};
    const gp_schedule_config *schedule = &session->config->pipeline.schedule;
    int64_t before = resume->snapshot.reached.descending, now = gp_sums_descend(session->plan);
    if (before < 0 || now < 0 || before == now || schedule->kind != GP_SCHEDULE_FILE) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, schedule->place,
                      "pipeline.schedule: %s adds up gradients %s, but did so %s when %s was written: the order of "
                      "sums cannot change "
                      "within a run",
                      schedule->file, orders[now], orders[before], resume->path.text);
}

gp_status gp_resume_check(gp_resume *resume, const gp_session *session, const char *folder, gp_error *err) {
    int64_t step = resume->snapshot.reached.step;
    bool changed = session->changes != gp_config_changes_until(session->whole, step) || session->after == step;
    if (gp_snapshot_check(&resume->snapshot, session->plan, changed, err) != GP_OK)
        return gp_error_context(err, "%s: ", resume->path.text);
    GP_RETURN_IF_FAILED(check_data(resume, session, err));
    GP_RETURN_IF_FAILED(check_order(resume, session, err));
    return find_finished(session, folder, resume, err);
}

void gp_resume_close(gp_resume *resume) {
    gp_snapshot_close(&resume->snapshot);
    gp_settings_fini(&resume->changes);
    free(resume->passed_over);
    *resume = (gp_resume){0};
}
