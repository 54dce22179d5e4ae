#include "store/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/replace.h"
#include "pipeline/follow.h"

enum { SIGHTS = 50, SIGHT_PAUSE = 100000000 };

#define GP_TOKEN_NAME ".visible-" /* and 16 digits */

static gp_path part_path(const char *folder, int64_t step, int rank, int processes) {
    const gp_path parent = gp_snapshot_folder(folder, step);
    gp_path path;
    snprintf(path.text, sizeof path.text, "%.*s/part-%05d-of-%05d.safetensors", PATH_MAX, parent.text, rank, processes);
    return path;
}

static const char *name_of(const gp_path *path) {
    return strrchr(path->text, '/') + 1;
}

/* ---- one part ---------------------------------------------------------------------------------------------------- */

/* The tensors of a process, while its file is written. Every process goes through all tensors of the run in the same
 * order, so that it sends what it has of those of others. */
typedef struct reading {
    gp_run *run;
    const gp_plan *plan;
    gp_state_layout *layout; /* of all tensors */
    const int *own;          /* indices of those that this process keeps */
    char *buffer;            /* the largest parameter */
    int at;                  /* tensors that are over */
    bool failed;             /* the run has */
} reading;

static gp_status gather(reading *its, int index, gp_error *err) {
    gp_tensor_copy copy = its->layout->copies[index];
    copy.host = its->buffer;
    gp_status status = gp_run_gather(its->run, &copy, 1, gp_run_home(its->plan, copy.param), err);
    its->failed = its->failed || status != GP_OK;
    return status;
}

/* The tensors before `until`. */
static gp_status pass_by(reading *its, int until, gp_error *err) {
    while (its->at < until) GP_RETURN_IF_FAILED(gather(its, its->at++, err));
    return GP_OK;
}

static gp_status get(void *context, size_t index, const void **data, gp_error *err) {
    reading *its = context;
    int wanted = its->own[index];
    GP_RETURN_IF_FAILED(pass_by(its, wanted, err));
    GP_RETURN_IF_FAILED(gather(its, its->at++, err));
    *data = its->buffer;
    return gp_state_check_tensor(its->layout, wanted, its->buffer, err);
}

static gp_status write_file(const gp_path *path, const gp_safetensors_item *items, size_t count, reading *its,
                            const gp_reached *reached, const char *config, gp_error *err) {
    const gp_safetensors_source source = {get, its};
    const char *metadata[] = {"format", "pt", "part", name_of(path), NULL};
    if (reached) return gp_snapshot_write(path->text, items, count, &source, reached, config, err);
    return gp_safetensors_write_summed_from(path->text, items, count, metadata, &source, err);
}

static gp_status write_part(reading *its, int *own, gp_safetensors_item *items, const gp_path *path,
                            const gp_reached *reached, const char *config, gp_error *err) {
    size_t count = 0;
    gp_error ignored = {0};
    for (int i = 0; i < its->layout->count; i++) {
        if (gp_run_home(its->plan, its->layout->copies[i].param) != its->plan->rank) continue;
        items[count] = its->layout->items[i];
        own[count++] = i;
    }
    its->own = own;
    gp_status status = write_file(path, items, count, its, reached, config, err);
    while (its->at < its->layout->count && !its->failed) {
        if (pass_by(its, its->layout->count, status == GP_OK ? err : &ignored) == GP_OK) continue;
        if (status == GP_OK) status = err->status;
    }
    return status;
}

