/* Makes a session ready: graph, data, devices, schedule, rules, profile and plan of the configuration that holds.
 *
 * On failure the session keeps what it has, for gp_session_close. One thread. */
#ifndef GP_SESSION_PREPARE_H
#define GP_SESSION_PREPARE_H

#include "session/session.h"

/* GP_CONFIG with a place; GP_DATA for data files and train.init; GP_UNSUPPORTED if planning takes too much memory. */
GP_MUST_USE gp_status gp_session_prepare(gp_session *session, gp_error *err);

#endif
