#include "device/cpu/cpu_norm.h"

#include <math.h>

#include "device/cpu/cpu_ops.h"

static double inverse_deviation(const gp_cpu_norm_loop *loop, int64_t c) {
    return 1 / sqrt((double)loop->variance[c] + loop->norm->eps);
}

void gp_cpu_norm_find_scales(const gp_cpu_norm_loop *loop, float *scale, float *shift) {
    for (int64_t c = 0; c < loop->x.width; c++) {
        scale[c] = (float)(inverse_deviation(loop, c) * (loop->gamma ? (double)loop->gamma[c] : 1));
        shift[c] = loop->beta ? loop->beta[c] : 0;
    }
}

void gp_cpu_norm_find_slopes(const gp_cpu_norm_loop *loop, float *mean, float *slope) {
    double rows = (double)loop->x.count;
    for (int64_t c = 0; c < loop->x.width; c++) {
        mean[c] = (float)((double)loop->sums[loop->sums_pitch + c] / rows);
        slope[c] = (float)((double)loop->sums[c] * inverse_deviation(loop, c) / rows);
    }
}

/* Statistics: each block in two passes over rows that are still in the cache, so that a large mean costs no digits;
 * then the blocks are merged in their order (Chan, Golub, LeVeque 1979). */

static void statistics_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const gp_cpu_norm_loop *loop = context;
    float mean[GP_COLUMN_TILE] = {0}, rest[GP_COLUMN_TILE] = {0}, squares[GP_COLUMN_TILE] = {0};
    const float *first = loop->x_at + row * loop->x.pitch + column;
    for (int64_t r = 0; r < rows; r++) {
        const float *x = first + r * loop->x.pitch;
        for (int64_t c = 0; c < columns; c++) mean[c] += x[c];
    }
    for (int64_t c = 0; c < columns; c++) mean[c] /= (float)rows;
    for (int64_t r = 0; r < rows; r++) {
        const float *x = first + r * loop->x.pitch;
        for (int64_t c = 0; c < columns; c++) {
            float difference = x[c] - mean[c];
            rest[c] += difference;
            squares[c] += difference * difference;
        }
    }
    /* `rest` is what rounding has left of the mean. */
    double *means = gp_cpu_norm_partial(loop, block, 0) + column, *sums = gp_cpu_norm_partial(loop, block, 1) + column;
    for (int64_t c = 0; c < columns; c++) {
        double shift = (double)rest[c] / (double)rows;
        means[c] = (double)mean[c] + shift;
        sums[c] = (double)squares[c] - shift * (double)rest[c];
    }
}

static void merge_statistics(void *context, int64_t begin, int64_t end) {
    const gp_cpu_norm_loop *loop = context;
    int64_t blocks = gp_column_blocks(loop->x.count);
    for (int64_t c = begin; c < end; c++) {
        double mean = 0, squares = 0, rows = 0;
        for (int64_t b = 0; b < blocks; b++) {
            double more = (double)(b < blocks - 1 ? GP_COLUMN_ROWS : loop->x.count - b * GP_COLUMN_ROWS);
            double difference = gp_cpu_norm_partial(loop, b, 0)[c] - mean;
            double all = rows + more;
            mean += difference * more / all;
            squares += gp_cpu_norm_partial(loop, b, 1)[c] + difference * difference * rows * more / all;
            rows = all;
        }
        loop->y_at[c] = (float)mean;
        loop->y_at[2 * loop->sums_pitch + c] = (float)(mean - (double)loop->y_at[c]);
        loop->y_at[loop->sums_pitch + c] = (float)(squares > 0 || isnan(squares) ? squares / rows : 0);
    }
}

static gp_status run_norm_statistics(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    gp_cpu_norm_loop loop = {.x = gp_cpu_rows(call, GP_NORM_STATISTICS_X),
                             .x_at = call->operand[GP_NORM_STATISTICS_X],
                             .y_at = call->operand[GP_NORM_STATISTICS_STATS],
                             .sums_pitch = call->prepared->desc.operand[GP_NORM_STATISTICS_STATS].stride[0],
                             .partial = call->workspace};
    gp_cpu_column_blocks(call->pool, loop.x.count, loop.x.width, statistics_block, &loop);
    gp_cpu_pool_for(call->pool, loop.x.width, GP_COLUMN_TILE, merge_statistics, &loop);
    return GP_OK;
}

