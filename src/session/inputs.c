#include "session/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/replace.h"
#include "store/folder.h"
#include "store/snapshot.h"

enum { INIT = 8 /* the input that is train.init */, INPUTS, MOST_TEXT = 512 /* bytes */ };

typedef struct input {
    const char *path;    /* NULL: the configuration names none */
    const char *keys[2]; /* where it names it; the first that is there */
    gp_place place;      /* if neither is there */
} input;

static input input_of(const gp_config *config, int index) {
    const gp_source_config *train = &config->data.train, *eval = &config->data.eval;
    const gp_schedule_config *schedule = &config->pipeline.schedule;
    const input all[INPUTS] = {
        {config->path, {NULL}, {0}},
        {train->file, {"data.train.tensors.file", "data.train.tensors"}, train->place},
        {train->images, {"data.train.idx.images"}, train->place},
        {train->labels, {"data.train.idx.labels"}, train->place},
        {eval->file, {"data.eval.tensors.file", "data.eval.tensors"}, eval->place},
        {eval->images, {"data.eval.idx.images"}, eval->place},
        {eval->labels, {"data.eval.idx.labels"}, eval->place},
        {schedule->file, {"pipeline.schedule.file"}, schedule->place},
        [INIT] = {config->train.init, {"train.init.file", "train.init"}, config->train.init_place},
    };
    return all[index];
}

static void write_place(const gp_config *config, const char *const keys[2], gp_place place, char text[MOST_TEXT]) {
    const gp_yaml *node = NULL;
    const char *key = keys[0];
    for (int k = 0; k < 2 && keys[k] && !node; k++) {
        key = keys[k];
        node = gp_yaml_find(config->document, key);
    }
    if (node) place = node->place;
    if (place.line > 0)
        snprintf(text, MOST_TEXT, "the file of %s (%s:%d:%d)", key, place.path, place.line, place.column);
    else
        snprintf(text, MOST_TEXT, "the file of %s (%s)", key, place.path ? place.path : config->path);
}

/* Whether the path leads to one of the inputs from `first` to `last`; which one it is, as messages say it. */
static bool find_input(const gp_config *config, const char *path, int first, int last, char text[MOST_TEXT]) {
    for (int i = first; i <= last; i++) {
        const input its = input_of(config, i);
        if (!its.path || !gp_file_is(path, its.path)) continue;
        if (its.keys[0])
            write_place(config, its.keys, its.place, text);
        else
            snprintf(text, MOST_TEXT, "the configuration");
        return true;
    }
    return false;
}

/* "output" or "error" if that stream goes to the file of this path; NULL: neither does. */
static const char *find_stream(const char *path) {
    struct stat its, stream;
    if (stat(path, &its) != 0 || !S_ISREG(its.st_mode)) return NULL;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &stream) == 0 && its.st_dev == stream.st_dev && its.st_ino == stream.st_ino)
            return fd == STDOUT_FILENO ? "output" : "error";
    return NULL;
}

bool gp_inputs_has(const gp_config *config, const char *path) {
    char text[MOST_TEXT];
    return find_input(config, path, 0, INIT, text);
}

gp_status gp_inputs_check_output(const gp_config *config, const char *option, const char *path, gp_error *err) {
    char text[MOST_TEXT];
    if (!path) return GP_OK;
    if (find_input(config, path, 0, INIT, text))
        return gp_fail(err, GP_USAGE, "%s %s: would write over %s: choose another name", option, path, text);
    const char *stream = find_stream(path);
    if (!stream) return GP_OK;
    return gp_fail(err, GP_USAGE, "%s %s: is the file that standard %s goes to: choose another name", option, path,
                   stream);
}

/* Whether `own` holds the weights that the run begins with, and loses them before the new model is whole. */
static bool loses_init(const gp_config *config, const char *own, char text[MOST_TEXT]) {
    bool is_model = strcmp(strrchr(own, '/'), "/model.safetensors") == 0;
    return !is_model && access(own, F_OK) == 0 && find_input(config, own, INIT, INIT, text);
}

/* One file that a run writes or removes. */
static gp_status check_own(const gp_config *config, const char *folder, const char *own, const char *trace,
                           gp_error *err) {
    char text[MOST_TEXT];
    bool is_config = gp_file_is(own, config->path) && strcmp(strrchr(own, '/'), "/config.yaml") == 0;
    gp_status status = GP_OK;
    if ((!is_config && find_input(config, own, 0, INIT - 1, text)) || loses_init(config, own, text))
        status = gp_fail(err, GP_USAGE,
                         "-o %s: the run would remove or write over %s, which is %s: choose another folder with -o",
                         folder, own, text);
    else if (trace && gp_file_is(trace, own))
        status = gp_fail(err, GP_USAGE, "--trace %s: is %s, which the run writes: choose another name", trace, own);
    return status;
}

static gp_status check_snapshots(const gp_config *config, const char *folder, const char *trace, gp_error *err) {
    int64_t *steps = NULL;
    int count = 0;
    const char *slash = trace ? strrchr(trace, '/') : NULL, *name = slash ? slash + 1 : trace;
    GP_RETURN_IF_FAILED(gp_snapshot_list(folder, &steps, &count, err));
    gp_status status = GP_OK;
    for (int i = 0; i < count && status == GP_OK; i++)
        status = check_own(config, folder, gp_snapshot_path(folder, steps[i]).text, trace, err);
    free(steps);
    /* A snapshot that is not there yet. */
    if (status != GP_OK || !name || !gp_snapshot_is_name(name)) return status;
    const gp_path snapshots = gp_folder_file(folder, "snapshots");
    return check_own(config, folder, gp_folder_file(snapshots.text, name).text, trace, err);
}

gp_status gp_inputs_check_folder(const gp_config *config, const char *folder, const char *trace, gp_error *err) {
    for (int i = 0; gp_folder_own(i); i++)
        GP_RETURN_IF_FAILED(check_own(config, folder, gp_folder_file(folder, gp_folder_own(i)).text, trace, err));
    return check_snapshots(config, folder, trace, err);
}
