#include "schedule/stages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/share.h"

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
    static const char *const names[] = {"gather", "broadcast", "scatter", "exchange"};
    return names[kind];
}

const char *gp_part_kind_name(gp_part_kind part) {
    static const char *const names[] = {"squares",   "scalars", "losses",    "statistics",
                                        "gradients", "blocks",  "parameters"};
    return names[part];
}

const char *gp_transport_name(gp_transport transport) {
    static const char *const names[] = {"threads", "mpi", "nccl"};
    return names[transport];
}

char *gp_stage_name(const gp_stages *stages, int stage, char text[GP_STAGE_NAME]) {
    const gp_stage *its = &stages->stage[stage];
    if (its->replicas > 1)
        snprintf(text, GP_STAGE_NAME, "replica %d of stage %d", its->replica, its->number);
    else
        snprintf(text, GP_STAGE_NAME, "stage %d", its->number);
    return text;
}

static int replicas_of(const gp_stages *stages, int number) {
    return stages->stage[stages->first[number]].replicas;
}

static int number_of(const gp_stages *stages, int node) {
    return stages->stage[stages->stage_of_node[node]].number;
}

/* All replicas, each without layers. `replicas`: NULL: one of each. */
static gp_status create(int numbers, const int *replicas, gp_stages **out, gp_error *err) {
    gp_stages *stages = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&stages, 1, err));
    *out = stages;
    stages->numbers = numbers;
    GP_RETURN_IF_FAILED(GP_NEW(&stages->first, numbers, err));
    for (int n = 0; n < numbers; n++) stages->count += replicas ? replicas[n] : 1;
    GP_RETURN_IF_FAILED(GP_NEW(&stages->stage, stages->count, err));
    for (int n = 0, s = 0; n < numbers; n++) {
        int its = replicas ? replicas[n] : 1;
        stages->first[n] = s;
        for (int r = 0; r < its; r++)
            stages->stage[s++] = (gp_stage){.number = n, .replica = r, .replicas = its, .group = 1};
    }
    return GP_OK;
}

static gp_status place_nodes(gp_stages *stages, const int64_t *layers, gp_error *err) {
    const gp_graph *graph = stages->graph;
    int node = 0, placed = 0;
    for (int n = 0; n < stages->numbers; n++) {
        gp_stage *stage = &stages->stage[stages->first[n]];
        if (layers[n] < 1 || layers[n] > graph->layer_count - placed)
            return gp_fail(err, GP_CONFIG, "balance: stage %d of %d gets %" PRId64 " layers, but %d of %d are left", n,
                           stages->numbers, layers[n], graph->layer_count - placed, graph->layer_count);
        stage->first_node = node;
        placed += (int)layers[n];
        int end = n == stages->numbers - 1 ? graph->node_count : graph->unit_end[placed - 1];
        while (node < end) stages->stage_of_node[node++] = stages->first[n];
        for (int r = 0; r < stage->replicas; r++) {
            stage[r].first_node = stage->first_node;
            stage[r].node_count = node - stage->first_node;
        }
    }
    if (placed != graph->layer_count)
        return gp_fail(err, GP_CONFIG, "balance: %d layers are given to the stages, but the model has %d", placed,
                       graph->layer_count);
    return GP_OK;
}

static int least_common_multiple(int a, int b) {
    int multiple = a;
    while (multiple % b != 0) multiple += a;
    return multiple;
}

/* Groups of several layers that are not within one another make one together. */
static gp_status add_group(gp_stage *stage, const gp_node *node, gp_error *err) {
    int group = gp_layer_group(node->layer, stage->replicas);
    if (stage->replicas % group == 0) {
        for (int r = 0; r < stage->replicas; r++) stage[r].group = least_common_multiple(stage[r].group, group);
        return GP_OK;
    }
    gp_fail(err, GP_CONFIG, "sync: %d does not divide the %d replicas of stage %d", group, stage->replicas,
            stage->number);
    return gp_node_error(node, err);
}

