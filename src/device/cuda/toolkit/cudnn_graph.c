#include "device/cuda/toolkit/cudnn_graph.h"

#include "device/cuda/toolkit/toolkit.h"

enum { RANK = 4, INTERMEDIATE = 100 };

typedef struct picture {
    int64_t dim[RANK], stride[RANK];
    int64_t id, alignment;
    bool is_virtual; /* lives within the graph only */
} picture;

static gp_cudnn_part tensor_part(gp_cudnn_parts *parts, picture p) {
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    gp_cudnn_part part = gp_cudnn_part_new(parts, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, RANK, p.dim);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, RANK, p.stride);
    gp_cudnn_part_set_int64(parts, part, CUDNN_ATTR_TENSOR_UNIQUE_ID, p.id);
    gp_cudnn_part_set_int64(parts, part, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, p.alignment);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &p.is_virtual);
    gp_cudnn_part_finish(parts, part, "tensor");
    return part;
}

/* [n,h,w,c] */
static picture picture_of(const gp_op_desc *desc, int operand) {
    const gp_tensor *t = &desc->operand[operand];
    return (picture){.dim = {t->dim[0], t->dim[3], t->dim[1], t->dim[2]},
                     .stride = {t->stride[0], 1, t->stride[1], t->stride[2]},
                     .id = gp_cudnn_operand_id(operand),
                     .alignment = gp_cuda_alignment(t)};
}

/* [out,in/groups,kh,kw], stored so or as [out,kh,kw,in/groups]. */
static picture weights_of(const gp_op_desc *desc, int operand) {
    const gp_tensor *t = &desc->operand[operand];
    const int64_t *dim = t->dim, *stride = t->stride;
    picture p = {.dim = {dim[0], dim[1], dim[2], dim[3]},
                 .stride = {stride[0], stride[1], stride[2], stride[3]},
                 .id = gp_cudnn_operand_id(operand),
                 .alignment = gp_cuda_alignment(t)};
    if (t->format == GP_CUDA_FORMAT_CHANNELS_LAST) {
        p.stride[0] = dim[1] * dim[2] * dim[3];
        p.stride[1] = 1;
        p.stride[2] = dim[1] * dim[3];
        p.stride[3] = dim[1];
    }
    return p;
}

static picture bias_of(const gp_op_desc *desc, int operand) {
    int64_t channels = desc->operand[operand].dim[0];
    return (picture){.dim = {1, channels, 1, 1},
                     .stride = {channels, 1, channels, channels},
                     .id = gp_cudnn_operand_id(operand),
                     .alignment = gp_cuda_alignment(&desc->operand[operand])};
}

static gp_cudnn_part convolution_part(gp_cudnn_parts *parts, const gp_conv_attributes *a) {
    const int64_t spatial = 2;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    gp_cudnn_part part = gp_cudnn_part_new(parts, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    gp_cudnn_part_set_int64(parts, part, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, spatial);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial, a->pad);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial, a->pad);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial, a->dilation);
    gp_cudnn_part_set(parts, part, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial, a->stride);
    gp_cudnn_part_finish(parts, part, "convolution");
    return part;
}

/* The operands of one direction, and what cuDNN calls its parts. */
typedef struct direction {
    int x, w, y; /* the input, the weights, the output, or their gradients */
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, input, weights, output, alpha, beta;
} direction;

static const direction directions[] = {
    {GP_CONV_FORWARD_X, GP_CONV_FORWARD_W, GP_CONV_FORWARD_Y, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {GP_CONV_BACKWARD_DATA_DX, GP_CONV_BACKWARD_DATA_W, GP_CONV_BACKWARD_DATA_DY,
     CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {GP_CONV_BACKWARD_WEIGHTS_X, GP_CONV_BACKWARD_WEIGHTS_DW, GP_CONV_BACKWARD_WEIGHTS_DY,
     CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static const direction *direction_of(const gp_op_desc *desc) {
    return &directions[desc->kind - GP_OP_CONV_FORWARD];
}

static gp_cudnn_part operation_part(gp_cudnn_parts *parts, const gp_op_desc *desc, gp_cudnn_part x, gp_cudnn_part w,
                                    gp_cudnn_part y) {
    const direction *to = direction_of(desc);
    const float alpha = 1, beta = desc->flags & GP_OP_ACCUMULATE ? 1.0F : 0.0F;
    gp_cudnn_part convolution = convolution_part(parts, &desc->attributes.conv);
    gp_cudnn_part part = gp_cudnn_part_new(parts, to->type);
    gp_cudnn_part_set_part(parts, part, to->input, x);
    gp_cudnn_part_set_part(parts, part, to->weights, w);
    gp_cudnn_part_set_part(parts, part, to->output, y);
    gp_cudnn_part_set_part(parts, part, to->convolution, convolution);
    gp_cudnn_part_set(parts, part, to->alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    gp_cudnn_part_set(parts, part, to->beta, CUDNN_TYPE_FLOAT, 1, &beta);
    gp_cudnn_part_finish(parts, part, "convolution's operation");
    return part;
}

static gp_cudnn_part addition_part(gp_cudnn_parts *parts, gp_cudnn_part a, gp_cudnn_part b, gp_cudnn_part y) {
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    gp_cudnn_part add = gp_cudnn_part_new(parts, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    gp_cudnn_part_set(parts, add, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    gp_cudnn_part_set(parts, add, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    gp_cudnn_part_finish(parts, add, "addition");
    gp_cudnn_part part = gp_cudnn_part_new(parts, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    gp_cudnn_part_set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add);
    gp_cudnn_part_set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a);
    gp_cudnn_part_set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    gp_cudnn_part_set_part(parts, part, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    gp_cudnn_part_finish(parts, part, "addition's operation");
    return part;
}

static gp_cudnn_part graph_part(gp_cudnn_parts *parts, const gp_cudnn_part *operations, int64_t count) {
    gp_cudnn_part graph = gp_cudnn_part_new(parts, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    gp_cudnn_part_set(parts, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                      (const void *)operations);
    gp_cudnn_part_finish(parts, graph, "graph");
    return graph;
}

/* The convolution, then the addition. */
static gp_cudnn_part biased_graph(gp_cudnn_parts *parts, const gp_op_desc *desc, gp_cudnn_part x, gp_cudnn_part w,
                                  gp_cudnn_part y) {
    picture between = picture_of(desc, GP_CONV_FORWARD_Y);
    between.id = INTERMEDIATE;
    between.is_virtual = true;
    gp_cudnn_part product = tensor_part(parts, between), b = tensor_part(parts, bias_of(desc, GP_CONV_FORWARD_B));
    gp_cudnn_part operations[] = {operation_part(parts, desc, x, w, product), addition_part(parts, product, b, y)};
    return graph_part(parts, operations, 2);
}

gp_cudnn_part gp_cudnn_graph_make(gp_cudnn_parts *parts, const gp_op_desc *desc) {
    const direction *to = direction_of(desc);
    gp_cudnn_part x = tensor_part(parts, picture_of(desc, to->x));
    gp_cudnn_part w = tensor_part(parts, weights_of(desc, to->w));
    gp_cudnn_part y = tensor_part(parts, picture_of(desc, to->y));
    if (desc->kind == GP_OP_CONV_FORWARD && desc->operand[GP_CONV_FORWARD_B].present)
        return biased_graph(parts, desc, x, w, y);
    gp_cudnn_part only = operation_part(parts, desc, x, w, y);
    return graph_part(parts, &only, 1);
}
