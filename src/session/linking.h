/* The links of a session: which worker lies in which process and on which host, as pipeline.links says.
 *
 * Pure; any thread. */
#ifndef GP_SESSION_LINKING_H
#define GP_SESSION_LINKING_H

#include "schedule/links.h"
#include "settings/config.h"

/* Of so many processes, if they are several, or of those that pipeline.links asks for: then workers are dealt out as in
 * a run (session/placement.h). *out is NULL if the configuration has no links; the caller destroys it, also on failure.
 * GP_CONFIG with a place: more processes than workers, or ranks that do not exist. */
GP_MUST_USE gp_status gp_links_find(const gp_pipeline_config *pipeline, int processes, const int *process,
                                    gp_links **out, gp_error *err);

#endif
