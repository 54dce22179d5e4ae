/* What the times of a profile depend on: whether a profile fits a configuration on this machine.
 *
 * Reads /proc for the name of the machine, nothing else; any thread. */
#ifndef GP_PROFILE_PROFILE_IDENTITY_H
#define GP_PROFILE_PROFILE_IDENTITY_H

#include "profile/profile.h"

typedef struct gp_identity_request {
    const gp_graph *graph;
    const gp_device_spec *devices;
    int device_count;
    const gp_update *update;
    bool tf32, norms; /* norms: each step finds the norm of all gradients */
    int64_t samples;  /* of a full micro-batch */
    int64_t together; /* devices of the host that work at the same time */
} gp_identity_request;

/* The caller frees it with gp_profile_identity_fini. GP_CONFIG with a place for what a layer refuses. */
GP_MUST_USE gp_status gp_profile_identify(const gp_identity_request *request, gp_profile_identity *out, gp_error *err);
/* Equal in everything but the micro-batch and the number of devices at work. */
bool gp_profile_identity_akin(const gp_profile_identity *a, const gp_profile_identity *b);
/* Equal in everything. */
bool gp_profile_identity_equal(const gp_profile_identity *a, const gp_profile_identity *b);
/* How the profile's identity differs from `now`: "on another machine (…), with micro-batches of 4"; "" if it does not.
 * Texts that the profile lacks fit. Owned by the caller. */
GP_MUST_USE gp_status gp_profile_describe_difference(const gp_profile_identity *profile, const gp_profile_identity *now,
                                                     char **out, gp_error *err);

/* Of layers, their options and shapes, parameters that are trained; not of names. */
GP_MUST_USE gp_status gp_profile_model(const gp_graph *graph, uint64_t *out, gp_error *err);

#endif
