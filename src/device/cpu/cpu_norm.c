/* Batch norm, alone and with the addition and the relu after it, in f32: each element is rounded as in the parts, one
 * after another. What relu lets through follows from x again, where nothing is added, so that y need not be read. */
#include <math.h>

#include "base/memory.h"
#include "device/cpu/cpu_column.h"
#include "device/cpu/cpu_ops.h"

/* One pass over rows and columns gives two partial sums for each block of rows, in f64: [blocks, 2, columns]. */
typedef struct norm_loop {
    const gp_norm_attributes *norm;
    gp_cpu_views at;
    double *partial;
    /* One for each channel; NULL where the op needs none. */
    float *scale, *shift;   /* y = (x − mean)·scale + shift */
    float *dy_mean, *slope; /* dx = scale·(dy − dy_mean − (x − mean)·slope) */
} norm_loop;

static double *partial_of(const norm_loop *loop, int64_t block, int64_t which) {
    return loop->partial + (block * 2 + which) * loop->at.x.rows.width;
}

/* Bytes of the partial sums. */
static size_t partial_bytes(gp_op_kind kind, gp_rows x) {
    bool sums = kind == GP_OP_NORM_STATISTICS || kind == GP_OP_NORM_BACKWARD_REDUCE ||
                kind == GP_OP_NORM_RELU_BACKWARD_REDUCE || kind == GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE;
    return sums ? gp_align_up(gp_cpu_column_bytes(x), GP_ALIGNMENT) : 0;
}

/* How many of the coefficients an op needs. */
static int coefficients_of(gp_op_kind kind) {
    switch (kind) {
    case GP_OP_NORM_APPLY:
    case GP_OP_NORM_APPLY_RELU:
    case GP_OP_NORM_RELU_BACKWARD_REDUCE: return 2;
    case GP_OP_NORM_BACKWARD_DATA: return 3; /* no shift */
    case GP_OP_NORM_RELU_BACKWARD_DATA: return 4;
    default: return 0;
    }
}

static void book(gp_prepared *prepared) {
    gp_op_kind kind = prepared->desc.kind;
    gp_rows x = gp_rows_of(&prepared->desc.operand[0]);
    size_t coefficients = (size_t)coefficients_of(kind) * (size_t)x.width;
    gp_op_book(prepared, partial_bytes(kind, x) + coefficients * sizeof(float));
}

static double inverse_deviation(const norm_loop *loop, int64_t c) {
    return 1 / sqrt((double)loop->at.variance.at[c] + loop->norm->eps);
}

static void find_coefficients(norm_loop *loop) {
    double rows = (double)loop->at.x.rows.count;
    const float *gamma = loop->at.gamma.at, *beta = loop->at.beta.at, *sums = loop->at.sums.at;
    for (int64_t c = 0; c < loop->at.x.rows.width; c++) {
        double inverse = inverse_deviation(loop, c);
        loop->scale[c] = (float)(inverse * (gamma ? (double)gamma[c] : 1));
        if (loop->shift) loop->shift[c] = beta ? beta[c] : 0;
        if (!loop->slope) continue;
        loop->dy_mean[c] = (float)((double)sums[loop->at.sums.rows.pitch + c] / rows);
        loop->slope[c] = (float)((double)sums[c] * inverse / rows);
    }
}

static void begin(const gp_cpu_call *call, norm_loop *loop) {
    const gp_op_desc *desc = &call->prepared->desc;
    loop->norm = &desc->attributes.norm;
    loop->scale = loop->shift = loop->dy_mean = loop->slope = NULL;
    gp_cpu_find_views(call, &loop->at);
    int64_t width = loop->at.x.rows.width;
    int coefficients = coefficients_of(desc->kind);
    float *first = (float *)(void *)((char *)call->workspace + partial_bytes(desc->kind, loop->at.x.rows));
    loop->partial = call->workspace;
    if (coefficients > 0) loop->scale = first;
    if (coefficients > 2) loop->dy_mean = first + width;
    if (coefficients > 2) loop->slope = first + 2 * width;
    if (coefficients == 2 || coefficients == 4) loop->shift = first + (coefficients - 1) * width;
    if (loop->scale) find_coefficients(loop);
}

