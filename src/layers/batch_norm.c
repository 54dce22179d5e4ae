/* batch_norm: PyTorch's BatchNorm1d and 2d; statistics of each micro-batch, running statistics committed per
 * mini-batch. */
#include <math.h>

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

static gp_status batch_norm_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"eps", "momentum", "affine", NULL};
    batch_norm *self = (batch_norm *)layer;
    self->momentum = 0.1;
    self->affine = true;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    const gp_yaml *momentum = gp_layer_option(choice, "momentum", false);
    const gp_yaml *affine = gp_layer_option(choice, "affine", false);
    GP_RETURN_IF_FAILED(gp_layer_read_eps(choice, true, &self->eps, err));
    if (momentum) GP_RETURN_IF_FAILED(gp_read_number(momentum, "batch_norm: momentum", 0, 1, 0, &self->momentum, err));
    return affine ? gp_read_boolean(affine, "batch_norm: affine", &self->affine, err) : GP_OK;
}

static gp_status batch_norm_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    (void)layer;
    (void)count;
    if (inputs[0].rank == 2)
        return gp_fail(err, GP_CONFIG,
                       "takes a picture [channels, height, width] or [width]; rows %s are not available yet",
                       gp_shape_text(text, inputs[0]));
    *output = inputs[0];
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
    int count = 0;
    if (self->affine) {
        specs[count++] = (gp_param_spec){
            .suffix = "weight", .shape = shape, .init = GP_INIT_CONSTANT, .value = 1, .norm_or_bias = true};
        specs[count++] =
            (gp_param_spec){.suffix = "bias", .shape = shape, .init = GP_INIT_CONSTANT, .norm_or_bias = true};
    }
    specs[count++] =
        (gp_param_spec){.suffix = "running_mean", .shape = shape, .init = GP_INIT_CONSTANT, .buffer = true};
    specs[count++] =
        (gp_param_spec){.suffix = "running_var", .shape = shape, .init = GP_INIT_CONSTANT, .value = 1, .buffer = true};
    return count;
}

static gp_tensor pair_tensor(gp_dtype real, int64_t channels) {
    return gp_tensor_plain(real, 2, (const int64_t[]){2, channels});
}

/* What norm_statistics leaves: mean, variance, what rounding took from the mean. */
static gp_tensor stats_tensor(gp_dtype real, int64_t channels) {
    return gp_tensor_plain(real, 2, (const int64_t[]){3, channels});
}

static gp_status lower_apply(const batch_norm *self, gp_lowering *lowering, gp_pass pass, gp_ref mean, gp_ref variance,
                             gp_error *err) {
    places place = places_of(self);
    gp_tensor x = gp_layer_samples(lowering, self->layer.inputs[0]);
    gp_tensor vector = gp_layer_vector(lowering->real, channels_of(&self->layer));
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_NORM_APPLY, &op, err));
    op->desc.attributes.norm.eps = self->eps;
    gp_lowered_operand(op, GP_NORM_APPLY_X, x, GP_ROLE_INPUT, 0);
    gp_lowered_slice(op, GP_NORM_APPLY_MEAN, vector, mean.role, mean.index, mean.first);
    gp_lowered_slice(op, GP_NORM_APPLY_VARIANCE, vector, variance.role, variance.index, variance.first);
    if (self->affine) {
        gp_lowered_operand(op, GP_NORM_APPLY_GAMMA, vector, GP_ROLE_PARAM, place.gamma);
        gp_lowered_operand(op, GP_NORM_APPLY_BETA, vector, GP_ROLE_PARAM, place.beta);
    }
    gp_lowered_operand(op, GP_NORM_APPLY_Y, x, GP_ROLE_OUTPUT, 0);
    return GP_OK;
}

static gp_status lower_forward(const batch_norm *self, gp_lowering *lowering, int stats, gp_error *err) {
    int64_t channels = channels_of(&self->layer);
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_FORWARD, GP_LOWERED_ONCE, GP_OP_NORM_STATISTICS, &op, err));
    gp_lowered_operand(op, GP_NORM_STATISTICS_X, gp_layer_samples(lowering, self->layer.inputs[0]), GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_NORM_STATISTICS_STATS, stats_tensor(lowering->real, channels), GP_ROLE_STATS, stats);
    return lower_apply(self, lowering, GP_PASS_FORWARD, (gp_ref){GP_ROLE_STATS, stats, 0},
                       (gp_ref){GP_ROLE_STATS, stats, channels}, err);
}

