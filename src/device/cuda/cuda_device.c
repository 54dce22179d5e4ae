/* The table of device.h: memory, streams, events and copies; ops are found in ops[], the rest is a library's plan. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_call.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_line.h"
#include "device/cuda/cuda_lost.h"
#include "device/cuda/kernels/sums.h"

/* Streams that did not end, for good. */
static _Atomic(gp_stream *) left;

struct gp_event {
    const gp_device *device;
    gp_cuda_event *handle;
    atomic_bool recorded;
};

static const gp_cuda_op *const ops[GP_OP_KINDS] = {
#define GP_OP(NAME, name, ...) [GP_OP_##NAME] = &gp_cuda_##name,
#include "device/op_table.inc"
};

bool gp_cuda_built(void) {
    return gp_cuda != NULL;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static void cuda_plan_for(int index) {
    if (gp_cuda && gp_cuda->plan_for) gp_cuda->plan_for(index);
}

static gp_status cuda_prepare(gp_prepared *prepared, gp_error *err) {
    const gp_cuda_op *op = ops[prepared->desc.kind];
    if (op->prepare) return op->prepare(prepared, err);
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cuda", err));
    if (op->book) op->book(prepared);
    return GP_OK;
}

static const char *cuda_libraries(void) {
    return gp_cuda->libraries ? gp_cuda->libraries() : "";
}

static void cuda_release(gp_prepared *prepared) {
    if (ops[prepared->desc.kind]->release) ops[prepared->desc.kind]->release(prepared);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static gp_status cuda_open(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    int count;
    gp_device *device;
    if (gp_cuda->count(&count, err) != GP_OK) return gp_error_context(err, "cuda:%d: ", spec->index);
    if (spec->index >= count)
        return gp_fail(err, GP_DEVICE, "cuda:%d: there is no such device: the machine has %d", spec->index, count);
    GP_RETURN_IF_FAILED(gp_cuda->use(spec->index, err));
    GP_RETURN_IF_FAILED(GP_NEW(&device, 1, err));
    int failure = pthread_mutex_init(&device->fetching, NULL);
    if (!failure) {
        failure = pthread_mutex_init(&device->lining, NULL);
        if (failure) pthread_mutex_destroy(&device->fetching);
    }
    if (failure) {
        free(device);
        return gp_fail(err, GP_MEMORY, "cuda:%d: its locks cannot be made: %s", spec->index, strerror(failure));
    }
    device->index = spec->index;
    device->room = (gp_cuda_room){.index = spec->index, .limit = spec->memory};
    gp_cuda_lost_watch(spec->index);
    *out = device;
    return GP_OK;
}

static gp_status cuda_bus_address(int index, char text[GP_BUS_ADDRESS], gp_error *err) {
    if (!gp_cuda->bus_address) return gp_fail(err, GP_DEVICE, "cuda:%d has no bus address", index);
    return gp_cuda->bus_address(index, text, err);
}

static gp_status cuda_reserve(gp_device *device, size_t bytes, void **out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cuda->use(device->index, err));
    GP_RETURN_IF_FAILED(gp_cuda_room_allocate(&device->room, bytes, out, err));
    device->reserved++;
    return GP_OK;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Polls, so that a run that is cancelled, or whose messages fail, is left at once. */
static gp_status wait_for(const gp_device *device, gp_cuda_event *event, const gp_cancel *cancel, gp_error *err) {
    enum { SPINS = 2000 };
    const struct timespec pause = {.tv_nsec = 20000};
    for (long turn = 0;; turn++) {
        bool done = false;
        GP_RETURN_IF_FAILED(gp_cuda->event_done(event, &done, err));
        if (done) return GP_OK;
        if (cancel && gp_cancelled(cancel)) return gp_fail(err, GP_CANCELLED, "cancelled");
        if (turn < SPINS) continue;
        GP_RETURN_IF_FAILED(gp_cuda_lines_check(device, err));
        nanosleep(&pause, NULL);
    }
}

/* Waits for what is under way, since it may use what its owner is about to give back. False where it does not end. */
static bool comes_to_its_end(const gp_stream *stream) {
    gp_error ignored;
    int index = stream->device->index;
    if (!stream->handle || !stream->end || gp_cuda->use(index, &ignored) != GP_OK ||
        gp_cuda->event_record(stream->end, stream->handle, &ignored) != GP_OK)
        return true;
    return gp_cuda_lost_wait(stream->end, index);
}

/* What cannot be done while closing has been said before, or is of no consequence. A stream that does not end is left
 * as it is: the run has failed, and giving back would wait for it. */
static void cuda_stream_destroy(gp_stream *stream) {
    if (!stream) return;
    if (!comes_to_its_end(stream)) {
        stream->device->left = true;
        stream->before = atomic_exchange(&left, stream);
        return;
    }
    for (int turn = 0; turn < 2; turn++) gp_cuda_staging_fini(&stream->staging[turn]);
    if (stream->noted) gp_cuda->host_release(stream->noted);
    if (stream->library) gp_cuda->library_close(stream->library);
    if (stream->end) gp_cuda->event_destroy(stream->end);
    if (stream->turned) gp_cuda->event_destroy(stream->turned);
    if (stream->handle) gp_cuda->stream_destroy(stream->handle);
    free(stream);
}

/* A fetch that has failed may still read what is about to be given back. */
static void cuda_unreserve(gp_device *device, void *block) {
    if (!block) return;
    cuda_stream_destroy(device->fetches);
    device->fetches = NULL;
    if (!device->left) gp_cuda->release(block);
    device->reserved--;
}

static gp_status make_noted(gp_stream *stream, gp_error *err) {
    void *at;
    GP_RETURN_IF_FAILED(gp_cuda->host_allocate(sizeof *stream->noted, &at, err));
    stream->noted = at;
    atomic_init(stream->noted, 0);
    return GP_OK;
}

static gp_status cuda_stream_create(gp_device *device, bool copies, gp_stream **out, gp_error *err) {
    gp_stream *stream;
    GP_RETURN_IF_FAILED(gp_cuda->use(device->index, err));
    GP_RETURN_IF_FAILED(GP_NEW(&stream, 1, err));
    stream->device = device;
    gp_status status = gp_cuda->stream_create(copies, &stream->handle, err);
    if (status == GP_OK) status = gp_cuda->event_create(false, &stream->end, err);
    if (status == GP_OK) status = make_noted(stream, err);
    if (status == GP_OK && !copies) status = gp_cuda_room_library(&device->room, stream->handle, &stream->library, err);
    if (status != GP_OK) {
        cuda_stream_destroy(stream);
        return status;
    }
    *out = stream;
    return GP_OK;
}

static gp_status cuda_event_finish(const gp_event *event, const gp_cancel *cancel, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cuda->use(event->device->index, err));
    return wait_for(event->device, event->handle, cancel, err);
}

static gp_status finish_both(gp_stream *stream, const gp_cancel *cancel, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cuda->event_record(stream->end, stream->handle, err));
    GP_RETURN_IF_FAILED(wait_for(stream->device, stream->end, cancel, err));
    for (int turn = 0; turn < 2; turn++) gp_cuda_staging_deliver(&stream->staging[turn]);
    return GP_OK;
}

