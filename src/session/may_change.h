/* Whether a run may go on with another configuration: what cannot be seen in one key alone.
 *
 * Builds graphs and reads schedule files, touches no device. One thread. */
#ifndef GP_SESSION_MAY_CHANGE_H
#define GP_SESSION_MAY_CHANGE_H

#include "base/status.h"
#include "settings/config.h"

/* GP_CONFIG without a place, if the layers, their connections or the shapes of their parameters differ, or if the
 * schedule adds up gradients in another order. GP_CONFIG with a place, if a model or a schedule file is wrong. */
GP_MUST_USE gp_status gp_may_change(const gp_config *before, const gp_config *now, gp_error *err);

#endif
