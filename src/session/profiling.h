/* The times that a session plans with: a profile that the user names, one that was kept, one that is measured now, one
 * of other micro-batches scaled, or rates to count with.
 *
 * Works on a session while it is opened; one thread. */
#ifndef GP_SESSION_PROFILING_H
#define GP_SESSION_PROFILING_H

#include "session/session.h"

/* Sets session->profile as session->options say, which may leave it NULL. If the session measures, it also leaves
 * rates for later sessions, if this machine has none and the run is long enough for it. */
GP_MUST_USE gp_status gp_profiling_find(gp_session *session, gp_error *err);

#endif
