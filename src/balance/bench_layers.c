/* From times of ops to times of layers. */
#include <math.h>
#include <stdlib.h>

#include "balance/bench_internal.h"
#include "base/memory.h"

/* Sums of medians, and of the squares of the distances to their bounds: ops err by themselves. */
typedef struct sum {
    double median, below, above;
} sum;

typedef struct adder {
    const gp_bench *bench;
    sum (*layers)[GP_PROFILE_TIMES];
} adder;

static gp_status add_estimate(const adder *a, int layer, gp_profile_time time, gp_estimate estimate, double weight) {
    sum *to = &a->layers[layer][time];
    double below = weight * (estimate.median - estimate.low), above = weight * (estimate.high - estimate.median);
    to->median += weight * estimate.median;
    to->below += below * below;
    to->above += above * above;
    return GP_OK;
}

static gp_status add_op(const adder *a, const gp_exec_op *op, int layer, gp_sampled_pass pass, gp_profile_time time,
                        double weight, gp_error *err) {
    gp_estimate estimate;
    GP_RETURN_IF_FAILED(gp_samples_estimate(gp_samples_find(&a->bench->samples, op->prepared, pass), &estimate, err));
    return add_estimate(a, layer, time, estimate, weight);
}

static int layer_of(const adder *a, const gp_exec_op *op) {
    return a->bench->plan->graph->nodes[op->node].unit;
}

/* Not part of computing again: statistics, partial losses. */
static bool is_once(const gp_exec_op *op) {
    for (uint32_t i = 0; i < op->prepared->desc.operands; i++)
        if (op->role[i].role == GP_ROLE_STATS && gp_op_writes(op->prepared->desc.kind, (int)i)) return true;
    return false;
}

static gp_status add_forward(const adder *a, const gp_routine *routine, gp_sampled_pass pass, double share,
                             gp_error *err) {
    for (size_t o = 0; o < routine->count; o++) {
        const gp_exec_op *op = &routine->ops[o];
        GP_RETURN_IF_FAILED(add_op(a, op, layer_of(a, op), pass, GP_PROFILE_TIME_FORWARD, share, err));
    }
    return GP_OK;
}

/* All that another cut may have to compute again: where this one does not, the time is that of the forward pass. */
static gp_status add_recompute(const adder *a, const gp_routine *forward, gp_error *err) {
    for (size_t o = 0; o < forward->count; o++) {
        const gp_exec_op *op = &forward->ops[o];
        if (is_once(op)) continue;
        const gp_op_samples *again = gp_samples_find(&a->bench->samples, op->prepared, GP_SAMPLED_RECOMPUTE);
        gp_sampled_pass pass = again && again->count > 0 ? GP_SAMPLED_RECOMPUTE : GP_SAMPLED_DISCARD;
        GP_RETURN_IF_FAILED(add_op(a, op, layer_of(a, op), pass, GP_PROFILE_TIME_RECOMPUTE, 1, err));
    }
    return GP_OK;
}

static bool only_makes_param_grads(const gp_exec_op *op) {
    for (uint32_t i = 0; i < op->prepared->desc.operands; i++)
        if (op->operand[i].area != GP_AREA_NONE && gp_op_writes(op->prepared->desc.kind, (int)i) &&
            op->role[i].role != GP_ROLE_GRAD_PARAM)
            return false;
    return true;
}

/* A copy that only a cut asks for belongs to no layer. */
static gp_status add_backward(const adder *a, const gp_routine *routine, double first, gp_error *err) {
    for (size_t o = 0; o < routine->count; o++) {
        const gp_exec_op *op = &routine->ops[o];
        if (op->node < 0) continue;
        double share = op->when == GP_WHEN_FIRST ? first : op->when == GP_WHEN_REST ? 1 - first : 1;
        gp_profile_time time =
            only_makes_param_grads(op) ? GP_PROFILE_TIME_BACKWARD_WEIGHT : GP_PROFILE_TIME_BACKWARD_INPUT;
        GP_RETURN_IF_FAILED(add_op(a, op, layer_of(a, op), GP_SAMPLED_BACKWARD, time, share, err));
    }
    return GP_OK;
}

static bool is_at(const gp_exec_op *op, size_t offset) {
    for (uint32_t i = 0; i < op->prepared->desc.operands; i++)
        if (op->operand[i].area == GP_AREA_FIXED && op->operand[i].offset == offset) return true;
    return false;
}

/* Ops of the planner's own are the layer's whose parameter they touch; the clipping of all is the last layer's. */
static int layer_of_update(const adder *a, const gp_stage_plan *stage, const gp_exec_op *op) {
    const gp_graph *graph = a->bench->plan->graph;
    if (op->node >= 0) return graph->nodes[op->node].unit;
    for (int p = 0; p < stage->param_count; p++) {
        const gp_param_plan *param = &stage->params[p];
        if (is_at(op, param->master) || (param->trained && is_at(op, param->grad)))
            return graph->nodes[graph->params[param->param].node].unit;
    }
    return graph->layer_count - 1;
}

static gp_status add_update(const adder *a, const gp_stage_plan *stage, const gp_routine *routine, gp_error *err) {
    for (size_t o = 0; o < routine->count; o++) {
        const gp_exec_op *op = &routine->ops[o];
        GP_RETURN_IF_FAILED(
            add_op(a, op, layer_of_update(a, stage, op), GP_SAMPLED_UPDATE, GP_PROFILE_TIME_UPDATE, 1, err));
    }
    return GP_OK;
}

static gp_status add_stage(const adder *a, int s, gp_bench_mix mix, gp_error *err) {
    gp_bench_routine routines[GP_BENCH_ROUTINES];
    int count = gp_bench_routines(a->bench->plan, s, routines);
    const gp_routine *backward = NULL;
    for (int r = 0; r < count; r++) {
        const gp_routine *routine = routines[r].routine;
        switch (routines[r].pass) {
        case GP_SAMPLED_KEEP: GP_RETURN_IF_FAILED(add_forward(a, routine, GP_SAMPLED_KEEP, mix.keeps, err)); break;
        case GP_SAMPLED_DISCARD:
            GP_RETURN_IF_FAILED(add_forward(a, routine, GP_SAMPLED_DISCARD, 1 - mix.keeps, err));
            GP_RETURN_IF_FAILED(add_recompute(a, routine, err));
            break;
        case GP_SAMPLED_BACKWARD: backward = routine; break; /* run twice, added once */
        case GP_SAMPLED_UPDATE: GP_RETURN_IF_FAILED(add_update(a, &a->bench->plan->stage[s], routine, err)); break;
        default: break;
        }
    }
    return backward ? add_backward(a, backward, mix.first, err) : GP_OK;
}

gp_status gp_bench_layers(const gp_bench *bench, gp_bench_mix mix, gp_layer_times *out, gp_error *err) {
    int layers = bench->plan->graph->layer_count;
    adder a = {bench, NULL};
    GP_RETURN_IF_FAILED(GP_NEW(&a.layers, layers, err));
    gp_status status = GP_OK;
    for (int s = 0; s < bench->plan->stages->count && status == GP_OK; s++) status = add_stage(&a, s, mix, err);
    for (int i = 0; i < layers && status == GP_OK; i++)
        for (int t = 0; t < GP_PROFILE_TIMES; t++) {
            const sum *is = &a.layers[i][t];
            double low = is->median - sqrt(is->below);
            out[i].time[t] = (gp_estimate){is->median, low > 0 ? low : 0, is->median + sqrt(is->above)};
        }
    free(a.layers);
    return status;
}
