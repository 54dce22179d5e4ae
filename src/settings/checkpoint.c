/* `pipeline.checkpoint`: one mode for all stages, or one for each; and what is kept all the same. */
#include <stdio.h>

#include "base/memory.h"
#include "settings/tables_internal.h"

static const char what[] = "pipeline.checkpoint";
gp_checkpoint_mode gp_pipeline_checkpoint(const gp_pipeline_config *pipeline, int stage) {
    return pipeline->checkpoints ? pipeline->checkpoints[stage] : pipeline->checkpoint;
}

static gp_status read_list(gp_pipeline_config *pipeline, const gp_yaml *node, gp_error *err) {
    if (node->count == 0) return gp_refuse(node->place, what, err, "the list is empty");
    if (node->count > GP_MAX_STAGES)
        return gp_refuse(node->place, what, err, "more than %d entries", (int)GP_MAX_STAGES);
    GP_RETURN_IF_FAILED(GP_NEW(&pipeline->checkpoints, node->count, err));
    pipeline->checkpoint_count = (int)node->count;
    for (size_t i = 0; i < node->count; i++) {
        char name[48];
        int mode = 0;
        snprintf(name, sizeof name, "%s.%zu", what, i);
        GP_RETURN_IF_FAILED(gp_read_choice(node->items[i], name, gp_checkpoint_names, &mode, err));
        pipeline->checkpoints[i] = (gp_checkpoint_mode)mode;
    }
    /* Where a file says how many stages there are, who reads that checks the count. */
    if (pipeline->stages == 0 || (int)node->count == pipeline->stages) return GP_OK;
    return gp_refuse_count(pipeline, node, what, "or one stands for all", err);
}

static gp_status read_mode(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    gp_pipeline_config *pipeline = base;
    int mode = 0;
    if (node->kind == GP_YAML_SEQUENCE) return read_list(pipeline, node, err);
    GP_RETURN_IF_FAILED(gp_read_choice(node, at->what, key->names, &mode, err));
    pipeline->checkpoint = (gp_checkpoint_mode)mode;
    return GP_OK;
}

static void write_mode(FILE *file, const gp_key *key, const void *base) {
    const gp_pipeline_config *pipeline = base;
    if (!pipeline->checkpoints) {
        fputs(key->names[pipeline->checkpoint], file);
        return;
    }
    for (int s = 0; s < pipeline->checkpoint_count; s++)
        fprintf(file, "%s%s", s ? ", " : "[", key->names[pipeline->checkpoints[s]]);
    fputs("]", file);
}

static const gp_key_type mode_type = {"list of modes", read_mode, write_mode, NULL};

static gp_status read_keep(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                           gp_error *err) {
    gp_pipeline_config *pipeline = base;
    (void)key;
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_refuse(node->place, at->what, err, "needs a list of layers, as in [conv1, layer2.0], not %s",
                         gp_show_node(node).text);
    GP_RETURN_IF_FAILED(GP_NEW(&pipeline->keep, node->count, err));
    for (size_t i = 0; i < node->count; i++)
        GP_RETURN_IF_FAILED(gp_read_name(node->items[i], at->what, &pipeline->keep[pipeline->keep_count++], err));
    return GP_OK;
}

static void write_keep(FILE *file, const gp_key *key, const void *base) {
    const gp_pipeline_config *pipeline = base;
    (void)key;
    gp_write_names(file, pipeline->keep, pipeline->keep_count);
}

static const gp_key_type keep_type = {"list of layers", read_keep, write_keep, NULL};

static const gp_key checkpoint_keys[] = {
    {"mode", &mode_type, .unsaid = "except_last", .names = gp_checkpoint_names, .flags = GP_KEY_UNNAMED},
    {"keep", &keep_type, .count = offsetof(gp_pipeline_config, keep_count)},
    {0},
};
const gp_key_table gp_checkpoint_table = {.keys = checkpoint_keys, .alone = GP_ALONE_ANY};

void gp_write_checkpoint(FILE *file, const gp_pipeline_config *pipeline) {
    gp_write_table(file, &gp_checkpoint_table, pipeline);
}
