/* The arena holds ordinary numbers while ops are timed: zeros, NaNs and denormals take other times. */
#include "profile/bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

enum { CHUNK = 1 << 18 }; /* bytes that go to the device at once */

typedef union chunk {
    float f32[CHUNK / sizeof(float)];
    double f64[CHUNK / sizeof(double)];
    unsigned char bytes[CHUNK];
} chunk;

/* Copies the chunk again and again, `bytes` in all. */
static gp_status spread(gp_bench *bench, const chunk *from, size_t offset, size_t bytes, gp_error *err) {
    const gp_device_kind *kind = bench->spec.kind;
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
        GP_RETURN_IF_FAILED(kind->copy_in(bench->stream, bench->arena + offset + at, from->bytes, part, err));
    }
    return GP_OK;
}

/* In [middle − about, middle + about). */
static void draw(chunk *out, gp_dtype dtype, double middle, double about) {
    size_t count = CHUNK / gp_dtype_size(dtype);
    for (size_t i = 0; i < count; i++) {
        gp_philox words = gp_philox_draw(1, (gp_philox){{(uint32_t)(i / 4), 0, 0, 0}});
        double value = middle + about * (2 * gp_philox_uniform(words.word[i % 4]) - 1);
        if (dtype == GP_F64)
            out->f64[i] = value;
        else
            out->f32[i] = (float)value;
    }
}

static gp_status load_params(gp_bench *bench, const gp_stage_plan *stage, chunk *with, gp_error *err) {
    const gp_graph *graph = bench->plan->graph;
    for (int p = 0; p < stage->param_count; p++) {
        const gp_param_plan *param = &stage->params[p];
        const gp_param_spec *spec = &graph->params[param->param].spec;
        bool constant = spec->init == GP_INIT_CONSTANT;
        draw(with, bench->plan->types.master, constant ? spec->value : 0, constant ? 0 : spec->value);
        GP_RETURN_IF_FAILED(spread(bench, with, stage->base + param->master, param->stored, err));
        /* The device may still read the chunk, which the next parameter overwrites. */
        GP_RETURN_IF_FAILED(bench->spec.kind->stream_finish(bench->stream, NULL, err));
    }
    return GP_OK;
}

static gp_status load_values(gp_bench *bench, int s, const chunk *with, gp_error *err) {
    const gp_plan *plan = bench->plan;
    const gp_stage_plan *stage = &plan->stage[s];
    const gp_indices *takes = &plan->stages->stage[s].takes, *grads = &plan->stages->stage[s].grad_in;
    const gp_sized *sized = gp_mini_sized(&plan->minis[0], stage, 0);
    const gp_slot_choice slots = {{0}};
    for (size_t i = 0; i < takes->count; i++) {
        const gp_value *value = &plan->graph->values[takes->items[i]];
        if (!gp_dtype_is_real(value->dtype)) continue; /* classes: 0 is one */
        gp_tensor tensor = gp_tensor_samples(value->dtype, sized->samples, value->shape);
        size_t at = gp_plan_offset(plan, stage, &slots, 0, (gp_address){GP_AREA_STASH, stage->takes[i], 0});
        GP_RETURN_IF_FAILED(spread(bench, with, at, gp_tensor_bytes(&tensor), err));
    }
    for (size_t i = 0; i < grads->count; i++) {
        const gp_value *value = &plan->graph->values[plan->stages->edges[grads->items[i]].value];
        gp_tensor tensor = gp_tensor_samples(value->dtype, sized->samples, value->shape);
        size_t at = gp_plan_offset(plan, stage, &slots, 0, (gp_address){GP_AREA_GRAD, stage->grad_in[i], 0});
        GP_RETURN_IF_FAILED(spread(bench, with, at, gp_tensor_bytes(&tensor), err));
    }
    return GP_OK;
}

/* With a learning rate of 0, updates do all their work, and no number grows. */
static gp_status load_scalars(gp_bench *bench, const gp_stage_plan *stage, gp_error *err) {
    const gp_device_kind *kind = bench->spec.kind;
    gp_step_scalars scalars;
    memset(&scalars, 0, sizeof scalars);
    scalars.seed = scalars.step = 1;
    scalars.divisor = (double)(2 * bench->request->samples);
    scalars.finite = 1;
    scalars.clip = 1;
    GP_RETURN_IF_FAILED(
        kind->copy_in(bench->stream, bench->arena + stage->base + stage->scalars, &scalars, sizeof scalars, err));
    return kind->stream_finish(bench->stream, NULL, err);
}

void gp_bench_bind(const gp_bench *bench, int stage, const gp_exec_op *op, gp_device_op *out) {
    const gp_slot_choice slots = {{0}};
    const gp_bases bases = gp_bases_of(bench->plan, &bench->plan->stage[stage], &slots, 0, (char *)bench->arena);
    gp_bind_op(&bench->bindings, &bases, op, out);
}

static gp_status refresh(gp_bench *bench, int s, gp_error *err) {
    const gp_routine *routine = &bench->plan->stage[s].refresh;
    const gp_device_kind *kind = bench->spec.kind;
    const gp_op_args args = {0};
    for (size_t o = 0; o < routine->count; o++) {
        gp_device_op op;
        gp_bench_bind(bench, s, &routine->ops[o], &op);
        GP_RETURN_IF_FAILED(kind->run(bench->stream, &op, &args, err));
    }
    return GP_OK;
}

static gp_status load_stage(gp_bench *bench, int s, chunk *with, gp_error *err) {
    const gp_device_kind *kind = bench->spec.kind;
    const gp_stage_plan *stage = &bench->plan->stage[s];
    memset(with, 0, sizeof *with);
    GP_RETURN_IF_FAILED(spread(bench, with, 0, bench->plan->arena[stage->worker], err));
    GP_RETURN_IF_FAILED(kind->stream_finish(bench->stream, NULL, err));
    GP_RETURN_IF_FAILED(load_params(bench, stage, with, err));
    draw(with, bench->plan->types.storage, 0, 1);
    GP_RETURN_IF_FAILED(load_values(bench, s, with, err));
    GP_RETURN_IF_FAILED(kind->stream_finish(bench->stream, NULL, err));
    GP_RETURN_IF_FAILED(load_scalars(bench, stage, err));
    return refresh(bench, s, err);
}

gp_status gp_bench_load(gp_bench *bench, int stage, gp_error *err) {
    chunk *with = NULL;
    if (bench->loaded == stage) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&with, 1, err));
    gp_status status = load_stage(bench, stage, with, err);
    free(with);
    bench->loaded = status == GP_OK ? stage : -1;
    return status;
}
