/* The links of a session: which worker lies in which process and on which host, and what data take between them, as
 * pipeline.links says or as a profile has it.
 *
 * Pure; any thread. */
#ifndef GP_SESSION_LINKING_H
#define GP_SESSION_LINKING_H

#include "profile/profile.h"
#include "schedule/links.h"
#include "settings/config.h"

/* Where workers are. */
typedef struct gp_link_places {
    int processes;                 /* of a run, or that ranks need; 1: those that pipeline.links asks for */
    const int *process;            /* [worker] of those */
    const int *machines;           /* [process] the first process on its machine; NULL: not known */
    const gp_device_spec *devices; /* [worker] */
} gp_link_places;

/* Whether the messages between these devices are of the kind that is measured: they come from the host's memory. */
bool gp_links_are_of_hosts(const gp_device_spec *devices, int count);

/* What pipeline.links says. Of its own processes, workers are dealt out as in a run (session/placement.h). A host has
 * as many processes as it says; if it does not, hosts are the machines, or if they are not known each process has a
 * host of its own. A launched run has links in any case. Else *out is NULL if the configuration has none; the caller
 * destroys it, also on failure. GP_CONFIG with a place: more processes than workers, or ranks that do not exist. */
GP_MUST_USE gp_status gp_links_find(const gp_pipeline_config *pipeline, const gp_link_places *places, gp_links **out,
                                    gp_error *err);
/* Adds what the profile (NULL: none) has of links that the configuration does not give, if they are of hosts. If the
 * configuration has no links, *links is NULL before, and becomes those of several processes, if the profile gives one
 * between them. */
GP_MUST_USE gp_status gp_links_add_measured(const gp_pipeline_config *pipeline, const gp_link_places *places,
                                            const gp_profile *profile, gp_links **links, gp_error *err);

#endif
