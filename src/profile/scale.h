/* A profile for micro-batches of another size.
 *
 * The times of each layer change as its counted costs do: by the ratio of the counted cost of a micro-batch of the new
 * size to that of the old size (without efforts, gp_device_kind). So a layer keeps the ratio of its measured time to
 * its counted one. One thread. */
#ifndef GP_PROFILE_SCALE_H
#define GP_PROFILE_SCALE_H

#include "profile/profile.h"

/* The profile's times become those of micro-batches of `samples`. The update is once per mini-batch, and stays. */
GP_MUST_USE gp_status gp_profile_scale(gp_profile *profile, const gp_graph *graph, int64_t samples, gp_error *err);

#endif
