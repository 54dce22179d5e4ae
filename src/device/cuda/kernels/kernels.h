/* Own kernels by number, and the struct that each takes: what the device's C code and the kernels' CUDA code share.
 *
 * A kernel is `__global__ void gp_kernel_<name>(gp_<args> args)` in kernels/<family>.cu, its struct in
 * kernels/<family>.h: plain numbers and addresses, the same in C and C++. Kernels keep to what tests/cuda/fibers.h can
 * run on the host: one-dimensional blocks, static shared memory, barriers and warp shuffles that all threads reach, no
 * inline PTX, no atomics on floats. Their results do not depend on the order of blocks or threads. They read and write
 * whole vectors through pack.cuh. Each stands in a table of scripts/check-kernels.py. */
#ifndef GP_DEVICE_CUDA_KERNELS_KERNELS_H
#define GP_DEVICE_CUDA_KERNELS_KERNELS_H

#include "device/cuda/kernels/activation.h"
#include "device/cuda/kernels/bias.h"
#include "device/cuda/kernels/columns.h"
#include "device/cuda/kernels/dropout.h"
#include "device/cuda/kernels/elementwise.h"
#include "device/cuda/kernels/group_norm.h"
#include "device/cuda/kernels/loss.h"
#include "device/cuda/kernels/move.h"
#include "device/cuda/kernels/norm.h"
#include "device/cuda/kernels/pool.h"
#include "device/cuda/kernels/reorder.h"
#include "device/cuda/kernels/resize.h"
#include "device/cuda/kernels/sums.h"
#include "device/cuda/kernels/update.h"

/* A kernel that is there twice, see index.cuh: the wide one is the next by number. */
#define GP_CUDA_BOTH(X, name, args) X(name, args) X(name##_wide, args)

/* X(name, struct of its arguments) */
#define GP_CUDA_KERNELS(X)                                                                                             \
    GP_CUDA_ELEMENTWISE_KERNELS(X)                                                                                     \
    GP_CUDA_ACTIVATION_KERNELS(X)                                                                                      \
    GP_CUDA_DROPOUT_KERNELS(X)                                                                                         \
    GP_CUDA_POOL_KERNELS(X)                                                                                            \
    GP_CUDA_RESIZE_KERNELS(X)                                                                                          \
    GP_CUDA_MOVE_KERNELS(X)                                                                                            \
    GP_CUDA_REORDER_KERNELS(X)                                                                                         \
    GP_CUDA_COLUMN_KERNELS(X)                                                                                          \
    GP_CUDA_NORM_KERNELS(X)                                                                                            \
    GP_CUDA_GROUP_NORM_KERNELS(X)                                                                                      \
    GP_CUDA_SUM_KERNELS(X)                                                                                             \
    GP_CUDA_LOSS_KERNELS(X)                                                                                            \
    GP_CUDA_UPDATE_KERNELS(X)                                                                                          \
    GP_CUDA_BIAS_KERNELS(X)

typedef enum gp_cuda_kernel {
#define GP_CUDA_ENUM(name, args) GP_KERNEL_##name,
    GP_CUDA_KERNELS(GP_CUDA_ENUM)
#undef GP_CUDA_ENUM
        GP_CUDA_KERNEL_COUNT
} gp_cuda_kernel;

#endif
