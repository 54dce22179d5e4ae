/* Sums over the rows of a block, for each column, in one pass over memory. Vectors are columns. Eight rows are added in
 * registers before the sums go back to the first cache; all rows of few columns. Sums are f32 over at most
 * GP_COLUMN_ROWS rows; callers add blocks in f64. The order is that of the rows, whatever the width of the vectors.
 * Pure functions of memory that the caller owns; any thread.
 */
#ifndef GP_DEVICE_CPU_LOOPS_COLUMNS_H
#define GP_DEVICE_CPU_LOOPS_COLUMNS_H

#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/wide.h"

enum {
    GP_ROWS_AT_ONCE = 8,
    GP_LINE = 16, /* floats in a line of the cache */
    GP_VECTORS = 4,
    GP_FEW = (int)GP_VECTORS * (int)GP_WIDE /* columns whose sums stay in registers */
};

/* Statistics. Deviations are taken from `center`, the mean of the block's first rows, so that a large mean costs no
 * digits: it is at most √(rows/8) deviations off, and the squares at most rows/8 + 1 times as large as they would be.
 */

typedef struct gp_deviations {
    float center[GP_COLUMN_WIDE], sum[GP_COLUMN_WIDE], squares[GP_COLUMN_WIDE];
} gp_deviations;

static inline void gp_find_center(const float *x, int64_t pitch, int64_t rows, int64_t columns, float *center) {
    int64_t first = rows < GP_ROWS_AT_ONCE ? rows : GP_ROWS_AT_ONCE;
    for (int64_t c = 0; c < columns; c++) center[c] = 0;
    for (int64_t r = 0; r < first; r++)
        for (int64_t c = 0; c < columns; c++) center[c] += x[r * pitch + c];
    for (int64_t c = 0; c < columns; c++) center[c] /= (float)first;
}

/* Columns from c on: `vectors` of `lanes` each. */
static inline void gp_add_deviation_lanes(const float *x, int64_t pitch, int64_t rows, int64_t c, int64_t vectors,
                                          int64_t lanes, gp_deviations *its) {
    gp_wide center[GP_VECTORS], sum[GP_VECTORS], squares[GP_VECTORS];
    for (int64_t v = 0; v < vectors; v++) {
        center[v] = gp_wide_load(its->center + c + v * GP_WIDE, lanes);
        sum[v] = gp_wide_load(its->sum + c + v * GP_WIDE, lanes);
        squares[v] = gp_wide_load(its->squares + c + v * GP_WIDE, lanes);
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t v = 0; v < vectors; v++)
            if (v * GP_WIDE % GP_LINE == 0) gp_fetch(x + (r + GP_ROWS_AT_ONCE) * pitch + c + v * GP_WIDE);
        for (int64_t v = 0; v < vectors; v++) {
            gp_wide difference = gp_wide_load(x + r * pitch + c + v * GP_WIDE, lanes) - center[v];
            sum[v] += difference;
            squares[v] += difference * difference;
        }
    }
    for (int64_t v = 0; v < vectors; v++) {
        gp_wide_store(its->sum + c + v * GP_WIDE, sum[v], lanes);
        gp_wide_store(its->squares + c + v * GP_WIDE, squares[v], lanes);
    }
}

static inline void gp_add_deviations(const float *x, int64_t pitch, int64_t rows, int64_t columns, gp_deviations *its) {
    int64_t c = 0;
    for (; c + GP_FEW <= columns; c += GP_FEW) gp_add_deviation_lanes(x, pitch, rows, c, GP_VECTORS, GP_WIDE, its);
    for (; c + GP_TWO_WIDE <= columns; c += GP_TWO_WIDE) gp_add_deviation_lanes(x, pitch, rows, c, 2, GP_WIDE, its);
    for (; c + GP_WIDE <= columns; c += GP_WIDE) gp_add_deviation_lanes(x, pitch, rows, c, 1, GP_WIDE, its);
    for (; c + GP_WIDE / 2 <= columns; c += GP_WIDE / 2) gp_add_deviation_lanes(x, pitch, rows, c, 1, GP_WIDE / 2, its);
    for (; c < columns; c++) {
        for (int64_t r = 0; r < rows; r++) {
            float difference = x[r * pitch + c] - its->center[c];
            its->sum[c] += difference;
            its->squares[c] += difference * difference;
        }
    }
}

