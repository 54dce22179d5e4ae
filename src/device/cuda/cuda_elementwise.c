#include "device/cuda/cuda_map.h"
#include "device/cuda/cuda_ops.h"

gp_status gp_cuda_relu_forward_prepare(gp_prepared *prepared, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cuda", "ff", err));
    gp_op_allow_in_place(prepared, GP_RELU_FORWARD_Y, GP_RELU_FORWARD_X);
    return GP_OK;
}

gp_status gp_cuda_relu_backward_prepare(gp_prepared *prepared, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cuda", "fff", err));
    gp_op_allow_in_place(prepared, GP_RELU_BACKWARD_DX, GP_RELU_BACKWARD_Y);
    gp_op_allow_in_place(prepared, GP_RELU_BACKWARD_DX, GP_RELU_BACKWARD_DY);
    return GP_OK;
}

gp_status gp_cuda_add_prepare(gp_prepared *prepared, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cuda", "fff", err));
    gp_op_allow_in_place(prepared, GP_ADD_Y, GP_ADD_A);
    gp_op_allow_in_place(prepared, GP_ADD_Y, GP_ADD_B);
    return GP_OK;
}

static gp_status map(const gp_cuda_call *call, gp_cuda_kernel kernel, const int operand[3], gp_error *err) {
    gp_kernel_map_args args = gp_cuda_map_args(call, operand);
    return gp_cuda_map(call, kernel, operand, &args, sizeof args, err);
}

gp_status gp_cuda_relu_forward_run(const gp_cuda_call *call, gp_error *err) {
    return map(call, GP_KERNEL_relu_forward, (const int[]){GP_RELU_FORWARD_Y, GP_RELU_FORWARD_X, -1}, err);
}

gp_status gp_cuda_relu_backward_run(const gp_cuda_call *call, gp_error *err) {
    return map(call, GP_KERNEL_relu_backward,
               (const int[]){GP_RELU_BACKWARD_DX, GP_RELU_BACKWARD_Y, GP_RELU_BACKWARD_DY}, err);
}

gp_status gp_cuda_add_run(const gp_cuda_call *call, gp_error *err) {
    return map(call, GP_KERNEL_add, (const int[]){GP_ADD_Y, GP_ADD_A, GP_ADD_B}, err);
}
