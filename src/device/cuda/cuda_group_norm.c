#include "base/memory.h"
#include "device/cuda/cuda_columns.h"
#include "device/cuda/cuda_ops.h"

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

static gp_kernel_group_stats stats_of(const gp_cuda_call *call, int operand) {
    const gp_op_desc *desc = &call->prepared->desc;
    int64_t groups = desc->attributes.group_norm.groups;
    gp_kernel_group_stats stats = {
        .at = call->operand[operand], .groups = groups, .width = gp_cuda_rows(call, 0).width / groups};
    if (stats.at) stats.pitch = gp_cuda_rows(call, operand).pitch;
    return stats;
}

/* ---- many rows: partial results of the samples, then two numbers of each group, in the workspace ----------------- */

static gp_kernel_columns sample_columns(const gp_op_desc *desc) {
    return gp_cuda_columns_summed(desc->operand[0].dim[0], rows_of_sample(desc), gp_rows_of(&desc->operand[0]).width);
}

static size_t of_group_bytes(const gp_op_desc *desc) {
    return (size_t)groups_of(desc) * 2 * sizeof(double);
}

static double *of_group(const gp_cuda_call *call, const gp_kernel_columns *columns) {
    size_t partial = gp_align_up(gp_cuda_columns_bytes(columns), GP_ALIGNMENT);
    return (double *)(void *)((char *)call->workspace + partial);
}

static void book_samples(gp_prepared *prepared) {
    gp_kernel_columns columns = sample_columns(&prepared->desc);
    if (one_row(&prepared->desc)) return;
    gp_op_book(prepared, gp_cuda_columns_bytes(&columns));
    gp_op_book(prepared, of_group_bytes(&prepared->desc));
}

/* gamma, stats: operands that are read, written; or −1. */
static gp_status combine(const gp_cuda_call *call, gp_cuda_kernel kernel, const gp_kernel_group_combine_args *args,
                         int gamma, int stats, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_cuda_launch launch = gp_cuda_launch_blocks(
        kernel, groups_of(desc), threads_for(args->columns.blocks * args->stats.width), args, sizeof *args);
    gp_cuda_reads_bytes(&launch, args->partial, gp_cuda_columns_bytes(&args->columns));
    if (gamma >= 0) gp_cuda_reads(&launch, call, gamma);
    gp_cuda_writes_bytes(&launch, args->of_group, of_group_bytes(desc));
    if (stats >= 0) gp_cuda_writes(&launch, call, stats);
    return gp_cuda_enqueue(call, &launch, err);
}

