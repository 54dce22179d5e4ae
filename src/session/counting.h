/* Rates that a session counts costs with: kept ones, or measured now if it is worth it.
 *
 * Works on a session while it is opened; one thread. */
#ifndef GP_SESSION_COUNTING_H
#define GP_SESSION_COUNTING_H

#include "base/ticker.h"
#include "session/session.h"

/* Seconds that measuring may take before the run, by how long the run should take by counted costs. */
GP_MUST_USE gp_status gp_counting_share_of_run(const gp_session *session, double *out, gp_error *err);

typedef struct gp_counting_request {
    const gp_session_options *options;
    const gp_device_spec *devices; /* that differ */
    int count;
    gp_ticker *ticker;
} gp_counting_request;

/* If the session has no profile, its profile becomes one of rates, if there are any. A session that measures also
 * leaves rates for later sessions: gpipe-balance always, a run if it is long enough. */
GP_MUST_USE gp_status gp_counting_find_rates(gp_session *session, const gp_counting_request *with, gp_error *err);

#endif
