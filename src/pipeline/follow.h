/* The other processes of a run, beside process 0: what they do until the run ends.
 *
 * The trainer's thread of such a process. */
#ifndef GP_PIPELINE_FOLLOW_H
#define GP_PIPELINE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/run.h"

/* Gives a mini-batch to a process that follows; NULL: none of its stages loads data. */
typedef struct gp_feed {
    void *context;
    /* The mini-batch `index` (from 0) of an epoch of the training data, or of the evaluation data. What it points to
     * stays until the next call. Mini-batches are asked for in order; one may be asked for twice. */
    gp_status (*take)(void *context, bool training, int64_t epoch, int64_t index, int64_t samples, gp_step_input *out,
                      gp_error *err);
} gp_feed;

/* Carries out what process 0 calls for, until the run ends. *goes_on: process 0 begins another run, with the next
 * configuration. */
GP_MUST_USE gp_status gp_run_follow(gp_run *run, const gp_feed *feed, bool *goes_on, gp_error *err);
/* Process 0, before gp_run_destroy: another run follows. Else gp_run_destroy says that none does. */
GP_MUST_USE gp_status gp_run_announce_next(gp_run *run, gp_error *err);

#endif
