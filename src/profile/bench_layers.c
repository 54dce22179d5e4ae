/* From times of ops to times of layers. */
#include "profile/bench.h"

/* A recompute does not repeat statistics and partial losses. */
static bool is_once(const gp_exec_op *op) {
    for (uint32_t i = 0; i < op->prepared->desc.operands; i++)
        if (op->role[i].role == GP_ROLE_STATS && gp_op_writes(op->prepared->desc.kind, (int)i)) return true;
    return false;
}

/* Whether the bench's recompute has an op like this one. */
static bool is_recomputed(const gp_bench *bench, const gp_bench_op *timed) {
    const gp_stage_plan *stage = &bench->plan->stage[timed->stage];
    const gp_routine *again = &gp_mini_sized(&bench->plan->minis[0], stage, 0)->routine[GP_ROUTINE_RECOMPUTE];
    for (size_t o = 0; o < again->count; o++)
        if (again->ops[o].node == timed->op->node &&
            again->ops[o].prepared->desc.kind == timed->op->prepared->desc.kind)
            return true;
    return false;
}

static bool only_makes_param_grads(const gp_exec_op *op) {
    for (uint32_t i = 0; i < op->prepared->desc.operands; i++)
        if (op->operand[i].area != GP_AREA_NONE && gp_op_writes(op->prepared->desc.kind, (int)i) &&
            op->role[i].role != GP_ROLE_GRAD_PARAM)
            return false;
    return true;
}

static bool is_at(const gp_exec_op *op, size_t offset) {
    for (uint32_t i = 0; i < op->prepared->desc.operands; i++)
        if (op->operand[i].area == GP_AREA_FIXED && op->operand[i].offset == offset) return true;
    return false;
}

/* The planner's own ops belong to the layer whose parameter they touch. The clipping of all gradients belongs to the
 * last layer. −1: a copy that only a cut needs, of no layer. */
static int layer_of(const gp_bench *bench, const gp_bench_op *timed) {
    const gp_graph *graph = bench->plan->graph;
    const gp_stage_plan *stage = &bench->plan->stage[timed->stage];
    if (timed->op->node >= 0) return graph->nodes[timed->op->node].unit;
    if (timed->pass != GP_BENCH_UPDATE) return -1;
    for (int p = 0; p < stage->param_count; p++) {
        const gp_param_plan *param = &stage->params[p];
        if (is_at(timed->op, param->master) || is_at(timed->op, param->grad))
            return graph->nodes[graph->params[param->param].node].unit;
    }
    return graph->layer_count - 1;
}

static gp_profile_time backward_time(const gp_exec_op *op) {
    return only_makes_param_grads(op) ? GP_PROFILE_TIME_BACKWARD_WEIGHT : GP_PROFILE_TIME_BACKWARD_INPUT;
}

/* Another cut may recompute what this plan does not: then the time is that of the forward pass. */
static void add_op(const gp_bench *bench, const gp_bench_op *timed, double seconds, gp_measure_mix mix, double *time) {
    switch (timed->pass) {
    case GP_BENCH_KEEP: time[GP_PROFILE_TIME_FORWARD] += mix.keeps * seconds; break;
    case GP_BENCH_DISCARD:
        time[GP_PROFILE_TIME_FORWARD] += (1 - mix.keeps) * seconds;
        if (!is_once(timed->op) && !is_recomputed(bench, timed)) time[GP_PROFILE_TIME_RECOMPUTE] += seconds;
        break;
    case GP_BENCH_RECOMPUTE: time[GP_PROFILE_TIME_RECOMPUTE] += seconds; break;
    case GP_BENCH_BACKWARD_FIRST: time[backward_time(timed->op)] += mix.first * seconds; break;
    case GP_BENCH_BACKWARD_REST: time[backward_time(timed->op)] += (1 - mix.first) * seconds; break;
    case GP_BENCH_UPDATE: time[GP_PROFILE_TIME_UPDATE] += seconds; break;
    }
}

void gp_bench_add_layers(const gp_bench *bench, const double *medians, gp_measure_mix mix, gp_layer_times *layers) {
    for (size_t o = 0; o < bench->op_count; o++) {
        int layer = layer_of(bench, &bench->ops[o]);
        if (layer >= 0) add_op(bench, &bench->ops[o], medians[o], mix, layers[layer].time);
    }
}
