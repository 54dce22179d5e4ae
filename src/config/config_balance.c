/* `pipeline.balance` where it names layers, and `pipeline.together`. Whether there are such layers the graph says. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/config_internal.h"
#include "config/tree_internal.h"

/* "3x3" is a name. */
static bool is_number(const gp_yaml *item) {
    char *end;
    if (item->kind != GP_YAML_SCALAR || strspn(item->text, "+-.0123456789") == 0) return false;
    (void)strtod(item->text, &end);
    return *end == '\0' || item->text[strspn(item->text, "+-.0123456789")] == '\0';
}

bool gp_balance_has_names(const gp_yaml *list) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->kind == GP_YAML_SCALAR && list->items[i]->text[0] && !is_number(list->items[i]))
            return true;
    return false;
}

static gp_status read_name(const gp_yaml *node, const char *what, gp_placed_name *out, gp_error *err) {
    out->place = node->place;
    return gp_read_text(node, what, &out->text, err);
}

gp_status gp_read_balance_names(gp_pipeline_config *pipeline, const gp_yaml *list, gp_error *err) {
    static const char what[] = "pipeline.balance";
    if (list->count >= GP_MAX_STAGES)
        return gp_fail_at(err, GP_CONFIG, list->place, "%s: the list has %zu entries; it may have at most %d", what,
                          list->count, (int)GP_MAX_STAGES - 1);
    GP_RETURN_IF_FAILED(GP_NEW(&pipeline->first, list->count, err));
    for (size_t i = 0; i < list->count; i++) {
        const gp_yaml *item = list->items[i];
        if (is_number(item))
            return gp_fail_at(
                err, GP_CONFIG, item->place,
                "%s: %s is a number among names; a list has either the number of layers of each stage, or the "
                "names of the first layers of the later stages",
                what, gp_show(item->text).text);
        GP_RETURN_IF_FAILED(read_name(item, what, &pipeline->first[i], err));
        pipeline->first_count++;
        for (size_t j = 0; j < i; j++)
            if (strcmp(pipeline->first[j].text, pipeline->first[i].text) == 0)
                return gp_fail_at(err, GP_CONFIG, item->place, "%s: %s occurs twice", what, gp_show(item->text).text);
    }
    pipeline->balance = GP_BALANCE_AUTO;
    return GP_OK;
}

gp_status gp_read_together(gp_pipeline_config *pipeline, const gp_yaml *node, gp_error *err) {
    static const char what[] = "pipeline.together";
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_fail_at(err, GP_CONFIG, node->place, "%s: needs a list of pairs of layers, as in [[a, b]], not %s",
                          what, gp_show_node(node).text);
    GP_RETURN_IF_FAILED(GP_NEW(&pipeline->together, node->count, err));
    for (size_t i = 0; i < node->count; i++) {
        const gp_yaml *pair = node->items[i];
        if (pair->kind != GP_YAML_SEQUENCE || pair->count != 2)
            return gp_fail_at(err, GP_CONFIG, pair->place, "%s: needs pairs of layers, as in [[a, b]], not %s", what,
                              gp_show_node(pair).text);
        for (int side = 0; side < 2; side++)
            GP_RETURN_IF_FAILED(read_name(pair->items[side], what, &pipeline->together[i].layer[side], err));
        pipeline->together_count++;
    }
    return GP_OK;
}

void gp_write_balance_names(FILE *file, const gp_pipeline_config *pipeline) {
    for (int i = 0; i < pipeline->first_count; i++) {
        fputs(i ? ", " : "[", file);
        gp_yaml_write_quoted(file, pipeline->first[i].text);
    }
    fputs("]", file);
}

void gp_write_together(FILE *file, const gp_pipeline_config *pipeline) {
    for (int i = 0; i < pipeline->together_count; i++) {
        fputs(i ? ", [" : "[[", file);
        gp_yaml_write_quoted(file, pipeline->together[i].layer[0].text);
        fputs(", ", file);
        gp_yaml_write_quoted(file, pipeline->together[i].layer[1].text);
        fputs("]", file);
    }
    fputs("]", file);
}
