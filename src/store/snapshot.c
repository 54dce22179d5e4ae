#include "store/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/finite.h"
#include "base/memory.h"
#include "pipeline/follow.h"
#include "store/params.h"

static const char version[] = "2", older_version[] = "1";
static const char prefix[] = "optimizer/";
static const char file_start[] = "step-", file_end[] = ".safetensors";
enum { NUMBER_TEXT = 32, STEP_DIGITS = 8 };

/* PyTorch's names, by how many states there are. */
static const char *const state_names[GP_UPDATE_MAX_STATES + 1][GP_UPDATE_MAX_STATES] = {
    {NULL}, {"momentum_buffer"}, {"exp_avg", "exp_avg_sq"}};

static const gp_param_plan *find_param(const gp_plan *plan, int param) {
    return gp_stage_plan_param(&plan->stage[plan->stages->stage_of_node[plan->graph->params[param].node]], param);
}

static int states_of(const gp_plan *plan, int param) {
    return find_param(plan, param)->trained ? plan->update.states : 0;
}

static size_t place_bytes(const gp_plan *plan, int param) {
    return gp_align_up(find_param(plan, param)->bytes, GP_ALIGNMENT);
}

static size_t bytes_with_states(const gp_plan *plan, int param) {
    return gp_size_times(place_bytes(plan, param), 1 + (size_t)states_of(plan, param));
}

size_t gp_state_bytes(const gp_plan *plan) {
    size_t sum = 0;
    for (int p = 0; p < plan->graph->param_count; p++) sum = gp_size_plus(sum, bytes_with_states(plan, p));
    return sum;
}

size_t gp_state_own_bytes(const gp_plan *plan) {
    size_t sum = 0;
    for (int p = 0; p < plan->graph->param_count; p++)
        if (gp_run_home(plan, p) == plan->rank) sum = gp_size_plus(sum, bytes_with_states(plan, p));
    return sum;
}

static gp_status add_tensor(gp_state_layout *layout, int param, int state, gp_error *err) {
    const gp_plan *plan = layout->plan;
    const gp_param *its = &plan->graph->params[param];
    gp_safetensors_item *item = &layout->items[layout->count];
    char *name = NULL;
    if (state < 0)
        GP_RETURN_IF_FAILED(gp_copy_text(&name, its->name, err));
    else
        GP_RETURN_IF_FAILED(
            gp_format_text(&name, err, "%s%s/%s", prefix, its->name, state_names[plan->update.states][state]));
    *item = (gp_safetensors_item){.name = name, .dtype = plan->types.master, .rank = its->spec.shape.rank};
    for (int d = 0; d < item->rank; d++) item->dim[d] = its->spec.shape.dim[d];
    layout->copies[layout->count++] = (gp_tensor_copy){.param = param, .state = state};
    return GP_OK;
}

static gp_status add_tensors(gp_state_layout *layout, gp_error *err) {
    int params = layout->plan->graph->param_count, most = params * (1 + layout->plan->update.states);
    if (layout->bytes == SIZE_MAX) return gp_fail(err, GP_MEMORY, "the state has no size");
    GP_RETURN_IF_FAILED(GP_NEW(&layout->items, most, err));
    GP_RETURN_IF_FAILED(GP_NEW(&layout->copies, most, err));
    for (int p = 0; p < params; p++) GP_RETURN_IF_FAILED(add_tensor(layout, p, -1, err));
    layout->params = params;
    for (int p = 0; p < params; p++)
        for (int s = 0; s < states_of(layout->plan, p); s++) GP_RETURN_IF_FAILED(add_tensor(layout, p, s, err));
    return GP_OK;
}

int64_t gp_sums_descend(const gp_plan *plan) {
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].training && plan->minis[m].pieces > 1) return plan->minis[m].programs->descending;
    return -1;
}

gp_status gp_state_layout_init(gp_state_layout *layout, const gp_plan *plan, gp_error *err) {
    *layout = (gp_state_layout){.plan = plan, .bytes = gp_state_bytes(plan)};
    gp_status status = add_tensors(layout, err);
    if (status != GP_OK) gp_state_layout_fini(layout);
    return status;
}

