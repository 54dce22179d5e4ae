/* Arguments of the kernels of batch norm, whose sums go down the columns as columns.h has it. Plain data, made by the
 * thread that launches. */
#ifndef GP_DEVICE_CUDA_KERNELS_NORM_H
#define GP_DEVICE_CUDA_KERNELS_NORM_H

#include "device/cuda/kernels/columns.h"

/* Mean and variance from what column_moments has left. rest: what rounding took from the mean. */
typedef struct gp_kernel_norm_statistics_args {
    gp_kernel_columns columns; /* of one sample */
    const double *partial;
    float *mean, *variance, *rest;
} gp_kernel_norm_statistics_args;

/* Each thread has one column, or four, whose coefficients it finds once for all of its rows. */
typedef struct gp_kernel_norm_apply_args {
    gp_kernel_columns columns; /* of one sample; by_four: in units of four columns */
    int64_t by_four;
    const float *x, *mean, *variance, *gamma, *beta; /* gamma, beta: or NULL */
    float *y;
    int64_t x_pitch, y_pitch;
    double eps;
} gp_kernel_norm_apply_args;

/* partial [blocks, 2, width]: Σ dy·(x − mean), Σ dy; for column_totals. */
typedef struct gp_kernel_norm_products_args {
    gp_kernel_columns columns; /* of one sample */
    const float *x, *dy, *mean;
    int64_t x_pitch, dy_pitch;
    double *partial;
} gp_kernel_norm_products_args;

typedef struct gp_kernel_norm_backward_args {
    gp_kernel_columns columns; /* as of norm_apply */
    int64_t by_four;
    const float *x, *dy, *mean, *variance, *gamma; /* gamma: or NULL */
    const float *products, *sums;                  /* Σ dy·x̂, Σ dy */
    float *dx;
    int64_t x_pitch, dy_pitch, dx_pitch;
    double eps;
} gp_kernel_norm_backward_args;

/* y = max(z, 0), z = norm_apply's y and the addend. */
typedef struct gp_kernel_norm_apply_relu_args {
    gp_kernel_norm_apply_args apply;
    const float *addend; /* or NULL */
    int64_t addend_pitch;
} gp_kernel_norm_apply_relu_args;

/* norm_products on dz = dy where z > 0, else 0: by y where there is one, and then dz is written; else z is found again
 * from x, without an addend. */
typedef struct gp_kernel_norm_relu_products_args {
    gp_kernel_norm_products_args products;
    const float *y;
    float *dz; /* with y */
    int64_t y_pitch, dz_pitch;
    const float *variance, *gamma, *beta; /* without; gamma, beta: or NULL */
    double eps;
} gp_kernel_norm_relu_products_args;

/* norm_backward on dz, which is found from x. */
typedef struct gp_kernel_norm_relu_backward_args {
    gp_kernel_norm_backward_args backward;
    const float *beta; /* or NULL */
} gp_kernel_norm_relu_backward_args;

/* stats: of each piece mean, variance, rest of the mean; strides in elements. */
typedef struct gp_kernel_norm_commit_args {
    const uint64_t *finite;
    const float *stats;
    int64_t stats_stride[2];
    int64_t pieces, width;
    int64_t rows_full, rows_last; /* of every piece, of the last one */
    double momentum;
    float *mean, *variance;
} gp_kernel_norm_commit_args;

#define GP_CUDA_NORM_KERNELS(X)                                                                                        \
    X(norm_statistics, gp_kernel_norm_statistics_args)                                                                 \
    X(norm_apply, gp_kernel_norm_apply_args)                                                                           \
    X(norm_products, gp_kernel_norm_products_args)                                                                     \
    X(norm_backward, gp_kernel_norm_backward_args)                                                                     \
    X(norm_apply_relu, gp_kernel_norm_apply_relu_args)                                                                 \
    X(norm_relu_products, gp_kernel_norm_relu_products_args)                                                           \
    X(norm_relu_backward, gp_kernel_norm_relu_backward_args)                                                           \
    X(norm_commit, gp_kernel_norm_commit_args)

#endif
