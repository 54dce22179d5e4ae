/* Arguments of the kernels that pool over windows of pictures. Plain data; addresses are the device's, and one thread
 * of the device does one element of what is written, or four neighbouring channels. */
#ifndef GP_DEVICE_CUDA_KERNELS_POOL_H
#define GP_DEVICE_CUDA_KERNELS_POOL_H

#include "device/cuda/kernels/rows.h"

/* A row is a place; [0] is height, [1] is width. */
typedef struct gp_kernel_pool_args {
    gp_kernel_rows to, from;
    void *index; /* max_pool: of the windows; U8 or I32; NULL: none */
    int64_t index_pitch;
    int64_t count, in[2], out[2], channels; /* samples, places of the input, windows */
    int64_t kernel[2], stride[2], pad[2];
    int32_t count_pad, index_bytes;
    int32_t by_four; /* each thread has four channels, all addresses and pitches being multiples of 16 bytes; else 0 */
    int32_t reserved;
} gp_kernel_pool_args;

#endif
