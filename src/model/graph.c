#include "model/graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/read.h"
#include "model/entries.h"
#include "model/expand.h"

enum { FIRST_OUTPUT = GP_VALUE_TARGET + 1 };

/* Layer i makes value FIRST_OUTPUT + i. */
static int value_of(int source) {
    return source == GP_SOURCE_INPUT ? GP_VALUE_INPUT : FIRST_OUTPUT + source;
}

gp_status gp_node_error(const gp_node *node, gp_error *err) {
    gp_place place = node->place;
    gp_error_context(err, "%s \"%s\": ", node->layer->type->name, node->name);
    if (!place.path) return err ? err->status : GP_CONFIG;
    if (place.line > 0) return gp_error_context(err, "%s:%d:%d: ", place.path, place.line, place.column);
    return gp_error_context(err, "%s: ", place.path);
}

static gp_status read_loss_type(const gp_yaml *loss, gp_choice *choice, const gp_layer_type **type, gp_error *err) {
    if (loss->kind == GP_YAML_SEQUENCE)
        return gp_fail_at(err, GP_CONFIG, loss->place, "model: a list of losses is not available yet");
    GP_RETURN_IF_FAILED(gp_find_choice(loss, "loss", gp_layer_names(true), NULL, choice, err));
    GP_RETURN_IF_FAILED(gp_check_beside(loss, "loss", gp_layer_names(true), NULL, choice, err));
    *type = gp_layer_type_find(choice->kind, true);
    if (*type) return GP_OK;
    if (gp_is_later(choice->kind, gp_layer_names_later(true)))
        return gp_fail_at(err, GP_CONFIG, choice->place, "loss \"%s\" is not available yet; this version has %s",
                          choice->kind, gp_list_names(gp_layer_names(true)).text);
    gp_suggestion suggestion = gp_suggest(choice->kind, gp_layer_names(true));
    if (suggestion.text[0])
        return gp_fail_at(err, GP_CONFIG, choice->place, "there is no loss \"%s\"%s", choice->kind, suggestion.text);
    return gp_fail_at(err, GP_CONFIG, choice->place, "there is no loss \"%s\"; this version has %s", choice->kind,
                      gp_list_names(gp_layer_names(true)).text);
}

static gp_status add_params(gp_graph *graph, int index, const gp_choice *choice, size_t *capacity, gp_error *err) {
    gp_node *node = &graph->nodes[index];
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    int count = node->layer->type->params ? node->layer->type->params(node->layer, specs) : 0;
    assert(count <= GP_LAYER_MAX_PARAMS);
    GP_RETURN_IF_FAILED(gp_layer_read_init(choice, specs, count, err));
    node->first_param = graph->param_count;
    GP_RETURN_IF_FAILED(GP_GROW(&graph->params, capacity, graph->param_count + count, err));
    for (int i = 0; i < count; i++) {
        gp_param *param = &graph->params[graph->param_count];
        GP_RETURN_IF_FAILED(gp_format_text(&param->name, err, "%s.%s", node->name, specs[i].suffix));
        graph->param_count++;
        node->param_count++;
        param->node = index;
        param->index = i;
        param->spec = specs[i];
        param->trained = !specs[i].buffer && !node->layer->frozen;
    }
    return GP_OK;
}

static gp_status infer_node(const gp_graph *graph, const gp_node *node, int count, gp_error *err) {
    gp_shape *shapes = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&shapes, count, err));
    for (int i = 0; i < count; i++) shapes[i] = graph->values[node->inputs[i]].shape;
    gp_status status = gp_layer_infer(node->layer, shapes, count, err);
    free(shapes);
    if (status == GP_CONFIG) gp_node_error(node, err);
    return status;
}

static bool makes_gradient(const gp_graph *graph, const gp_node *node) {
    for (int i = 0; i < node->param_count; i++)
        if (graph->params[node->first_param + i].trained) return true;
    for (int i = 0; i < node->input_count; i++)
        if (graph->values[node->inputs[i]].needs_grad) return true;
    return false;
}

/* Where every layer takes its values from. */
static gp_status find_sources(gp_graph *graph, const gp_entries *entries, gp_error *err) {
    gp_status status = GP_OK;
    for (int n = 0; n < entries->count; n++) {
        gp_node *node = &graph->nodes[n];
        gp_error next = {0};
        graph->node_count = n + 1;
        if (gp_entries_sources(entries, n, &node->inputs, &node->input_count, &next) != GP_OK)
            status = gp_error_join(err, status, &next);
        for (int i = 0; i < node->input_count; i++) node->inputs[i] = value_of(node->inputs[i]);
    }
    return status;
}

