#include "balance/layer_bytes.h"

#include <stdlib.h>

#include "balance/keeping.h"
#include "base/memory.h"

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* A stage of its own keeps each value that it gives away; as a part of a stage a layer keeps those that some backward
 * pass reads. read: of each node's output. */
static void read_stage(const gp_plan *plan, int s, int micro_batches, int64_t samples, const bool *read,
                       gp_cut_bytes *out) {
    const gp_stage_plan *stage = &plan->stage[s];
    const gp_stage *its = &plan->stages->stage[s];
    int64_t fixed = (int64_t)stage->fixed, saved = (int64_t)stage->frame_stride[GP_FRAME_SAVED];
    for (size_t i = 0; i < stage->stats_count; i++)
        fixed += (int64_t)stage->stats[i].bytes * (micro_batches - plan->minis[0].pieces);
    for (size_t i = 0; i < its->gives.count && saved > 0; i++) {
        int value = its->gives.items[i];
        if (read[plan->graph->values[value].producer]) continue;
        saved -= (int64_t)gp_align_up(gp_value_bytes(plan->graph, value, samples), GP_ALIGNMENT);
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
    bool *read = NULL;
    GP_RETURN_IF_FAILED(plan_layers(request, worker, samples, &plan, err));
    gp_status status = GP_NEW(&read, graph->node_count, err);
    if (status == GP_OK && plan->minis[0].training) status = gp_keeping_read(graph, samples, read, err);
    for (int i = 0; i < graph->layer_count && status == GP_OK; i++)
        read_stage(plan, i, request->micro_batches, samples, read, &bytes[i]);
    free(read);
    gp_plan_destroy(&plan);
    return status;
}
