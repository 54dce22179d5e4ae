#include "device/op_check.h"

#include <math.h>

enum { ABSENT = -1 };

size_t gp_op_attribute_bytes(gp_op_kind kind) {
    switch ((int)kind) {
    case GP_OP_CONV_FORWARD:
    case GP_OP_CONV_BACKWARD_DATA:
    case GP_OP_CONV_BACKWARD_WEIGHTS: return sizeof(gp_conv_attributes);
    case GP_OP_NORM_STATISTICS:
    case GP_OP_NORM_APPLY:
    case GP_OP_NORM_BACKWARD_REDUCE:
    case GP_OP_NORM_BACKWARD_DATA:
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

static const char *dims_text(char buffer[GP_SHAPE_TEXT], const gp_tensor *tensor) {
    gp_shape shape = {.rank = tensor->rank};
    for (int d = 0; d < tensor->rank; d++) shape.dim[d] = tensor->dim[d];
    return gp_shape_text(buffer, shape);
}

static int64_t last_dim(const gp_tensor *tensor) {
    return tensor->dim[tensor->rank - 1];
}

static gp_status expect_rank(const gp_op_desc *desc, int i, int least, int most, gp_error *err) {
    int rank = desc->operand[i].rank;
    if (rank >= least && rank <= most) return GP_OK;
    if (least == most) {
        return gp_op_refuse(desc, err, "rank of %s is %d, which must be %d", gp_op_operand_name(desc->kind, i), rank,
                            least);
    }
    return gp_op_refuse(desc, err, "rank of %s is %d, which must be %d to %d", gp_op_operand_name(desc->kind, i), rank,
                        least, most);
}

/* An absent operand fits. */
static gp_status expect_dims(const gp_op_desc *desc, int i, int rank, const int64_t *dim, gp_error *err) {
    const gp_tensor *tensor = &desc->operand[i];
    if (!tensor->present) return GP_OK;
    gp_tensor expected = gp_tensor_plain(tensor->dtype, rank, dim);
    if (gp_tensor_same_dims(tensor, &expected)) return GP_OK;
    char is[GP_SHAPE_TEXT], must[GP_SHAPE_TEXT];
    return gp_op_refuse(desc, err, "%s is %s, which must be %s", gp_op_operand_name(desc->kind, i),
                        dims_text(is, tensor), dims_text(must, &expected));
}

static gp_status expect_same(const gp_op_desc *desc, int i, int as, gp_error *err) {
    return expect_dims(desc, i, desc->operand[as].rank, desc->operand[as].dim, err);
}

/* Relu, activations, add, copy and reorder: all operands have the dimensions of the first. */
static gp_status check_elementwise(const gp_op_desc *desc, gp_error *err) {
    for (int i = 1; i < (int)desc->operands; i++) GP_RETURN_IF_FAILED(expect_same(desc, i, 0, err));
    return GP_OK;
}

static gp_status expect_vector(const gp_op_desc *desc, int i, int64_t width, gp_error *err) {
    return expect_dims(desc, i, 1, &width, err);
}

static gp_status expect_range(const gp_op_desc *desc, const char *what, const int64_t value[2], int64_t least,
                              gp_error *err) {
    for (int d = 0; d < 2; d++) {
        if (value[d] < least || value[d] > INT32_MAX) {
            return gp_op_refuse(desc, err, "%s %lldx%lld, which must be at least %lld", what, (long long)value[0],
                                (long long)value[1], (long long)least);
        }
    }
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
        return (weighted_operands){GP_CONV_BACKWARD_DATA_DX, GP_CONV_BACKWARD_DATA_W, ABSENT, GP_CONV_BACKWARD_DATA_DY};
    case GP_OP_CONV_BACKWARD_WEIGHTS:
        return (weighted_operands){GP_CONV_BACKWARD_WEIGHTS_X, GP_CONV_BACKWARD_WEIGHTS_DW, GP_CONV_BACKWARD_WEIGHTS_DB,
                                   GP_CONV_BACKWARD_WEIGHTS_DY};
    case GP_OP_LINEAR_FORWARD:
        return (weighted_operands){GP_LINEAR_FORWARD_X, GP_LINEAR_FORWARD_W, GP_LINEAR_FORWARD_B, GP_LINEAR_FORWARD_Y};
    case GP_OP_LINEAR_BACKWARD_DATA:
        return (weighted_operands){GP_LINEAR_BACKWARD_DATA_DX, GP_LINEAR_BACKWARD_DATA_W, ABSENT,
                                   GP_LINEAR_BACKWARD_DATA_DY};
    default:
        return (weighted_operands){GP_LINEAR_BACKWARD_WEIGHTS_X, GP_LINEAR_BACKWARD_WEIGHTS_DW,
                                   GP_LINEAR_BACKWARD_WEIGHTS_DB, GP_LINEAR_BACKWARD_WEIGHTS_DY};
    }
}

static gp_status check_conv_attributes(const gp_op_desc *desc, gp_error *err) {
    const gp_conv_attributes *conv = &desc->attributes.conv;
    GP_RETURN_IF_FAILED(expect_range(desc, "kernel", conv->kernel, 1, err));
    GP_RETURN_IF_FAILED(expect_range(desc, "stride", conv->stride, 1, err));
    GP_RETURN_IF_FAILED(expect_range(desc, "pad", conv->pad, 0, err));
    GP_RETURN_IF_FAILED(expect_range(desc, "dilation", conv->dilation, 1, err));
    if (conv->groups < 1) {
        return gp_op_refuse(desc, err, "%lld groups, which must be at least 1", (long long)conv->groups);
    }
    return GP_OK;
}

static gp_status check_conv(const gp_op_desc *desc, gp_error *err) {
    GP_RETURN_IF_FAILED(check_conv_attributes(desc, err));
    const gp_conv_attributes *conv = &desc->attributes.conv;
    weighted_operands at = weighted_operands_of(desc->kind);
    GP_RETURN_IF_FAILED(expect_rank(desc, at.x, 4, 4, err));
    GP_RETURN_IF_FAILED(expect_rank(desc, at.w, 4, 4, err));
    const gp_tensor *x = &desc->operand[at.x], *w = &desc->operand[at.w];
    int64_t in = x->dim[3], out = w->dim[0];
    if (in % conv->groups || out % conv->groups) {
        return gp_op_refuse(desc, err, "%lld groups divide not both %lld and %lld channels", (long long)conv->groups,
                            (long long)in, (long long)out);
    }
    int64_t kernel[4] = {out, in / conv->groups, conv->kernel[0], conv->kernel[1]};
    GP_RETURN_IF_FAILED(expect_dims(desc, at.w, 4, kernel, err));
    int64_t dim[4] = {x->dim[0], 0, 0, out};
    for (int d = 0; d < 2; d++) {
        int64_t padded = x->dim[1 + d] + 2 * conv->pad[d];
        int64_t reach = conv->dilation[d] * (conv->kernel[d] - 1) + 1;
        if (reach > padded) {
            return gp_op_refuse(desc, err, "kernel reaches over %lld of a padded input of %lld", (long long)reach,
                                (long long)padded);
        }
        dim[1 + d] = (padded - reach) / conv->stride[d] + 1;
    }
    GP_RETURN_IF_FAILED(expect_dims(desc, at.y, 4, dim, err));
    return at.b == ABSENT ? GP_OK : expect_vector(desc, at.b, out, err);
}

static gp_status check_linear(const gp_op_desc *desc, gp_error *err) {
    weighted_operands at = weighted_operands_of(desc->kind);
    GP_RETURN_IF_FAILED(expect_rank(desc, at.x, 2, 4, err));
    GP_RETURN_IF_FAILED(expect_rank(desc, at.w, 2, 2, err));
    const gp_tensor *x = &desc->operand[at.x];
    int64_t out = desc->operand[at.w].dim[0];
    GP_RETURN_IF_FAILED(expect_dims(desc, at.w, 2, (const int64_t[]){out, last_dim(x)}, err));
    gp_tensor y = *x;
    y.dim[y.rank - 1] = out;
    GP_RETURN_IF_FAILED(expect_dims(desc, at.y, y.rank, y.dim, err));
    return at.b == ABSENT ? GP_OK : expect_vector(desc, at.b, out, err);
}

static gp_status check_norm_attributes(const gp_op_desc *desc, gp_error *err) {
    const gp_norm_attributes *norm = &desc->attributes.norm;
    if (!(norm->eps >= 0) || !isfinite(norm->eps)) {
        return gp_op_refuse(desc, err, "eps is %g, which must be at least 0", norm->eps);
    }
    if (!(norm->momentum >= 0 && norm->momentum <= 1)) {
        return gp_op_refuse(desc, err, "momentum is %g, which must be 0 to 1", norm->momentum);
    }
    return GP_OK;
}

/* Every operand of the four ops on rows is like x, or a vector over its channels, or a pair of these. */
static gp_status check_norm(const gp_op_desc *desc, gp_error *err) {
    static const struct {
        gp_op_kind kind;
        int same[2], vector[4], pair;
    } table[] = {
        {GP_OP_NORM_STATISTICS, {ABSENT, ABSENT}, {ABSENT, ABSENT, ABSENT, ABSENT}, GP_NORM_STATISTICS_STATS},
        {GP_OP_NORM_APPLY,
         {GP_NORM_APPLY_Y, ABSENT},
         {GP_NORM_APPLY_MEAN, GP_NORM_APPLY_VARIANCE, GP_NORM_APPLY_GAMMA, GP_NORM_APPLY_BETA},
         ABSENT},
        {GP_OP_NORM_BACKWARD_REDUCE,
         {GP_NORM_BACKWARD_REDUCE_DY, ABSENT},
         {GP_NORM_BACKWARD_REDUCE_MEAN, GP_NORM_BACKWARD_REDUCE_VARIANCE, ABSENT, ABSENT},
         GP_NORM_BACKWARD_REDUCE_SUMS},
        {GP_OP_NORM_BACKWARD_DATA,
         {GP_NORM_BACKWARD_DATA_DY, GP_NORM_BACKWARD_DATA_DX},
         {GP_NORM_BACKWARD_DATA_MEAN, GP_NORM_BACKWARD_DATA_VARIANCE, GP_NORM_BACKWARD_DATA_GAMMA, ABSENT},
         GP_NORM_BACKWARD_DATA_SUMS},
    };
    GP_RETURN_IF_FAILED(check_norm_attributes(desc, err));
    GP_RETURN_IF_FAILED(expect_rank(desc, 0, 2, 4, err));
    int64_t width = last_dim(&desc->operand[0]);
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
        if (table[t].kind != desc->kind) continue;
        for (int i = 0; i < 2; i++) {
            if (table[t].same[i] != ABSENT) GP_RETURN_IF_FAILED(expect_same(desc, table[t].same[i], 0, err));
        }
        for (int i = 0; i < 4; i++) {
            if (table[t].vector[i] != ABSENT) GP_RETURN_IF_FAILED(expect_vector(desc, table[t].vector[i], width, err));
        }
        if (table[t].pair == ABSENT) continue;
        GP_RETURN_IF_FAILED(expect_dims(desc, table[t].pair, 2, (const int64_t[]){2, width}, err));
    }
    return GP_OK;
}

