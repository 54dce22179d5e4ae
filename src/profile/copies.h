/* Inside the room: how long copies take, by their size.
 *
 * Borrows the benches, whose arenas it writes over; one thread. */
#ifndef GP_PROFILE_COPIES_H
#define GP_PROFILE_COPIES_H

#include "profile/bench.h"

/* Between the benches' devices, each pair of kinds once, and from the host into each: appended to the profile. Writes
 * over the arenas, so after the last round. */
GP_MUST_USE gp_status gp_measure_copies(gp_bench *benches, int count, gp_profile *profile, gp_error *err);

/* Latency and seconds per byte that fit the times of copies of these sizes best, relative errors squared; neither is
 * negative. count ≥ 1; of one size, all is latency. */
void gp_fit_copies(const double *bytes, const double *seconds, int count, double *latency, double *per_byte);

#endif
