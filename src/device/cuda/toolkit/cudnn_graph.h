/* Convolutions as cuDNN's graphs: one operation, and an addition after it if a forward one has a bias. Pictures
 * are cuDNN's NCHW tensors with the strides of NHWC, slices of channels included; weights lie as the descriptor's
 * format says. Internal to device/cuda/toolkit; any thread. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_CUDNN_GRAPH_H
#define GP_DEVICE_CUDA_TOOLKIT_CUDNN_GRAPH_H

#include "device/cuda/toolkit/cudnn_parts.h"
#include "device/op.h"

/* The number by which the graph knows operand i. */
static inline int64_t gp_cudnn_operand_id(int operand) {
    return operand + 1;
}
/* The finished graph of a convolution, as one of the parts; failures stand there too. Formats must be known. */
gp_cudnn_part gp_cudnn_graph_make(gp_cudnn_parts *parts, const gp_op_desc *desc);

#endif
