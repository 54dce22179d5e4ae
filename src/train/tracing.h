/* --trace: which mini-batches of a run are recorded, and the timeline written when the last of them is over, so that it
 * is there however the run ends later.
 *
 * The timeline has the instructions of the workers, and how data came: what each thread of the loaders read, and when
 * the pipeline waited for a mini-batch.
 *
 * The trainer owns it; its thread only. All functions take NULL for a run that is not traced.
 */
#ifndef GP_TRAIN_TRACING_H
#define GP_TRAIN_TRACING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/loader.h"
#include "pipeline/run.h"
#include "session/session.h"
#include "trace/trace_options.h"

typedef struct gp_tracing gp_tracing;

/* Creates the file, so that a wrong name is found before the run. The session, whose plan the file has as its
 * otherData.plan, is borrowed until gp_tracing_close. *out is NULL where no timeline is asked for. GP_IO. */
GP_MUST_USE gp_status gp_tracing_open(const gp_trace_options *options, const gp_session *session, gp_tracing **out,
                                      gp_error *err);
/* The loaders of the run, whose reading is recorded with the steps; NULL: there is none. Borrowed until
 * gp_tracing_close. */
void gp_tracing_loaders(gp_tracing *tracing, gp_loader *training, gp_loader *evaluation);
/* Before the loader begins to read for an evaluation after step `step`. */
void gp_tracing_before_evaluation(gp_tracing *tracing, int64_t step);
/* Before and after the trainer takes a mini-batch from a loader: for step `step`, or for the evaluation after it. Times
 * are gp_clock's. GP_MEMORY. */
GP_MUST_USE gp_status gp_tracing_before_take(gp_tracing *tracing, bool training, int64_t step, gp_error *err);
void gp_tracing_after_take(gp_tracing *tracing, bool training, int64_t step, uint64_t began, uint64_t ended);
/* Whether the timeline has nothing yet. */
bool gp_tracing_is_empty(const gp_tracing *tracing);
/* Whether the step will be recorded. */
bool gp_tracing_records(const gp_tracing *tracing, int64_t step);
/* Before and after mini-batch plan `mini` runs: for training with the step's number, for evaluation with that of the
 * step before it. A file that cannot be written does not end the run: gp_tracing_close says so. GP_MEMORY. */
GP_MUST_USE gp_status gp_tracing_before(gp_tracing *tracing, gp_run *run, int mini, int64_t step, gp_error *err);
void gp_tracing_after(gp_tracing *tracing, gp_run *run, int64_t step);
/* After that: what the step, or the evaluation after it, came to. */
void gp_tracing_result(gp_tracing *tracing, bool training, int64_t step, int64_t epoch, double loss);
/* Between the two: what the mini-batch is recorded into; NULL: it is not. */
gp_recorder *gp_tracing_recorder(const gp_tracing *tracing);
/* Writes what is not written yet. GP_IO, also for what could not be written before. */
GP_MUST_USE gp_status gp_tracing_close(gp_tracing **tracing, gp_error *err);

#endif