static gp_kernel_columns mapped(const gp_cuda_call *call, bool by_four) {
    const gp_op_desc *desc = &call->prepared->desc;
    int64_t width = gp_cuda_rows(call, 0).width;
    return gp_cuda_columns_mapped(desc->operand[0].dim[0], rows_of_sample(desc), by_four ? width / 4 : width);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static gp_status forward_rows(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_kernel_group_row_args args = {.stats = stats_of(call, GP_GROUP_NORM_FORWARD_STATS),
                                     .x = call->operand[GP_GROUP_NORM_FORWARD_X],
                                     .gamma = call->operand[GP_GROUP_NORM_FORWARD_GAMMA],
                                     .beta = call->operand[GP_GROUP_NORM_FORWARD_BETA],
                                     .y = call->operand[GP_GROUP_NORM_FORWARD_Y],
                                     .x_pitch = gp_cuda_rows(call, GP_GROUP_NORM_FORWARD_X).pitch,
                                     .y_pitch = gp_cuda_rows(call, GP_GROUP_NORM_FORWARD_Y).pitch,
                                     .eps = desc->attributes.group_norm.eps};
    gp_cuda_launch launch = gp_cuda_launch_blocks(GP_KERNEL_group_row_forward, groups_of(desc),
                                                  threads_for(args.stats.width), &args, sizeof args);
    for (int i = GP_GROUP_NORM_FORWARD_X; i <= GP_GROUP_NORM_FORWARD_BETA; i++) gp_cuda_reads(&launch, call, i);
    gp_cuda_writes(&launch, call, GP_GROUP_NORM_FORWARD_Y);
    gp_cuda_writes(&launch, call, GP_GROUP_NORM_FORWARD_STATS);
    return gp_cuda_enqueue(call, &launch, err);
}

static gp_status find_statistics(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_group_combine_args args = {.columns = sample_columns(&call->prepared->desc),
                                         .stats = stats_of(call, GP_GROUP_NORM_FORWARD_STATS),
                                         .partial = call->workspace,
                                         .eps = call->prepared->desc.attributes.group_norm.eps};
    args.of_group = of_group(call, &args.columns);
    GP_RETURN_IF_FAILED(gp_cuda_columns_moments(call, &args.columns, GP_GROUP_NORM_FORWARD_X, err));
    return combine(call, GP_KERNEL_group_statistics, &args, -1, GP_GROUP_NORM_FORWARD_STATS, err);
}

static gp_status run_group_norm_forward(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    if (one_row(desc)) return forward_rows(call, err);
    GP_RETURN_IF_FAILED(find_statistics(call, err));
    gp_kernel_columns columns = sample_columns(desc);
    bool four = gp_cuda_by_four(call, (const int[]){GP_GROUP_NORM_FORWARD_X, GP_GROUP_NORM_FORWARD_Y}, 2);
    gp_kernel_group_apply_args args = {.columns = mapped(call, four),
                                       .by_four = four,
                                       .stats = stats_of(call, GP_GROUP_NORM_FORWARD_STATS),
                                       .of_group = of_group(call, &columns),
                                       .x = call->operand[GP_GROUP_NORM_FORWARD_X],
                                       .gamma = call->operand[GP_GROUP_NORM_FORWARD_GAMMA],
                                       .beta = call->operand[GP_GROUP_NORM_FORWARD_BETA],
                                       .y = call->operand[GP_GROUP_NORM_FORWARD_Y],
                                       .x_pitch = gp_cuda_rows(call, GP_GROUP_NORM_FORWARD_X).pitch,
                                       .y_pitch = gp_cuda_rows(call, GP_GROUP_NORM_FORWARD_Y).pitch};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_group_forward, &args.columns, &args, sizeof args);
    for (int i = GP_GROUP_NORM_FORWARD_X; i <= GP_GROUP_NORM_FORWARD_BETA; i++) gp_cuda_reads(&launch, call, i);
    gp_cuda_reads_bytes(&launch, args.of_group, of_group_bytes(desc));
    gp_cuda_writes(&launch, call, GP_GROUP_NORM_FORWARD_Y);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_group_norm_forward = {.book = book_samples, .run = run_group_norm_forward};

/* ---- gradient of the input --------------------------------------------------------------------------------------- */

static gp_status backward_rows(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_group_row_args args = {.stats = stats_of(call, GP_GROUP_NORM_BACKWARD_DATA_STATS),
                                     .x = call->operand[GP_GROUP_NORM_BACKWARD_DATA_X],
                                     .dy = call->operand[GP_GROUP_NORM_BACKWARD_DATA_DY],
                                     .gamma = call->operand[GP_GROUP_NORM_BACKWARD_DATA_GAMMA],
                                     .y = call->operand[GP_GROUP_NORM_BACKWARD_DATA_DX],
                                     .x_pitch = gp_cuda_rows(call, GP_GROUP_NORM_BACKWARD_DATA_X).pitch,
                                     .dy_pitch = gp_cuda_rows(call, GP_GROUP_NORM_BACKWARD_DATA_DY).pitch,
                                     .y_pitch = gp_cuda_rows(call, GP_GROUP_NORM_BACKWARD_DATA_DX).pitch};
    gp_cuda_launch launch = gp_cuda_launch_blocks(GP_KERNEL_group_row_backward, groups_of(&call->prepared->desc),
                                                  threads_for(args.stats.width), &args, sizeof args);
    for (int i = GP_GROUP_NORM_BACKWARD_DATA_X; i <= GP_GROUP_NORM_BACKWARD_DATA_GAMMA; i++)
        gp_cuda_reads(&launch, call, i);
    gp_cuda_writes(&launch, call, GP_GROUP_NORM_BACKWARD_DATA_DX);
    return gp_cuda_enqueue(call, &launch, err);
}

/* The operands x, dy and stats of both gradients have these positions. */
_Static_assert((int)GP_GROUP_NORM_BACKWARD_DATA_X == (int)GP_GROUP_NORM_BACKWARD_WEIGHTS_X &&
                   (int)GP_GROUP_NORM_BACKWARD_DATA_DY == (int)GP_GROUP_NORM_BACKWARD_WEIGHTS_DY &&
                   (int)GP_GROUP_NORM_BACKWARD_DATA_STATS == (int)GP_GROUP_NORM_BACKWARD_WEIGHTS_STATS,
               "x, dy, stats");

static gp_status sum_products(const gp_cuda_call *call, const gp_kernel_columns *columns, bool scaled, gp_error *err) {
    gp_kernel_group_products_args args = {.columns = *columns,
                                          .stats = stats_of(call, GP_GROUP_NORM_BACKWARD_DATA_STATS),
                                          .x = call->operand[GP_GROUP_NORM_BACKWARD_DATA_X],
                                          .dy = call->operand[GP_GROUP_NORM_BACKWARD_DATA_DY],
                                          .x_pitch = gp_cuda_rows(call, GP_GROUP_NORM_BACKWARD_DATA_X).pitch,
                                          .dy_pitch = gp_cuda_rows(call, GP_GROUP_NORM_BACKWARD_DATA_DY).pitch,
                                          .rows_of_sample = rows_of_sample(&call->prepared->desc),
                                          .scaled = scaled,
                                          .partial = call->workspace};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_group_products, columns, &args, sizeof args);
    for (int i = GP_GROUP_NORM_BACKWARD_DATA_X; i <= GP_GROUP_NORM_BACKWARD_DATA_STATS; i++)
        gp_cuda_reads(&launch, call, i);
    gp_cuda_writes_bytes(&launch, call->workspace, gp_cuda_columns_bytes(columns));
    return gp_cuda_enqueue(call, &launch, err);
}

