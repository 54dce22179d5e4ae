#include "pipeline/wrapper.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"

enum { PATTERN = 0xC3 };

/* A block of whole pages: a forbidden one, the rest of a page, the block, a forbidden one. */
typedef struct wrapper_device {
    gp_device *inner;
    unsigned char *pages, *block;
    size_t mapped, bytes;
} wrapper_device;

typedef struct wrapper_stream {
    gp_stream *inner;
    wrapper_device *device;
} wrapper_stream;

static const gp_device_kind *inner_kind;
static wrapper_hooks hooks;

static gp_status before(const wrapper_call *call, gp_error *err) {
    return hooks.before ? hooks.before(hooks.context, call, err) : GP_OK;
}

static gp_status after(const wrapper_call *call, gp_error *err) {
    return hooks.after ? hooks.after(hooks.context, call, err) : GP_OK;
}

static wrapper_call call_of(wrapper_call_kind kind, const wrapper_device *device) {
    return (wrapper_call){
        .kind = kind, .arena = device ? device->block : NULL, .arena_bytes = device ? device->bytes : 0};
}

static gp_status prepare_inner(gp_prepared *prepared, gp_error *err) {
    return inner_kind->prepare(prepared, err);
}

static void release_inner(gp_prepared *prepared) {
    inner_kind->release(prepared);
}

static gp_status open_device(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    wrapper_call call = call_of(WRAPPER_OPEN, NULL);
    wrapper_device *device;
    gp_device_spec inner = *spec;
    inner.kind = inner_kind;
    GP_RETURN_IF_FAILED(before(&call, err));
    GP_RETURN_IF_FAILED(GP_NEW(&device, 1, err));
    gp_status status = inner_kind->open(&inner, &device->inner, err);
    if (status != GP_OK)
        free(device);
    else
        *out = (gp_device *)device;
    return status;
}

static void close_device(gp_device *device_) {
    wrapper_device *device = (wrapper_device *)device_;
    inner_kind->close(device->inner);
    free(device);
}