static gp_status cuda_stream_finish(gp_stream *stream, const gp_cancel *cancel, gp_error *err) {
    GP_RETURN_IF_FAILED(finish_both(stream, cancel, err));
    stream->turn = 0;
    return GP_OK;
}

static gp_status cuda_stream_turn(gp_stream *stream, gp_error *err) {
    if (!stream->turned) GP_RETURN_IF_FAILED(gp_cuda->event_create(false, &stream->turned, err));
    GP_RETURN_IF_FAILED(gp_cuda->event_record(stream->turned, stream->handle, err));
    stream->turn = 1 - stream->turn;
    return GP_OK;
}

static gp_status cuda_turn_finish(gp_stream *stream, const gp_cancel *cancel, gp_error *err) {
    GP_RETURN_IF_FAILED(wait_for(stream->device, stream->turned, cancel, err));
    gp_cuda_staging_deliver(&stream->staging[1 - stream->turn]);
    return GP_OK;
}

static bool cuda_lost(const gp_device *device) {
    return gp_cuda_lost(device->index);
}

static gp_status cuda_stream_note(gp_stream *stream, uint32_t number, gp_error *err) {
    return gp_cuda->note(stream->noted, number, stream->handle, err);
}

static uint32_t cuda_stream_noted(const gp_stream *stream) {
    return atomic_load(stream->noted);
}

