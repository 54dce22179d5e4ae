/* Batch norm with the addition and the relu behind it, in f32: each element is rounded as in the parts, one after
 * another. What relu lets through follows from x again, where nothing is added, so that y need not be read. */
#include "base/memory.h"
#include "device/cpu/cpu_norm.h"
#include "device/cpu/cpu_ops.h"

typedef struct relu_loop {
    gp_cpu_norm_loop norm; /* first: gp_cpu_norm_reduce hands it to the blocks */
    gp_rows also;
    const float *also_at; /* addend, or y in the backward pass; NULL: none */
    gp_rows dz;
    float *dz_at;
} relu_loop;

static float relu(float z) {
    return z <= 0 ? 0 : z;
}

/* Forward. */

static void book_norm_apply_relu(gp_prepared *prepared) {
    gp_op_book(prepared, 2 * sizeof(float) * (size_t)gp_rows_of(&prepared->desc.operand[GP_NORM_APPLY_RELU_X]).width);
}

static void apply_rows(void *context, int64_t begin, int64_t end) {
    const relu_loop *loop = context;
    int64_t width = loop->norm.x.width;
    const float *mean = loop->norm.mean, *scale = loop->norm.coefficient, *shift = scale + width;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->norm.x_at + r * loop->norm.x.pitch;
        float *y = loop->norm.y_at + r * loop->norm.y.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) y[c] = relu((x[c] - mean[c]) * scale[c] + shift[c]);
    }
}

static void apply_and_add_rows(void *context, int64_t begin, int64_t end) {
    const relu_loop *loop = context;
    int64_t width = loop->norm.x.width;
    const float *mean = loop->norm.mean, *scale = loop->norm.coefficient, *shift = scale + width;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->norm.x_at + r * loop->norm.x.pitch, *addend = loop->also_at + r * loop->also.pitch;
        float *y = loop->norm.y_at + r * loop->norm.y.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            float applied = (x[c] - mean[c]) * scale[c] + shift[c];
            y[c] = relu(applied + addend[c]);
        }
    }
}

static gp_status run_norm_apply_relu(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    relu_loop loop = {.norm = {.norm = &call->prepared->desc.attributes.norm,
                               .x = gp_cpu_rows(call, GP_NORM_APPLY_RELU_X),
                               .y = gp_cpu_rows(call, GP_NORM_APPLY_RELU_Y),
                               .x_at = call->operand[GP_NORM_APPLY_RELU_X],
                               .mean = call->operand[GP_NORM_APPLY_RELU_MEAN],
                               .variance = call->operand[GP_NORM_APPLY_RELU_VARIANCE],
                               .gamma = call->operand[GP_NORM_APPLY_RELU_GAMMA],
                               .beta = call->operand[GP_NORM_APPLY_RELU_BETA],
                               .y_at = call->operand[GP_NORM_APPLY_RELU_Y],
                               .coefficient = call->workspace},
                      .also_at = call->operand[GP_NORM_APPLY_RELU_ADDEND]};
    int64_t width = loop.norm.x.width;
    if (loop.also_at) loop.also = gp_cpu_rows(call, GP_NORM_APPLY_RELU_ADDEND);
    gp_cpu_norm_find_scales(&loop.norm, loop.norm.coefficient, loop.norm.coefficient + width);
    gp_cpu_pool_for(call->pool, loop.norm.x.count, gp_cpu_grain(width), loop.also_at ? apply_and_add_rows : apply_rows,
                    &loop);
    return GP_OK;
}

const gp_cpu_op gp_cpu_norm_apply_relu = {.book = book_norm_apply_relu, .run = run_norm_apply_relu};

/* Gradients of gamma and beta where nothing was added. */

static void book_norm_relu_backward_reduce(gp_prepared *prepared) {
    const gp_tensor *x = &prepared->desc.operand[GP_NORM_RELU_BACKWARD_REDUCE_X];
    gp_cpu_column_book(prepared);
    gp_op_book(prepared, 2 * sizeof(float) * (size_t)gp_rows_of(x).width);
}