/* Statistics: each block in two passes over rows that are still in the cache, so that a large mean costs no digits;
 * then the blocks are merged in their order (Chan, Golub, LeVeque 1979). */

static void statistics_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const norm_loop *loop = context;
    float mean[GP_COLUMN_TILE] = {0}, rest[GP_COLUMN_TILE] = {0}, squares[GP_COLUMN_TILE] = {0};
    const float *first = loop->at.x.at + row * loop->at.x.rows.pitch + column;
    for (int64_t r = 0; r < rows; r++) {
        const float *x = first + r * loop->at.x.rows.pitch;
        for (int64_t c = 0; c < columns; c++) mean[c] += x[c];
    }
    for (int64_t c = 0; c < columns; c++) mean[c] /= (float)rows;
    for (int64_t r = 0; r < rows; r++) {
        const float *x = first + r * loop->at.x.rows.pitch;
        for (int64_t c = 0; c < columns; c++) {
            float difference = x[c] - mean[c];
            rest[c] += difference;
            squares[c] += difference * difference;
        }
    }
    /* `rest` is what rounding has left of the mean. */
    double *means = partial_of(loop, block, 0) + column, *sums = partial_of(loop, block, 1) + column;
    for (int64_t c = 0; c < columns; c++) {
        double shift = (double)rest[c] / (double)rows;
        means[c] = (double)mean[c] + shift;
        sums[c] = (double)squares[c] - shift * (double)rest[c];
    }
}

static void merge_statistics(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t blocks = gp_column_blocks(loop->at.x.rows.count);
    for (int64_t c = begin; c < end; c++) {
        double mean = 0, squares = 0, rows = 0;
        for (int64_t b = 0; b < blocks; b++) {
            double more = (double)(b < blocks - 1 ? GP_COLUMN_ROWS : loop->at.x.rows.count - b * GP_COLUMN_ROWS);
            double difference = partial_of(loop, b, 0)[c] - mean;
            double all = rows + more;
            mean += difference * more / all;
            squares += partial_of(loop, b, 1)[c] + difference * difference * rows * more / all;
            rows = all;
        }
        loop->at.stats.at[c] = (float)mean;
        loop->at.stats.at[2 * loop->at.stats.rows.pitch + c] = (float)(mean - (double)loop->at.stats.at[c]);
        loop->at.stats.at[loop->at.stats.rows.pitch + c] = (float)(squares > 0 || isnan(squares) ? squares / rows : 0);
    }
}

static void run_norm_statistics(const gp_cpu_call *call) {
    norm_loop loop;
    begin(call, &loop);
    gp_cpu_column_blocks(call->pool, loop.at.x.rows.count, loop.at.x.rows.width, statistics_block, &loop);
    gp_cpu_pool_for(call->pool, loop.at.x.rows.width, GP_COLUMN_TILE, merge_statistics, &loop);
}

/* Application. */

static float relu(float z) {
    return z <= 0 ? 0 : z;
}

static void apply_rows(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t width = loop->at.x.rows.width;
    const float *mean = loop->at.mean.at, *scale = loop->scale, *shift = loop->shift;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch;
        float *y = loop->at.y.at + r * loop->at.y.rows.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) y[c] = (x[c] - mean[c]) * scale[c] + shift[c];
    }
}

static void apply_relu_rows(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t width = loop->at.x.rows.width;
    const float *mean = loop->at.mean.at, *scale = loop->scale, *shift = loop->shift;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch;
        float *y = loop->at.y.at + r * loop->at.y.rows.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) y[c] = relu((x[c] - mean[c]) * scale[c] + shift[c]);
    }
}

