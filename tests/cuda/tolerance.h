/* How far the CUDA device's own kernels may be from ref: the same on a GPU and on the host. Pure; any thread. */
#ifndef GP_TESTS_CUDA_TOLERANCE_H
#define GP_TESTS_CUDA_TOLERANCE_H

#include "device/op.h"

/* Of the largest element; 0: equal bits, but for NaN's. The reference computes in f64. */
static inline double kernel_tolerance(gp_op_kind kind) {
    switch ((int)kind) {
    case GP_OP_NORM_STATISTICS:
    case GP_OP_NORM_APPLY:
    case GP_OP_NORM_BACKWARD_REDUCE:
    case GP_OP_NORM_BACKWARD_DATA:
    case GP_OP_NORM_APPLY_RELU:
    case GP_OP_NORM_RELU_BACKWARD_REDUCE:
    case GP_OP_NORM_RELU_BACKWARD_DATA:
    case GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE:
    case GP_OP_GROUP_NORM_FORWARD:
    case GP_OP_GROUP_NORM_BACKWARD_DATA:
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS:
    case GP_OP_ACTIVATION_FORWARD:
    case GP_OP_ACTIVATION_BACKWARD:
    case GP_OP_MAX_POOL_BACKWARD:
    case GP_OP_AVG_POOL_FORWARD:
    case GP_OP_AVG_POOL_BACKWARD:
    case GP_OP_UPSAMPLE_BACKWARD:
    case GP_OP_MEAN_POOL_FORWARD:
    case GP_OP_MEAN_POOL_BACKWARD:
    case GP_OP_CROSS_ENTROPY_FORWARD:
    case GP_OP_CROSS_ENTROPY_BACKWARD:
    case GP_OP_ELEMENT_LOSS_FORWARD:
    case GP_OP_ELEMENT_LOSS_BACKWARD:
    case GP_OP_NORM_MERGE:
    case GP_OP_NORM_MERGE_SUMS:
    case GP_OP_NORM_COMMIT: return 2e-6;
    /* Both add in f64, in other orders. */
    case GP_OP_SQUARE_SUM:
    case GP_OP_SQUARE_BLOCKS:
    case GP_OP_BLOCKS_TOTAL: return 1e-13;
    default: return 0;
    }
}

#endif
