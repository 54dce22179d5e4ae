/* The backward pass of a stage, as ops on its buffers.
 *
 * A value's gradient folds from its last user to its first: what came from later stages, then each local user's share
 * last to first, added one by one; so that the sum is the same wherever the cut runs. A parameter's shares overwrite
 * its gradient in the mini-batch's first backward and are added in the others, by the op itself where the device can,
 * else by an addition of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compile/stage_things.h"

typedef struct folder {
    gp_stage_compiler *compiler;
    int *sum; /* [position of the value]: thing that holds its gradient so far; −1: none yet */
} folder;

static gp_status add_flat(gp_stage_compiler *compiler, int node, gp_op_kind kind, size_t bytes, gp_when when,
                          const gp_staged_operand *operands, int count, bool always, gp_error *err) {
    gp_staged_op op = gp_staged_new(node);
    op.when = when;
    op.always = always;
    memcpy(op.operand, operands, (size_t)count * sizeof *operands);
    GP_RETURN_IF_FAILED(gp_stage_prepare_flat(compiler->plan, compiler->request, kind, bytes, &op.prepared, err));
    return gp_staged_add(&compiler->backward, op, err);
}

static gp_staged_operand whole(int thing) {
    return (gp_staged_operand){.thing = thing};
}

/* The share of the node's input `index`. */
static gp_status fold(folder *f, int node, int index, int share, gp_error *err) {
    int value = f->compiler->graph->nodes[node].inputs[index];
    int *sum = &f->sum[gp_compiler_position(f->compiler, value)];
    if (*sum < 0) {
        *sum = share;
        return GP_OK;
    }
    size_t bytes = f->compiler->things[share].bytes;
    int total;
    GP_RETURN_IF_FAILED(gp_compiler_thing(f->compiler, bytes, &total, err));
    gp_staged_operand operands[] = {whole(*sum), whole(share), whole(total)};
    operands[GP_ADD_Y].role = (gp_operand_role){GP_ROLE_GRAD_INPUT, index};
    GP_RETURN_IF_FAILED(add_flat(f->compiler, node, GP_OP_ADD, bytes, GP_WHEN_ALWAYS, operands, 3, false, err));
    *sum = total;
    return GP_OK;
}

/* A plain copy of the whole gradient of the output, `bytes`, to that of an input: both are one thing. Of one sample a
 * part is contiguous too. */
static bool is_alias(const gp_lowered_op *op, size_t bytes) {
    return op->desc.kind == GP_OP_COPY && op->ref[GP_COPY_X].role == GP_ROLE_GRAD_OUTPUT &&
           op->ref[GP_COPY_Y].role == GP_ROLE_GRAD_INPUT && op->ref[GP_COPY_X].first == 0 &&
           op->ref[GP_COPY_Y].first == 0 &&
           gp_tensor_same_dims(&op->desc.operand[GP_COPY_X], &op->desc.operand[GP_COPY_Y]) &&
           gp_tensor_bytes(&op->desc.operand[GP_COPY_X]) == bytes &&
           gp_tensor_contiguous(&op->desc.operand[GP_COPY_X]) && gp_tensor_contiguous(&op->desc.operand[GP_COPY_Y]);
}

static bool makes_param_grads(const gp_lowered_op *op) {
    for (int i = 0; i < GP_MAX_OPERANDS; i++)
        if (op->ref[i].role == GP_ROLE_GRAD_PARAM) return true;
    return false;
}

/* Then it can wait: no stage before needs anything of it. */
static bool makes_only_param_grads(const gp_lowered_op *op) {
    for (int i = 0; i < GP_MAX_OPERANDS; i++)
        if (op->ref[i].role != GP_ROLE_NONE && op->ref[i].role != GP_ROLE_GRAD_PARAM && gp_op_writes(op->desc.kind, i))
            return false;
    return true;
}