/* Of each column of a block of rows ≤ GP_COLUMN_ROWS and columns ≤ GP_COLUMN_WIDE: the mean, and the sum of the squares
 * of what is left. */
static inline void gp_block_statistics(const float *x, int64_t pitch, int64_t rows, int64_t columns, double *mean,
                                       double *squares) {
    gp_deviations its;
    gp_find_center(x, pitch, rows, columns, its.center);
    for (int64_t c = 0; c < columns; c++) its.sum[c] = its.squares[c] = 0;
    int64_t step = columns > GP_FEW ? GP_ROWS_AT_ONCE : rows;
    for (int64_t r = 0; r < rows; r += step)
        gp_add_deviations(x + r * pitch, pitch, rows - r < step ? rows - r : step, columns, &its);
    for (int64_t c = 0; c < columns; c++) {
        double shift = (double)its.sum[c] / (double)rows;
        mean[c] = (double)its.center[c] + shift;
        squares[c] = (double)its.squares[c] - shift * (double)its.sum[c];
    }
}

/* Joins the statistics of `more` rows to those of `before` (Chan, Golub, LeVeque 1979). */
static inline void gp_merge_statistics(double *mean, double *squares, double before, const double *its_mean,
                                       const double *its_squares, double more, int64_t columns) {
    double part = more / (before + more), weight = before * part;
    for (int64_t c = 0; c < columns; c++) {
        double difference = its_mean[c] - mean[c];
        mean[c] += difference * part;
        squares[c] += its_squares[c] + difference * difference * weight;
    }
}

/* Gradients of a normalisation: Σ g·(x − mean) and Σ g, where g is what relu lets through of dy. */

typedef enum gp_through {
    GP_THROUGH_ALL,
    GP_THROUGH_APPLIED, /* where (x − mean)·scale + shift is above 0 */
    GP_THROUGH_OUTPUT,  /* where y is above 0; g goes to dz */
    GP_THROUGH_SUM,     /* the same of dy + addend */
} gp_through;

/* A block; vectors of its columns. What the kind does not need is NULL. */
typedef struct gp_gradients {
    const float *x, *dy, *addend, *y;
    float *dz;
    int64_t x_pitch, dy_pitch, addend_pitch, y_pitch, dz_pitch;
    const float *mean, *scale, *shift;
} gp_gradients;

typedef struct gp_gradient_sums {
    float products[GP_COLUMN_WIDE], sums[GP_COLUMN_WIDE];
} gp_gradient_sums;

static inline bool gp_leaves_gradient(gp_through through) {
    return through == GP_THROUGH_OUTPUT || through == GP_THROUGH_SUM;
}

static inline void gp_fetch_gradients(const gp_gradients *its, gp_through through, int64_t row, int64_t c) {
    gp_fetch(its->x + row * its->x_pitch + c);
    gp_fetch(its->dy + row * its->dy_pitch + c);
    if (through == GP_THROUGH_SUM) gp_fetch(its->addend + row * its->addend_pitch + c);
    if (gp_leaves_gradient(through)) gp_fetch(its->y + row * its->y_pitch + c);
}

