#include <math.h>

#include "device/op_check_parts.h"
#include "device/op_expect.h"

size_t gp_op_attribute_bytes(gp_op_kind kind) {
    switch ((int)kind) {
    case GP_OP_CONV_FORWARD:
    case GP_OP_CONV_BACKWARD_DATA:
    case GP_OP_CONV_BACKWARD_WEIGHTS: return sizeof(gp_conv_attributes);
    case GP_OP_NORM_STATISTICS:
    case GP_OP_NORM_APPLY:
    case GP_OP_NORM_BACKWARD_REDUCE:
    case GP_OP_NORM_BACKWARD_DATA:
    case GP_OP_NORM_APPLY_RELU:
    case GP_OP_NORM_RELU_BACKWARD_REDUCE:
    case GP_OP_NORM_RELU_BACKWARD_DATA:
    case GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE:
    case GP_OP_NORM_COMMIT: return sizeof(gp_norm_attributes);
    case GP_OP_GROUP_NORM_FORWARD:
    case GP_OP_GROUP_NORM_BACKWARD_DATA:
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS: return sizeof(gp_group_norm_attributes);
    case GP_OP_ACTIVATION_FORWARD:
    case GP_OP_ACTIVATION_BACKWARD: return sizeof(gp_activation_attributes);
    case GP_OP_MAX_POOL_FORWARD:
    case GP_OP_MAX_POOL_BACKWARD:
    case GP_OP_AVG_POOL_FORWARD:
    case GP_OP_AVG_POOL_BACKWARD: return sizeof(gp_pool_attributes);
    case GP_OP_CROSS_ENTROPY_FORWARD:
    case GP_OP_CROSS_ENTROPY_BACKWARD: return sizeof(gp_cross_entropy_attributes);
    case GP_OP_ELEMENT_LOSS_FORWARD:
    case GP_OP_ELEMENT_LOSS_BACKWARD: return sizeof(gp_element_loss_attributes);
    case GP_OP_DROPOUT: return sizeof(gp_dropout_attributes);
    case GP_OP_CLIP_TOTAL: return sizeof(gp_clip_attributes);
    case GP_OP_SGD: return sizeof(gp_sgd_attributes);
    case GP_OP_ADAM: return sizeof(gp_adam_attributes);
    default: return 0;
    }
}

/* Relu, activations, add, copy and reorder: all operands have the dimensions of the first. */
static gp_status check_elementwise(const gp_op_desc *desc, gp_error *err) {
    for (int i = 1; i < (int)desc->operands; i++) GP_RETURN_IF_FAILED(gp_op_expect_same(desc, i, 0, err));
    return GP_OK;
}

/* The positions of x, w, b and y, or of their gradients. */
typedef struct weighted_operands {
    int x, w, b, y;
} weighted_operands;

static weighted_operands weighted_operands_of(gp_op_kind kind) {
    switch ((int)kind) {
    case GP_OP_CONV_FORWARD:
        return (weighted_operands){GP_CONV_FORWARD_X, GP_CONV_FORWARD_W, GP_CONV_FORWARD_B, GP_CONV_FORWARD_Y};
    case GP_OP_CONV_BACKWARD_DATA:
        return (weighted_operands){GP_CONV_BACKWARD_DATA_DX, GP_CONV_BACKWARD_DATA_W, GP_OP_ABSENT,
                                   GP_CONV_BACKWARD_DATA_DY};
    case GP_OP_CONV_BACKWARD_WEIGHTS:
        return (weighted_operands){GP_CONV_BACKWARD_WEIGHTS_X, GP_CONV_BACKWARD_WEIGHTS_DW, GP_CONV_BACKWARD_WEIGHTS_DB,
                                   GP_CONV_BACKWARD_WEIGHTS_DY};
    case GP_OP_LINEAR_FORWARD:
        return (weighted_operands){GP_LINEAR_FORWARD_X, GP_LINEAR_FORWARD_W, GP_LINEAR_FORWARD_B, GP_LINEAR_FORWARD_Y};
    case GP_OP_LINEAR_BACKWARD_DATA:
        return (weighted_operands){GP_LINEAR_BACKWARD_DATA_DX, GP_LINEAR_BACKWARD_DATA_W, GP_OP_ABSENT,
                                   GP_LINEAR_BACKWARD_DATA_DY};
    default:
        return (weighted_operands){GP_LINEAR_BACKWARD_WEIGHTS_X, GP_LINEAR_BACKWARD_WEIGHTS_DW,
                                   GP_LINEAR_BACKWARD_WEIGHTS_DB, GP_LINEAR_BACKWARD_WEIGHTS_DY};
    }
}

