#include "device/cuda/cuda_map.h"

/* Rows that lie one behind the other in all operands are one. */
static void join_rows(gp_kernel_map_args *args) {
    if (args->y_pitch != args->width || args->a_pitch != args->width || (args->b && args->b_pitch != args->width))
        return;
    args->width *= args->rows;
    args->rows = 1;
}

gp_kernel_map_args gp_cuda_map_args(const gp_cuda_call *call, const int operand[3]) {
    gp_rows y = gp_cuda_rows(call, operand[0]), a = gp_cuda_rows(call, operand[1]);
    gp_kernel_map_args args = {.y = call->operand[operand[0]],
                               .a = call->operand[operand[1]],
                               .rows = y.count,
                               .width = y.width,
                               .y_pitch = y.pitch,
                               .a_pitch = a.pitch};
    if (operand[2] >= 0) {
        args.b = call->operand[operand[2]];
        args.b_pitch = gp_cuda_rows(call, operand[2]).pitch;
    }
    join_rows(&args);
    args.by_four =
        args.rows == 1 ? gp_cuda_aligned(call, operand, 3) && args.width % 4 == 0 : gp_cuda_by_four(call, operand, 3);
    return args;
}

gp_status gp_cuda_map(const gp_cuda_call *call, gp_cuda_kernel kernel, const int operand[3],
                      const gp_kernel_map_args *args, size_t args_bytes, gp_error *err) {
    int64_t items = args->rows * (args->by_four ? args->width / 4 : args->width);
    gp_cuda_launch launch = gp_cuda_launch_items(gp_cuda_kernel_for(call, kernel), items, args, args_bytes);
    gp_cuda_writes(&launch, call, operand[0]);
    gp_cuda_reads(&launch, call, operand[1]);
    if (operand[2] >= 0) gp_cuda_reads(&launch, call, operand[2]);
    return gp_cuda_enqueue(call, &launch, err);
}
