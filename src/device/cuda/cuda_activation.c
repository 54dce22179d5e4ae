#include "device/cuda/cuda_map.h"
#include "device/cuda/cuda_ops.h"

gp_status gp_cuda_activation_forward_prepare(gp_prepared *prepared, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cuda", "ff", err));
    gp_op_allow_in_place(prepared, GP_ACTIVATION_FORWARD_Y, GP_ACTIVATION_FORWARD_X);
    return GP_OK;
}

gp_status gp_cuda_activation_backward_prepare(gp_prepared *prepared, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cuda", "fff", err));
    gp_op_allow_in_place(prepared, GP_ACTIVATION_BACKWARD_DX, GP_ACTIVATION_BACKWARD_A);
    gp_op_allow_in_place(prepared, GP_ACTIVATION_BACKWARD_DX, GP_ACTIVATION_BACKWARD_DY);
    return GP_OK;
}

static gp_status run(const gp_cuda_call *call, gp_cuda_kernel kernel, const int operand[3], gp_error *err) {
    const gp_activation_attributes *activation = &call->prepared->desc.attributes.activation;
    gp_kernel_activation_args args = {.map = gp_cuda_map_args(call, operand),
                                      .function = (int32_t)activation->function,
                                      .slope = (float)activation->slope};
    return gp_cuda_map(call, kernel, operand, &args.map, sizeof args, err);
}

gp_status gp_cuda_activation_forward_run(const gp_cuda_call *call, gp_error *err) {
    return run(call, GP_KERNEL_activation_forward, (const int[]){GP_ACTIVATION_FORWARD_Y, GP_ACTIVATION_FORWARD_X, -1},
               err);
}

gp_status gp_cuda_activation_backward_run(const gp_cuda_call *call, gp_error *err) {
    return run(call, GP_KERNEL_activation_backward,
               (const int[]){GP_ACTIVATION_BACKWARD_DX, GP_ACTIVATION_BACKWARD_A, GP_ACTIVATION_BACKWARD_DY}, err);
}
