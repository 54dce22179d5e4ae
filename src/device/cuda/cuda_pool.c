/* max_pool and avg_pool. */
#include "device/cuda/cuda_call.h"

static gp_kernel_pool_args arguments(const gp_cuda_call *call) {
    const gp_cuda_role *role = call->op->role;
    const gp_pool_attributes *pool = &call->prepared->desc.attributes.pool;
    const gp_tensor *to = gp_cuda_tensor(call, role[0]), *from = gp_cuda_tensor(call, role[1]);
    bool forward = role[0] == GP_ROLE_Y;
    const gp_tensor *in = forward ? from : to, *out = forward ? to : from;
    gp_kernel_pool_args args = {.to = gp_cuda_view(call, role[0]),
                                .from = gp_cuda_view(call, role[1]),
                                .index = gp_cuda_at(call, GP_ROLE_INDEX),
                                .index_pitch = gp_cuda_rows(call, GP_ROLE_INDEX).pitch,
                                .index_bytes = (int32_t)gp_dtype_size(gp_cuda_tensor(call, GP_ROLE_INDEX)->dtype),
                                .count = in->dim[0],
                                .channels = in->dim[3],
                                .count_pad = (int32_t)pool->count_pad,
                                .by_four = gp_cuda_by_four(call, role, 3)};
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
    int64_t items = gp_tensor_elements(gp_cuda_tensor(call, call->op->role[0])) / (args.by_four ? 4 : 1);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, call->op->kernel), items, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_max_pool_forward = {
    .run = run, .kernel = GP_KERNEL_max_pool_forward, .role = {GP_ROLE_Y, GP_ROLE_X, GP_ROLE_INDEX}};
const gp_cuda_op gp_cuda_max_pool_backward = {
    .run = run, .kernel = GP_KERNEL_max_pool_backward, .role = {GP_ROLE_DX, GP_ROLE_DY, GP_ROLE_INDEX}};
const gp_cuda_op gp_cuda_avg_pool_forward = {
    .run = run, .kernel = GP_KERNEL_avg_pool_forward, .role = {GP_ROLE_Y, GP_ROLE_X}};
const gp_cuda_op gp_cuda_avg_pool_backward = {
    .run = run, .kernel = GP_KERNEL_avg_pool_backward, .role = {GP_ROLE_DX, GP_ROLE_DY}};