static gp_status add_layer(gp_graph *graph, gp_entries *entries, int index, size_t *capacity, gp_error *err) {
    gp_entry *entry = &entries->items[index];
    gp_node *node = &graph->nodes[index];
    graph->unit_end[entry->unit] = index + 1;
    node->place = entry->choice.place;
    node->unit = entry->unit;
    GP_RETURN_IF_FAILED(gp_copy_text(&node->name, entry->name, err));
    node->layer = entry->layer;
    entry->layer = NULL;
    if (!gp_yaml_get(entry->choice.options, "freeze")) node->layer->frozen = entries->groups[entry->group].frozen;
    node->layer->keeps = node->layer->keeps || entry->kept;
    GP_RETURN_IF_FAILED(infer_node(graph, node, node->input_count, err));
    GP_RETURN_IF_FAILED(add_params(graph, index, &entry->choice, capacity, err));
    node->output = FIRST_OUTPUT + index;
    graph->values[node->output] = (gp_value){.name = node->name,
                                             .shape = node->layer->output,
                                             .dtype = graph->types.storage,
                                             .producer = index,
                                             .needs_grad = makes_gradient(graph, node)};
    return GP_OK;
}

/* What the configuration says of a model, before any shape is known. */
typedef struct parts {
    gp_entries entries;
    gp_shape input;
    gp_choice loss_choice;
    gp_layer *loss; /* owned; NULL once a graph has taken it */
} parts;

static gp_status read_loss(const gp_yaml *loss, parts *out, gp_error *err) {
    const gp_layer_type *type = NULL;
    GP_RETURN_IF_FAILED(read_loss_type(loss, &out->loss_choice, &type, err));
    return gp_layer_create(type, &out->loss_choice, &out->loss, err);
}

static void fini_parts(parts *its) {
    gp_layer_destroy(&its->loss);
    gp_entries_fini(&its->entries);
}

/* All mistakes are joined. `checked`: nothing is missing; else it may be there under a wrong name. */
static gp_status read_parts(const gp_yaml *model, const gp_yaml *layers, bool checked, parts *out, gp_error *err) {
    const gp_yaml *loss = gp_yaml_get(model, "loss");
    gp_error next = {0};
    gp_status status = GP_OK;
    if (checked || gp_yaml_get(model, "input")) status = gp_model_input(model, &out->input, err);
    if (gp_entries_read(layers, &out->entries, &next) != GP_OK) status = gp_error_join(err, status, &next);
    next = (gp_error){0};
    if (loss && read_loss(loss, out, &next) != GP_OK) status = gp_error_join(err, status, &next);
    return status;
}

/* The target's shape and dtype are the loss's to say. */
static gp_status add_loss(gp_graph *graph, parts *its, gp_error *err) {
    int last = graph->node_count - 1;
    gp_node *node = &graph->nodes[graph->node_count++];
    node->place = its->loss_choice.place;
    node->unit = graph->layer_count - 1;
    node->output = -1;
    node->first_param = graph->param_count;
    GP_RETURN_IF_FAILED(gp_copy_text(&node->name, "loss", err));
    node->layer = its->loss;
    its->loss = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&node->inputs, 2, err));
    node->input_count = 2;
    node->inputs[0] = graph->nodes[last].output;
    node->inputs[1] = GP_VALUE_TARGET;
    GP_RETURN_IF_FAILED(infer_node(graph, node, 1, err));
    graph->values[GP_VALUE_TARGET].shape = node->layer->output;
    graph->values[GP_VALUE_TARGET].dtype = node->layer->type->target_is_class ? GP_I64 : graph->types.storage;
    return GP_OK;
}

static gp_status list_uses(gp_graph *graph, gp_error *err) {
    for (int n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++) graph->values[graph->nodes[n].inputs[i]].use_count++;
    for (int v = 0; v < graph->value_count; v++) {
        gp_value *value = &graph->values[v];
        GP_RETURN_IF_FAILED(GP_NEW(&value->uses, value->use_count, err));
        value->use_count = 0;
    }
    for (int n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++) {
            gp_value *value = &graph->values[graph->nodes[n].inputs[i]];
            value->uses[value->use_count++] = (gp_use){n, i};
        }
    return GP_OK;
}

static gp_status check_used(const gp_graph *graph, gp_error *err) {
    for (int n = 0; n < graph->node_count - 1; n++) {
        if (graph->values[graph->nodes[n].output].use_count > 0) continue;
        gp_fail(err, GP_CONFIG,
                "no layer uses its output; only the output of the last layer goes to the loss; name this layer in the "
                "from of a later one, or remove it");
        gp_node_error(&graph->nodes[n], err);
        return GP_CONFIG;
    }
    return GP_OK;
}

