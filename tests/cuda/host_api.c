#include "cuda/host_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cuda/host_launch.h"
#include "cuda/host_memory.h"
#include "device/cuda/cuda_workspace.h"
#include "device/ref/ref.h"

enum { DEVICES = 4 };
static const size_t device_bytes = (size_t)1 << 40;

struct CUstream_st { /* gp_cuda_stream */
    char unused;
};

struct CUevent_st { /* gp_cuda_event */
    char unused;
};

struct gp_cuda_library {
    char unused;
};

struct gp_cuda_plan {
    char unused;
};

/* Held by whoever touches the device's memory. */
static pthread_mutex_t work = PTHREAD_MUTEX_INITIALIZER;
static _Atomic gp_host_care care = GP_HOST_ORDERS;

void gp_host_api_set_care(gp_host_care wanted) {
    atomic_store(&care, wanted);
}

/* ---- plans ---------------------------------------------------------------------------------------------------------
 */

static bool is_library(gp_op_kind kind) {
    switch ((int)kind) {
    case GP_OP_CONV_FORWARD:
    case GP_OP_CONV_BACKWARD_DATA:
    case GP_OP_CONV_BACKWARD_WEIGHTS:
    case GP_OP_LINEAR_FORWARD:
    case GP_OP_LINEAR_BACKWARD_DATA:
    case GP_OP_LINEAR_BACKWARD_WEIGHTS: return true;
    default: return false;
    }
}

/* What the toolkit's plan would book: of products to the byte; of convolutions the bytes of all operands, which most of
 * cuDNN's engines turn in their workspace (bench/results/2026-11-22-cudnn-plans.txt). */
static size_t library_workspace(const gp_op_desc *desc) {
    size_t bytes = 0;
    switch ((int)desc->kind) {
    case GP_OP_LINEAR_FORWARD:
        return gp_cuda_workspace_booked(gp_cuda_product_workspace(&desc->operand[GP_LINEAR_FORWARD_Y]));
    case GP_OP_LINEAR_BACKWARD_DATA:
        return gp_cuda_workspace_booked(gp_cuda_product_workspace(&desc->operand[GP_LINEAR_BACKWARD_DATA_DX]));
    case GP_OP_LINEAR_BACKWARD_WEIGHTS:
        return gp_cuda_workspace_booked(gp_cuda_product_workspace(&desc->operand[GP_LINEAR_BACKWARD_WEIGHTS_DW]));
    default: break;
    }
    for (int i = 0; i < (int)desc->operands; i++)
        if (desc->operand[i].present) bytes += gp_tensor_bytes(&desc->operand[i]);
    return gp_cuda_workspace_booked(bytes);
}

gp_status gp_host_plan_create(gp_prepared *prepared, gp_error *err) {
    if (!is_library(prepared->desc.kind))
        return gp_fail(err, GP_UNSUPPORTED, "cuda: %s is not available yet", gp_op_name(prepared->desc.kind));
    gp_cuda_plan *plan;
    GP_RETURN_IF_FAILED(gp_ref_kind.prepare(prepared, err));
    GP_RETURN_IF_FAILED(GP_NEW(&plan, 1, err));
    size_t booked = library_workspace(&prepared->desc);
    if (booked > prepared->workspace) prepared->workspace = booked;
    prepared->context = plan;
    return GP_OK;
}

void gp_host_plan_destroy(gp_cuda_plan *plan) {
    free(plan);
}

/* A factor as TF32 has it, cut off: the least exact that a GPU may do. */
static gp_status cut_off(const gp_tensor *tensor, void **operand, gp_error *err) {
    size_t count = gp_tensor_bytes(tensor) / sizeof(uint32_t);
    uint32_t *bits;
    GP_RETURN_IF_FAILED(GP_NEW(&bits, count, err));
    memcpy(bits, *operand, gp_tensor_bytes(tensor));
    for (size_t i = 0; i < count; i++) bits[i] &= ~UINT32_C(0x1fff);
    *operand = bits;
    return GP_OK;
}

static bool is_factor(gp_op_kind kind, int operand) {
    bool is_bias = (kind == GP_OP_CONV_FORWARD && operand == GP_CONV_FORWARD_B) ||
                   (kind == GP_OP_LINEAR_FORWARD && operand == GP_LINEAR_FORWARD_B);
    return !is_bias && gp_op_reads(kind, operand) && !gp_op_writes(kind, operand);
}

static gp_status run_in_tf32(const gp_prepared *prepared, void *const operands[], void *workspace, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    gp_op_args args = {0};
    gp_status status = GP_OK;
    void *operand[GP_MAX_OPERANDS];
    for (int i = 0; i < (int)desc->operands; i++) {
        operand[i] = operands[i];
        if (status == GP_OK && operand[i] && is_factor(desc->kind, i))
            status = cut_off(&desc->operand[i], &operand[i], err);
    }
    if (status == GP_OK) status = gp_device_run(&gp_ref_kind, NULL, prepared, operand, workspace, &args, err);
    for (int i = 0; i < (int)desc->operands; i++)
        if (operand[i] != operands[i]) free(operand[i]);
    return status;
}

/* Of ref, a stream has nothing in it that a run would need. */
gp_status gp_host_plan_run(const gp_prepared *prepared, void *const operands[], void *workspace, gp_error *err) {
    gp_op_args args = {0};
    if (prepared->desc.flags & GP_OP_TF32) return run_in_tf32(prepared, operands, workspace, err);
    return gp_device_run(&gp_ref_kind, NULL, prepared, operands, workspace, &args, err);
}

static gp_status plan_run(gp_cuda_library *library, const gp_prepared *prepared, void *const operands[],
                          void *workspace, gp_error *err) {
    (void)library;
    pthread_mutex_lock(&work);
    gp_status status = gp_host_plan_run(prepared, operands, workspace, err);
    pthread_mutex_unlock(&work);
    return status;
}

