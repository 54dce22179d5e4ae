/* Batch norm, alone and with the addition and the relu that follow it: the same blocks of rows, and so the same bits.
 */
#include "device/cuda/cuda_columns.h"

static gp_kernel_norm_args args_of(const gp_cuda_call *call) {
    const float *sums = gp_cuda_at(call, GP_NAME_SUMS);
    const gp_norm_attributes *norm = &call->prepared->desc.attributes.norm;
    return (gp_kernel_norm_args){.x = gp_cuda_view(call, GP_NAME_X),
                                 .dy = gp_cuda_view(call, GP_NAME_DY),
                                 .addend = gp_cuda_view(call, GP_NAME_ADDEND),
                                 .y = gp_cuda_view(call, GP_NAME_Y),
                                 .dx = gp_cuda_view(call, GP_NAME_DX),
                                 .dz = gp_cuda_view(call, GP_NAME_DZ),
                                 .mean = gp_cuda_at(call, GP_NAME_MEAN),
                                 .variance = gp_cuda_at(call, GP_NAME_VARIANCE),
                                 .gamma = gp_cuda_at(call, GP_NAME_GAMMA),
                                 .beta = gp_cuda_at(call, GP_NAME_BETA),
                                 .products = sums,
                                 .sums = sums ? sums + gp_cuda_tensor(call, GP_NAME_SUMS)->stride[0] : NULL,
                                 .partial = call->workspace,
                                 .rows_summed =
                                     norm->rows_summed ? norm->rows_summed : gp_cuda_rows(call, GP_NAME_X).count,
                                 .eps = norm->eps};
}

/* ---- over all elements ------------------------------------------------------------------------------------------- */