void gp_state_layout_fini(gp_state_layout *layout) {
    for (int i = 0; i < layout->count; i++) free((char *)layout->items[i].name);
    free(layout->items);
    free(layout->copies);
    *layout = (gp_state_layout){0};
}

void gp_state_layout_place(gp_state_layout *layout, char *block) {
    for (int i = 0; i < layout->count; i++) {
        layout->items[i].data = layout->copies[i].host = block;
        block += place_bytes(layout->plan, layout->copies[i].param);
    }
}

void gp_state_layout_place_own(gp_state_layout *layout, char *block) {
    for (int i = 0; i < layout->count; i++) {
        if (gp_run_home(layout->plan, layout->copies[i].param) != layout->plan->rank) continue;
        layout->items[i].data = layout->copies[i].host = block;
        block += place_bytes(layout->plan, layout->copies[i].param);
    }
}

/* linear "a": weight; linear "a": exp_avg_sq of weight */
static gp_status refuse_values(const gp_state_layout *layout, const gp_tensor_copy *tensor, const char *values,
                               gp_error *err) {
    const gp_param *param = &layout->plan->graph->params[tensor->param];
    const gp_node *node = &layout->plan->graph->nodes[param->node];
    const char *state = tensor->state < 0 ? "" : state_names[layout->plan->update.states][tensor->state];
    return gp_fail(err, GP_NUMERIC, "%s \"%.200s\": %s%s%s is not finite: %s", node->layer->type->name, node->name,
                   state, *state ? " of " : "", param->spec.suffix, values);
}

gp_status gp_state_check_tensor(const gp_state_layout *layout, int index, const void *values, gp_error *err) {
    const gp_tensor_copy *tensor = &layout->copies[index];
    gp_dtype dtype = layout->plan->types.master;
    char text[GP_NONFINITE_TEXT];
    int64_t elements = (int64_t)(find_param(layout->plan, tensor->param)->bytes / gp_dtype_size(dtype));
    gp_nonfinite found = gp_nonfinite_find(dtype, values, elements);
    if (found.count == 0) return GP_OK;
    return refuse_values(layout, tensor, gp_nonfinite_text(text, found, elements), err);
}

gp_status gp_state_check_finite(const gp_state_layout *layout, int count, gp_error *err) {
    for (int i = 0; i < count; i++) GP_RETURN_IF_FAILED(gp_state_check_tensor(layout, i, layout->copies[i].host, err));
    return GP_OK;
}

int gp_is_optimizer_tensor(const char *name) {
    return strncmp(name, prefix, sizeof prefix - 1) == 0;
}

static gp_path named(const char *folder, int64_t step, const char *end) {
    gp_path path;
    snprintf(path.text, sizeof path.text, "%s/snapshots/%s%0*" PRId64 "%s", folder, file_start, STEP_DIGITS, step, end);
    return path;
}

gp_path gp_snapshot_file(const char *folder, int64_t step) {
    return named(folder, step, file_end);
}

gp_path gp_snapshot_folder(const char *folder, int64_t step) {
    return named(folder, step, "");
}

/* Whether the snapshot of several processes is whole. */
static bool has_index(const char *folder, int64_t step) {
    return access(named(folder, step, "/" GP_SAFETENSORS_INDEX).text, F_OK) == 0;
}

gp_path gp_snapshot_path(const char *folder, int64_t step) {
    const gp_path file = gp_snapshot_file(folder, step);
    return access(file.text, F_OK) != 0 && has_index(folder, step) ? gp_snapshot_folder(folder, step) : file;
}

