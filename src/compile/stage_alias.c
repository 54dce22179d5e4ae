/* Copies that move nothing: source and copy become one buffer, so that nothing is written, and saved values have it
 * once. Identity in the forward pass is one, dropout in an evaluation, flatten where there is one position. A copy that
 * has a place of its own stays: it leaves the stage, or is kept for recomputing. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_uses.h"

/* One position between the samples and the channels. */
static bool is_one_position(const gp_tensor *tensor) {
    for (int d = 1; d < tensor->rank - 1; d++)
        if (tensor->dim[d] != 1) return false;
    return true;
}

/* The second operand gets the bytes of the first, in their order. */
static bool moves_nothing(const gp_stage_compiler *c, const gp_staged_op *op) {
    const gp_prepared *prepared = op->prepared;
    const gp_tensor *from = &prepared->desc.operand[GP_COPY_X], *to = &prepared->desc.operand[GP_COPY_Y];
    bool flattens = gp_staged_is_a(op, GP_OP_FLATTEN) || gp_staged_is_a(op, GP_OP_UNFLATTEN);
    if (!flattens && !gp_staged_is_a(op, GP_OP_COPY)) return false;
    if (flattens && !(is_one_position(from) && is_one_position(to))) return false;
    return gp_tensor_contiguous(from) && gp_tensor_contiguous(to) &&
           prepared->operand[GP_COPY_X].format == prepared->operand[GP_COPY_Y].format &&
           gp_staged_is_whole(c, op, GP_COPY_X) && gp_staged_is_whole(c, op, GP_COPY_Y) &&
           prepared->operand[GP_COPY_X].bytes == prepared->operand[GP_COPY_Y].bytes;
}

_Static_assert((int)GP_COPY_X == (int)GP_FLATTEN_X && (int)GP_COPY_Y == (int)GP_FLATTEN_Y &&
                   (int)GP_COPY_X == (int)GP_UNFLATTEN_X && (int)GP_COPY_Y == (int)GP_UNFLATTEN_Y,
               "source and copy stand at the same places");

static void rename_thing(gp_staged_list *list, int from, int to) {
    for (size_t o = 0; o < list->count; o++)
        for (int i = 0; i < GP_MAX_OPERANDS; i++)
            if (list->items[o].operand[i].thing == from) list->items[o].operand[i].thing = to;
}

static void alias(gp_stage_compiler *c, gp_staged_list *list, const gp_thing_uses *uses, bool *gone) {
    for (size_t o = 0; o < list->count; o++) {
        const gp_staged_op *op = &list->items[o];
        if (op->when != GP_WHEN_ALWAYS || !moves_nothing(c, op)) continue;
        int source = op->operand[GP_COPY_X].thing, copy = op->operand[GP_COPY_Y].thing;
        bool complete = uses[source].writes == 0 || uses[source].writer < (int)o;
        if (uses[copy].placed || uses[copy].writes != 1 || !complete) continue;
        gone[o] = true;
        rename_thing(list, copy, source);
        if (list == &c->forward) rename_thing(&c->backward, copy, source);
    }
}

static gp_status alias_list(gp_stage_compiler *c, gp_staged_list *list, gp_error *err) {
    gp_thing_uses *uses = NULL;
    bool *gone = NULL;
    gp_status status = GP_NEW(&uses, c->thing_count, err);
    if (status == GP_OK) status = GP_NEW(&gone, list->count, err);
    if (status == GP_OK) {
        gp_thing_uses_find(c, list, uses);
        alias(c, list, uses, gone);
        gp_staged_remove(list, gone);
    }
    free(uses);
    free(gone);
    return status;
}

gp_status gp_compiler_alias(gp_stage_compiler *compiler, gp_error *err) {
    GP_RETURN_IF_FAILED(alias_list(compiler, &compiler->forward, err));
    GP_RETURN_IF_FAILED(alias_list(compiler, &compiler->evaluate, err));
    return alias_list(compiler, &compiler->backward, err);
}
