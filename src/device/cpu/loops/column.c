/* Sums over rows: gradients of biases, and products of columns. */
#include "device/cpu/loops/columns.h"

/* Where columns are few, neighbouring rows have sums of their own, so that no addition waits for the one before it. */
enum { SUM_LANES = 16 };

typedef struct block_sums {
    double total[GP_COLUMN_WIDE];
} block_sums;
_Static_assert((int)SUM_LANES <= (int)GP_COLUMN_WIDE, "the lanes of narrow columns fit where wide ones do");

/* Rows [row, row+rows), at most GP_ROWS_AT_ONCE, of some columns. */
static inline void add_rows(const gp_column_sum *sum, int64_t row, int64_t rows, int64_t column, int64_t columns,
                            block_sums *to) {
    const float *x = sum->x + row * sum->x_pitch + column;
    int64_t c = 0;
    for (; c + GP_LANES <= columns; c += GP_LANES) {
        gp_doubles low = gp_load_doubles(to->total + c), high = gp_load_doubles(to->total + c + GP_LANES / 2);
        for (int64_t r = 0; r < rows; r++) {
            low += gp_widen(x + r * sum->x_pitch + c);
            high += gp_widen(x + r * sum->x_pitch + c + GP_LANES / 2);
        }
        gp_store_doubles(to->total + c, low);
        gp_store_doubles(to->total + c + GP_LANES / 2, high);
    }
    for (; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) to->total[c] += (double)x[r * sum->x_pitch + c];
}

/* The product of two floats is exact in f64. */
static inline void add_products(const gp_column_sum *sum, int64_t row, int64_t rows, int64_t column, int64_t columns,
                                block_sums *to) {
    for (int64_t r = row; r < row + rows; r++) {
        const float *x = sum->x + r * sum->x_pitch + column, *y = sum->y + r * sum->y_pitch + column;
        for (int64_t c = 0; c < columns; c++) to->total[c] += (double)x[c] * (double)y[c];
    }
}

/* Few columns: `lanes` rows that lie side by side are one row of more columns. */
static gp_column_sum side_by_side(const gp_column_sum *sum, int64_t lanes) {
    gp_column_sum wide = *sum;
    wide.x_pitch *= lanes;
    wide.y_pitch *= lanes;
    return wide;
}

static inline void add_block(const gp_column_sum *sum, int64_t row, int64_t rows, int64_t column, int64_t columns,
                             block_sums *to) {
    for (int64_t last = row + rows; row < last; row += GP_ROWS_AT_ONCE) {
        int64_t some = last - row < GP_ROWS_AT_ONCE ? last - row : GP_ROWS_AT_ONCE;
        if (sum->y)
            add_products(sum, row, some, column, columns, to);
        else if (some == GP_ROWS_AT_ONCE)
            add_rows(sum, row, GP_ROWS_AT_ONCE, column, columns, to);
        else
            add_rows(sum, row, some, column, columns, to);
    }
}

static void sum_block(void *context, int64_t block, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const gp_column_sum *sum = context;
    bool dense = sum->x_pitch == columns && (!sum->y || sum->y_pitch == columns);
    int64_t lanes = dense && columns < SUM_LANES ? SUM_LANES / columns : 1, whole = rows / lanes;
    gp_column_sum wide = side_by_side(sum, lanes);
    block_sums to;
    for (int64_t c = 0; c < lanes * columns; c++) to.total[c] = 0;
    wide.x += row * sum->x_pitch;
    if (sum->y) wide.y += row * sum->y_pitch;
    add_block(&wide, 0, whole, column, lanes * columns, &to);
    add_block(sum, row + whole * lanes, rows - whole * lanes, column, columns, &to);
    double *partial = sum->partial + block * sum->width + column;
    for (int64_t l = 1; l < lanes; l++)
        for (int64_t c = 0; c < columns; c++) to.total[c] += to.total[l * columns + c];
    for (int64_t c = 0; c < columns; c++) partial[c] = to.total[c];
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
