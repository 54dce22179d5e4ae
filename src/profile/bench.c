#include "profile/bench.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cut/cut.h"
#include "profile/cost.h"

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Two micro-batches: one that is computed again, one that is kept. */
static gp_status make_plan(gp_bench *bench, const int64_t *layers, int stages, gp_error *err) {
    const gp_measure_request *request = bench->request;
    const gp_mini_size size = {2 * request->samples, true};
    gp_device_spec *devices = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&devices, stages, err));
    for (int s = 0; s < stages; s++) devices[s] = bench->spec;
    const gp_plan_request plan_request = {.graph = request->graph,
                                          .layers = layers,
                                          .stages = stages,
                                          .devices = devices,
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
    const gp_measure_request *request = bench->request;
    int count = request->graph->layer_count;
    int64_t *cost = NULL, *layers = NULL;
    gp_status status = GP_NEW(&cost, count, err);
    if (status == GP_OK) status = GP_NEW(&layers, stages, err);
    if (status == GP_OK) status = gp_cost_by_size(request->graph, request->samples, request->update.states, cost, err);
    if (status == GP_OK) status = gp_cut_list(cost, count, stages, layers, err);
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

/* An arena for one stage at a time, with as few stages as fit. */
static gp_status reserve(gp_bench *bench, gp_error *err) {
    const gp_measure_request *request = bench->request;
    int most = request->graph->layer_count;
    for (int stages = 1;; stages = 2 * stages < most ? 2 * stages : most) {
        void *arena = NULL;
        GP_RETURN_IF_FAILED(cut(bench, stages, err));
        size_t bytes = largest_arena(bench->plan);
        gp_status status = request->memory && bytes > request->memory
                               ? gp_fail(err, GP_MEMORY, "timing the layers needs %zu bytes at a time, but may use %zu",
                                         bytes, request->memory)
                               : bench->spec.kind->reserve(bench->device, bytes, &arena, err);
        if (status == GP_OK) {
            bench->arena = arena;
            bench->arena_bytes = bytes;
            return GP_OK;
        }
        /* Less memory in use would not help. */
        if (status == GP_MEMORY && stages == most) return err->status = GP_UNSUPPORTED;
        if (status != GP_MEMORY) return status;
        gp_plan_destroy(&bench->plan);
    }
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* Updates that the device does in one launch, as a worker gives them to it: how many begin here. */
static int count_launch(const gp_bench *bench, const gp_routine *routine, size_t first) {
    gp_op_kind kind = routine->ops[first].prepared->desc.kind;
    size_t count = 1;
    if (!bench->spec.kind->run_many || kind != bench->request->update.op) return 1;
    while (first + count < routine->count && count < GP_RUN_MANY &&
           routine->ops[first + count].prepared->desc.kind == kind)
        count++;
    return (int)count;
}

static gp_status add_routine(gp_bench *bench, int stage, const gp_routine *routine, gp_bench_pass pass, gp_error *err) {
    gp_when other = pass == GP_BENCH_BACKWARD_FIRST  ? GP_WHEN_REST
                    : pass == GP_BENCH_BACKWARD_REST ? GP_WHEN_FIRST
                                                     : GP_WHEN_ALWAYS;
    GP_RETURN_IF_FAILED(GP_GROW(&bench->ops, &bench->op_capacity, bench->op_count + routine->count, err));
    for (size_t o = 0, launched = 0; o < routine->count; o++) {
        int launch = o < launched ? 0 : count_launch(bench, routine, o);
        launched += (size_t)launch;
        if (other != GP_WHEN_ALWAYS && routine->ops[o].when == other) continue;
        size_t like = 0;
        while (like < bench->op_count &&
               (bench->ops[like].op->prepared != routine->ops[o].prepared || bench->ops[like].pass != pass))
            like++;
        bench->ops[bench->op_count++] = (gp_bench_op){&routine->ops[o], stage, pass, launch, like};
    }
    return GP_OK;
}

/* In the order of a round: each routine finds what an earlier one made. */
static gp_status add_stage(gp_bench *bench, int stage, gp_error *err) {
    const gp_mini_plan *mini = &bench->plan->minis[0];
    const gp_stage_plan *its = &bench->plan->stage[stage];
    const gp_routine *routine = gp_mini_sized(mini, its, 0)->routine;
    const struct {
        const gp_routine *routine;
        gp_bench_pass pass;
    } all[] = {
        {&routine[GP_ROUTINE_KEEP], GP_BENCH_KEEP},
        {&mini->total[stage], GP_BENCH_UPDATE},
        {&routine[GP_ROUTINE_BACKWARD], GP_BENCH_BACKWARD_FIRST},
        {&routine[GP_ROUTINE_DISCARD], GP_BENCH_DISCARD},
        {&routine[GP_ROUTINE_RECOMPUTE], GP_BENCH_RECOMPUTE},
        {&routine[GP_ROUTINE_BACKWARD], GP_BENCH_BACKWARD_REST},
        {&its->norm, GP_BENCH_UPDATE},
        {&its->clip, GP_BENCH_UPDATE},
        {&mini->step[stage], GP_BENCH_UPDATE},
    };
    for (size_t r = 0; r < sizeof all / sizeof *all; r++)
        GP_RETURN_IF_FAILED(add_routine(bench, stage, all[r].routine, all[r].pass, err));
    return GP_OK;
}

static gp_status create_events(gp_bench *bench, gp_error *err) {
    const gp_device_kind *kind = bench->spec.kind;
    if (!kind->event_elapsed) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&bench->events, bench->op_count + 1, err));
    for (size_t e = 0; e <= bench->op_count; e++)
        GP_RETURN_IF_FAILED(kind->event_create(bench->device, true, &bench->events[e], err));
    return GP_OK;
}

static gp_status open_bench(gp_bench *bench, gp_error *err) {
    const gp_device_spec *spec = &bench->spec;
    GP_RETURN_IF_FAILED(spec->kind->open(spec, &bench->device, err));
    GP_RETURN_IF_FAILED(spec->kind->stream_create(bench->device, false, &bench->stream, err));
    GP_RETURN_IF_FAILED(reserve(bench, err));
    GP_RETURN_IF_FAILED(gp_bindings_init(bench->plan, -1, &bench->bindings, err));
    for (int s = 0; s < bench->plan->stages->count; s++) GP_RETURN_IF_FAILED(add_stage(bench, s, err));
    return create_events(bench, err);
}

gp_status gp_bench_open(const gp_measure_request *request, const gp_device_spec *spec, gp_bench *out, gp_error *err) {
    *out = (gp_bench){.request = request, .spec = *spec, .loaded = -1};
    gp_status status = open_bench(out, err);
    if (status != GP_OK) gp_bench_close(out);
    return status;
}

void gp_bench_close(gp_bench *bench) {
    const gp_device_kind *kind = bench->spec.kind;
    if (bench->stream) kind->stream_destroy(bench->stream);
    gp_bindings_fini(&bench->bindings);
    for (size_t e = 0; bench->events && e <= bench->op_count; e++)
        if (bench->events[e]) kind->event_destroy(bench->events[e]);
    if (bench->arena) kind->unreserve(bench->device, bench->arena);
    if (bench->device) kind->close(bench->device);
    free(bench->events);
    free(bench->ops);
    free(bench->seconds);
    gp_plan_destroy(&bench->plan);
    *bench = (gp_bench){.loaded = -1};
}
