/* The state of a run of several processes while its configuration changes: each process holds the tensors that it would
 * keep in a file (gp_run_home), and none holds all. From the run that ends it gets to the one that follows, whose cut,
 * replicas and processes of workers may differ.
 *
 * All processes of the run call gp_held_take and gp_held_give at the same time: process 0 has asked the others
 * (GP_ASK_HOLD, GP_ASK_GIVE of store/parts.h). A failure in one of them cancels its run, since the others would wait.
 * The thread that calls gp_run_*. */
#ifndef GP_STORE_HELD_H
#define GP_STORE_HELD_H

#include "pipeline/run.h"

typedef struct gp_held gp_held;

/* Takes gp_state_own_bytes. GP_MEMORY; GP_NUMERIC names the first own tensor that is not finite. */
GP_MUST_USE gp_status gp_held_take(gp_run *run, const gp_plan *plan, gp_held **out, gp_error *err);
/* Into a run of another plan. A state of the optimizer that there was not keeps its zeros. Process 0 refreshes the run
 * afterwards (gp_run_refresh). */
GP_MUST_USE gp_status gp_held_give(const gp_held *held, gp_run *run, const gp_plan *plan, gp_error *err);
void gp_held_destroy(gp_held **held);

#endif