static gp_status check_norm_commit(const gp_op_desc *desc, gp_error *err) {
    const gp_norm_attributes *norm = &desc->attributes.norm;
    const gp_tensor *stats = &desc->operand[GP_NORM_COMMIT_STATS];
    GP_RETURN_IF_FAILED(check_norm_attributes(desc, err));
    GP_RETURN_IF_FAILED(expect_rank(desc, GP_NORM_COMMIT_STATS, 3, 3, err));
    int64_t pieces = stats->dim[0], width = stats->dim[2];
    GP_RETURN_IF_FAILED(expect_dims(desc, GP_NORM_COMMIT_STATS, 3, (const int64_t[]){pieces, 2, width}, err));
    GP_RETURN_IF_FAILED(expect_vector(desc, GP_NORM_COMMIT_MEAN, width, err));
    GP_RETURN_IF_FAILED(expect_vector(desc, GP_NORM_COMMIT_VARIANCE, width, err));
    if (norm->rows_last < 1 || (pieces > 1 && norm->rows_full < norm->rows_last)) {
        return gp_op_refuse(desc, err, "pieces of %lld rows and a last one of %lld", (long long)norm->rows_full,
                            (long long)norm->rows_last);
    }
    if (pieces == 1 && norm->rows_last == 1) {
        return gp_op_refuse(desc, err, "one row in all, which has no unbiased variance");
    }
    return GP_OK;
}