static gp_status enter_param_names(gp_graph *graph, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_names_init(&graph->param_names, (size_t)graph->param_count, err));
    for (int i = 0; i < graph->param_count; i++) {
        int first = gp_names_enter(&graph->param_names, graph->params[i].name, i);
        assert(first == i); /* layers' names differ, and so do a layer's suffixes, which have no dots */
        (void)first;
    }
    return GP_OK;
}

static gp_status fill_graph(gp_graph *graph, parts *its, gp_error *err) {
    gp_entries *entries = &its->entries;
    size_t param_capacity = 0;
    graph->types = gp_types_of(GP_F32);
    graph->layer_count = entries->unit_count;
    graph->value_count = FIRST_OUTPUT + entries->count;
    GP_RETURN_IF_FAILED(GP_NEW(&graph->nodes, entries->count + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&graph->unit_end, graph->layer_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&graph->values, graph->value_count, err));
    graph->values[GP_VALUE_INPUT] =
        (gp_value){.name = "input", .shape = its->input, .dtype = graph->types.storage, .producer = -1};
    graph->values[GP_VALUE_TARGET] = (gp_value){.name = "target", .producer = -1};
    GP_RETURN_IF_FAILED(find_sources(graph, entries, err));
    for (int i = 0; i < entries->count; i++) GP_RETURN_IF_FAILED(add_layer(graph, entries, i, &param_capacity, err));
    GP_RETURN_IF_FAILED(add_loss(graph, its, err));
    GP_RETURN_IF_FAILED(list_uses(graph, err));
    GP_RETURN_IF_FAILED(check_used(graph, err));
    return enter_param_names(graph, err);
}

gp_status gp_graph_build_list(const gp_yaml *model, const gp_yaml *layers, gp_graph **out, gp_error *err) {
    parts its = {.loss = NULL};
    gp_graph *graph = NULL;
    gp_status status = read_parts(model, layers, true, &its, err);
    if (status == GP_OK) status = GP_NEW(&graph, 1, err);
    if (status == GP_OK) status = fill_graph(graph, &its, err);
    fini_parts(&its);
    if (status != GP_OK) {
        gp_graph_destroy(&graph);
        return status;
    }
    *out = graph;
    return GP_OK;
}

gp_status gp_graph_check_list(const gp_yaml *model, const gp_yaml *layers, gp_error *err) {
    parts its = {.loss = NULL};
    gp_status status = read_parts(model, layers, false, &its, err);
    fini_parts(&its);
    return status;
}

static void fini_node(gp_node *node) {
    free(node->name);
    free(node->inputs);
    gp_layer_destroy(&node->layer);
}

void gp_graph_destroy(gp_graph **graph) {
    gp_graph *self = *graph;
    if (!self) return;
    for (int i = 0; i < self->node_count; i++) fini_node(&self->nodes[i]);
    for (int i = 0; self->values && i < self->value_count; i++) free(self->values[i].uses);
    for (int i = 0; i < self->param_count; i++) free(self->params[i].name);
    gp_names_fini(&self->param_names);
    free(self->nodes);
    free(self->unit_end);
    free(self->values);
    free(self->params);
    free(self);
    *graph = NULL;
}

void gp_graph_set_types(gp_graph *graph, gp_types types) {
    graph->types = types;
    for (int v = 0; v < graph->value_count; v++)
        if (gp_dtype_is_real(graph->values[v].dtype)) graph->values[v].dtype = types.storage;
}

void gp_graph_allow_tf32(gp_graph *graph) {
    for (int n = 0; n < graph->node_count; n++) graph->nodes[n].layer->tf32 = true;
}

int gp_graph_find_param(const gp_graph *graph, const char *name) {
    return gp_names_find(&graph->param_names, name);
}

static int64_t count_elements(const gp_graph *graph, bool frozen_only) {
    int64_t total = 0;
    for (int i = 0; i < graph->param_count; i++) {
        const gp_param *param = &graph->params[i];
        int64_t elements = 0;
        if (param->spec.buffer || (frozen_only && param->trained)) continue;
        if (gp_shape_elements(param->spec.shape, &elements)) total += elements;
    }
    return total;
}

int64_t gp_graph_param_elements(const gp_graph *graph) {
    return count_elements(graph, false);
}

int64_t gp_graph_frozen_elements(const gp_graph *graph) {
    return count_elements(graph, true);
}
