/* What planning takes on the host: known from stages, micro-batches and schedule, before any of it is made.
 *
 * Instructions are exact. Bytes are those of the arrays that grow with instructions and copies, at the moment when most
 * of them are there; what a stage's routines take is not in it, since it does not grow with micro-batches. Pure; any
 * thread.
 */
#ifndef GP_PLAN_PLAN_SIZE_H
#define GP_PLAN_PLAN_SIZE_H

#include <stdint.h>

#include "base/machine_memory.h"
#include "plan/plan.h"

typedef struct gp_plan_size {
    uint64_t instructions; /* of all sizes of mini-batches */
    uint64_t bytes;        /* at the most while the plan is made, played and printed */
} gp_plan_size;

/* Of a plan that has its stages, devices, checkpoints and sizes of mini-batches, and no programs yet. */
gp_plan_size gp_plan_estimate(const gp_plan *plan);
/* GP_UNSUPPORTED with the numbers if that is more than the tightest of the limits leaves; NULL: any size will do. Not
 * GP_MEMORY: no memory ran out, and a smaller plan may be made. */
GP_MUST_USE gp_status gp_plan_check_size(const gp_plan *plan, const gp_machine_memory *machine, gp_error *err);

#endif