static gp_status run_mapped(const gp_cuda_call *call, gp_error *err) {
    static const gp_operand_name rows[] = {GP_NAME_X, GP_NAME_DY, GP_NAME_ADDEND, GP_NAME_Y, GP_NAME_DX};
    gp_kernel_norm_args args = args_of(call);
    args.by_four = gp_cuda_by_four(call, rows, sizeof rows / sizeof rows[0]);
    args.columns = gp_cuda_columns_over(call, args.by_four);
    gp_cuda_launch launch = gp_cuda_columns_launch(call->op->kernel, &args.columns, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_apply = {.run = run_mapped, .kernel = GP_KERNEL_norm_apply};
const gp_cuda_op gp_cuda_norm_apply_relu = {.run = run_mapped, .kernel = GP_KERNEL_norm_apply_relu};
const gp_cuda_op gp_cuda_norm_backward_data = {.run = run_mapped, .kernel = GP_KERNEL_norm_backward};
const gp_cuda_op gp_cuda_norm_relu_backward_data = {.run = run_mapped, .kernel = GP_KERNEL_norm_relu_backward};

/* ---- sums down the columns --------------------------------------------------------------------------------------- */

static gp_status run_reduce(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_norm_args args = args_of(call);
    args.columns = gp_cuda_columns_of(&call->prepared->desc);
    gp_cuda_launch launch = gp_cuda_columns_launch(call->op->kernel, &args.columns, &args, sizeof args);
    gp_cuda_reads_inputs(&launch, call);
    gp_cuda_writes(&launch, call, GP_NAME_DZ);
    gp_cuda_writes_bytes(&launch, call->workspace, gp_cuda_columns_bytes(&args.columns));
    GP_RETURN_IF_FAILED(gp_cuda_enqueue(call, &launch, err));
    return gp_cuda_columns_totals(call, &args.columns, err);
}

const gp_cuda_op gp_cuda_norm_backward_reduce = {
    .book = gp_cuda_columns_book, .run = run_reduce, .kernel = GP_KERNEL_norm_products};
const gp_cuda_op gp_cuda_norm_relu_backward_reduce = {
    .book = gp_cuda_columns_book, .run = run_reduce, .kernel = GP_KERNEL_norm_relu_products};
const gp_cuda_op gp_cuda_norm_add_relu_backward_reduce = {
    .book = gp_cuda_columns_book, .run = run_reduce, .kernel = GP_KERNEL_norm_relu_products};

static gp_status run_norm_statistics(const gp_cuda_call *call, gp_error *err) {
    float *stats = gp_cuda_at(call, GP_NAME_STATS);
    int64_t stride = gp_cuda_tensor(call, GP_NAME_STATS)->stride[0];
    gp_kernel_norm_statistics_args args = {.columns = gp_cuda_columns_of(&call->prepared->desc),
                                           .partial = call->workspace,
                                           .mean = stats,
                                           .variance = stats + stride,
                                           .rest = stats + 2 * stride};
    GP_RETURN_IF_FAILED(gp_cuda_columns_moments(call, &args.columns, err));
    gp_cuda_launch launch = gp_cuda_columns_combine(GP_KERNEL_norm_statistics, &args.columns, &args, sizeof args);
    gp_cuda_reads_bytes(&launch, call->workspace, gp_cuda_columns_bytes(&args.columns));
    gp_cuda_writes(&launch, call, GP_NAME_STATS);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_statistics = {.book = gp_cuda_columns_book, .run = run_norm_statistics};

/* ---- several parts ----------------------------------------------------------------------------------------------- */

static gp_kernel_norm_parts parts_of(const gp_cuda_call *call) {
    const gp_norm_attributes *norm = &call->prepared->desc.attributes.norm;
    const gp_tensor *stats = gp_cuda_tensor(call, GP_NAME_STATS);
    return (gp_kernel_norm_parts){.stats = gp_cuda_at(call, GP_NAME_STATS),
                                  .stats_stride = {stats->stride[0], stats->stride[1]},
                                  .pieces = stats->dim[0],
                                  .width = stats->dim[2],
                                  .rows_full = norm->rows_full,
                                  .rows_last = norm->rows_last,
                                  .replicas = norm->replicas > 1 ? norm->replicas : 1,
                                  .rows_sample = norm->rows_sample};
}

static gp_status run_norm_merge(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_norm_merge_args args = {.parts = parts_of(call),
                                      .mean = gp_cuda_at(call, GP_NAME_MEAN),
                                      .variance = gp_cuda_at(call, GP_NAME_VARIANCE)};
    gp_cuda_launch launch = gp_cuda_launch_items(GP_KERNEL_norm_merge, args.parts.width, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_merge = {.run = run_norm_merge};

static gp_status run_norm_merge_sums(const gp_cuda_call *call, gp_error *err) {
    const gp_tensor *parts = gp_cuda_tensor(call, GP_NAME_PARTS);
    float *sums = gp_cuda_at(call, GP_NAME_SUMS);
    gp_kernel_norm_merge_sums_args args = {.parts = gp_cuda_at(call, GP_NAME_PARTS),
                                           .parts_stride = {parts->stride[0], parts->stride[1]},
                                           .pieces = parts->dim[0],
                                           .width = parts->dim[2],
                                           .products = sums,
                                           .sums = sums + gp_cuda_tensor(call, GP_NAME_SUMS)->stride[0]};
    gp_cuda_launch launch = gp_cuda_launch_items(GP_KERNEL_norm_merge_sums, args.width, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_merge_sums = {.run = run_norm_merge_sums};

static gp_status run_norm_commit(const gp_cuda_call *call, gp_error *err) {
    const gp_step_scalars *scalars = gp_cuda_at(call, GP_NAME_SCALARS);
    gp_kernel_norm_commit_args args = {.finite = &scalars->finite,
                                       .parts = parts_of(call),
                                       .momentum = call->prepared->desc.attributes.norm.momentum,
                                       .mean = gp_cuda_at(call, GP_NAME_MEAN),
                                       .variance = gp_cuda_at(call, GP_NAME_VARIANCE)};
    gp_cuda_launch launch = gp_cuda_launch_items(GP_KERNEL_norm_commit, args.parts.width, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_commit = {.run = run_norm_commit};
