/* Arguments of the kernels of the losses, by address where a step finds them out. Plain data, made by the thread that
 * launches. */
#ifndef GP_DEVICE_CUDA_KERNELS_LOSS_H
#define GP_DEVICE_CUDA_KERNELS_LOSS_H

#include <stdint.h>

enum { GP_KERNEL_LOSS_THREADS = 256 };

/* A row of logits is shared by a team of neighbouring threads of one warp, a power of two. A target that is no class
 * makes its row's loss NaN: nobody reads its logit. */
typedef struct gp_kernel_cross_entropy_args {
    const float *x;
    const int64_t *target;
    const double *divisor; /* backward */
    float *dx;             /* backward */
    double *partial;       /* forward: [blocks, 2]: Σ loss, number right */
    int64_t rows, classes;
    int64_t x_pitch, dx_pitch;
    int64_t team;
    int64_t ignore;
    double smoothing;
} gp_kernel_cross_entropy_args;

typedef struct gp_kernel_element_loss_args {
    const float *x, *target;
    const double *divisor;
    float *dx;
    int64_t rows, width;
    int64_t x_pitch, target_pitch, dx_pitch;
    int64_t by_four;
    int64_t function; /* gp_element_loss */
} gp_kernel_element_loss_args;

/* partial: pieces `pitch` apart, added by one thread in their order. */
typedef struct gp_kernel_loss_total_args {
    const double *partial;
    int64_t pieces, pitch;
    double *loss, *right;
    uint64_t *finite;
} gp_kernel_loss_total_args;

#define GP_CUDA_LOSS_KERNELS(X)                                                                                        \
    X(cross_entropy_forward, gp_kernel_cross_entropy_args)                                                             \
    X(cross_entropy_backward, gp_kernel_cross_entropy_args)                                                            \
    X(element_loss_backward, gp_kernel_element_loss_args)                                                              \
    X(loss_total, gp_kernel_loss_total_args)

#endif