static gp_status check_conv_attributes(const gp_op_desc *desc, gp_error *err) {
    const gp_conv_attributes *conv = &desc->attributes.conv;
    GP_RETURN_IF_FAILED(gp_op_expect_range(desc, "kernel", conv->kernel, 1, err));
    GP_RETURN_IF_FAILED(gp_op_expect_range(desc, "stride", conv->stride, 1, err));
    GP_RETURN_IF_FAILED(gp_op_expect_range(desc, "pad", conv->pad, 0, err));
    GP_RETURN_IF_FAILED(gp_op_expect_range(desc, "dilation", conv->dilation, 1, err));
    if (conv->groups < 1) {
        return gp_op_refuse(desc, err, "%lld groups, which must be at least 1", (long long)conv->groups);
    }
    return GP_OK;
}

static gp_status check_conv(const gp_op_desc *desc, gp_error *err) {
    GP_RETURN_IF_FAILED(check_conv_attributes(desc, err));
    const gp_conv_attributes *conv = &desc->attributes.conv;
    weighted_operands at = weighted_operands_of(desc->kind);
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at.x, 4, 4, err));
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at.w, 4, 4, err));
    const gp_tensor *x = &desc->operand[at.x], *w = &desc->operand[at.w];
    int64_t in = x->dim[3], out = w->dim[0];
    if (in % conv->groups || out % conv->groups) {
        return gp_op_refuse(desc, err, "%lld groups do not divide both %lld and %lld channels", (long long)conv->groups,
                            (long long)in, (long long)out);
    }
    int64_t kernel[4] = {out, in / conv->groups, conv->kernel[0], conv->kernel[1]};
    GP_RETURN_IF_FAILED(gp_op_expect_dims(desc, at.w, 4, kernel, err));
    int64_t dim[4] = {x->dim[0], 0, 0, out};
    for (int d = 0; d < 2; d++) {
        int64_t padded = x->dim[1 + d] + 2 * conv->pad[d];
        int64_t reach = conv->dilation[d] * (conv->kernel[d] - 1) + 1;
        if (reach > padded) {
            return gp_op_refuse(desc, err, "kernel covers %lld elements, but the padded input has only %lld",
                                (long long)reach, (long long)padded);
        }
        dim[1 + d] = (padded - reach) / conv->stride[d] + 1;
    }
    GP_RETURN_IF_FAILED(gp_op_expect_dims(desc, at.y, 4, dim, err));
    return at.b == GP_OP_ABSENT ? GP_OK : gp_op_expect_vector(desc, at.b, out, err);
}

static gp_status check_linear(const gp_op_desc *desc, gp_error *err) {
    weighted_operands at = weighted_operands_of(desc->kind);
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at.x, 2, 4, err));
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at.w, 2, 2, err));
    const gp_tensor *x = &desc->operand[at.x];
    int64_t out = desc->operand[at.w].dim[0];
    GP_RETURN_IF_FAILED(gp_op_expect_dims(desc, at.w, 2, (const int64_t[]){out, gp_op_last_dim(x)}, err));
    gp_tensor y = *x;
    y.dim[y.rank - 1] = out;
    GP_RETURN_IF_FAILED(gp_op_expect_dims(desc, at.y, y.rank, y.dim, err));
    return at.b == GP_OP_ABSENT ? GP_OK : gp_op_expect_vector(desc, at.b, out, err);
}