static gp_status find_groups(gp_stages *stages, gp_error *err) {
    for (int n = 0; n < stages->graph->node_count; n++)
        GP_RETURN_IF_FAILED(add_group(&stages->stage[stages->stage_of_node[n]], &stages->graph->nodes[n], err));
    return GP_OK;
}

/* The stage takes the value, which the stage of that number makes; negative: the host. */
static gp_status add_take(gp_stages *stages, int value, int producer, gp_stage *stage, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_indices_add(&stage->takes, value, err));
    if (value == GP_VALUE_INPUT) stage->loads_input = true;
    if (value == GP_VALUE_TARGET) stage->loads_target = true;
    for (int r = 0; producer >= 0 && r < replicas_of(stages, producer); r++) {
        gp_indices *gives = &stages->stage[stages->first[producer] + r].gives;
        if (gives->count == 0 || gives->items[gives->count - 1] != value)
            GP_RETURN_IF_FAILED(gp_indices_add(gives, value, err));
    }
    return GP_OK;
}

/* Uses stand in the order of execution, so that equal stages stand together. */
static gp_status find_takes(gp_stages *stages, int value, gp_error *err) {
    const gp_value *v = &stages->graph->values[value];
    int producer = v->producer < 0 ? -1 : number_of(stages, v->producer);
    int last = producer;
    for (int u = 0; u < v->use_count; u++) {
        int user = number_of(stages, v->uses[u].node);
        if (user == last) continue;
        last = user;
        for (int r = 0; r < replicas_of(stages, user); r++)
            GP_RETURN_IF_FAILED(add_take(stages, value, producer, &stages->stage[stages->first[user] + r], err));
    }
    return GP_OK;
}

/* Whether two replicas have a sample of a micro-batch in common, of one size or another. */
static bool meet(const gp_stages_request *request, const gp_stage *a, const gp_stage *b) {
    if (a->replicas == b->replicas) return a->replica == b->replica;
    for (int i = 0; i < request->sample_count; i++) {
        gp_share of_a = gp_share_of(request->samples[i], a->replicas, a->replica);
        gp_share of_b = gp_share_of(request->samples[i], b->replicas, b->replica);
        if (gp_share_common(of_a, of_b).count > 0) return true;
    }
    return false;
}

static gp_status add_edge(gp_stages *stages, gp_edge edge, gp_error *err) {
    gp_stage *from = &stages->stage[edge.from], *to = &stages->stage[edge.to];
    bool gradient = edge.kind == GP_EDGE_GRADIENT;
    GP_RETURN_IF_FAILED(GP_GROW(&stages->edges, &stages->edge_capacity, stages->edge_count + 1, err));
    if (stages->graph && !gp_shape_elements(stages->graph->values[edge.value].shape, &edge.elements))
        return gp_fail(err, GP_INTERNAL, "value %d has no size", edge.value);
    int index = (int)stages->edge_count;
    stages->edges[stages->edge_count++] = edge;
    GP_RETURN_IF_FAILED(gp_indices_add(gradient ? &to->grad_in : &to->in, index, err));
    return gp_indices_add(gradient ? &from->grad_out : &from->out, index, err);
}

static gp_status add_forward_edges(gp_stages *stages, const gp_stages_request *request, gp_error *err) {
    for (int s = 0; s < stages->count; s++) {
        const gp_stage *stage = &stages->stage[s];
        for (size_t i = 0; i < stage->takes.count; i++) {
            int value = stage->takes.items[i];
            int producer = stages->graph->values[value].producer;
            if (producer < 0) continue;
            int number = number_of(stages, producer);
            gp_edge_kind kind = number + 1 == stage->number ? GP_EDGE_ACTIVATION : GP_EDGE_SKIP;
            for (int from = stages->first[number], r = 0; r < replicas_of(stages, number); r++)
                if (meet(request, &stages->stage[from + r], stage))
                    GP_RETURN_IF_FAILED(add_edge(stages, (gp_edge){kind, value, from + r, s, 0}, err));
        }
    }
    return GP_OK;
}

