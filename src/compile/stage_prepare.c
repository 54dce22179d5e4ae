/* The ops of a stage's layers, and how they are prepared for its device. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_internal.h"

gp_status gp_stage_lower(const gp_stage_plan *plan, const gp_stage_request *request, int replica, int64_t micro_batch,
                         bool trains, gp_stage_lowering *out, gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    int64_t samples = gp_share_of(micro_batch, stage->replicas, replica).count;
    gp_stage_lowering lowering = {NULL, stage->node_count};
    gp_status status = GP_NEW(&lowering.nodes, stage->node_count, err);
    for (int i = 0; i < stage->node_count && status == GP_OK; i++) {
        int index = stage->first_node + i;
        const gp_node *node = &request->stages->graph->nodes[index];
        gp_lowering_init(&lowering.nodes[i], request->types, samples, (uint32_t)index);
        lowering.nodes[i].replicas = stage->replicas;
        lowering.nodes[i].replica = replica;
        lowering.nodes[i].shared = micro_batch;
        lowering.nodes[i].evaluate_only = !trains;
        lowering.nodes[i].predict = request->predict;
        status = node->layer->type->lower(node->layer, &lowering.nodes[i], err);
        if (status != GP_OK) status = gp_node_error(node, err);
    }
    if (status != GP_OK) {
        gp_stage_lowering_fini(&lowering);
        return status;
    }
    *out = lowering;
    return GP_OK;
}

void gp_stage_lowering_fini(gp_stage_lowering *lowering) {
    for (int i = 0; lowering->nodes && i < lowering->count; i++) gp_lowering_fini(&lowering->nodes[i]);
    free(lowering->nodes);
    *lowering = (gp_stage_lowering){0};
}

/* Whether anybody wants what a backward op writes there. */
static bool is_wanted(const gp_graph *graph, int node, const gp_ref *ref) {
    if (ref->role == GP_ROLE_GRAD_INPUT) return graph->values[graph->nodes[node].inputs[ref->index]].needs_grad;
    if (ref->role == GP_ROLE_GRAD_PARAM) return graph->params[graph->nodes[node].first_param + ref->index].trained;
    return true;
}

bool gp_lowered_is_dead(const gp_graph *graph, int node, const gp_lowered_op *op) {
    if (op->pass != GP_PASS_BACKWARD) return false;
    bool writes = false;
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        if (op->ref[i].role == GP_ROLE_NONE || !gp_op_writes(op->desc.kind, i)) continue;
        writes = true;
        if (is_wanted(graph, node, &op->ref[i])) return false;
    }
    return writes;
}

static int by_operand(const void *a, const void *b) {
    const gp_format_choice *x = a, *y = b;
    return x->node != y->node ? x->node - y->node : x->op != y->op ? x->op - y->op : x->operand - y->operand;
}

gp_status gp_stage_prepare_own(const gp_stage_plan *plan, const gp_stage_request *request, const gp_op_desc *desc,
                               const gp_prepared **out, gp_error *err) {
    gp_op_desc threaded = *desc;
    threaded.threads = (uint32_t)plan->spec.threads;
    return gp_op_prepare(request->cache, plan->spec.kind, &threaded, out, err);
}

gp_status gp_stage_prepare(const gp_stage_plan *plan, const gp_stage_request *request, int node, int op_index,
                           const gp_lowered_op *op, unsigned flags, bool chosen, const gp_prepared **out,
                           gp_error *err) {
    gp_op_desc desc = op->desc;
    desc.flags |= flags;
    for (int i = 0; i < GP_MAX_OPERANDS && chosen; i++) {
        if (desc.operand[i].format != GP_FORMAT_ANY) continue;
        const gp_format_choice wanted = {.node = node, .op = op_index, .operand = i};
        const gp_format_choice *choice =
            plan->choices ? bsearch(&wanted, plan->choices, plan->choice_count, sizeof wanted, by_operand) : NULL;
        if (!choice)
            return gp_fail(err, GP_INTERNAL, "no format was chosen for operand %d of %s", i, gp_op_name(desc.kind));
        desc.operand[i].format = choice->format;
    }
    gp_status status = gp_stage_prepare_own(plan, request, &desc, out, err);
    if (status != GP_OK && err) {
        err->status = status;
        return gp_node_error(&request->stages->graph->nodes[node], err);
    }
    return status;
}

gp_status gp_stage_prepare_flat(const gp_stage_plan *plan, const gp_stage_request *request, gp_op_kind kind,
                                size_t bytes, const gp_prepared **out, gp_error *err) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, kind);
    int64_t elements = (int64_t)(bytes / gp_dtype_size(request->types.accumulate));
    for (int i = 0; i < gp_op_operand_count(kind); i++)
        desc.operand[i] = gp_tensor_plain(request->types.accumulate, 1, &elements);
    return gp_stage_prepare_own(plan, request, &desc, out, err);
}

gp_status gp_stage_prepare_reorder(const gp_stage_plan *plan, const gp_stage_request *request, int param,
                                   gp_format from, gp_format to, const gp_prepared **out, gp_error *err) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_REORDER);
    for (int i = 0; i < 2; i++)
        desc.operand[i] = gp_tensor_param(request->types.master, request->stages->graph->params[param].spec.shape);
    desc.operand[GP_REORDER_X].format = from;
    desc.operand[GP_REORDER_Y].format = to;
    return gp_stage_prepare_own(plan, request, &desc, out, err);
}

void gp_stage_plan_fit(gp_stage_plan *plan, const gp_routine *routine) {
    if (routine->alive > plan->alive) plan->alive = routine->alive;
    if (routine->transient + routine->workspace <= plan->transient + plan->workspace) return;
    plan->transient = routine->transient;
    plan->workspace = routine->workspace;
}
