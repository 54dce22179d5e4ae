/* The training loop: mini-batches through the pipeline, evaluation, metrics, the model's file.
 *
 * Called by one thread, which becomes the one that calls gp_run_*; everything is written into the run folder, and what
 * was reached is saved whatever ends the run, but for a worker's failure.
 */
#ifndef GP_TRAIN_TRAINER_H
#define GP_TRAIN_TRAINER_H

#include <signal.h>

#include "base/status.h"
#include "pipeline/run.h"
#include "process/processes.h"
#include "session/resume.h"
#include "session/session.h"
#include "train/capture.h"
#include "train/progress.h"
#include "train/tracing.h"

typedef struct gp_train_options {
    const char *folder; /* prepared */
    gp_verbosity verbosity;
    const volatile sig_atomic_t *stop; /* not 0: end after the current mini-batch; set by a handler; may be NULL */
    const gp_hooks *hooks;             /* for tests; may be NULL */
    double patience; /* seconds before a long first step is reported (first_step.h); 0: the usual ones */
    gp_trace_options trace;
    gp_capture_options capture;
    const gp_resume *resume; /* what the run goes on from; NULL: it begins */
    gp_processes *processes; /* of which this is process 0; NULL: it is alone */
} gp_train_options;

/* GP_INTERRUPTED, without a sentence: the run was asked to stop, and is saved. An evaluation under way is given up then
 * and leaves no event. GP_NUMERIC where a
 * mini-batch's loss was not finite: that step was not applied, and the model is saved as it was before it. */
GP_MUST_USE gp_status gp_train(gp_session *session, const gp_train_options *options, gp_error *err);

#endif