/* An addition to a parameter's gradient goes with the op whose share it adds. */
static gp_status add_share(gp_stage_compiler *compiler, const gp_staged_op *of, size_t bytes,
                           const gp_staged_operand operands[3], gp_error *err) {
    GP_RETURN_IF_FAILED(add_flat(compiler, of->node, GP_OP_ADD, bytes, GP_WHEN_REST, operands, 3, true, err));
    compiler->backward.items[compiler->backward.count - 1].weight = of->weight;
    return GP_OK;
}

/* The share into things of its own, then one addition for each parameter. */
static gp_status add_shares(gp_stage_compiler *compiler, gp_staged_op staged, const gp_lowered_op *op, gp_error *err) {
    gp_staged_operand target[GP_MAX_OPERANDS];
    staged.always = false;
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        target[i] = staged.operand[i];
        if (op->ref[i].role != GP_ROLE_GRAD_PARAM) continue;
        int share;
        GP_RETURN_IF_FAILED(gp_compiler_thing(compiler, staged.prepared->operand[i].bytes, &share, err));
        staged.operand[i] = whole(share);
        staged.operand[i].role = target[i].role;
    }
    GP_RETURN_IF_FAILED(gp_staged_add(&compiler->backward, staged, err));
    for (int i = 0; i < GP_MAX_OPERANDS; i++) {
        if (op->ref[i].role != GP_ROLE_GRAD_PARAM) continue;
        gp_staged_operand operands[] = {target[i], staged.operand[i], target[i]};
        GP_RETURN_IF_FAILED(add_share(compiler, &staged, staged.prepared->operand[i].bytes, operands, err));
    }
    return GP_OK;
}

static gp_status stage_param_grads(gp_stage_compiler *compiler, int op_index, const gp_lowered_op *op,
                                   gp_staged_op staged, gp_error *err) {
    staged.always = true;
    staged.weight = makes_only_param_grads(op);
    staged.when = GP_WHEN_FIRST;
    GP_RETURN_IF_FAILED(gp_staged_add(&compiler->backward, staged, err));
    staged.when = GP_WHEN_REST;
    if (op->desc.kind == GP_OP_COPY) {
        gp_staged_operand y = staged.operand[GP_COPY_Y];
        gp_staged_operand operands[] = {y, staged.operand[GP_COPY_X], y};
        return add_share(compiler, &staged, staged.prepared->operand[GP_COPY_Y].bytes, operands, err);
    }
    gp_error refused = {0};
    gp_status status = gp_stage_prepare(compiler->plan, compiler->request, staged.node, op_index, op, GP_OP_ACCUMULATE,
                                        true, &staged.prepared, &refused);
    if (status == GP_OK) return gp_staged_add(&compiler->backward, staged, err);
    if (status != GP_UNSUPPORTED) return gp_fail(err, status, "%s", refused.text);
    return add_shares(compiler, staged, op, err);
}

