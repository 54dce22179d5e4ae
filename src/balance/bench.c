#include "balance/bench.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "balance/bench_internal.h"
#include "balance/cost.h"
#include "balance/partition.h"
#include "base/memory.h"

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Two micro-batches: one that is computed again, one that is kept. */
static gp_status make_plan(gp_bench *bench, const int64_t *layers, int stages, gp_error *err) {
    const gp_bench_request *request = &bench->request;
    const gp_mini_size size = {2 * request->samples, true};
    gp_device_spec *devices = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&devices, stages, err));
    for (int s = 0; s < stages; s++) devices[s] = request->spec;
    const gp_plan_request plan_request = {.graph = request->graph,
                                          .layers = layers,
                                          .stages = stages,
                                          .devices = devices,
                                          .real = request->real,
                                          .update = request->update,
                                          .clip_norm = request->clip_norm,
                                          .batch = size.samples,
                                          .micro_batches = 2,
                                          .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                                          .sizes = &size,
                                          .size_count = 1};
    gp_status status = gp_plan_create(&plan_request, &bench->plan, err);
    free(devices);
    return status;
}

static gp_status cut(gp_bench *bench, int stages, gp_error *err) {
    const gp_bench_request *request = &bench->request;
    int count = request->graph->layer_count;
    int64_t *cost = NULL, *layers = NULL;
    gp_status status = GP_NEW(&cost, count, err);
    if (status == GP_OK) status = GP_NEW(&layers, stages, err);
    if (status == GP_OK) status = gp_cost_by_size(request->graph, request->samples, request->update.states, cost, err);
    if (status == GP_OK) status = gp_partition_min_max(cost, count, stages, layers, err);
    if (status == GP_OK) status = make_plan(bench, layers, stages, err);
    free(cost);
    free(layers);
    return status;
}

static size_t largest_arena(const gp_plan *plan) {
    size_t most = 0;
    for (int w = 0; w < plan->workers; w++)
        if (plan->arena[w] > most) most = plan->arena[w];
    return most;
}

/* An arena for one stage at a time, in as few stages as it takes. */
static gp_status reserve(gp_bench *bench, gp_error *err) {
    const gp_bench_request *request = &bench->request;
    int most = request->graph->layer_count;
    for (int stages = 1;; stages = 2 * stages < most ? 2 * stages : most) {
        void *arena = NULL;
        GP_RETURN_IF_FAILED(cut(bench, stages, err));
        size_t bytes = largest_arena(bench->plan);
        gp_status status = request->memory && bytes > request->memory
                               ? gp_fail(err, GP_MEMORY, "timing the layers needs %zu bytes at a time, but may use %zu",
                                         bytes, request->memory)
                               : request->spec.kind->reserve(bench->device, bytes, &arena, err);
        if (status == GP_OK) {
            bench->arena = arena;
            bench->arena_bytes = bytes;
            return GP_OK;
        }
        /* What no layer alone has room for is no want of memory that would pass. */
        if (status == GP_MEMORY && stages == most) return err->status = GP_UNSUPPORTED;
        if (status != GP_MEMORY) return status;
        gp_plan_destroy(&bench->plan);
    }
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static gp_status expect_routine(gp_bench *bench, const gp_routine *routine, gp_sampled_pass pass, gp_error *err) {
    if (routine->count + 1 > bench->time_count) bench->time_count = routine->count + 1;
    for (size_t o = 0; o < routine->count; o++)
        GP_RETURN_IF_FAILED(gp_samples_expect(&bench->samples, routine->ops[o].prepared, pass, err));
    return GP_OK;
}

static gp_status expect_stage(gp_bench *bench, int s, gp_error *err) {
    gp_bench_routine routines[GP_BENCH_ROUTINES];
    int count = gp_bench_routines(bench->plan, s, routines);
    for (int r = 0; r < count; r++)
        GP_RETURN_IF_FAILED(expect_routine(bench, routines[r].routine, routines[r].pass, err));
    return GP_OK;
}

static gp_status create_events(gp_bench *bench, gp_error *err) {
    const gp_device_kind *kind = bench->request.spec.kind;
    if (!kind->event_elapsed) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&bench->events, bench->time_count, err));
    for (; bench->event_count < bench->time_count; bench->event_count++)
        GP_RETURN_IF_FAILED(kind->event_create(bench->device, true, &bench->events[bench->event_count], err));
    return GP_OK;
}

