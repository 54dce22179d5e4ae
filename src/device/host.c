#include "device/host.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Stands before each block, so that the block can be given back without its size. */
typedef union block_head {
    size_t bytes;
    unsigned char space[GP_ALIGNMENT];
} block_head;

/* Work is done when the call that enqueues it returns: an event is either recorded, or not yet. */
typedef struct host_event {
    const char *device; /* name of its kind */
    atomic_bool recorded;
} host_event;

gp_status gp_host_init(gp_host *host, const gp_device_spec *spec, gp_error *err) {
    const char *name = spec->kind->name;
    if (spec->index != 0)
        return gp_fail(err, GP_DEVICE, "%s:%d: there is only one device of this kind", name, spec->index);
    *host = (gp_host){.name = name, .limit = spec->memory};
    return GP_OK;
}

gp_status gp_host_reserve(gp_device *device, size_t bytes, void **out, gp_error *err) {
    gp_host *host = (gp_host *)device;
    size_t size, reserved;
    bool fits =
        gp_size_add(bytes, sizeof(block_head) + GP_ALIGNMENT, &size) && gp_size_add(host->reserved, bytes, &reserved);
    if (!fits || (host->limit && reserved > host->limit)) {
        return gp_fail(err, GP_MEMORY, "%s: needs %zu more bytes, but %zu of its %zu bytes are in use", host->name,
                       bytes, host->reserved, host->limit);
    }
    block_head *head = aligned_alloc(GP_ALIGNMENT, gp_align_up(sizeof *head + bytes, GP_ALIGNMENT));
    if (!head) {
        return gp_fail(err, GP_MEMORY, "%s: cannot reserve %zu bytes: the machine has too little memory", host->name,
                       bytes);
    }
    memset(head, 0, sizeof *head + bytes); /* every page is touched now: no later step finds the memory gone */
    head->bytes = bytes;
    host->reserved = reserved;
    *out = head + 1;
    return GP_OK;
}

void gp_host_unreserve(gp_device *device, void *block) {
    if (!block) return;
    block_head *head = (block_head *)block - 1;
    ((gp_host *)device)->reserved -= head->bytes;
    free(head);
}

gp_status gp_host_event_create(gp_device *device, bool timed, gp_event **out, gp_error *err) {
    host_event *event;
    (void)timed;
    GP_RETURN_IF_FAILED(GP_NEW(&event, 1, err));
    event->device = ((const gp_host *)device)->name;
    atomic_init(&event->recorded, false);
    *out = (gp_event *)event;
    return GP_OK;
}

void gp_host_event_destroy(gp_event *event) {
    free(event);
}

gp_status gp_host_event_record(gp_event *event, gp_stream *stream, gp_error *err) {
    (void)stream;
    (void)err;
    atomic_store_explicit(&((host_event *)event)->recorded, true, memory_order_release);
    return GP_OK;
}

gp_status gp_host_stream_wait(gp_stream *stream, const gp_event *event_, gp_error *err) {
    const host_event *event = (const host_event *)event_;
    (void)stream;
    if (atomic_load_explicit(&event->recorded, memory_order_acquire)) return GP_OK;
    return gp_fail(err, GP_INTERNAL, "%s: a stream waits for an event that was never recorded", event->device);
}

gp_status gp_host_event_finish(const gp_event *event, const gp_cancel *cancel, gp_error *err) {
    (void)cancel;
    return gp_host_stream_wait(NULL, event, err);
}

gp_status gp_host_stream_finish(gp_stream *stream, const gp_cancel *cancel, gp_error *err) {
    (void)stream;
    (void)cancel;
    (void)err;
    return GP_OK;
}

gp_status gp_host_copy_in(gp_stream *stream, void *device_to, const void *host_from, size_t bytes, gp_error *err) {
    (void)stream;
    (void)err;
    memcpy(device_to, host_from, bytes);
    return GP_OK;
}

gp_status gp_host_copy_out(gp_stream *stream, void *host_to, const void *device_from, size_t bytes, gp_error *err) {
    return gp_host_copy_in(stream, host_to, device_from, bytes, err);
}

gp_status gp_host_pull(gp_stream *stream, void *to, const gp_device *from, const void *address, size_t bytes,
                       gp_error *err) {
    (void)from;
    return gp_host_copy_in(stream, to, address, bytes, err);
}