/* Like x, vectors over its channels, and the stats of each group, by operand of the three ops. */
static gp_status check_group_norm(const gp_op_desc *desc, gp_error *err) {
    static const struct {
        gp_op_kind kind;
        int same[2], vector[2], stats;
    } table[] = {
        {GP_OP_GROUP_NORM_FORWARD,
         {GP_GROUP_NORM_FORWARD_Y, ABSENT},
         {GP_GROUP_NORM_FORWARD_GAMMA, GP_GROUP_NORM_FORWARD_BETA},
         GP_GROUP_NORM_FORWARD_STATS},
        {GP_OP_GROUP_NORM_BACKWARD_DATA,
         {GP_GROUP_NORM_BACKWARD_DATA_DY, GP_GROUP_NORM_BACKWARD_DATA_DX},
         {GP_GROUP_NORM_BACKWARD_DATA_GAMMA, ABSENT},
         GP_GROUP_NORM_BACKWARD_DATA_STATS},
        {GP_OP_GROUP_NORM_BACKWARD_WEIGHTS,
         {GP_GROUP_NORM_BACKWARD_WEIGHTS_DY, ABSENT},
         {GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA, GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA},
         GP_GROUP_NORM_BACKWARD_WEIGHTS_STATS},
    };
    const gp_group_norm_attributes *norm = &desc->attributes.group_norm;
    if (!(norm->eps >= 0) || !isfinite(norm->eps)) {
        return gp_op_refuse(desc, err, "eps is %g, which must be at least 0", norm->eps);
    }
    GP_RETURN_IF_FAILED(expect_rank(desc, 0, 2, 4, err));
    const gp_tensor *x = &desc->operand[0];
    if (norm->groups < 1 || last_dim(x) % norm->groups) {
        return gp_op_refuse(desc, err, "%lld groups do not divide %lld channels", (long long)norm->groups,
                            (long long)last_dim(x));
    }
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
        if (table[t].kind != desc->kind) continue;
        for (int i = 0; i < 2; i++) {
            if (table[t].same[i] != ABSENT) GP_RETURN_IF_FAILED(expect_same(desc, table[t].same[i], 0, err));
            if (table[t].vector[i] == ABSENT) continue;
            GP_RETURN_IF_FAILED(expect_vector(desc, table[t].vector[i], last_dim(x), err));
        }
        const int64_t stats[] = {x->dim[0], norm->groups, 2};
        GP_RETURN_IF_FAILED(expect_dims(desc, table[t].stats, 3, stats, err));
    }
    return GP_OK;
}

