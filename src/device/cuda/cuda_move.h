/* Bytes that are moved as they are, and matrices that are turned, for the ops that do no more than that. Internal to
 * device/cuda; in the worker's thread. */
#ifndef GP_DEVICE_CUDA_CUDA_MOVE_H
#define GP_DEVICE_CUDA_CUDA_MOVE_H

#include "device/cuda/cuda_call.h"

/* Enqueues y = x, both plain and of equal dimensions; x < 0: zeros. */
GP_MUST_USE gp_status gp_cuda_copy_plain(const gp_cuda_call *call, int y, int x, gp_error *err);
/* Enqueues a launch that turns matrices of operand x into operand y: sizes and distances as in `args`, which gets its
 * addresses here. */
GP_MUST_USE gp_status gp_cuda_transpose(const gp_cuda_call *call, int y, int x, gp_kernel_transpose_args args,
                                        gp_error *err);

#endif