static gp_status check_activation(const gp_op_desc *desc, gp_error *err) {
    const gp_activation_attributes *activation = &desc->attributes.activation;
    if (activation->function >= GP_ACTIVATIONS) {
        return gp_op_refuse(desc, err, "%u is not a function", activation->function);
    }
    if (!isfinite(activation->slope) || (activation->slope != 0 && activation->function != GP_LEAKY_RELU)) {
        return gp_op_refuse(desc, err, "slope is %g, which must be finite, and 0 except for leaky_relu",
                            activation->slope);
    }
    if (activation->reserved) return gp_op_refuse(desc, err, "reserved must be 0");
    return check_elementwise(desc, err);
}

static gp_status check_flatten(const gp_op_desc *desc, int at_sample, int at_flat, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at_sample, 2, 4, err));
    const gp_tensor *sample = &desc->operand[at_sample];
    int64_t width = gp_tensor_elements(sample) / sample->dim[0];
    return gp_op_expect_dims(desc, at_flat, 2, (const int64_t[]){sample->dim[0], width}, err);
}

static gp_status check_dropout(const gp_op_desc *desc, gp_error *err) {
    const gp_dropout_attributes *dropout = &desc->attributes.dropout;
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, GP_DROPOUT_X, 2, 4, err));
    GP_RETURN_IF_FAILED(gp_op_expect_same(desc, GP_DROPOUT_Y, GP_DROPOUT_X, err));
    if (!(dropout->p >= 0 && dropout->p < 1)) {
        return gp_op_refuse(desc, err, "p is %g, which must be at least 0 and below 1", dropout->p);
    }
    if (dropout->channels > 1 || dropout->reserved) {
        return gp_op_refuse(desc, err, "channels must be 0 or 1, reserved 0");
    }
    if (dropout->channels) GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, GP_DROPOUT_X, 4, 4, err));
    if (dropout->node >> 24 || dropout->purpose >> 8) {
        return gp_op_refuse(desc, err, "node %u and purpose %u do not fit one word of a counter", dropout->node,
                            dropout->purpose);
    }
    const gp_tensor *x = &desc->operand[GP_DROPOUT_X];
    int64_t elements = gp_tensor_elements(x) / x->dim[0];
    if (elements / 4 > UINT32_MAX) {
        return gp_op_refuse(desc, err, "%lld elements in a sample do not fit a counter", (long long)elements);
    }
    return GP_OK;
}

static gp_status check_cross_entropy(const gp_op_desc *desc, gp_error *err) {
    bool forward = desc->kind == GP_OP_CROSS_ENTROPY_FORWARD;
    int at_x = forward ? GP_CROSS_ENTROPY_FORWARD_X : GP_CROSS_ENTROPY_BACKWARD_X;
    int at_target = forward ? GP_CROSS_ENTROPY_FORWARD_TARGET : GP_CROSS_ENTROPY_BACKWARD_TARGET;
    const gp_tensor *x = &desc->operand[at_x], *target = &desc->operand[at_target];
    double smoothing = desc->attributes.cross_entropy.smoothing;
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, at_x, 2, 4, err));
    if (!(smoothing >= 0 && smoothing <= 1)) {
        return gp_op_refuse(desc, err, "smoothing is %g, which must be 0 to 1", smoothing);
    }
    if (!gp_tensor_contiguous(target) || gp_tensor_elements(target) != gp_tensor_rows(x)) {
        char text[GP_SHAPE_TEXT];
        return gp_op_refuse(desc, err, "target is %s, which must be %lld elements without gaps",
                            gp_op_dims_text(text, target), (long long)gp_tensor_rows(x));
    }
    if (forward) return gp_op_expect_vector(desc, GP_CROSS_ENTROPY_FORWARD_PARTIAL, 2, err);
    return gp_op_expect_same(desc, GP_CROSS_ENTROPY_BACKWARD_DX, GP_CROSS_ENTROPY_BACKWARD_X, err);
}

