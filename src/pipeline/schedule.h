/* Schedules: generators of programs. Each is a pure function, tested against literal tables.
 *
 * A generator decides the order of everything, and leaves slots 0: pipeline/slots.h assigns them.
 */
#ifndef GP_PIPELINE_SCHEDULE_H
#define GP_PIPELINE_SCHEDULE_H

#include <stdbool.h>

#include "base/status.h"
#include "checkpoint/policy.h"
#include "pipeline/program.h"

typedef struct gp_schedule_request {
    const gp_stages *stages;
    int pieces; /* micro-batches of this mini-batch */
    gp_checkpoint_mode checkpoint;
    bool lockstep;
    bool training;
} gp_schedule_request;

/* GPipe's clock-cycle schedule (Huang et al., 1811.06965, section 2.3; torchgpipe, 2004.09910, section 3.2): at clock k
 * stage j works forward on micro-batch k−j; backward mirrors it, micro-batches last to first. In lockstep every clock
 * is: all copies, barrier, all computations. A recompute stands in the clock before its backward. */
GP_MUST_USE gp_status gp_schedule_gpipe(const gp_schedule_request *request, gp_programs **out, gp_error *err);

#endif
