/* What was recorded of a run, as a timeline: tracks of workers, arrows of copies, and bytes alive. A track has a span
 * for each instruction and each wait. The index of an instruction joins what was measured with the plan. Pure but for
 * the file; one thread, while nothing is recorded. Who has more tracks adds them to the file afterwards. */
#ifndef GP_TIMELINE_TIMELINE_H
#define GP_TIMELINE_TIMELINE_H

#include "base/status.h"
#include "plan/plan.h"
#include "trace/chrome.h"
#include "trace/recorder.h"

/* Lanes 0 … workers−1 of the recorder, on tracks 1 … workers; for devices whose queues have a track each, on more, but
 * below gp_timeline_next_track. Times count from the first span, or from `earliest` (gp_clock) if that is before it;
 * UINT64_MAX: no other time counts. GP_MEMORY; gp_chrome_close reports a file that cannot be written. */
GP_MUST_USE gp_status gp_timeline_write(const gp_plan *plan, const gp_recorder *recorder, uint64_t earliest,
                                        gp_chrome *chrome, gp_error *err);
/* The first track that is free for others. */
int gp_timeline_next_track(const gp_plan *plan);

#endif
