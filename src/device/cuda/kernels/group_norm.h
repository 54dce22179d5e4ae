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

/* What an op of group norm has of these; the rest is NULL. */
typedef struct gp_kernel_group_args {
    gp_kernel_columns columns; /* by_four: in units of four columns */
    int64_t by_four;
    gp_kernel_rows stats;      /* of each group of each sample its mean and 1/deviation; forward: or NULL */
    int64_t groups, width;     /* of a sample; channels of a group */
    int64_t rows_of_sample;    /* group_products: the columns of the blocks need not keep samples apart */
    gp_kernel_rows x, dy, y;   /* y: backward dx */
    const float *gamma, *beta; /* or NULL */
    /* Of the blocks of rows: moments; or Σ dy·(x−m) and Σ dy, with `scaled` Σ dy·x̂ and Σ dy. */
    double *partial;
    int64_t scaled;
    /* [samples·groups, 2], what the columns of each group have together: mean and 1/deviation (and stats, where
     * wanted); or Σ g·(x−m), Σ g with g = dy·gamma. */
    double *of_group;
    double eps; /* forward */
} gp_kernel_group_args;

#endif
