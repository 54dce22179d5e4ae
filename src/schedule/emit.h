/* Programs from orders: adds to what each worker computes the loads, copies, recomputes, barriers and the step.
 *
 * It knows no schedule's name. Slots are left 0: schedule/slots.h assigns them. Pure; any thread.
 */
#ifndef GP_SCHEDULE_EMIT_H
#define GP_SCHEDULE_EMIT_H

#include <stdbool.h>

#include "base/status.h"
#include "checkpoint/policy.h"
#include "schedule/program.h"
#include "schedule/schedules.h"

typedef struct gp_emit_request {
    const gp_stages *stages;               /* as many as the schedule places on its workers */
    gp_pieces pieces;                      /* micro-batches of this mini-batch */
    gp_checkpoint_mode checkpoint;         /* of every stage */
    const gp_checkpoint_mode *checkpoints; /* not NULL: of each in place of that */
    bool lockstep; /* every clock is: all copies, barrier, all computations (torchgpipe, 2004.09910, section 3.2) */
    bool training;
    gp_schedule schedule;
} gp_emit_request;

/* A recompute stands in the clock before its backward, so that it need not wait for the gradient. GP_PROGRAM where a
 * file's order cannot be carried out. */
GP_MUST_USE gp_status gp_programs_emit(const gp_emit_request *request, gp_programs **out, gp_error *err);

#endif