static void reduce_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const relu_loop *loop = context;
    float products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
    const float *mean = loop->norm.mean + column, *scale = loop->norm.coefficient + column;
    const float *shift = scale + loop->norm.x.width;
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = loop->norm.x_at + r * loop->norm.x.pitch + column;
        const float *dy = loop->norm.dy_at + r * loop->norm.dy.pitch + column;
        for (int64_t c = 0; c < columns; c++) {
            float difference = x[c] - mean[c], gradient = dy[c];
            gradient = difference * scale[c] + shift[c] > 0 ? gradient : 0;
            products[c] += gradient * difference;
            sums[c] += gradient;
        }
    }
    gp_cpu_norm_store_sums(&loop->norm, block, column, columns, products, sums);
}

static gp_status run_norm_relu_backward_reduce(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    const gp_op_desc *desc = &call->prepared->desc;
    relu_loop loop = {.norm = {.norm = &desc->attributes.norm,
                               .x = gp_cpu_rows(call, GP_NORM_RELU_BACKWARD_REDUCE_X),
                               .dy = gp_cpu_rows(call, GP_NORM_RELU_BACKWARD_REDUCE_DY),
                               .x_at = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_X],
                               .dy_at = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_DY],
                               .mean = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_MEAN],
                               .variance = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_VARIANCE],
                               .gamma = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_GAMMA],
                               .beta = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_BETA],
                               .y_at = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_SUMS],
                               .sums_pitch = desc->operand[GP_NORM_RELU_BACKWARD_REDUCE_SUMS].stride[0],
                               .partial = call->workspace}};
    size_t partial = gp_cpu_column_bytes(gp_rows_of(&desc->operand[GP_NORM_RELU_BACKWARD_REDUCE_X]));
    loop.norm.coefficient = (float *)((char *)call->workspace + gp_align_up(partial, GP_ALIGNMENT));
    gp_cpu_norm_find_scales(&loop.norm, loop.norm.coefficient, loop.norm.coefficient + loop.norm.x.width);
    gp_cpu_norm_reduce(call->pool, &loop.norm, reduce_block);
    return GP_OK;
}

const gp_cpu_op gp_cpu_norm_relu_backward_reduce = {.book = book_norm_relu_backward_reduce,
                                                    .run = run_norm_relu_backward_reduce};

/* Gradient of the input where nothing was added: dx = a·(dz − s − (x − mean)·p). */

static void book_norm_relu_backward_data(gp_prepared *prepared) {
    int64_t width = gp_rows_of(&prepared->desc.operand[GP_NORM_RELU_BACKWARD_DATA_X]).width;
    gp_op_book(prepared, 4 * sizeof(float) * (size_t)width);
}

static void backward_rows(void *context, int64_t begin, int64_t end) {
    const gp_cpu_norm_loop *loop = context;
    int64_t width = loop->x.width;
    const float *mean = loop->mean, *a = loop->coefficient, *shift = a + width, *s = shift + width, *p = s + width;
    for (int64_t r = begin; r < end; r++) {
        const float *x = loop->x_at + r * loop->x.pitch, *dy = loop->dy_at + r * loop->dy.pitch;
        float *dx = loop->y_at + r * loop->y.pitch;
        GP_INDEPENDENT
        for (int64_t c = 0; c < width; c++) {
            float difference = x[c] - mean[c], gradient = dy[c];
            gradient = difference * a[c] + shift[c] > 0 ? gradient : 0;
            dx[c] = a[c] * (gradient - s[c] - difference * p[c]);
        }
    }
}

