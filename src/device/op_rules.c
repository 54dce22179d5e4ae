/* The rules of the table: attributes in range, sizes that follow from others. */
#include "device/op_shape.h"

#include <math.h>

typedef gp_status rule(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err);

/* Both values of a window's attribute lie in least … INT32_MAX. */
static gp_status check_pair(const gp_op_desc *desc, const char *what, const int64_t value[2], int64_t least,
                            gp_error *err) {
    for (int d = 0; d < 2; d++) {
        if (value[d] < least || value[d] > INT32_MAX) {
            return gp_op_refuse(desc, err, "%s %lldx%lld, which must be at least %lld", what, (long long)value[0],
                                (long long)value[1], (long long)least);
        }
    }
    return GP_OK;
}

static gp_status rule_none(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    (void)desc;
    (void)sizes;
    (void)err;
    return GP_OK;
}

static gp_status rule_conv(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_conv_attributes *conv = &desc->attributes.conv;
    int64_t in = *gp_op_size(sizes, 'i'), out = *gp_op_size(sizes, 'o');
    GP_RETURN_IF_FAILED(check_pair(desc, "kernel", conv->kernel, 1, err));
    GP_RETURN_IF_FAILED(check_pair(desc, "stride", conv->stride, 1, err));
    GP_RETURN_IF_FAILED(check_pair(desc, "pad", conv->pad, 0, err));
    GP_RETURN_IF_FAILED(check_pair(desc, "dilation", conv->dilation, 1, err));
    if (conv->groups < 1) {
        return gp_op_refuse(desc, err, "%lld groups, which must be at least 1", (long long)conv->groups);
    }
    if (in % conv->groups || out % conv->groups) {
        return gp_op_refuse(desc, err, "%lld groups do not divide both %lld and %lld channels", (long long)conv->groups,
                            (long long)in, (long long)out);
    }
    *gp_op_size(sizes, 'c') = in / conv->groups;
    for (int d = 0; d < 2; d++) {
        int64_t padded = *gp_op_size(sizes, "hw"[d]) + 2 * conv->pad[d];
        int64_t reach = conv->dilation[d] * (conv->kernel[d] - 1) + 1;
        if (reach > padded) {
            return gp_op_refuse(desc, err, "kernel covers %lld elements, but the padded input has only %lld",
                                (long long)reach, (long long)padded);
        }
        *gp_op_size(sizes, "jk"[d]) = conv->kernel[d];
        *gp_op_size(sizes, "pq"[d]) = (padded - reach) / conv->stride[d] + 1;
    }
    return GP_OK;
}

static gp_status check_windows(const gp_op_desc *desc, int64_t count_pad, const gp_op_sizes *sizes, gp_error *err) {
    const gp_pool_attributes *pool = &desc->attributes.pool;
    const int64_t in[2] = {sizes->of['h' - 'a'], sizes->of['w' - 'a']};
    const int64_t windows[2] = {sizes->of['p' - 'a'], sizes->of['q' - 'a']};
    GP_RETURN_IF_FAILED(check_pair(desc, "kernel", pool->kernel, 1, err));
    GP_RETURN_IF_FAILED(check_pair(desc, "stride", pool->stride, 1, err));
    GP_RETURN_IF_FAILED(check_pair(desc, "pad", pool->pad, 0, err));
    if (pool->kernel[0] * pool->kernel[1] > GP_POOL_MAX_PLACES) {
        return gp_op_refuse(desc, err, "kernel %lldx%lld has more than %d elements, the most that an index can hold",
                            (long long)pool->kernel[0], (long long)pool->kernel[1], GP_POOL_MAX_PLACES);
    }
    if (pool->count_pad < 0 || pool->count_pad > count_pad) {
        return gp_op_refuse(desc, err, "count_pad is %lld, which must be 0%s", (long long)pool->count_pad,
                            count_pad ? " or 1" : "");
    }
    if (2 * pool->pad[0] > pool->kernel[0] || 2 * pool->pad[1] > pool->kernel[1]) {
        return gp_op_refuse(desc, err, "pad %lldx%lld is more than half of kernel %lldx%lld", (long long)pool->pad[0],
                            (long long)pool->pad[1], (long long)pool->kernel[0], (long long)pool->kernel[1]);
    }
    for (int d = 0; d < 2; d++) {
        int64_t padded = in[d] + 2 * pool->pad[d];
        int64_t least = gp_pool_outputs(in[d], pool->kernel[d], pool->stride[d], pool->pad[d], false);
        int64_t most = gp_pool_outputs(in[d], pool->kernel[d], pool->stride[d], pool->pad[d], true);
        if (most < 1) {
            return gp_op_refuse(desc, err, "kernel %lld is larger than the padded input of %lld",
                                (long long)pool->kernel[d], (long long)padded);
        }
        if (windows[d] != least && windows[d] != most) {
            return gp_op_refuse(desc, err, "%lld windows over %lld elements, which must be %lld%s",
                                (long long)windows[d], (long long)in[d], (long long)(least < 1 ? most : least),
                                least >= 1 && most > least ? ", or one more" : "");
        }
    }
    return GP_OK;
}

