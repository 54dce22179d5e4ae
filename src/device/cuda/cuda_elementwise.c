/* What goes over up to three tensors of equal dimensions, element by element (kernels/map.cuh). */
#include "device/cuda/cuda_call.h"

/* Rows that lie one behind the other in all operands are one. */
static void join_rows(gp_kernel_map_args *args) {
    if (args->y.pitch != args->width || args->a.pitch != args->width || (args->b.at && args->b.pitch != args->width))
        return;
    args->width *= args->rows;
    args->rows = 1;
}

/* Of the operands in the op's roles: y, a, b. */
static gp_kernel_map_args map_args(const gp_cuda_call *call) {
    const gp_operand_name *name = call->op->operands;
    gp_rows y = gp_cuda_rows(call, name[0]);
    gp_kernel_map_args args = {.y = gp_cuda_view(call, name[0]),
                               .a = gp_cuda_view(call, name[1]),
                               .b = gp_cuda_view(call, name[2]),
                               .rows = y.count,
                               .width = y.width};
    join_rows(&args);
    args.by_four =
        args.rows == 1 ? gp_cuda_aligned(call, name, 3) && args.width % 4 == 0 : gp_cuda_by_four(call, name, 3);
    return args;
}

/* Enqueues a kernel whose arguments are, or begin with, what map_args gave. */
static gp_status map(const gp_cuda_call *call, gp_cuda_kernel kernel, const gp_kernel_map_args *args, size_t args_bytes,
                     gp_error *err) {
    int64_t items = args->rows * (args->by_four ? args->width / 4 : args->width);
    gp_cuda_launch launch = gp_cuda_launch_items(kernel, items, args, args_bytes);
    return gp_cuda_enqueue_op(call, &launch, err);
}

static gp_status run_map(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_map_args args = map_args(call);
    return map(call, gp_cuda_kernel_for(call, call->op->kernel), &args, sizeof args, err);
}

const gp_cuda_op gp_cuda_relu_forward = {
    .run = run_map, .kernel = GP_KERNEL_relu_forward, .operands = {GP_NAME_Y, GP_NAME_X}};
const gp_cuda_op gp_cuda_relu_backward = {
    .run = run_map, .kernel = GP_KERNEL_relu_backward, .operands = {GP_NAME_DX, GP_NAME_Y, GP_NAME_DY}};
const gp_cuda_op gp_cuda_add = {.run = run_map, .kernel = GP_KERNEL_add, .operands = {GP_NAME_Y, GP_NAME_A, GP_NAME_B}};

static gp_status run_activation(const gp_cuda_call *call, gp_error *err) {
    const gp_activation_attributes *activation = &call->prepared->desc.attributes.activation;
    gp_kernel_activation_args args = {
        .map = map_args(call), .function = (int32_t)activation->function, .slope = (float)activation->slope};
    return map(call, gp_cuda_kernel_for(call, call->op->kernel), &args.map, sizeof args, err);
}

const gp_cuda_op gp_cuda_activation_forward = {
    .run = run_activation, .kernel = GP_KERNEL_activation_forward, .operands = {GP_NAME_Y, GP_NAME_X}};
const gp_cuda_op gp_cuda_activation_backward = {
    .run = run_activation, .kernel = GP_KERNEL_activation_backward, .operands = {GP_NAME_DX, GP_NAME_A, GP_NAME_DY}};

static gp_status run_element_loss_backward(const gp_cuda_call *call, gp_error *err) {
    const gp_step_scalars *scalars = gp_cuda_at(call, GP_NAME_SCALARS);
    gp_kernel_element_loss_args args = {.map = map_args(call),
                                        .divisor = &scalars->divisor,
                                        .function = call->prepared->desc.attributes.element_loss.function};
    return map(call, GP_KERNEL_element_loss_backward, &args.map, sizeof args, err);
}

const gp_cuda_op gp_cuda_element_loss_backward = {.run = run_element_loss_backward,
                                                  .operands = {GP_NAME_DX, GP_NAME_X, GP_NAME_TARGET}};