static void apply_add_relu_rows(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t width = loop->at.x.rows.width;
    const float *mean = loop->at.mean.at, *scale = loop->scale, *shift = loop->shift;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch,
                    *addend = loop->at.addend.at + r * loop->at.addend.rows.pitch;
        float *y = loop->at.y.at + r * loop->at.y.rows.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            float applied = (x[c] - mean[c]) * scale[c] + shift[c];
            y[c] = relu(applied + addend[c]);
        }
    }
}

/* Gradient of the input, three coefficients for each channel; then the same of what relu lets through. */

static void backward_rows(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t width = loop->at.x.rows.width;
    const float *mean = loop->at.mean.at, *a = loop->scale, *s = loop->dy_mean, *p = loop->slope;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch, *dy = loop->at.dy.at + r * loop->at.dy.rows.pitch;
        float *dx = loop->at.dx.at + r * loop->at.dx.rows.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) dx[c] = a[c] * (dy[c] - s[c] - (x[c] - mean[c]) * p[c]);
    }
}

static void backward_relu_rows(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t width = loop->at.x.rows.width;
    const float *mean = loop->at.mean.at, *a = loop->scale, *shift = loop->shift, *s = loop->dy_mean, *p = loop->slope;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch, *dy = loop->at.dy.at + r * loop->at.dy.rows.pitch;
        float *dx = loop->at.dx.at + r * loop->at.dx.rows.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            float difference = x[c] - mean[c], gradient = dy[c];
            gradient = difference * a[c] + shift[c] > 0 ? gradient : 0;
            dx[c] = a[c] * (gradient - s[c] - difference * p[c]);
        }
    }
}

static void run_rows(const gp_cpu_call *call) {
    norm_loop loop;
    begin(call, &loop);
    gp_op_kind kind = call->prepared->desc.kind;
    gp_cpu_range range = kind == GP_OP_NORM_APPLY           ? apply_rows
                         : kind == GP_OP_NORM_BACKWARD_DATA ? backward_rows
                         : loop.at.dx.at                    ? backward_relu_rows
                         : loop.at.addend.at                ? apply_add_relu_rows
                                                            : apply_relu_rows;
    gp_cpu_pool_for(call->pool, loop.at.x.rows.count, gp_cpu_grain(loop.at.x.rows.width), range, &loop);
}

/* Gradients of gamma and beta: partial sums Σ dy·(x − mean), Σ dy of every block; then their sums, the first divided by
 * the deviation. */

static void store_sums(const norm_loop *loop, int64_t block, int64_t column, int64_t columns, const float *products,
                       const float *sums) {
    double *all_products = partial_of(loop, block, 0) + column;
    double *all_sums = partial_of(loop, block, 1) + column;
    for (int64_t c = 0; c < columns; c++) {
        all_products[c] = (double)products[c];
        all_sums[c] = (double)sums[c];
    }
}

static void reduce_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const norm_loop *loop = context;
    float products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
    const float *mean = loop->at.mean.at + column;
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch + column,
                    *dy = loop->at.dy.at + r * loop->at.dy.rows.pitch + column;
        for (int64_t c = 0; c < columns; c++) {
            products[c] += dy[c] * (x[c] - mean[c]);
            sums[c] += dy[c];
        }
    }
    store_sums(loop, block, column, columns, products, sums);
}

/* Where nothing was added. */
static void reduce_relu_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column,
                              int64_t columns) {
    const norm_loop *loop = context;
    float products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
    const float *mean = loop->at.mean.at + column, *scale = loop->scale + column;
    const float *shift = loop->shift + column;
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch + column;
        const float *dy = loop->at.dy.at + r * loop->at.dy.rows.pitch + column;
        for (int64_t c = 0; c < columns; c++) {
            float difference = x[c] - mean[c], gradient = dy[c];
            gradient = difference * scale[c] + shift[c] > 0 ? gradient : 0;
            products[c] += gradient * difference;
            sums[c] += gradient;
        }
    }
    store_sums(loop, block, column, columns, products, sums);
}

