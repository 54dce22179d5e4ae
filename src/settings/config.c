#include "settings/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/replace.h"
#include "model/graph.h"
#include "settings/tables_internal.h"

static gp_status find_folder(const char *path, char **out, gp_error *err) {
    char *folder = NULL;
    GP_RETURN_IF_FAILED(gp_file_folder(path, &folder, err));
    char *absolute = realpath(folder, NULL);
    gp_status status = GP_OK;
    if (!absolute) status = gp_fail(err, GP_CONFIG, "%s: the folder %s: %s", path, folder, strerror(errno));
    free(folder);
    if (absolute) *out = absolute;
    return status;
}

static gp_status read_model(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                            gp_error *err) {
    (void)key;
    ((gp_config *)base)->model = node;
    if (node->kind == GP_YAML_SCALAR && node->text[0])
        return gp_refuse(
            node->place, at->what, err,
            "needs a mapping, as in {resnet: {depth: 50, classes: 10}, input: {shape: [3, 224, 224]}, loss: "
            "cross_entropy}, not %s",
            gp_show(node->text).text);
    return gp_read_mapping(node, at->what, err);
}

static const gp_key_type model_type = {"mapping", read_model, NULL, NULL};

/* The rooms above read the model. */
static const gp_key model_keys[] = {
    {"input", &gp_elsewhere_type, GP_FIXED("the shapes of the model are those of its parameters")},
    {"layers", &gp_elsewhere_type, .unsaid = NULL},
    {"loss", &gp_elsewhere_type, GP_FIXED("losses before and after the change could not be compared")},
    {"rules", &gp_elsewhere_type, .unsaid = NULL},
    {0},
};
static const gp_key_table model_table = {.keys = model_keys};

#define AT(field) offsetof(gp_config, field)

static const gp_key config_keys[] = {
    {"model", &model_type, .table = &model_table, .example = "model: {layers: […], …}"},
    {"data", &gp_table_type, AT(data), .table = &gp_data_table, .example = "data: {train: …, batch: 64}"},
    {"pipeline", &gp_table_type, AT(pipeline), .table = &gp_pipeline_table, .unsaid = "{}", .change = GP_CHANGE_FREELY},
    {"optimizer", &gp_table_type, AT(optimizer), .table = &gp_optimizer_table,
     .example = "optimizer: {sgd: {lr: 0.02, momentum: 0.9}}"},
    {"train", &gp_table_type, AT(train), .table = &gp_train_table, .example = "train: {epochs: 2}"},
    {"changes", &gp_elsewhere_type, .unsaid = NULL}, /* is read last, by changes.c */
    {0},
};
const gp_key_table gp_config_table = {.keys = config_keys};

/* What needs two sections. */
static gp_status check_sections(const gp_config *config, const gp_yaml *root, gp_error *err) {
    const gp_yaml *data = gp_yaml_get(root, "data");
    bool trains = config->train.steps != 0;
    if (trains && config->data.train.kind == GP_SOURCE_NONE)
        return gp_fail_at(err, GP_CONFIG, data->place,
                          "data: train is missing, as in train: {tensors: file.safetensors}");
    if (!trains && config->data.eval.kind == GP_SOURCE_NONE)
        return gp_fail_at(err, GP_CONFIG, data->place,
                          "data: eval is missing; without training (train.steps: 0, --predict) only data.eval is read");
    return GP_OK;
}

static gp_status read_sections(gp_config *config, gp_error *err) {
    const gp_yaml *root = gp_yaml_root(config->document);
    if (!root) return gp_fail(err, GP_CONFIG, "%s: the configuration is empty", config->path);
    gp_key_context at = {.what = "configuration", .folder = config->folder, .place = root->place};
    config->train.epochs.epochs = true;
    config->train.steps = -1;
    GP_RETURN_IF_FAILED(gp_read_table(&gp_config_table, root, &at, config, err));
    return check_sections(config, root, err);
}

static gp_status read_all(gp_config *config, gp_error *err) {
    GP_RETURN_IF_FAILED(read_sections(config, err));
    const gp_yaml *changes = gp_yaml_get(gp_yaml_root(config->document), "changes");
    return changes ? gp_read_changes(config, changes, err) : GP_OK;
}

static gp_status keep_overrides(gp_config *config, const char *const *overrides, int count, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&config->override, count, err));
    for (int i = 0; i < count; i++) {
        GP_RETURN_IF_FAILED(gp_copy_text(&config->override[i], overrides[i], err));
        config->override_count++;
    }
    return GP_OK;
}

