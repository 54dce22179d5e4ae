/* Arguments of the kernels that repeat places of pictures, and of those that take their mean. Plain data; addresses are
 * the device's, and one thread of the device does one element of what is written, or four neighbouring channels; of
 * mean_pool_forward a block does some channels of one sample. */
#ifndef GP_DEVICE_CUDA_KERNELS_RESIZE_H
#define GP_DEVICE_CUDA_KERNELS_RESIZE_H

#include "device/cuda/kernels/rows.h"

/* Pictures of `small` places, each of which is factor[0] · factor[1] places of the large ones. */
typedef struct gp_kernel_resize_args {
    gp_kernel_rows to, from; /* a row is a place */
    int64_t count, small[2], factor[2], channels;
    int64_t by_four; /* each thread has four channels, all addresses and pitches being multiples of 16 bytes; else 0 */
} gp_kernel_resize_args;

enum { GP_KERNEL_MEAN_LANES = 32, GP_KERNEL_MEAN_THREADS = 256 };

#endif
