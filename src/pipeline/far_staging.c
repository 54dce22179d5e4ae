/* Buffers of the host for messages between processes, and copies from a worker's arena to them (plan/staging.h). */
#include <string.h>

#include "base/memory.h"
#include "pipeline/far_internal.h"

gp_status gp_far_new_buffer(gp_far *far, size_t bytes, char **out, gp_error *err) {
    far->staged = gp_size_plus(far->staged, bytes);
    return bytes > 0 ? gp_new_array((void **)out, bytes, 1, err) : GP_OK;
}

gp_status gp_far_wait_computed(gp_worker *worker, const gp_event *event, gp_error *err) {
    if (!event) return GP_OK;
    gp_pulse_pause(&worker->pulse);
    GP_RETURN_IF_FAILED(gp_worker_kind(worker)->event_finish(event, &worker->run->cancel, err));
    gp_pulse_resume(&worker->pulse);
    return GP_OK;
}

gp_status gp_far_take_out(gp_worker *worker, char *to, const char *address, size_t bytes, gp_error *err) {
    const gp_device_kind *kind = gp_worker_kind(worker);
    if (!kind->on_host) return kind->fetch(worker->device, to, address, bytes, &worker->run->cancel, err);
    memcpy(to, address, bytes);
    return GP_OK;
}