static gp_status run_norm_relu_backward_data(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    const gp_op_desc *desc = &call->prepared->desc;
    gp_cpu_norm_loop loop = {.norm = &desc->attributes.norm,
                             .x = gp_cpu_rows(call, GP_NORM_RELU_BACKWARD_DATA_X),
                             .dy = gp_cpu_rows(call, GP_NORM_RELU_BACKWARD_DATA_DY),
                             .y = gp_cpu_rows(call, GP_NORM_RELU_BACKWARD_DATA_DX),
                             .x_at = call->operand[GP_NORM_RELU_BACKWARD_DATA_X],
                             .dy_at = call->operand[GP_NORM_RELU_BACKWARD_DATA_DY],
                             .mean = call->operand[GP_NORM_RELU_BACKWARD_DATA_MEAN],
                             .variance = call->operand[GP_NORM_RELU_BACKWARD_DATA_VARIANCE],
                             .gamma = call->operand[GP_NORM_RELU_BACKWARD_DATA_GAMMA],
                             .beta = call->operand[GP_NORM_RELU_BACKWARD_DATA_BETA],
                             .sums = call->operand[GP_NORM_RELU_BACKWARD_DATA_SUMS],
                             .sums_pitch = desc->operand[GP_NORM_RELU_BACKWARD_DATA_SUMS].stride[0],
                             .y_at = call->operand[GP_NORM_RELU_BACKWARD_DATA_DX],
                             .coefficient = call->workspace};
    float *a = loop.coefficient;
    int64_t width = loop.x.width;
    gp_cpu_norm_find_scales(&loop, a, a + width);
    gp_cpu_norm_find_slopes(&loop, a + 2 * width, a + 3 * width);
    gp_cpu_pool_for(call->pool, loop.x.count, gp_cpu_grain(width), backward_rows, &loop);
    return GP_OK;
}

const gp_cpu_op gp_cpu_norm_relu_backward_data = {.book = book_norm_relu_backward_data,
                                                  .run = run_norm_relu_backward_data};

/* The gradient of the sum, and those of gamma and beta. */

static void reduce_sum_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const relu_loop *loop = context;
    float products[GP_COLUMN_TILE] = {0}, sums[GP_COLUMN_TILE] = {0};
    const float *mean = loop->norm.mean + column;
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = loop->norm.x_at + r * loop->norm.x.pitch + column, *y = loop->also_at + r * loop->also.pitch;
        const float *dy = loop->norm.dy_at + r * loop->norm.dy.pitch + column;
        float *dz = loop->dz_at + r * loop->dz.pitch + column;
        y += column;
        GP_INDEPENDENT
        for (int64_t c = 0; c < columns; c++) {
            float gradient = dy[c];
            gradient = y[c] > 0 ? gradient : 0;
            dz[c] = gradient;
            products[c] += gradient * (x[c] - mean[c]);
            sums[c] += gradient;
        }
    }
    gp_cpu_norm_store_sums(&loop->norm, block, column, columns, products, sums);
}

static gp_status run_norm_add_relu_backward_reduce(const gp_cpu_call *call, gp_error *err) {
    (void)err;
    const gp_op_desc *desc = &call->prepared->desc;
    relu_loop loop = {.norm = {.norm = &desc->attributes.norm,
                               .x = gp_cpu_rows(call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_X),
                               .dy = gp_cpu_rows(call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY),
                               .x_at = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_X],
                               .dy_at = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY],
                               .mean = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN],
                               .variance = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_VARIANCE],
                               .y_at = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS],
                               .sums_pitch = desc->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS].stride[0],
                               .partial = call->workspace},
                      .also = gp_cpu_rows(call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y),
                      .also_at = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y],
                      .dz = gp_cpu_rows(call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ),
                      .dz_at = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ]};
    gp_cpu_norm_reduce(call->pool, &loop.norm, reduce_sum_block);
    return GP_OK;
}

const gp_cpu_op gp_cpu_norm_add_relu_backward_reduce = {.book = gp_cpu_column_book,
                                                        .run = run_norm_add_relu_backward_reduce};