static gp_status check_element_loss(const gp_op_desc *desc, gp_error *err) {
    const gp_element_loss_attributes *loss = &desc->attributes.element_loss;
    if (loss->function >= GP_ELEMENT_LOSSES || loss->reserved) {
        return gp_op_refuse(desc, err, "%u is not a function of elements, or reserved is not 0", loss->function);
    }
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, GP_ELEMENT_LOSS_FORWARD_X, 1, 4, err));
    GP_RETURN_IF_FAILED(gp_op_expect_same(desc, GP_ELEMENT_LOSS_FORWARD_TARGET, GP_ELEMENT_LOSS_FORWARD_X, err));
    if (desc->kind == GP_OP_ELEMENT_LOSS_FORWARD)
        return gp_op_expect_vector(desc, GP_ELEMENT_LOSS_FORWARD_PARTIAL, 2, err);
    return gp_op_expect_same(desc, GP_ELEMENT_LOSS_BACKWARD_DX, GP_ELEMENT_LOSS_BACKWARD_X, err);
}

static gp_status check_loss_total(const gp_op_desc *desc, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_expect_rank(desc, GP_LOSS_TOTAL_PARTIAL, 2, 2, err));
    int64_t pieces = desc->operand[GP_LOSS_TOTAL_PARTIAL].dim[0];
    return gp_op_expect_dims(desc, GP_LOSS_TOTAL_PARTIAL, 2, (const int64_t[]){pieces, 2}, err);
}

static gp_status check_clip_total(const gp_op_desc *desc, gp_error *err) {
    double most = desc->attributes.clip.max_norm;
    if (!(most >= 0) || !isfinite(most)) return gp_op_refuse(desc, err, "max_norm %g, which must be at least 0", most);
    return gp_op_expect_rank(desc, GP_CLIP_TOTAL_SQUARES, 1, 1, err);
}

static gp_status check_sgd(const gp_op_desc *desc, gp_error *err) {
    const gp_sgd_attributes *sgd = &desc->attributes.sgd;
    if (!(sgd->momentum >= 0 && sgd->decay >= 0) || !isfinite(sgd->momentum) || !isfinite(sgd->decay)) {
        return gp_op_refuse(desc, err, "momentum %g and decay %g, which must be at least 0", sgd->momentum, sgd->decay);
    }
    if (sgd->nesterov > 1 || sgd->reserved) return gp_op_refuse(desc, err, "nesterov must be 0 or 1, reserved 0");
    if (sgd->nesterov && sgd->momentum == 0) return gp_op_refuse(desc, err, "nesterov without momentum");
    if ((sgd->momentum != 0) != (desc->operand[GP_SGD_MOMENTUM].present != 0)) {
        return gp_op_refuse(desc, err, "momentum %g and its state must both be present, or both absent", sgd->momentum);
    }
    GP_RETURN_IF_FAILED(gp_op_expect_same(desc, GP_SGD_GRAD, GP_SGD_PARAM, err));
    return gp_op_expect_same(desc, GP_SGD_MOMENTUM, GP_SGD_PARAM, err);
}

static bool is_share(double beta) {
    return beta >= 0 && beta < 1;
}

static gp_status check_adam(const gp_op_desc *desc, gp_error *err) {
    const gp_adam_attributes *adam = &desc->attributes.adam;
    if (!is_share(adam->beta1) || !is_share(adam->beta2))
        return gp_op_refuse(desc, err, "betas %g and %g, which must be at least 0 and below 1", adam->beta1,
                            adam->beta2);
    if (!(adam->eps >= 0 && adam->decay >= 0) || !isfinite(adam->eps) || !isfinite(adam->decay))
        return gp_op_refuse(desc, err, "eps %g and decay %g, which must be at least 0", adam->eps, adam->decay);
    if (adam->decoupled > 1 || adam->reserved) return gp_op_refuse(desc, err, "decoupled must be 0 or 1, reserved 0");
    GP_RETURN_IF_FAILED(gp_op_expect_same(desc, GP_ADAM_GRAD, GP_ADAM_PARAM, err));
    GP_RETURN_IF_FAILED(gp_op_expect_same(desc, GP_ADAM_M, GP_ADAM_PARAM, err));
    return gp_op_expect_same(desc, GP_ADAM_V, GP_ADAM_PARAM, err);
}

