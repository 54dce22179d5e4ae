/* What a profile is of: whether one that was taken before fits a configuration on this machine, and where it is kept.
 *
 * Pure but for what /proc and the environment say of the machine; any thread. */
#ifndef GP_BALANCE_PROFILE_IDENTITY_H
#define GP_BALANCE_PROFILE_IDENTITY_H

#include "balance/profile.h"

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
/* Equal in everything. */
bool gp_profile_identity_equal(const gp_profile_identity *a, const gp_profile_identity *b);
/* What of the profile's identity is not what `now` says, as " of another machine (…), …"; "" where all fits. Texts that
 * a profile does not say fit. Owned by the caller. */
GP_MUST_USE gp_status gp_profile_describe_difference(const gp_profile_identity *profile, const gp_profile_identity *now,
                                                     char **out, gp_error *err);

/* Of layers, their options and shapes, parameters that are trained; not of names. */
GP_MUST_USE gp_status gp_profile_model(const gp_graph *graph, uint64_t *out, gp_error *err);

/* Where the profile of this identity and these devices is kept: gpipe/profiles/<key>.json under $XDG_CACHE_HOME or
 * ~/.cache; owned by the caller; NULL where there is no such place. */
GP_MUST_USE gp_status gp_profile_path(const gp_profile_identity *identity, const gp_device_spec *devices, int count,
                                      char **out, gp_error *err);
/* The profile that is kept there; NULL where there is none that fits, damaged ones included. */
GP_MUST_USE gp_status gp_profile_find_kept(const char *path, const gp_profile_identity *identity, const gp_graph *graph,
                                           const gp_device_spec *devices, int count, gp_profile **out, gp_error *err);
/* Writes it there, the folders too. */
GP_MUST_USE gp_status gp_profile_keep(const gp_profile *profile, const char *path, gp_error *err);

#endif
