/* Copies from a worker's arena to buffers of the host from which messages go (plan/staging.h).
 *
 * The worker's own thread. */
#ifndef GP_PIPELINE_STAGING_H
#define GP_PIPELINE_STAGING_H

#include "pipeline/run_internal.h"

/* On the host: until an event of the worker's own device has happened. That is not to compute: it may take as long as
 * other workers do. NULL: it has. */
GP_MUST_USE gp_status gp_staging_wait(gp_worker *worker, const gp_event *event, gp_error *err);
/* Copies what is computed from the arena to the host. */
GP_MUST_USE gp_status gp_staging_take_out(gp_worker *worker, char *to, const char *address, size_t bytes,
                                          gp_error *err);

#endif
