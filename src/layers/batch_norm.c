/* batch_norm: PyTorch's BatchNorm1d and 2d; statistics of each micro-batch, running statistics committed per
 * mini-batch. */
#include "layers/types.h"

typedef struct batch_norm {
    gp_layer layer;
    double eps, momentum;
    bool affine;
} batch_norm;

/* Places of the parameters: gamma and beta only where affine. */
typedef struct places {
    int gamma, beta, mean, variance;
} places;

static places places_of(const batch_norm *self) {
    return self->affine ? (places){0, 1, 2, 3} : (places){-1, -1, 0, 1};
}

static const gp_key batch_norm_options[] = {
    GP_LAYER_EPS(offsetof(batch_norm, eps)),
    {"momentum", &gp_number_type, offsetof(batch_norm, momentum), .unsaid = "0.1", .number = {0, 1, 0}},
    {"affine", &gp_boolean_type, offsetof(batch_norm, affine), .unsaid = "true"},
    {0},
};

static gp_status batch_norm_check(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    return gp_layer_check_eps(choice, ((const batch_norm *)layer)->eps, err);
}

static gp_status batch_norm_infer(gp_layer *layer, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    if (layer->inputs[0].rank == 2)
        return gp_fail(err, GP_CONFIG,
                       "takes a picture [channels, height, width] or [width]; rows %s are not available yet",
                       gp_shape_text(text, layer->inputs[0]));
    return GP_OK;
}

static int64_t channels_of(const gp_layer *layer) {
    return layer->inputs[0].dim[0];
}

static int64_t rows_per_sample(const gp_layer *layer) {
    const gp_shape *shape = &layer->inputs[0];
    return shape->rank == 3 ? shape->dim[1] * shape->dim[2] : 1;
}

static int batch_norm_params(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    const batch_norm *self = (const batch_norm *)layer;
    gp_shape shape = {1, {channels_of(layer)}};
    int count = self->affine ? gp_layer_affine(channels_of(layer), specs) : 0;
    specs[count++] =
        (gp_param_spec){.suffix = "running_mean", .shape = shape, .init = GP_INIT_CONSTANT, .buffer = true};
    specs[count++] =
        (gp_param_spec){.suffix = "running_var", .shape = shape, .init = GP_INIT_CONSTANT, .value = 1, .buffer = true};
    return count;
}

/* What norm_statistics leaves: mean, variance, what rounding took from the mean. */
static gp_tensor stats_tensor(const gp_layer *layer, const gp_lowering *lowering) {
    return gp_tensor_plain(lowering->types.accumulate, 2, (const int64_t[]){3, channels_of(layer)});
}

/* Mean and variance as they stand in the parameters. */
static void set_running(gp_layer_ops *ops, const gp_layer *layer) {
    gp_tensor vector = gp_layer_vector(ops->lowering->types.compute, channels_of(layer));
    places place = places_of((const batch_norm *)layer);
    gp_layer_set(ops, GP_NAME_MEAN, vector, GP_ROLE_PARAM, place.mean);
    gp_layer_set(ops, GP_NAME_VARIANCE, vector, GP_ROLE_PARAM, place.variance);
}

static gp_status lower_forward(gp_layer_ops *ops, const gp_layer *layer, int stats, gp_error *err) {
    int64_t channels = channels_of(layer);
    gp_tensor vector = gp_layer_vector(ops->lowering->types.compute, channels);
    gp_layer_ops statistics = *ops; /* which do not depend on eps */
    statistics.attributes.norm.eps = 0;
    gp_layer_set(&statistics, GP_NAME_STATS, stats_tensor(layer, ops->lowering), GP_ROLE_STATS, stats);
    gp_layer_set_slice(ops, GP_NAME_MEAN, vector, GP_ROLE_STATS, stats, 0);
    gp_layer_set_slice(ops, GP_NAME_VARIANCE, vector, GP_ROLE_STATS, stats, channels);
    GP_RETURN_IF_FAILED(gp_layer_op(&statistics, GP_PASS_FORWARD, GP_LOWERED_ONCE, GP_OP_NORM_STATISTICS, err));
    return gp_layer_op(ops, GP_PASS_FORWARD, 0, GP_OP_NORM_APPLY, err);
}

static gp_status lower_backward(gp_layer_ops *ops, const gp_layer *layer, gp_error *err) {
    const batch_norm *self = (const batch_norm *)layer;
    gp_lowering *lowering = ops->lowering;
    int64_t channels = channels_of(layer);
    places place = places_of(self);
    gp_tensor vector = gp_layer_vector(lowering->types.compute, channels);
    gp_tensor pair = gp_tensor_plain(lowering->types.accumulate, 2, (const int64_t[]){2, channels});
    int sums = 0;
    GP_RETURN_IF_FAILED(gp_lowering_temp(lowering, pair, &sums, err));
    gp_layer_set(ops, GP_NAME_SUMS, pair, GP_ROLE_TEMP, sums);
    GP_RETURN_IF_FAILED(gp_layer_op(ops, GP_PASS_BACKWARD, 0, GP_OP_NORM_BACKWARD_REDUCE, err));
    GP_RETURN_IF_FAILED(gp_layer_op(ops, GP_PASS_BACKWARD, 0, GP_OP_NORM_BACKWARD_DATA, err));
    if (!self->affine) return GP_OK;
    GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_BACKWARD, vector, (gp_ref){GP_ROLE_TEMP, sums, 0},
                                      (gp_ref){GP_ROLE_GRAD_PARAM, place.gamma, 0}, err));
    return gp_layer_copy(lowering, GP_PASS_BACKWARD, vector, (gp_ref){GP_ROLE_TEMP, sums, channels},
                         (gp_ref){GP_ROLE_GRAD_PARAM, place.beta, 0}, err);
}

