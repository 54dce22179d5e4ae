/* What a worker records while a timeline is recorded: a span for each instruction, by the host's clock. Where the
 * device works on its own, events with times stand before and behind each instruction and are read when the step is
 * done.
 *
 * Owned by the worker, made when it first records; its thread only. Without a trace each call does nothing. */
#ifndef GP_PIPELINE_SPANS_H
#define GP_PIPELINE_SPANS_H

#include "pipeline/run_internal.h"

/* The step begins: nothing is under way on the device. */
GP_MUST_USE gp_status gp_spans_begin(gp_worker *worker, const gp_program *program, gp_error *err);
/* The worker has come to the instruction; all that it waits for is there, or is waited for in its queue; it is done, or
 * enqueued. */
void gp_spans_come_to(gp_worker *worker, const gp_site *site);
/* The post at `pc`, to which the worker has not come, begins within a backward. The host's clock does not tell when on
 * a device that works on its own. */
void gp_spans_post_early(gp_worker *worker, size_t pc);
GP_MUST_USE gp_status gp_spans_start(gp_worker *worker, const gp_site *site, gp_error *err);
GP_MUST_USE gp_status gp_spans_end(gp_worker *worker, const gp_site *site, gp_error *err);
/* The step is done on the device. */
GP_MUST_USE gp_status gp_spans_collect(gp_worker *worker, gp_error *err);
/* Where the times of layers within instructions go; NULL: they are not recorded, or the device works on its own, so
 * that the host's clock does not tell them. */
gp_ticks *gp_spans_ticks(const gp_worker *worker);
/* Whether such a device gets marks for the layers instead, for its profiler. */
bool gp_spans_marks(const gp_worker *worker);
void gp_spans_destroy(gp_worker *worker);

#endif
