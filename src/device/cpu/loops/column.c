/* Sums over rows: gradients of biases, and products of columns. */
#include "device/cpu/loops/loops.h"

/* Where columns are few, neighbouring rows have sums of their own, so that no addition waits for the one before it. */
enum { LANES = 16 };
_Static_assert((int)LANES <= (int)GP_COLUMN_TILE, "the lanes of a narrow tile fit where the columns of a wide one do");

static void add_elements(double *total, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) total[i] += (double)x[i];
}

/* The product of two floats is exact in f64. */
static void add_products(double *total, const float *x, const float *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) total[i] += (double)x[i] * (double)y[i];
}

/* Adds rows [row, row+lanes) of some columns, each row to sums of its own. */
static void add_rows(const gp_column_sum *sum, int64_t row, int64_t lanes, int64_t column, int64_t columns,
                     double *total) {
    bool dense = sum->x_pitch == columns && (!sum->y || sum->y_pitch == columns);
    int64_t runs = dense ? 1 : lanes, count = dense ? lanes * columns : columns;
    for (int64_t i = 0; i < runs; i++) {
        const float *x = sum->x + (row + i) * sum->x_pitch + column;
        if (sum->y)
            add_products(total + i * columns, x, sum->y + (row + i) * sum->y_pitch + column, count);
        else
            add_elements(total + i * columns, x, count);
    }
}

static void sum_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const gp_column_sum *sum = context;
    int64_t lanes = columns < LANES ? LANES / columns : 1, last = row + rows;
    double total[GP_COLUMN_TILE] = {0};
    for (; row + lanes <= last; row += lanes) add_rows(sum, row, lanes, column, columns, total);
    for (; row < last; row++) add_rows(sum, row, 1, column, columns, total);
    for (int64_t l = 1; l < lanes; l++)
        for (int64_t c = 0; c < columns; c++) total[c] += total[l * columns + c];
    double *partial = sum->partial + block * sum->width + column;
    for (int64_t c = 0; c < columns; c++) partial[c] = total[c];
}

/* Adds the blocks in their order, tile by tile. */
static void add_blocks(void *context, int64_t begin, int64_t end) {
    const gp_column_sum *sum = context;
    int64_t blocks = gp_column_blocks(sum->rows);
    for (int64_t column = begin; column < end; column += GP_COLUMN_TILE) {
        int64_t columns = end - column < GP_COLUMN_TILE ? end - column : GP_COLUMN_TILE;
        float *out = sum->out + column * sum->out_stride;
        double total[GP_COLUMN_TILE] = {0};
        for (int64_t c = 0; c < columns && sum->accumulate; c++) total[c] = (double)out[c * sum->out_stride];
        for (int64_t b = 0; b < blocks; b++) {
            const double *partial = sum->partial + b * sum->width + column;
            for (int64_t c = 0; c < columns; c++) total[c] += partial[c];
        }
        for (int64_t c = 0; c < columns; c++) out[c * sum->out_stride] = (float)total[c];
    }
}

void GP_CPU_LOOP(column_sum)(gp_cpu_pool *pool, gp_column_sum sum) {
    gp_cpu_column_blocks(pool, sum.rows, sum.width, sum_block, &sum);
    gp_cpu_pool_for(pool, sum.width, GP_COLUMN_TILE, add_blocks, &sum);
}