static gp_status reserve(gp_device *device_, size_t bytes, void **out, gp_error *err) {
    wrapper_device *device = (wrapper_device *)device_;
    wrapper_call call = call_of(WRAPPER_RESERVE, device);
    call.bytes = bytes;
    GP_RETURN_IF_FAILED(before(&call, err));
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = gp_align_up(bytes, page);
    if (device->block) return gp_fail(err, GP_INTERNAL, "a worker reserved a second block");
    if (bytes % GP_ALIGNMENT) return gp_fail(err, GP_INTERNAL, "%zu bytes reserved: not aligned", bytes);
    device->mapped = inside + 2 * page;
    device->pages = mmap(NULL, device->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (device->pages == MAP_FAILED) return gp_fail(err, GP_MEMORY, "no pages for %zu bytes", bytes);
    memset(device->pages + page, PATTERN, inside);
    mprotect(device->pages, page, PROT_NONE);
    mprotect(device->pages + page + inside, page, PROT_NONE);
    device->block = device->pages + page + inside - bytes;
    device->bytes = bytes;
    *out = device->block;
    return GP_OK;
}

/* Writes before the block end the test: nobody could be told any more. */
static void unreserve(gp_device *device_, void *block) {
    wrapper_device *device = (wrapper_device *)device_;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (const unsigned char *byte = device->pages + page; byte < (unsigned char *)block; byte++)
        if (*byte != PATTERN) abort();
    munmap(device->pages, device->mapped);
}

static gp_status create_stream(gp_device *device_, bool copies, gp_stream **out, gp_error *err) {
    wrapper_device *device = (wrapper_device *)device_;
    wrapper_call call = call_of(WRAPPER_STREAM, device);
    wrapper_stream *stream;
    GP_RETURN_IF_FAILED(before(&call, err));
    GP_RETURN_IF_FAILED(GP_NEW(&stream, 1, err));
    stream->device = device;
    gp_status status = inner_kind->stream_create(device->inner, copies, &stream->inner, err);
    if (status != GP_OK)
        free(stream);
    else
        *out = (gp_stream *)stream;
    return status;
}

static void destroy_stream(gp_stream *stream) {
    inner_kind->stream_destroy(((wrapper_stream *)stream)->inner);
    free(stream);
}

static gp_status create_event(gp_device *device, bool timed, gp_event **out, gp_error *err) {
    wrapper_call call = call_of(WRAPPER_EVENT, (wrapper_device *)device);
    GP_RETURN_IF_FAILED(before(&call, err));
    return inner_kind->event_create(((wrapper_device *)device)->inner, timed, out, err);
}

static void destroy_event(gp_event *event) {
    inner_kind->event_destroy(event);
}

static gp_status record_event(gp_event *event, gp_stream *stream, gp_error *err) {
    return inner_kind->event_record(event, ((wrapper_stream *)stream)->inner, err);
}

static gp_status wait_event(gp_stream *stream, const gp_event *event, gp_error *err) {
    return inner_kind->stream_wait(((wrapper_stream *)stream)->inner, event, err);
}

static gp_status finish_stream(gp_stream *stream, const gp_cancel *cancel, gp_error *err) {
    return inner_kind->stream_finish(((wrapper_stream *)stream)->inner, cancel, err);
}

static gp_status copy_in(gp_stream *stream_, void *to, const void *from, size_t bytes, gp_error *err) {
    wrapper_stream *stream = (wrapper_stream *)stream_;
    wrapper_call call = call_of(WRAPPER_COPY_IN, stream->device);
    call.to = to;
    call.bytes = bytes;
    GP_RETURN_IF_FAILED(before(&call, err));
    GP_RETURN_IF_FAILED(inner_kind->copy_in(stream->inner, to, from, bytes, err));
    return after(&call, err);
}

static gp_status copy_out(gp_stream *stream_, void *to, const void *from, size_t bytes, gp_error *err) {
    wrapper_stream *stream = (wrapper_stream *)stream_;
    wrapper_call call = call_of(WRAPPER_COPY_OUT, stream->device);
    call.bytes = bytes;
    GP_RETURN_IF_FAILED(before(&call, err));
    GP_RETURN_IF_FAILED(inner_kind->copy_out(stream->inner, to, from, bytes, err));
    return after(&call, err);
}

static gp_status pull(gp_stream *stream_, void *to, const gp_device *from, const void *address, size_t bytes,
                      gp_error *err) {
    wrapper_stream *stream = (wrapper_stream *)stream_;
    wrapper_call call = call_of(WRAPPER_PULL, stream->device);
    call.to = to;
    call.bytes = bytes;
    GP_RETURN_IF_FAILED(before(&call, err));
    GP_RETURN_IF_FAILED(
        inner_kind->pull(stream->inner, to, ((const wrapper_device *)from)->inner, address, bytes, err));
    return after(&call, err);
}

static gp_status run(gp_stream *stream_, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    wrapper_stream *stream = (wrapper_stream *)stream_;
    wrapper_call call = call_of(WRAPPER_RUN, stream->device);
    call.prepared = op->prepared;
    call.operands = op->operands;
    call.workspace = op->workspace;
    GP_RETURN_IF_FAILED(before(&call, err));
    GP_RETURN_IF_FAILED(inner_kind->run(stream->inner, op, args, err));
    return after(&call, err);
}

const gp_device_kind *wrapper_kind(const gp_device_kind *inner, const wrapper_hooks *its_hooks) {
    static gp_device_kind kind;
    /* cmocka's handler would jump from a worker's thread into the main one's stack. */
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    inner_kind = inner;
    hooks = *its_hooks;
    kind = (gp_device_kind){
        .name = inner->name,
        .computes = inner->computes,
        .square_block = inner->square_block,
        .on_host = inner->on_host,
        .prepare = prepare_inner,
        .release = release_inner,
        .open = open_device,
        .close = close_device,
        .reserve = reserve,
        .unreserve = unreserve,
        .stream_create = create_stream,
        .stream_destroy = destroy_stream,
        .event_create = create_event,
        .event_destroy = destroy_event,
        .event_record = record_event,
        .stream_wait = wait_event,
        .event_finish = inner_kind->event_finish,
        .stream_finish = finish_stream,
        .copy_in = copy_in,
        .copy_out = copy_out,
        .pull = pull,
        .bind = inner->bind,
        .unbind = inner->unbind,
        .bound_bytes = inner->bound_bytes,
        .run = run,
    };
    return &kind;
}

void wrapper_stretches(const gp_prepared *prepared, int operand,
                       void (*each)(void *context, size_t offset, size_t bytes), void *context) {
    const gp_tensor *tensor = &prepared->desc.operand[operand];
    if (prepared->operand[operand].format != GP_FORMAT_PLAIN || tensor->rank < 2 || gp_tensor_contiguous(tensor)) {
        each(context, 0, prepared->operand[operand].bytes);
        return;
    }
    size_t element = gp_dtype_size(tensor->dtype);
    int64_t rows = gp_tensor_rows(tensor), width = tensor->dim[tensor->rank - 1];
    for (int64_t row = 0; row < rows; row++) {
        int64_t rest = row, offset = 0;
        for (int d = tensor->rank - 2; d >= 0; d--) {
            offset += rest % tensor->dim[d] * tensor->stride[d];
            rest /= tensor->dim[d];
        }
        each(context, (size_t)offset * element, (size_t)width * element);
    }
}
