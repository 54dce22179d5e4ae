/* Arguments of the kernels of the losses, by address where a step finds them out. Plain data, made by the thread that
 * launches. */
#ifndef GP_DEVICE_CUDA_KERNELS_LOSS_H
#define GP_DEVICE_CUDA_KERNELS_LOSS_H

#include "device/cuda/kernels/elementwise.h"

enum { GP_KERNEL_LOSS_THREADS = 256 };

/* A row of logits is shared by a team of neighbouring threads of one warp, a power of two. A target that is no class
 * makes its row's loss NaN: no logit is read for it. */
typedef struct gp_kernel_cross_entropy_args {
    gp_kernel_rows x;
    const int64_t *target;
    const double *divisor; /* backward */
    gp_kernel_rows dx;     /* backward */
    double *partial;       /* forward: [blocks, 2]: Σ loss, number right */
    int64_t rows, classes;
    int64_t team;
    int64_t ignore;
    double smoothing;
} gp_kernel_cross_entropy_args;

typedef struct gp_kernel_element_loss_args {
    gp_kernel_map_args map; /* dx, x, target */
    const double *divisor;
    int64_t function; /* gp_element_loss */
} gp_kernel_element_loss_args;

/* partial: pieces `pitch` apart, added by one thread in their order. */
typedef struct gp_kernel_loss_total_args {
    const double *partial;
    int64_t pieces, pitch;
    int64_t replicas, full, last; /* as gp_loss_total_attributes; replicas ≥ 1 */
    double *loss, *right;
    uint64_t *finite;
} gp_kernel_loss_total_args;

#endif