gp_status gp_part_write(gp_run *run, const gp_plan *plan, const char *folder, int64_t step, const gp_reached *reached,
                        const char *config, bool *ran, gp_error *err) {
    const gp_path path = part_path(folder, step, plan->rank, plan->processes);
    gp_state_layout layout;
    gp_safetensors_item *items = NULL;
    int *own = NULL;
    *ran = false;
    GP_RETURN_IF_FAILED(gp_state_layout_init(&layout, plan, err));
    reading its = {.run = run, .plan = plan, .layout = &layout};
    gp_status status = gp_new_array((void **)&its.buffer, 1, gp_run_largest_param(plan), err);
    if (status == GP_OK) status = GP_NEW(&items, layout.count, err);
    if (status == GP_OK) status = GP_NEW(&own, layout.count, err);
    if (status == GP_OK) {
        status = write_part(&its, own, items, &path, reached, config, err);
        *ran = !its.failed;
    }
    free(items);
    free(own);
    free(its.buffer);
    gp_state_layout_fini(&layout);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

gp_status gp_parts_begin(const char *folder, int64_t step, gp_error *err) {
    const gp_path path = gp_snapshot_folder(folder, step);
    gp_snapshot_remove_folder(folder, step); /* one that is incomplete, or is written again */
    if (mkdir(path.text, 0777) == 0) return GP_OK;
    return gp_fail(err, GP_IO, "%s: cannot be made: %s", path.text, strerror(errno));
}

static gp_status no_memory(gp_error *err) {
    return gp_fail(err, GP_MEMORY, "out of memory: the index of a snapshot");
}

/* The checksum that a part says of itself; it is compared with the bytes when the snapshot is read. */
static gp_status add_sum(json_t *sums, const gp_path *path, gp_error *err) {
    gp_safetensors *part = NULL;
    GP_RETURN_IF_FAILED(gp_safetensors_open(path->text, &part, err));
    const char *sum = gp_safetensors_metadata(part, GP_SAFETENSORS_SUM);
    bool added = sum && json_object_set_new(sums, name_of(path), json_string(sum)) == 0;
    gp_safetensors_close(&part);
    return added ? GP_OK : no_memory(err);
}

/* The first file has the snapshot's metadata, with or without tensors. Other files without tensors are not named. */
static gp_status fill_index(json_t *map, json_t *sums, const gp_plan *plan, const char *folder, int64_t step,
                            gp_error *err) {
    gp_state_layout layout;
    gp_status status = gp_state_layout_init(&layout, plan, err);
    if (status != GP_OK) return status;
    const gp_path first = part_path(folder, step, 0, plan->processes);
    status = add_sum(sums, &first, err);
    for (int i = 0; i < layout.count && status == GP_OK; i++) {
        int home = gp_run_home(plan, layout.copies[i].param);
        const gp_path path = part_path(folder, step, home, plan->processes);
        if (json_object_set_new(map, layout.items[i].name, json_string(name_of(&path))) != 0) status = no_memory(err);
        if (status == GP_OK && !json_object_get(sums, name_of(&path))) status = add_sum(sums, &path, err);
    }
    gp_state_layout_fini(&layout);
    return status;
}

gp_status gp_parts_end(const gp_plan *plan, const char *folder, int64_t step, gp_error *err) {
    const gp_path parent = gp_snapshot_folder(folder, step);
    gp_path path;
    snprintf(path.text, sizeof path.text, "%.*s/%s", PATH_MAX, parent.text, GP_SAFETENSORS_INDEX);
    json_t *map = json_object(), *sums = json_object();
    gp_status status = map && sums ? fill_index(map, sums, plan, folder, step, err) : no_memory(err);
    json_t *index =
        json_pack("{s:{s:s, s:O}, s:O}", "metadata", "format", "pt", GP_SAFETENSORS_SUM, sums, "weight_map", map);
    char *text = index ? json_dumps(index, JSON_INDENT(2)) : NULL;
    if (status == GP_OK) status = text ? gp_file_sync(parent.text, err) : no_memory(err);
    if (status == GP_OK) status = gp_file_replace(path.text, text, err);
    if (status == GP_OK) status = gp_file_sync(gp_folder_file(folder, "snapshots").text, err);
    free(text);
    json_decref(index);
    json_decref(map);
    json_decref(sums);
    return status;
}

/* ---- the run folder ---------------------------------------------------------------------------------------------- */

static gp_path token_path(const char *folder, int64_t token) {
    char name[sizeof GP_TOKEN_NAME + 16];
    snprintf(name, sizeof name, GP_TOKEN_NAME "%016" PRIx64, (uint64_t)token);
    return gp_folder_file(folder, name);
}

gp_status gp_parts_show_folder(const char *folder, int64_t *token, gp_error *err) {
    if (getrandom(token, sizeof *token, 0) != (ssize_t)sizeof *token)
        return gp_fail(err, GP_IO, "there are no random numbers: %s", strerror(errno));
    const gp_path path = token_path(folder, *token);
    int file = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return gp_fail(err, GP_IO, "%s: cannot be made: %s", path.text, strerror(errno));
    close(file);
    return GP_OK;
}

void gp_parts_hide_folder(const char *folder, int64_t token) {
    unlink(token_path(folder, token).text);
}

/* A network file system may show a new file some seconds late. */
gp_status gp_parts_check_folder(const char *folder, int64_t token, gp_error *err) {
    const gp_path path = token_path(folder, token);
    const struct timespec pause = {0, SIGHT_PAUSE};
    for (int i = 0; i < SIGHTS; i++) {
        if (access(path.text, F_OK) == 0) return GP_OK;
        nanosleep(&pause, NULL);
    }
    return gp_fail(err, GP_IO, "does not see the run folder %s of process 0", folder);
}

/* Of runs that were killed while they asked. */
void gp_parts_remove_tokens(const char *folder) {
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL) {
        const char *number = entry->d_name + strlen(GP_TOKEN_NAME);
        if (strncmp(entry->d_name, GP_TOKEN_NAME, strlen(GP_TOKEN_NAME)) == 0 && strlen(number) == 16 &&
            strspn(number, "0123456789abcdef") == 16)
            unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries) closedir(entries);
}
