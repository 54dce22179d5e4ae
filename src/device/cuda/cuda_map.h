/* Element by element over up to three tensors of equal dimensions, for the ops whose kernels are made with map.cuh.
 * Internal to device/cuda; in the worker's thread. */
#ifndef GP_DEVICE_CUDA_CUDA_MAP_H
#define GP_DEVICE_CUDA_CUDA_MAP_H

#include "device/cuda/cuda_call.h"

/* Of the operands in the op's roles: y, a, b. */
gp_kernel_map_args gp_cuda_map_args(const gp_cuda_call *call);
/* Enqueues a kernel whose arguments are, or begin with, what gp_cuda_map_args gave. */
GP_MUST_USE gp_status gp_cuda_map(const gp_cuda_call *call, gp_cuda_kernel kernel, const gp_kernel_map_args *args,
                                  size_t args_bytes, gp_error *err);

#endif
