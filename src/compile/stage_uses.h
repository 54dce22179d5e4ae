/* Who writes and reads each buffer of a stage, for the passes that change its lists of ops: stage_alias.c,
 * stage_fuse.c.
 *
 * Used while a stage is compiled; one thread.
 */
#ifndef GP_COMPILE_STAGE_USES_H
#define GP_COMPILE_STAGE_USES_H

#include "compile/stage_things.h"

/* Of a thing, by the ops of one list. */
typedef struct gp_thing_uses {
    int writer; /* index of the last one */
    int writes, reads;
    bool placed;    /* it leaves the stage, comes from another one, or is kept: it has a place of its own */
    bool elsewhere; /* placed, or read by another list */
} gp_thing_uses;

/* uses: [thing], zeroed. */
void gp_thing_uses_find(const gp_stage_compiler *compiler, const gp_staged_list *list, gp_thing_uses *uses);

/* Whether an operand is all of a thing. */
static inline bool gp_staged_is_whole(const gp_stage_compiler *compiler, const gp_staged_op *op, int operand) {
    const gp_staged_operand *it = &op->operand[operand];
    return it->thing >= 0 && it->first == 0 &&
           op->prepared->operand[operand].bytes == compiler->things[it->thing].bytes;
}

static inline bool gp_staged_is_a(const gp_staged_op *op, gp_op_kind kind) {
    return op->prepared->desc.kind == kind;
}

static inline bool gp_staged_same_address(const gp_staged_operand *a, const gp_staged_operand *b) {
    return a->thing == b->thing && a->first == b->first && a->fixed.area == b->fixed.area &&
           a->fixed.offset == b->fixed.offset && a->fixed.per_micro == b->fixed.per_micro;
}

/* Takes ops with gone[i] out of a list. */
void gp_staged_remove(gp_staged_list *list, const bool *gone);

/* Has ops read the source of a copy instead of the copy, and takes the copy out. */
GP_MUST_USE gp_status gp_compiler_alias(gp_stage_compiler *compiler, gp_error *err);

#endif