/* The using stage before `number` in the fold of a value's gradient, or its producer's. */
static int fold_target(const gp_stages *stages, int value, int number) {
    const gp_value *v = &stages->graph->values[value];
    int before = number_of(stages, v->producer);
    for (int u = 0; u < v->use_count; u++) {
        int user = number_of(stages, v->uses[u].node);
        if (user >= number) break;
        before = user;
    }
    return before;
}

/* Between the replicas of two stages: at either end, edges of one value stand together. */
static gp_status add_gradient_edges_between(gp_stages *stages, const gp_stages_request *request, int value, int from,
                                            int to, gp_error *err) {
    for (int t = stages->first[to], r = 0; r < replicas_of(stages, to); r++, t++)
        for (int f = stages->first[from], q = 0; q < replicas_of(stages, from); q++, f++)
            if (meet(request, &stages->stage[f], &stages->stage[t]))
                GP_RETURN_IF_FAILED(add_edge(stages, (gp_edge){GP_EDGE_GRADIENT, value, f, t, 0}, err));
    return GP_OK;
}

static gp_status add_gradient_edges(gp_stages *stages, const gp_stages_request *request, gp_error *err) {
    for (int n = stages->numbers - 1; n > 0; n--) {
        const gp_indices *takes = &stages->stage[stages->first[n]].takes;
        for (size_t i = 0; i < takes->count; i++) {
            int value = takes->items[i];
            if (!stages->graph->values[value].needs_grad) continue;
            int to = fold_target(stages, value, n);
            GP_RETURN_IF_FAILED(add_gradient_edges_between(stages, request, value, n, to, err));
        }
    }
    return GP_OK;
}

static gp_status new_collective(gp_stages *stages, gp_collective_kind kind, gp_part_kind part, int root,
                                gp_collective **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&stages->collectives, &stages->collective_capacity, stages->collective_count + 1, err));
    *out = &stages->collectives[stages->collective_count++];
    **out = (gp_collective){.kind = kind, .part = part, .transport = GP_TRANSPORT_THREADS, .buckets = 1, .root = root};
    return GP_OK;
}

/* A gather to the root, or a broadcast from it. `all`: of every replica, else of the first of each stage. */
static gp_status add_rooted(gp_stages *stages, gp_collective_kind kind, gp_part_kind part, bool all, gp_error *err) {
    int root = gp_stages_root(stages);
    gp_collective *its;
    GP_RETURN_IF_FAILED(new_collective(stages, kind, part, root, &its, err));
    for (int s = 0; s < stages->count; s++) {
        bool posts = (s == root) == (kind == GP_COLLECTIVE_BROADCAST);
        if (!all && stages->stage[s].replica > 0) continue;
        GP_RETURN_IF_FAILED(gp_indices_add(posts ? &its->contributors : &its->collectors, s, err));
    }
    return GP_OK;
}

/* A gather of what a stage's replicas have, to the first of them. */
static gp_status add_to_first(gp_stages *stages, gp_part_kind part, int number, gp_error *err) {
    int first = stages->first[number];
    gp_collective *its;
    if (replicas_of(stages, number) == 1) return GP_OK;
    GP_RETURN_IF_FAILED(new_collective(stages, GP_COLLECTIVE_GATHER, part, first, &its, err));
    for (int r = 1; r < replicas_of(stages, number); r++)
        GP_RETURN_IF_FAILED(gp_indices_add(&its->contributors, first + r, err));
    return gp_indices_add(&its->collectors, first, err);
}

static gp_status add_mutual(gp_stages *stages, gp_collective_kind kind, gp_part_kind part, int number, gp_error *err) {
    gp_collective *its;
    GP_RETURN_IF_FAILED(new_collective(stages, kind, part, -1, &its, err));
    for (int r = 0; r < replicas_of(stages, number); r++) {
        GP_RETURN_IF_FAILED(gp_indices_add(&its->contributors, stages->first[number] + r, err));
        GP_RETURN_IF_FAILED(gp_indices_add(&its->collectors, stages->first[number] + r, err));
    }
    return GP_OK;
}

