/* Profiles that are kept from run to run: a file for each in the cache folder (cache.h).
 *
 * Any thread; processes may share the folder. */
#ifndef GP_PROFILE_PROFILE_KEPT_H
#define GP_PROFILE_PROFILE_KEPT_H

#include "profile/profile_identity.h"

/* Where the profile of this identity and these devices is kept, in a folder of the cache: "profiles", "rates". Owned by
 * the caller; NULL if there is no cache. */
GP_MUST_USE gp_status gp_profile_path(const char *folder, const gp_profile_identity *identity,
                                      const gp_device_spec *devices, int count, char **out, gp_error *err);
/* It was disturbed when it was measured, and what disturbed it may be over: nothing uses it, and it is measured again.
 * Within GP_MAY_STILL_RUN seconds it may still say how long plans take now. `now`: seconds since 1970. */
enum { GP_MAY_STILL_RUN = 600 };
bool gp_profile_is_spoilt(const gp_profile *profile, int64_t now);
/* The profile that is kept there; NULL if there is none that fits. A damaged one does not fit. */
GP_MUST_USE gp_status gp_profile_find_kept(const char *path, const gp_profile_identity *identity, const gp_graph *graph,
                                           const gp_device_spec *devices, int count, gp_profile **out, gp_error *err);
/* Writes it there, and makes the folders that are missing. */
GP_MUST_USE gp_status gp_profile_keep(const gp_profile *profile, const char *path, gp_error *err);

/* Of the akin profiles that are kept beside `path`, the one whose micro-batches are nearest in size to the identity's,
 * scaled to them (scale.h). Profiles with the same number of devices at work come first. Spoilt ones do not count. NULL
 * if there is none, or if `path` is NULL. */
GP_MUST_USE gp_status gp_profile_find_near(const char *path, const gp_profile_identity *identity, const gp_graph *graph,
                                           const gp_device_spec *devices, int count, gp_profile **out, gp_error *err);

#endif
