/* What an op may touch: its operands and its workspace, and what it only writes holds nothing before. */
#include <string.h>

#include "pipeline/shadow_internal.h"

typedef struct marking {
    unsigned char *marks;
    size_t start;
    unsigned char mark;
} marking;

OWN_MAP static void mark(void *context, size_t offset, size_t bytes) {
    const marking *m = context;
    for (size_t i = 0; i < bytes; i++) m->marks[m->start + offset + i] |= m->mark;
}

typedef struct search {
    const unsigned char *marks;
    size_t start;
    bool found;
} search;

OWN_MAP static void find_other(void *context, size_t offset, size_t bytes) {
    search *its = context;
    for (size_t i = 0; i < bytes; i++) its->found = its->found || its->marks[its->start + offset + i] & OTHER;
}

OWN_MAP static void unmark(unsigned char *marks, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) marks[i] &= (unsigned char)~OTHER;
}

/* Two operands of an op share bytes only where the device said that the result may have that address. */
static gp_status check_overlap(worker_shadow *w, const wrapper_call *call, int result, int other, gp_error *err) {
    const gp_prepared *prepared = call->prepared;
    const unsigned char *y = call->operands[result], *x = call->operands[other];
    if (!x || result == other || y + prepared->operand[result].bytes <= x || x + prepared->operand[other].bytes <= y)
        return GP_OK;
    if (x == y && prepared->in_place[result] >> other & 1) return GP_OK;
    marking m = {w->op_marks, (size_t)(x - call->arena), OTHER};
    wrapper_stretches(prepared, other, mark, &m);
    search its = {w->op_marks, (size_t)(y - call->arena), false};
    wrapper_stretches(prepared, result, find_other, &its);
    unmark(w->op_marks + m.start, prepared->operand[other].bytes);
    if (!its.found) return GP_OK;
    return shadow_refuse(w, err, "%s: its %s overwrites its %s", gp_op_name(prepared->desc.kind),
                         gp_op_operand_name(prepared->desc.kind, result),
                         gp_op_operand_name(prepared->desc.kind, other));
}

static gp_status check_overlaps(worker_shadow *w, const wrapper_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++)
        for (int j = 0; j < (int)desc->operands && call->operands[i] && gp_op_writes(desc->kind, i); j++)
            GP_RETURN_IF_FAILED(check_overlap(w, call, i, j, err));
    return GP_OK;
}

/* What an op reads and writes, and its workspace, as marks over the arena. */
static gp_status mark_op(worker_shadow *w, const wrapper_call *call, gp_error *err) {
    const gp_prepared *prepared = call->prepared;
    memset(w->op_marks, 0, call->arena_bytes);
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        const unsigned char *operand = call->operands[i];
        if (!operand) continue;
        size_t start = (size_t)(operand - call->arena);
        if (operand < call->arena || start + prepared->operand[i].bytes > call->arena_bytes)
            return shadow_refuse(w, err, "%s: an operand outside the arena", gp_op_name(prepared->desc.kind));
        bool writes = gp_op_writes(prepared->desc.kind, i);
        bool reads = gp_op_reads(prepared->desc.kind, i) || (writes && (prepared->desc.flags & GP_OP_ACCUMULATE) != 0);
        marking m = {w->op_marks, start, (unsigned char)((reads ? MAY_READ : 0) | (writes ? MAY_WRITE : 0))};
        wrapper_stretches(prepared, i, mark, &m);
    }
    GP_RETURN_IF_FAILED(check_overlaps(w, call, err));
    if (!prepared->workspace) return GP_OK;
    size_t start = (size_t)(call->workspace - call->arena);
    if (call->workspace < call->arena || start + prepared->workspace > call->arena_bytes)
        return shadow_refuse(w, err, "%s: its workspace is outside the arena", gp_op_name(prepared->desc.kind));
    if (w->op_marks[start] ||
        shadow_mark_end(w->op_marks, start, start + prepared->workspace) < start + prepared->workspace)
        return shadow_refuse(w, err, "%s: its workspace is an operand's place, too", gp_op_name(prepared->desc.kind));
    memset(w->op_marks + start, MAY_WRITE, prepared->workspace);
    return GP_OK;
}

/* What the op only writes holds the pattern before. */
static gp_status before_op(worker_shadow *w, const wrapper_call *call, gp_error *err) {
    if (call->arena != arena_of(shadow_current, w->site.worker) ||
        call->arena_bytes != plan_of(shadow_current)->arena[w->site.worker])
        return shadow_refuse(w, err, "%zu bytes were reserved, the plan says %zu", call->arena_bytes,
                             plan_of(shadow_current)->arena[w->site.worker]);
    GP_RETURN_IF_FAILED(mark_op(w, call, err));
    for (size_t i = 0, end; i < call->arena_bytes; i = end) {
        end = shadow_mark_end(w->op_marks, i, call->arena_bytes);
        if (w->op_marks[i] == MAY_WRITE) memset(call->arena + i, shadow_current->pattern, end - i);
    }
    memcpy(w->op_before, call->arena, call->arena_bytes);
    return GP_OK;
}

static gp_status after_op(worker_shadow *w, const wrapper_call *call, gp_error *err) {
    size_t change = shadow_find_change(call->arena, w->op_before, w->op_marks, call->arena_bytes);
    if (change < call->arena_bytes)
        return shadow_refuse(w, err, "%s changed byte %zu, which is no result's", gp_op_name(call->prepared->desc.kind),
                             change);
    if (call->prepared->workspace) memset(call->workspace, shadow_current->pattern, call->prepared->workspace);
    return GP_OK;
}

gp_status shadow_before_call(void *context, const wrapper_call *call, gp_error *err) {
    (void)context;
    return shadow_mine && call->kind == WRAPPER_RUN ? before_op(shadow_mine, call, err) : GP_OK;
}

gp_status shadow_after_call(void *context, const wrapper_call *call, gp_error *err) {
    (void)context;
    if (!shadow_mine) return GP_OK;
    if (call->kind == WRAPPER_RUN) return after_op(shadow_mine, call, err);
    const gp_instr *instr = shadow_mine->site.instr;
    if (call->kind == WRAPPER_PULL && instr->op == GP_INSTR_RECV)
        atomic_store(&shadow_current->pulled[(size_t)instr->edge * (size_t)shadow_current->pieces + instr->micro], 1);
    return GP_OK;
}
