/* What layers and copies cost on a session's devices, by its profile or counted.
 *
 * Works on a session while it is opened; one thread. */
#ifndef GP_SESSION_BALANCING_H
#define GP_SESSION_BALANCING_H

#include "balance/balance.h"
#include "session/session.h"

/* Share of the micro-batches that a stage of this mode recomputes. */
double gp_balancing_recomputes(gp_checkpoint_mode checkpoint, int64_t micro_batches);

/* What a plan can be made with in place of what the configuration says. */
typedef struct gp_plan_choice {
    int64_t micro_batches;
    bool always; /* recomputing everywhere */
    gp_balance_mode balance;
} gp_plan_choice;

/* What layers and copies cost on each device, for gp_balance_find: picoseconds of a micro-batch, with its share of the
 * update. If the choice is GP_BALANCE_SIZE: bytes, and nothing for copies. */
typedef struct gp_balancing_costs {
    gp_balance_device *devices;   /* [worker] */
    const int64_t **stage_layers; /* [stage]; NULL: all stages have one checkpoint mode */
    int64_t *layers;              /* that they point into */
} gp_balancing_costs;

GP_MUST_USE gp_status gp_balancing_costs_init(gp_balancing_costs *costs, const gp_session *session,
                                              const gp_plan_choice *with, gp_error *err);
void gp_balancing_costs_fini(gp_balancing_costs *costs);

#endif
