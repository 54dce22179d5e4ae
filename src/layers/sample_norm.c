/* instance_norm, layer_norm, group_norm: each sample is normalised by itself, in training and in evaluation alike, so
 * that neither micro-batches nor the cut show. PyTorch's InstanceNorm2d, LayerNorm over the last dimension, GroupNorm;
 * without running statistics. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "layers/types.h"

typedef struct sample_norm {
    gp_layer layer;
    double eps;
    int64_t groups; /* group_norm */
    bool affine;
} sample_norm;

enum { WEIGHT, BIAS };

static gp_status read_affine(sample_norm *self, const gp_choice *choice, bool otherwise, gp_error *err) {
    char what[64];
    const gp_yaml *affine = gp_layer_option(choice, "affine", false);
    self->affine = otherwise;
    if (!affine) return GP_OK;
    snprintf(what, sizeof what, "%s: affine", choice->kind);
    return gp_read_boolean(affine, what, &self->affine, err);
}

static gp_status instance_norm_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"eps", "affine", NULL};
    sample_norm *self = (sample_norm *)layer;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    GP_RETURN_IF_FAILED(gp_layer_read_eps(choice, true, &self->eps, err));
    return read_affine(self, choice, false, err);
}

static gp_status layer_norm_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"eps", NULL};
    sample_norm *self = (sample_norm *)layer;
    self->affine = true;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    return gp_layer_read_eps(choice, true, &self->eps, err);
}

static gp_status group_norm_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"groups", "eps", "affine", NULL};
    sample_norm *self = (sample_norm *)layer;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    const gp_yaml *groups = gp_layer_option(choice, "groups", true);
    GP_RETURN_IF_FAILED(gp_layer_required(choice, groups, "groups", "group_norm: 32", err));
    GP_RETURN_IF_FAILED(gp_read_integer(groups, "group_norm: groups", 1, GP_LAYER_MAX_DIMENSION, &self->groups, err));
    GP_RETURN_IF_FAILED(gp_layer_read_eps(choice, false, &self->eps, err));
    return read_affine(self, choice, true, err);
}

static gp_status instance_norm_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output,
                                     gp_error *err) {
    char text[GP_SHAPE_TEXT];
    (void)layer;
    (void)count;
    if (inputs[0].rank != 3)
        return gp_fail(err, GP_CONFIG, "takes a picture [channels, height, width], not %s",
                       gp_shape_text(text, inputs[0]));
    if (inputs[0].dim[1] * inputs[0].dim[2] == 1)
        return gp_fail(err, GP_CONFIG, "has one value per channel of %s, whose variance is 0",
                       gp_shape_text(text, inputs[0]));
    *output = inputs[0];
    return GP_OK;
}

static gp_status layer_norm_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    (void)layer;
    (void)count;
    if (inputs[0].rank == 3)
        return gp_fail(err, GP_CONFIG,
                       "takes rows [width] or [length, width], not the picture %s: group_norm: 1 normalises it over "
                       "all its channels and places",
                       gp_shape_text(text, inputs[0]));
    *output = inputs[0];
    return GP_OK;
}

static gp_status group_norm_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    const sample_norm *self = (const sample_norm *)layer;
    char text[GP_SHAPE_TEXT];
    (void)count;
    if (inputs[0].rank == 2)
        return gp_fail(err, GP_CONFIG,
                       "takes a picture [channels, height, width] or [width], not rows %s: layer_norm takes these",
                       gp_shape_text(text, inputs[0]));
    if (inputs[0].dim[0] % self->groups)
        return gp_fail(err, GP_CONFIG, "groups %" PRId64 " does not divide its %" PRId64 " channels", self->groups,
                       inputs[0].dim[0]);
    *output = inputs[0];
    return GP_OK;
}

/* What is normalised: rows of tokens each by themselves. */
static gp_tensor values_of(const gp_layer *layer, const gp_lowering *lowering) {
    gp_tensor samples = gp_layer_samples(lowering, layer->output);
    if (samples.rank != 3) return samples;
    return gp_tensor_plain(lowering->real, 2, (const int64_t[]){gp_tensor_rows(&samples), samples.dim[2]});
}

static int64_t channels_of(const gp_layer *layer) {
    return layer->type == &gp_layer_norm_type ? layer->output.dim[layer->output.rank - 1] : layer->output.dim[0];
}

static int64_t groups_of(const sample_norm *self) {
    if (self->layer.type == &gp_group_norm_type) return self->groups;
    return self->layer.type == &gp_layer_norm_type ? 1 : channels_of(&self->layer);
}

static int sample_norm_params(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    gp_shape shape = {1, {channels_of(layer)}};
    specs[WEIGHT] =
        (gp_param_spec){.suffix = "weight", .shape = shape, .init = GP_INIT_CONSTANT, .value = 1, .norm_or_bias = true};
    specs[BIAS] = (gp_param_spec){.suffix = "bias", .shape = shape, .init = GP_INIT_CONSTANT, .norm_or_bias = true};
    return ((const sample_norm *)layer)->affine ? 2 : 0;
}

/* An op of this layer's attributes. */
static gp_status add_op(const sample_norm *self, gp_lowering *lowering, gp_pass pass, gp_op_kind kind,
                        gp_lowered_op **op, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, kind, op, err));
    (*op)->desc.attributes.group_norm.eps = self->eps;
    (*op)->desc.attributes.group_norm.groups = groups_of(self);
    return GP_OK;
}

