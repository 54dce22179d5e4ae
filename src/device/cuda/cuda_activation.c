#include "device/cuda/cuda_map.h"
#include "device/cuda/cuda_ops.h"

static gp_status run(const gp_cuda_call *call, gp_cuda_kernel kernel, const int operand[3], gp_error *err) {
    const gp_activation_attributes *activation = &call->prepared->desc.attributes.activation;
    gp_kernel_activation_args args = {.map = gp_cuda_map_args(call, operand),
                                      .function = (int32_t)activation->function,
                                      .slope = (float)activation->slope};
    return gp_cuda_map(call, kernel, operand, &args.map, sizeof args, err);
}

static gp_status run_activation_forward(const gp_cuda_call *call, gp_error *err) {
    return run(call, GP_KERNEL_activation_forward, (const int[]){GP_ACTIVATION_FORWARD_Y, GP_ACTIVATION_FORWARD_X, -1},
               err);
}

const gp_cuda_op gp_cuda_activation_forward = {.run = run_activation_forward};

static gp_status run_activation_backward(const gp_cuda_call *call, gp_error *err) {
    return run(call, GP_KERNEL_activation_backward,
               (const int[]){GP_ACTIVATION_BACKWARD_DX, GP_ACTIVATION_BACKWARD_A, GP_ACTIVATION_BACKWARD_DY}, err);
}

const gp_cuda_op gp_cuda_activation_backward = {.run = run_activation_backward};