static void cuda_close(gp_device *device) {
    if (!device) return;
    assert(device->reserved == 0 && !device->lines);
    cuda_stream_destroy(device->fetches);
    pthread_mutex_destroy(&device->fetching);
    pthread_mutex_destroy(&device->lining);
    free(device);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static gp_status cuda_event_create(gp_device *device, bool timed, gp_event **out, gp_error *err) {
    gp_event *event;
    GP_RETURN_IF_FAILED(gp_cuda->use(device->index, err));
    GP_RETURN_IF_FAILED(GP_NEW(&event, 1, err));
    event->device = device;
    atomic_init(&event->recorded, false);
    gp_status status = gp_cuda->event_create(timed, &event->handle, err);
    if (status != GP_OK) {
        free(event);
        return status;
    }
    *out = event;
    return GP_OK;
}

static void cuda_event_destroy(gp_event *event) {
    if (!event) return;
    gp_cuda->event_destroy(event->handle);
    free(event);
}

static gp_status cuda_event_record(gp_event *event, gp_stream *stream, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cuda->event_record(event->handle, stream->handle, err));
    atomic_store_explicit(&event->recorded, true, memory_order_release);
    return GP_OK;
}

static gp_status cuda_event_elapsed(const gp_event *from, const gp_event *to, double *out, gp_error *err) {
    float milliseconds;
    GP_RETURN_IF_FAILED(gp_cuda->event_elapsed(from->handle, to->handle, &milliseconds, err));
    *out = (double)milliseconds * 1e6;
    return GP_OK;
}

static gp_status cuda_stream_wait(gp_stream *stream, const gp_event *event, gp_error *err) {
    if (!atomic_load_explicit(&event->recorded, memory_order_acquire))
        return gp_fail(err, GP_INTERNAL, "cuda: a stream waits for an event that was never recorded");
    return gp_cuda->event_wait(stream->handle, event->handle, err);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static gp_status take_staging(gp_stream *stream, size_t bytes, void **out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cuda_staging_take(&stream->staging[stream->turn], bytes, out, err));
    if (*out) return GP_OK;
    GP_RETURN_IF_FAILED(finish_both(stream, NULL, err));
    return gp_cuda_staging_take(&stream->staging[stream->turn], bytes, out, err);
}

static size_t piece_of(size_t bytes) {
    return bytes < gp_cuda_staging_block ? bytes : gp_cuda_staging_block;
}

static gp_status cuda_copy_in(gp_stream *stream, void *device_to, const void *host_from, size_t bytes, gp_error *err) {
    for (size_t at = 0; at < bytes;) {
        size_t piece = piece_of(bytes - at);
        void *staging;
        GP_RETURN_IF_FAILED(take_staging(stream, piece, &staging, err));
        memcpy(staging, (const char *)host_from + at, piece);
        GP_RETURN_IF_FAILED(gp_cuda->copy((char *)device_to + at, staging, piece, GP_CUDA_IN, stream->handle, err));
        at += piece;
    }
    return GP_OK;
}

static gp_status cuda_copy_out(gp_stream *stream, void *host_to, const void *device_from, size_t bytes, gp_error *err) {
    for (size_t at = 0; at < bytes;) {
        size_t piece = piece_of(bytes - at);
        void *staging;
        GP_RETURN_IF_FAILED(take_staging(stream, piece, &staging, err));
        GP_RETURN_IF_FAILED(
            gp_cuda->copy(staging, (const char *)device_from + at, piece, GP_CUDA_OUT, stream->handle, err));
        GP_RETURN_IF_FAILED(
            gp_cuda_staging_expect(&stream->staging[stream->turn], (char *)host_to + at, staging, piece, err));
        at += piece;
    }
    return GP_OK;
}

