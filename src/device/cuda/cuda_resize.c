/* upsample and mean_pool. */
#include "device/cuda/cuda_call.h"

static gp_kernel_resize_args arguments(const gp_cuda_call *call) {
    const gp_cuda_role *role = call->op->role;
    const gp_tensor *to = gp_cuda_tensor(call, role[0]), *from = gp_cuda_tensor(call, role[1]);
    bool grows = to->dim[1] * to->dim[2] > from->dim[1] * from->dim[2];
    const gp_tensor *small = grows ? from : to, *large = grows ? to : from;
    return (gp_kernel_resize_args){.to = gp_cuda_view(call, role[0]),
                                   .from = gp_cuda_view(call, role[1]),
                                   .count = small->dim[0],
                                   .small = {small->dim[1], small->dim[2]},
                                   .factor = {large->dim[1] / small->dim[1], large->dim[2] / small->dim[2]},
                                   .channels = small->dim[3],
                                   .by_four = gp_cuda_by_four(call, role, 2)};
}

static gp_status run_by_item(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_resize_args args = arguments(call);
    int64_t items = gp_tensor_elements(gp_cuda_tensor(call, call->op->role[0])) / (args.by_four ? 4 : 1);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, call->op->kernel), items, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_upsample_forward = {
    .run = run_by_item, .kernel = GP_KERNEL_upsample_forward, .role = {GP_ROLE_Y, GP_ROLE_X}};
const gp_cuda_op gp_cuda_upsample_backward = {
    .run = run_by_item, .kernel = GP_KERNEL_upsample_backward, .role = {GP_ROLE_DX, GP_ROLE_DY}};
const gp_cuda_op gp_cuda_mean_pool_backward = {
    .run = run_by_item, .kernel = GP_KERNEL_mean_pool_backward, .role = {GP_ROLE_DX, GP_ROLE_DY}};

static gp_status run_mean_pool_forward(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_resize_args args = arguments(call);
    int64_t packs = args.channels / (args.by_four ? 4 : 1);
    int64_t chunks = (packs + GP_KERNEL_MEAN_LANES - 1) / GP_KERNEL_MEAN_LANES;
    gp_cuda_launch launch = gp_cuda_launch_blocks(gp_cuda_kernel_for(call, GP_KERNEL_mean_pool_forward),
                                                  args.count * chunks, GP_KERNEL_MEAN_THREADS, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_mean_pool_forward = {.run = run_mean_pool_forward, .role = {GP_ROLE_Y, GP_ROLE_X}};
