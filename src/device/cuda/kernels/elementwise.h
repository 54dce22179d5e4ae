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

typedef struct gp_kernel_activation_args {
    gp_kernel_map_args map;
    int32_t function; /* gp_activation */
    float slope;
} gp_kernel_activation_args;

#endif
