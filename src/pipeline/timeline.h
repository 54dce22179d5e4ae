/* What was recorded of a run, as a timeline: a track per worker with a span for each instruction and each wait, an
 * arrow for each copy, and the planned bytes that were alive. The index of an instruction joins what was measured with
 * the plan. Pure but for the file; one thread, while nothing is recorded.
 */
#ifndef GP_PIPELINE_TIMELINE_H
#define GP_PIPELINE_TIMELINE_H

#include "base/status.h"
#include "pipeline/plan.h"
#include "trace/chrome.h"
#include "trace/recorder.h"

/* Lanes 0 … workers−1 of the recorder, on tracks 1 … workers. Times count from the first span. GP_MEMORY; what the file
 * refuses is reported by gp_chrome_close. */
GP_MUST_USE gp_status gp_timeline_write(const gp_plan *plan, const gp_recorder *recorder, gp_chrome *chrome,
                                        gp_error *err);

#endif
