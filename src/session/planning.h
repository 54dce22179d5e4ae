/* Plans of a session: with what its configuration says, or with something else in its place.
 *
 * Works on a session while it is opened, or reads an open one. One thread. */
#ifndef GP_SESSION_PLANNING_H
#define GP_SESSION_PLANNING_H

#include "session/balancing.h"

/* What the configuration says. A session that looks for a balance finds it by time. */
gp_plan_choice gp_planning_configured(const gp_session *session);
/* The balance that `with` asks for [stage], and its plan. `missing`: what the solver says if the plan does not fit;
 * else "". */
GP_MUST_USE gp_status gp_planning_make(const gp_session *session, const gp_plan_choice *with, int64_t *layers,
                                       gp_plan **out, char missing[GP_ERROR_TEXT], gp_error *err);
/* Places the devices in the order whose bottleneck costs least, by time whatever the configuration says of the balance.
 * Fails as gp_device_order_find. */
GP_MUST_USE gp_status gp_planning_order_devices(gp_session *session, gp_error *err);

#endif
