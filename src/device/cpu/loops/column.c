/* Sums over rows: gradients of biases, and products of columns. */
#include "device/cpu/loops/columns.h"

/* Where columns are few, neighbouring rows have sums of their own, so that no addition waits for the one before it. */
enum { SUM_LANES = 16, SUM_VECTORS = 8 };

typedef struct block_sums {
    double total[GP_COLUMN_WIDE];
} block_sums;
_Static_assert((int)SUM_LANES <= (int)GP_COLUMN_WIDE, "the lanes of narrow columns fit where wide ones do");

/* Columns from c on: `vectors` of half of GP_WIDE each, which a register holds as doubles. */
static inline void add_lanes(const gp_column_sum *sum, const float *x, int64_t rows, int64_t vectors, double *total) {
    enum { HALF = (int)GP_WIDE / 2 };
    gp_wide_doubles to[SUM_VECTORS];
    for (int64_t v = 0; v < vectors; v++) to[v] = gp_wide_load_doubles(total + v * HALF);
    for (int64_t r = 0; r < rows; r++, x += sum->x_pitch) {
        for (int64_t v = 0; v < vectors; v++)
            if (v * HALF % GP_LINE == 0) gp_fetch(x + GP_ROWS_AT_ONCE * sum->x_pitch + v * HALF);
        for (int64_t v = 0; v < vectors; v++) to[v] += gp_widen_half(x + v * HALF);
    }
    for (int64_t v = 0; v < vectors; v++) gp_wide_store_doubles(total + v * HALF, to[v]);
}

/* Rows [row, row+rows) of some columns. */
static inline void add_rows(const gp_column_sum *sum, int64_t row, int64_t rows, int64_t column, int64_t columns,
                            block_sums *to) {
    enum { HALF = (int)GP_WIDE / 2, WHOLE = (int)GP_WIDE, ALL = (int)SUM_VECTORS * (int)HALF };
    const float *x = sum->x + row * sum->x_pitch + column;
    int64_t c = 0;
    for (; c + ALL <= columns; c += ALL) add_lanes(sum, x + c, rows, SUM_VECTORS, to->total + c);
    for (; c + WHOLE <= columns; c += WHOLE) add_lanes(sum, x + c, rows, 2, to->total + c);
    for (; c + HALF <= columns; c += HALF) add_lanes(sum, x + c, rows, 1, to->total + c);
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
    int64_t step = columns > GP_FEW ? GP_ROWS_AT_ONCE : rows;
    for (int64_t last = row + rows; row < last; row += step) {
        int64_t some = last - row < step ? last - row : step;
        if (sum->y)
            add_products(sum, row, some, column, columns, to);
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
