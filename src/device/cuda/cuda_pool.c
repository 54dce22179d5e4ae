/* Pictures of another size: max_pool, avg_pool, upsample and mean_pool. */
#include "device/cuda/cuda_call.h"

static gp_kernel_pool_args arguments(const gp_cuda_call *call) {
    const gp_operand_name *name = call->op->operands;
    const gp_pool_attributes *pool = &call->prepared->desc.attributes.pool;
    const gp_tensor *to = gp_cuda_tensor(call, name[0]), *from = gp_cuda_tensor(call, name[1]);
    bool forward = name[0] == GP_NAME_Y;
    const gp_tensor *in = forward ? from : to, *out = forward ? to : from;
    gp_kernel_pool_args args = {.to = gp_cuda_view(call, name[0]),
                                .from = gp_cuda_view(call, name[1]),
                                .index = gp_cuda_at(call, GP_NAME_INDEX),
                                .index_pitch = gp_cuda_rows(call, GP_NAME_INDEX).pitch,
                                .index_bytes = (int32_t)gp_dtype_size(gp_cuda_tensor(call, GP_NAME_INDEX)->dtype),
                                .count = in->dim[0],
                                .channels = in->dim[3],
                                .count_pad = (int32_t)pool->count_pad,
                                .by_four = gp_cuda_by_four(call, name, 3)};
    for (int d = 0; d < 2; d++) {
        args.in[d] = in->dim[1 + d];
        args.out[d] = out->dim[1 + d];
        args.kernel[d] = pool->kernel[d];
        args.stride[d] = pool->stride[d];
        args.pad[d] = pool->pad[d];
    }
    return args;
}

static gp_status run(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_pool_args args = arguments(call);
    int64_t items = gp_tensor_elements(gp_cuda_tensor(call, call->op->operands[0])) / (args.by_four ? 4 : 1);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, call->op->kernel), items, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_max_pool_forward = {
    .run = run, .kernel = GP_KERNEL_max_pool_forward, .operands = {GP_NAME_Y, GP_NAME_X, GP_NAME_INDEX}};
const gp_cuda_op gp_cuda_max_pool_backward = {
    .run = run, .kernel = GP_KERNEL_max_pool_backward, .operands = {GP_NAME_DX, GP_NAME_DY, GP_NAME_INDEX}};
const gp_cuda_op gp_cuda_avg_pool_forward = {
    .run = run, .kernel = GP_KERNEL_avg_pool_forward, .operands = {GP_NAME_Y, GP_NAME_X}};
const gp_cuda_op gp_cuda_avg_pool_backward = {
    .run = run, .kernel = GP_KERNEL_avg_pool_backward, .operands = {GP_NAME_DX, GP_NAME_DY}};

/* ---- upsample, mean_pool ----------------------------------------------------------------------------------------- */

static gp_kernel_resize_args resize_arguments(const gp_cuda_call *call) {
    const gp_operand_name *name = call->op->operands;
    const gp_tensor *to = gp_cuda_tensor(call, name[0]), *from = gp_cuda_tensor(call, name[1]);
    bool grows = to->dim[1] * to->dim[2] > from->dim[1] * from->dim[2];
    const gp_tensor *small = grows ? from : to, *large = grows ? to : from;
    return (gp_kernel_resize_args){.to = gp_cuda_view(call, name[0]),
                                   .from = gp_cuda_view(call, name[1]),
                                   .count = small->dim[0],
                                   .small = {small->dim[1], small->dim[2]},
                                   .factor = {large->dim[1] / small->dim[1], large->dim[2] / small->dim[2]},
                                   .channels = small->dim[3],
                                   .by_four = gp_cuda_by_four(call, name, 2)};
}

static gp_status run_resize(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_resize_args args = resize_arguments(call);
    int64_t items = gp_tensor_elements(gp_cuda_tensor(call, call->op->operands[0])) / (args.by_four ? 4 : 1);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, call->op->kernel), items, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_upsample_forward = {
    .run = run_resize, .kernel = GP_KERNEL_upsample_forward, .operands = {GP_NAME_Y, GP_NAME_X}};
const gp_cuda_op gp_cuda_upsample_backward = {
    .run = run_resize, .kernel = GP_KERNEL_upsample_backward, .operands = {GP_NAME_DX, GP_NAME_DY}};
const gp_cuda_op gp_cuda_mean_pool_backward = {
    .run = run_resize, .kernel = GP_KERNEL_mean_pool_backward, .operands = {GP_NAME_DX, GP_NAME_DY}};

static gp_status run_mean_pool_forward(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_resize_args args = resize_arguments(call);
    int64_t packs = args.channels / (args.by_four ? 4 : 1);
    int64_t chunks = (packs + GP_KERNEL_MEAN_LANES - 1) / GP_KERNEL_MEAN_LANES;
    gp_cuda_launch launch = gp_cuda_launch_blocks(gp_cuda_kernel_for(call, GP_KERNEL_mean_pool_forward),
                                                  args.count * chunks, GP_KERNEL_MEAN_THREADS, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_mean_pool_forward = {.run = run_mean_pool_forward, .operands = {GP_NAME_Y, GP_NAME_X}};
