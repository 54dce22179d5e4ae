#include "compile/stage_things.h"

#include <stdlib.h>

#include "base/memory.h"

gp_status gp_compiler_thing(gp_stage_compiler *compiler, size_t bytes, int *out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&compiler->things, &compiler->thing_capacity, compiler->thing_count + 1, err));
    *out = (int)compiler->thing_count;
    compiler->things[compiler->thing_count++] = (gp_thing){.bytes = bytes};
    return GP_OK;
}

static gp_status value_thing(gp_stage_compiler *compiler, int value, int *out, gp_error *err) {
    return gp_compiler_thing(compiler, gp_value_bytes(compiler->graph, value, compiler->samples), out, err);
}

int gp_compiler_position(const gp_stage_compiler *compiler, int value) {
    const gp_stage *stage = compiler->stage;
    int producer = compiler->graph->values[value].producer;
    if (producer >= stage->first_node && producer < stage->first_node + stage->node_count)
        return (int)stage->takes.count + producer - stage->first_node;
    return gp_indices_find(&stage->takes, value);
}

int gp_compiler_value(const gp_stage_compiler *compiler, int value) {
    int position = gp_compiler_position(compiler, value);
    return position < 0 ? -1 : compiler->value_thing[position];
}

bool gp_compiler_keeps(const gp_stage_compiler *compiler, int node) {
    const gp_stage_request *request = compiler->request;
    return request->any_discard && request->keeps && request->keeps[node] && compiler->graph->nodes[node].output >= 0;
}

static gp_status make_forward_things(gp_stage_compiler *compiler, gp_error *err) {
    const gp_stage *stage = compiler->stage;
    for (size_t i = 0; i < stage->takes.count; i++)
        GP_RETURN_IF_FAILED(value_thing(compiler, stage->takes.items[i], &compiler->value_thing[i], err));
    for (int n = 0; n < stage->node_count; n++) {
        int output = compiler->graph->nodes[stage->first_node + n].output;
        int *thing = &compiler->value_thing[(int)stage->takes.count + n];
        *thing = -1;
        if (output >= 0) GP_RETURN_IF_FAILED(value_thing(compiler, output, thing, err));
        const gp_lowered_tensors *sides = &compiler->lowering.nodes[n].sides;
        compiler->first_side[n] = (int)compiler->thing_count;
        for (size_t i = 0; i < sides->count; i++) {
            int side;
            GP_RETURN_IF_FAILED(gp_compiler_thing(compiler, gp_tensor_bytes(&sides->items[i]), &side, err));
        }
    }
    return GP_OK;
}

gp_status gp_stage_compiler_init(gp_stage_compiler *compiler, const gp_stage_plan *plan,
                                 const gp_stage_request *request, int64_t micro_batch, bool trains, gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    *compiler = (gp_stage_compiler){.plan = plan,
                                    .request = request,
                                    .graph = request->stages->graph,
                                    .stage = stage,
                                    .samples = gp_stage_samples(plan, request, micro_batch)};
    GP_RETURN_IF_FAILED(gp_stage_lower(plan, request, stage->replica, micro_batch, trains, &compiler->lowering, err));
    GP_RETURN_IF_FAILED(GP_NEW(&compiler->value_thing, stage->takes.count + (size_t)stage->node_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&compiler->first_side, stage->node_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&compiler->grad_in, stage->grad_in.count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&compiler->grad_out, stage->grad_out.count, err));
    return make_forward_things(compiler, err);
}

void gp_stage_compiler_fini(gp_stage_compiler *compiler) {
    gp_stage_lowering_fini(&compiler->lowering);
    free(compiler->things);
    free(compiler->value_thing);
    free(compiler->first_side);
    free(compiler->forward.items);
    free(compiler->evaluate.items);
    free(compiler->backward.items);
    free(compiler->grad_in);
    free(compiler->grad_out);
    free(compiler->kept);
    free(compiler->held);
    free(compiler->at_hand);
    free(compiler->copies);
    *compiler = (gp_stage_compiler){0};
}

gp_status gp_compiler_temps(gp_stage_compiler *compiler, int node, int *first, gp_error *err) {
    const gp_lowered_tensors *temps = &compiler->lowering.nodes[node - compiler->stage->first_node].temps;
    *first = (int)compiler->thing_count;
    for (size_t i = 0; i < temps->count; i++) {
        int thing;
        GP_RETURN_IF_FAILED(gp_compiler_thing(compiler, gp_tensor_bytes(&temps->items[i]), &thing, err));
    }
    return GP_OK;
}

/* False: the pass cannot have an operand of this role. */
static bool set_operand(const gp_stage_compiler *compiler, int node, int first_temp, const gp_node_grads *grads,
                        const gp_lowered_op *op, const gp_ref *ref, gp_format format, gp_staged_operand *out) {
    const gp_node *its = &compiler->graph->nodes[node];
    *out = (gp_staged_operand){.thing = -1, .role = {ref->role, ref->index}};
    switch (ref->role) {
    case GP_ROLE_NONE: return true;
    case GP_ROLE_INPUT: out->thing = gp_compiler_value(compiler, its->inputs[ref->index]); return true;
    case GP_ROLE_OUTPUT: out->thing = gp_compiler_value(compiler, its->output); return true;
    case GP_ROLE_SIDE: out->thing = compiler->first_side[node - compiler->stage->first_node] + ref->index; return true;
    case GP_ROLE_TEMP: out->thing = first_temp + ref->index; return true;
    case GP_ROLE_PARAM:
        out->fixed = gp_stage_param_address(compiler->plan, compiler->graph, node, ref->index, format);
        return true;
    case GP_ROLE_STATS:
        out->fixed = gp_stage_stats_address(compiler->plan, compiler->stage->replica, node, ref->index, false);
        return true;
    case GP_ROLE_STATS_PARTS:
        out->fixed = gp_stage_stats_address(compiler->plan, op->exchange.first, node, ref->index, false);
        return op->exchange.count > 0;
    case GP_ROLE_SCALARS: out->fixed = gp_stage_scalars_address(compiler->plan); return true;
    case GP_ROLE_GRAD_OUTPUT: out->thing = grads ? grads->output : -1; return grads != NULL;
    case GP_ROLE_GRAD_INPUT: out->thing = grads ? grads->inputs[ref->index] : -1; return grads != NULL;
    case GP_ROLE_GRAD_PARAM:
        out->fixed = gp_stage_grad_address(compiler->plan, compiler->graph, node, ref->index);
        return grads != NULL;
    default: return false;
    }
}

