/* Own kernels by number, and the struct that each takes: what the device's C code and the kernels' CUDA code share.
 *
 * A kernel is `__global__ void gp_kernel_<name>(gp_<args> args)` in kernels/<family>.cu, its struct in
 * kernels/<family>.h: plain numbers and addresses, the same in C and C++. Kernels keep to what tests/cuda/fibers.h can
 * run on the host: one-dimensional blocks, static shared memory, barriers and warp shuffles that all threads reach, no
 * inline PTX, no atomics on floats. Their results do not depend on the order of blocks or threads. They read and write
 * whole vectors through pack.cuh. Each stands in a table of scripts/check-kernels.py. */
#ifndef GP_DEVICE_CUDA_KERNELS_KERNELS_H
#define GP_DEVICE_CUDA_KERNELS_KERNELS_H

#include "device/cuda/kernels/columns.h"
#include "device/cuda/kernels/dropout.h"
#include "device/cuda/kernels/elementwise.h"
#include "device/cuda/kernels/group_norm.h"
#include "device/cuda/kernels/loss.h"
#include "device/cuda/kernels/move.h"
#include "device/cuda/kernels/norm.h"
#include "device/cuda/kernels/pool.h"
#include "device/cuda/kernels/sums.h"
#include "device/cuda/kernels/update.h"

/* A kernel that is there twice, see index.cuh: the wide one is the next by number. */
#define GP_CUDA_BOTH(X, name, args) X(name, args) X(name##_wide, args)

/* X(name, struct of its arguments) */
#define GP_CUDA_KERNELS(X)                                                                                             \
    GP_CUDA_BOTH(X, relu_forward, gp_kernel_map_args)                                                                  \
    GP_CUDA_BOTH(X, relu_backward, gp_kernel_map_args)                                                                 \
    GP_CUDA_BOTH(X, add, gp_kernel_map_args)                                                                           \
    GP_CUDA_BOTH(X, activation_forward, gp_kernel_activation_args)                                                     \
    GP_CUDA_BOTH(X, activation_backward, gp_kernel_activation_args)                                                    \
    GP_CUDA_BOTH(X, dropout_rows, gp_kernel_dropout_args)                                                              \
    GP_CUDA_BOTH(X, dropout_pictures, gp_kernel_dropout_args)                                                          \
    GP_CUDA_BOTH(X, dropout_channels, gp_kernel_dropout_args)                                                          \
    GP_CUDA_BOTH(X, max_pool_forward, gp_kernel_pool_args)                                                             \
    GP_CUDA_BOTH(X, max_pool_backward, gp_kernel_pool_args)                                                            \
    GP_CUDA_BOTH(X, avg_pool_forward, gp_kernel_pool_args)                                                             \
    GP_CUDA_BOTH(X, avg_pool_backward, gp_kernel_pool_args)                                                            \
    GP_CUDA_BOTH(X, upsample_forward, gp_kernel_resize_args)                                                           \
    GP_CUDA_BOTH(X, upsample_backward, gp_kernel_resize_args)                                                          \
    GP_CUDA_BOTH(X, mean_pool_forward, gp_kernel_resize_args)                                                          \
    GP_CUDA_BOTH(X, mean_pool_backward, gp_kernel_resize_args)                                                         \
    GP_CUDA_BOTH(X, copy, gp_kernel_move_args)                                                                         \
    GP_CUDA_BOTH(X, transpose, gp_kernel_move_args)                                                                    \
    X(column_moments, gp_kernel_column_moments_args)                                                                   \
    X(column_totals, gp_kernel_column_totals_args)                                                                     \
    X(norm_statistics, gp_kernel_norm_statistics_args)                                                                 \
    X(norm_apply, gp_kernel_norm_args)                                                                                 \
    X(norm_products, gp_kernel_norm_args)                                                                              \
    X(norm_backward, gp_kernel_norm_args)                                                                              \
    X(norm_apply_relu, gp_kernel_norm_args)                                                                            \
    X(norm_relu_products, gp_kernel_norm_args)                                                                         \
    X(norm_relu_backward, gp_kernel_norm_args)                                                                         \
    X(norm_merge, gp_kernel_norm_merge_args)                                                                           \
    X(norm_merge_sums, gp_kernel_norm_merge_sums_args)                                                                 \
    X(norm_commit, gp_kernel_norm_commit_args)                                                                         \
    X(group_row_forward, gp_kernel_group_args)                                                                         \
    X(group_row_backward, gp_kernel_group_args)                                                                        \
    X(group_statistics, gp_kernel_group_args)                                                                          \
    X(group_forward, gp_kernel_group_args)                                                                             \
    X(group_products, gp_kernel_group_args)                                                                            \
    X(group_sums, gp_kernel_group_args)                                                                                \
    X(group_backward, gp_kernel_group_args)                                                                            \
    X(square_sum, gp_kernel_sum_args)                                                                                  \
    X(element_loss_sum, gp_kernel_sum_args)                                                                            \
    X(sum_partial, gp_kernel_sum_partial_args)                                                                         \
    X(clip_total, gp_kernel_clip_total_args)                                                                           \
    X(cross_entropy_forward, gp_kernel_cross_entropy_args)                                                             \
    X(cross_entropy_backward, gp_kernel_cross_entropy_args)                                                            \
    X(element_loss_backward, gp_kernel_element_loss_args)                                                              \
    X(loss_total, gp_kernel_loss_total_args)                                                                           \
    X(sgd, gp_kernel_update_args)                                                                                      \
    X(adam, gp_kernel_update_args)                                                                                     \
    X(bias_sums, gp_kernel_bias_sums_args)                                                                             \
    X(bias_total, gp_kernel_bias_total_args)

typedef enum gp_cuda_kernel {
#define GP_CUDA_ENUM(name, args) GP_KERNEL_##name,
    GP_CUDA_KERNELS(GP_CUDA_ENUM)
#undef GP_CUDA_ENUM
        GP_CUDA_KERNEL_COUNT
} gp_cuda_kernel;

#endif
