/* Arguments of the kernels of group norm; plain data, made by the thread that launches. A group is the rows of a sample
 * × some neighbouring channels.
 *
 * Samples of one row (layer norm's, vectors) are normalised by one kernel, a block for each group. Samples of many rows
 * go the way of batch norm: sums down the columns in blocks of rows, the columns of each group combined, and then all
 * elements, each with the numbers of its column. */
#ifndef GP_DEVICE_CUDA_KERNELS_GROUP_NORM_H
#define GP_DEVICE_CUDA_KERNELS_GROUP_NORM_H

#include "device/cuda/kernels/columns.h"

enum { GP_KERNEL_GROUP_THREADS = 256 }; /* at most, for one group */

typedef struct gp_kernel_group_stats {
    float *at; /* of each group of each sample its mean and 1/deviation; or NULL */
    int64_t pitch;
    int64_t groups; /* of a sample */
    int64_t width;  /* channels of a group */
} gp_kernel_group_stats;

/* Samples of one row. gamma, beta: or NULL. */
typedef struct gp_kernel_group_row_args {
    gp_kernel_group_stats stats;
    const float *x, *dy, *gamma, *beta; /* dy: backward; beta: forward */
    float *y;                           /* backward: dx */
    int64_t x_pitch, dy_pitch, y_pitch;
    double eps; /* forward */
} gp_kernel_group_row_args;

/* Of many rows: what the blocks of rows have of the columns of each group, combined to two numbers in `of_group`
 * [samples·groups, 2]: mean and 1/deviation (and stats, where wanted); or Σ g·(x−m), Σ g with g = dy·gamma. */
typedef struct gp_kernel_group_combine_args {
    gp_kernel_columns columns;
    gp_kernel_group_stats stats;
    const double *partial;
    const float *gamma; /* or NULL */
    double *of_group;
    double eps;
} gp_kernel_group_combine_args;

typedef struct gp_kernel_group_apply_args {
    gp_kernel_columns columns; /* by_four: in units of four columns */
    int64_t by_four;
    gp_kernel_group_stats stats; /* backward */
    const double *of_group;
    const float *x, *dy, *gamma, *beta;
    float *y; /* backward: dx */
    int64_t x_pitch, dy_pitch, y_pitch;
} gp_kernel_group_apply_args;

/* partial: Σ dy·(x−m) and Σ dy, or with `scaled` Σ dy·x̂ and Σ dy. Rows are those of samples of `rows_of_sample`, which
 * the columns of the blocks need not keep apart. */
typedef struct gp_kernel_group_products_args {
    gp_kernel_columns columns;
    gp_kernel_group_stats stats;
    const float *x, *dy;
    int64_t x_pitch, dy_pitch;
    int64_t rows_of_sample;
    int64_t scaled;
    double *partial;
} gp_kernel_group_products_args;

#define GP_CUDA_GROUP_NORM_KERNELS(X)                                                                                  \
    X(group_row_forward, gp_kernel_group_row_args)                                                                     \
    X(group_row_backward, gp_kernel_group_row_args)                                                                    \
    X(group_statistics, gp_kernel_group_combine_args)                                                                  \
    X(group_forward, gp_kernel_group_apply_args)                                                                       \
    X(group_products, gp_kernel_group_products_args)                                                                   \
    X(group_sums, gp_kernel_group_combine_args)                                                                        \
    X(group_backward, gp_kernel_group_apply_args)

#endif