const gp_cpu_op gp_cpu_norm_statistics = {.book = gp_cpu_column_book, .run = run_norm_statistics};

/* Application. */

static void book_norm_apply(gp_prepared *prepared) {
    gp_op_book(prepared, 2 * sizeof(float) * (size_t)gp_rows_of(&prepared->desc.operand[GP_NORM_APPLY_X]).width);
}

static void apply_rows(void *context, int64_t begin, int64_t end) {
    const gp_cpu_norm_loop *loop = context;
    const float *mean = loop->mean, *scale = loop->coefficient, *beta = loop->coefficient + loop->x.width;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->x_at + r * loop->x.pitch;
        float *y = loop->y_at + r * loop->y.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < loop->x.width; c++) y[c] = (x[c] - mean[c]) * scale[c] + beta[c];
    }
}

static gp_status run_norm_apply(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    gp_cpu_norm_loop loop = {.norm = &call->prepared->desc.attributes.norm,
                             .x = gp_cpu_rows(call, GP_NORM_APPLY_X),
                             .y = gp_cpu_rows(call, GP_NORM_APPLY_Y),
                             .x_at = call->operand[GP_NORM_APPLY_X],
                             .mean = call->operand[GP_NORM_APPLY_MEAN],
                             .variance = call->operand[GP_NORM_APPLY_VARIANCE],
                             .gamma = call->operand[GP_NORM_APPLY_GAMMA],
                             .beta = call->operand[GP_NORM_APPLY_BETA],
                             .y_at = call->operand[GP_NORM_APPLY_Y],
                             .coefficient = call->workspace};
    gp_cpu_norm_find_scales(&loop, loop.coefficient, loop.coefficient + loop.x.width);
    gp_cpu_pool_for(call->pool, loop.x.count, gp_cpu_grain(loop.x.width), apply_rows, &loop);
    return GP_OK;
}

const gp_cpu_op gp_cpu_norm_apply = {.book = book_norm_apply, .run = run_norm_apply};

/* Gradients of gamma and beta. */

void gp_cpu_norm_store_sums(const gp_cpu_norm_loop *loop, int64_t block, int64_t column, int64_t columns,
                            const float *products, const float *sums) {
    double *all_products = gp_cpu_norm_partial(loop, block, 0) + column;
    double *all_sums = gp_cpu_norm_partial(loop, block, 1) + column;
    for (int64_t c = 0; c < columns; c++) {
        all_products[c] = (double)products[c];
        all_sums[c] = (double)sums[c];
    }
}

static void reduce_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const gp_cpu_norm_loop *loop = context;
    float products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
    const float *mean = loop->mean + column;
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = loop->x_at + r * loop->x.pitch + column, *dy = loop->dy_at + r * loop->dy.pitch + column;
        for (int64_t c = 0; c < columns; c++) {
            products[c] += dy[c] * (x[c] - mean[c]);
            sums[c] += dy[c];
        }
    }
    gp_cpu_norm_store_sums(loop, block, column, columns, products, sums);
}

static void merge_sums(void *context, int64_t begin, int64_t end) {
    const gp_cpu_norm_loop *loop = context;
    int64_t blocks = gp_column_blocks(loop->x.count);
    for (int64_t c = begin; c < end; c++) {
        double products = 0, sum = 0;
        for (int64_t b = 0; b < blocks; b++) {
            products += gp_cpu_norm_partial(loop, b, 0)[c];
            sum += gp_cpu_norm_partial(loop, b, 1)[c];
        }
        loop->y_at[c] = (float)(products * inverse_deviation(loop, c));
        loop->y_at[loop->sums_pitch + c] = (float)sum;
    }
}

void gp_cpu_norm_reduce(gp_cpu_pool *pool, gp_cpu_norm_loop *loop, gp_column_block block) {
    gp_cpu_column_blocks(pool, loop->x.count, loop->x.width, block, loop);
    gp_cpu_pool_for(pool, loop->x.width, GP_COLUMN_TILE, merge_sums, loop);
}

