/* Inside the device room: what the devices in the host's memory (cpu, ref) share. These are blocks of memory, copies,
 * and events of streams that do their work at once, in the calling thread. A device's struct begins with a gp_host;
 * its owner is the worker that opened it. Events may be waited for by any thread. */
#ifndef GP_DEVICE_HOST_H
#define GP_DEVICE_HOST_H

#include "device/device.h"

typedef struct gp_host {
    const char *name; /* of the device kind: sentences begin with it */
    size_t limit;     /* bytes; 0: what the machine has */
    size_t reserved;
} gp_host;

/* For `open`: refuses an index, and fills in the host. */
GP_MUST_USE gp_status gp_host_init(gp_host *host, const gp_device_spec *spec, gp_error *err);

/* Of gp_device_kind. */
gp_status gp_host_reserve(gp_device *device, size_t bytes, void **out, gp_error *err);
void gp_host_unreserve(gp_device *device, void *block);
gp_status gp_host_event_create(gp_device *device, bool timed, gp_event **out, gp_error *err);
void gp_host_event_destroy(gp_event *event);
gp_status gp_host_event_record(gp_event *event, gp_stream *stream, gp_error *err);
gp_status gp_host_stream_wait(gp_stream *stream, const gp_event *event, gp_error *err);
gp_status gp_host_event_finish(const gp_event *event, const gp_cancel *cancel, gp_error *err);
gp_status gp_host_stream_finish(gp_stream *stream, const gp_cancel *cancel, gp_error *err);
gp_status gp_host_copy_in(gp_stream *stream, void *device_to, const void *host_from, size_t bytes, gp_error *err);
gp_status gp_host_copy_out(gp_stream *stream, void *host_to, const void *device_from, size_t bytes, gp_error *err);
gp_status gp_host_pull(gp_stream *stream, void *to, const gp_device *from, const void *address, size_t bytes,
                       gp_error *err);

/* The members of a table that these functions fill. */
#define GP_HOST_FUNCTIONS                                                                                              \
    .on_host = true, .reserve = gp_host_reserve, .unreserve = gp_host_unreserve, .event_create = gp_host_event_create, \
    .event_destroy = gp_host_event_destroy, .event_record = gp_host_event_record, .stream_wait = gp_host_stream_wait,  \
    .event_finish = gp_host_event_finish, .stream_finish = gp_host_stream_finish, .copy_in = gp_host_copy_in,          \
    .copy_out = gp_host_copy_out, .pull = gp_host_pull

#endif