/* x, dy, mean and variance stand at the same places in both ops of the backward pass. */
static void lower_backward_reads(const batch_norm *self, const gp_lowering *lowering, int stats, gp_lowered_op *op) {
    int64_t channels = channels_of(&self->layer);
    gp_tensor x = gp_layer_samples(lowering, self->layer.inputs[0]);
    gp_tensor vector = gp_layer_vector(lowering->real, channels);
    op->desc.attributes.norm.eps = self->eps;
    gp_lowered_operand(op, GP_NORM_BACKWARD_REDUCE_X, x, GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_NORM_BACKWARD_REDUCE_DY, x, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_slice(op, GP_NORM_BACKWARD_REDUCE_MEAN, vector, GP_ROLE_STATS, stats, 0);
    gp_lowered_slice(op, GP_NORM_BACKWARD_REDUCE_VARIANCE, vector, GP_ROLE_STATS, stats, channels);
}
_Static_assert((int)GP_NORM_BACKWARD_REDUCE_X == (int)GP_NORM_BACKWARD_DATA_X &&
                   (int)GP_NORM_BACKWARD_REDUCE_DY == (int)GP_NORM_BACKWARD_DATA_DY &&
                   (int)GP_NORM_BACKWARD_REDUCE_MEAN == (int)GP_NORM_BACKWARD_DATA_MEAN &&
                   (int)GP_NORM_BACKWARD_REDUCE_VARIANCE == (int)GP_NORM_BACKWARD_DATA_VARIANCE,
               "lower_backward_reads serves both");

static gp_status lower_backward(const batch_norm *self, gp_lowering *lowering, int stats, gp_error *err) {
    int64_t channels = channels_of(&self->layer);
    places place = places_of(self);
    gp_tensor x = gp_layer_samples(lowering, self->layer.inputs[0]);
    gp_tensor vector = gp_layer_vector(lowering->real, channels);
    gp_tensor pair = pair_tensor(lowering->real, channels);
    gp_lowered_op *op = NULL;
    int sums = 0;
    GP_RETURN_IF_FAILED(gp_lowering_temp(lowering, pair, &sums, err));
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_NORM_BACKWARD_REDUCE, &op, err));
    lower_backward_reads(self, lowering, stats, op);
    gp_lowered_operand(op, GP_NORM_BACKWARD_REDUCE_SUMS, pair, GP_ROLE_TEMP, sums);

    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_NORM_BACKWARD_DATA, &op, err));
    lower_backward_reads(self, lowering, stats, op);
    if (self->affine) gp_lowered_operand(op, GP_NORM_BACKWARD_DATA_GAMMA, vector, GP_ROLE_PARAM, place.gamma);
    gp_lowered_operand(op, GP_NORM_BACKWARD_DATA_SUMS, pair, GP_ROLE_TEMP, sums);
    gp_lowered_operand(op, GP_NORM_BACKWARD_DATA_DX, x, GP_ROLE_GRAD_INPUT, 0);
    if (!self->affine) return GP_OK;

    GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_BACKWARD, vector, (gp_ref){GP_ROLE_TEMP, sums, 0},
                                      (gp_ref){GP_ROLE_GRAD_PARAM, place.gamma, 0}, err));
    return gp_layer_copy(lowering, GP_PASS_BACKWARD, vector, (gp_ref){GP_ROLE_TEMP, sums, channels},
                         (gp_ref){GP_ROLE_GRAD_PARAM, place.beta, 0}, err);
}