/* Leaves the gradient of the sum too. */
static void reduce_add_relu_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column,
                                  int64_t columns) {
    const norm_loop *loop = context;
    float products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
    const float *mean = loop->at.mean.at + column;
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch + column,
                    *y = loop->at.y.at + r * loop->at.y.rows.pitch + column;
        const float *dy = loop->at.dy.at + r * loop->at.dy.rows.pitch + column;
        float *dz = loop->at.dz.at + r * loop->at.dz.rows.pitch + column;
        GP_INDEPENDENT
        for (int64_t c = 0; c < columns; c++) {
            float gradient = dy[c];
            gradient = y[c] > 0 ? gradient : 0;
            dz[c] = gradient;
            products[c] += gradient * (x[c] - mean[c]);
            sums[c] += gradient;
        }
    }
    store_sums(loop, block, column, columns, products, sums);
}

/* Where two shares of the gradient meet. */
static void reduce_sum_relu_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column,
                                  int64_t columns) {
    const norm_loop *loop = context;
    float products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
    const float *mean = loop->at.mean.at + column;
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = loop->at.x.at + r * loop->at.x.rows.pitch + column,
                    *y = loop->at.y.at + r * loop->at.y.rows.pitch + column;
        const float *dy = loop->at.dy.at + r * loop->at.dy.rows.pitch + column,
                    *addend = loop->at.addend.at + r * loop->at.addend.rows.pitch + column;
        float *dz = loop->at.dz.at + r * loop->at.dz.rows.pitch + column;
        GP_INDEPENDENT
        for (int64_t c = 0; c < columns; c++) {
            float gradient = dy[c] + addend[c];
            gradient = y[c] > 0 ? gradient : 0;
            dz[c] = gradient;
            products[c] += gradient * (x[c] - mean[c]);
            sums[c] += gradient;
        }
    }
    store_sums(loop, block, column, columns, products, sums);
}

static void merge_sums(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t blocks = gp_column_blocks(loop->at.x.rows.count);
    for (int64_t c = begin; c < end; c++) {
        double products = 0, sum = 0;
        for (int64_t b = 0; b < blocks; b++) {
            products += partial_of(loop, b, 0)[c];
            sum += partial_of(loop, b, 1)[c];
        }
        loop->at.sums.at[c] = (float)(products * inverse_deviation(loop, c));
        loop->at.sums.at[loop->at.sums.rows.pitch + c] = (float)sum;
    }
}

static void run_reduce(const gp_cpu_call *call) {
    norm_loop loop;
    begin(call, &loop);
    gp_column_block block = loop.at.addend.at ? reduce_sum_relu_block
                            : loop.at.dz.at   ? reduce_add_relu_block
                            : loop.scale      ? reduce_relu_block
                                              : reduce_block;
    gp_cpu_column_blocks(call->pool, loop.at.x.rows.count, loop.at.x.rows.width, block, &loop);
    gp_cpu_pool_for(call->pool, loop.at.x.rows.width, GP_COLUMN_TILE, merge_sums, &loop);
}

const gp_cpu_op gp_cpu_norm_statistics = {.book = book, .compute = run_norm_statistics};
const gp_cpu_op gp_cpu_norm_apply = {.book = book, .compute = run_rows};
const gp_cpu_op gp_cpu_norm_apply_relu = {.book = book, .compute = run_rows};
const gp_cpu_op gp_cpu_norm_backward_reduce = {.book = book, .compute = run_reduce};
const gp_cpu_op gp_cpu_norm_relu_backward_reduce = {.book = book, .compute = run_reduce};
const gp_cpu_op gp_cpu_norm_add_relu_backward_reduce = {.book = book, .compute = run_reduce};
const gp_cpu_op gp_cpu_norm_backward_data = {.book = book, .compute = run_rows};
const gp_cpu_op gp_cpu_norm_relu_backward_data = {.book = book, .compute = run_rows};
