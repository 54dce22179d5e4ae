#include "pipeline/staging.h"

#include <string.h>

gp_status gp_staging_wait(gp_worker *worker, const gp_event *event, gp_error *err) {
    if (!event) return GP_OK;
    gp_pulse_pause(&worker->pulse);
    GP_RETURN_IF_FAILED(gp_worker_kind(worker)->event_finish(event, &worker->run->cancel, err));
    gp_pulse_resume(&worker->pulse);
    return GP_OK;
}

gp_status gp_staging_take_out(gp_worker *worker, char *to, const char *address, size_t bytes, gp_error *err) {
    const gp_device_kind *kind = gp_worker_kind(worker);
    if (!kind->on_host) return kind->fetch(worker->device, to, address, bytes, &worker->run->cancel, err);
    memcpy(to, address, bytes);
    return GP_OK;
}