/* Bytes of the gradients of a stage, without padding; a graph for tests has no parameters. */
static int64_t gradient_bytes(const gp_stages *stages, int number) {
    const gp_stage *stage = &stages->stage[stages->first[number]];
    const gp_graph *graph = stages->graph;
    int64_t sum = 0, elements;
    for (int n = 0; graph && n < stage->node_count; n++)
        for (int i = 0; i < graph->nodes[stage->first_node + n].param_count; i++) {
            const gp_param *param = &graph->params[graph->nodes[stage->first_node + n].first_param + i];
            if (param->trained && gp_shape_elements(param->spec.shape, &elements)) sum += elements;
        }
    return graph ? sum * (int64_t)gp_dtype_size(graph->types.accumulate) : 0;
}

static int count_buckets(const gp_stages *stages, int number) {
    int64_t bytes = gradient_bytes(stages, number), each = (int64_t)stages->bucket;
    int64_t buckets = bytes > each ? (bytes + each - 1) / each : 1;
    return buckets > GP_MOST_BUCKETS ? GP_MOST_BUCKETS : (int)buckets;
}

/* One of each bucket. */
static gp_status add_buckets(gp_stages *stages, gp_collective_kind kind, int number, gp_error *err) {
    int buckets = stages->stage[stages->first[number]].buckets;
    for (int b = 0; b < buckets; b++) {
        GP_RETURN_IF_FAILED(add_mutual(stages, kind, GP_PART_GRADIENTS, number, err));
        stages->collectives[stages->collective_count - 1].bucket = b;
        stages->collectives[stages->collective_count - 1].buckets = buckets;
    }
    return GP_OK;
}

/* What the replicas of each stage exchange; the last stage first, as its backward passes end first. */
static gp_status add_exchanges(gp_stages *stages, gp_error *err) {
    for (int n = stages->numbers - 1; n >= 0; n--) {
        if (replicas_of(stages, n) == 1) continue;
        int buckets = count_buckets(stages, n);
        for (int r = 0; r < replicas_of(stages, n); r++) {
            stages->stage[stages->first[n] + r].buckets = buckets;
            stages->stage[stages->first[n] + r].scatter = stages->collective_count;
        }
        GP_RETURN_IF_FAILED(add_buckets(stages, GP_COLLECTIVE_SCATTER, n, err));
        if (!stages->shards)
            GP_RETURN_IF_FAILED(add_buckets(stages, GP_COLLECTIVE_EXCHANGE, n, err));
        else if (stages->norms)
            GP_RETURN_IF_FAILED(add_to_first(stages, GP_PART_BLOCKS, n, err));
        GP_RETURN_IF_FAILED(add_mutual(stages, GP_COLLECTIVE_EXCHANGE, GP_PART_STATISTICS, n, err));
    }
    return GP_OK;
}

/* After all else: whether the update may be applied must be known. */
static gp_status add_parameters(gp_stages *stages, gp_error *err) {
    for (int n = stages->numbers - 1; n >= 0; n--)
        if (gp_stage_shards(stages, stages->first[n]))
            GP_RETURN_IF_FAILED(add_mutual(stages, GP_COLLECTIVE_EXCHANGE, GP_PART_PARAMETERS, n, err));
    return GP_OK;
}

static void clear_collectives(gp_stages *stages) {
    for (size_t c = 0; c < stages->collective_count; c++) {
        gp_indices_fini(&stages->collectives[c].contributors);
        gp_indices_fini(&stages->collectives[c].collectors);
    }
    stages->collective_count = 0;
}

static void number_places(gp_stages *stages) {
    stages->places = 0;
    for (size_t c = 0; c < stages->collective_count; c++) {
        gp_collective *its = &stages->collectives[c];
        const gp_indices *lists[] = {&its->contributors, &its->collectors};
        int lowest = stages->count, highest = -1;
        for (int i = 0; i < 2; i++) {
            if (lists[i]->count == 0) continue;
            int first = lists[i]->items[0], last = lists[i]->items[lists[i]->count - 1];
            if (first < lowest) lowest = first;
            if (last > highest) highest = last;
        }
        its->lowest = lowest;
        its->places = stages->places;
        if (highest >= lowest) stages->places += (size_t)(highest - lowest) + 1;
    }
}

