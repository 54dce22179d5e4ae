/* relu, add, and the other activation functions. */
#include "device/cuda/cuda_map.h"

static gp_status run_map(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_map_args args = gp_cuda_map_args(call);
    return gp_cuda_map(call, gp_cuda_kernel_for(call, call->op->kernel), &args, sizeof args, err);
}

const gp_cuda_op gp_cuda_relu_forward = {
    .run = run_map, .kernel = GP_KERNEL_relu_forward, .role = {GP_ROLE_Y, GP_ROLE_X}};
const gp_cuda_op gp_cuda_relu_backward = {
    .run = run_map, .kernel = GP_KERNEL_relu_backward, .role = {GP_ROLE_DX, GP_ROLE_Y, GP_ROLE_DY}};
const gp_cuda_op gp_cuda_add = {.run = run_map, .kernel = GP_KERNEL_add, .role = {GP_ROLE_Y, GP_ROLE_A, GP_ROLE_B}};

static gp_status run_activation(const gp_cuda_call *call, gp_error *err) {
    const gp_activation_attributes *activation = &call->prepared->desc.attributes.activation;
    gp_kernel_activation_args args = {
        .map = gp_cuda_map_args(call), .function = (int32_t)activation->function, .slope = (float)activation->slope};
    return gp_cuda_map(call, gp_cuda_kernel_for(call, call->op->kernel), &args.map, sizeof args, err);
}

const gp_cuda_op gp_cuda_activation_forward = {
    .run = run_activation, .kernel = GP_KERNEL_activation_forward, .role = {GP_ROLE_Y, GP_ROLE_X}};
const gp_cuda_op gp_cuda_activation_backward = {
    .run = run_activation, .kernel = GP_KERNEL_activation_backward, .role = {GP_ROLE_DX, GP_ROLE_A, GP_ROLE_DY}};
