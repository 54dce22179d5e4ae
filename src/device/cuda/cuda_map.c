#include "device/cuda/cuda_map.h"

/* Rows that lie one behind the other in all operands are one. */
static void join_rows(gp_kernel_map_args *args) {
    if (args->y_pitch != args->width || args->a_pitch != args->width || (args->b && args->b_pitch != args->width))
        return;
    args->width *= args->rows;
    args->rows = 1;
}

gp_kernel_map_args gp_cuda_map_args(const gp_cuda_call *call) {
    const gp_cuda_role *role = call->op->role;
    gp_rows y = gp_cuda_rows(call, role[0]);
    gp_kernel_map_args args = {.y = gp_cuda_at(call, role[0]),
                               .a = gp_cuda_at(call, role[1]),
                               .b = gp_cuda_at(call, role[2]),
                               .rows = y.count,
                               .width = y.width,
                               .y_pitch = y.pitch,
                               .a_pitch = gp_cuda_rows(call, role[1]).pitch,
                               .b_pitch = gp_cuda_rows(call, role[2]).pitch};
    join_rows(&args);
    args.by_four =
        args.rows == 1 ? gp_cuda_aligned(call, role, 3) && args.width % 4 == 0 : gp_cuda_by_four(call, role, 3);
    return args;
}

gp_status gp_cuda_map(const gp_cuda_call *call, gp_cuda_kernel kernel, const gp_kernel_map_args *args,
                      size_t args_bytes, gp_error *err) {
    int64_t items = args->rows * (args->by_four ? args->width / 4 : args->width);
    gp_cuda_launch launch = gp_cuda_launch_items(kernel, items, args, args_bytes);
    return gp_cuda_enqueue_op(call, &launch, err);
}
