#include "device/cuda/cuda_map.h"
#include "device/cuda/cuda_ops.h"

static gp_status map(const gp_cuda_call *call, gp_cuda_kernel kernel, const int operand[3], gp_error *err) {
    gp_kernel_map_args args = gp_cuda_map_args(call, operand);
    return gp_cuda_map(call, kernel, operand, &args, sizeof args, err);
}

static gp_status run_relu_forward(const gp_cuda_call *call, gp_error *err) {
    return map(call, GP_KERNEL_relu_forward, (const int[]){GP_RELU_FORWARD_Y, GP_RELU_FORWARD_X, -1}, err);
}

const gp_cuda_op gp_cuda_relu_forward = {.run = run_relu_forward};

static gp_status run_relu_backward(const gp_cuda_call *call, gp_error *err) {
    return map(call, GP_KERNEL_relu_backward,
               (const int[]){GP_RELU_BACKWARD_DX, GP_RELU_BACKWARD_Y, GP_RELU_BACKWARD_DY}, err);
}

const gp_cuda_op gp_cuda_relu_backward = {.run = run_relu_backward};

static gp_status run_add(const gp_cuda_call *call, gp_error *err) {
    return map(call, GP_KERNEL_add, (const int[]){GP_ADD_Y, GP_ADD_A, GP_ADD_B}, err);
}

const gp_cuda_op gp_cuda_add = {.run = run_add};
