#include "train/capture.h"

#include <inttypes.h>

#include "device/device.h"

gp_status gp_capture_check(const gp_capture_options *asked, const gp_plan *plan, int64_t from, int64_t steps,
                           gp_error *err) {
    int64_t first = asked->first, last = asked->last;
    bool can = false;
    if (!last) return GP_OK;
    for (int w = 0; w < plan->workers; w++) can = can || plan->devices[w].kind->capture;
    if (!can)
        return gp_fail(err, GP_USAGE,
                       "--capture-steps %" PRId64 ":%" PRId64 ": no device of the run has a profiler: name a GPU in "
                       "pipeline.devices, or record a timeline with --trace",
                       first, last);
    if (first <= steps && last > from) return GP_OK;
    return gp_fail(err, GP_USAGE,
                   "--capture-steps %" PRId64 ":%" PRId64 ": the run has steps %" PRId64 " to %" PRId64
                   ", so the capture would be empty: choose some of these",
                   first, last, from + 1, steps);
}

bool gp_capture_has(const gp_capture *capture, int64_t step) {
    return capture->asked.last && step >= capture->asked.first && step <= capture->asked.last;
}

/* Each kind of device once: its profiler sees the whole process. */
static gp_status tell(const gp_plan *plan, bool begins, gp_error *err) {
    for (int w = 0; w < plan->workers; w++) {
        const gp_device_kind *kind = plan->devices[w].kind;
        int first = 0;
        while (plan->devices[first].kind != kind) first++;
        if (first == w && kind->capture) GP_RETURN_IF_FAILED(kind->capture(&plan->devices[w], begins, err));
    }
    return GP_OK;
}

gp_status gp_capture_before(gp_capture *capture, const gp_plan *plan, int64_t step, gp_error *err) {
    if (capture->open || !gp_capture_has(capture, step)) return GP_OK;
    GP_RETURN_IF_FAILED(tell(plan, true, err));
    capture->began = capture->open = true;
    return GP_OK;
}

gp_status gp_capture_after(gp_capture *capture, const gp_plan *plan, int64_t step, gp_error *err) {
    return step >= capture->asked.last ? gp_capture_end(capture, plan, err) : GP_OK;
}

gp_status gp_capture_end(gp_capture *capture, const gp_plan *plan, gp_error *err) {
    if (!capture->open) return GP_OK;
    capture->open = false;
    return tell(plan, false, err);
}