static gp_status check_activation(const gp_op_desc *desc, gp_error *err) {
    const gp_activation_attributes *activation = &desc->attributes.activation;
    if (activation->function >= GP_ACTIVATIONS) {
        return gp_op_refuse(desc, err, "%u is not a function", activation->function);
    }
    if (!isfinite(activation->slope) || (activation->slope != 0 && activation->function != GP_LEAKY_RELU)) {
        return gp_op_refuse(desc, err, "slope is %g, which must be finite, and 0 but for leaky_relu",
                            activation->slope);
    }
    if (activation->reserved) return gp_op_refuse(desc, err, "reserved must be 0");
    return check_elementwise(desc, err);
}

static gp_status check_pool_attributes(const gp_op_desc *desc, gp_error *err) {
    const gp_pool_attributes *pool = &desc->attributes.pool;
    GP_RETURN_IF_FAILED(expect_range(desc, "kernel", pool->kernel, 1, err));
    GP_RETURN_IF_FAILED(expect_range(desc, "stride", pool->stride, 1, err));
    GP_RETURN_IF_FAILED(expect_range(desc, "pad", pool->pad, 0, err));
    if (pool->kernel[0] * pool->kernel[1] > GP_POOL_MAX_PLACES) {
        return gp_op_refuse(desc, err, "kernel %lldx%lld has more than the %d places that an index can name",
                            (long long)pool->kernel[0], (long long)pool->kernel[1], GP_POOL_MAX_PLACES);
    }
    bool average = desc->kind == GP_OP_AVG_POOL_FORWARD || desc->kind == GP_OP_AVG_POOL_BACKWARD;
    if (pool->count_pad < 0 || pool->count_pad > (average ? 1 : 0)) {
        return gp_op_refuse(desc, err, "count_pad is %lld, which must be 0%s", (long long)pool->count_pad,
                            average ? " or 1" : "");
    }
    if (2 * pool->pad[0] > pool->kernel[0] || 2 * pool->pad[1] > pool->kernel[1]) {
        return gp_op_refuse(desc, err, "pad %lldx%lld is more than half of kernel %lldx%lld", (long long)pool->pad[0],
                            (long long)pool->pad[1], (long long)pool->kernel[0], (long long)pool->kernel[1]);
    }
    return GP_OK;
}

