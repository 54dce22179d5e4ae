/* Arguments of the kernels that go over tensors element by element. Plain data; addresses are the device's, and one
 * thread of the device does one element, or four. */
#ifndef GP_DEVICE_CUDA_KERNELS_ELEMENTWISE_H
#define GP_DEVICE_CUDA_KERNELS_ELEMENTWISE_H

#include <stdint.h>

/* Up to three tensors of equal dimensions as rows; pitches and the width count elements. */
typedef struct gp_kernel_map_args {
    float *y;
    const float *a, *b;
    int64_t rows, width;
    int64_t y_pitch, a_pitch, b_pitch;
    int64_t by_four; /* each thread has four elements, all addresses and pitches being multiples of 16 bytes; else 0 */
} gp_kernel_map_args;

#define GP_CUDA_ELEMENTWISE_KERNELS(X)                                                                                 \
    GP_CUDA_BOTH(X, relu_forward, gp_kernel_map_args)                                                                  \
    GP_CUDA_BOTH(X, relu_backward, gp_kernel_map_args)                                                                 \
    GP_CUDA_BOTH(X, add, gp_kernel_map_args)

#endif
