/* Group norm, layer norm, instance norm. */
#include "base/memory.h"
#include "device/cuda/cuda_columns.h"

/* Rows of one sample of operand 0. */
static int64_t rows_of_sample(const gp_op_desc *desc) {
    return gp_rows_of(&desc->operand[0]).count / desc->operand[0].dim[0];
}

static bool one_row(const gp_op_desc *desc) {
    return rows_of_sample(desc) == 1;
}

static int64_t groups_of(const gp_op_desc *desc) {
    return desc->operand[0].dim[0] * desc->attributes.group_norm.groups;
}

/* A block's threads for so many items: whole warps, with eight items or so for each thread. */
static uint32_t threads_for(int64_t items) {
    uint32_t threads = 32;
    while (threads < GP_KERNEL_GROUP_THREADS && 8 * (int64_t)threads < items) threads *= 2;
    return threads;
}

/* In the workspace: partial results of the samples' columns, then two numbers of each group. */
static gp_kernel_columns sample_columns(const gp_op_desc *desc) {
    return gp_cuda_columns_summed(desc->operand[0].dim[0], rows_of_sample(desc), gp_rows_of(&desc->operand[0]).width);
}

static size_t of_group_bytes(const gp_op_desc *desc) {
    return (size_t)groups_of(desc) * 2 * sizeof(double);
}

static void book_samples(gp_prepared *prepared) {
    gp_kernel_columns columns = sample_columns(&prepared->desc);
    if (one_row(&prepared->desc)) return;
    gp_op_book(prepared, gp_cuda_columns_bytes(&columns));
    gp_op_book(prepared, of_group_bytes(&prepared->desc));
}

/* With the columns of the samples. */
static gp_kernel_group_args args_of(const gp_cuda_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    const gp_group_norm_attributes *norm = &desc->attributes.group_norm;
    gp_kernel_columns columns = sample_columns(desc);
    gp_kernel_rows y = gp_cuda_view(call, GP_NAME_Y);
    size_t partial = gp_align_up(gp_cuda_columns_bytes(&columns), GP_ALIGNMENT);
    return (gp_kernel_group_args){.columns = columns,
                                  .stats = gp_cuda_view(call, GP_NAME_STATS),
                                  .groups = norm->groups,
                                  .width = columns.width / norm->groups,
                                  .rows_of_sample = columns.rows,
                                  .x = gp_cuda_view(call, GP_NAME_X),
                                  .dy = gp_cuda_view(call, GP_NAME_DY),
                                  .gamma = gp_cuda_at(call, GP_NAME_GAMMA),
                                  .beta = gp_cuda_at(call, GP_NAME_BETA),
                                  .y = y.at ? y : gp_cuda_view(call, GP_NAME_DX),
                                  .partial = call->workspace,
                                  .of_group =
                                      one_row(desc) ? NULL : (double *)call->workspace + partial / sizeof(double),
                                  .eps = norm->eps};
}

/* Samples of one row. */
static gp_status run_rows(const gp_cuda_call *call, gp_cuda_kernel kernel, const gp_kernel_group_args *args,
                          gp_error *err) {
    gp_cuda_launch launch =
        gp_cuda_launch_blocks(kernel, groups_of(&call->prepared->desc), threads_for(args->width), args, sizeof *args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

/* gamma, stats: what is read, written. */
static gp_status combine(const gp_cuda_call *call, gp_cuda_kernel kernel, const gp_kernel_group_args *args,
                         gp_operand_name gamma, gp_operand_name stats, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_cuda_launch launch = gp_cuda_launch_blocks(kernel, groups_of(desc),
                                                  threads_for(args->columns.blocks * args->width), args, sizeof *args);
    gp_cuda_reads_bytes(&launch, args->partial, gp_cuda_columns_bytes(&args->columns));
    gp_cuda_reads(&launch, call, gamma);
    gp_cuda_writes_bytes(&launch, args->of_group, of_group_bytes(desc));
    gp_cuda_writes(&launch, call, stats);
    return gp_cuda_enqueue(call, &launch, err);
}

/* All elements, each with the numbers of its group. */
static gp_status apply(const gp_cuda_call *call, gp_cuda_kernel kernel, gp_kernel_group_args args, gp_error *err) {
    static const gp_operand_name rows[] = {GP_NAME_X, GP_NAME_DY, GP_NAME_Y, GP_NAME_DX};
    const gp_op_desc *desc = &call->prepared->desc;
    int64_t width = args.columns.width;
    args.by_four = gp_cuda_by_four(call, rows, sizeof rows / sizeof rows[0]);
    args.columns = gp_cuda_columns_mapped(args.columns.samples, args.columns.rows, args.by_four ? width / 4 : width);
    gp_cuda_launch launch = gp_cuda_columns_launch(kernel, &args.columns, &args, sizeof args);
    gp_cuda_reads_inputs(&launch, call);
    gp_cuda_reads_bytes(&launch, args.of_group, of_group_bytes(desc));
    gp_cuda_writes(&launch, call, GP_NAME_Y);
    gp_cuda_writes(&launch, call, GP_NAME_DX);
    return gp_cuda_enqueue(call, &launch, err);
}

static gp_status run_group_norm_forward(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_group_args args = args_of(call);
    if (one_row(&call->prepared->desc)) return run_rows(call, GP_KERNEL_group_row_forward, &args, err);
    GP_RETURN_IF_FAILED(gp_cuda_columns_moments(call, &args.columns, err));
    GP_RETURN_IF_FAILED(combine(call, GP_KERNEL_group_statistics, &args, GP_NAME_NONE, GP_NAME_STATS, err));
    return apply(call, GP_KERNEL_group_forward, args, err);
}

const gp_cuda_op gp_cuda_group_norm_forward = {.book = book_samples, .run = run_group_norm_forward};

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static gp_status sum_products(const gp_cuda_call *call, const gp_kernel_group_args *args, gp_error *err) {
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_group_products, &args->columns, args, sizeof *args);
    gp_cuda_reads(&launch, call, GP_NAME_X);
    gp_cuda_reads(&launch, call, GP_NAME_DY);
    gp_cuda_reads(&launch, call, GP_NAME_STATS);
    gp_cuda_writes_bytes(&launch, args->partial, gp_cuda_columns_bytes(&args->columns));
    return gp_cuda_enqueue(call, &launch, err);
}

static gp_status run_group_norm_backward_data(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_group_args args = args_of(call);
    if (one_row(&call->prepared->desc)) return run_rows(call, GP_KERNEL_group_row_backward, &args, err);
    GP_RETURN_IF_FAILED(sum_products(call, &args, err));
    GP_RETURN_IF_FAILED(combine(call, GP_KERNEL_group_sums, &args, GP_NAME_GAMMA, GP_NAME_NONE, err));
    return apply(call, GP_KERNEL_group_backward, args, err);
}

const gp_cuda_op gp_cuda_group_norm_backward_data = {.book = book_samples, .run = run_group_norm_backward_data};

/* All samples' rows together. */
static gp_status run_group_norm_backward_weights(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_group_args args = args_of(call);
    args.columns = gp_cuda_columns_of(&call->prepared->desc);
    args.scaled = 1;
    GP_RETURN_IF_FAILED(sum_products(call, &args, err));
    return gp_cuda_columns_totals(call, &args.columns, err);
}

const gp_cuda_op gp_cuda_group_norm_backward_weights = {.book = gp_cuda_columns_book,
                                                        .run = run_group_norm_backward_weights};
