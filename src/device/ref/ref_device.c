#include "device/ref/ref.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/ref/ref_ops.h"
#include "device/rows.h"

typedef struct ref_device {
    size_t limit; /* bytes; 0: none but the machine's */
    size_t reserved;
} ref_device;

/* A stream or an event. Work is done when the call that enqueues it returns: there is nothing that these would have to
 * remember. */
typedef struct ref_token {
    int unused;
} ref_token;

/* Stands before each block, so that the block can be given back without its size. */
typedef union block_head {
    size_t bytes;
    unsigned char space[GP_ALIGNMENT];
} block_head;

typedef gp_status ref_loop(const ref_call *call);

static ref_loop *const loops[GP_OP_KINDS] = {
#define GP_OP(NAME, name, ...) [GP_OP_##NAME] = ref_##name,
#include "device/op_table.inc"
};

static gp_status ref_prepare(gp_prepared *prepared, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        if (tensor->format != GP_FORMAT_PLAIN && tensor->format != GP_FORMAT_ANY) {
            return gp_fail(err, GP_UNSUPPORTED, "ref cannot %s: %s has format %u, and it knows only plain ones",
                           gp_op_name(desc->kind), gp_op_operand_name(desc->kind, i), tensor->format);
        }
    }
    for (int i = 0; i < (int)desc->operands; i++) {
        prepared->operand[i] = (gp_operand_storage){GP_FORMAT_PLAIN, gp_tensor_bytes(&desc->operand[i])};
    }
    prepared->workspace = 0;
    gp_op_allow_in_place(prepared);
    return GP_OK;
}

static void ref_release(gp_prepared *prepared) {
    prepared->context = NULL;
}

static gp_status ref_open(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    if (spec->index != 0) return gp_fail(err, GP_DEVICE, "ref:%d: there is only one device of this kind", spec->index);
    if (spec->threads > 1) {
        return gp_fail(err, GP_UNSUPPORTED, "ref: %d threads: it has only 1", spec->threads);
    }
    ref_device *device;
    GP_RETURN_IF_FAILED(GP_NEW(&device, 1, err));
    device->limit = spec->memory;
    *out = (gp_device *)device;
    return GP_OK;
}

static void ref_close(gp_device *device) {
    free(device);
}

static gp_status ref_reserve(gp_device *device_, size_t bytes, void **out, gp_error *err) {
    ref_device *device = (ref_device *)device_;
    size_t size, reserved;
    bool fits =
        gp_size_add(bytes, sizeof(block_head) + GP_ALIGNMENT, &size) && gp_size_add(device->reserved, bytes, &reserved);
    if (!fits || (device->limit && reserved > device->limit)) {
        return gp_fail(err, GP_MEMORY, "ref: needs %zu more bytes, but %zu of its %zu bytes are in use", bytes,
                       device->reserved, device->limit);
    }
    block_head *head = aligned_alloc(GP_ALIGNMENT, gp_align_up(sizeof *head + bytes, GP_ALIGNMENT));
    if (!head)
        return gp_fail(err, GP_MEMORY, "ref: cannot reserve %zu bytes: the machine has too little memory", bytes);
    memset(head, 0, sizeof *head + bytes); /* every page is touched now: no later step finds the memory gone */
    head->bytes = bytes;
    device->reserved = reserved;
    *out = head + 1;
    return GP_OK;
}

static void ref_unreserve(gp_device *device, void *block) {
    if (!block) return;
    block_head *head = (block_head *)block - 1;
    ((ref_device *)device)->reserved -= head->bytes;
    free(head);
}

static gp_status ref_stream_create(gp_device *device, bool copies, gp_stream **out, gp_error *err) {
    (void)device;
    (void)copies;
    ref_token *stream;
    GP_RETURN_IF_FAILED(GP_NEW(&stream, 1, err));
    *out = (gp_stream *)stream;
    return GP_OK;
}

static void ref_stream_destroy(gp_stream *stream) {
    free(stream);
}

static gp_status ref_event_create(gp_device *device, bool timed, gp_event **out, gp_error *err) {
    (void)device;
    (void)timed;
    ref_token *event;
    GP_RETURN_IF_FAILED(GP_NEW(&event, 1, err));
    *out = (gp_event *)event;
    return GP_OK;
}

static void ref_event_destroy(gp_event *event) {
    free(event);
}

static gp_status ref_event_record(gp_event *event, gp_stream *stream, gp_error *err) {
    (void)event;
    (void)stream;
    (void)err;
    return GP_OK;
}

static gp_status ref_stream_wait(gp_stream *stream, const gp_event *event, gp_error *err) {
    (void)stream;
    (void)event;
    (void)err;
    return GP_OK;
}

static gp_status ref_event_finish(const gp_event *event, const gp_cancel *cancel, gp_error *err) {
    (void)cancel;
    return ref_stream_wait(NULL, event, err);
}

static gp_status ref_stream_finish(gp_stream *stream, const gp_cancel *cancel, gp_error *err) {
    (void)stream;
    (void)cancel;
    (void)err;
    return GP_OK;
}

static gp_status ref_copy_in(gp_stream *stream, void *device_to, const void *host_from, size_t bytes, gp_error *err) {
    (void)stream;
    (void)err;
    memcpy(device_to, host_from, bytes);
    return GP_OK;
}

static gp_status ref_copy_out(gp_stream *stream, void *host_to, const void *device_from, size_t bytes, gp_error *err) {
    (void)stream;
    (void)err;
    memcpy(host_to, device_from, bytes);
    return GP_OK;
}

static gp_status ref_pull(gp_stream *stream, void *to, const gp_device *from, const void *address, size_t bytes,
                          gp_error *err) {
    (void)stream;
    (void)from;
    (void)err;
    memcpy(to, address, bytes);
    return GP_OK;
}

static gp_status ref_run(gp_stream *stream, const gp_prepared *prepared, void *const operands[], void *workspace,
                         const gp_op_args *args, gp_error *err) {
    (void)stream;
    (void)workspace;
    const gp_op_desc *desc = &prepared->desc;
    ref_call call = {.desc = desc, .args = args, .err = err};
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        if ((operands[i] != NULL) != (tensor->present != 0)) {
            return gp_fail(err, GP_INTERNAL, "%s: operand %s %s", gp_op_name(desc->kind),
                           gp_op_operand_name(desc->kind, i),
                           tensor->present ? "has no address" : "has an address but is absent");
        }
        call.operand[i] = (ref_view){tensor, operands[i]};
    }
    return loops[desc->kind](&call);
}

const gp_device_kind gp_ref_kind = {
    .name = "ref",
    .computes_f64 = true,
    .on_host = true,
    .prepare = ref_prepare,
    .release = ref_release,
    .open = ref_open,
    .close = ref_close,
    .reserve = ref_reserve,
    .unreserve = ref_unreserve,
    .stream_create = ref_stream_create,
    .stream_destroy = ref_stream_destroy,
    .event_create = ref_event_create,
    .event_destroy = ref_event_destroy,
    .event_record = ref_event_record,
    .stream_wait = ref_stream_wait,
    .event_finish = ref_event_finish,
    .stream_finish = ref_stream_finish,
    .copy_in = ref_copy_in,
    .copy_out = ref_copy_out,
    .pull = ref_pull,
    .run = ref_run,
};
