/* Arguments of the kernels that pool over windows of pictures. Plain data; addresses are the device's, and one thread
 * of the device does one element of what is written, or four neighbouring channels. */
#ifndef GP_DEVICE_CUDA_KERNELS_POOL_H
#define GP_DEVICE_CUDA_KERNELS_POOL_H

#include <stdint.h>

/* Pitches count elements from one place to the next; [0] is height, [1] is width. */
typedef struct gp_kernel_pool_args {
    float *to;
    const float *from;
    void *index; /* max_pool: of the windows; U8 or I32; NULL: none */
    int64_t to_pitch, from_pitch, index_pitch;
    int64_t count, in[2], out[2], channels; /* samples, places of the input, windows */
    int64_t kernel[2], stride[2], pad[2];
    int32_t count_pad, index_bytes;
    int32_t by_four; /* each thread has four channels, all addresses and pitches being multiples of 16 bytes; else 0 */
    int32_t reserved;
} gp_kernel_pool_args;

#define GP_CUDA_POOL_KERNELS(X)                                                                                        \
    GP_CUDA_BOTH(X, max_pool_forward, gp_kernel_pool_args)                                                             \
    GP_CUDA_BOTH(X, max_pool_backward, gp_kernel_pool_args)                                                            \
    GP_CUDA_BOTH(X, avg_pool_forward, gp_kernel_pool_args)                                                             \
    GP_CUDA_BOTH(X, avg_pool_backward, gp_kernel_pool_args)

#endif
