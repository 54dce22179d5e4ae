#include "plan/touches.h"

#include "base/memory.h"

static gp_status touch(arena_touches *out, size_t offset, size_t bytes, bool write, gp_error *err) {
    if (bytes == 0) return GP_OK; /* squares of a stage without parameters */
    GP_RETURN_IF_FAILED(GP_GROW(&out->items, &out->capacity, out->count + 1, err));
    out->items[out->count++] = (arena_touch){offset, bytes, write};
    return GP_OK;
}

/* Whether the op reads that piece of an operand: empty shares have none. */
static bool has_piece(const gp_op_desc *desc, int operand, int64_t piece) {
    int64_t pieces = desc->operand[operand].dim[0];
    if (desc->kind == GP_OP_LOSS_TOTAL) return gp_loss_total_has(&desc->attributes.loss_total, pieces, piece);
    return gp_norm_rows(&desc->attributes.norm, pieces, piece) > 0;
}

/* What replicas have found, piece by piece. */
static gp_status touch_pieces(arena_touches *out, size_t offset, const gp_op_desc *desc, int operand, gp_error *err) {
    const gp_tensor *tensor = &desc->operand[operand];
    size_t bytes = (size_t)tensor->stride[0] * gp_dtype_size(tensor->dtype);
    for (int64_t piece = 0; piece < tensor->dim[0]; piece++)
        if (has_piece(desc, operand, piece))
            GP_RETURN_IF_FAILED(touch(out, offset + (size_t)piece * bytes, bytes, false, err));
    return GP_OK;
}

/* Where an operand is a slice, its rows one by one: what lies between them is another's. */
static gp_status touch_operand(arena_touches *out, size_t offset, const gp_prepared *prepared, int operand, bool write,
                               gp_error *err) {
    const gp_tensor *tensor = &prepared->desc.operand[operand];
    gp_op_kind kind = prepared->desc.kind;
    if ((kind == GP_OP_LOSS_TOTAL && operand == GP_LOSS_TOTAL_PARTIAL) ||
        (kind == GP_OP_NORM_COMMIT && operand == GP_NORM_COMMIT_STATS))
        return touch_pieces(out, offset, &prepared->desc, operand, err);
    if (tensor->format != GP_FORMAT_PLAIN || gp_tensor_contiguous(tensor))
        return touch(out, offset, prepared->operand[operand].bytes, write, err);
    size_t element = gp_dtype_size(tensor->dtype);
    size_t width = (size_t)tensor->dim[tensor->rank - 1] * element;
    for (int64_t row = 0, rows = gp_tensor_rows(tensor); row < rows; row++) {
        size_t at = 0;
        for (int64_t d = tensor->rank - 2, rest = row; d >= 0; rest /= tensor->dim[d--])
            at += (size_t)(rest % tensor->dim[d] * tensor->stride[d]) * element;
        GP_RETURN_IF_FAILED(touch(out, offset + at, width, write, err));
    }
    return GP_OK;
}

static gp_status touch_routine(const gp_plan *plan, const gp_stage_plan *stage, const gp_instr *instr,
                               const gp_routine *routine, size_t first, size_t end, arena_touches *out, gp_error *err) {
    gp_slot_choice slots = gp_instr_slots(plan->stages, instr);
    gp_when skipped = gp_instr_skips(instr);
    for (size_t o = first; o < end && o < routine->count; o++) {
        const gp_exec_op *op = &routine->ops[o];
        if (op->when == skipped) continue;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < GP_MAX_OPERANDS; i++) {
                if (op->operand[i].area == GP_AREA_NONE) continue;
                gp_op_kind kind = op->prepared->desc.kind;
                bool adds = (op->prepared->desc.flags & GP_OP_ACCUMULATE) && gp_op_writes(kind, i);
                if (pass == 0 ? !(gp_op_reads(kind, i) || adds) : !gp_op_writes(kind, i)) continue;
                size_t offset = gp_plan_offset(plan, stage, &slots, instr->micro, op->operand[i]);
                GP_RETURN_IF_FAILED(touch_operand(out, offset, op->prepared, i, pass == 1, err));
            }
        if (op->workspace.area == GP_AREA_NONE) continue;
        size_t offset = gp_plan_offset(plan, stage, &slots, instr->micro, op->workspace);
        GP_RETURN_IF_FAILED(touch(out, offset, op->prepared->workspace, true, err));
    }
    return GP_OK;
}

gp_status touches_list_ops(const gp_plan *plan, const gp_mini_plan *mini, int worker, size_t pc, size_t first,
                           size_t end, arena_touches *out, gp_error *err) {
    const gp_instr *instr = &mini->programs->worker[worker].instrs[pc];
    const gp_stage_plan *stage = &plan->stage[instr->stage];
    gp_move move;
    for (int i = 0; gp_instr_move(plan, mini, instr, i, &move); i++)
        GP_RETURN_IF_FAILED(touch(out, move.offset, move.bytes, gp_instr_copies(instr), err));
    const gp_routine *routines[GP_INSTR_ROUTINES];
    int count = gp_instr_routines(plan, mini, instr, routines);
    for (int r = 0; r < count; r++)
        GP_RETURN_IF_FAILED(touch_routine(plan, stage, instr, routines[r], first, end, out, err));
    return GP_OK;
}

gp_status touches_list(const gp_plan *plan, const gp_mini_plan *mini, int worker, size_t pc, arena_touches *out,
                       gp_error *err) {
    return touches_list_ops(plan, mini, worker, pc, 0, SIZE_MAX, out, err);
}
