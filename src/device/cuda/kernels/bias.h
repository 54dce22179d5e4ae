/* Arguments of the kernels that sum the gradient of a bias: sums down the columns (columns.h), in two launches. Plain
 * data; addresses are the device's; a block's threads share its rows and columns. */
#ifndef GP_DEVICE_CUDA_KERNELS_BIAS_H
#define GP_DEVICE_CUDA_KERNELS_BIAS_H

#include "device/cuda/kernels/columns.h"

/* partial [blocks, width]: of each block of rows. One sample. */
typedef struct gp_kernel_bias_sums_args {
    gp_kernel_columns columns;
    const float *x;
    int64_t x_pitch;
    double *partial;
} gp_kernel_bias_sums_args;

/* y [width], of all blocks. */
typedef struct gp_kernel_bias_total_args {
    gp_kernel_columns columns;
    const double *partial;
    float *y;
    int64_t accumulate; /* 1: added to what is there */
} gp_kernel_bias_total_args;

#define GP_CUDA_BIAS_KERNELS(X)                                                                                        \
    X(bias_sums, gp_kernel_bias_sums_args)                                                                             \
    X(bias_total, gp_kernel_bias_total_args)

#endif
