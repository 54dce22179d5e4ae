/* A profile for micro-batches of a size that none was measured with: another profile of the same model on this machine,
 * scaled.
 *
 * Each layer's times change as its counted costs do: by the ratio of the counted cost of one micro-batch of the new
 * size to that of one of the old. So a layer keeps the ratio of its measured time to its counted one. One thread. */
#ifndef GP_BALANCE_SCALE_H
#define GP_BALANCE_SCALE_H

#include "balance/profile.h"

/* The profile's times become those of micro-batches of `samples`; the update is not of micro-batches, and stays. */
GP_MUST_USE gp_status gp_profile_scale(gp_profile *profile, const gp_graph *graph, int64_t samples, gp_error *err);

/* Of the profiles that are kept beside `path` the one whose micro-batches are nearest in size to the identity's, scaled
 * to them: equal in everything but the micro-batch and the number of devices at work, of which an equal one comes
 * first. NULL if there is none. `path` NULL: none. */
GP_MUST_USE gp_status gp_profile_find_near(const char *path, const gp_profile_identity *identity, const gp_graph *graph,
                                           const gp_device_spec *devices, int count, gp_profile **out, gp_error *err);

#endif
