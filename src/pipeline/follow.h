/* The other processes of a run, beside process 0: what they do until the run ends.
 *
 * The trainer's thread of such a process. */
#ifndef GP_PIPELINE_FOLLOW_H
#define GP_PIPELINE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/run.h"

/* What a process that follows does beside its workers. */
typedef struct gp_feed {
    void *context;
    /* NULL: none of its stages loads data. The mini-batch `index` (from 0) of an epoch of the training data, or of the
     * evaluation data, for step out->step. What it points to stays until the next call. *counted: the targets that
     * count, of those that this process reads. Mini-batches are asked for in order; one may be asked for several
     * times. */
    gp_status (*take)(void *context, bool training, int64_t epoch, int64_t index, int64_t samples, gp_step_input *out,
                      int64_t *counted, gp_error *err);
    /* Answers gp_run_ask. A failure is told to process 0, and ends nothing. */
    gp_status (*answer)(void *context, int question, int64_t number, gp_error *err);
} gp_feed;

/* Carries out what process 0 calls for, until the run ends. *goes_on: process 0 begins another run, with the next
 * configuration. */
GP_MUST_USE gp_status gp_run_follow(gp_run *run, const gp_feed *feed, bool *goes_on, gp_error *err);
/* Process 0, before a step: how many targets count in the mini-batch of `input`, with the plan `mini`. `own`: how many
 * of those that this process reads. Each process counts the targets that its own stages load. */
GP_MUST_USE gp_status gp_run_count(gp_run *run, int mini, const gp_step_input *input, int64_t own, int64_t *out,
                                   gp_error *err);
/* Process 0 asks the others to do something; then it can do its own part, and waits for the answers. *failure: the
 * first that is none of GP_OK. The question and its number are the caller's. */
GP_MUST_USE gp_status gp_run_ask(gp_run *run, int question, int64_t number, gp_error *err);
GP_MUST_USE gp_status gp_run_answers(gp_run *run, gp_error *failure, gp_error *err);
/* All processes: reads tensors of which any of them has parts into the memory of process `home`; the others give no
 * memory. */
GP_MUST_USE gp_status gp_run_gather(gp_run *run, const gp_tensor_copy *copies, int count, int home, gp_error *err);
/* All processes: writes tensors in the memory of process `home` to all workers that have them, or parts of them; the
 * others give no memory. gp_run_refresh follows. */
GP_MUST_USE gp_status gp_run_spread(gp_run *run, const gp_tensor_copy *copies, int count, int home, gp_error *err);
/* The process that keeps a parameter and its states in files: that of one of its replicas. */
int gp_run_home(const gp_plan *plan, int param);
/* Process 0: the run is over. Waits until the others have been told. gp_run_destroy does it, too. */
void gp_run_dismiss(gp_run *run);
/* Process 0, before that: another run follows. */
GP_MUST_USE gp_status gp_run_announce_next(gp_run *run, gp_error *err);

#endif
