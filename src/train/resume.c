#include "train/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/tree.h"
#include "train/folder.h"
#include "train/metrics.h"

/* What may change between a run and its continuation: the cut, the end, how often something happens, and the threads
 * that read ahead. */
static bool may_change(const char *path) {
    static const char *const free_keys[] = {"pipeline",         "train.epochs", "train.steps", "train.eval_every",
                                            "train.save_every", "train.keep",   "data.threads"};
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++)
        if (strcmp(path, free_keys[i]) == 0) return true;
    static const char layers[] = "model.layers.", checkpoint[] = ".checkpoint";
    size_t length = strlen(path), end = sizeof checkpoint - 1;
    return strncmp(path, layers, sizeof layers - 1) == 0 && length > end &&
           strcmp(path + length - end, checkpoint) == 0;
}

enum { SHOWN = 120 };

/* "is 0.1", "is a list", "is not said". */
static const char *show(char text[SHOWN], const gp_yaml *node) {
    if (!node)
        snprintf(text, SHOWN, "is not said");
    else if (node->kind == GP_YAML_SCALAR)
        snprintf(text, SHOWN, "is %.100s", node->text);
    else
        snprintf(text, SHOWN, "is %s", node->kind == GP_YAML_SEQUENCE ? "a list" : "a mapping");
    return text;
}

static gp_status refuse(const gp_yaml_difference *difference, const char *path, gp_error *err) {
    char now[SHOWN], before[SHOWN];
    return gp_fail(
        err, GP_CONFIG,
        "--resume: %s %s, but in the run of %s it %s; only pipeline, a layer's checkpoint, epochs, steps, keep, "
        "eval_every, save_every and data.threads may change",
        difference->path, show(now, difference->now), path, show(before, difference->before));
}

static gp_status compare_config(const gp_session *session, const gp_snapshot *snapshot, const char *path,
                                gp_error *err) {
    gp_yaml_document *before = NULL;
    gp_yaml_difference difference;
    GP_RETURN_IF_FAILED(gp_yaml_parse(snapshot->config, strlen(snapshot->config), path, &before, err));
    gp_status status = gp_yaml_find_difference(gp_yaml_root(before), gp_yaml_root(session->config->document),
                                               may_change, &difference, err);
    if (status == GP_OK && difference.path) status = refuse(&difference, path, err);
    free(difference.path);
    gp_yaml_destroy(&before);
    return status;
}

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

/* Whether the snapshot of a step can be used: *usable, or its reason among those passed over. */
static gp_status try_snapshot(gp_session *session, const char *folder, int64_t step, gp_resume *resume, bool *usable,
                              gp_error *err) {
    gp_error cause = {0};
    *usable = false;
    free(resume->path);
    resume->path = NULL;
    GP_RETURN_IF_FAILED(gp_snapshot_path(folder, step, &resume->path, err));
    if (gp_snapshot_open(resume->path, &resume->snapshot, &cause) != GP_OK) return pass_over(resume, &cause, err);
    GP_RETURN_IF_FAILED(compare_config(session, &resume->snapshot, resume->path, err));
    gp_status status = gp_snapshot_check(&resume->snapshot, session->plan, &cause);
    if (status == GP_OK && resume->snapshot.reached.step != step)
        status = gp_fail(&cause, GP_DATA, "it is of step %" PRId64, resume->snapshot.reached.step);
    *usable = status == GP_OK;
    if (*usable) return GP_OK;
    gp_snapshot_close(&resume->snapshot);
    gp_error_context(&cause, "%s: ", resume->path);
    return pass_over(resume, &cause, err);
}

static gp_status find_snapshot(gp_session *session, const char *folder, gp_resume *resume, gp_error *err) {
    int64_t *steps = NULL;
    int count = 0;
    bool usable = false;
    GP_RETURN_IF_FAILED(gp_snapshot_list(folder, &steps, &count, err));
    gp_status status = GP_OK;
    if (count == 0)
        status = gp_fail(err, GP_USAGE,
                         "%s has no snapshots to go on from: train.save_every writes them, and so does Ctrl-C", folder);
    for (int i = 0; i < count && !usable && status == GP_OK; i++)
        status = try_snapshot(session, folder, steps[i], resume, &usable, err);
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
    char *metrics = NULL;
    bool evaluated = !session->eval || reached->evaluated == reached->step || reached->step > session->steps;
    GP_RETURN_IF_FAILED(gp_folder_model_step(folder, "model.safetensors", &saved, err));
    GP_RETURN_IF_FAILED(gp_folder_file(folder, "metrics.jsonl", &metrics, err));
    resume->finished =
        reached->step >= session->steps && evaluated && saved == reached->step && !gp_metrics_ends_within_line(metrics);
    free(metrics);
    return GP_OK;
}

gp_status gp_resume_open(gp_session *session, const char *folder, gp_resume *out, gp_error *err) {
    gp_resume resume = {0};
    GP_RETURN_IF_FAILED(gp_config_resolve(session->config, session->layers, session->config->pipeline.stages, err));
    gp_status status = find_snapshot(session, folder, &resume, err);
    if (status == GP_OK) status = find_finished(session, folder, &resume, err);
    if (status != GP_OK)
        gp_resume_close(&resume);
    else
        *out = resume;
    return status;
}

void gp_resume_close(gp_resume *resume) {
    gp_snapshot_close(&resume->snapshot);
    free(resume->path);
    free(resume->passed_over);
    *resume = (gp_resume){0};
}