static gp_status rule_max_pool(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    return check_windows(desc, 0, sizes, err);
}

static gp_status rule_avg_pool(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    return check_windows(desc, 1, sizes, err);
}

static gp_status rule_upsample(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    for (int d = 0; d < 2; d++) {
        int64_t small = *gp_op_size(sizes, "hw"[d]), large = *gp_op_size(sizes, "pq"[d]);
        if (large % small) {
            return gp_op_refuse(desc, err, "dimension %d of %s is %lld, which must be a multiple of %lld", 1 + d,
                                desc->kind == GP_OP_UPSAMPLE_FORWARD ? "y" : "dy", (long long)large, (long long)small);
        }
    }
    return GP_OK;
}

static gp_status rule_flatten(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    (void)desc;
    (void)err;
    int64_t elements = *gp_op_size(sizes, 'w');
    for (int d = 0; d < sizes->rest.rank; d++) elements *= sizes->rest.dim[d];
    *gp_op_size(sizes, 'f') = elements;
    return GP_OK;
}

static gp_status check_eps(const gp_op_desc *desc, double eps, gp_error *err) {
    if (eps >= 0 && isfinite(eps)) return GP_OK;
    return gp_op_refuse(desc, err, "eps is %g, which must be at least 0", eps);
}

static gp_status rule_norm(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_norm_attributes *norm = &desc->attributes.norm;
    (void)sizes;
    GP_RETURN_IF_FAILED(check_eps(desc, norm->eps, err));
    if (!(norm->momentum >= 0 && norm->momentum <= 1))
        return gp_op_refuse(desc, err, "momentum is %g, which must be 0 to 1", norm->momentum);
    if (norm->rows_summed >= 0) return GP_OK;
    return gp_op_refuse(desc, err, "sums over %lld rows", (long long)norm->rows_summed);
}

static gp_status check_parts(const gp_op_desc *desc, int64_t pieces, gp_error *err) {
    const gp_norm_attributes *norm = &desc->attributes.norm;
    if (norm->rows_last >= 1 && (pieces == 1 || norm->rows_full >= norm->rows_last)) return GP_OK;
    return gp_op_refuse(desc, err, "parts of %lld rows and a last part of %lld", (long long)norm->rows_full,
                        (long long)norm->rows_last);
}

static gp_status rule_norm_merge(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    GP_RETURN_IF_FAILED(rule_norm(desc, sizes, err));
    return check_parts(desc, *gp_op_size(sizes, 'p'), err);
}

