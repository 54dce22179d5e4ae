#include "schedule/stages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

gp_status gp_indices_add(gp_indices *indices, int item, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&indices->items, &indices->capacity, indices->count + 1, err));
    indices->items[indices->count++] = item;
    return GP_OK;
}

int gp_indices_find(const gp_indices *indices, int item) {
    for (size_t i = 0; i < indices->count; i++)
        if (indices->items[i] == item) return (int)i;
    return -1;
}

void gp_indices_fini(gp_indices *indices) {
    free(indices->items);
    indices->items = NULL;
    indices->count = indices->capacity = 0;
}

const char *gp_edge_kind_name(gp_edge_kind kind) {
    switch (kind) {
    case GP_EDGE_ACTIVATION: return "activation";
    case GP_EDGE_SKIP: return "skip";
    case GP_EDGE_GRADIENT: return "gradient";
    }
    return "?";
}

const char *gp_collective_kind_name(gp_collective_kind kind) {
    return kind == GP_COLLECTIVE_GATHER ? "gather" : "broadcast";
}

const char *gp_part_kind_name(gp_part_kind part) {
    return part == GP_PART_SQUARES ? "squares" : "scalars";
}

const char *gp_transport_name(gp_transport transport) {
    return transport == GP_TRANSPORT_THREADS ? "threads" : "?";
}

static gp_status place_nodes(gp_stages *stages, const int64_t *layers, gp_error *err) {
    const gp_graph *graph = stages->graph;
    int node = 0, placed = 0;
    for (int s = 0; s < stages->count; s++) {
        gp_stage *stage = &stages->stage[s];
        if (layers[s] < 1 || layers[s] > graph->layer_count - placed)
            return gp_fail(err, GP_CONFIG, "balance: stage %d of %d gets %" PRId64 " layers, but %d of %d are left", s,
                           stages->count, layers[s], graph->layer_count - placed, graph->layer_count);
        stage->first_node = node;
        placed += (int)layers[s];
        while (node < graph->unit_end[placed - 1]) stages->stage_of_node[node++] = s;
        stage->node_count = node - stage->first_node;
    }
    if (placed != graph->layer_count)
        return gp_fail(err, GP_CONFIG, "balance: %d layers are given to the stages, but the model has %d", placed,
                       graph->layer_count);
    for (; node < graph->node_count; node++) {
        stages->stage_of_node[node] = stages->count - 1;
        stages->stage[stages->count - 1].node_count++;
    }
    return GP_OK;
}

/* Uses stand in the order of execution, so that equal stages stand together. */
static gp_status find_takes(gp_stages *stages, int value, gp_error *err) {
    const gp_value *v = &stages->graph->values[value];
    int producer = v->producer < 0 ? -1 : stages->stage_of_node[v->producer];
    int last = producer;
    for (int u = 0; u < v->use_count; u++) {
        int user = stages->stage_of_node[v->uses[u].node];
        if (user == last) continue;
        last = user;
        gp_stage *stage = &stages->stage[user];
        GP_RETURN_IF_FAILED(gp_indices_add(&stage->takes, value, err));
        if (value == GP_VALUE_INPUT) stage->loads_input = true;
        if (value == GP_VALUE_TARGET) stage->loads_target = true;
        if (producer < 0) continue;
        gp_indices *gives = &stages->stage[producer].gives;
        if (gives->count == 0 || gives->items[gives->count - 1] != value)
            GP_RETURN_IF_FAILED(gp_indices_add(gives, value, err));
    }
    return GP_OK;
}

static gp_status add_edge(gp_stages *stages, gp_edge edge, int *out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&stages->edges, &stages->edge_capacity, stages->edge_count + 1, err));
    if (stages->graph && !gp_shape_elements(stages->graph->values[edge.value].shape, &edge.elements))
        return gp_fail(err, GP_INTERNAL, "value %d has no size", edge.value);
    *out = (int)stages->edge_count;
    stages->edges[stages->edge_count++] = edge;
    return GP_OK;
}

static gp_status add_forward_edges(gp_stages *stages, gp_error *err) {
    for (int s = 0; s < stages->count; s++) {
        gp_stage *stage = &stages->stage[s];
        for (size_t i = 0; i < stage->takes.count; i++) {
            int value = stage->takes.items[i];
            int producer = stages->graph->values[value].producer;
            if (producer < 0) continue;
            int from = stages->stage_of_node[producer];
            gp_edge edge = {from + 1 == s ? GP_EDGE_ACTIVATION : GP_EDGE_SKIP, value, from, s, 0};
            int index = -1;
            GP_RETURN_IF_FAILED(add_edge(stages, edge, &index, err));
            GP_RETURN_IF_FAILED(gp_indices_add(&stage->in, index, err));
            GP_RETURN_IF_FAILED(gp_indices_add(&stages->stage[from].out, index, err));
        }
    }
    return GP_OK;
}

/* The using stage before `stage` in the fold of a value's gradient, or its producer's. */
static int fold_target(const gp_stages *stages, int value, int stage) {
    const gp_value *v = &stages->graph->values[value];
    int before = stages->stage_of_node[v->producer];
    for (int u = 0; u < v->use_count; u++) {
        int user = stages->stage_of_node[v->uses[u].node];
        if (user >= stage) break;
        before = user;
    }
    return before;
}

