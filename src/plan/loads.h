/* What a process loads of a mini-batch: the samples of its own stages' shares, as their load instructions copy them.
 *
 * Pure functions of a plan; any thread. */
#ifndef GP_PLAN_LOADS_H
#define GP_PLAN_LOADS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/share.h"
#include "plan/plan.h"

/* Whether a stage of the process loads `value`, GP_VALUE_INPUT or GP_VALUE_TARGET. Its shares may be empty. */
bool gp_plan_loads(const gp_plan *plan, int process, int value);
/* Either of them. */
bool gp_plan_loads_any(const gp_plan *plan, int process);
/* The first range of positions of the mini-batch that stages of the process load of `value`, without what lies before
 * `from`. It lies within one micro-batch. count 0: none is left. */
gp_share gp_mini_loads(const gp_plan *plan, const gp_mini_plan *mini, int process, int value, int64_t from);

#endif
