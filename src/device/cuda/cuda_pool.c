/* max_pool and avg_pool. */
#include "device/cuda/cuda_ops.h"

/* What a pool reads and writes; index < 0: none. */
typedef struct parts {
    int to, from, index;
    bool forward;
} parts;

static gp_kernel_pool_args arguments(const gp_cuda_call *call, parts p) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_pool_attributes *pool = &desc->attributes.pool;
    const gp_tensor *in = &desc->operand[p.forward ? p.from : p.to], *out = &desc->operand[p.forward ? p.to : p.from];
    gp_kernel_pool_args args = {.to = call->operand[p.to],
                                .from = call->operand[p.from],
                                .to_pitch = gp_cuda_rows(call, p.to).pitch,
                                .from_pitch = gp_cuda_rows(call, p.from).pitch,
                                .count = in->dim[0],
                                .channels = in->dim[3],
                                .count_pad = (int32_t)pool->count_pad,
                                .by_four = gp_cuda_by_four(call, (const int[]){p.to, p.from, p.index}, 3)};
    for (int d = 0; d < 2; d++) {
        args.in[d] = in->dim[1 + d];
        args.out[d] = out->dim[1 + d];
        args.kernel[d] = pool->kernel[d];
        args.stride[d] = pool->stride[d];
        args.pad[d] = pool->pad[d];
    }
    if (p.index < 0) return args;
    args.index = call->operand[p.index];
    args.index_pitch = gp_cuda_rows(call, p.index).pitch;
    args.index_bytes = (int32_t)gp_dtype_size(desc->operand[p.index].dtype);
    return args;
}

static gp_status run(const gp_cuda_call *call, gp_cuda_kernel kernel, parts p, gp_error *err) {
    gp_kernel_pool_args args = arguments(call, p);
    int64_t items = gp_tensor_elements(&call->prepared->desc.operand[p.to]) / (args.by_four ? 4 : 1);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, kernel), items, &args, sizeof args);
    gp_cuda_writes(&launch, call, p.to);
    gp_cuda_reads(&launch, call, p.from);
    if (p.index >= 0 && p.forward) gp_cuda_writes(&launch, call, p.index);
    if (p.index >= 0 && !p.forward) gp_cuda_reads(&launch, call, p.index);
    return gp_cuda_enqueue(call, &launch, err);
}

static gp_status run_max_pool_forward(const gp_cuda_call *call, gp_error *err) {
    int index = call->operand[GP_MAX_POOL_FORWARD_INDEX] ? (int)GP_MAX_POOL_FORWARD_INDEX : -1;
    return run(call, GP_KERNEL_max_pool_forward, (parts){GP_MAX_POOL_FORWARD_Y, GP_MAX_POOL_FORWARD_X, index, true},
               err);
}

const gp_cuda_op gp_cuda_max_pool_forward = {.run = run_max_pool_forward};

static gp_status run_max_pool_backward(const gp_cuda_call *call, gp_error *err) {
    return run(call, GP_KERNEL_max_pool_backward,
               (parts){GP_MAX_POOL_BACKWARD_DX, GP_MAX_POOL_BACKWARD_DY, GP_MAX_POOL_BACKWARD_INDEX, false}, err);
}

const gp_cuda_op gp_cuda_max_pool_backward = {.run = run_max_pool_backward};

static gp_status run_avg_pool_forward(const gp_cuda_call *call, gp_error *err) {
    return run(call, GP_KERNEL_avg_pool_forward, (parts){GP_AVG_POOL_FORWARD_Y, GP_AVG_POOL_FORWARD_X, -1, true}, err);
}

const gp_cuda_op gp_cuda_avg_pool_forward = {.run = run_avg_pool_forward};

static gp_status run_avg_pool_backward(const gp_cuda_call *call, gp_error *err) {
    return run(call, GP_KERNEL_avg_pool_backward, (parts){GP_AVG_POOL_BACKWARD_DX, GP_AVG_POOL_BACKWARD_DY, -1, false},
               err);
}

const gp_cuda_op gp_cuda_avg_pool_backward = {.run = run_avg_pool_backward};