/* The statistics are constants, so that dx = dy·gamma/√(variance+eps): an application to dy with mean 0. */
static gp_status lower_frozen_backward(const batch_norm *self, gp_lowering *lowering, gp_error *err) {
    places place = places_of(self);
    gp_tensor x = gp_layer_samples(lowering, self->layer.inputs[0]);
    gp_tensor vector = gp_layer_vector(lowering->real, channels_of(&self->layer));
    gp_lowered_op *op = NULL;
    int zero = 0;
    GP_RETURN_IF_FAILED(gp_lowering_temp(lowering, vector, &zero, err));
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_FILL, &op, err));
    gp_lowered_operand(op, GP_FILL_Y, vector, GP_ROLE_TEMP, zero);
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_NORM_APPLY, &op, err));
    op->desc.attributes.norm.eps = self->eps;
    gp_lowered_operand(op, GP_NORM_APPLY_X, x, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_NORM_APPLY_MEAN, vector, GP_ROLE_TEMP, zero);
    gp_lowered_operand(op, GP_NORM_APPLY_VARIANCE, vector, GP_ROLE_PARAM, place.variance);
    if (self->affine) gp_lowered_operand(op, GP_NORM_APPLY_GAMMA, vector, GP_ROLE_PARAM, place.gamma);
    gp_lowered_operand(op, GP_NORM_APPLY_Y, x, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

static gp_status lower_with_running(const batch_norm *self, gp_lowering *lowering, gp_pass pass, gp_error *err) {
    places place = places_of(self);
    return lower_apply(self, lowering, pass, (gp_ref){GP_ROLE_PARAM, place.mean, 0},
                       (gp_ref){GP_ROLE_PARAM, place.variance, 0}, err);
}

static gp_status lower_frozen(const batch_norm *self, gp_lowering *lowering, gp_error *err) {
    GP_RETURN_IF_FAILED(lower_with_running(self, lowering, GP_PASS_FORWARD, err));
    GP_RETURN_IF_FAILED(lower_with_running(self, lowering, GP_PASS_EVALUATE, err));
    return lower_frozen_backward(self, lowering, err);
}

static gp_status batch_norm_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const batch_norm *self = (const batch_norm *)layer;
    int stats = 0;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    if (layer->frozen) return lower_frozen(self, lowering, err);
    if (!lowering->evaluate_only && lowering->samples * rows_per_sample(layer) == 1)
        return gp_fail(err, GP_CONFIG,
                       "a micro-batch of 1 sample has one value per channel, whose variance is 0: take a larger batch "
                       "or fewer micro_batches, so that every micro-batch has 2 samples or more (data.drop_last leaves "
                       "out a last mini-batch that is too small)");
    GP_RETURN_IF_FAILED(gp_lowering_stats(lowering, stats_tensor(lowering->real, channels_of(layer)), &stats, err));
    GP_RETURN_IF_FAILED(lower_forward(self, lowering, stats, err));
    GP_RETURN_IF_FAILED(lower_with_running(self, lowering, GP_PASS_EVALUATE, err));
    return lower_backward(self, lowering, stats, err);
}

static gp_status batch_norm_lower_mini_batch(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const batch_norm *self = (const batch_norm *)layer;
    places place = places_of(self);
    int64_t channels = channels_of(layer), rows = rows_per_sample(layer);
    gp_tensor vector = gp_layer_vector(lowering->real, channels);
    gp_lowered_op *op = NULL;
    int stats = 0;
    if (layer->frozen) return GP_OK;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    GP_RETURN_IF_FAILED(gp_lowering_stats(lowering, stats_tensor(lowering->real, channels), &stats, err));
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_COMMIT, 0, GP_OP_NORM_COMMIT, &op, err));
    op->desc.attributes.norm.eps = self->eps;
    op->desc.attributes.norm.momentum = self->momentum;
    op->desc.attributes.norm.rows_full = lowering->samples * rows;
    op->desc.attributes.norm.rows_last = lowering->last * rows;
    gp_layer_scalars(op, GP_NORM_COMMIT_SCALARS);
    gp_lowered_operand(op, GP_NORM_COMMIT_STATS,
                       gp_tensor_plain(lowering->real, 3, (const int64_t[]){lowering->pieces, 3, channels}),
                       GP_ROLE_STATS_ALL, stats);
    gp_lowered_operand(op, GP_NORM_COMMIT_MEAN, vector, GP_ROLE_PARAM, place.mean);
    gp_lowered_operand(op, GP_NORM_COMMIT_VARIANCE, vector, GP_ROLE_PARAM, place.variance);
    return GP_OK;
}

const gp_layer_type gp_batch_norm_type = {
    .name = "batch_norm",
    .main_option = "eps",
    .size = sizeof(batch_norm),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = batch_norm_read,
    .infer = batch_norm_infer,
    .params = batch_norm_params,
    .lower = batch_norm_lower,
    .lower_mini_batch = batch_norm_lower_mini_batch,
};
