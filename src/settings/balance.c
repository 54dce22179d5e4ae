/* `pipeline.balance` and `pipeline.together`. Whether the layers that they name exist is known to the graph. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "settings/tables_internal.h"

gp_layer_rules gp_pipeline_rules(const gp_pipeline_config *pipeline) {
    return (gp_layer_rules){.first = pipeline->first,
                            .first_count = pipeline->first_count,
                            .together = pipeline->together,
                            .together_count = pipeline->together_count,
                            .keep = pipeline->keep,
                            .keep_count = pipeline->keep_count,
                            .layers = pipeline->layers,
                            .layers_count = pipeline->layers_count,
                            .place = pipeline->balance_place};
}

gp_status gp_refuse_count(const gp_pipeline_config *pipeline, const gp_yaml *list, const char *what, const char *remedy,
                          gp_error *err) {
    int stages = pipeline->stages;
    return gp_refuse(list->place, what, err, "has %zu %s, but there %s %d %s%s; each needs one, %s", list->count,
                     list->count == 1 ? "entry" : "entries", stages == 1 ? "is" : "are", stages,
                     stages == pipeline->entry_count ? "device" : "stage", stages == 1 ? "" : "s", remedy);
}

/* "3x3" is a name. */
static bool is_number(const gp_yaml *item) {
    char *end;
    if (item->kind != GP_YAML_SCALAR || strspn(item->text, "+-.0123456789") == 0) return false;
    (void)strtod(item->text, &end);
    return *end == '\0' || item->text[strspn(item->text, "+-.0123456789")] == '\0';
}

static bool has_names(const gp_yaml *list) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->kind == GP_YAML_SCALAR && list->items[i]->text[0] && !is_number(list->items[i]))
            return true;
    return false;
}

static gp_status read_names(gp_pipeline_config *pipeline, const gp_yaml *list, gp_error *err) {
    static const char what[] = "pipeline.balance";
    if (list->count >= GP_MAX_STAGES)
        return gp_refuse(list->place, what, err, "the list has %zu entries; it may have at most %d", list->count,
                         (int)GP_MAX_STAGES - 1);
    GP_RETURN_IF_FAILED(GP_NEW(&pipeline->first, list->count, err));
    for (size_t i = 0; i < list->count; i++) {
        const gp_yaml *item = list->items[i];
        if (is_number(item))
            return gp_refuse(item->place, what, err,
                             "%s is a number among names; a list has either the number of layers of each stage, or the "
                             "names of the first layers of the later stages",
                             gp_show(item->text).text);
        GP_RETURN_IF_FAILED(gp_read_name(item, what, &pipeline->first[i], err));
        pipeline->first_count++;
        for (size_t j = 0; j < i; j++)
            if (strcmp(pipeline->first[j].text, pipeline->first[i].text) == 0)
                return gp_refuse(item->place, what, err, "%s occurs twice", gp_show(item->text).text);
    }
    pipeline->balance = GP_BALANCE_AUTO;
    return GP_OK;
}

static gp_status read_balance_list(gp_pipeline_config *pipeline, const gp_yaml *node, gp_error *err) {
    static const char what[] = "pipeline.balance";
    size_t count = 0;
    if (has_names(node)) return read_names(pipeline, node, err);
    GP_RETURN_IF_FAILED(GP_NEW(&pipeline->layers, GP_MAX_STAGES, err));
    GP_RETURN_IF_FAILED(gp_read_integers(node, what, 1, INT32_MAX, GP_MAX_STAGES, pipeline->layers, &count, err));
    bool suits = pipeline->stages == 0 || (int)count == pipeline->stages;
    if (!suits && !pipeline->finds_balance)
        return gp_refuse_count(pipeline, node, what,
                               "which pipeline.balance=auto finds; pipeline.devices lists the devices", err);
    pipeline->balance = suits ? GP_BALANCE_LAYERS : GP_BALANCE_AUTO;
    pipeline->layers_count = (int)count;
    return GP_OK;
}

static gp_status read_balance(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                              gp_error *err) {
    gp_pipeline_config *pipeline = base;
    int mode = 0;
    gp_suggestion suggestion = {""};
    if (node->kind == GP_YAML_SEQUENCE) return read_balance_list(pipeline, node, err);
    if (node->kind == GP_YAML_SCALAR) suggestion = gp_suggest(node->text, key->names);
    if (node->kind == GP_YAML_MAPPING || gp_index_of(node->text, key->names) < 0)
        return gp_refuse(
            node->place, at->what, err,
            "needs auto, size, the layers per stage, as in [4, 4], or the first layers of the later stages, as in "
            "[conv4_1], not %s%s",
            gp_show_node(node).text, suggestion.text);
    GP_RETURN_IF_FAILED(gp_read_choice(node, at->what, key->names, &mode, err));
    pipeline->balance = (gp_balance_mode)mode;
    return GP_OK;
}

static void write_balance(FILE *file, const gp_key *key, const void *base) {
    const gp_pipeline_config *pipeline = base;
    if (pipeline->balance == GP_BALANCE_AUTO && pipeline->first_count > 0) {
        gp_write_names(file, pipeline->first, pipeline->first_count);
        return;
    }
    if (pipeline->balance != GP_BALANCE_LAYERS) {
        fputs(key->names[pipeline->balance], file);
        return;
    }
    for (int i = 0; i < pipeline->layers_count; i++)
        fprintf(file, "%s%lld", i ? ", " : "[", (long long)pipeline->layers[i]);
    fputs("]", file);
}

const gp_key_type gp_balance_type = {"list of numbers of layers, or of names", read_balance, write_balance, NULL};

static gp_status read_together(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                               gp_error *err) {
    gp_pipeline_config *pipeline = base;
    const char *what = at->what;
    (void)key;
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_refuse(node->place, what, err, "needs a list of pairs of layers, as in [[a, b]], not %s",
                         gp_show_node(node).text);
    GP_RETURN_IF_FAILED(GP_NEW(&pipeline->together, node->count, err));
    for (size_t i = 0; i < node->count; i++) {
        const gp_yaml *pair = node->items[i];
        if (pair->kind != GP_YAML_SEQUENCE || pair->count != 2)
            return gp_refuse(pair->place, what, err, "needs pairs of layers, as in [[a, b]], not %s",
                             gp_show_node(pair).text);
        for (int side = 0; side < 2; side++)
            GP_RETURN_IF_FAILED(gp_read_name(pair->items[side], what, &pipeline->together[i].layer[side], err));
        pipeline->together_count++;
    }
    return GP_OK;
}

static void write_together(FILE *file, const gp_key *key, const void *base) {
    const gp_pipeline_config *pipeline = base;
    (void)key;
    fputs("[", file);
    for (int i = 0; i < pipeline->together_count; i++) {
        if (i > 0) fputs(", ", file);
        gp_write_names(file, pipeline->together[i].layer, 2);
    }
    fputs("]", file);
}

const gp_key_type gp_together_type = {"list of pairs of layers", read_together, write_together, NULL};
