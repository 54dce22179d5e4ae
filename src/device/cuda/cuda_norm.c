#include "device/cuda/cuda_columns.h"
#include "device/cuda/cuda_ops.h"

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static gp_status run_norm_statistics(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    float *stats = call->operand[GP_NORM_STATISTICS_STATS];
    int64_t stride = desc->operand[GP_NORM_STATISTICS_STATS].stride[0];
    gp_kernel_norm_statistics_args args = {.columns = gp_cuda_columns_of(desc),
                                           .partial = call->workspace,
                                           .mean = stats,
                                           .variance = stats + stride,
                                           .rest = stats + 2 * stride};
    GP_RETURN_IF_FAILED(gp_cuda_columns_moments(call, &args.columns, GP_NORM_STATISTICS_X, err));
    gp_cuda_launch launch = gp_cuda_columns_combine(GP_KERNEL_norm_statistics, &args.columns, &args, sizeof args);
    gp_cuda_reads_bytes(&launch, call->workspace, gp_cuda_columns_bytes(&args.columns));
    gp_cuda_writes(&launch, call, GP_NORM_STATISTICS_STATS);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_statistics = {.book = gp_cuda_columns_book, .run = run_norm_statistics};

/* ---- application ------------------------------------------------------------------------------------------------- */

static gp_status run_norm_apply(const gp_cuda_call *call, gp_error *err) {
    bool four = gp_cuda_by_four(call, (const int[]){GP_NORM_APPLY_X, GP_NORM_APPLY_Y}, 2);
    gp_kernel_norm_apply_args args = {.columns = gp_cuda_columns_over(call, four),
                                      .by_four = four,
                                      .x = call->operand[GP_NORM_APPLY_X],
                                      .mean = call->operand[GP_NORM_APPLY_MEAN],
                                      .variance = call->operand[GP_NORM_APPLY_VARIANCE],
                                      .gamma = call->operand[GP_NORM_APPLY_GAMMA],
                                      .beta = call->operand[GP_NORM_APPLY_BETA],
                                      .y = call->operand[GP_NORM_APPLY_Y],
                                      .x_pitch = gp_cuda_rows(call, GP_NORM_APPLY_X).pitch,
                                      .y_pitch = gp_cuda_rows(call, GP_NORM_APPLY_Y).pitch,
                                      .eps = call->prepared->desc.attributes.norm.eps};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_norm_apply, &args.columns, &args, sizeof args);
    for (int i = GP_NORM_APPLY_X; i <= GP_NORM_APPLY_BETA; i++) gp_cuda_reads(&launch, call, i);
    gp_cuda_writes(&launch, call, GP_NORM_APPLY_Y);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_apply = {.run = run_norm_apply};

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static gp_status sum_products(const gp_cuda_call *call, const gp_kernel_columns *columns, gp_error *err) {
    gp_kernel_norm_products_args args = {.columns = *columns,
                                         .x = call->operand[GP_NORM_BACKWARD_REDUCE_X],
                                         .dy = call->operand[GP_NORM_BACKWARD_REDUCE_DY],
                                         .mean = call->operand[GP_NORM_BACKWARD_REDUCE_MEAN],
                                         .x_pitch = gp_cuda_rows(call, GP_NORM_BACKWARD_REDUCE_X).pitch,
                                         .dy_pitch = gp_cuda_rows(call, GP_NORM_BACKWARD_REDUCE_DY).pitch,
                                         .partial = call->workspace};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_norm_products, columns, &args, sizeof args);
    gp_cuda_reads(&launch, call, GP_NORM_BACKWARD_REDUCE_X);
    gp_cuda_reads(&launch, call, GP_NORM_BACKWARD_REDUCE_DY);
    gp_cuda_reads(&launch, call, GP_NORM_BACKWARD_REDUCE_MEAN);
    gp_cuda_writes_bytes(&launch, call->workspace, gp_cuda_columns_bytes(columns));
    return gp_cuda_enqueue(call, &launch, err);
}

