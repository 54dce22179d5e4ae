/* Where the times come from that a session balances by: a profile that somebody names, one that was kept, one that is
 * measured now, or counted operations and bytes.
 *
 * Works on a session while it is opened; one thread. */
#ifndef GP_TRAIN_BALANCING_H
#define GP_TRAIN_BALANCING_H

#include "balance/profile_identity.h"
#include "train/session.h"

/* Sets session->profile as options->profiling says, which may leave it NULL. */
GP_MUST_USE gp_status gp_balancing_find_profile(gp_session *session, const gp_session_options *options, gp_error *err);

/* cost[layer] in picoseconds of a micro-batch of `samples`: forward, backward, and recomputing as often as `checkpoint`
 * says. */
GP_MUST_USE gp_status gp_balancing_costs(const gp_session *session, int64_t samples, int64_t micro_batches,
                                         gp_checkpoint_mode checkpoint, int64_t *cost, gp_error *err);

#endif
