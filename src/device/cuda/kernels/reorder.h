/* Arguments of the kernel that turns matrices, for weights in another layout and for samples in PyTorch's order. Plain
 * data; addresses are the device's, and a block of its threads turns one tile. */
#ifndef GP_DEVICE_CUDA_KERNELS_REORDER_H
#define GP_DEVICE_CUDA_KERNELS_REORDER_H

#include <stdint.h>

/* y [outer,columns,rows] from x [outer,rows,columns]; the last dimensions are contiguous, the others count elements. */
typedef struct gp_kernel_transpose_args {
    float *y;
    const float *x;
    int64_t outer, rows, columns;
    int64_t y_outer, y_pitch, x_outer, x_pitch;
} gp_kernel_transpose_args;

enum { GP_KERNEL_TILE = 32, GP_KERNEL_TILE_THREADS = 256 };

#define GP_CUDA_REORDER_KERNELS(X) GP_CUDA_BOTH(X, transpose, gp_kernel_transpose_args)

#endif