/* The step in the name of a file, or of a folder; −1 where it is no snapshot's. */
static int64_t step_named(const char *name, const char *end) {
    if (strncmp(name, file_start, sizeof file_start - 1) != 0) return -1;
    const char *digits = name + sizeof file_start - 1;
    size_t length = strspn(digits, "0123456789");
    if (length < STEP_DIGITS || length > 18 || strcmp(digits + length, end) != 0) return -1;
    if (length > STEP_DIGITS && *digits == '0') return -1;
    return strtoll(digits, NULL, 10);
}

static int64_t step_of(const char *name) {
    return step_named(name, file_end);
}

bool gp_snapshot_is_name(const char *name) {
    return step_of(name) >= 0;
}

static const char *skip_digits(const char *text, size_t least) {
    size_t count = strspn(text, "0123456789");
    return count >= least ? text + count : NULL;
}

/* part-00000-of-00002.safetensors, and the index; or a temporary file of one of them (base/replace.h). */
static bool is_part_name(const char *name) {
    static const char index[] = GP_SAFETENSORS_INDEX, part[] = "part-", of[] = "-of-", temporary[] = ".tmp-";
    const char *rest = name;
    if (strncmp(name, index, sizeof index - 1) == 0) {
        rest += sizeof index - 1;
    } else {
        if (strncmp(rest, part, sizeof part - 1) != 0 || !(rest = skip_digits(rest + sizeof part - 1, 5))) return false;
        if (strncmp(rest, of, sizeof of - 1) != 0 || !(rest = skip_digits(rest + sizeof of - 1, 5))) return false;
        if (strncmp(rest, file_end, sizeof file_end - 1) != 0) return false;
        rest += sizeof file_end - 1;
    }
    if (*rest == '\0') return true;
    if (strncmp(rest, temporary, sizeof temporary - 1) != 0 || !(rest = skip_digits(rest + sizeof temporary - 1, 1)))
        return false;
    return *rest == '-' && (rest = skip_digits(rest + 1, 1)) && *rest == '\0';
}

