/* What an instruction touches of its worker's arena, by the plan: its copies, and the operands and workspaces of its
 * ops.
 *
 * For tests that compare it with what a device reads and writes. A function of the plan; any thread. */
#ifndef GP_TESTS_PLAN_TOUCHES_H
#define GP_TESTS_PLAN_TOUCHES_H

#include "plan/plan.h"

/* A range of an arena that an instruction reads or writes. */
typedef struct arena_touch {
    size_t offset, bytes;
    bool write;
} arena_touch;
typedef struct arena_touches {
    arena_touch *items;
    size_t count, capacity;
} arena_touches;
/* All ranges that instruction `pc` of `worker` touches, in order, slices row by row; appended to *out, which the caller
 * frees. Ops that run only in the first backward are left out in the others, and the reverse. */
GP_MUST_USE gp_status touches_list(const gp_plan *plan, const gp_mini_plan *mini, int worker, size_t pc,
                                   arena_touches *out, gp_error *err);
/* The same, of the ops [first, end) of each of its routines. */
GP_MUST_USE gp_status touches_list_ops(const gp_plan *plan, const gp_mini_plan *mini, int worker, size_t pc,
                                       size_t first, size_t end, arena_touches *out, gp_error *err);

#endif
