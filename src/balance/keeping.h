/* What keeping outputs on a stage that recomputes would take and spare, for the solver of checkpoint/keep.h.
 *
 * From the layers' lowerings, a profile's times of computing again (or counted ones), and how many micro-batches are
 * alive in a plan where the stage keeps none. Owns its arrays; one thread. */
#ifndef GP_BALANCE_KEEPING_H
#define GP_BALANCE_KEEPING_H

#include "checkpoint/keep.h"
#include "plan/plan.h"
#include "profile/profile.h"

typedef struct gp_keeping {
    gp_keep_layer *layers; /* [node of the stage], the loss too; time in picoseconds */
    int *inputs;           /* that they point into */
    int count;
} gp_keeping;

/* `keeps` [node]: outputs that the plan keeps already, which cost nothing more. profile NULL: counted. */
GP_MUST_USE gp_status gp_keeping_init(gp_keeping *keeping, const gp_plan *plan, int stage, int64_t samples,
                                      const bool *keeps, const gp_profile *profile, gp_error *err);
void gp_keeping_fini(gp_keeping *keeping);

/* share[layer] of what computing a layer again takes that is left with outputs kept as keeps[node] says, by counted
 * costs on a device; wherever the cut runs. */
GP_MUST_USE gp_status gp_keeping_shares(const gp_graph *graph, int64_t samples, const bool *keeps,
                                        const gp_device_spec *device, double *share, gp_error *err);
/* read[node]: the backward pass reads the node's output. */
GP_MUST_USE gp_status gp_keeping_read(const gp_graph *graph, int64_t samples, bool *read, gp_error *err);

#endif
