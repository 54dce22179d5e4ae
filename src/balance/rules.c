#include "balance/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "profile/profile.h"

/* Nodes that a name stands for. */
typedef struct named {
    int first, last;
} named;

/* The loss is no layer of balance. */
static bool find_named(const gp_graph *graph, const char *name, named *out) {
    size_t length = strlen(name);
    int count = graph->unit_end[graph->layer_count - 1];
    *out = (named){-1, -1};
    for (int n = 0; n < count; n++)
        if (strcmp(graph->nodes[n].name, name) == 0) {
            *out = (named){n, n};
            return true;
        }
    for (int n = 0; n < count; n++) {
        if (strncmp(graph->nodes[n].name, name, length) != 0 || graph->nodes[n].name[length] != '.') continue;
        if (out->first < 0) out->first = n;
        out->last = n;
    }
    return out->first >= 0;
}

static gp_status refuse_unknown(const gp_graph *graph, const char *key, const gp_placed_name *name, gp_error *err) {
    int count = graph->unit_end[graph->layer_count - 1];
    const char **known = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&known, (size_t)count + 1, err));
    for (int n = 0; n < count; n++) known[n] = graph->nodes[n].name;
    const char *near = gp_nearest_name(name->text, known);
    free(known);
    return gp_fail_at(err, GP_CONFIG, name->place, "%s: the model has no layer \"%s\"%s%s%s", key, name->text,
                      near ? "; did you mean " : " (--expand lists them)", near ? near : "", near ? "?" : "");
}

static gp_status begin_stage(const gp_graph *graph, const gp_placed_name *name, int before, int *out, gp_error *err) {
    static const char key[] = "pipeline.balance";
    named nodes;
    if (!find_named(graph, name->text, &nodes)) return refuse_unknown(graph, key, name, err);
    int layer = graph->nodes[nodes.first].unit;
    const char *begins = gp_layer_name(graph, layer);
    if (layer == 0)
        return gp_fail_at(err, GP_CONFIG, name->place,
                          "%s: \"%s\" is part of the first layer; name the first layer of a later stage", key,
                          name->text);
    if (strcmp(begins, graph->nodes[nodes.first].name) != 0)
        return gp_fail_at(err, GP_CONFIG, name->place,
                          "%s: \"%s\" is inside a layer that cannot be cut; that layer begins with \"%s\"", key,
                          name->text, begins);
    if (layer <= before)
        return gp_fail_at(err, GP_CONFIG, name->place,
                          "%s: \"%s\" does not come after \"%s\"; give the names in the order of the model", key,
                          name->text, gp_layer_name(graph, before));
    *out = layer;
    return GP_OK;
}

static gp_status begin_stages(const gp_graph *graph, const gp_layer_rules *asked, int stages, gp_cut_rule *rules,
                              gp_error *err) {
    int layer = 0, count = asked->first_count;
    if (count >= stages)
        return gp_fail_at(err, GP_CONFIG, asked->first[stages - 1].place,
                          "pipeline.balance: names the layers that begin %d later stage%s, which takes %d stages, but "
                          "there %s %d; list a device for each stage in pipeline.devices",
                          count, count == 1 ? "" : "s", count + 1, stages == 1 ? "is" : "are", stages);
    for (int i = 0; i < count; i++) {
        GP_RETURN_IF_FAILED(begin_stage(graph, &asked->first[i], layer, &layer, err));
        rules[layer] = GP_CUT_MUST;
    }
    return GP_OK;
}

static gp_status keep_together(const gp_graph *graph, const gp_bound_layers *bound, gp_cut_rule *rules, gp_error *err) {
    int first = graph->layer_count, last = 0;
    for (int side = 0; side < 2; side++) {
        named nodes;
        if (!find_named(graph, bound->layer[side].text, &nodes))
            return refuse_unknown(graph, "pipeline.together", &bound->layer[side], err);
        if (graph->nodes[nodes.first].unit < first) first = graph->nodes[nodes.first].unit;
        if (graph->nodes[nodes.last].unit > last) last = graph->nodes[nodes.last].unit;
    }
    for (int i = first + 1; i <= last; i++) {
        if (rules[i] == GP_CUT_MUST)
            return gp_fail_at(err, GP_CONFIG, bound->layer[0].place,
                              "pipeline.together: layer \"%s\" must begin a stage (pipeline.balance), but lies "
                              "between layers that stay together",
                              gp_layer_name(graph, i));
        rules[i] = GP_CUT_NEVER;
    }
    return GP_OK;
}

gp_status gp_balance_rules(const gp_graph *graph, const gp_layer_rules *asked, int stages, gp_cut_rule *rules,
                           gp_error *err) {
    for (int i = 0; i < graph->layer_count; i++) rules[i] = GP_CUT_FREE;
    GP_RETURN_IF_FAILED(begin_stages(graph, asked, stages, rules, err));
    int places = graph->layer_count - 1;
    for (int i = 0; i < asked->together_count; i++)
        GP_RETURN_IF_FAILED(keep_together(graph, &asked->together[i], rules, err));
    for (int i = 1; i < graph->layer_count; i++) places -= rules[i] == GP_CUT_NEVER;
    if (asked->together_count == 0 || places >= stages - 1) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, asked->together[0].layer[0].place,
                      "pipeline.together: leaves %d place%s to cut, but %d stages need %d", places,
                      places == 1 ? "" : "s", stages, stages - 1);
}

gp_status gp_balance_keeps(const gp_graph *graph, const gp_layer_rules *asked, bool *keeps, gp_error *err) {
    for (int n = 0; n < graph->node_count; n++) keeps[n] = graph->nodes[n].layer->keeps;
    for (int i = 0; i < asked->keep_count; i++) {
        named nodes;
        if (!find_named(graph, asked->keep[i].text, &nodes))
            return refuse_unknown(graph, "pipeline.checkpoint.keep", &asked->keep[i], err);
        keeps[nodes.last] = true;
    }
    return GP_OK;
}

gp_status gp_balance_check_together(const gp_graph *graph, const gp_layer_rules *asked, const gp_cut_rule *rules,
                                    gp_error *err) {
    int64_t first = 0;
    for (int s = 0; s < asked->layers_count; first += asked->layers[s++])
        if (s > 0 && first < graph->layer_count && rules[first] == GP_CUT_NEVER)
            return gp_fail_at(err, GP_CONFIG, asked->place,
                              "pipeline.balance: stage %d begins with layer \"%s\", which pipeline.together keeps "
                              "on one stage with the layer before it",
                              s, gp_layer_name(graph, (int)first));
    return GP_OK;
}
