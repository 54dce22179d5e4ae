#include "layers/lowering.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void gp_lowering_init(gp_lowering *lowering, gp_types types, int64_t samples, uint32_t node) {
    memset(lowering, 0, sizeof *lowering);
    lowering->types = types;
    lowering->samples = samples;
    lowering->pieces = 1;
    lowering->replicas = 1;
    lowering->shared = samples;
    lowering->last = samples;
    lowering->node = node;
}

void gp_lowering_fini(gp_lowering *lowering) {
    free(lowering->ops);
    free(lowering->sides.items);
    free(lowering->stats.items);
    free(lowering->temps.items);
    memset(lowering, 0, sizeof *lowering);
}

gp_status gp_lowering_op(gp_lowering *lowering, gp_pass pass, unsigned flags, gp_op_kind kind, gp_lowered_op **out,
                         gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&lowering->ops, &lowering->capacity, lowering->count + 1, err));
    gp_lowered_op *op = &lowering->ops[lowering->count++];
    memset(op, 0, sizeof *op);
    op->pass = pass;
    op->flags = flags;
    gp_op_desc_init(&op->desc, kind);
    *out = op;
    return GP_OK;
}

void gp_lowered_operand(gp_lowered_op *op, int position, gp_tensor tensor, gp_role role, int index) {
    gp_lowered_slice(op, position, tensor, role, index, 0);
}

void gp_lowered_slice(gp_lowered_op *op, int position, gp_tensor tensor, gp_role role, int index, int64_t first) {
    op->desc.operand[position] = tensor;
    op->ref[position] = (gp_ref){role, index, first};
}

static gp_status declare(gp_lowered_tensors *tensors, gp_tensor tensor, int *index, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&tensors->items, &tensors->capacity, tensors->count + 1, err));
    tensors->items[tensors->count] = tensor;
    *index = (int)tensors->count++;
    return GP_OK;
}

gp_status gp_lowering_side(gp_lowering *lowering, gp_tensor tensor, int *index, gp_error *err) {
    return declare(&lowering->sides, tensor, index, err);
}

gp_status gp_lowering_stats(gp_lowering *lowering, gp_tensor tensor, unsigned flags, int *index, gp_error *err) {
    assert(lowering->stats.count < GP_LOWERING_MAX_STATS);
    lowering->stats_flags[lowering->stats.count] = flags;
    return declare(&lowering->stats, tensor, index, err);
}

gp_status gp_lowering_temp(gp_lowering *lowering, gp_tensor tensor, int *index, gp_error *err) {
    return declare(&lowering->temps, tensor, index, err);
}