static gp_status library_open(gp_cuda_stream *stream, gp_cuda_library **out, gp_error *err) {
    (void)stream;
    return GP_NEW(out, 1, err);
}

static void library_close(gp_cuda_library *library) {
    free(library);
}

/* ---- devices and memory --------------------------------------------------------------------------------------------
 */

static gp_status count_devices(int *out, gp_error *err) {
    (void)err;
    *out = DEVICES;
    return GP_OK;
}

static gp_status use(int index, gp_error *err) {
    if (index < 0 || index >= DEVICES) return gp_fail(err, GP_DEVICE, "use: there is no device %d", index);
    return GP_OK;
}

static gp_status memory(gp_cuda_memory *out, gp_error *err) {
    (void)err;
    *out = (gp_cuda_memory){device_bytes, device_bytes, 0};
    return GP_OK;
}

static gp_status reach(int other, bool *out, gp_error *err) {
    *out = true;
    return use(other, err);
}

static gp_status allocate(size_t bytes, void **out, gp_error *err) {
    pthread_mutex_lock(&work);
    gp_status status = gp_host_memory_allocate(bytes, out, err);
    pthread_mutex_unlock(&work);
    return status;
}

static void release(void *block) {
    pthread_mutex_lock(&work);
    gp_host_memory_release(block);
    pthread_mutex_unlock(&work);
}

static gp_status host_allocate(size_t bytes, void **out, gp_error *err) {
    char *block;
    GP_RETURN_IF_FAILED(GP_NEW(&block, bytes, err));
    *out = block;
    return GP_OK;
}

/* ---- streams and events: all is done when a call returns -----------------------------------------------------------
 */

static gp_status stream_create(bool urgent, gp_cuda_stream **out, gp_error *err) {
    (void)urgent;
    return GP_NEW(out, 1, err);
}

static void stream_destroy(gp_cuda_stream *stream) {
    free(stream);
}

static gp_status event_create(bool timed, gp_cuda_event **out, gp_error *err) {
    (void)timed;
    return GP_NEW(out, 1, err);
}

static void event_destroy(gp_cuda_event *event) {
    free(event);
}

static gp_status event_record(gp_cuda_event *event, gp_cuda_stream *stream, gp_error *err) {
    (void)event;
    (void)stream;
    (void)err;
    return GP_OK;
}

static gp_status event_wait(gp_cuda_stream *stream, gp_cuda_event *event, gp_error *err) {
    return event_record(event, stream, err);
}

static gp_status event_done(gp_cuda_event *event, bool *out, gp_error *err) {
    (void)event;
    (void)err;
    *out = true;
    return GP_OK;
}

static gp_status event_elapsed(gp_cuda_event *from, gp_cuda_event *to, float *out, gp_error *err) {
    (void)from;
    (void)to;
    (void)err;
    *out = 0;
    return GP_OK;
}

/* ---- work ----------------------------------------------------------------------------------------------------------
 */

static gp_status copy(void *to, const void *from, size_t bytes, gp_cuda_direction direction, gp_cuda_stream *stream,
                      gp_error *err) {
    (void)direction;
    (void)stream;
    (void)err;
    pthread_mutex_lock(&work);
    memmove(to, from, bytes);
    pthread_mutex_unlock(&work);
    return GP_OK;
}

static gp_status copy_peer(void *to, int to_index, const void *from, int from_index, size_t bytes,
                           gp_cuda_stream *stream, gp_error *err) {
    (void)to_index;
    (void)from_index;
    return copy(to, from, bytes, GP_CUDA_WITHIN, stream, err);
}

static gp_status note(_Atomic uint32_t *host_at, uint32_t number, gp_cuda_stream *stream, gp_error *err) {
    (void)stream;
    (void)err;
    atomic_store(host_at, number);
    return GP_OK;
}

static gp_status launch_with_care(const gp_cuda_launch *launch, gp_error *err) {
    switch (atomic_load(&care)) {
    case GP_HOST_RANGES: return gp_host_launch_ranges(launch, err);
    case GP_HOST_ORDERS: return gp_host_launch_orders(launch, err);
    case GP_HOST_ONCE: break;
    }
    return gp_host_kernel_run(launch, (gp_host_order){GP_FIBERS_ASCENDING, 0, 0xff}, err);
}

static gp_status launch(const gp_cuda_launch *launch, gp_cuda_stream *stream, gp_error *err) {
    (void)stream;
    pthread_mutex_lock(&work);
    gp_status status = launch_with_care(launch, err);
    pthread_mutex_unlock(&work);
    return status;
}

static bool mark_begin(const char *name) {
    (void)name;
    return false;
}

static void mark_end(void) {}

static gp_status capture(bool begins, gp_error *err) {
    (void)begins;
    (void)err;
    return GP_OK;
}

static gp_status bus_address(int index, char text[GP_BUS_ADDRESS], gp_error *err) {
    (void)err;
    snprintf(text, GP_BUS_ADDRESS, "host memory %d", index);
    return GP_OK;
}

const gp_cuda_api gp_host_api = {
    .count = count_devices,
    .bus_address = bus_address,
    .use = use,
    .memory = memory,
    .reach = reach,
    .allocate = allocate,
    .release = release,
    .host_allocate = host_allocate,
    .host_release = free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_done = event_done,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .copy_peer = copy_peer,
    .note = note,
    .launch = launch,
    .plan_create = gp_host_plan_create,
    .plan_destroy = gp_host_plan_destroy,
    .library_open = library_open,
    .library_close = library_close,
    .plan_run = plan_run,
    .mark_begin = mark_begin,
    .mark_end = mark_end,
    .capture = capture,
};
