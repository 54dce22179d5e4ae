/* What would make a plan fit that does not: the end of the sentence that refuses it.
 *
 * Tries plans with other choices, within a budget of a few seconds. One thread. */
#ifndef GP_SESSION_REMEDY_H
#define GP_SESSION_REMEDY_H

#include "session/planning.h"

/* Refuses the plan of `now`, which does not fit worker `worker`: *err says why. The message goes on with `missing` (of
 * gp_planning_make) and with what would make the plan fit. Returns GP_CONFIG, with the place of the device. */
gp_status gp_remedy_refuse(const gp_session *session, const gp_plan_choice *now, int worker, const char *missing,
                           gp_error *err);

#endif
