/* What outlives the step: the formats of weights, and parameters, working copies, gradients, optimizer state and
 * statistics at fixed offsets. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_internal.h"
#include "layers/types.h"

static gp_status note_choices(gp_stage_plan *plan, const gp_graph *graph, int node, int op_index,
                              const gp_lowered_op *op, const gp_prepared *prepared, gp_error *err) {
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        if (op->desc.operand[i].format != GP_FORMAT_ANY) continue;
        GP_RETURN_IF_FAILED(GP_GROW(&plan->choices, &plan->choice_capacity, plan->choice_count + 1, err));
        plan->choices[plan->choice_count++] = (gp_format_choice){node,
                                                                 op_index,
                                                                 i,
                                                                 op->ref[i].role,
                                                                 graph->nodes[node].first_param + op->ref[i].index,
                                                                 prepared->operand[i].format,
                                                                 prepared->operand[i].bytes,
                                                                 prepared->flops / (double)prepared->operand[i].bytes};
    }
    return GP_OK;
}

static gp_status note_stats(gp_stage_plan *plan, int node, const gp_lowering *lowering, gp_error *err) {
    for (size_t i = 0; i < lowering->stats.count; i++) {
        GP_RETURN_IF_FAILED(GP_GROW(&plan->stats, &plan->stats_capacity, plan->stats_count + 1, err));
        plan->stats[plan->stats_count++] = (gp_stats_plan){.node = node,
                                                           .index = (int)i,
                                                           .flags = lowering->stats_flags[i],
                                                           .bytes = gp_tensor_bytes(&lowering->stats.items[i])};
    }
    return GP_OK;
}

/* Where nothing trains, no other pass than EVALUATE asks: a working copy for it would be made and never read. */
gp_status gp_stage_choose_formats(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    const gp_graph *graph = request->stages->graph;
    gp_stage_lowering lowering;
    GP_RETURN_IF_FAILED(gp_stage_lower(plan, request, 0, request->full_samples, false, &lowering, err));
    gp_status status = GP_OK;
    for (int n = 0; n < lowering.count && status == GP_OK; n++) {
        int node = gp_stage_of(plan, request)->first_node + n;
        status = note_stats(plan, node, &lowering.nodes[n], err);
        for (size_t o = 0; o < lowering.nodes[n].count && status == GP_OK; o++) {
            const gp_lowered_op *op = &lowering.nodes[n].ops[o];
            if (gp_lowered_is_dead(graph, node, op) || (!request->trains && op->pass != GP_PASS_EVALUATE)) continue;
            const gp_prepared *prepared;
            status = gp_stage_prepare(plan, request, node, (int)o, op, 0, false, &prepared, err);
            if (status == GP_OK) status = note_choices(plan, graph, node, (int)o, op, prepared, err);
        }
    }
    gp_stage_lowering_fini(&lowering);
    return status;
}

/* Offsets are given out one after another, aligned. */
static size_t reserve(gp_stage_plan *plan, gp_memory_kind kind, size_t bytes) {
    size_t offset = plan->fixed;
    size_t aligned = gp_align_up(bytes, GP_ALIGNMENT);
    plan->fixed += aligned;
    plan->memory[kind] += aligned;
    return offset;
}

static gp_status list_params(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    const gp_graph *graph = request->stages->graph;
    const gp_stage *stage = gp_stage_of(plan, request);
    int count = 0;
    for (int n = 0; n < stage->node_count; n++) count += graph->nodes[stage->first_node + n].param_count;
    GP_RETURN_IF_FAILED(GP_NEW(&plan->params, count, err));
    for (int n = 0; n < stage->node_count; n++) {
        const gp_node *node = &graph->nodes[stage->first_node + n];
        for (int i = 0; i < node->param_count; i++) {
            gp_param_plan *param = &plan->params[plan->param_count++];
            int64_t elements;
            param->param = node->first_param + i;
            param->trained = request->trains && graph->params[param->param].trained;
            if (!gp_shape_elements(graph->params[param->param].spec.shape, &elements))
                return gp_fail(err, GP_INTERNAL, "parameter %s has no size", graph->params[param->param].name);
            param->bytes = (size_t)elements * gp_dtype_size(request->types.master);
            param->grad = GP_NO_OFFSET;
            param->grad_bytes = param->trained ? param->bytes : 0;
        }
    }
    return GP_OK;
}

static gp_param_plan *find_param(gp_stage_plan *plan, int param) {
    return plan->param_count ? &plan->params[param - plan->params[0].param] : NULL;
}