/* The output may be that of either rounding (ceil mode), as long as every window begins inside the input or its first
 * padding, so that it holds an element of the input. */
static gp_status check_pool(const gp_op_desc *desc, int at_x, int at_y, gp_error *err) {
    const gp_pool_attributes *pool = &desc->attributes.pool;
    GP_RETURN_IF_FAILED(check_pool_attributes(desc, err));
    GP_RETURN_IF_FAILED(expect_rank(desc, at_x, 4, 4, err));
    GP_RETURN_IF_FAILED(expect_rank(desc, at_y, 4, 4, err));
    const gp_tensor *x = &desc->operand[at_x], *y = &desc->operand[at_y];
    for (int d = 0; d < 2; d++) {
        int64_t height = x->dim[1 + d], padded = height + 2 * pool->pad[d], stride = pool->stride[d];
        int64_t least = gp_pool_outputs(height, pool->kernel[d], stride, pool->pad[d], false);
        int64_t most = gp_pool_outputs(height, pool->kernel[d], stride, pool->pad[d], true);
        if (most < 1) {
            return gp_op_refuse(desc, err, "kernel %lld is larger than the padded input of %lld",
                                (long long)pool->kernel[d], (long long)padded);
        }
        if (y->dim[1 + d] != least && y->dim[1 + d] != most) {
            return gp_op_refuse(desc, err, "%lld windows over %lld elements, which must be %lld%s",
                                (long long)y->dim[1 + d], (long long)height, (long long)(least < 1 ? most : least),
                                least >= 1 && most > least ? ", or one more" : "");
        }
    }
    int64_t dim[4] = {x->dim[0], y->dim[1], y->dim[2], x->dim[3]};
    return expect_dims(desc, at_y, 4, dim, err);
}

static gp_status check_max_pool(const gp_op_desc *desc, gp_error *err) {
    bool forward = desc->kind == GP_OP_MAX_POOL_FORWARD;
    int at_y = forward ? GP_MAX_POOL_FORWARD_Y : GP_MAX_POOL_BACKWARD_DY;
    GP_RETURN_IF_FAILED(check_pool(desc, forward ? GP_MAX_POOL_FORWARD_X : GP_MAX_POOL_BACKWARD_DX, at_y, err));
    return expect_same(desc, forward ? GP_MAX_POOL_FORWARD_INDEX : GP_MAX_POOL_BACKWARD_INDEX, at_y, err);
}

static gp_status check_upsample(const gp_op_desc *desc, int at_x, int at_y, gp_error *err) {
    GP_RETURN_IF_FAILED(expect_rank(desc, at_x, 4, 4, err));
    GP_RETURN_IF_FAILED(expect_rank(desc, at_y, 4, 4, err));
    const gp_tensor *x = &desc->operand[at_x], *y = &desc->operand[at_y];
    for (int d = 1; d <= 2; d++) {
        if (y->dim[d] % x->dim[d]) {
            return gp_op_refuse(desc, err, "dimension %d of %s is %lld, which must be a multiple of %lld", d,
                                gp_op_operand_name(desc->kind, at_y), (long long)y->dim[d], (long long)x->dim[d]);
        }
    }
    return expect_dims(desc, at_y, 4, (const int64_t[]){x->dim[0], y->dim[1], y->dim[2], x->dim[3]}, err);
}

