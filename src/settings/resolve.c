/* Writes every default and choice into the run folder's `config.yaml`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_stream.h"
#include "settings/tables_internal.h"

/* Each section is written from the typed configuration, so that every value stands in it, defaults too. The texts are
 * in YAML's flow style; the writer of the tree lays them out. */

/* A section of the table, or `changes`. */
static gp_status put_section(const gp_config *config, const gp_key *section, gp_yaml_document *to, gp_error *err) {
    char *text = NULL;
    gp_text_stream stream;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "the resolved configuration", err));
    if (section->type == &gp_table_type)
        gp_table_type.write(stream.file, section, config);
    else
        gp_write_changes(stream.file, config);
    GP_RETURN_IF_FAILED(gp_text_end(&stream, GP_OK, &text, err));
    gp_status status = gp_yaml_put(to, section->name, text, err);
    free(text);
    return status;
}

static gp_status settle_balance(gp_pipeline_config *pipeline, const int64_t *balance, int stages, gp_error *err) {
    int64_t *layers = NULL;
    if (stages != pipeline->stages)
        return gp_fail(err, GP_INTERNAL, "a balance of %d stages for %d", stages, pipeline->stages);
    GP_RETURN_IF_FAILED(GP_NEW(&layers, stages, err));
    memcpy(layers, balance, (size_t)stages * sizeof *layers);
    free(pipeline->layers);
    pipeline->layers = layers;
    pipeline->layers_count = stages;
    pipeline->balance = GP_BALANCE_LAYERS;
    return GP_OK;
}

static gp_status put_sections(const gp_config *config, gp_yaml_document *to, gp_error *err) {
    for (const gp_key *section = gp_config_table.keys; section->name; section++) {
        bool changes = strcmp(section->name, "changes") == 0 && config->change_count > 0;
        if (section->type == &gp_table_type || changes) GP_RETURN_IF_FAILED(put_section(config, section, to, err));
    }
    return GP_OK;
}

gp_status gp_config_resolve(gp_config *config, const int64_t *balance, int stages, gp_error *err) {
    if (balance) GP_RETURN_IF_FAILED(settle_balance(&config->pipeline, balance, stages, err));
    return put_sections(config, config->document, err);
}

gp_status gp_config_resolved(const gp_config *config, gp_yaml_document **out, gp_error *err) {
    gp_yaml_document *copy = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_copy(config->document, &copy, err));
    gp_status status = put_sections(config, copy, err);
    if (status != GP_OK)
        gp_yaml_destroy(&copy);
    else
        *out = copy;
    return status;
}

static const char comment[] = "gpipe-train " GP_VERSION ": the configuration as it ran";

gp_status gp_config_write(const gp_config *config, const char *path, gp_error *err) {
    return gp_yaml_write(config->document, comment, path, err);
}

gp_status gp_config_text(const gp_config *config, char **out, gp_error *err) {
    return gp_yaml_text(config->document, comment, out, err);
}