/* Operations for each byte of weights. With less work a reorder takes more than a twentieth of the op's time
 * (bench/results/2026-11-23-weights.txt). */
enum { LITTLE_WORK = 256 };

/* Whether a second format is stored, and renewed once per step. Else each run of the op has a reorder before it. */
static bool is_stored(const gp_stage_request *request, const gp_param_plan *param, const gp_format_choice *choice) {
    bool again = request->repeats || !param->trained;
    return choice->format != param->format && again && choice->work < LITTLE_WORK;
}

/* Adam without eps divides 0 by 0 in padding. */
static bool may_have_padding(const gp_update *update) {
    return update->op != GP_OP_ADAM || (float)update->adam.eps > 0;
}

/* The first op that reads a parameter is that of its forward pass: its format is the master's. */
static void apply_choices(gp_stage_plan *plan, const gp_stage_request *request) {
    for (size_t i = 0; i < plan->choice_count; i++) {
        const gp_format_choice *choice = &plan->choices[i];
        gp_param_plan *param = find_param(plan, choice->param);
        bool padded = choice->bytes != param->bytes;
        if (choice->role != GP_ROLE_GRAD_PARAM && param->stored == 0 && padded && !may_have_padding(&request->update))
            param->stored = param->bytes;
        if (choice->role == GP_ROLE_GRAD_PARAM) {
            param->grad_format = choice->format;
            param->grad_bytes = choice->bytes;
        } else if (param->stored == 0) {
            param->format = choice->format;
            param->stored = choice->bytes;
        } else if (is_stored(request, param, choice) && param->copy.bytes == 0) {
            param->copy = (gp_working_copy){choice->format, choice->bytes, 0};
        }
    }
    for (int i = 0; i < plan->param_count; i++)
        if (plan->params[i].stored == 0) plan->params[i].stored = plan->params[i].bytes;
}

/* Between PyTorch's order on the host and the format: where the device's memory is another one, a tensor in PyTorch's
 * order lies in the transient area in between. */
static gp_status prepare_moves(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    for (int i = 0; i < plan->param_count; i++) {
        gp_param_plan *param = &plan->params[i];
        if (param->format == GP_FORMAT_PLAIN) continue;
        GP_RETURN_IF_FAILED(
            gp_stage_prepare_reorder(plan, request, param->param, GP_FORMAT_PLAIN, param->format, &param->load, err));
        GP_RETURN_IF_FAILED(
            gp_stage_prepare_reorder(plan, request, param->param, param->format, GP_FORMAT_PLAIN, &param->save, err));
        const gp_prepared *larger = param->load->workspace > param->save->workspace ? param->load : param->save;
        size_t staged = plan->spec.kind->on_host ? 0 : gp_align_up(param->bytes, GP_ALIGNMENT);
        gp_stage_plan_fit(plan, &(gp_routine){.transient = staged, .workspace = larger->workspace});
    }
    return GP_OK;
}

/* The root has the squares of all stages, its own last. */
static size_t first_square(const gp_stage_plan *plan, const gp_stages *stages) {
    return plan->stage == gp_stages_root(stages) ? plan->squares_before : 0;
}

static void place_squares(gp_stage_plan *plan, const gp_stage_request *request) {
    plan->squares_before = request->squares_before;
    bool finds = request->stages->norms && gp_stage_of(plan, request)->replica == 0;
    for (int i = 0; i < plan->param_count && finds; i++)
        if (plan->params[i].trained) plan->params[i].square = plan->square_count++;
    size_t count = plan->square_count + first_square(plan, request->stages);
    plan->squares = reserve(plan, GP_MEMORY_STATISTICS, count * sizeof(double));
}

static void place_stats(gp_stage_plan *plan, const gp_stage_request *request) {
    for (size_t i = 0; i < plan->stats_count; i++) {
        gp_stats_plan *its = &plan->stats[i];
        its->stride = its->bytes * (its->flags & GP_STATS_PARTS ? (size_t)gp_stage_of(plan, request)->replicas : 1);
        its->offset = reserve(plan, GP_MEMORY_STATISTICS, its->stride * (size_t)request->max_pieces);
    }
}

/* Those of trained parameters first, in one piece. */
static void place_masters(gp_stage_plan *plan) {
    for (int frozen = 0; frozen < 2; frozen++) {
        for (int i = 0; i < plan->param_count; i++)
            if (plan->params[i].trained == !frozen)
                plan->params[i].master = reserve(plan, GP_MEMORY_PARAMETERS, plan->params[i].stored);
        if (!frozen) plan->trained_end = plan->fixed;
    }
}