static gp_status make_share(gp_stage_compiler *compiler, int node, gp_node_grads *grads, const gp_lowered_op *op,
                            int index, gp_error *err) {
    int *share = &grads->inputs[index];
    if (*share >= 0 && *share == grads->output)
        return gp_fail(err, GP_INTERNAL, "%s: would overwrite the gradient of its output", gp_op_name(op->desc.kind));
    if (*share >= 0) return GP_OK;
    int value = gp_compiler_value(compiler, compiler->graph->nodes[node].inputs[index]);
    return gp_compiler_thing(compiler, compiler->things[value].bytes, share, err);
}

static gp_status gather(gp_stage_compiler *compiler, gp_staged_op *op, gp_staged_list *list, gp_error *err) {
    for (int i = 0; i < (int)op->prepared->desc.operands; i++) {
        const gp_operand_storage *wanted = &op->prepared->operand[i];
        gp_staged_operand *operand = &op->operand[i];
        if (operand->role.role != GP_ROLE_PARAM || operand->fixed.area != GP_AREA_NONE) continue;
        const gp_param_plan *param =
            gp_stage_plan_param(compiler->plan, compiler->graph->nodes[op->node].first_param + operand->role.index);
        gp_staged_op reorder = gp_staged_new(op->node);
        GP_RETURN_IF_FAILED(gp_compiler_thing(compiler, wanted->bytes, &operand->thing, err));
        GP_RETURN_IF_FAILED(gp_stage_prepare_reorder(compiler->plan, compiler->request, param->param, param->format,
                                                     wanted->format, &reorder.prepared, err));
        reorder.operand[GP_REORDER_X] = gp_stage_fixed(param->master);
        reorder.operand[GP_REORDER_Y] = *operand;
        GP_RETURN_IF_FAILED(gp_staged_add(list, reorder, err));
    }
    return GP_OK;
}

gp_status gp_compiler_resolve(gp_stage_compiler *compiler, int node, int op_index, int first_temp, gp_node_grads *grads,
                              gp_staged_list *list, gp_staged_op *out, gp_error *err) {
    const gp_lowered_op *op = &compiler->lowering.nodes[node - compiler->stage->first_node].ops[op_index];
    gp_staged_op staged = {.node = node, .once = (op->flags & GP_LOWERED_ONCE) != 0};
    GP_RETURN_IF_FAILED(
        gp_stage_prepare(compiler->plan, compiler->request, node, op_index, op, 0, true, &staged.prepared, err));
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        const gp_ref *ref = &op->ref[i];
        gp_staged_operand *operand = &staged.operand[i];
        size_t first = (size_t)ref->first * gp_dtype_size(op->desc.operand[i].dtype);
        if (grads && ref->role == GP_ROLE_GRAD_INPUT)
            GP_RETURN_IF_FAILED(make_share(compiler, node, grads, op, ref->index, err));
        if (!set_operand(compiler, node, first_temp, grads, op, ref, staged.prepared->desc.operand[i].format, operand))
            return gp_fail(err, GP_INTERNAL, "%s: has an operand that a %s pass cannot have", gp_op_name(op->desc.kind),
                           grads ? "backward" : "forward");
        if (operand->thing >= 0)
            operand->first += first;
        else
            operand->fixed.offset += first;
        bool stays = operand->fixed.area != GP_AREA_NONE && (!grads || ref->role == GP_ROLE_STATS);
        if (stays && gp_op_writes(op->desc.kind, i)) staged.always = true;
    }
    if (op->exchange.count > 0) {
        staged.exchange = op->exchange;
        staged.exchange.stats = gp_stage_find_stats(compiler->plan, node, op->exchange.stats);
    }
    GP_RETURN_IF_FAILED(gather(compiler, &staged, list, err));
    *out = staged;
    return GP_OK;
}

gp_status gp_compiler_forward(gp_stage_compiler *compiler, gp_pass pass, gp_staged_list *list, gp_error *err) {
    for (int n = 0; n < compiler->lowering.count; n++) {
        int node = compiler->stage->first_node + n, first_temp;
        const gp_lowering *lowering = &compiler->lowering.nodes[n];
        GP_RETURN_IF_FAILED(gp_compiler_temps(compiler, node, &first_temp, err));
        for (size_t o = 0; o < lowering->count; o++) {
            gp_staged_op op = {0};
            if (lowering->ops[o].pass != pass) continue;
            GP_RETURN_IF_FAILED(gp_compiler_resolve(compiler, node, (int)o, first_temp, NULL, list, &op, err));
            GP_RETURN_IF_FAILED(gp_staged_add(list, op, err));
        }
    }
    return GP_OK;
}
