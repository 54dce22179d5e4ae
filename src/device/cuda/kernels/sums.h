/* Arguments of the kernels that add up all elements of a tensor: in blocks whose bounds follow from the shape alone,
 * which a second launch adds up. Plain data, made by the thread that launches. */
#ifndef GP_DEVICE_CUDA_KERNELS_SUMS_H
#define GP_DEVICE_CUDA_KERNELS_SUMS_H

#include "device/cuda/kernels/rows.h"

enum {
    GP_KERNEL_SUM_THREADS = 256,
    GP_KERNEL_SUM_BLOCK = 8192 /* elements; a multiple of four */
};

/* One tensor, or two of equal dimensions, as rows. A thread has four neighbouring elements at a time, which it reads at
 * once where by_four says that it may. */
typedef struct gp_kernel_sum_args {
    gp_kernel_rows a, b; /* b: or none */
    int64_t rows, width;
    int64_t by_four;
    int64_t function; /* gp_element_loss, where that is what is added up */
    double *partial;  /* square_sum: [blocks]; element_loss: [blocks, 2], the second 0 */
} gp_kernel_sum_args;

/* out[k] = Σ partial[i, k], k < each ≤ 2; one block. */
typedef struct gp_kernel_sum_partial_args {
    const double *partial;
    int64_t count, each;
    double *out;
} gp_kernel_sum_partial_args;

/* squares [count], added in order; limit: the most that the norm may be, 0: any. */
typedef struct gp_kernel_clip_total_args {
    const double *squares;
    int64_t count;
    double limit;
    double *norm, *clip;
    uint64_t *finite;
} gp_kernel_clip_total_args;

#endif