static gp_status place_grads(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    plan->grads = plan->fixed;
    plan->scatter = stage->scatter;
    for (int i = 0; i < plan->param_count; i++)
        if (plan->params[i].trained && !plan->consumes)
            plan->params[i].grad = reserve(plan, GP_MEMORY_GRADIENTS, plan->params[i].grad_bytes);
    plan->grads_bytes = plan->fixed - plan->grads;
    GP_RETURN_IF_FAILED(gp_stage_place_shards(plan, request, err));
    size_t shard = 0;
    for (int b = 0; b < stage->buckets; b++)
        shard += (size_t)gp_stage_plan_part(plan, request->stages, b, stage->replica).count;
    plan->parts = reserve(plan, GP_MEMORY_COPIES, shard * (size_t)(stage->replicas - 1));
    if (request->stages->norms) plan->blocks = reserve(plan, GP_MEMORY_STATISTICS, plan->block_count * sizeof(double));
    return GP_OK;
}

gp_status gp_stage_place_fixed(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    GP_RETURN_IF_FAILED(list_params(plan, request, err));
    apply_choices(plan, request);
    GP_RETURN_IF_FAILED(prepare_moves(plan, request, err));
    plan->scalars = reserve(plan, GP_MEMORY_STATISTICS, sizeof(gp_step_scalars));
    place_stats(plan, request);
    place_squares(plan, request);
    place_masters(plan);
    for (int i = 0; i < plan->param_count; i++)
        plan->params[i].copy.offset = reserve(plan, GP_MEMORY_WORKING, plan->params[i].copy.bytes);
    GP_RETURN_IF_FAILED(place_grads(plan, request, err));
    for (int i = 0; i < plan->param_count; i++)
        for (int s = 0; s < request->update.states && plan->params[i].trained; s++)
            plan->params[i].state[s] = reserve(plan, GP_MEMORY_OPTIMIZER, (size_t)plan->params[i].own.count);
    return GP_OK;
}

const gp_param_plan *gp_stage_plan_param(const gp_stage_plan *plan, int param) {
    if (!plan->param_count || param < plan->params[0].param) return NULL;
    int index = param - plan->params[0].param;
    return index < plan->param_count ? &plan->params[index] : NULL;
}

gp_address gp_stage_param_address(const gp_stage_plan *plan, const gp_graph *graph, int node, int index,
                                  gp_format format) {
    const gp_param_plan *param = gp_stage_plan_param(plan, graph->nodes[node].first_param + index);
    if (format == param->format) return (gp_address){GP_AREA_FIXED, param->master, 0};
    if (param->copy.bytes && format == param->copy.format) return (gp_address){GP_AREA_FIXED, param->copy.offset, 0};
    return (gp_address){GP_AREA_NONE, 0, 0};
}

gp_address gp_stage_grad_address(const gp_stage_plan *plan, const gp_graph *graph, int node, int index) {
    const gp_param_plan *param = gp_stage_plan_param(plan, graph->nodes[node].first_param + index);
    return (gp_address){GP_AREA_FIXED, param->grad, 0};
}

static gp_address stats_address(const gp_stats_plan *stats, int replica, bool all) {
    size_t own = stats->flags & GP_STATS_PARTS && !all ? stats->bytes * (size_t)replica : 0;
    return (gp_address){GP_AREA_FIXED, stats->offset + own, all ? 0 : stats->stride};
}

int gp_stage_find_stats(const gp_stage_plan *plan, int node, int index) {
    for (size_t i = 0; i < plan->stats_count; i++)
        if (plan->stats[i].node == node && plan->stats[i].index == index) return (int)i;
    return -1;
}

gp_address gp_stage_stats_address(const gp_stage_plan *plan, int replica, int node, int index, bool all) {
    int stats = gp_stage_find_stats(plan, node, index);
    return stats < 0 ? (gp_address){GP_AREA_NONE, 0, 0} : stats_address(&plan->stats[stats], replica, all);
}

gp_address gp_stage_square_address(const gp_stage_plan *plan, const gp_stages *stages, const gp_param_plan *param) {
    size_t first = first_square(plan, stages);
    return (gp_address){GP_AREA_FIXED, plan->squares + (first + param->square) * sizeof(double), 0};
}

gp_address gp_stage_scalars_address(const gp_stage_plan *plan) {
    return (gp_address){GP_AREA_FIXED, plan->scalars, 0};
}
