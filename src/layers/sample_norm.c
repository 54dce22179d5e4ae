/* instance_norm, layer_norm, group_norm: each sample is normalised by itself, in training and in evaluation alike, so
 * that neither micro-batches nor the cut show. PyTorch's InstanceNorm2d, LayerNorm over the last dimension, GroupNorm;
 * without running statistics. */
#include <inttypes.h>

#include "layers/types.h"

typedef struct sample_norm {
    gp_layer layer;
    double eps;
    int64_t groups; /* group_norm */
    bool affine;
} sample_norm;

#define AT(field) offsetof(sample_norm, field)
static const gp_key instance_norm_options[] = {
    GP_LAYER_EPS(AT(eps)), {"affine", &gp_boolean_type, AT(affine), .unsaid = NULL}, {0}};
static const gp_key layer_norm_options[] = {GP_LAYER_EPS(AT(eps)), {0}};
static const gp_key group_norm_options[] = {
    GP_LAYER_COUNT("groups", AT(groups), .example = "group_norm: 32"),
    GP_LAYER_EPS(AT(eps)),
    {"affine", &gp_boolean_type, AT(affine), .unsaid = "true"},
    {0},
};

static gp_status eps_check(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    sample_norm *self = (sample_norm *)layer;
    if (layer->type == &gp_layer_norm_type) self->affine = true;
    return gp_layer_check_eps(choice, self->eps, err);
}

/* The variance of one value is 0, and the output constant. */
static gp_status check_values(const gp_layer *layer, int64_t values, const char *set, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    if (values > 1) return GP_OK;
    return gp_fail(err, GP_CONFIG, "has one value per %s of %s, whose variance is 0", set,
                   gp_shape_text(text, layer->inputs[0]));
}

static gp_status instance_norm_infer(gp_layer *layer, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_check_picture(layer->inputs[0], err));
    return check_values(layer, layer->inputs[0].dim[1] * layer->inputs[0].dim[2], "channel", err);
}

static gp_status layer_norm_infer(gp_layer *layer, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    if (layer->inputs[0].rank == 3)
        return gp_fail(err, GP_CONFIG,
                       "takes rows [width] or [length, width], not the picture %s: group_norm: 1 normalises it over "
                       "all its channels and places",
                       gp_shape_text(text, layer->inputs[0]));
    return check_values(layer, layer->inputs[0].dim[layer->inputs[0].rank - 1], "row", err);
}

static gp_status group_norm_infer(gp_layer *layer, gp_error *err) {
    const sample_norm *self = (const sample_norm *)layer;
    char text[GP_SHAPE_TEXT];
    if (layer->inputs[0].rank == 2)
        return gp_fail(err, GP_CONFIG,
                       "takes a picture [channels, height, width] or [width], not rows %s: layer_norm takes these",
                       gp_shape_text(text, layer->inputs[0]));
    if (layer->inputs[0].dim[0] % self->groups)
        return gp_fail(err, GP_CONFIG, "groups %" PRId64 " does not divide its %" PRId64 " channels", self->groups,
                       layer->inputs[0].dim[0]);
    int64_t values;
    if (!gp_shape_elements(layer->inputs[0], &values)) return GP_OK; /* more than there can be */
    return check_values(layer, values / self->groups, "group", err);
}

/* What is normalised: rows of tokens each by themselves. */
static gp_tensor values_of(const gp_layer *layer, const gp_lowering *lowering) {
    gp_tensor samples = gp_layer_samples(lowering, layer->output);
    if (samples.rank != 3) return samples;
    return gp_tensor_plain(lowering->types.storage, 2, (const int64_t[]){gp_tensor_rows(&samples), samples.dim[2]});
}

static int64_t channels_of(const gp_layer *layer) {
    return layer->type == &gp_layer_norm_type ? layer->output.dim[layer->output.rank - 1] : layer->output.dim[0];
}

static int64_t groups_of(const sample_norm *self) {
    if (self->layer.type == &gp_group_norm_type) return self->groups;
    return self->layer.type == &gp_layer_norm_type ? 1 : channels_of(&self->layer);
}

static int sample_norm_params(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    return ((const sample_norm *)layer)->affine ? gp_layer_affine(channels_of(layer), specs) : 0;
}

static void set_affine(const gp_layer *layer, gp_layer_ops *ops) {
    gp_tensor vector = gp_layer_vector(ops->lowering->types.compute, channels_of(layer));
    gp_layer_set(ops, GP_NAME_GAMMA, vector, GP_ROLE_PARAM, GP_WEIGHT);
    gp_layer_set(ops, GP_NAME_BETA, vector, GP_ROLE_PARAM, GP_BIAS);
    gp_layer_set(ops, GP_NAME_DGAMMA, vector, GP_ROLE_GRAD_PARAM, GP_WEIGHT);
    gp_layer_set(ops, GP_NAME_DBETA, vector, GP_ROLE_GRAD_PARAM, GP_BIAS);
}

/* Weights first: dx may then be written over dy. */
static gp_status sample_norm_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const sample_norm *self = (const sample_norm *)layer;
    gp_layer_ops ops;
    int side = 0;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    gp_tensor x = values_of(layer, lowering);
    gp_tensor stats = gp_tensor_plain(lowering->types.accumulate, 3, (const int64_t[]){x.dim[0], groups_of(self), 2});
    GP_RETURN_IF_FAILED(gp_lowering_side(lowering, stats, &side, err));
    ops.attributes.group_norm = (gp_group_norm_attributes){self->eps, groups_of(self)};
    ops.tensor[GP_NAME_X] = ops.tensor[GP_NAME_Y] = ops.tensor[GP_NAME_DX] = ops.tensor[GP_NAME_DY] = x;
    if (self->affine) set_affine(layer, &ops);
    gp_layer_ops evaluate = ops; /* without the statistics */
    gp_layer_set(&ops, GP_NAME_STATS, stats, GP_ROLE_SIDE, side);
    GP_RETURN_IF_FAILED(gp_layer_op(&ops, GP_PASS_FORWARD, 0, GP_OP_GROUP_NORM_FORWARD, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&evaluate, GP_PASS_EVALUATE, 0, GP_OP_GROUP_NORM_FORWARD, err));
    if (self->affine)
        GP_RETURN_IF_FAILED(gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_GROUP_NORM_BACKWARD_WEIGHTS, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_GROUP_NORM_BACKWARD_DATA, err);
}

const gp_layer_type gp_instance_norm_type = {
    .name = "instance_norm",
    .size = sizeof(sample_norm),
    .options = instance_norm_options,
    .check = eps_check,
    .infer = instance_norm_infer,
    .params = sample_norm_params,
    .lower = sample_norm_lower,
};

const gp_layer_type gp_layer_norm_type = {
    .name = "layer_norm",
    .size = sizeof(sample_norm),
    .options = layer_norm_options,
    .check = eps_check,
    .infer = layer_norm_infer,
    .params = sample_norm_params,
    .lower = sample_norm_lower,
};

const gp_layer_type gp_group_norm_type = {
    .name = "group_norm",
    .size = sizeof(sample_norm),
    .options = group_norm_options,
    .infer = group_norm_infer,
    .params = sample_norm_params,
    .lower = sample_norm_lower,
};