static gp_status rule_norm_commit(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_norm_attributes *norm = &desc->attributes.norm;
    int64_t pieces = *gp_op_size(sizes, 'p');
    GP_RETURN_IF_FAILED(rule_norm(desc, sizes, err));
    GP_RETURN_IF_FAILED(check_parts(desc, pieces, err));
    if (norm->replicas > 1 && (pieces % norm->replicas != 0 || norm->rows_sample < 1))
        return gp_op_refuse(desc, err, "%lld parts of %lld replicas, and %lld rows of a sample", (long long)pieces,
                            (long long)norm->replicas, (long long)norm->rows_sample);
    if (pieces > 1 || norm->rows_last > 1) return GP_OK;
    return gp_op_refuse(desc, err, "only one row, which has no unbiased variance");
}

static gp_status rule_loss_total(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_loss_total_attributes *total = &desc->attributes.loss_total;
    int64_t pieces = *gp_op_size(sizes, 'p'), replicas = total->replicas;
    if (replicas == 0 && total->full == 0 && total->last == 0) return GP_OK;
    bool right = replicas > 0 && pieces % replicas == 0 && total->full > 0 && total->full <= replicas &&
                 total->last > 0 && total->last <= replicas;
    if (right) return GP_OK;
    return gp_op_refuse(desc, err, "%lld parts of %lld replicas, of which %lld are there, and %lld of the last",
                        (long long)pieces, (long long)replicas, (long long)total->full, (long long)total->last);
}

static gp_status rule_group_norm(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    int64_t groups = desc->attributes.group_norm.groups, channels = *gp_op_size(sizes, 'c');
    GP_RETURN_IF_FAILED(check_eps(desc, desc->attributes.group_norm.eps, err));
    *gp_op_size(sizes, 'g') = groups;
    if (groups >= 1 && channels % groups == 0) return GP_OK;
    return gp_op_refuse(desc, err, "%lld groups do not divide %lld channels", (long long)groups, (long long)channels);
}

static gp_status rule_activation(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_activation_attributes *activation = &desc->attributes.activation;
    (void)sizes;
    if (activation->function >= GP_ACTIVATIONS) {
        return gp_op_refuse(desc, err, "%u is not a function", activation->function);
    }
    if (!isfinite(activation->slope) || (activation->slope != 0 && activation->function != GP_LEAKY_RELU)) {
        return gp_op_refuse(desc, err, "slope is %g, which must be finite, and 0 except for leaky_relu",
                            activation->slope);
    }
    if (activation->reserved) return gp_op_refuse(desc, err, "reserved must be 0");
    return GP_OK;
}

static gp_status rule_dropout(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_dropout_attributes *dropout = &desc->attributes.dropout;
    const gp_tensor *x = &desc->operand[GP_DROPOUT_X];
    (void)sizes;
    if (!(dropout->p >= 0 && dropout->p < 1)) {
        return gp_op_refuse(desc, err, "p is %g, which must be at least 0 and below 1", dropout->p);
    }
    if (dropout->channels > 1 || dropout->reserved) {
        return gp_op_refuse(desc, err, "channels must be 0 or 1, reserved 0");
    }
    if (dropout->channels && x->rank != 4) return gp_op_refuse(desc, err, "rank of x is %d, which must be 4", x->rank);
    if (dropout->node >> 24 || dropout->purpose >> 8) {
        return gp_op_refuse(desc, err, "node %u and purpose %u do not fit one word of a counter", dropout->node,
                            dropout->purpose);
    }
    int64_t elements = gp_tensor_elements(x) / x->dim[0];
    if (elements / 4 > UINT32_MAX) {
        return gp_op_refuse(desc, err, "%lld elements in a sample do not fit a counter", (long long)elements);
    }
    return GP_OK;
}

