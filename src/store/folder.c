#include "store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/replace.h"
#include "data/safetensors.h"

static const char *const run_files[] = {"metrics.jsonl",    "model.safetensors", "config.yaml",
                                        "best.safetensors", "plan.json",         "snapshots"};
enum { RUN_FILES = sizeof run_files / sizeof *run_files, SNAPSHOTS = RUN_FILES - 1 };

const char *gp_folder_own(int index) {
    return index < RUN_FILES ? run_files[index] : NULL;
}

bool gp_folder_is_own_file(const char *name) {
    for (int i = 0; i < SNAPSHOTS; i++)
        if (strcmp(name, run_files[i]) == 0) return true;
    return false;
}

/* The entry of what was made there; a folder that cannot be read cannot be opened to be synced. */
static gp_status sync_parent(const char *path, gp_error *err) {
    char *parent = NULL;
    GP_RETURN_IF_FAILED(gp_file_folder(path, &parent, err));
    gp_status status = access(parent, R_OK) == 0 ? gp_file_sync(parent, err) : GP_OK;
    free(parent);
    return status;
}

static gp_status make_part(const char *folder, const char *part, gp_error *err) {
    struct stat found;
    if (mkdir(part, 0777) == 0) return sync_parent(part, err);
    if (errno == EEXIST && stat(part, &found) == 0 && S_ISDIR(found.st_mode)) return GP_OK;
    return gp_fail(err, GP_IO, "the run folder %s cannot be made: %s: %s", folder, part,
                   strerror(errno == EEXIST ? ENOTDIR : errno));
}

gp_status gp_folder_make(const char *path, gp_error *err) {
    char *part = NULL;
    GP_RETURN_IF_FAILED(gp_copy_text(&part, path, err));
    gp_status status = GP_OK;
    for (char *at = part + 1; status == GP_OK; at++) {
        char ended = *at;
        if (ended != '/' && ended != '\0') continue;
        *at = '\0';
        status = make_part(path, part, err);
        *at = ended;
        if (ended == '\0') break;
    }
    free(part);
    return status;
}

static gp_status refuse_link(const char *path, gp_error *err) {
    char to[PATH_MAX];
    ssize_t length = readlink(path, to, sizeof to - 1);
    to[length < 0 ? 0 : length] = '\0';
    return gp_fail(
        err, GP_USAGE,
        "%s: is a symbolic link to %s, and a run writes only into its own folder: remove the link, or choose "
        "another folder with -o (the folder itself may be a link)",
        path, to);
}

gp_status gp_folder_check_entry(const char *folder, const char *name, gp_error *err) {
    struct stat about;
    const gp_path path = gp_folder_file(folder, name);
    bool holds = strcmp(name, run_files[SNAPSHOTS]) == 0;
    if (lstat(path.text, &about) != 0) return GP_OK; /* The call that makes it says why it cannot be made. */
    if (S_ISLNK(about.st_mode)) return refuse_link(path.text, err);
    if (holds && !S_ISDIR(about.st_mode))
        return gp_fail(err, GP_USAGE,
                       "%s: is not a folder, and a run keeps its snapshots there: remove it, or choose another folder "
                       "with -o",
                       path.text);
    if (!holds && !S_ISREG(about.st_mode))
        return gp_fail(err, GP_USAGE,
                       "%s: %s, and a run writes a file there: remove it, or choose another folder with -o", path.text,
                       S_ISDIR(about.st_mode) ? "is a folder" : "is not a regular file");
    return GP_OK;
}

gp_status gp_folder_check_own(const char *folder, gp_error *err) {
    for (int i = 0; i < RUN_FILES; i++) GP_RETURN_IF_FAILED(gp_folder_check_entry(folder, run_files[i], err));
    return GP_OK;
}

gp_status gp_folder_check_unused(const char *path, gp_error *err) {
    for (int i = 0; i < RUN_FILES; i++) {
        if (access(gp_folder_file(path, run_files[i]).text, F_OK) == 0)
            return gp_fail(err, GP_USAGE,
                           "%s already holds a run (%s): choose another folder with -o, continue that run with "
                           "--resume, or replace it with --force",
                           path, run_files[i]);
    }
    return GP_OK;
}

/* Whether the file begins with `head`; `partly`: or with as much of it as it has. */
static bool begins_with(const char *path, const char *head, bool partly) {
    enum { LONGEST = 32 };
    char found[LONGEST];
    size_t length = strlen(head);
    FILE *file = fopen(path, "re");
    size_t count = file ? fread(found, 1, length, file) : 0;
    bool begins = file && !ferror(file) && (partly || count == length) && memcmp(found, head, count) == 0;
    if (file) fclose(file);
    return begins;
}

/* As a run writes config.yaml. */
static bool is_config_of_run(const char *path) {
    return begins_with(path, "# gpipe-train ", false);
}

