/* Inside finding the times that a session plans with: what a search for them knows.
 *
 * Made by gp_profiling_find, in its thread. */
#ifndef GP_SESSION_PROFILING_INTERNAL_H
#define GP_SESSION_PROFILING_INTERNAL_H

#include "base/ticker.h"
#include "profile/profile_identity.h"
#include "session/session.h"

typedef struct gp_profile_search {
    gp_session *session;
    const gp_session_options *options;
    gp_device_spec *devices; /* that differ */
    int count;
    gp_device_spec *company; /* of the host, equal to some of those */
    int company_count;
    bool at_once;
    gp_identity_request request;
    gp_profile_identity now;
    char *path;                          /* where a profile is kept; NULL: nowhere */
    char *what;                          /* "71 layers on cpu, micro-batches of 8 samples": what is timed */
    double seconds;                      /* that timing the layers may take; 0: the run is too short for it */
    bool timing;                         /* a first op is timed */
    char set_aside[GP_DISTURBANCE_TEXT]; /* gp_profile's */
    gp_ticker ticker;
} gp_profile_search;

/* Seconds that measuring may take before the run, by how long the run should take by counted costs. */
GP_MUST_USE gp_status gp_counting_share_of_run(const gp_session *session, double *out, gp_error *err);
/* If the session has no profile, its profile becomes one of rates, if there are any. A session that measures also
 * leaves rates for later sessions: gpipe-balance always, a run if it is long enough. */
GP_MUST_USE gp_status gp_counting_find_rates(gp_profile_search *s, gp_error *err);

#endif
