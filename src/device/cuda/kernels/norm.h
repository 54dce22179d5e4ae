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

/* What an op of batch norm has of these; the rest is NULL. A kernel that goes over all elements has a thread for one
 * column, or four, whose coefficients it finds once for all of its rows. */
typedef struct gp_kernel_norm_args {
    gp_kernel_columns columns; /* of one sample; by_four: in units of four columns */
    int64_t by_four;
    gp_kernel_rows x, dy, addend, y, dx;
    gp_kernel_rows dz; /* dy where z > 0, else 0; z = norm_apply's y, or that and the addend */
    const float *mean, *variance, *gamma, *beta; /* gamma, beta: or NULL */
    const float *products, *sums;                /* Σ dy·x̂, Σ dy */
    double *partial;                             /* [blocks, 2, width]: Σ dy·(x − mean), Σ dy; for column_totals */
    int64_t rows_summed;                         /* rows that products and sums are over */
    double eps;
} gp_kernel_norm_args;

/* Of several parts. stats: of each part mean, variance, rest of the mean; strides in elements. */
typedef struct gp_kernel_norm_parts {
    const float *stats;
    int64_t stats_stride[2];
    int64_t pieces, width;
    int64_t rows_full, rows_last;  /* of every micro-batch, of the last one */
    int64_t replicas, rows_sample; /* each replica has a piece of a micro-batch: whole samples. replicas 1: of parts */
} gp_kernel_norm_parts;

typedef struct gp_kernel_norm_merge_args {
    gp_kernel_norm_parts parts;
    float *mean, *variance;
} gp_kernel_norm_merge_args;

/* parts [pieces, 2, width] → sums [2, width]; strides in elements. */
typedef struct gp_kernel_norm_merge_sums_args {
    const float *parts;
    int64_t parts_stride[2];
    int64_t pieces, width;
    float *products, *sums;
} gp_kernel_norm_merge_sums_args;

typedef struct gp_kernel_norm_commit_args {
    const uint64_t *finite;
    gp_kernel_norm_parts parts;
    double momentum;
    float *mean, *variance;
} gp_kernel_norm_commit_args;

#endif