static gp_tensor stats_tensor(const sample_norm *self, const gp_lowering *lowering) {
    const int64_t dim[] = {values_of(&self->layer, lowering).dim[0], groups_of(self), 2};
    return gp_tensor_plain(lowering->real, 3, dim);
}

/* side < 0: nobody needs the statistics. */
static gp_status lower_forward(const sample_norm *self, gp_lowering *lowering, gp_pass pass, int side, gp_error *err) {
    gp_tensor x = values_of(&self->layer, lowering);
    gp_tensor vector = gp_layer_vector(lowering->real, channels_of(&self->layer));
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(add_op(self, lowering, pass, GP_OP_GROUP_NORM_FORWARD, &op, err));
    gp_lowered_operand(op, GP_GROUP_NORM_FORWARD_X, x, GP_ROLE_INPUT, 0);
    if (self->affine) {
        gp_lowered_operand(op, GP_GROUP_NORM_FORWARD_GAMMA, vector, GP_ROLE_PARAM, WEIGHT);
        gp_lowered_operand(op, GP_GROUP_NORM_FORWARD_BETA, vector, GP_ROLE_PARAM, BIAS);
    }
    gp_lowered_operand(op, GP_GROUP_NORM_FORWARD_Y, x, GP_ROLE_OUTPUT, 0);
    if (side < 0) return GP_OK;
    gp_lowered_operand(op, GP_GROUP_NORM_FORWARD_STATS, stats_tensor(self, lowering), GP_ROLE_SIDE, side);
    return GP_OK;
}

/* x, dy and the statistics stand at the same places in both ops of the backward pass. */
static void lower_backward_reads(const sample_norm *self, const gp_lowering *lowering, int side, gp_lowered_op *op) {
    gp_tensor x = values_of(&self->layer, lowering);
    gp_lowered_operand(op, GP_GROUP_NORM_BACKWARD_DATA_X, x, GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_GROUP_NORM_BACKWARD_DATA_DY, x, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_GROUP_NORM_BACKWARD_DATA_STATS, stats_tensor(self, lowering), GP_ROLE_SIDE, side);
}
_Static_assert((int)GP_GROUP_NORM_BACKWARD_DATA_X == (int)GP_GROUP_NORM_BACKWARD_WEIGHTS_X &&
                   (int)GP_GROUP_NORM_BACKWARD_DATA_DY == (int)GP_GROUP_NORM_BACKWARD_WEIGHTS_DY &&
                   (int)GP_GROUP_NORM_BACKWARD_DATA_STATS == (int)GP_GROUP_NORM_BACKWARD_WEIGHTS_STATS,
               "lower_backward_reads serves both");

/* Weights first: dx may then be written over dy. */
static gp_status lower_backward(const sample_norm *self, gp_lowering *lowering, int side, gp_error *err) {
    gp_tensor vector = gp_layer_vector(lowering->real, channels_of(&self->layer));
    gp_lowered_op *op = NULL;
    if (self->affine) {
        GP_RETURN_IF_FAILED(add_op(self, lowering, GP_PASS_BACKWARD, GP_OP_GROUP_NORM_BACKWARD_WEIGHTS, &op, err));
        lower_backward_reads(self, lowering, side, op);
        gp_lowered_operand(op, GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA, vector, GP_ROLE_GRAD_PARAM, WEIGHT);
        gp_lowered_operand(op, GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA, vector, GP_ROLE_GRAD_PARAM, BIAS);
    }
    GP_RETURN_IF_FAILED(add_op(self, lowering, GP_PASS_BACKWARD, GP_OP_GROUP_NORM_BACKWARD_DATA, &op, err));
    lower_backward_reads(self, lowering, side, op);
    if (self->affine) gp_lowered_operand(op, GP_GROUP_NORM_BACKWARD_DATA_GAMMA, vector, GP_ROLE_PARAM, WEIGHT);
    gp_lowered_operand(op, GP_GROUP_NORM_BACKWARD_DATA_DX, values_of(&self->layer, lowering), GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

static gp_status sample_norm_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const sample_norm *self = (const sample_norm *)layer;
    int side = 0;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    GP_RETURN_IF_FAILED(gp_lowering_side(lowering, stats_tensor(self, lowering), &side, err));
    GP_RETURN_IF_FAILED(lower_forward(self, lowering, GP_PASS_FORWARD, side, err));
    GP_RETURN_IF_FAILED(lower_forward(self, lowering, GP_PASS_EVALUATE, -1, err));
    return lower_backward(self, lowering, side, err);
}

const gp_layer_type gp_instance_norm_type = {
    .name = "instance_norm",
    .main_option = "eps",
    .size = sizeof(sample_norm),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = instance_norm_read,
    .infer = instance_norm_infer,
    .params = sample_norm_params,
    .lower = sample_norm_lower,
};

const gp_layer_type gp_layer_norm_type = {
    .name = "layer_norm",
    .main_option = "eps",
    .size = sizeof(sample_norm),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = layer_norm_read,
    .infer = layer_norm_infer,
    .params = sample_norm_params,
    .lower = sample_norm_lower,
};

const gp_layer_type gp_group_norm_type = {
    .name = "group_norm",
    .main_option = "groups",
    .size = sizeof(sample_norm),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = group_norm_read,
    .infer = group_norm_infer,
    .params = sample_norm_params,
    .lower = sample_norm_lower,
};
