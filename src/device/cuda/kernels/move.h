/* Arguments of the kernels that move bytes. `copy` moves them as they are, a unit for each thread. `transpose` turns
 * matrices, for weights in another layout and for samples in PyTorch's order, a tile for each block. Plain data;
 * addresses are the device's. */
#ifndef GP_DEVICE_CUDA_KERNELS_MOVE_H
#define GP_DEVICE_CUDA_KERNELS_MOVE_H

#include <stdint.h>

/* outer · rows runs of `width` units; all but `unit` is counted in units, of 16, 8, 4 or 1 bytes, to which addresses
 * are aligned. transpose: of floats; y [outer,width,rows] from x [outer,rows,width]. */
typedef struct gp_kernel_move_args {
    void *y;
    const void *x; /* NULL: zeros */
    int64_t outer, rows, width;
    int64_t y_outer, y_pitch; /* from one outer to the next, from one row to the next */
    int64_t x_outer, x_pitch;
    int64_t unit;
} gp_kernel_move_args;

enum { GP_KERNEL_TILE = 32, GP_KERNEL_TILE_THREADS = 256 };

#endif