static gp_status open_bench(gp_bench *bench, gp_error *err) {
    const gp_device_spec *spec = &bench->request.spec;
    GP_RETURN_IF_FAILED(spec->kind->open(spec, &bench->device, err));
    GP_RETURN_IF_FAILED(spec->kind->stream_create(bench->device, false, &bench->stream, err));
    GP_RETURN_IF_FAILED(reserve(bench, err));
    GP_RETURN_IF_FAILED(gp_bindings_init(bench->plan, -1, &bench->bindings, err));
    for (int s = 0; s < bench->plan->stages->count; s++) GP_RETURN_IF_FAILED(expect_stage(bench, s, err));
    gp_samples_sort(&bench->samples);
    GP_RETURN_IF_FAILED(GP_NEW(&bench->times, bench->time_count, err));
    return create_events(bench, err);
}

gp_status gp_bench_open(const gp_bench_request *request, gp_bench *out, gp_error *err) {
    *out = (gp_bench){.request = *request, .loaded = -1};
    gp_status status = open_bench(out, err);
    if (status != GP_OK) gp_bench_close(out);
    return status;
}

void gp_bench_close(gp_bench *bench) {
    const gp_device_kind *kind = bench->request.spec.kind;
    if (bench->stream) kind->stream_destroy(bench->stream);
    gp_bindings_fini(&bench->bindings);
    for (size_t e = 0; e < bench->event_count; e++) kind->event_destroy(bench->events[e]);
    if (bench->arena) kind->unreserve(bench->device, bench->arena);
    if (bench->device) kind->close(bench->device);
    free(bench->events);
    free(bench->times);
    free(bench->totals);
    gp_samples_fini(&bench->samples);
    gp_plan_destroy(&bench->plan);
    *bench = (gp_bench){.loaded = -1};
}

/* Medians of all ops of a round, one after another. */
static gp_status add_medians(const gp_bench *bench, int stage, double *sum, gp_error *err) {
    gp_bench_routine routines[GP_BENCH_ROUTINES];
    int count = gp_bench_routines(bench->plan, stage, routines);
    for (int r = 0; r < count; r++) {
        for (size_t o = 0; o < routines[r].routine->count; o++) {
            const gp_exec_op *op = &routines[r].routine->ops[o];
            gp_estimate its;
            if (op->when != GP_WHEN_ALWAYS && op->when == routines[r].skipped) continue;
            GP_RETURN_IF_FAILED(
                gp_samples_estimate(gp_samples_find(&bench->samples, op->prepared, routines[r].pass), &its, err));
            *sum += its.median;
        }
    }
    return GP_OK;
}

gp_status gp_bench_slowdown(const gp_bench *bench, double *out, gp_error *err) {
    double *totals = NULL, sum = 0;
    size_t from = bench->total_count > 1, count = bench->total_count - from; /* the first is cold */
    *out = 1;
    if (count == 0) return GP_OK;
    for (int s = 0; s < bench->plan->stages->count; s++) GP_RETURN_IF_FAILED(add_medians(bench, s, &sum, err));
    GP_RETURN_IF_FAILED(GP_NEW(&totals, count, err));
    memcpy(totals, bench->totals + from, count * sizeof *totals);
    if (sum > 0) *out = gp_median(totals, count).median / sum;
    free(totals);
    return GP_OK;
}

gp_status gp_bench_width(const gp_bench *bench, double *out, gp_error *err) {
    double widths = 0, medians = 0;
    for (size_t i = 0; i < bench->samples.count; i++) {
        gp_estimate its;
        GP_RETURN_IF_FAILED(gp_samples_estimate(&bench->samples.ops[i], &its, err));
        widths += (its.high - its.low) / 2;
        medians += its.median;
    }
    *out = medians > 0 ? widths / medians : 0;
    return GP_OK;
}
