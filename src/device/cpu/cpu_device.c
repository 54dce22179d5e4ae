#include "device/cpu/cpu.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu_onednn.h"
#include "device/cpu/cpu_ops.h"

struct gp_device {
    gp_cpu_pool *pool;
    size_t limit; /* bytes; 0: what the machine has */
    size_t reserved;
};

struct gp_stream {
    gp_device *device;
    struct dnnl_stream *onednn;
};

/* Work is done when the call that enqueues it returns, so all that an event holds is whether it was recorded. */
struct gp_event {
    atomic_bool recorded;
};

/* Stands before each block, so that the block can be given back without its size. */
typedef union block_head {
    size_t bytes;
    unsigned char space[GP_ALIGNMENT];
} block_head;

static const gp_cpu_op *const ops[GP_OP_KINDS] = {
#define GP_OP(NAME, name, ...) [GP_OP_##NAME] = &gp_cpu_##name,
#include "device/op_table.inc"
};

static gp_status cpu_prepare(gp_prepared *prepared, gp_error *err) {
    const gp_cpu_op *op = ops[prepared->desc.kind];
    if (prepared->desc.threads < 1) {
        return gp_fail(err, GP_INTERNAL, "cpu: %s cannot be prepared for 0 threads", gp_op_name(prepared->desc.kind));
    }
    if (op->prepare) return op->prepare(prepared, err);
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cpu", err));
    if (op->book) op->book(prepared);
    return GP_OK;
}

static void cpu_release(gp_prepared *prepared) {
    if (ops[prepared->desc.kind]->release) ops[prepared->desc.kind]->release(prepared);
}

static gp_status cpu_open(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    if (spec->index != 0) return gp_fail(err, GP_DEVICE, "cpu:%d: there is only one device of this kind", spec->index);
    if (spec->threads < 1) return gp_fail(err, GP_DEVICE, "cpu: %d threads: it needs at least 1", spec->threads);
    gp_device *device;
    GP_RETURN_IF_FAILED(GP_NEW(&device, 1, err));
    device->limit = spec->memory;
    gp_status status = gp_cpu_pool_create(spec->threads, &device->pool, err);
    if (status != GP_OK) {
        free(device);
        return status;
    }
    *out = device;
    return GP_OK;
}

static void cpu_close(gp_device *device) {
    if (!device) return;
    assert(device->reserved == 0);
    gp_cpu_pool_destroy(&device->pool);
    free(device);
}

static gp_status cpu_reserve(gp_device *device, size_t bytes, void **out, gp_error *err) {
    size_t size, reserved;
    bool fits =
        gp_size_add(bytes, sizeof(block_head) + GP_ALIGNMENT, &size) && gp_size_add(device->reserved, bytes, &reserved);
    if (!fits || (device->limit && reserved > device->limit)) {
        return gp_fail(err, GP_MEMORY, "cpu: needs %zu more bytes, but %zu of its %zu bytes are in use", bytes,
                       device->reserved, device->limit);
    }
    block_head *head = aligned_alloc(GP_ALIGNMENT, gp_align_up(sizeof *head + bytes, GP_ALIGNMENT));
    if (!head)
        return gp_fail(err, GP_MEMORY, "cpu: cannot reserve %zu bytes: the machine has too little memory", bytes);
    memset(head, 0, sizeof *head + bytes); /* every page is touched now: no later step finds the memory gone */
    head->bytes = bytes;
    device->reserved = reserved;
    *out = head + 1;
    return GP_OK;
}

static void cpu_unreserve(gp_device *device, void *block) {
    if (!block) return;
    block_head *head = (block_head *)block - 1;
    device->reserved -= head->bytes;
    free(head);
}

static gp_status cpu_stream_create(gp_device *device, bool copies, gp_stream **out, gp_error *err) {
    gp_stream *stream;
    (void)copies;
    GP_RETURN_IF_FAILED(GP_NEW(&stream, 1, err));
    gp_status status = gp_cpu_onednn_open(&stream->onednn, err);
    if (status != GP_OK) {
        free(stream);
        return status;
    }
    stream->device = device;
    *out = stream;
    return GP_OK;
}

static void cpu_stream_destroy(gp_stream *stream) {
    if (!stream) return;
    gp_cpu_onednn_close(&stream->onednn);
    free(stream);
}

static gp_status cpu_event_create(gp_device *device, bool timed, gp_event **out, gp_error *err) {
    (void)device;
    (void)timed;
    gp_event *event;
    GP_RETURN_IF_FAILED(GP_NEW(&event, 1, err));
    atomic_init(&event->recorded, false);
    *out = event;
    return GP_OK;
}

static void cpu_event_destroy(gp_event *event) {
    free(event);
}

static gp_status cpu_event_record(gp_event *event, gp_stream *stream, gp_error *err) {
    (void)stream;
    (void)err;
    atomic_store_explicit(&event->recorded, true, memory_order_release);
    return GP_OK;
}

static gp_status cpu_stream_wait(gp_stream *stream, const gp_event *event, gp_error *err) {
    (void)stream;
    if (atomic_load_explicit(&event->recorded, memory_order_acquire)) return GP_OK;
    return gp_fail(err, GP_INTERNAL, "cpu: a stream waits for an event that was never recorded");
}

static gp_status cpu_event_finish(const gp_event *event, const gp_cancel *cancel, gp_error *err) {
    (void)cancel;
    return cpu_stream_wait(NULL, event, err);
}

static gp_status cpu_stream_finish(gp_stream *stream, const gp_cancel *cancel, gp_error *err) {
    (void)stream;
    (void)cancel;
    (void)err;
    return GP_OK;
}

static gp_status cpu_copy_in(gp_stream *stream, void *device_to, const void *host_from, size_t bytes, gp_error *err) {
    (void)stream;
    (void)err;
    memcpy(device_to, host_from, bytes);
    return GP_OK;
}

static gp_status cpu_copy_out(gp_stream *stream, void *host_to, const void *device_from, size_t bytes, gp_error *err) {
    (void)stream;
    (void)err;
    memcpy(host_to, device_from, bytes);
    return GP_OK;
}

static gp_status cpu_pull(gp_stream *stream, void *to, const gp_device *from, const void *address, size_t bytes,
                          gp_error *err) {
    (void)stream;
    (void)from;
    (void)err;
    memcpy(to, address, bytes);
    return GP_OK;
}

static gp_status cpu_run(gp_stream *stream, const gp_prepared *prepared, void *const operands[], void *workspace,
                         const gp_op_args *args, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++) {
        if ((operands[i] != NULL) != (desc->operand[i].present != 0)) {
            return gp_fail(err, GP_INTERNAL, "%s: operand %s %s", gp_op_name(desc->kind),
                           gp_op_operand_name(desc->kind, i),
                           operands[i] ? "has an address but is absent" : "has no address");
        }
    }
    gp_cpu_call call = {prepared, operands, workspace, args, stream->device->pool, stream->onednn};
    return ops[desc->kind]->run(&call, err);
}

const gp_device_kind gp_cpu_kind = {
    .name = "cpu",
    .computes_f64 = false,
    .on_host = true,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .libraries = gp_cpu_onednn_version,
    .open = cpu_open,
    .close = cpu_close,
    .reserve = cpu_reserve,
    .unreserve = cpu_unreserve,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .stream_wait = cpu_stream_wait,
    .event_finish = cpu_event_finish,
    .stream_finish = cpu_stream_finish,
    .copy_in = cpu_copy_in,
    .copy_out = cpu_copy_out,
    .pull = cpu_pull,
    .run = cpu_run,
};
