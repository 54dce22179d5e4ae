#include "store/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/safetensors.h"
#include "store/params.h"
#include "store/snapshot.h"

static bool is_skipped(const gp_train_config *train, const char *name) {
    for (int i = 0; i < train->init_skip_count; i++)
        if (gp_path_is_below(name, train->init_skip[i].text)) return true;
    return false;
}

/* All that may be skipped, as one text for each name that a parameter's goes on from, NULL-terminated. */
static gp_status list_layers(const gp_graph *graph, char ***out, gp_error *err) {
    size_t count = 0, capacity = 0;
    char **names = NULL;
    gp_status status = GP_GROW(&names, &capacity, 1, err);
    for (int p = 0; p < graph->param_count; p++) {
        const char *name = graph->params[p].name;
        for (const char *dot = strchr(name, '.'); dot && status == GP_OK; dot = strchr(dot + 1, '.')) {
            status = GP_GROW(&names, &capacity, count + 2, err);
            if (status == GP_OK) status = gp_format_text(&names[count], err, "%.*s", (int)(dot - name), name);
            if (status == GP_OK) names[++count] = NULL;
        }
    }
    *out = names;
    return status;
}

static gp_status refuse_skip(const gp_graph *graph, const gp_placed_name *skip, gp_error *err) {
    char **names = NULL;
    gp_status status = list_layers(graph, &names, err);
    if (status == GP_OK) {
        const char *near = gp_nearest_name(skip->text, (const char *const *)names);
        status = gp_fail_at(err, GP_CONFIG, skip->place,
                            "train.init.skip: the model has no layer \"%.60s\" with parameters%s%s%s", skip->text,
                            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    for (size_t i = 0; names && names[i]; i++) free(names[i]);
    free(names);
    return status;
}

static gp_status check_skips(const gp_graph *graph, const gp_train_config *train, gp_error *err) {
    for (int i = 0; i < train->init_skip_count; i++) {
        bool found = false;
        for (int p = 0; p < graph->param_count && !found; p++)
            found = gp_path_is_below(graph->params[p].name, train->init_skip[i].text);
        if (!found) return refuse_skip(graph, &train->init_skip[i], err);
    }
    return GP_OK;
}

enum { HINT = 400 };

/* The first name of the file that is `name` after a prefix: "module.0.weight"; NULL: none. */
static const char *find_prefixed(const gp_safetensors *file, const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < gp_safetensors_count(file); i++) {
        const char *other = gp_safetensors_at(file, i)->name;
        size_t whole = strlen(other);
        if (whole > length + 1 && other[whole - length - 1] == '.' && strcmp(other + whole - length, name) == 0)
            return other;
    }
    return NULL;
}

static bool has_shape(const gp_safetensor *tensor, gp_shape shape) {
    bool same = tensor->rank == shape.rank;
    for (int i = 0; i < shape.rank && same; i++) same = tensor->dim[i] == shape.dim[i];
    return same;
}

/* Whether the file is of such a model at all. */
static bool has_any(const gp_graph *graph, const gp_safetensors *file) {
    for (int p = 0; p < graph->param_count; p++)
        if (gp_safetensors_find(file, graph->params[p].name)) return true;
    return false;
}

static void write_hint(const gp_graph *graph, const gp_train_config *train, const gp_safetensors *file,
                       const gp_param *param, char hint[HINT]) {
    const gp_safetensor *tensor = gp_safetensors_find(file, param->name);
    const char *prefixed = tensor ? NULL : find_prefixed(file, param->name);
    const char *dot = strrchr(param->name, '.');
    bool trains = train->init_place.path != NULL; /* --predict needs all weights */
    hint[0] = '\0';
    if (prefixed)
        snprintf(hint, HINT, "; the file has \"%.120s\": remove the prefix \"%.*s\"", prefixed,
                 (int)(strlen(prefixed) - strlen(param->name)), prefixed);
    else if (tensor && has_shape(tensor, param->spec.shape))
        snprintf(hint, HINT, "; convert it with .float()");
    else if (trains && dot && has_any(graph, file))
        snprintf(hint, HINT, "; to start this layer from new values: init: {file: …, skip: [\"%.*s\"]}",
                 (int)(dot - param->name), param->name);
}

static gp_status check_tensor(const gp_graph *graph, const gp_train_config *train, const gp_safetensors *file,
                              const gp_param *param, gp_error *err) {
    gp_error cause = {0};
    char hint[HINT];
    if (gp_tensor_check(gp_safetensors_find(file, param->name), param->name, param->spec.shape, &cause) == GP_OK)
        return GP_OK;
    write_hint(graph, train, file, param, hint);
    return gp_fail(err, GP_DATA, "%s: %s%s", train->init, cause.text, hint);
}

static bool is_counter(const char *name) {
    static const char suffix[] = "num_batches_tracked";
    size_t length = strlen(name), tail = sizeof suffix - 1;
    return length >= tail && strcmp(name + length - tail, suffix) == 0 &&
           (length == tail || name[length - tail - 1] == '.');
}

static gp_status check_file(const gp_graph *graph, const gp_train_config *train, const gp_safetensors *file,
                            gp_error *err) {
    for (int p = 0; p < graph->param_count; p++) {
        const gp_param *param = &graph->params[p];
        if (!is_skipped(train, param->name)) GP_RETURN_IF_FAILED(check_tensor(graph, train, file, param, err));
    }
    for (size_t i = 0; i < gp_safetensors_count(file); i++) {
        const char *name = gp_safetensors_at(file, i)->name;
        if (gp_graph_find_param(graph, name) < 0 && !is_counter(name) && !is_skipped(train, name) &&
            !gp_is_optimizer_tensor(name))
            return gp_fail(err, GP_DATA, "%s: tensor \"%.60s%s\" belongs to no layer of the model", train->init, name,
                           strlen(name) > 60 ? "…" : "");
    }
    return GP_OK;
}

/* A file of this program that is not as it was written, or a folder with files of several snapshots. */
static gp_status check_bytes(gp_safetensors *file, gp_error *err) {
    gp_error cause = {0};
    gp_status status = gp_safetensors_check_any_sum(file, &cause);
    if (status == GP_OK) return GP_OK;
    return gp_fail(err, status, "%s%s", cause.text,
                   status == GP_DATA ? "; the weights are damaged, or are of several files: take another copy. If a "
                                       "program changed them on purpose, let it leave out the metadata "
                                       "\"" GP_SAFETENSORS_SUM "\""
                                     : "");
}

static gp_status open_checked(const gp_graph *graph, const gp_train_config *train, bool bytes, gp_safetensors **out,
                              gp_error *err) {
    GP_RETURN_IF_FAILED(check_skips(graph, train, err));
    GP_RETURN_IF_FAILED(gp_safetensors_open(train->init, out, err));
    gp_status status = bytes ? check_bytes(*out, err) : GP_OK;
    if (status == GP_OK) status = check_file(graph, train, *out, err);
    if (status != GP_OK) gp_safetensors_close(out);
    return status;
}

gp_status gp_weights_check(const gp_graph *graph, const gp_train_config *train, gp_error *err) {
    gp_safetensors *file = NULL;
    GP_RETURN_IF_FAILED(open_checked(graph, train, true, &file, err));
    gp_safetensors_close(&file);
    return GP_OK;
}

typedef struct source {
    const gp_graph *graph;
    uint64_t seed;
    const gp_train_config *train; /* what it skips begins from the seed */
    gp_safetensors *file;         /* NULL: all parameters begin from the seed */
} source;

static gp_status fill_param(void *context, int index, void *host, size_t bytes, gp_error *err) {
    const source *from = context;
    const gp_param *param = &from->graph->params[index];
    if (from->file && !is_skipped(from->train, param->name))
        return gp_tensor_read(from->file, param->name, host, bytes, err);
    gp_param_initialise(param, from->seed, GP_F32, host);
    return GP_OK;
}

gp_status gp_weights_initialise(gp_run *run, const gp_plan *plan, uint64_t seed, gp_error *err) {
    source from = {.graph = plan->graph, .seed = seed};
    return gp_params_write(run, plan, NULL, 0, fill_param, &from, err);
}

gp_status gp_weights_load(gp_run *run, const gp_plan *plan, const gp_train_config *train, gp_error *err) {
    source from = {.graph = plan->graph, .seed = train->seed, .train = train};
    GP_RETURN_IF_FAILED(open_checked(plan->graph, train, false, &from.file, err));
    gp_status status = gp_params_write(run, plan, NULL, 0, fill_param, &from, err);
    gp_safetensors_close(&from.file);
    return status;
}
