/* Bound ops: what a worker makes of its routines when a run is created, so that a step allocates nothing.
 *
 * A bound op serves every instruction that runs it, whatever its slots and its micro-batch. Each area has a base
 * address, which follows from the instruction; the address of an operand is the base of its area plus a fixed offset.
 * So a thousand micro-batches need no more bound ops than one.
 *
 * Bindings belong to the worker. One thread at a time makes, uses and destroys them. Functions of a plan: any thread.
 */
#ifndef GP_PLAN_BOUND_H
#define GP_PLAN_BOUND_H

#include "plan/plan.h"

/* The bound objects of a worker's ops, by number of the prepared op. */
typedef struct gp_bindings {
    const gp_device_kind *kind; /* NULL: there is nothing to unbind */
    uint32_t first, count;      /* numbers */
    gp_bound **bound;           /* [number − first]; NULL: the op needs none */
} gp_bindings;

/* Binds the ops of all routines of a worker; of all workers if `worker` is negative. */
GP_MUST_USE gp_status gp_bindings_init(const gp_plan *plan, int worker, gp_bindings *out, gp_error *err);
void gp_bindings_fini(gp_bindings *bindings);
/* Finds plan->bound. */
GP_MUST_USE gp_status gp_bindings_plan(gp_plan *plan, gp_error *err);

/* Where the operands of an instruction lie. */
typedef struct gp_bases {
    char *area[GP_AREAS];
    size_t micro;
} gp_bases;
gp_bases gp_bases_of(const gp_plan *plan, const gp_stage_plan *stage, const gp_slot_choice *slots, int micro,
                     char *arena);

/* Fills the operands that the op has. */
static inline void gp_bind_op(const gp_bindings *bindings, const gp_bases *bases, const gp_exec_op *op,
                              gp_device_op *out) {
    const gp_prepared *prepared = op->prepared;
    out->prepared = prepared;
    out->bound = bindings->count > 0 ? bindings->bound[prepared->number - bindings->first] : NULL;
    for (uint32_t i = 0; i < prepared->desc.operands; i++) {
        const gp_address *at = &op->operand[i];
        out->operands[i] =
            at->area == GP_AREA_NONE ? NULL : bases->area[at->area] + at->offset + at->per_micro * bases->micro;
    }
    out->workspace = op->workspace.area == GP_AREA_NONE ? NULL : bases->area[op->workspace.area] + op->workspace.offset;
}

#endif
