/* The ops of the CUDA device, one file per family, all in f32. Internal to device/cuda; see cuda_call.h for the
 * threads. A file of kernels belongs to each family (kernels/). */
#ifndef GP_DEVICE_CUDA_CUDA_OPS_H
#define GP_DEVICE_CUDA_CUDA_OPS_H

#include "device/cuda/cuda_call.h"

#define GP_OP(NAME, name, ...) extern const gp_cuda_op gp_cuda_##name;
#include "device/op_table.inc"

#endif
