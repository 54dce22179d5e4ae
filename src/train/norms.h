/* What -v says of a step: for each layer with parameters the norm of its gradient and that of its parameters.
 *
 * The session was opened with `norms`, so that the step found the squares of its gradients. The trainer's thread. */
#ifndef GP_TRAIN_NORMS_H
#define GP_TRAIN_NORMS_H

#include "base/status.h"
#include "pipeline/run.h"
#include "train/progress.h"

/* After a step that was applied: gradients are its own, before they are clipped; parameters are as it left them. */
GP_MUST_USE gp_status gp_norms_print(gp_progress *progress, gp_run *run, const gp_plan *plan, int64_t step,
                                     gp_error *err);

#endif
