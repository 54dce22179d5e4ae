/* Arguments of the kernels that bring weights into another layout. Plain data; addresses are the device's, and one
 * thread of the device moves one element. */
#ifndef GP_DEVICE_CUDA_KERNELS_REORDER_H
#define GP_DEVICE_CUDA_KERNELS_REORDER_H

#include <stdint.h>

/* y [outer,columns,rows] from x [outer,rows,columns]. */
typedef struct gp_kernel_transpose_args {
    float *y;
    const float *x;
    int64_t outer, rows, columns;
} gp_kernel_transpose_args;

#define GP_CUDA_REORDER_KERNELS(X) X(transpose, gp_kernel_transpose_args)

#endif
