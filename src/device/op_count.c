#include "device/op.h"

/* Twice the multiplications of a product with the weights, one of each pair being an addition; padding is counted as if
 * it were there. `y` has the rows of the product, `w` is [out, in, …]. */
static double count_product(const gp_tensor *y, const gp_tensor *w) {
    return 2.0 * (double)gp_tensor_rows(y) * (double)gp_tensor_elements(w);
}

static double elements(const gp_op_desc *desc, int operand) {
    return (double)gp_tensor_elements(&desc->operand[operand]);
}

/* Of one element: an exponential is some 15 operations, leaky_relu has none. */
static double count_activation(const gp_op_desc *desc) {
    switch ((gp_activation)desc->attributes.activation.function) {
    case GP_LEAKY_RELU: return 1;
    case GP_GELU:
    case GP_GELU_TANH: return 30;
    case GP_SIGMOID:
    case GP_TANH: return desc->kind == GP_OP_ACTIVATION_FORWARD ? 20 : 3;
    case GP_SILU:
    case GP_ACTIVATIONS: break;
    }
    return 20;
}

static double count_flops(const gp_op_desc *desc) {
    const gp_tensor *operand = desc->operand;
    const gp_pool_attributes *pool = &desc->attributes.pool;
    switch (desc->kind) {
    case GP_OP_CONV_FORWARD:
    case GP_OP_LINEAR_FORWARD:
        return count_product(&operand[GP_CONV_FORWARD_Y], &operand[GP_CONV_FORWARD_W]) +
               (operand[GP_CONV_FORWARD_B].present ? elements(desc, GP_CONV_FORWARD_Y) : 0);
    case GP_OP_CONV_BACKWARD_DATA:
    case GP_OP_LINEAR_BACKWARD_DATA:
        return count_product(&operand[GP_CONV_BACKWARD_DATA_DY], &operand[GP_CONV_BACKWARD_DATA_W]);
    case GP_OP_CONV_BACKWARD_WEIGHTS:
    case GP_OP_LINEAR_BACKWARD_WEIGHTS:
        return count_product(&operand[GP_CONV_BACKWARD_WEIGHTS_DY], &operand[GP_CONV_BACKWARD_WEIGHTS_DW]) +
               (operand[GP_CONV_BACKWARD_WEIGHTS_DB].present ? elements(desc, GP_CONV_BACKWARD_WEIGHTS_DY) : 0);
    case GP_OP_NORM_STATISTICS: return 4 * elements(desc, GP_NORM_STATISTICS_X);
    case GP_OP_NORM_APPLY: return 4 * elements(desc, GP_NORM_APPLY_X);
    case GP_OP_NORM_BACKWARD_REDUCE: return 5 * elements(desc, GP_NORM_BACKWARD_REDUCE_X);
    case GP_OP_NORM_BACKWARD_DATA: return 7 * elements(desc, GP_NORM_BACKWARD_DATA_X);
    case GP_OP_NORM_APPLY_RELU:
        return (operand[GP_NORM_APPLY_RELU_ADDEND].present ? 6 : 5) * elements(desc, GP_NORM_APPLY_RELU_X);
    case GP_OP_NORM_RELU_BACKWARD_REDUCE: return 8 * elements(desc, GP_NORM_RELU_BACKWARD_REDUCE_X);
    case GP_OP_NORM_RELU_BACKWARD_DATA: return 10 * elements(desc, GP_NORM_RELU_BACKWARD_DATA_X);
    case GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE: return 6 * elements(desc, GP_NORM_ADD_RELU_BACKWARD_REDUCE_X);
    case GP_OP_GROUP_NORM_FORWARD: return 8 * elements(desc, GP_GROUP_NORM_FORWARD_X);
    case GP_OP_GROUP_NORM_BACKWARD_DATA: return 12 * elements(desc, GP_GROUP_NORM_BACKWARD_DATA_X);
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS: return 5 * elements(desc, GP_GROUP_NORM_BACKWARD_WEIGHTS_X);
    case GP_OP_ACTIVATION_FORWARD:
    case GP_OP_ACTIVATION_BACKWARD: return count_activation(desc) * elements(desc, 0);
    case GP_OP_RELU_FORWARD:
    case GP_OP_RELU_BACKWARD: return elements(desc, 0);
    case GP_OP_MAX_POOL_FORWARD:
        return elements(desc, GP_MAX_POOL_FORWARD_Y) * (double)(pool->kernel[0] * pool->kernel[1]);
    case GP_OP_MAX_POOL_BACKWARD: return elements(desc, GP_MAX_POOL_BACKWARD_DY);
    case GP_OP_AVG_POOL_FORWARD:
        return elements(desc, GP_AVG_POOL_FORWARD_Y) * (double)(pool->kernel[0] * pool->kernel[1]);
    case GP_OP_AVG_POOL_BACKWARD:
        return elements(desc, GP_AVG_POOL_BACKWARD_DY) * (double)(pool->kernel[0] * pool->kernel[1]);
    case GP_OP_UPSAMPLE_BACKWARD: return elements(desc, GP_UPSAMPLE_BACKWARD_DY);
    case GP_OP_MEAN_POOL_FORWARD: return elements(desc, GP_MEAN_POOL_FORWARD_X);
    case GP_OP_MEAN_POOL_BACKWARD: return elements(desc, GP_MEAN_POOL_BACKWARD_DX);
    case GP_OP_DROPOUT: return elements(desc, GP_DROPOUT_X);
    case GP_OP_ADD: return elements(desc, GP_ADD_Y);
    case GP_OP_CROSS_ENTROPY_FORWARD: return 4 * elements(desc, GP_CROSS_ENTROPY_FORWARD_X);
    case GP_OP_CROSS_ENTROPY_BACKWARD: return 5 * elements(desc, GP_CROSS_ENTROPY_BACKWARD_X);
    case GP_OP_ELEMENT_LOSS_FORWARD: return 4 * elements(desc, GP_ELEMENT_LOSS_FORWARD_X);
    case GP_OP_ELEMENT_LOSS_BACKWARD: return 4 * elements(desc, GP_ELEMENT_LOSS_BACKWARD_X);
    case GP_OP_LOSS_TOTAL: return elements(desc, GP_LOSS_TOTAL_PARTIAL);
    case GP_OP_NORM_COMMIT: return 5 * elements(desc, GP_NORM_COMMIT_STATS);
    case GP_OP_SQUARE_SUM: return 2 * elements(desc, GP_SQUARE_SUM_X);
    case GP_OP_CLIP_TOTAL: return elements(desc, GP_CLIP_TOTAL_SQUARES);
    case GP_OP_SGD: return (operand[GP_SGD_MOMENTUM].present ? 6 : 4) * elements(desc, GP_SGD_PARAM);
    case GP_OP_ADAM: return 14 * elements(desc, GP_ADAM_PARAM);
    case GP_OP_FLATTEN:
    case GP_OP_UNFLATTEN:
    case GP_OP_UPSAMPLE_FORWARD:
    case GP_OP_COPY:
    case GP_OP_REORDER:
    case GP_OP_FILL:
    case GP_OP_KINDS: break;
    }
    return 0;
}

void gp_op_count(const gp_op_desc *desc, double *flops, double *bytes) {
    double moved = 0;
    for (int i = 0; i < (int)desc->operands; i++) {
        double size = elements(desc, i) * (double)gp_dtype_size(desc->operand[i].dtype);
        bool written = gp_op_writes(desc->kind, i);
        bool read = gp_op_reads(desc->kind, i) || (written && desc->flags & GP_OP_ACCUMULATE);
        moved += size * ((read ? 1 : 0) + (written ? 1 : 0));
    }
    *flops = count_flops(desc);
    *bytes = moved;
}
