/* Where the times come from that a session balances by: a profile that somebody names, one that was kept, one that is
 * measured now, or counted operations and bytes.
 *
 * Works on a session while it is opened; one thread. */
#ifndef GP_TRAIN_BALANCING_H
#define GP_TRAIN_BALANCING_H

#include "balance/balance.h"
#include "balance/profile_identity.h"
#include "train/session.h"

/* Sets session->profile as options->profiling says, which may leave it NULL. */
GP_MUST_USE gp_status gp_balancing_find_profile(gp_session *session, const gp_session_options *options, gp_error *err);

/* What is balanced for. */
typedef struct gp_balancing_choice {
    int64_t samples, micro_batches; /* of a micro-batch; how many */
    bool always;                    /* recomputing everywhere, in place of what the configuration says */
    bool by_size;                   /* bytes in place of picoseconds, and nothing for copies */
} gp_balancing_choice;

/* What layers and copies cost on each device, for gp_balance_find. */
typedef struct gp_balancing_costs {
    gp_balance_device *devices;   /* [worker] */
    const int64_t **stage_layers; /* [stage]; NULL: all stages have one checkpoint mode */
    int64_t *layers;              /* that they point into */
} gp_balancing_costs;

GP_MUST_USE gp_status gp_balancing_costs_init(gp_balancing_costs *costs, const gp_session *session,
                                              const gp_balancing_choice *with, gp_error *err);
void gp_balancing_costs_fini(gp_balancing_costs *costs);

#endif