static gp_status run_norm_backward_reduce(const gp_cuda_call *call, gp_error *err) {
    const gp_kernel_columns columns = gp_cuda_columns_of(&call->prepared->desc);
    GP_RETURN_IF_FAILED(sum_products(call, &columns, err));
    return gp_cuda_columns_totals(call, &columns, GP_NORM_BACKWARD_REDUCE_VARIANCE, GP_NORM_BACKWARD_REDUCE_SUMS, err);
}

const gp_cuda_op gp_cuda_norm_backward_reduce = {.book = gp_cuda_columns_book, .run = run_norm_backward_reduce};

static gp_status run_norm_backward_data(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    const int rows[] = {GP_NORM_BACKWARD_DATA_X, GP_NORM_BACKWARD_DATA_DY, GP_NORM_BACKWARD_DATA_DX};
    const float *sums = call->operand[GP_NORM_BACKWARD_DATA_SUMS];
    bool four = gp_cuda_by_four(call, rows, 3);
    gp_kernel_norm_backward_args args = {.columns = gp_cuda_columns_over(call, four),
                                         .by_four = four,
                                         .x = call->operand[GP_NORM_BACKWARD_DATA_X],
                                         .dy = call->operand[GP_NORM_BACKWARD_DATA_DY],
                                         .mean = call->operand[GP_NORM_BACKWARD_DATA_MEAN],
                                         .variance = call->operand[GP_NORM_BACKWARD_DATA_VARIANCE],
                                         .gamma = call->operand[GP_NORM_BACKWARD_DATA_GAMMA],
                                         .products = sums,
                                         .sums = sums + desc->operand[GP_NORM_BACKWARD_DATA_SUMS].stride[0],
                                         .dx = call->operand[GP_NORM_BACKWARD_DATA_DX],
                                         .x_pitch = gp_cuda_rows(call, GP_NORM_BACKWARD_DATA_X).pitch,
                                         .dy_pitch = gp_cuda_rows(call, GP_NORM_BACKWARD_DATA_DY).pitch,
                                         .dx_pitch = gp_cuda_rows(call, GP_NORM_BACKWARD_DATA_DX).pitch,
                                         .eps = desc->attributes.norm.eps};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_norm_backward, &args.columns, &args, sizeof args);
    for (int i = GP_NORM_BACKWARD_DATA_X; i <= GP_NORM_BACKWARD_DATA_SUMS; i++) gp_cuda_reads(&launch, call, i);
    gp_cuda_writes(&launch, call, GP_NORM_BACKWARD_DATA_DX);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_backward_data = {.run = run_norm_backward_data};

/* ---- running statistics ------------------------------------------------------------------------------------------ */

static gp_status run_norm_commit(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_tensor *stats = &desc->operand[GP_NORM_COMMIT_STATS];
    const gp_step_scalars *scalars = call->operand[GP_NORM_COMMIT_SCALARS];
    gp_kernel_norm_commit_args args = {.finite = &scalars->finite,
                                       .stats = call->operand[GP_NORM_COMMIT_STATS],
                                       .stats_stride = {stats->stride[0], stats->stride[1]},
                                       .pieces = stats->dim[0],
                                       .width = stats->dim[2],
                                       .rows_full = desc->attributes.norm.rows_full,
                                       .rows_last = desc->attributes.norm.rows_last,
                                       .momentum = desc->attributes.norm.momentum,
                                       .mean = call->operand[GP_NORM_COMMIT_MEAN],
                                       .variance = call->operand[GP_NORM_COMMIT_VARIANCE]};
    gp_cuda_launch launch = gp_cuda_launch_items(GP_KERNEL_norm_commit, args.width, &args, sizeof args);
    gp_cuda_reads(&launch, call, GP_NORM_COMMIT_SCALARS);
    gp_cuda_reads(&launch, call, GP_NORM_COMMIT_STATS);
    gp_cuda_writes(&launch, call, GP_NORM_COMMIT_MEAN);
    gp_cuda_writes(&launch, call, GP_NORM_COMMIT_VARIANCE);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_commit = {.run = run_norm_commit};
