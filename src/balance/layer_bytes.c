#include "balance/layer_bytes.h"

#include <stdlib.h>

#include "base/memory.h"

/* A stage of its own keeps each value that it gives away; as a part of a stage a layer keeps those that some backward
 * pass reads. */
static gp_status find_kept(const gp_graph *graph, int64_t samples, bool *kept, gp_error *err) {
    for (int n = 0; n < graph->node_count; n++) {
        const gp_node *its = &graph->nodes[n];
        gp_lowering lowering;
        gp_lowering_init(&lowering, graph->types, samples, (uint32_t)n);
        gp_status status = its->layer->type->lower(its->layer, &lowering, err);
        if (status != GP_OK) gp_node_error(its, err);
        for (size_t o = 0; o < lowering.count && status == GP_OK; o++) {
            const gp_lowered_op *op = &lowering.ops[o];
            if (op->pass != GP_PASS_BACKWARD || gp_lowered_is_dead(graph, n, op)) continue;
            for (int i = 0; i < GP_MAX_OPERANDS; i++) {
                if (op->ref[i].role == GP_ROLE_INPUT) kept[its->inputs[op->ref[i].index]] = true;
                if (op->ref[i].role == GP_ROLE_OUTPUT) kept[its->output] = true;
            }
        }
        gp_lowering_fini(&lowering);
        GP_RETURN_IF_FAILED(status);
    }
    return GP_OK;
}

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void read_stage(const gp_plan *plan, int s, int micro_batches, int64_t samples, const bool *kept,
                       gp_cut_bytes *out) {
    const gp_stage_plan *stage = &plan->stage[s];
    const gp_stage *its = &plan->stages->stage[s];
    int64_t fixed = (int64_t)stage->fixed, saved = (int64_t)stage->frame_stride[GP_FRAME_SAVED];
    for (size_t i = 0; i < stage->stats_count; i++)
        fixed += (int64_t)stage->stats[i].bytes * (micro_batches - plan->minis[0].pieces);
    for (size_t i = 0; i < its->gives.count && saved > 0; i++) {
        const gp_value *value = &plan->graph->values[its->gives.items[i]];
        gp_tensor tensor = gp_tensor_samples(value->dtype, samples, value->shape);
        if (!kept[its->gives.items[i]]) saved -= (int64_t)gp_align_up(gp_tensor_bytes(&tensor), GP_ALIGNMENT);
    }
    out->fixed = largest(out->fixed, fixed);
    out->saved = largest(out->saved, saved);
    out->transient = largest(out->transient, (int64_t)(stage->transient + stage->workspace));
}

static gp_status plan_layers(const gp_plan_request *request, int worker, int64_t samples, gp_plan **out,
                             gp_error *err) {
    int count = request->graph->layer_count;
    int64_t *ones = NULL;
    gp_device_spec *devices = NULL;
    gp_status status = GP_NEW(&ones, count, err);
    if (status == GP_OK) status = GP_NEW(&devices, count, err);
    for (int i = 0; i < count && status == GP_OK; i++) {
        ones[i] = 1;
        devices[i] = request->devices[worker];
    }
    /* Two micro-batches are enough for one that is kept and one that is not. */
    gp_mini_size size = {.training = false};
    for (int i = 0; i < request->size_count; i++) size.training |= request->sizes[i].training;
    gp_plan_request alone = *request;
    alone.layers = ones;
    alone.stages = count;
    alone.devices = devices;
    alone.micro_batches = request->micro_batches < 2 ? request->micro_batches : 2;
    alone.batch = size.samples = samples * alone.micro_batches;
    alone.schedule = (gp_schedule){.kind = GP_SCHEDULE_GPIPE, .chunks = 1};
    if (alone.checkpoints) alone.checkpoint = GP_CHECKPOINT_EXCEPT_LAST; /* has every routine */
    alone.checkpoints = NULL;
    alone.lockstep = false;
    alone.sizes = &size;
    alone.size_count = 1;
    if (status == GP_OK) status = gp_plan_create(&alone, out, err);
    free(ones);
    free(devices);
    return status;
}

gp_status gp_layer_bytes(const gp_plan_request *request, int worker, gp_cut_bytes *bytes, gp_error *err) {
    const gp_graph *graph = request->graph;
    int64_t samples = (request->batch + request->micro_batches - 1) / request->micro_batches;
    gp_plan *plan = NULL;
    bool *kept = NULL;
    GP_RETURN_IF_FAILED(plan_layers(request, worker, samples, &plan, err));
    gp_status status = GP_NEW(&kept, graph->value_count, err);
    if (status == GP_OK && plan->minis[0].training) status = find_kept(graph, samples, kept, err);
    for (int i = 0; i < graph->layer_count && status == GP_OK; i++)
        read_stage(plan, i, request->micro_batches, samples, kept, &bytes[i]);
    free(kept);
    gp_plan_destroy(&plan);
    return status;
}