/* x and target have the same positions in both directions. */
static gp_status rule_cross_entropy(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_tensor *target = &desc->operand[GP_CROSS_ENTROPY_FORWARD_TARGET];
    int64_t rows = gp_tensor_rows(&desc->operand[GP_CROSS_ENTROPY_FORWARD_X]);
    double smoothing = desc->attributes.cross_entropy.smoothing;
    (void)sizes;
    if (!(smoothing >= 0 && smoothing <= 1)) {
        return gp_op_refuse(desc, err, "smoothing is %g, which must be 0 to 1", smoothing);
    }
    if (!gp_tensor_contiguous(target) || gp_tensor_elements(target) != rows) {
        char text[GP_SHAPE_TEXT];
        return gp_op_refuse(desc, err, "target is %s, which must be %lld elements without gaps",
                            gp_op_dims_text(text, target), (long long)rows);
    }
    return GP_OK;
}

static gp_status rule_element_loss(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_element_loss_attributes *loss = &desc->attributes.element_loss;
    (void)sizes;
    if (loss->function < GP_ELEMENT_LOSSES && !loss->reserved) return GP_OK;
    return gp_op_refuse(desc, err, "%u is not a function of elements, or reserved is not 0", loss->function);
}

static gp_status rule_blocks(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    int64_t elements = desc->attributes.blocks.elements;
    if (elements < 1)
        return gp_op_refuse(desc, err, "blocks of %lld elements, which must be at least 1", (long long)elements);
    *gp_op_size(sizes, 'p') = (gp_tensor_elements(&desc->operand[GP_SQUARE_BLOCKS_X]) + elements - 1) / elements;
    return GP_OK;
}

static gp_status rule_clip(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    double most = desc->attributes.clip.max_norm;
    (void)sizes;
    if (most >= 0 && isfinite(most)) return GP_OK;
    return gp_op_refuse(desc, err, "max_norm %g, which must be at least 0", most);
}

static gp_status rule_sgd(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_sgd_attributes *sgd = &desc->attributes.sgd;
    (void)sizes;
    if (!(sgd->momentum >= 0 && sgd->decay >= 0) || !isfinite(sgd->momentum) || !isfinite(sgd->decay)) {
        return gp_op_refuse(desc, err, "momentum %g and decay %g, which must be at least 0", sgd->momentum, sgd->decay);
    }
    if (sgd->nesterov > 1 || sgd->reserved) return gp_op_refuse(desc, err, "nesterov must be 0 or 1, reserved 0");
    if (sgd->nesterov && sgd->momentum == 0) return gp_op_refuse(desc, err, "nesterov without momentum");
    if ((sgd->momentum != 0) == (desc->operand[GP_SGD_MOMENTUM].present != 0)) return GP_OK;
    return gp_op_refuse(desc, err, "momentum %g and its state must both be present, or both absent", sgd->momentum);
}

static bool is_share(double beta) {
    return beta >= 0 && beta < 1;
}

static gp_status rule_adam(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    const gp_adam_attributes *adam = &desc->attributes.adam;
    (void)sizes;
    if (!is_share(adam->beta1) || !is_share(adam->beta2))
        return gp_op_refuse(desc, err, "betas %g and %g, which must be at least 0 and below 1", adam->beta1,
                            adam->beta2);
    if (!(adam->eps >= 0 && adam->decay >= 0) || !isfinite(adam->eps) || !isfinite(adam->decay))
        return gp_op_refuse(desc, err, "eps %g and decay %g, which must be at least 0", adam->eps, adam->decay);
    if (adam->decoupled > 1 || adam->reserved) return gp_op_refuse(desc, err, "decoupled must be 0 or 1, reserved 0");
    return GP_OK;
}

gp_status gp_op_apply_rule(const gp_op_desc *desc, gp_op_sizes *sizes, gp_error *err) {
    static rule *const rules[GP_OP_KINDS] = {
#define GP_OP(NAME, name, attributes, rule, ...) [GP_OP_##NAME] = rule_##rule,
#include "device/op_table.inc"
    };
    return rules[desc->kind](desc, sizes, err);
}