static bool is_link(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

/* Only regular files that a run writes there; never through a link. */
void gp_snapshot_remove_folder(const char *folder, int64_t step) {
    const gp_path path = gp_snapshot_folder(folder, step);
    if (is_link(path.text)) {
        unlink(path.text);
        return;
    }
    int within = open(path.text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (within < 0) return;
    unlinkat(within, GP_SAFETENSORS_INDEX, 0);
    DIR *entries = fdopendir(within);
    const struct dirent *entry;
    struct stat about;
    while (entries && (entry = readdir(entries)) != NULL)
        if (is_part_name(entry->d_name) && fstatat(within, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(about.st_mode))
            unlinkat(within, entry->d_name, 0);
    if (entries)
        closedir(entries);
    else
        close(within);
    rmdir(path.text);
}

void gp_snapshot_remove(const char *folder, int64_t step) {
    unlink(gp_snapshot_file(folder, step).text);
    gp_snapshot_remove_folder(folder, step);
}

void gp_snapshot_remove_incomplete(const char *folder) {
    DIR *entries = opendir(gp_folder_file(folder, "snapshots").text);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL) {
        int64_t step = step_named(entry->d_name, "");
        bool incomplete = step >= 0 && !has_index(folder, step);
        if (incomplete && !is_link(gp_snapshot_folder(folder, step).text)) gp_snapshot_remove_folder(folder, step);
    }
    if (entries) closedir(entries);
}

static int newest_first(const void *a, const void *b) {
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return first < second ? 1 : first > second ? -1 : 0;
}

gp_status gp_snapshot_list(const char *folder, int64_t **steps, int *count, gp_error *err) {
    const gp_path path = gp_folder_file(folder, "snapshots");
    int64_t *found = NULL;
    size_t capacity = 0, used = 0;
    gp_status status = GP_OK;
    DIR *entries = opendir(path.text);
    if (!entries && errno != ENOENT && errno != ENOTDIR)
        status = gp_fail(err, GP_IO, "%s: cannot be read: %s", path.text, strerror(errno));
    const struct dirent *entry;
    while (entries && status == GP_OK && (entry = readdir(entries)) != NULL) {
        int64_t step = step_of(entry->d_name);
        if (step < 0) {
            step = step_named(entry->d_name, "");
            if (step < 0 || !has_index(folder, step)) continue;
        }
        status = GP_GROW(&found, &capacity, used + 1, err);
        if (status == GP_OK) found[used++] = step;
    }
    if (entries) closedir(entries);
    if (status != GP_OK) {
        free(found);
        return status;
    }
    if (used > 1) qsort(found, used, sizeof *found, newest_first);
    size_t kept = used > 0; /* a step may have both a file and a folder */
    for (size_t i = 1; i < used; i++)
        if (found[i] != found[i - 1]) found[kept++] = found[i];
    used = kept;
    *steps = found;
    *count = (int)used;
    return GP_OK;
}

/* The numbers of gp_reached: their keys, in the order of the file. Each is written as a text that reads back to the
 * same value. */
typedef struct number {
    const char *key;
    size_t offset;
    bool real; /* a double; else an int64_t */
} number;
#define INTEGER(name)                                                                                                  \
    { #name, offsetof(gp_reached, name), false }
#define REAL(name)                                                                                                     \
    { #name, offsetof(gp_reached, name), true }
static const number numbers[] = {INTEGER(step),         INTEGER(epoch),     INTEGER(evaluated), REAL(loss),
                                 REAL(accuracy),        INTEGER(best_step), REAL(best),         INTEGER(metrics_bytes),
                                 INTEGER(samples),      INTEGER(steps),     INTEGER(due),       INTEGER(train_samples),
                                 INTEGER(eval_samples), INTEGER(descending)};
enum {
    NUMBERS = sizeof numbers / sizeof *numbers,
    MUST = NUMBERS - 3,      /* files may lack the rest */
    OLDER_NUMBERS = MUST - 3 /* of version 1 */
};

gp_status gp_snapshot_write(const char *path, const gp_safetensors_item *items, size_t count,
                            const gp_safetensors_source *source, const gp_reached *reached, const char *config,
                            gp_error *err) {
    enum { FIRST = 10 }; /* keys and texts before the numbers */
    char texts[NUMBERS][NUMBER_TEXT];
    const char *metadata[FIRST + 2 * NUMBERS + 1] = {"format",    "pt",
                                                     "snapshot",  version,
                                                     "config",    config,
                                                     "file",      reached->file_text ? reached->file_text : "",
                                                     "libraries", reached->libraries ? reached->libraries : ""};
    for (int i = 0; i < NUMBERS; i++) {
        const char *value = (const char *)reached + numbers[i].offset;
        if (numbers[i].real)
            snprintf(texts[i], NUMBER_TEXT, "%.17g", *(const double *)(const void *)value);
        else
            snprintf(texts[i], NUMBER_TEXT, "%" PRId64, *(const int64_t *)(const void *)value);
        const char **pair = metadata + FIRST + (ptrdiff_t)2 * i;
        pair[0] = numbers[i].key;
        pair[1] = texts[i];
    }
    struct stat about;
    if (lstat(path, &about) == 0 && S_ISLNK(about.st_mode) && unlink(path) != 0)
        return gp_fail(err, GP_IO, "%s: is a link that cannot be removed: %s", path, strerror(errno));
    if (source) return gp_safetensors_write_summed_from(path, items, count, metadata, source, err);
    return gp_safetensors_write_summed(path, items, count, metadata, err);
}

/* With room for the numbers and the checksum, which are not known yet. */
gp_status gp_snapshot_can_be(const char *path, const gp_safetensors_item *items, size_t count, const char *config,
                             uint64_t *bytes, gp_error *err) {
    enum { ROOM = (NUMBERS + 2) * 2 * NUMBER_TEXT + GP_LIBRARIES_TEXT };
    char room[ROOM + 1];
    memset(room, '0', ROOM);
    room[ROOM] = '\0';
    const char *metadata[] = {"config", config, "snapshot", room, NULL};
    return gp_safetensors_check(path, items, count, metadata, bytes, err);
}

static gp_status read_number(const gp_safetensors *file, const char *path, const number *its, gp_reached *out,
                             gp_error *err) {
    const char *text = gp_safetensors_metadata(file, its->key);
    void *value = (char *)out + its->offset;
    char *end = NULL;
    if (text && its->real)
        *(double *)value = strtod(text, &end);
    else if (text)
        *(int64_t *)value = strtoll(text, &end, 10);
    if (!text || end == text || *end)
        return gp_fail(err, GP_DATA, "%s: its metadata have no number \"%s\"", path, its->key);
    return GP_OK;
}

static gp_status read_metadata(gp_snapshot *snapshot, const char *path, gp_error *err) {
    const char *found = gp_safetensors_metadata(snapshot->file, "snapshot");
    bool newer = found && strcmp(found, version) == 0;
    if (!newer && !(found && strcmp(found, older_version) == 0))
        return gp_fail(err, GP_DATA, "%s: is of version %s of this format; this program reads versions %s and %s", path,
                       found ? found : "none", older_version, version);
    snapshot->config = gp_safetensors_metadata(snapshot->file, "config");
    if (!snapshot->config) return gp_fail(err, GP_DATA, "%s: its metadata have no configuration", path);
    snapshot->reached.train_samples = snapshot->reached.eval_samples = snapshot->reached.descending = -1;
    for (int i = 0; i < (newer ? NUMBERS : OLDER_NUMBERS); i++) {
        if (i >= MUST && !gp_safetensors_metadata(snapshot->file, numbers[i].key)) continue;
        GP_RETURN_IF_FAILED(read_number(snapshot->file, path, &numbers[i], &snapshot->reached, err));
    }
    if (newer) snapshot->reached.file_text = gp_safetensors_metadata(snapshot->file, "file");
    const char *libraries = gp_safetensors_metadata(snapshot->file, "libraries"); /* older files have none */
    if (libraries && *libraries) snapshot->reached.libraries = libraries;
    const gp_reached *reached = &snapshot->reached;
    if (reached->step < 0 || reached->step > UINT32_MAX || reached->epoch < 0 || reached->metrics_bytes < 0 ||
        reached->samples < 0 || reached->steps < 0 || reached->train_samples < -1 || reached->eval_samples < -1 ||
        reached->descending < -1 || reached->descending > 1)
        return gp_fail(err, GP_DATA, "%s: its metadata have impossible numbers", path);
    return GP_OK;
}

gp_status gp_snapshot_open(const char *path, gp_snapshot *out, gp_error *err) {
    gp_snapshot snapshot = {0};
    GP_RETURN_IF_FAILED(gp_safetensors_open(path, &snapshot.file, err));
    gp_status status = gp_safetensors_check_sum(snapshot.file, err);
    if (status == GP_OK) status = read_metadata(&snapshot, path, err);
    if (status != GP_OK)
        gp_snapshot_close(&snapshot);
    else
        *out = snapshot;
    return status;
}

void gp_snapshot_close(gp_snapshot *snapshot) {
    gp_safetensors_close(&snapshot->file);
    *snapshot = (gp_snapshot){0};
}

gp_status gp_tensor_check(const gp_safetensor *tensor, const char *name, gp_shape wanted, gp_error *err) {
    if (!tensor) return gp_fail(err, GP_DATA, "tensor \"%s\" is missing", name);
    gp_shape shape = {0};
    char wanted_text[GP_SHAPE_TEXT], found_text[GP_SHAPE_TEXT];
    for (int i = 0; i < tensor->rank && i < GP_MAX_RANK; i++) shape.dim[shape.rank++] = tensor->dim[i];
    if (tensor->rank != wanted.rank || !gp_shape_equal(shape, wanted))
        return gp_fail(err, GP_DATA, "tensor \"%s\" has shape %s%s, but the model's is %s", name,
                       gp_shape_text(found_text, shape), tensor->rank > GP_MAX_RANK ? " and more" : "",
                       gp_shape_text(wanted_text, wanted));
    if (!tensor->known || tensor->dtype != GP_F32)
        return gp_fail(err, GP_DATA, "tensor \"%s\" is of type %s, but weights are F32", name, tensor->dtype_name);
    return GP_OK;
}

/* "1.running_var" */
static bool is_variance(const char *name) {
    const char *dot = strrchr(name, '.');
    return strcmp(dot ? dot + 1 : name, "running_var") == 0;
}

static gp_status check_variance(const gp_safetensors *file, const char *name, const float *values, int64_t elements,
                                gp_error *err) {
    for (int64_t i = 0; i < elements; i++)
        if (values[i] < 0)
            return gp_fail(err, GP_DATA,
                           "%s: tensor \"%s\" has %g as element %" PRId64
                           ": a variance is not negative; the file is damaged, or is not of a batch norm",
                           gp_safetensors_path(file), name, (double)values[i], i);
    return GP_OK;
}

gp_status gp_tensor_read(gp_safetensors *file, const char *name, void *values, size_t bytes, gp_error *err) {
    char text[GP_NONFINITE_TEXT];
    int64_t elements = (int64_t)(bytes / sizeof(float));
    GP_RETURN_IF_FAILED(gp_safetensors_read(file, gp_safetensors_find(file, name), 0, bytes, values, err));
    gp_nonfinite found = gp_nonfinite_find(GP_F32, values, elements);
    if (found.count == 0) return is_variance(name) ? check_variance(file, name, values, elements, err) : GP_OK;
    return gp_fail(err, GP_DATA, "%s: tensor \"%s\" is not finite: %s", gp_safetensors_path(file), name,
                   gp_nonfinite_text(text, found, elements));
}

static gp_status check_tensor(const gp_snapshot *snapshot, const gp_state_layout *layout, int index, bool changed,
                              gp_error *err) {
    const gp_tensor_copy *wanted = &layout->copies[index];
    const char *name = layout->items[index].name;
    const gp_safetensor *found = gp_safetensors_find(snapshot->file, name);
    if (changed && wanted->state >= 0 && !found) return GP_OK;
    return gp_tensor_check(found, name, layout->plan->graph->params[wanted->param].spec.shape, err);
}

gp_status gp_snapshot_check(const gp_snapshot *snapshot, const gp_plan *plan, bool changed, gp_error *err) {
    gp_state_layout layout;
    gp_status status = gp_state_layout_init(&layout, plan, err);
    if (status != GP_OK) return status;
    for (int i = 0; i < layout.count && status == GP_OK; i++) status = check_tensor(snapshot, &layout, i, changed, err);
    if (status == GP_OK && !changed && gp_safetensors_count(snapshot->file) != (size_t)layout.count)
        status = gp_fail(err, GP_DATA, "it has %zu tensors, but the run has %d", gp_safetensors_count(snapshot->file),
                         layout.count);
    gp_state_layout_fini(&layout);
    return status;
}

typedef struct loading {
    const gp_snapshot *snapshot;
    const gp_state_layout *layout;
} loading;

/* A state that the file lacks begins with zeros, as in the first step of a run. */
static gp_status load_tensor(void *context, int index, void *host, size_t bytes, gp_error *err) {
    const loading *its = context;
    const char *name = its->layout->items[index].name;
    bool lacks = its->layout->copies[index].state >= 0 && !gp_safetensors_find(its->snapshot->file, name);
    if (!lacks) return gp_tensor_read(its->snapshot->file, name, host, bytes, err);
    memset(host, 0, bytes);
    return GP_OK;
}

gp_status gp_snapshot_load(const gp_snapshot *snapshot, gp_run *run, const gp_plan *plan, gp_error *err) {
    gp_state_layout layout;
    GP_RETURN_IF_FAILED(gp_state_layout_init(&layout, plan, err));
    loading its = {snapshot, &layout};
    gp_status status = gp_params_write(run, plan, layout.copies, layout.count, load_tensor, &its, err);
    gp_state_layout_fini(&layout);
    return status;
}