static gp_status cuda_pull(gp_stream *stream, void *to, const gp_device *from, const void *address, size_t bytes,
                           gp_error *err) {
    gp_device *device = stream->device;
    int here = device->index;
    bool direct;
    if (from->index == here) return gp_cuda->copy(to, address, bytes, GP_CUDA_WITHIN, stream->handle, err);
    /* Where the two reach each other, copies go straight; else the driver takes them through the host. */
    if (from->index < 64 && !(device->asked >> from->index & 1)) {
        GP_RETURN_IF_FAILED(gp_cuda->reach(from->index, &direct, err));
        device->asked |= UINT64_C(1) << from->index;
    }
    return gp_cuda->copy_peer(to, here, address, from->index, bytes, stream->handle, err);
}

static gp_status cuda_fetch(gp_device *device, void *host_to, const void *address, size_t bytes,
                            const gp_cancel *cancel, gp_error *err) {
    gp_status status = gp_cuda->use(device->index, err);
    if (status != GP_OK) return status;
    pthread_mutex_lock(&device->fetching);
    if (!device->fetches) status = cuda_stream_create(device, true, &device->fetches, err);
    if (status == GP_OK) status = cuda_copy_out(device->fetches, host_to, address, bytes, err);
    if (status == GP_OK) status = cuda_stream_finish(device->fetches, cancel, err);
    /* The copy waits for nothing, and what it reads is about to be given back. */
    gp_error ignored;
    if (status == GP_CANCELLED) (void)cuda_stream_finish(device->fetches, NULL, &ignored);
    pthread_mutex_unlock(&device->fetching);
    return status;
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static gp_status bind(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_cuda_call *out,
                      gp_error *err) {
    GP_RETURN_IF_FAILED(gp_device_op_check(op, err));
    *out = (gp_cuda_call){
        ops[op->prepared->desc.kind], op->prepared, op->operands, op->workspace, args, stream->handle, stream->library};
    return GP_OK;
}

static gp_status cuda_run(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    gp_cuda_call call;
    GP_RETURN_IF_FAILED(bind(stream, op, args, &call, err));
    return call.op->run(&call, err);
}

/* Only updates have a launch for many. */
static gp_status cuda_run_many(gp_stream *stream, const gp_device_op *many, int count, const gp_op_args *args,
                               gp_error *err) {
    gp_cuda_call calls[GP_RUN_MANY];
    assert(count <= GP_RUN_MANY);
    for (int i = 0; i < count; i++) GP_RETURN_IF_FAILED(bind(stream, &many[i], args, &calls[i], err));
    return gp_cuda_update_many(calls, count, err);
}

static bool cuda_mark_begin(const char *name) {
    return gp_cuda->mark_begin(name);
}

static void cuda_mark_end(void) {
    gp_cuda->mark_end();
}

/* On a device of the run: the call makes a context on the thread's device. */
static gp_status cuda_capture(const gp_device_spec *spec, bool begins, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_cuda->use(spec->index, err));
    return gp_cuda->capture(begins, err);
}

const gp_device_kind gp_cuda_kind = {
    .name = "cuda",
    .computes = 1U << GP_F32,
    .square_block = GP_KERNEL_SUM_BLOCK,
    .beside = GP_CUDA_BESIDE,
    .pinned = gp_cuda_staging_bytes,
    .prepare = cuda_prepare,
    .release = cuda_release,
    .plan_for = cuda_plan_for,
    .libraries = cuda_libraries,
    .open = cuda_open,
    .close = cuda_close,
    .bus_address = cuda_bus_address,
    .reserve = cuda_reserve,
    .unreserve = cuda_unreserve,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .stream_wait = cuda_stream_wait,
    .event_finish = cuda_event_finish,
    .stream_finish = cuda_stream_finish,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .pull = cuda_pull,
    .fetch = cuda_fetch,
    .run = cuda_run,
    .run_many = cuda_run_many,
    .event_elapsed = cuda_event_elapsed,
    .stream_turn = cuda_stream_turn,
    .turn_finish = cuda_turn_finish,
    .stream_note = cuda_stream_note,
    .stream_noted = cuda_stream_noted,
    .lost = cuda_lost,
    .mark_begin = cuda_mark_begin,
    .mark_end = cuda_mark_end,
    .capture = cuda_capture,
    .has_lines = gp_cuda_has_lines,
    .line_id = gp_cuda_line_id,
    .line_open = gp_cuda_line_open,
    .line_carry = gp_cuda_line_carry,
    .line_abort = gp_cuda_line_abort,
    .line_close = gp_cuda_line_close,
};