static gp_status check_mean_pool(const gp_op_desc *desc, int at_x, int at_y, gp_error *err) {
    GP_RETURN_IF_FAILED(expect_rank(desc, at_x, 4, 4, err));
    const gp_tensor *x = &desc->operand[at_x];
    return expect_dims(desc, at_y, 4, (const int64_t[]){x->dim[0], 1, 1, x->dim[3]}, err);
}

static gp_status check_flatten(const gp_op_desc *desc, int at_sample, int at_flat, gp_error *err) {
    GP_RETURN_IF_FAILED(expect_rank(desc, at_sample, 2, 4, err));
    const gp_tensor *sample = &desc->operand[at_sample];
    int64_t width = gp_tensor_elements(sample) / sample->dim[0];
    return expect_dims(desc, at_flat, 2, (const int64_t[]){sample->dim[0], width}, err);
}

static gp_status check_dropout(const gp_op_desc *desc, gp_error *err) {
    const gp_dropout_attributes *dropout = &desc->attributes.dropout;
    GP_RETURN_IF_FAILED(expect_rank(desc, GP_DROPOUT_X, 2, 4, err));
    GP_RETURN_IF_FAILED(expect_same(desc, GP_DROPOUT_Y, GP_DROPOUT_X, err));
    if (!(dropout->p >= 0 && dropout->p < 1)) {
        return gp_op_refuse(desc, err, "p is %g, which must be at least 0 and below 1", dropout->p);
    }
    if (dropout->channels > 1 || dropout->reserved) {
        return gp_op_refuse(desc, err, "channels must be 0 or 1, reserved 0");
    }
    if (dropout->channels) GP_RETURN_IF_FAILED(expect_rank(desc, GP_DROPOUT_X, 4, 4, err));
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
    GP_RETURN_IF_FAILED(expect_rank(desc, at_x, 2, 4, err));
    if (!(smoothing >= 0 && smoothing <= 1)) {
        return gp_op_refuse(desc, err, "smoothing is %g, which must be 0 to 1", smoothing);
    }
    if (!gp_tensor_contiguous(target) || gp_tensor_elements(target) != gp_tensor_rows(x)) {
        char text[GP_SHAPE_TEXT];
        return gp_op_refuse(desc, err, "target is %s, which must be %lld elements without gaps",
                            dims_text(text, target), (long long)gp_tensor_rows(x));
    }
    if (forward) return expect_vector(desc, GP_CROSS_ENTROPY_FORWARD_PARTIAL, 2, err);
    return expect_same(desc, GP_CROSS_ENTROPY_BACKWARD_DX, GP_CROSS_ENTROPY_BACKWARD_X, err);
}

static gp_status check_element_loss(const gp_op_desc *desc, gp_error *err) {
    const gp_element_loss_attributes *loss = &desc->attributes.element_loss;
    if (loss->function >= GP_ELEMENT_LOSSES || loss->reserved) {
        return gp_op_refuse(desc, err, "%u is not a function of elements, or reserved is not 0", loss->function);
    }
    GP_RETURN_IF_FAILED(expect_rank(desc, GP_ELEMENT_LOSS_FORWARD_X, 1, 4, err));
    GP_RETURN_IF_FAILED(expect_same(desc, GP_ELEMENT_LOSS_FORWARD_TARGET, GP_ELEMENT_LOSS_FORWARD_X, err));
    if (desc->kind == GP_OP_ELEMENT_LOSS_FORWARD) return expect_vector(desc, GP_ELEMENT_LOSS_FORWARD_PARTIAL, 2, err);
    return expect_same(desc, GP_ELEMENT_LOSS_BACKWARD_DX, GP_ELEMENT_LOSS_BACKWARD_X, err);
}

static gp_status check_loss_total(const gp_op_desc *desc, gp_error *err) {
    GP_RETURN_IF_FAILED(expect_rank(desc, GP_LOSS_TOTAL_PARTIAL, 2, 2, err));
    int64_t pieces = desc->operand[GP_LOSS_TOTAL_PARTIAL].dim[0];
    return expect_dims(desc, GP_LOSS_TOTAL_PARTIAL, 2, (const int64_t[]){pieces, 2}, err);
}