static gp_status run_norm_backward_reduce(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    gp_cpu_norm_loop loop = {.norm = &call->prepared->desc.attributes.norm,
                             .x = gp_cpu_rows(call, GP_NORM_BACKWARD_REDUCE_X),
                             .dy = gp_cpu_rows(call, GP_NORM_BACKWARD_REDUCE_DY),
                             .x_at = call->operand[GP_NORM_BACKWARD_REDUCE_X],
                             .dy_at = call->operand[GP_NORM_BACKWARD_REDUCE_DY],
                             .mean = call->operand[GP_NORM_BACKWARD_REDUCE_MEAN],
                             .variance = call->operand[GP_NORM_BACKWARD_REDUCE_VARIANCE],
                             .y_at = call->operand[GP_NORM_BACKWARD_REDUCE_SUMS],
                             .sums_pitch = call->prepared->desc.operand[GP_NORM_BACKWARD_REDUCE_SUMS].stride[0],
                             .partial = call->workspace};
    gp_cpu_norm_reduce(call->pool, &loop, reduce_block);
    return GP_OK;
}

const gp_cpu_op gp_cpu_norm_backward_reduce = {.book = gp_cpu_column_book, .run = run_norm_backward_reduce};

/* Gradient of the input: dx = a·(dy − s − (x − mean)·p) with three coefficients for each channel. */

static void book_norm_backward_data(gp_prepared *prepared) {
    int64_t width = gp_rows_of(&prepared->desc.operand[GP_NORM_BACKWARD_DATA_X]).width;
    gp_op_book(prepared, 3 * sizeof(float) * (size_t)width);
}

static void backward_rows(void *context, int64_t begin, int64_t end) {
    const gp_cpu_norm_loop *loop = context;
    int64_t width = loop->x.width;
    const float *mean = loop->mean, *a = loop->coefficient, *s = a + width, *p = s + width;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->x_at + r * loop->x.pitch, *dy = loop->dy_at + r * loop->dy.pitch;
        float *dx = loop->y_at + r * loop->y.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) dx[c] = a[c] * (dy[c] - s[c] - (x[c] - mean[c]) * p[c]);
    }
}

static gp_status run_norm_backward_data(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    gp_cpu_norm_loop loop = {.norm = &call->prepared->desc.attributes.norm,
                             .x = gp_cpu_rows(call, GP_NORM_BACKWARD_DATA_X),
                             .dy = gp_cpu_rows(call, GP_NORM_BACKWARD_DATA_DY),
                             .y = gp_cpu_rows(call, GP_NORM_BACKWARD_DATA_DX),
                             .x_at = call->operand[GP_NORM_BACKWARD_DATA_X],
                             .dy_at = call->operand[GP_NORM_BACKWARD_DATA_DY],
                             .mean = call->operand[GP_NORM_BACKWARD_DATA_MEAN],
                             .variance = call->operand[GP_NORM_BACKWARD_DATA_VARIANCE],
                             .gamma = call->operand[GP_NORM_BACKWARD_DATA_GAMMA],
                             .sums = call->operand[GP_NORM_BACKWARD_DATA_SUMS],
                             .sums_pitch = call->prepared->desc.operand[GP_NORM_BACKWARD_DATA_SUMS].stride[0],
                             .y_at = call->operand[GP_NORM_BACKWARD_DATA_DX],
                             .coefficient = call->workspace};
    int64_t width = loop.x.width;
    for (int64_t c = 0; c < width; c++) {
        double inverse = inverse_deviation(&loop, c);
        loop.coefficient[c] = (float)(inverse * (loop.gamma ? (double)loop.gamma[c] : 1));
    }
    gp_cpu_norm_find_slopes(&loop, loop.coefficient + width, loop.coefficient + 2 * width);
    gp_cpu_pool_for(call->pool, loop.x.count, gp_cpu_grain(width), backward_rows, &loop);
    return GP_OK;
}

const gp_cpu_op gp_cpu_norm_backward_data = {.book = book_norm_backward_data, .run = run_norm_backward_data};
