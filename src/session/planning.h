/* Plans of a session: with what its configuration says, or with something else in its place.
 *
 * Works on a session while it is opened, or reads an open one. One thread. */
#ifndef GP_SESSION_PLANNING_H
#define GP_SESSION_PLANNING_H

#include "session/session.h"

/* What a plan can be made with in place of what the configuration says. */
typedef struct gp_plan_choice {
    int64_t micro_batches;
    bool always; /* recomputing everywhere */
    gp_balance_mode balance;
} gp_plan_choice;

/* What the configuration says. A session that looks for a balance finds it by time. */
gp_plan_choice gp_planning_configured(const gp_session *session);
/* The balance that `with` asks for [stage], and its plan. `missing`: what the solver says if the plan does not fit;
 * else "". */
GP_MUST_USE gp_status gp_planning_make(const gp_session *session, const gp_plan_choice *with, int64_t *layers,
                                       gp_plan **out, char missing[GP_ERROR_TEXT], gp_error *err);
/* Finds the order of the devices by time, whatever the configuration says of the balance. */
GP_MUST_USE gp_status gp_planning_order_devices(gp_session *session, const gp_plan_choice *with, gp_error *err);

#endif
