/* The CPU device: opening, streams, preparing, running. */
#include "device/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/cpu_blocks.h"
#include "device/cpu/cpu_conv_choice.h"
#include "device/cpu/cpu_loops.h"
#include "device/cpu/cpu_onednn.h"
#include "device/cpu/cpu_ops.h"
#include "device/host.h"

struct gp_device {
    gp_host host; /* first */
    gp_cpu_pool *pool;
};

struct gp_stream {
    gp_device *device;
    struct dnnl_stream *onednn;
};

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

static double cpu_effort(const gp_op_desc *desc) {
    switch (desc->kind) {
    case GP_OP_CONV_FORWARD:
    case GP_OP_CONV_BACKWARD_DATA:
    case GP_OP_CONV_BACKWARD_WEIGHTS: return gp_conv_effort(desc);
    default: return 1;
    }
}

static void cpu_release(gp_prepared *prepared) {
    if (ops[prepared->desc.kind]->release) ops[prepared->desc.kind]->release(prepared);
}

static gp_status cpu_open(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    gp_device *device;
    gp_host host;
    GP_RETURN_IF_FAILED(gp_host_init(&host, spec, err));
    if (spec->threads < 1) return gp_fail(err, GP_DEVICE, "cpu: %d threads: it needs at least 1", spec->threads);
    GP_RETURN_IF_FAILED(GP_NEW(&device, 1, err));
    device->host = host;
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
    assert(device->host.reserved == 0);
    gp_cpu_pool_destroy(&device->pool);
    free(device);
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

static gp_status cpu_run(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_device_op_check(op, err));
    gp_cpu_call call = {op->prepared,         op->operands,   op->workspace, args,
                        stream->device->pool, stream->onednn, op->bound,     gp_cpu_loops_chosen()};
    const gp_cpu_op *its = ops[op->prepared->desc.kind];
    return its->run ? its->run(&call, err) : gp_cpu_loop_run(&call, err);
}

const gp_device_kind gp_cpu_kind = {
    .name = "cpu",
    .computes = 1U << GP_F32,
    .square_block = GP_CPU_BLOCK,
    GP_HOST_FUNCTIONS,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .effort = cpu_effort,
    .libraries = gp_cpu_onednn_version,
    .open = cpu_open,
    .close = cpu_close,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .bind = gp_cpu_onednn_bind,
    .unbind = gp_cpu_onednn_unbind,
    .bound_bytes = gp_cpu_onednn_bound_bytes,
    .run = cpu_run,
};
