/* Sums over the rows of a tensor, for each column, in a fixed order: rows in blocks, blocks in their order. The bits do
 * not depend on the number of threads. Internal to device/cpu.
 */
#ifndef GP_DEVICE_CPU_CPU_COLUMN_H
#define GP_DEVICE_CPU_CPU_COLUMN_H

#include "device/cpu/cpu_call.h"

enum {
    GP_COLUMN_ROWS = 128, /* rows of a block: f32 sums over so few are good to 8e-6 */
    GP_COLUMN_TILE = 64,  /* columns that are done together where a few registers' worth is best */
    GP_COLUMN_WIDE = 512  /* columns of a block at most: whole rows where they fit, for memory is read in its order */
};

/* Does one block: rows [row, row+rows) of columns [column, column+columns). */
typedef void (*gp_column_block)(void *context, int64_t block, int64_t row, int64_t rows, int64_t column,
                                int64_t columns);

static inline int64_t gp_column_blocks(int64_t rows) {
    return (rows + GP_COLUMN_ROWS - 1) / GP_COLUMN_ROWS;
}
/* Every block of every tile, over the pool. */
void gp_cpu_column_blocks(gp_cpu_pool *pool, int64_t rows, int64_t columns, gp_column_block block, void *context);

/* Two f64 for each block and column of x. */
size_t gp_cpu_column_bytes(gp_rows x);

/* What gp_cpu_loops.column_sum does: out[c·out_stride] = Σ x[r,c], or Σ x[r,c]·y[r,c], added in f64; added to what is
 * there where `accumulate`. */
typedef struct gp_column_sum {
    const float *x, *y; /* y: the second factor, or NULL */
    int64_t x_pitch, y_pitch;
    int64_t rows, width;
    double *partial; /* the workspace: [blocks, width] */
    float *out;
    int64_t out_stride;
    bool accumulate;
} gp_column_sum;

size_t gp_cpu_column_sum_bytes(gp_rows x);

#endif
