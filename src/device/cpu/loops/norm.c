/* Batch norm, alone and with the addition and the relu after it, in f32: each element is rounded as in the parts, one
 * after another. What relu lets through follows from x again, where nothing is added, so that y need not be read. */
#include <math.h>

#include "device/cpu/loops/columns.h"

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

static double inverse_deviation(const norm_loop *loop, int64_t c) {
    return 1 / sqrt((double)loop->at.variance.at[c] + loop->norm->eps);
}

static void find_coefficients(norm_loop *loop) {
    int64_t summed = loop->norm->rows_summed;
    double rows = (double)(summed ? summed : loop->at.x.rows.count);
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
    int coefficients = gp_cpu_norm_coefficients(desc->kind);
    float *first = (float *)(void *)((char *)call->workspace + gp_cpu_norm_partial_bytes(desc->kind, loop->at.x.rows));
    loop->partial = call->workspace;
    if (coefficients > 0) loop->scale = first;
    if (coefficients > 2) loop->dy_mean = first + width;
    if (coefficients > 2) loop->slope = first + 2 * width;
    if (coefficients == 2 || coefficients == 4) loop->shift = first + (coefficients - 1) * width;
    if (loop->scale) find_coefficients(loop);
}

/* Statistics: each block in one pass, then the blocks are merged in their order. */

static void statistics_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const norm_loop *loop = context;
    gp_block_statistics(loop->at.x.at + row * loop->at.x.rows.pitch + column, loop->at.x.rows.pitch, rows, columns,
                        partial_of(loop, block, 0) + column, partial_of(loop, block, 1) + column);
}

static void merge_statistics(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t rows = loop->at.x.rows.count, pitch = loop->at.stats.rows.pitch, columns;
    for (int64_t column = begin; column < end; column += columns) {
        double mean[GP_COLUMN_TILE] = {0}, squares[GP_COLUMN_TILE] = {0};
        float *stats = loop->at.stats.at + column;
        columns = end - column < GP_COLUMN_TILE ? end - column : GP_COLUMN_TILE;
        for (int64_t b = 0; b < gp_column_blocks(rows); b++) {
            int64_t before = b * GP_COLUMN_ROWS, more = rows - before;
            if (more > GP_COLUMN_ROWS) more = GP_COLUMN_ROWS;
            gp_merge_statistics(mean, squares, (double)before, partial_of(loop, b, 0) + column,
                                partial_of(loop, b, 1) + column, (double)more, columns);
        }
        for (int64_t c = 0; c < columns; c++) {
            stats[c] = (float)mean[c];
            stats[pitch + c] = (float)(squares[c] > 0 || isnan(squares[c]) ? squares[c] / (double)rows : 0);
            stats[2 * pitch + c] = (float)(mean[c] - (double)stats[c]);
        }
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

static gp_gradients gradients_at(const norm_loop *loop, int64_t row, int64_t column) {
    const gp_cpu_views *at = &loop->at;
    gp_gradients its = {.x = at->x.at + row * at->x.rows.pitch + column,
                        .dy = at->dy.at + row * at->dy.rows.pitch + column,
                        .x_pitch = at->x.rows.pitch,
                        .dy_pitch = at->dy.rows.pitch,
                        .mean = at->mean.at + column};
    if (at->dz.at) {
        its.y = at->y.at + row * at->y.rows.pitch + column;
        its.y_pitch = at->y.rows.pitch;
        its.dz = at->dz.at + row * at->dz.rows.pitch + column;
        its.dz_pitch = at->dz.rows.pitch;
    }
    if (at->addend.at) {
        its.addend = at->addend.at + row * at->addend.rows.pitch + column;
        its.addend_pitch = at->addend.rows.pitch;
    }
    if (loop->scale) {
        its.scale = loop->scale + column;
        its.shift = loop->shift + column;
    }
    return its;
}

#define BLOCK(name, through)                                                                                           \
    static void name(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {       \
        const norm_loop *loop = context;                                                                               \
        gp_gradients its = gradients_at(loop, row, column);                                                            \
        gp_block_gradients(&its, through, rows, columns, partial_of(loop, block, 0) + column,                          \
                           partial_of(loop, block, 1) + column);                                                       \
    }
BLOCK(reduce_block, GP_THROUGH_ALL)
BLOCK(reduce_relu_block, GP_THROUGH_APPLIED)
BLOCK(reduce_add_relu_block, GP_THROUGH_OUTPUT)
BLOCK(reduce_sum_relu_block, GP_THROUGH_SUM)
#undef BLOCK

static void merge_sums(void *context, int64_t begin, int64_t end) {
    const norm_loop *loop = context;
    int64_t blocks = gp_column_blocks(loop->at.x.rows.count), columns;
    for (int64_t column = begin; column < end; column += columns) {
        double products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
        float *to = loop->at.sums.at + column;
        columns = end - column < GP_COLUMN_TILE ? end - column : GP_COLUMN_TILE;
        for (int64_t b = 0; b < blocks; b++) {
            const double *its_products = partial_of(loop, b, 0) + column, *its_sums = partial_of(loop, b, 1) + column;
            for (int64_t c = 0; c < columns; c++) products[c] += its_products[c];
            for (int64_t c = 0; c < columns; c++) sums[c] += its_sums[c];
        }
        for (int64_t c = 0; c < columns; c++) {
            to[c] = (float)(products[c] * inverse_deviation(loop, column + c));
            to[loop->at.sums.rows.pitch + c] = (float)sums[c];
        }
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

const gp_cpu_loop GP_CPU_LOOP(norm_statistics) = {.compute = run_norm_statistics};
const gp_cpu_loop GP_CPU_LOOP(norm_apply) = {.compute = run_rows};
const gp_cpu_loop GP_CPU_LOOP(norm_apply_relu) = {.compute = run_rows};
const gp_cpu_loop GP_CPU_LOOP(norm_backward_reduce) = {.compute = run_reduce};
const gp_cpu_loop GP_CPU_LOOP(norm_relu_backward_reduce) = {.compute = run_reduce};
const gp_cpu_loop GP_CPU_LOOP(norm_add_relu_backward_reduce) = {.compute = run_reduce};
const gp_cpu_loop GP_CPU_LOOP(norm_backward_data) = {.compute = run_rows};
const gp_cpu_loop GP_CPU_LOOP(norm_relu_backward_data) = {.compute = run_rows};
