#include "device/cuda/cuda_sums.h"

void gp_cuda_sum_book(gp_prepared *prepared, int64_t blocks, int64_t each) {
    if (blocks > 1) gp_op_book(prepared, (size_t)(blocks * each) * sizeof(double));
}

double *gp_cuda_sum_partial(const gp_cuda_call *call, int64_t blocks, double *out) {
    return blocks > 1 ? call->workspace : out;
}

gp_status gp_cuda_sum_combine(const gp_cuda_call *call, int64_t blocks, int64_t each, int out, gp_error *err) {
    gp_kernel_sum_partial_args args = {
        .partial = call->workspace, .count = blocks, .each = each, .out = call->operand[out]};
    if (blocks <= 1) return GP_OK;
    gp_cuda_launch launch = gp_cuda_launch_blocks(GP_KERNEL_sum_partial, 1, GP_KERNEL_SUM_THREADS, &args, sizeof args);
    gp_cuda_reads_bytes(&launch, args.partial, (size_t)(blocks * each) * sizeof(double));
    gp_cuda_writes(&launch, call, out);
    return gp_cuda_enqueue(call, &launch, err);
}

int64_t gp_cuda_sum_blocks(gp_rows x) {
    return (x.count * x.width + GP_KERNEL_SUM_BLOCK - 1) / GP_KERNEL_SUM_BLOCK;
}

gp_status gp_cuda_sum_elements(const gp_cuda_call *call, gp_cuda_kernel kernel, int a, int b, int64_t function,
                               int64_t each, int out, gp_error *err) {
    gp_rows rows_a = gp_cuda_rows(call, a), rows_b = b < 0 ? rows_a : gp_cuda_rows(call, b);
    bool dense = gp_rows_dense(rows_a) && gp_rows_dense(rows_b);
    int64_t blocks = gp_cuda_sum_blocks(rows_a);
    gp_kernel_sum_args args = {.a = call->operand[a],
                               .b = b < 0 ? NULL : call->operand[b],
                               .rows = dense ? 1 : rows_a.count,
                               .width = dense ? rows_a.count * rows_a.width : rows_a.width,
                               .a_pitch = rows_a.pitch,
                               .b_pitch = rows_b.pitch,
                               .by_four = gp_cuda_by_four(call, (const int[]){a, b}, 2),
                               .function = function,
                               .partial = gp_cuda_sum_partial(call, blocks, call->operand[out])};
    gp_cuda_launch launch = gp_cuda_launch_blocks(kernel, blocks, GP_KERNEL_SUM_THREADS, &args, sizeof args);
    gp_cuda_reads(&launch, call, a);
    if (b >= 0) gp_cuda_reads(&launch, call, b);
    gp_cuda_writes_bytes(&launch, args.partial, (size_t)(blocks * each) * sizeof(double));
    GP_RETURN_IF_FAILED(gp_cuda_enqueue(call, &launch, err));
    return gp_cuda_sum_combine(call, blocks, each, out, err);
}
