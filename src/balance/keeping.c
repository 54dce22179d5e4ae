#include "balance/keeping.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "profile/cost.h"

/* Nodes in a row as a stage's layers. */
typedef struct reader {
    gp_keeping *out;
    const gp_graph *graph;
    int first; /* node */
    int64_t samples;
    gp_rates rates;             /* of the stage's device */
    const gp_device_kind *kind; /* its; NULL: any */
    int threads;                /* of the device, ≥ 1 */
    double *counted;            /* [layer] seconds of computing it again */
} reader;

/* The stage's layer that makes a value; −1: it comes from elsewhere. */
static int maker_of(const reader *r, int value) {
    int node = r->graph->values[value].producer;
    return node >= r->first && node - r->first < r->out->count ? node - r->first : -1;
}

/* A forward op's sides count only where it is computed again at all. */
static void read_op(const reader *r, int n, const gp_lowered_op *op, bool *more) {
    const gp_node *node = &r->graph->nodes[r->first + n];
    if (op->pass == GP_PASS_FORWARD && !(op->flags & GP_LOWERED_ONCE)) {
        double flops, bytes;
        gp_device_count(r->kind, &op->desc, &flops, &bytes);
        r->counted[n] += gp_rates_seconds(&r->rates, flops, bytes);
    }
    for (int i = 0; i < GP_MAX_OPERANDS && op->pass == GP_PASS_BACKWARD; i++) {
        gp_role role = op->ref[i].role;
        int maker = role == GP_ROLE_INPUT ? maker_of(r, node->inputs[op->ref[i].index]) : -1;
        if (role == GP_ROLE_OUTPUT) r->out->layers[n].read = true;
        if (role == GP_ROLE_SIDE) *more = true;
        if (maker >= 0) r->out->layers[maker].read = true;
    }
}

static gp_status read_node(const reader *r, int n, gp_error *err) {
    int index = r->first + n;
    const gp_node *node = &r->graph->nodes[index];
    gp_lowering lowering;
    gp_lowering_init(&lowering, r->graph->types, r->samples, (uint32_t)index);
    lowering.evaluate_only = true; /* what training forbids is the plan's to refuse */
    gp_status status = node->layer->type->lower(node->layer, &lowering, err);
    if (status != GP_OK) gp_node_error(node, err);
    for (size_t o = 0; o < lowering.count && status == GP_OK; o++) {
        lowering.ops[o].desc.threads = (uint32_t)r->threads;
        if (!gp_lowered_is_dead(r->graph, index, &lowering.ops[o]))
            read_op(r, n, &lowering.ops[o], &r->out->layers[n].more);
    }
    gp_lowering_fini(&lowering);
    return status;
}

static void list_inputs(const reader *r, int n, int **next) {
    const gp_node *node = &r->graph->nodes[r->first + n];
    gp_keep_layer *layer = &r->out->layers[n];
    int *inputs = *next;
    layer->inputs = inputs;
    for (int i = 0; i < node->input_count; i++) {
        int maker = maker_of(r, node->inputs[i]);
        bool seen = maker < 0;
        for (int j = 0; j < layer->input_count && !seen; j++) seen = inputs[j] == maker;
        if (!seen) inputs[layer->input_count++] = maker;
    }
    *next += layer->input_count;
}

/* It stands in the stash of every micro-batch, and no longer in what each one that is computed again fills. */
static void find_bytes(const reader *r, int n, const gp_stage_plan *planned, bool kept) {
    int output = r->graph->nodes[r->first + n].output;
    gp_keep_layer *layer = &r->out->layers[n];
    int64_t copies = planned->slots[GP_FRAME_STASH] - (layer->read ? planned->slots[GP_FRAME_SAVED] : 0);
    layer->fixed = output < 0;
    if (layer->fixed || kept || copies <= 0) return;
    layer->bytes = copies * (int64_t)gp_align_up(gp_value_bytes(r->graph, output, r->samples), GP_ALIGNMENT);
}

/* The profile's time of a layer of several nodes is shared out as they are counted. */
static void find_times(const reader *r, const gp_stage_plan *planned, const gp_profile *profile) {
    const gp_profile_device *row = profile ? gp_profile_find(profile, &planned->spec) : NULL;
    for (int n = 0; n < r->out->count; n++) {
        const gp_node *nodes = &r->graph->nodes[r->first];
        double seconds = r->counted[n], all = 0;
        for (int m = 0; m < r->out->count && row && row->layers; m++)
            if (nodes[m].unit == nodes[n].unit) all += r->counted[m];
        if (row && row->layers && all > 0)
            seconds = row->slowdown * row->layers[nodes[n].unit].time[GP_PROFILE_TIME_RECOMPUTE] * r->counted[n] / all *
                      (double)r->samples / (double)profile->identity.samples;
        r->out->layers[n].time = seconds * 1e12 < 0x1p52 ? (int64_t)(seconds * 1e12) : INT64_C(1) << 52;
    }
}