/* Scalars say how much to clip, which follows from the squares of gradients that are complete. Without norms they are
 * known after the last forward pass. */
static gp_status add_all_collectives(gp_stages *stages, gp_error *err) {
    if (stages->count == 1) return GP_OK;
    GP_RETURN_IF_FAILED(add_to_first(stages, GP_PART_LOSSES, stages->numbers - 1, err));
    if (stages->norms) {
        GP_RETURN_IF_FAILED(add_exchanges(stages, err));
        if (stages->numbers > 1)
            GP_RETURN_IF_FAILED(add_rooted(stages, GP_COLLECTIVE_GATHER, GP_PART_SQUARES, false, err));
        GP_RETURN_IF_FAILED(add_rooted(stages, GP_COLLECTIVE_BROADCAST, GP_PART_SCALARS, true, err));
        return add_parameters(stages, err);
    }
    GP_RETURN_IF_FAILED(add_rooted(stages, GP_COLLECTIVE_BROADCAST, GP_PART_SCALARS, true, err));
    GP_RETURN_IF_FAILED(add_exchanges(stages, err));
    return add_parameters(stages, err);
}

static gp_status add_collectives(gp_stages *stages, gp_error *err) {
    GP_RETURN_IF_FAILED(add_all_collectives(stages, err));
    number_places(stages);
    return GP_OK;
}

gp_status gp_stages_add_norms(gp_stages *stages, gp_error *err) {
    stages->norms = true;
    clear_collectives(stages);
    return add_collectives(stages, err);
}

static gp_status fill(gp_stages *stages, const gp_stages_request *request, gp_error *err) {
    stages->graph = request->graph;
    stages->shards = request->shards;
    stages->bucket = request->bucket ? request->bucket : GP_BUCKET_BYTES;
    GP_RETURN_IF_FAILED(GP_NEW(&stages->stage_of_node, request->graph->node_count, err));
    GP_RETURN_IF_FAILED(place_nodes(stages, request->layers, err));
    GP_RETURN_IF_FAILED(find_groups(stages, err));
    for (int v = 0; v < request->graph->value_count; v++) GP_RETURN_IF_FAILED(find_takes(stages, v, err));
    GP_RETURN_IF_FAILED(add_forward_edges(stages, request, err));
    GP_RETURN_IF_FAILED(add_gradient_edges(stages, request, err));
    return add_collectives(stages, err);
}

gp_status gp_stages_create(const gp_stages_request *request, gp_stages **out, gp_error *err) {
    gp_stages *stages = NULL;
    gp_status status = create(request->numbers, request->replicas, &stages, err);
    if (status == GP_OK) status = fill(stages, request, err);
    if (status != GP_OK) {
        gp_stages_destroy(&stages);
        return status;
    }
    *out = stages;
    return GP_OK;
}

static gp_status fill_chain(gp_stages *stages, gp_error *err) {
    int last = stages->count - 1;
    for (int s = 1; s <= last; s++)
        GP_RETURN_IF_FAILED(add_edge(stages, (gp_edge){GP_EDGE_ACTIVATION, s - 1, s - 1, s, 0}, err));
    for (int s = last; s > 0; s--)
        GP_RETURN_IF_FAILED(add_edge(stages, (gp_edge){GP_EDGE_GRADIENT, s - 1, s, s - 1, 0}, err));
    stages->stage[0].loads_input = true;
    stages->stage[last].loads_target = true;
    return add_collectives(stages, err);
}

gp_status gp_stages_create_chain(int count, gp_stages **out, gp_error *err) {
    gp_stages *stages = NULL;
    gp_status status = create(count, NULL, &stages, err);
    if (status == GP_OK) status = fill_chain(stages, err);
    if (status != GP_OK) {
        gp_stages_destroy(&stages);
        return status;
    }
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
    clear_collectives(it);
    free(it->stage);
    free(it->first);
    free(it->stage_of_node);
    free(it->edges);
    free(it->collectives);
    free(it);
    *stages = NULL;
}