/* The statistics are constants, so that dx = dy·gamma/√(variance+eps): an application to dy with mean 0. */
static gp_status lower_frozen(gp_layer_ops *ops, const gp_layer *layer, gp_error *err) {
    gp_tensor vector = gp_layer_vector(ops->lowering->types.compute, channels_of(layer));
    gp_layer_ops backward, zero = {.lowering = ops->lowering};
    int index = 0;
    set_running(ops, layer);
    GP_RETURN_IF_FAILED(gp_layer_forward(ops, GP_OP_NORM_APPLY, err));
    GP_RETURN_IF_FAILED(gp_lowering_temp(ops->lowering, vector, &index, err));
    gp_layer_set(&zero, GP_NAME_Y, vector, GP_ROLE_TEMP, index);
    GP_RETURN_IF_FAILED(gp_layer_op(&zero, GP_PASS_BACKWARD, 0, GP_OP_FILL, err));
    backward = gp_layer_reversed(ops);
    gp_layer_set(&backward, GP_NAME_MEAN, vector, GP_ROLE_TEMP, index);
    backward.tensor[GP_NAME_BETA] = (gp_tensor){0};
    backward.ref[GP_NAME_BETA] = (gp_ref){GP_ROLE_NONE, 0, 0};
    return gp_layer_op(&backward, GP_PASS_BACKWARD, 0, GP_OP_NORM_APPLY, err);
}

static gp_status begin(const gp_layer *layer, gp_lowering *lowering, gp_layer_ops *ops, gp_error *err) {
    const batch_norm *self = (const batch_norm *)layer;
    places place = places_of(self);
    gp_tensor vector = gp_layer_vector(lowering->types.compute, channels_of(layer));
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, ops, err));
    ops->attributes.norm.eps = self->eps;
    if (!self->affine) return GP_OK;
    gp_layer_set(ops, GP_NAME_GAMMA, vector, GP_ROLE_PARAM, place.gamma);
    gp_layer_set(ops, GP_NAME_BETA, vector, GP_ROLE_PARAM, place.beta);
    return GP_OK;
}

static gp_status refuse_single(const gp_lowering *lowering, gp_error *err) {
    bool shares = lowering->replicas > 1;
    return gp_fail(err, GP_CONFIG,
                   "a %s of 1 sample has one value per channel, whose variance is 0: take a larger batch or fewer "
                   "%smicro_batches, so that every %s has 2 samples or more%s (data.drop_last leaves out a last "
                   "mini-batch that is too small)",
                   shares ? "replica's share" : "micro-batch", shares ? "replicas or " : "",
                   shares ? "share" : "micro-batch", shares ? ", or none" : "");
}

static gp_status batch_norm_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    int stats = 0;
    GP_RETURN_IF_FAILED(begin(layer, lowering, &ops, err));
    if (layer->frozen) return lower_frozen(&ops, layer, err);
    if (!lowering->evaluate_only && lowering->samples * rows_per_sample(layer) == 1)
        return refuse_single(lowering, err);
    gp_layer_ops evaluate = ops;
    set_running(&evaluate, layer);
    GP_RETURN_IF_FAILED(gp_lowering_stats(lowering, stats_tensor(layer, lowering), &stats, err));
    GP_RETURN_IF_FAILED(lower_forward(&ops, layer, stats, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&evaluate, GP_PASS_EVALUATE, 0, GP_OP_NORM_APPLY, err));
    return lower_backward(&ops, layer, err);
}

static gp_status batch_norm_lower_mini_batch(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const batch_norm *self = (const batch_norm *)layer;
    int64_t rows = rows_per_sample(layer);
    const int64_t dim[] = {lowering->pieces * lowering->replicas, 3, channels_of(layer)};
    gp_layer_ops ops;
    int stats = 0;
    if (layer->frozen) return GP_OK;
    GP_RETURN_IF_FAILED(begin(layer, lowering, &ops, err));
    GP_RETURN_IF_FAILED(gp_lowering_stats(lowering, stats_tensor(layer, lowering), &stats, err));
    ops.attributes.norm.momentum = self->momentum;
    ops.attributes.norm.rows_full = lowering->samples * rows;
    ops.attributes.norm.rows_last = lowering->last * rows;
    if (lowering->replicas > 1) {
        ops.attributes.norm.replicas = lowering->replicas;
        ops.attributes.norm.rows_sample = rows;
    }
    gp_layer_set(&ops, GP_NAME_STATS, gp_tensor_plain(lowering->types.accumulate, 3, dim), GP_ROLE_STATS_ALL, stats);
    set_running(&ops, layer);
    return gp_layer_op(&ops, GP_PASS_COMMIT, 0, GP_OP_NORM_COMMIT, err);
}

const gp_layer_type gp_batch_norm_type = {
    .name = "batch_norm",
    .size = sizeof(batch_norm),
    .options = batch_norm_options,
    .check = batch_norm_check,
    .infer = batch_norm_infer,
    .params = batch_norm_params,
    .lower = batch_norm_lower,
    .lower_mini_batch = batch_norm_lower_mini_batch,
};