gp_status gp_op_check_kind(const gp_op_desc *desc, gp_error *err) {
    switch ((int)desc->kind) {
    case GP_OP_CONV_FORWARD:
    case GP_OP_CONV_BACKWARD_DATA:
    case GP_OP_CONV_BACKWARD_WEIGHTS: return check_conv(desc, err);
    case GP_OP_LINEAR_FORWARD:
    case GP_OP_LINEAR_BACKWARD_DATA:
    case GP_OP_LINEAR_BACKWARD_WEIGHTS: return check_linear(desc, err);
    case GP_OP_NORM_STATISTICS:
    case GP_OP_NORM_APPLY:
    case GP_OP_NORM_BACKWARD_REDUCE:
    case GP_OP_NORM_BACKWARD_DATA:
    case GP_OP_NORM_APPLY_RELU:
    case GP_OP_NORM_RELU_BACKWARD_REDUCE:
    case GP_OP_NORM_RELU_BACKWARD_DATA:
    case GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE: return gp_op_check_norm(desc, err);
    case GP_OP_NORM_COMMIT: return gp_op_check_norm_commit(desc, err);
    case GP_OP_MAX_POOL_FORWARD:
    case GP_OP_MAX_POOL_BACKWARD: return gp_op_check_max_pool(desc, err);
    case GP_OP_AVG_POOL_FORWARD: return gp_op_check_pool(desc, GP_AVG_POOL_FORWARD_X, GP_AVG_POOL_FORWARD_Y, err);
    case GP_OP_AVG_POOL_BACKWARD: return gp_op_check_pool(desc, GP_AVG_POOL_BACKWARD_DX, GP_AVG_POOL_BACKWARD_DY, err);
    case GP_OP_UPSAMPLE_FORWARD: return gp_op_check_upsample(desc, GP_UPSAMPLE_FORWARD_X, GP_UPSAMPLE_FORWARD_Y, err);
    case GP_OP_UPSAMPLE_BACKWARD:
        return gp_op_check_upsample(desc, GP_UPSAMPLE_BACKWARD_DX, GP_UPSAMPLE_BACKWARD_DY, err);
    case GP_OP_MEAN_POOL_FORWARD:
        return gp_op_check_mean_pool(desc, GP_MEAN_POOL_FORWARD_X, GP_MEAN_POOL_FORWARD_Y, err);
    case GP_OP_MEAN_POOL_BACKWARD:
        return gp_op_check_mean_pool(desc, GP_MEAN_POOL_BACKWARD_DX, GP_MEAN_POOL_BACKWARD_DY, err);
    case GP_OP_FLATTEN: return check_flatten(desc, GP_FLATTEN_X, GP_FLATTEN_Y, err);
    case GP_OP_UNFLATTEN: return check_flatten(desc, GP_FLATTEN_Y, GP_FLATTEN_X, err);
    case GP_OP_GROUP_NORM_FORWARD:
    case GP_OP_GROUP_NORM_BACKWARD_DATA:
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS: return gp_op_check_group_norm(desc, err);
    case GP_OP_ACTIVATION_FORWARD:
    case GP_OP_ACTIVATION_BACKWARD: return check_activation(desc, err);
    case GP_OP_DROPOUT: return check_dropout(desc, err);
    case GP_OP_RELU_FORWARD:
    case GP_OP_RELU_BACKWARD:
    case GP_OP_ADD:
    case GP_OP_COPY:
    case GP_OP_REORDER: return check_elementwise(desc, err);
    case GP_OP_CROSS_ENTROPY_FORWARD:
    case GP_OP_CROSS_ENTROPY_BACKWARD: return check_cross_entropy(desc, err);
    case GP_OP_ELEMENT_LOSS_FORWARD:
    case GP_OP_ELEMENT_LOSS_BACKWARD: return check_element_loss(desc, err);
    case GP_OP_LOSS_TOTAL: return check_loss_total(desc, err);
    case GP_OP_SQUARE_SUM: return gp_op_expect_vector(desc, GP_SQUARE_SUM_SUM, 1, err);
    case GP_OP_CLIP_TOTAL: return check_clip_total(desc, err);
    case GP_OP_SGD: return check_sgd(desc, err);
    case GP_OP_ADAM: return check_adam(desc, err);
    default: return GP_OK; /* fill takes whatever is a tensor */
    }
}
