/* upsample and mean_pool. */
#include "device/cuda/cuda_ops.h"

/* All four read operand 0 and write operand 1. */
enum { FROM = 0, TO = 1 };

static gp_kernel_resize_args arguments(const gp_cuda_call *call, bool grows) {
    const gp_tensor *from = &call->prepared->desc.operand[FROM], *to = &call->prepared->desc.operand[TO];
    const gp_tensor *small = grows ? from : to, *large = grows ? to : from;
    return (gp_kernel_resize_args){.to = call->operand[TO],
                                   .from = call->operand[FROM],
                                   .to_pitch = gp_cuda_rows(call, TO).pitch,
                                   .from_pitch = gp_cuda_rows(call, FROM).pitch,
                                   .count = small->dim[0],
                                   .small = {small->dim[1], small->dim[2]},
                                   .factor = {large->dim[1] / small->dim[1], large->dim[2] / small->dim[2]},
                                   .channels = small->dim[3],
                                   .by_four = gp_cuda_by_four(call, (const int[]){FROM, TO}, 2)};
}

static gp_status enqueue(const gp_cuda_call *call, gp_cuda_launch *launch, gp_error *err) {
    gp_cuda_writes(launch, call, TO);
    gp_cuda_reads(launch, call, FROM);
    return gp_cuda_enqueue(call, launch, err);
}

static gp_status run_by_item(const gp_cuda_call *call, gp_cuda_kernel kernel, bool grows, gp_error *err) {
    gp_kernel_resize_args args = arguments(call, grows);
    int64_t items = gp_tensor_elements(&call->prepared->desc.operand[TO]) / (args.by_four ? 4 : 1);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, kernel), items, &args, sizeof args);
    return enqueue(call, &launch, err);
}

static gp_status run_upsample_forward(const gp_cuda_call *call, gp_error *err) {
    return run_by_item(call, GP_KERNEL_upsample_forward, true, err);
}

const gp_cuda_op gp_cuda_upsample_forward = {.run = run_upsample_forward};

static gp_status run_upsample_backward(const gp_cuda_call *call, gp_error *err) {
    return run_by_item(call, GP_KERNEL_upsample_backward, false, err);
}

const gp_cuda_op gp_cuda_upsample_backward = {.run = run_upsample_backward};

static gp_status run_mean_pool_backward(const gp_cuda_call *call, gp_error *err) {
    return run_by_item(call, GP_KERNEL_mean_pool_backward, true, err);
}

const gp_cuda_op gp_cuda_mean_pool_backward = {.run = run_mean_pool_backward};

static gp_status run_mean_pool_forward(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_resize_args args = arguments(call, false);
    int64_t packs = args.channels / (args.by_four ? 4 : 1);
    int64_t chunks = (packs + GP_KERNEL_MEAN_LANES - 1) / GP_KERNEL_MEAN_LANES;
    gp_cuda_launch launch = gp_cuda_launch_blocks(gp_cuda_kernel_for(call, GP_KERNEL_mean_pool_forward),
                                                  args.count * chunks, GP_KERNEL_MEAN_THREADS, &args, sizeof args);
    return enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_mean_pool_forward = {.run = run_mean_pool_forward};