/* Columns from c on: `vectors` of `lanes` each. */
static inline void gp_add_gradient_lanes(const gp_gradients *its, gp_through through, int64_t row, int64_t rows,
                                         int64_t c, int64_t vectors, int64_t lanes, gp_gradient_sums *to) {
    gp_wide products[GP_VECTORS], sums[GP_VECTORS], mean[GP_VECTORS], scale[GP_VECTORS], shift[GP_VECTORS];
    for (int64_t v = 0; v < vectors; v++) {
        int64_t at = c + v * GP_WIDE;
        products[v] = gp_wide_load(to->products + at, lanes);
        sums[v] = gp_wide_load(to->sums + at, lanes);
        mean[v] = gp_wide_load(its->mean + at, lanes);
        if (through != GP_THROUGH_APPLIED) continue;
        scale[v] = gp_wide_load(its->scale + at, lanes);
        shift[v] = gp_wide_load(its->shift + at, lanes);
    }
    for (int64_t r = row; r < row + rows; r++) {
        for (int64_t v = 0; v < vectors; v++)
            if (v * GP_WIDE % GP_LINE == 0) gp_fetch_gradients(its, through, r + GP_ROWS_AT_ONCE, c + v * GP_WIDE);
        for (int64_t v = 0; v < vectors; v++) {
            int64_t at = c + v * GP_WIDE;
            gp_wide difference = gp_wide_load(its->x + r * its->x_pitch + at, lanes) - mean[v];
            gp_wide gradient = gp_wide_load(its->dy + r * its->dy_pitch + at, lanes);
            if (through == GP_THROUGH_APPLIED) {
                gp_wide applied = difference * scale[v] + shift[v];
                gradient = gp_wide_keep_above(applied, (gp_wide){0}, gradient);
            }
            if (through == GP_THROUGH_SUM) gradient += gp_wide_load(its->addend + r * its->addend_pitch + at, lanes);
            if (gp_leaves_gradient(through)) {
                gp_wide y = gp_wide_load(its->y + r * its->y_pitch + at, lanes);
                gradient = gp_wide_keep_above(y, (gp_wide){0}, gradient);
                gp_wide_store(its->dz + r * its->dz_pitch + at, gradient, lanes);
            }
            products[v] += gradient * difference;
            sums[v] += gradient;
        }
    }
    for (int64_t v = 0; v < vectors; v++) {
        gp_wide_store(to->products + c + v * GP_WIDE, products[v], lanes);
        gp_wide_store(to->sums + c + v * GP_WIDE, sums[v], lanes);
    }
}

static inline void gp_add_gradient_column(const gp_gradients *its, gp_through through, int64_t row, int64_t rows,
                                          int64_t c, gp_gradient_sums *to) {
    for (int64_t r = row; r < row + rows; r++) {
        float difference = its->x[r * its->x_pitch + c] - its->mean[c], gradient = its->dy[r * its->dy_pitch + c];
        if (through == GP_THROUGH_APPLIED) gradient = difference * its->scale[c] + its->shift[c] > 0 ? gradient : 0;
        if (through == GP_THROUGH_SUM) gradient += its->addend[r * its->addend_pitch + c];
        if (gp_leaves_gradient(through)) {
            gradient = its->y[r * its->y_pitch + c] > 0 ? gradient : 0;
            its->dz[r * its->dz_pitch + c] = gradient;
        }
        to->products[c] += gradient * difference;
        to->sums[c] += gradient;
    }
}

static inline void gp_add_gradients(const gp_gradients *its, gp_through through, int64_t row, int64_t rows,
                                    int64_t columns, gp_gradient_sums *to) {
    int64_t c = 0;
    /* Smaller registers are fewer too. */
    for (; (int)GP_WIDE == (int)GP_LINE && c + GP_TWO_WIDE <= columns; c += GP_TWO_WIDE)
        gp_add_gradient_lanes(its, through, row, rows, c, 2, GP_WIDE, to);
    for (; c + GP_WIDE <= columns; c += GP_WIDE) gp_add_gradient_lanes(its, through, row, rows, c, 1, GP_WIDE, to);
    for (; c + GP_WIDE / 2 <= columns; c += GP_WIDE / 2)
        gp_add_gradient_lanes(its, through, row, rows, c, 1, GP_WIDE / 2, to);
    for (; c < columns; c++) gp_add_gradient_column(its, through, row, rows, c, to);
}

/* Of each column of a block, as gp_block_statistics. */
static inline void gp_block_gradients(const gp_gradients *block, gp_through through, int64_t rows, int64_t columns,
                                      double *products, double *sums) {
    const gp_gradients its = *block;
    gp_gradient_sums to;
    for (int64_t c = 0; c < columns; c++) to.products[c] = to.sums[c] = 0;
    int64_t r = 0;
    if (columns > GP_FEW)
        for (; r + GP_ROWS_AT_ONCE <= rows; r += GP_ROWS_AT_ONCE)
            gp_add_gradients(&its, through, r, GP_ROWS_AT_ONCE, columns, &to);
    gp_add_gradients(&its, through, r, rows - r, columns, &to);
    for (int64_t c = 0; c < columns; c++) {
        products[c] = (double)to.products[c];
        sums[c] = (double)to.sums[c];
    }
}

#endif
