/* Rows of a tensor as kernels get them. Plain data; addresses are the device's. */
#ifndef GP_DEVICE_CUDA_KERNELS_ROWS_H
#define GP_DEVICE_CUDA_KERNELS_ROWS_H

#include <stdint.h>

/* Contiguous elements that begin `pitch` elements apart. A kernel writes to the operands that its op writes alone. */
typedef struct gp_kernel_rows {
    float *at; /* NULL: there are none */
    int64_t pitch;
} gp_kernel_rows;

#endif
