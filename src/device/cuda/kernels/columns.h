/* Sums down the columns of tensors seen as rows, in two launches: blocks of rows give partial results, which a second
 * launch combines in their order. The bounds of the blocks follow from the shape alone. Arguments of its kernels: plain
 * data, made by the thread that launches. */
#ifndef GP_DEVICE_CUDA_KERNELS_COLUMNS_H
#define GP_DEVICE_CUDA_KERNELS_COLUMNS_H

#include "device/cuda/kernels/rows.h"

enum {
    GP_KERNEL_COLUMN_THREADS = 256,
    GP_KERNEL_COLUMN_TILE = 32, /* columns, so that a warp reads 128 contiguous bytes */
    GP_KERNEL_COLUMN_STEP = 8   /* rows that a thread reads before it uses any */
};

/* The threads of a block are [lanes, tile]: `tile` neighbouring columns, and lanes that share the rows of the block.
 * Blocks go over the tiles, then over the row blocks of a sample, then over the samples. */
typedef struct gp_kernel_columns {
    int64_t samples, rows, width; /* each of the samples has `rows` rows of `width` columns */
    int64_t rows_of_block, blocks;
    int64_t tile, tiles; /* tile: a power of two ≤ GP_KERNEL_COLUMN_TILE */
} gp_kernel_columns;

/* partial [samples·blocks, 2, width]: means, and sums of squared differences from them. */
typedef struct gp_kernel_column_moments_args {
    gp_kernel_columns columns;
    gp_kernel_rows x;
    double *partial;
} gp_kernel_column_moments_args;

/* One sample's partial sums [blocks, 2, width], added up. */
typedef struct gp_kernel_column_totals_args {
    gp_kernel_columns columns;
    const double *partial;
    const float *variance; /* where there is one the first sums are divided by √(variance + eps) */
    double eps;
    float *first, *second; /* [width] */
    int64_t accumulate;    /* 1: added to what is there */
} gp_kernel_column_totals_args;

/* The gradient of a bias, in two launches. One sample; partial [blocks, width]: of each block of rows. */
typedef struct gp_kernel_bias_sums_args {
    gp_kernel_columns columns;
    gp_kernel_rows x;
    double *partial;
} gp_kernel_bias_sums_args;

/* y [width], of all blocks. */
typedef struct gp_kernel_bias_total_args {
    gp_kernel_columns columns;
    const double *partial;
    float *y;
    int64_t accumulate; /* 1: added to what is there */
} gp_kernel_bias_total_args;

#endif
