/* The routines of a mini-batch: the loss's total, the step, and the refresh. The step commits statistics, brings
 * gradients into the format of the parameters, updates the parameters and refreshes working copies. The updates may
 * stand in the backward pass instead (stage_consume.c), or in a routine of their own, if replicas share them out. The
 * refresh alone is for parameters that were written from outside. An update goes from element to element and needs no
 * order; padding stays zero in it. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_internal.h"

static gp_status refuse_role(const gp_lowered_op *op, gp_error *err) {
    return gp_fail(err, GP_INTERNAL, "%s: has an operand that the end of a step cannot have",
                   gp_op_name(op->desc.kind));
}

static gp_status stage_lowered(const gp_stage_plan *plan, const gp_stage_request *request, int node, int op_index,
                               const gp_lowered_op *op, gp_staged_list *list, gp_error *err) {
    const gp_graph *graph = request->stages->graph;
    gp_staged_op staged = {.node = node, .always = true};
    GP_RETURN_IF_FAILED(gp_stage_prepare(plan, request, node, op_index, op, 0, true, &staged.prepared, err));
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        const gp_ref *ref = &op->ref[i];
        gp_staged_operand *operand = &staged.operand[i];
        operand->thing = -1;
        switch (ref->role) {
        case GP_ROLE_NONE: continue;
        case GP_ROLE_PARAM:
            operand->fixed = gp_stage_param_address(plan, graph, node, ref->index, GP_FORMAT_PLAIN);
            break;
        case GP_ROLE_STATS_ALL: operand->fixed = gp_stage_stats_address(plan, 0, node, ref->index, true); break;
        case GP_ROLE_SCALARS: operand->fixed = gp_stage_scalars_address(plan); break;
        default: return refuse_role(op, err);
        }
        operand->fixed.offset += (size_t)ref->first * gp_dtype_size(op->desc.operand[i].dtype);
    }
    return gp_staged_add(list, staged, err);
}

static gp_status stage_passes(const gp_stage_plan *plan, const gp_stage_request *request, int node, int pieces,
                              int64_t samples, int64_t last, gp_pass pass, gp_staged_list *list, gp_error *err) {
    const gp_node *its = &request->stages->graph->nodes[node];
    if (!its->layer->type->lower_mini_batch) return GP_OK;
    gp_lowering lowering;
    gp_lowering_init(&lowering, request->types, samples, (uint32_t)node);
    lowering.pieces = pieces;
    lowering.last = last;
    lowering.replicas = gp_stage_of(plan, request)->replicas;
    gp_status status = its->layer->type->lower_mini_batch(its->layer, &lowering, err);
    if (status != GP_OK) status = gp_node_error(its, err);
    for (size_t o = 0; o < lowering.count && status == GP_OK; o++)
        if (lowering.ops[o].pass == pass)
            status = stage_lowered(plan, request, node, (int)o, &lowering.ops[o], list, err);
    gp_lowering_fini(&lowering);
    return status;
}

static gp_status stage_reorder(const gp_stage_plan *plan, const gp_stage_request *request, int param, gp_format from,
                               gp_staged_operand x, gp_format to, gp_staged_operand y, gp_staged_list *list,
                               gp_error *err) {
    gp_staged_op op = {.node = -1, .owner = param + 1, .always = true};
    for (int i = 0; i < GP_MAX_OPERANDS; i++) op.operand[i].thing = -1;
    op.operand[GP_REORDER_X] = x;
    op.operand[GP_REORDER_Y] = y;
    GP_RETURN_IF_FAILED(gp_stage_prepare_reorder(plan, request, param, from, to, &op.prepared, err));
    return gp_staged_add(list, op, err);
}

static gp_status stage_refresh(const gp_stage_plan *plan, const gp_stage_request *request, const gp_param_plan *param,
                               gp_staged_list *list, gp_error *err) {
    if (param->copy.bytes == 0) return GP_OK;
    return stage_reorder(plan, request, param->param, param->format, gp_stage_fixed(param->master), param->copy.format,
                         gp_stage_fixed(param->copy.offset), list, err);
}

/* The gradient in the master's format: where it lies, or `thing`, which a reorder makes. */
static gp_status stage_grad(const gp_stage_plan *plan, const gp_stage_request *request, const gp_param_plan *param,
                            gp_staged_operand grad, int thing, gp_staged_list *list, gp_staged_operand *out,
                            gp_error *err) {
    const gp_staged_operand ordered = {.thing = thing};
    bool same = param->grad_format == param->format;
    *out = same ? grad : ordered;
    if (same) return GP_OK;
    return stage_reorder(plan, request, param->param, param->grad_format, grad, param->format, ordered, list, err);
}