static gp_status stage_node_op(gp_stage_compiler *compiler, int node, int op_index, int first_temp,
                               gp_node_grads *grads, gp_error *err) {
    const gp_lowered_op *op = &compiler->lowering.nodes[node - compiler->stage->first_node].ops[op_index];
    size_t bytes = grads->output >= 0 ? compiler->things[grads->output].bytes : 0;
    gp_staged_op staged;
    if (op->pass != GP_PASS_BACKWARD || gp_lowered_is_dead(compiler->graph, node, op)) return GP_OK;
    if (is_alias(op, bytes) && grads->inputs[op->ref[GP_COPY_Y].index] < 0) {
        grads->inputs[op->ref[GP_COPY_Y].index] = grads->output;
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(
        gp_compiler_resolve(compiler, node, op_index, first_temp, grads, &compiler->backward, &staged, err));
    if (makes_param_grads(op)) return stage_param_grads(compiler, op_index, op, staged, err);
    return gp_staged_add(&compiler->backward, staged, err);
}

static gp_status stage_node(folder *f, int node, gp_error *err) {
    gp_stage_compiler *compiler = f->compiler;
    const gp_node *its = &compiler->graph->nodes[node];
    size_t count = compiler->lowering.nodes[node - compiler->stage->first_node].count;
    int first_temp = 0;
    gp_node_grads grads = {.output = -1};
    if (its->output >= 0) {
        grads.output = f->sum[gp_compiler_position(compiler, its->output)];
        if (grads.output < 0) return GP_OK; /* nothing that is trained lies on this path */
    }
    GP_RETURN_IF_FAILED(GP_NEW(&grads.inputs, its->input_count, err));
    for (int i = 0; i < its->input_count; i++) grads.inputs[i] = -1;
    gp_status status = gp_compiler_temps(compiler, node, &first_temp, err);
    for (size_t o = 0; o < count && status == GP_OK; o++)
        status = stage_node_op(compiler, node, (int)o, first_temp, &grads, err);
    for (int i = its->input_count - 1; i >= 0 && status == GP_OK; i--)
        if (grads.inputs[i] >= 0 && compiler->graph->values[its->inputs[i]].needs_grad)
            status = fold(f, node, i, grads.inputs[i], err);
    free(grads.inputs);
    return status;
}

/* A thing that leaves in the gradient frame must be made there: by the op that writes it where nothing stands against
 * that, else by a copy. */
static gp_status finish_outgoing(folder *f, gp_error *err) {
    gp_stage_compiler *compiler = f->compiler;
    const gp_indices *edges = &compiler->stage->grad_out;
    bool *fixed = NULL; /* [thing] has its place already */
    GP_RETURN_IF_FAILED(GP_NEW(&fixed, compiler->thing_count, err));
    for (size_t i = 0; i < compiler->stage->grad_in.count; i++) fixed[compiler->grad_in[i]] = true;
    gp_status status = GP_OK;
    for (size_t i = 0; i < edges->count && status == GP_OK; i++) {
        int value = compiler->request->stages->edges[edges->items[i]].value;
        if (i > 0 && compiler->request->stages->edges[edges->items[i - 1]].value == value) {
            compiler->grad_out[i] = compiler->grad_out[i - 1];
            continue;
        }
        int sum = f->sum[gp_compiler_position(compiler, value)];
        if (sum < 0) {
            status = gp_fail(err, GP_INTERNAL, "no gradient for \"%s\"", compiler->graph->values[value].name);
            break;
        }
        if (fixed[sum]) {
            size_t bytes = compiler->things[sum].bytes;
            int copy;
            status = gp_compiler_thing(compiler, bytes, &copy, err);
            gp_staged_operand operands[] = {whole(sum), whole(copy)};
            if (status == GP_OK)
                status = add_flat(compiler, -1, GP_OP_COPY, bytes, GP_WHEN_ALWAYS, operands, 2, false, err);
            compiler->grad_out[i] = copy;
        } else {
            fixed[sum] = true;
            compiler->grad_out[i] = sum;
        }
    }
    free(fixed);
    return status;
}

gp_status gp_compiler_backward(gp_stage_compiler *compiler, gp_error *err) {
    const gp_stage *stage = compiler->stage;
    folder f = {compiler, NULL};
    size_t positions = stage->takes.count + (size_t)stage->node_count;
    gp_status status = GP_NEW(&f.sum, positions, err);
    for (size_t i = 0; i < positions && status == GP_OK; i++) f.sum[i] = -1;
    for (size_t i = 0; i < stage->grad_in.count && status == GP_OK; i++) {
        int value = compiler->request->stages->edges[stage->grad_in.items[i]].value;
        int *sum = &f.sum[gp_compiler_position(compiler, value)];
        size_t bytes = compiler->things[gp_compiler_value(compiler, value)].bytes;
        if (*sum < 0) status = gp_compiler_thing(compiler, bytes, sum, err);
        compiler->grad_in[i] = *sum;
    }
    for (int n = stage->node_count - 1; n >= 0 && status == GP_OK; n--)
        status = stage_node(&f, stage->first_node + n, err);
    if (status == GP_OK) status = finish_outgoing(&f, err);
    free(f.sum);
    return status;
}