static gp_status check_clip_total(const gp_op_desc *desc, gp_error *err) {
    double most = desc->attributes.clip.max_norm;
    if (!(most >= 0) || !isfinite(most)) return gp_op_refuse(desc, err, "max_norm %g, which must be at least 0", most);
    return expect_rank(desc, GP_CLIP_TOTAL_SQUARES, 1, 1, err);
}

static gp_status check_sgd(const gp_op_desc *desc, gp_error *err) {
    const gp_sgd_attributes *sgd = &desc->attributes.sgd;
    if (!(sgd->momentum >= 0 && sgd->decay >= 0) || !isfinite(sgd->momentum) || !isfinite(sgd->decay)) {
        return gp_op_refuse(desc, err, "momentum %g and decay %g, which must be at least 0", sgd->momentum, sgd->decay);
    }
    if (sgd->nesterov > 1 || sgd->reserved) return gp_op_refuse(desc, err, "nesterov must be 0 or 1, reserved 0");
    if (sgd->nesterov && sgd->momentum == 0) return gp_op_refuse(desc, err, "nesterov without momentum");
    if ((sgd->momentum != 0) != (desc->operand[GP_SGD_MOMENTUM].present != 0)) {
        return gp_op_refuse(desc, err, "momentum %g and its state must be there together", sgd->momentum);
    }
    GP_RETURN_IF_FAILED(expect_same(desc, GP_SGD_GRAD, GP_SGD_PARAM, err));
    return expect_same(desc, GP_SGD_MOMENTUM, GP_SGD_PARAM, err);
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
    GP_RETURN_IF_FAILED(expect_same(desc, GP_ADAM_GRAD, GP_ADAM_PARAM, err));
    GP_RETURN_IF_FAILED(expect_same(desc, GP_ADAM_M, GP_ADAM_PARAM, err));
    return expect_same(desc, GP_ADAM_V, GP_ADAM_PARAM, err);
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
    case GP_OP_NORM_BACKWARD_DATA: return check_norm(desc, err);
    case GP_OP_NORM_COMMIT: return check_norm_commit(desc, err);
    case GP_OP_MAX_POOL_FORWARD:
    case GP_OP_MAX_POOL_BACKWARD: return check_max_pool(desc, err);
    case GP_OP_AVG_POOL_FORWARD: return check_pool(desc, GP_AVG_POOL_FORWARD_X, GP_AVG_POOL_FORWARD_Y, err);
    case GP_OP_AVG_POOL_BACKWARD: return check_pool(desc, GP_AVG_POOL_BACKWARD_DX, GP_AVG_POOL_BACKWARD_DY, err);
    case GP_OP_UPSAMPLE_FORWARD: return check_upsample(desc, GP_UPSAMPLE_FORWARD_X, GP_UPSAMPLE_FORWARD_Y, err);
    case GP_OP_UPSAMPLE_BACKWARD: return check_upsample(desc, GP_UPSAMPLE_BACKWARD_DX, GP_UPSAMPLE_BACKWARD_DY, err);
    case GP_OP_MEAN_POOL_FORWARD: return check_mean_pool(desc, GP_MEAN_POOL_FORWARD_X, GP_MEAN_POOL_FORWARD_Y, err);
    case GP_OP_MEAN_POOL_BACKWARD:
        return check_mean_pool(desc, GP_MEAN_POOL_BACKWARD_DX, GP_MEAN_POOL_BACKWARD_DY, err);
    case GP_OP_FLATTEN: return check_flatten(desc, GP_FLATTEN_X, GP_FLATTEN_Y, err);
    case GP_OP_UNFLATTEN: return check_flatten(desc, GP_FLATTEN_Y, GP_FLATTEN_X, err);
    case GP_OP_GROUP_NORM_FORWARD:
    case GP_OP_GROUP_NORM_BACKWARD_DATA:
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS: return check_group_norm(desc, err);
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
    case GP_OP_SQUARE_SUM: return expect_vector(desc, GP_SQUARE_SUM_SUM, 1, err);
    case GP_OP_CLIP_TOTAL: return check_clip_total(desc, err);
    case GP_OP_SGD: return check_sgd(desc, err);
    case GP_OP_ADAM: return check_adam(desc, err);
    default: return GP_OK; /* fill takes whatever is a tensor */
    }
}