static gp_status load_into(gp_config *config, const char *path, const char *const *overrides, int override_count,
                           gp_error *err) {
    GP_RETURN_IF_FAILED(gp_copy_text(&config->path, path, err));
    GP_RETURN_IF_FAILED(gp_yaml_load(path, &config->document, err));
    GP_RETURN_IF_FAILED(find_folder(path, &config->folder, err));
    GP_RETURN_IF_FAILED(gp_yaml_text(config->document, "the file of the run", &config->file_text, err));
    GP_RETURN_IF_FAILED(keep_overrides(config, overrides, override_count, err));
    for (int i = 0; i < override_count && !config->apart; i++)
        GP_RETURN_IF_FAILED(gp_yaml_override(config->document, overrides[i], err));
    return read_all(config, err);
}

static gp_status read_like(gp_config *config, const gp_config *like, bool whole, gp_error *err) {
    config->pipeline.finds_balance = like->pipeline.finds_balance;
    GP_RETURN_IF_FAILED(gp_copy_text(&config->path, like->path, err));
    GP_RETURN_IF_FAILED(gp_copy_text(&config->folder, like->folder, err));
    if (!whole) return read_sections(config, err);
    GP_RETURN_IF_FAILED(gp_copy_text(&config->file_text, like->file_text, err));
    GP_RETURN_IF_FAILED(keep_overrides(config, (const char *const *)like->override, like->override_count, err));
    return read_all(config, err);
}

gp_status gp_config_read(const gp_config *like, gp_yaml_document **document, bool whole, gp_config **out,
                         gp_error *err) {
    gp_config *config = NULL;
    gp_status status = GP_NEW(&config, 1, err);
    if (status != GP_OK) {
        gp_yaml_destroy(document);
        return status;
    }
    config->document = *document;
    *document = NULL;
    status = read_like(config, like, whole, err);
    if (status != GP_OK)
        gp_config_destroy(&config);
    else
        *out = config;
    return status;
}

/* The rooms above read the model of a configuration that is without mistakes. If it is not, those of the model are
 * found here, so that one run finds all. */
static gp_status join_model(const gp_config *config, gp_error *err) {
    gp_graph *graph = NULL;
    gp_error first = {0};
    if (!config->model || config->model->kind != GP_YAML_MAPPING || !err) return GP_CONFIG;
    if (gp_graph_build(config->model, &graph, &first) != GP_CONFIG) {
        gp_graph_destroy(&graph);
        return GP_CONFIG;
    }
    gp_status status = gp_error_join(&first, first.status, err);
    *err = first;
    return status;
}

static gp_status load(const char *path, const char *const *overrides, int override_count, gp_config_use use, bool apart,
                      gp_config **out, gp_error *err) {
    gp_config *config = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&config, 1, err));
    config->pipeline.finds_balance = use == GP_TO_BALANCE;
    config->apart = apart;
    gp_status status = load_into(config, path, overrides, override_count, err);
    if (status == GP_CONFIG) status = join_model(config, err);
    if (status != GP_OK) {
        gp_config_destroy(&config);
        return status;
    }
    *out = config;
    return GP_OK;
}

gp_status gp_config_load(gp_config_use use, const char *path, const char *const *overrides, int override_count,
                         gp_config **out, gp_error *err) {
    gp_error second = {0};
    gp_status status = load(path, overrides, override_count, use, false, out, err);
    if (use != GP_TO_RESUME || (status != GP_CONFIG && status != GP_USAGE)) return status;
    return load(path, overrides, override_count, use, true, out, &second) == GP_OK ? GP_OK : status;
}

static void free_source(gp_source_config *source) {
    free(source->images);
    free(source->labels);
    free(source->file);
    gp_free_transforms(source);
}

void gp_config_destroy(gp_config **config) {
    if (!config || !*config) return;
    gp_free_changes(*config);
    for (int i = 0; i < (*config)->override_count; i++) free((*config)->override[i]);
    free((*config)->override);
    free((*config)->file_text);
    free_source(&(*config)->data.train);
    free_source(&(*config)->data.eval);
    free((*config)->pipeline.devices);
    free((*config)->pipeline.replicas);
    free((*config)->pipeline.layers);
    free((*config)->pipeline.checkpoints);
    free((*config)->pipeline.keep);
    free((*config)->pipeline.schedule.file);
    free((*config)->pipeline.first);
    free((*config)->pipeline.together);
    free((*config)->optimizer.lr_milestones);
    free((*config)->optimizer.lr_gammas);
    free((*config)->train.init);
    free((*config)->train.init_skip);
    free((*config)->folder);
    gp_yaml_destroy(&(*config)->document);
    free((*config)->path);
    free(*config);
    *config = NULL;
}