static gp_status read_nodes(reader *r, gp_error *err) {
    size_t inputs = 0;
    for (int n = 0; n < r->out->count; n++) inputs += (size_t)r->graph->nodes[r->first + n].input_count;
    GP_RETURN_IF_FAILED(GP_NEW(&r->out->layers, r->out->count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&r->out->inputs, inputs, err));
    GP_RETURN_IF_FAILED(GP_NEW(&r->counted, r->out->count, err));
    int *next = r->out->inputs;
    for (int n = 0; n < r->out->count; n++) {
        list_inputs(r, n, &next);
        GP_RETURN_IF_FAILED(read_node(r, n, err));
    }
    return GP_OK;
}

gp_status gp_keeping_init(gp_keeping *keeping, const gp_plan *plan, int stage, int64_t samples, const bool *keeps,
                          const gp_profile *profile, gp_error *err) {
    const gp_stage *its = &plan->stages->stage[stage];
    const gp_device_spec *spec = &plan->stage[stage].spec;
    reader r = {.out = keeping,
                .graph = plan->graph,
                .first = its->first_node,
                .samples = samples,
                .rates = gp_profile_choosing_rates(profile, spec),
                .kind = spec->kind,
                .threads = spec->threads > 1 ? spec->threads : 1};
    *keeping = (gp_keeping){.count = its->node_count};
    gp_status status = read_nodes(&r, err);
    for (int n = 0; n < its->node_count && status == GP_OK; n++)
        find_bytes(&r, n, &plan->stage[stage], keeps[its->first_node + n]);
    if (status == GP_OK) find_times(&r, &plan->stage[stage], profile);
    free(r.counted);
    if (status != GP_OK) gp_keeping_fini(keeping);
    return status;
}

/* All nodes of a graph, at assumed rates. device NULL: any. */
static gp_status read_graph(reader *r, gp_keeping *all, const gp_graph *graph, int64_t samples,
                            const gp_device_spec *device, gp_error *err) {
    int threads = device && device->threads > 1 ? device->threads : 1;
    *all = (gp_keeping){.count = graph->node_count};
    *r = (reader){.out = all,
                  .graph = graph,
                  .samples = samples,
                  .rates = gp_rates_assumed(threads),
                  .kind = device ? device->kind : NULL,
                  .threads = threads};
    return read_nodes(r, err);
}

/* A layer that runs in neither case is behind all that the backward pass reads. It counts as if it ran: the cut may
 * change that. */
static void share_out(const reader *r, const bool *runs, const bool *runs_still, double *share) {
    for (int i = 0; i < r->graph->layer_count; i++) {
        double all = 0, left = 0;
        for (int n = i ? r->graph->unit_end[i - 1] : 0; n < r->graph->unit_end[i]; n++) {
            all += r->counted[n];
            left += runs_still[n] || !runs[n] ? r->counted[n] : 0;
        }
        share[i] = all > 0 ? left / all : 1;
    }
}

gp_status gp_keeping_shares(const gp_graph *graph, int64_t samples, const bool *keeps, const gp_device_spec *device,
                            double *share, gp_error *err) {
    size_t count = (size_t)graph->node_count;
    bool *runs = NULL; /* without kept outputs; with them; then the kept outputs: none */
    gp_keeping all;
    reader r;
    for (int i = 0; i < graph->layer_count; i++) share[i] = 1;
    if (!memchr(keeps, true, count)) return GP_OK;
    gp_status status = read_graph(&r, &all, graph, samples, device, err);
    if (status == GP_OK) status = GP_NEW(&runs, 3 * count, err);
    if (status == GP_OK) {
        gp_keep_measure(all.layers, all.count, runs + 2 * count, runs);
        gp_keep_measure(all.layers, all.count, keeps, runs + count);
        share_out(&r, runs, runs + count, share);
    }
    free(runs);
    free(r.counted);
    gp_keeping_fini(&all);
    return status;
}

gp_status gp_keeping_read(const gp_graph *graph, int64_t samples, bool *read, gp_error *err) {
    gp_keeping all;
    reader r;
    gp_status status = read_graph(&r, &all, graph, samples, NULL, err);
    for (int n = 0; n < all.count && status == GP_OK; n++) read[n] = all.layers[n].read;
    free(r.counted);
    gp_keeping_fini(&all);
    return status;
}

void gp_keeping_fini(gp_keeping *keeping) {
    free(keeping->layers);
    free(keeping->inputs);
    *keeping = (gp_keeping){0};
}
