/* Arguments of the kernels that move bytes as they are. Plain data; addresses are the device's, and one thread of the
 * device moves one unit. */
#ifndef GP_DEVICE_CUDA_KERNELS_MOVE_H
#define GP_DEVICE_CUDA_KERNELS_MOVE_H

#include <stdint.h>

/* outer · rows runs of `width` units; all but `unit` is counted in units, of 16, 8, 4 or 1 bytes, to which addresses
 * are aligned. */
typedef struct gp_kernel_copy_args {
    void *y;
    const void *x; /* NULL: zeros */
    int64_t outer, rows, width;
    int64_t y_outer, y_pitch; /* from one outer to the next, from one row to the next */
    int64_t x_outer, x_pitch;
    int64_t unit;
} gp_kernel_copy_args;

#define GP_CUDA_MOVE_KERNELS(X) GP_CUDA_BOTH(X, copy, gp_kernel_copy_args)

#endif
