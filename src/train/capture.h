/* --capture-steps: tells the profiler of the devices (NVIDIA's Nsight Systems) when the first of some steps begins and
 * when the last has ended. Each of these steps runs alone, as the steps of a timeline do (--trace), so that a capture
 * has whole steps and can be compared with a timeline.
 *
 * The trainer owns it; its thread only.
 */
#ifndef GP_TRAIN_CAPTURE_H
#define GP_TRAIN_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "plan/plan.h"

typedef struct gp_capture_options {
    int64_t first, last; /* steps, from 1; 0: none */
} gp_capture_options;

typedef struct gp_capture {
    gp_capture_options asked;
    bool began, open;
} gp_capture;

/* GP_USAGE if no device of the plan has a profiler, or a run that goes on from step `from` (0: begins) and ends after
 * `steps` runs none of the steps. */
GP_MUST_USE gp_status gp_capture_check(const gp_capture_options *asked, const gp_plan *plan, int64_t from,
                                       int64_t steps, gp_error *err);
/* Whether the step is captured. */
bool gp_capture_has(const gp_capture *capture, int64_t step);
/* Before and after a step that runs alone. GP_DEVICE. */
GP_MUST_USE gp_status gp_capture_before(gp_capture *capture, const gp_plan *plan, int64_t step, gp_error *err);
GP_MUST_USE gp_status gp_capture_after(gp_capture *capture, const gp_plan *plan, int64_t step, gp_error *err);
/* Ends a capture that is open: the run ends before its last step. */
GP_MUST_USE gp_status gp_capture_end(gp_capture *capture, const gp_plan *plan, gp_error *err);

#endif