gp_status gp_folder_check_remains(const char *path, gp_error *err) {
    const gp_path config = gp_folder_file(path, "config.yaml"), metrics = gp_folder_file(path, "metrics.jsonl");
    const char *other = NULL;
    for (int i = 0; i < RUN_FILES && !other; i++)
        if (access(gp_folder_file(path, run_files[i]).text, F_OK) == 0) other = run_files[i];
    bool has_metrics = access(metrics.text, F_OK) == 0;
    if (!other) return GP_OK;
    if (is_config_of_run(config.text) && (!has_metrics || begins_with(metrics.text, "{\"event\":", true))) return GP_OK;
    return gp_fail(
        err, GP_USAGE,
        "%s has no snapshot to go on from, and what it holds (%s) was not left by a run: choose another folder "
        "with -o, or replace it with --force",
        path, other);
}

gp_status gp_folder_check_config(const char *path, const char *config, gp_error *err) {
    const gp_path file = gp_folder_file(path, "config.yaml");
    if (!gp_file_is(file.text, config) || is_config_of_run(file.text)) return GP_OK;
    return gp_fail(err, GP_USAGE,
                   "%s: the run would write its config.yaml over the configuration %s: choose another folder with -o",
                   path, config);
}

/* The file descriptor stays open: with the process the kernel closes it, and the lock goes. */
gp_status gp_folder_lock(const char *path, bool *there, gp_error *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *there = fd >= 0;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return GP_OK;
    int why = errno;
    close(fd);
    if (why != EWOULDBLOCK) return GP_OK;
    return gp_fail(err, GP_USAGE,
                   "%s is in use by another gpipe-train: wait until it ends, or choose another folder with -o", path);
}

void gp_folder_hold(const char *path, gp_folder_held *out) {
    out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(out->path.text, sizeof out->path.text, "%s", path);
}

void gp_folder_release(gp_folder_held *held) {
    if (held->fd >= 0) close(held->fd);
    held->fd = -1;
}

/* Certain: what cannot be looked at (no right, a network that fails) may be the folder. */
static bool is_not_at(const gp_folder_held *held, const char *path) {
    struct stat own, found;
    if (fstat(held->fd, &own) != 0) return false;
    if (stat(path, &found) != 0) return errno == ENOENT || errno == ENOTDIR;
    return own.st_dev != found.st_dev || own.st_ino != found.st_ino;
}

gp_status gp_folder_find(gp_folder_held *held, bool *moved, gp_error *err) {
    char link[64];
    gp_path now;
    *moved = false;
    if (held->fd < 0 || !is_not_at(held, held->path.text)) return GP_OK;
    snprintf(link, sizeof link, "/proc/self/fd/%d", held->fd);
    ssize_t length = readlink(link, now.text, sizeof now.text - 1);
    now.text[length < 0 ? 0 : length] = '\0';
    /* Without /proc the write itself fails, unless another folder would take it. */
    if (length <= 0 && access(held->path.text, F_OK) != 0) return GP_OK;
    if (length <= 0 || is_not_at(held, now.text))
        return gp_fail(err, GP_IO, "%s: the run folder was removed while the run went on: nothing more can be saved",
                       held->path.text);
    held->path = now;
    *moved = true;
    return GP_OK;
}

gp_path gp_folder_default(const char *config_path) {
    gp_path path;
    const char *slash = strrchr(config_path, '/');
    const char *name = slash ? slash + 1 : config_path;
    size_t length = strlen(name);
    static const char *const endings[] = {".yaml", ".yml"};
    for (size_t i = 0; i < 2; i++) {
        size_t ending = strlen(endings[i]);
        if (length > ending && strcmp(name + length - ending, endings[i]) == 0) {
            length -= ending;
            break;
        }
    }
    snprintf(path.text, sizeof path.text, "runs/%.*s", (int)length, name);
    return path;
}

gp_path gp_folder_file(const char *folder, const char *name) {
    gp_path path;
    snprintf(path.text, sizeof path.text, "%s/%s", folder, name);
    return path;
}

gp_status gp_folder_model_step(const char *folder, const char *name, int64_t *out, gp_error *err) {
    char *end = NULL;
    gp_safetensors *file = NULL;
    gp_error cause = {0};
    gp_status status = gp_safetensors_open(gp_folder_file(folder, name).text, &file, &cause);
    if (status != GP_OK && status != GP_DATA) {
        if (err) *err = cause;
        return status;
    }
    const char *text = status == GP_OK ? gp_safetensors_metadata(file, "step") : NULL;
    int64_t step = text ? strtoll(text, &end, 10) : -1;
    *out = text && end != text && !*end && step >= 0 ? step : -1;
    gp_safetensors_close(&file);
    return GP_OK;
}

bool gp_folder_ends_within_line(const char *path) {
    struct stat about;
    char last = '\n';
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    bool any = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0;
    if (any && pread(fd, &last, 1, about.st_size - 1) != 1) last = '\n';
    close(fd);
    return last != '\n';
}
