/* What a mini-batch sends over the links of a plan.
 *
 * Pure; any thread. */
#ifndef GP_PLAN_LINK_USE_H
#define GP_PLAN_LINK_USE_H

#include "plan/plan.h"

/* Of one kind of link. Messages of one collective from one member to another count once. */
typedef struct gp_link_use {
    uint64_t copies;
    uint64_t bytes;
    uint64_t busiest_bytes; /* of the host or process that most leaves, or enters, over links of this kind */
    int busiest;            /* that host (between hosts), or process */
    bool enters;            /* else these bytes leave it */
} gp_link_use;

/* `mini`: index in plan->minis. The plan has links. */
GP_MUST_USE gp_status gp_plan_link_use(const gp_plan *plan, int mini, gp_link_use use[GP_LINK_KINDS], gp_error *err);

#endif