static gp_status add_gradient_edges(gp_stages *stages, gp_error *err) {
    for (int s = stages->count - 1; s > 0; s--) {
        gp_stage *stage = &stages->stage[s];
        for (size_t i = 0; i < stage->takes.count; i++) {
            int value = stage->takes.items[i];
            if (!stages->graph->values[value].needs_grad) continue;
            int to = fold_target(stages, value, s);
            gp_edge edge = {GP_EDGE_GRADIENT, value, s, to, 0};
            int index = -1;
            GP_RETURN_IF_FAILED(add_edge(stages, edge, &index, err));
            GP_RETURN_IF_FAILED(gp_indices_add(&stage->grad_out, index, err));
            GP_RETURN_IF_FAILED(gp_indices_add(&stages->stage[to].grad_in, index, err));
        }
    }
    return GP_OK;
}

/* In front of the others. */
static gp_status add_collective(gp_stages *stages, gp_collective_kind kind, gp_part_kind part, gp_error *err) {
    int root = gp_stages_root(stages);
    if (stages->count == 1) return GP_OK;
    GP_RETURN_IF_FAILED(GP_GROW(&stages->collectives, &stages->collective_capacity, stages->collective_count + 1, err));
    gp_collective *its = stages->collectives;
    memmove(its + 1, its, stages->collective_count++ * sizeof *its);
    *its = (gp_collective){.kind = kind, .part = part, .group = &stages->all, .root = root};
    for (size_t i = 0; i < stages->all.stages.count; i++) {
        int stage = stages->all.stages.items[i];
        bool posts = (stage == root) == (kind == GP_COLLECTIVE_BROADCAST);
        GP_RETURN_IF_FAILED(gp_indices_add(posts ? &its->contributors : &its->collectors, stage, err));
    }
    return GP_OK;
}

static gp_status add_collectives(gp_stages *stages, gp_error *err) {
    for (int s = 0; s < stages->count; s++) GP_RETURN_IF_FAILED(gp_indices_add(&stages->all.stages, s, err));
    return add_collective(stages, GP_COLLECTIVE_BROADCAST, GP_PART_SCALARS, err);
}

/* Squares come before scalars, of which the clip is one. */
gp_status gp_stages_add_norms(gp_stages *stages, gp_error *err) {
    stages->norms = true;
    return add_collective(stages, GP_COLLECTIVE_GATHER, GP_PART_SQUARES, err);
}

gp_status gp_stages_create(const gp_graph *graph, const int64_t *layers, int count, gp_stages **out, gp_error *err) {
    gp_stages *stages = NULL;
    gp_status status = GP_NEW(&stages, 1, err);
    if (status != GP_OK) return status;
    stages->graph = graph;
    stages->count = count;
    status = GP_NEW(&stages->stage, count, err);
    if (status == GP_OK) status = GP_NEW(&stages->stage_of_node, graph->node_count, err);
    if (status == GP_OK) status = place_nodes(stages, layers, err);
    for (int v = 0; v < graph->value_count && status == GP_OK; v++) status = find_takes(stages, v, err);
    if (status == GP_OK) status = add_forward_edges(stages, err);
    if (status == GP_OK) status = add_gradient_edges(stages, err);
    if (status == GP_OK) status = add_collectives(stages, err);
    if (status != GP_OK) {
        gp_stages_destroy(&stages);
        return status;
    }
    *out = stages;
    return GP_OK;
}

static gp_status add_chain_edges(gp_stages *stages, gp_error *err) {
    int index = -1;
    for (int s = 1; s < stages->count; s++) {
        gp_edge edge = {GP_EDGE_ACTIVATION, s - 1, s - 1, s, 0};
        GP_RETURN_IF_FAILED(add_edge(stages, edge, &index, err));
        GP_RETURN_IF_FAILED(gp_indices_add(&stages->stage[s].in, index, err));
        GP_RETURN_IF_FAILED(gp_indices_add(&stages->stage[s - 1].out, index, err));
    }
    for (int s = stages->count - 1; s > 0; s--) {
        gp_edge edge = {GP_EDGE_GRADIENT, s - 1, s, s - 1, 0};
        GP_RETURN_IF_FAILED(add_edge(stages, edge, &index, err));
        GP_RETURN_IF_FAILED(gp_indices_add(&stages->stage[s].grad_out, index, err));
        GP_RETURN_IF_FAILED(gp_indices_add(&stages->stage[s - 1].grad_in, index, err));
    }
    return GP_OK;
}

gp_status gp_stages_create_chain(int count, gp_stages **out, gp_error *err) {
    gp_stages *stages = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&stages, 1, err));
    stages->count = count;
    gp_status status = GP_NEW(&stages->stage, count, err);
    if (status == GP_OK) status = add_chain_edges(stages, err);
    if (status == GP_OK) status = add_collectives(stages, err);
    if (status != GP_OK) {
        gp_stages_destroy(&stages);
        return status;
    }
    stages->stage[0].loads_input = true;
    stages->stage[count - 1].loads_target = true;
    *out = stages;
    return GP_OK;
}

void gp_stages_destroy(gp_stages **stages) {
    gp_stages *it = *stages;
    if (!it) return;
    for (int s = 0; it->stage && s < it->count; s++) {
        gp_stage *stage = &it->stage[s];
        gp_indices *lists[] = {&stage->takes, &stage->gives,   &stage->in,
                               &stage->out,   &stage->grad_in, &stage->grad_out};
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) gp_indices_fini(lists[i]);
    }
    for (size_t c = 0; c < it->collective_count; c++) {
        gp_indices_fini(&it->collectives[c].contributors);
        gp_indices_fini(&it->collectives[c].collectors);
    }
    gp_indices_fini(&it->all.stages);
    free(it->stage);
    free(it->stage_of_node);
    free(it->edges);
    free(it->collectives);
    free(it);
    *stages = NULL;
}
