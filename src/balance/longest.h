/* The longest that the instructions of a plan should take, by stage and operation: what a lookout compares them with
 * (pipeline/lookout.h).
 *
 * Pure; one thread. */
#ifndef GP_BALANCE_LONGEST_H
#define GP_BALANCE_LONGEST_H

#include "base/status.h"
#include "plan/plan.h"
#include "profile/profile.h"

/* Seconds, as gp_durations has them (balance/expect.h), into out[gp_lookout_expected_index]; 0: no such instruction, or
 * nothing is known of it. `out` has gp_lookout_expected_count numbers. The profile as in gp_durations_init. GP_MEMORY.
 */
GP_MUST_USE gp_status gp_expect_longest(const gp_plan *plan, const gp_profile *profile, double *out, gp_error *err);

#endif
