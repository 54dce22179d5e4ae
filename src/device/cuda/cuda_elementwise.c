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

/* operand: y, a, b; b < 0: none. */
static gp_status map(const gp_cuda_call *call, gp_cuda_kernel kernel, const int operand[3], gp_error *err) {
    bool four = gp_cuda_by_four(call, operand, 3);
    gp_rows y = gp_cuda_rows(call, operand[0]), a = gp_cuda_rows(call, operand[1]);
    gp_kernel_map_args args = {.y = call->operand[operand[0]],
                               .a = call->operand[operand[1]],
                               .rows = y.count,
                               .width = y.width,
                               .y_pitch = y.pitch,
                               .a_pitch = a.pitch,
                               .by_four = four};
    if (operand[2] >= 0) {
        args.b = call->operand[operand[2]];
        args.b_pitch = gp_cuda_rows(call, operand[2]).pitch;
    }
    int64_t items = y.count * (four ? y.width / 4 : y.width);
    gp_cuda_launch launch = gp_cuda_launch_items(kernel, items, &args, sizeof args);
    gp_cuda_writes(&launch, call, operand[0]);
    gp_cuda_reads(&launch, call, operand[1]);
    if (operand[2] >= 0) gp_cuda_reads(&launch, call, operand[2]);
    return gp_cuda_enqueue(call, &launch, err);
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