static void set_attributes(const gp_update *update, const gp_param_spec *spec, gp_op_desc *desc) {
    bool spared = update->no_decay && spec->norm_or_bias;
    if (update->op == GP_OP_ADAM) {
        desc->attributes.adam = update->adam;
        if (spared) desc->attributes.adam.decay = 0;
    } else {
        desc->attributes.sgd = update->sgd;
        if (spared) desc->attributes.sgd.decay = 0;
    }
}

gp_status gp_stage_update(const gp_stage_plan *plan, const gp_stage_request *request, const gp_param_plan *param,
                          gp_staged_operand grad, int thing, gp_staged_list *list, gp_error *err) {
    GP_RETURN_IF_FAILED(stage_grad(plan, request, param, grad, thing, list, &grad, err));
    grad.fixed.offset += grad.thing < 0 ? (size_t)param->own.first : 0;
    gp_op_desc desc;
    gp_op_desc_init(&desc, request->update.op);
    set_attributes(&request->update, &request->stages->graph->params[param->param].spec, &desc);
    gp_staged_op op = {.node = -1, .owner = param->param + 1, .always = true};
    for (int i = 0; i < GP_MAX_OPERANDS; i++) op.operand[i].thing = -1;
    gp_tensor tensor = gp_stage_flat_tensor(request, (size_t)param->own.count);
    int64_t scalars = (int64_t)sizeof(gp_step_scalars);
    desc.operand[0] = gp_tensor_plain(GP_U8, 1, &scalars);
    op.operand[0].fixed = gp_stage_scalars_address(plan);
    desc.operand[1] = tensor;
    op.operand[1] = grad;
    for (int s = 0; s < request->update.states; s++) {
        desc.operand[2 + s] = tensor;
        op.operand[2 + s] = gp_stage_fixed(param->state[s]);
    }
    int last = gp_op_operand_count(request->update.op) - 1;
    desc.operand[last] = tensor;
    op.operand[last] = gp_stage_fixed(param->master + (size_t)param->own.first);
    GP_RETURN_IF_FAILED(gp_stage_prepare_own(plan, request, &desc, &op.prepared, err));
    return gp_staged_add(list, op, err);
}

/* The list, and the updates and refreshes of trained parameters. */
static gp_status build_step(const gp_stage_plan *plan, const gp_stage_request *request, bool updates, bool refreshes,
                            gp_staged_list *list, gp_routine *out, gp_error *err) {
    gp_thing *things = NULL;
    gp_status status = GP_NEW(&things, plan->param_count, err);
    for (int i = 0; i < plan->param_count && status == GP_OK; i++) {
        const gp_param_plan *param = &plan->params[i];
        things[i].bytes = param->stored;
        if (!param->trained || !updates || param->own.count == 0) continue;
        status = gp_stage_update(plan, request, param, gp_stage_fixed(param->grad), i, list, err);
    }
    /* Behind all updates, so that these stand together. */
    for (int i = 0; i < plan->param_count && refreshes && status == GP_OK; i++)
        if (plan->params[i].trained) status = stage_refresh(plan, request, &plan->params[i], list, err);
    if (status == GP_OK)
        status = gp_routine_build(list, NULL, things, (size_t)plan->param_count, request->unshared, NULL, out, err);
    free(things);
    return status;
}

gp_status gp_stage_compile_update(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    gp_staged_list list = {0};
    if (!plan->shards) return GP_OK;
    gp_status status = build_step(plan, request, true, false, &list, &plan->update, err);
    free(list.items);
    return status;
}

gp_status gp_stage_mini_batch(const gp_stage_plan *plan, const gp_stage_request *request, int pieces, int64_t samples,
                              int64_t last, bool training, gp_routine *total, gp_routine *step, gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    gp_staged_list totals = {0}, steps = {0};
    gp_status status = GP_OK;
    for (int n = 0; n < stage->node_count && status == GP_OK; n++) {
        int node = stage->first_node + n;
        status = stage_passes(plan, request, node, pieces, samples, last, GP_PASS_TOTAL, &totals, err);
        if (status == GP_OK && training)
            status = stage_passes(plan, request, node, pieces, samples, last, GP_PASS_COMMIT, &steps, err);
    }
    if (status == GP_OK) status = gp_routine_build(&totals, NULL, NULL, 0, request->unshared, NULL, total, err);
    bool updates = !plan->consumes && !plan->shards;
    if (status == GP_OK && training) status = build_step(plan, request, updates, true, &steps, step, err);
    free(totals.items);
    free(steps.items);
    return status;
}

gp_status gp_stage_compile_refresh(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    gp_staged_list list = {0};
    gp_status status = GP_OK;
    for (int i = 0; i < plan->param_count && status == GP_OK; i++)
        status = stage_refresh(plan, request, &plan->params[i], &list, err);
    if (status == GP_OK) status = gp_routine_build(&list, NULL, NULL, 0, request->unshared, NULL, &plan->refresh, err);
    free(list.items);
    return status;
}
