#include "device/cuda/cuda_columns.h"

enum {
    MOST_BLOCKS = 256,
    MAPPED_ROWS = 16 /* of a thread, over which it shares out the finding of its numbers */
};

static int64_t divided_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* rows_of_thread: of one block of rows. */
static gp_kernel_columns columns_of(int64_t samples, int64_t rows, int64_t width, int64_t rows_of_thread) {
    int64_t tile = 1;
    while (tile < GP_KERNEL_COLUMN_TILE && tile < width) tile *= 2;
    return (gp_kernel_columns){.samples = samples,
                               .rows = rows,
                               .width = width,
                               .rows_of_block = GP_KERNEL_COLUMN_THREADS / tile * rows_of_thread,
                               .tile = tile,
                               .tiles = divided_up(width, tile)};
}

gp_kernel_columns gp_cuda_columns_summed(int64_t samples, int64_t rows, int64_t width) {
    gp_kernel_columns columns = columns_of(samples, rows, width, GP_KERNEL_COLUMN_STEP);
    columns.rows_of_block *= divided_up(rows, columns.rows_of_block * MOST_BLOCKS);
    columns.blocks = divided_up(rows, columns.rows_of_block);
    return columns;
}

gp_kernel_columns gp_cuda_columns_mapped(int64_t samples, int64_t rows, int64_t width) {
    gp_kernel_columns columns = columns_of(samples, rows, width, MAPPED_ROWS);
    columns.blocks = divided_up(rows, columns.rows_of_block);
    return columns;
}

gp_kernel_columns gp_cuda_columns_of(const gp_op_desc *desc) {
    gp_rows x = gp_rows_of(&desc->operand[0]);
    return gp_cuda_columns_summed(1, x.count, x.width);
}

gp_kernel_columns gp_cuda_columns_over(const gp_cuda_call *call, bool by_four) {
    gp_rows x = gp_cuda_rows(call, GP_NAME_X);
    return gp_cuda_columns_mapped(1, x.count, by_four ? x.width / 4 : x.width);
}

size_t gp_cuda_columns_bytes(const gp_kernel_columns *columns) {
    return (size_t)(columns->samples * columns->blocks * 2 * columns->width) * sizeof(double);
}

void gp_cuda_columns_book(gp_prepared *prepared) {
    gp_kernel_columns columns = gp_cuda_columns_of(&prepared->desc);
    gp_op_book(prepared, gp_cuda_columns_bytes(&columns));
}

gp_cuda_launch gp_cuda_columns_launch(gp_cuda_kernel kernel, const gp_kernel_columns *columns, const void *args,
                                      size_t args_bytes) {
    return gp_cuda_launch_blocks(kernel, columns->samples * columns->blocks * columns->tiles, GP_KERNEL_COLUMN_THREADS,
                                 args, args_bytes);
}

gp_cuda_launch gp_cuda_columns_combine(gp_cuda_kernel kernel, const gp_kernel_columns *columns, const void *args,
                                       size_t args_bytes) {
    return gp_cuda_launch_blocks(kernel, columns->tiles, GP_KERNEL_COLUMN_THREADS, args, args_bytes);
}

gp_status gp_cuda_columns_moments(const gp_cuda_call *call, const gp_kernel_columns *columns, gp_error *err) {
    gp_kernel_column_moments_args args = {
        .columns = *columns, .x = gp_cuda_view(call, GP_NAME_X), .partial = call->workspace};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_column_moments, columns, &args, sizeof args);
    gp_cuda_reads(&launch, call, GP_NAME_X);
    gp_cuda_writes_bytes(&launch, call->workspace, gp_cuda_columns_bytes(columns));
    return gp_cuda_enqueue(call, &launch, err);
}

gp_status gp_cuda_columns_totals(const gp_cuda_call *call, const gp_kernel_columns *columns, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_kernel_column_totals_args args = {.columns = *columns,
                                         .partial = call->workspace,
                                         .first = gp_cuda_at(call, GP_NAME_DGAMMA),
                                         .second = gp_cuda_at(call, GP_NAME_DBETA),
                                         .accumulate = (desc->flags & GP_OP_ACCUMULATE) != 0};
    bool sums = gp_cuda_at(call, GP_NAME_SUMS);
    if (sums) {
        args.first = gp_cuda_at(call, GP_NAME_SUMS);
        args.second = args.first + gp_cuda_tensor(call, GP_NAME_SUMS)->stride[0];
        args.variance = gp_cuda_at(call, GP_NAME_VARIANCE);
        args.eps = desc->attributes.norm.eps;
    }
    gp_cuda_launch launch = gp_cuda_columns_combine(GP_KERNEL_column_totals, columns, &args, sizeof args);
    gp_cuda_reads_bytes(&launch, call->workspace, gp_cuda_columns_bytes(columns));
    if (sums) gp_cuda_reads(&launch, call, GP_NAME_VARIANCE);
    gp_cuda_writes(&launch, call, GP_NAME_SUMS);
    gp_cuda_writes(&launch, call, GP_NAME_DGAMMA);
    gp_cuda_writes(&launch, call, GP_NAME_DBETA);
    return gp_cuda_enqueue(call, &launch, err);
}