static gp_status find_sums(const gp_cuda_call *call, const gp_kernel_columns *columns, gp_error *err) {
    gp_kernel_group_combine_args args = {.columns = *columns,
                                         .stats = stats_of(call, GP_GROUP_NORM_BACKWARD_DATA_STATS),
                                         .partial = call->workspace,
                                         .gamma = call->operand[GP_GROUP_NORM_BACKWARD_DATA_GAMMA],
                                         .of_group = of_group(call, columns)};
    GP_RETURN_IF_FAILED(sum_products(call, columns, false, err));
    return combine(call, GP_KERNEL_group_sums, &args, GP_GROUP_NORM_BACKWARD_DATA_GAMMA, -1, err);
}

static gp_status run_group_norm_backward_data(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    const int rows[] = {GP_GROUP_NORM_BACKWARD_DATA_X, GP_GROUP_NORM_BACKWARD_DATA_DY, GP_GROUP_NORM_BACKWARD_DATA_DX};
    if (one_row(desc)) return backward_rows(call, err);
    gp_kernel_columns columns = sample_columns(desc);
    GP_RETURN_IF_FAILED(find_sums(call, &columns, err));
    bool four = gp_cuda_by_four(call, rows, 3);
    gp_kernel_group_apply_args args = {.columns = mapped(call, four),
                                       .by_four = four,
                                       .stats = stats_of(call, GP_GROUP_NORM_BACKWARD_DATA_STATS),
                                       .of_group = of_group(call, &columns),
                                       .x = call->operand[GP_GROUP_NORM_BACKWARD_DATA_X],
                                       .dy = call->operand[GP_GROUP_NORM_BACKWARD_DATA_DY],
                                       .gamma = call->operand[GP_GROUP_NORM_BACKWARD_DATA_GAMMA],
                                       .y = call->operand[GP_GROUP_NORM_BACKWARD_DATA_DX],
                                       .x_pitch = gp_cuda_rows(call, GP_GROUP_NORM_BACKWARD_DATA_X).pitch,
                                       .dy_pitch = gp_cuda_rows(call, GP_GROUP_NORM_BACKWARD_DATA_DY).pitch,
                                       .y_pitch = gp_cuda_rows(call, GP_GROUP_NORM_BACKWARD_DATA_DX).pitch};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_group_backward, &args.columns, &args, sizeof args);
    for (int i = GP_GROUP_NORM_BACKWARD_DATA_X; i <= GP_GROUP_NORM_BACKWARD_DATA_GAMMA; i++)
        gp_cuda_reads(&launch, call, i);
    gp_cuda_reads_bytes(&launch, args.of_group, of_group_bytes(desc));
    gp_cuda_writes(&launch, call, GP_GROUP_NORM_BACKWARD_DATA_DX);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_group_norm_backward_data = {.book = book_samples, .run = run_group_norm_backward_data};

/* ---- gradients of gamma and beta: all samples' rows together ----------------------------------------------------- */

static gp_status run_group_norm_backward_weights(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_kernel_column_totals_args args = {.columns = gp_cuda_columns_of(desc),
                                         .partial = call->workspace,
                                         .first = call->operand[GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA],
                                         .second = call->operand[GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA],
                                         .accumulate = (desc->flags & GP_OP_ACCUMULATE) != 0};
    GP_RETURN_IF_FAILED(sum_products(call, &args.columns, true, err));
    gp_cuda_launch launch = gp_cuda_columns_combine(GP_KERNEL_column_totals, &args.columns, &args, sizeof args);
    gp_cuda_reads_bytes(&launch, call->workspace, gp_cuda_columns_bytes(&args.columns));
    gp_cuda_writes(&launch, call, GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA);
    gp_cuda_writes(&launch, call, GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_group_norm_backward_weights = {.book = gp_cuda_columns_book,
                                                        .run = run_group_norm_backward_weights};
