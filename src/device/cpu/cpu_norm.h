/* What the loops of batch norm share, with and without the relu behind it: sums down the columns and the numbers of
 * each channel, so that both come to the same bits. Internal to device/cpu; the thread of the op's call. */
#ifndef GP_DEVICE_CPU_CPU_NORM_H
#define GP_DEVICE_CPU_CPU_NORM_H

#include "device/cpu/cpu_column.h"

/* One pass over rows and columns gives two partial sums for each block of rows, in f64: [blocks, 2, columns]. */
typedef struct gp_cpu_norm_loop {
    const gp_norm_attributes *norm;
    gp_rows x, dy, y; /* y: what is written */
    const float *x_at, *dy_at, *mean, *variance, *gamma, *beta, *sums;
    float *y_at;
    int64_t sums_pitch; /* from one row to the next of sums, or of what is reduced to y_at */
    double *partial;
    float *coefficient; /* [k, columns] */
} gp_cpu_norm_loop;

static inline double *gp_cpu_norm_partial(const gp_cpu_norm_loop *loop, int64_t block, int64_t which) {
    return loop->partial + (block * 2 + which) * loop->x.width;
}
/* y = (x − mean)·scale + shift, [columns] each. */
void gp_cpu_norm_find_scales(const gp_cpu_norm_loop *loop, float *scale, float *shift);
/* dx = scale·(dy − dy_mean − (x − mean)·slope), [columns] each. */
void gp_cpu_norm_find_slopes(const gp_cpu_norm_loop *loop, float *dy_mean, float *slope);
/* A tile's sums of one block of rows, to the block's partial sums. */
void gp_cpu_norm_store_sums(const gp_cpu_norm_loop *loop, int64_t block, int64_t column, int64_t columns,
                            const float *products, const float *sums);
/* Partial sums Σ dy·(x − mean), Σ dy of every block, which `block` finds; then their sums, the first divided by the
 * deviation, to y_at. */
void gp_cpu_norm_reduce(gp_cpu_pool *pool, gp_cpu_norm_loop *loop, gp_column_block block);

#endif
