/* Arguments of the kernels of activation functions. Plain data; addresses are the device's, and one thread of the
 * device does one element, or four. */
#ifndef GP_DEVICE_CUDA_KERNELS_ACTIVATION_H
#define GP_DEVICE_CUDA_KERNELS_ACTIVATION_H

#include "device/cuda/kernels/elementwise.h"

typedef struct gp_kernel_activation_args {
    gp_kernel_map_args map;
    int32_t function; /* gp_activation */
    float slope;
} gp_kernel_activation_args;

#define GP_CUDA_ACTIVATION_KERNELS(X)                                                                                  \
    GP_CUDA_BOTH(X, activation_forward, gp_kernel_activation_args)                                                     \
    GP_CUDA_BOTH(X, activation_backward, gp_kernel_activation_args)

#endif
