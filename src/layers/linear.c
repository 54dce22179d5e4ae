/* linear: y = x·Wᵀ + b over the last dimension. */
#include <math.h>

#include "layers/types.h"

typedef struct linear {
    gp_layer layer;
    int64_t out;
    bool bias;
} linear;

enum { WEIGHT, BIAS };

static gp_status linear_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"out", "bias", "transposed", NULL};
    linear *self = (linear *)layer;
    self->bias = true;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    const gp_yaml *out = gp_layer_option(choice, "out", true);
    GP_RETURN_IF_FAILED(gp_layer_required(choice, out, "out", "linear: {out: 10}", err));
    GP_RETURN_IF_FAILED(gp_read_integer(out, "linear: out", 1, GP_LAYER_MAX_DIMENSION, &self->out, err));
    const gp_yaml *bias = gp_layer_option(choice, "bias", false);
    if (bias) GP_RETURN_IF_FAILED(gp_read_boolean(bias, "linear: bias", &self->bias, err));
    return gp_layer_only_false(choice, "transposed", err);
}

static gp_status linear_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    const linear *self = (const linear *)layer;
    char text[GP_SHAPE_TEXT];
    (void)count;
    if (inputs[0].rank > 2)
        return gp_fail(err, GP_CONFIG,
                       "takes rows [width] or [length, width], not the picture %s: put flatten before it",
                       gp_shape_text(text, inputs[0]));
    *output = inputs[0];
    output->dim[output->rank - 1] = self->out;
    return GP_OK;
}

static int linear_params(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    const linear *self = (const linear *)layer;
    int64_t in = layer->inputs[0].dim[layer->inputs[0].rank - 1];
    double bound = 1 / sqrt((double)in);
    specs[WEIGHT] =
        (gp_param_spec){.suffix = "weight", .shape = {2, {self->out, in}}, .init = GP_INIT_UNIFORM, .value = bound};
    specs[BIAS] = (gp_param_spec){
        .suffix = "bias", .shape = {1, {self->out}}, .init = GP_INIT_UNIFORM, .value = bound, .norm_or_bias = true};
    return self->bias ? 2 : 1;
}

typedef struct linear_tensors {
    gp_tensor x, y, weight, bias;
} linear_tensors;

static linear_tensors tensors_of(const linear *self, const gp_lowering *lowering) {
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    linear_params(&self->layer, specs);
    return (linear_tensors){.x = gp_layer_samples(lowering, self->layer.inputs[0]),
                            .y = gp_layer_samples(lowering, self->layer.output),
                            .weight = gp_tensor_param(lowering->real, specs[WEIGHT].shape),
                            .bias = gp_tensor_param(lowering->real, specs[BIAS].shape)};
}

static gp_status add_op(const linear *self, gp_lowering *lowering, gp_pass pass, gp_op_kind kind, gp_lowered_op **out,
                        gp_error *err) {
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, kind, out, err));
    (*out)->desc.flags = gp_layer_op_flags(&self->layer);
    return GP_OK;
}

static gp_status lower_forward(const linear *self, const linear_tensors *tensors, gp_lowering *lowering, gp_pass pass,
                               gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(add_op(self, lowering, pass, GP_OP_LINEAR_FORWARD, &op, err));
    gp_lowered_operand(op, GP_LINEAR_FORWARD_X, tensors->x, GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_LINEAR_FORWARD_W, tensors->weight, GP_ROLE_PARAM, WEIGHT);
    if (self->bias) gp_lowered_operand(op, GP_LINEAR_FORWARD_B, tensors->bias, GP_ROLE_PARAM, BIAS);
    gp_lowered_operand(op, GP_LINEAR_FORWARD_Y, tensors->y, GP_ROLE_OUTPUT, 0);
    return GP_OK;
}

/* Weights first: dx may then be written over dy. */
static gp_status lower_backward(const linear *self, const linear_tensors *tensors, gp_lowering *lowering,
                                gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(add_op(self, lowering, GP_PASS_BACKWARD, GP_OP_LINEAR_BACKWARD_WEIGHTS, &op, err));
    gp_lowered_operand(op, GP_LINEAR_BACKWARD_WEIGHTS_X, tensors->x, GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_LINEAR_BACKWARD_WEIGHTS_DY, tensors->y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_LINEAR_BACKWARD_WEIGHTS_DW, tensors->weight, GP_ROLE_GRAD_PARAM, WEIGHT);
    if (self->bias) gp_lowered_operand(op, GP_LINEAR_BACKWARD_WEIGHTS_DB, tensors->bias, GP_ROLE_GRAD_PARAM, BIAS);

    GP_RETURN_IF_FAILED(add_op(self, lowering, GP_PASS_BACKWARD, GP_OP_LINEAR_BACKWARD_DATA, &op, err));
    gp_lowered_operand(op, GP_LINEAR_BACKWARD_DATA_DY, tensors->y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_LINEAR_BACKWARD_DATA_W, tensors->weight, GP_ROLE_PARAM, WEIGHT);
    gp_lowered_operand(op, GP_LINEAR_BACKWARD_DATA_DX, tensors->x, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

static gp_status linear_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const linear *self = (const linear *)layer;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    linear_tensors tensors = tensors_of(self, lowering);
    GP_RETURN_IF_FAILED(lower_forward(self, &tensors, lowering, GP_PASS_FORWARD, err));
    GP_RETURN_IF_FAILED(lower_forward(self, &tensors, lowering, GP_PASS_EVALUATE, err));
    return lower_backward(self, &tensors, lowering, err);
}

const gp_layer_type gp_linear_type = {
    .name = "linear",
    .main_option = "out",
    .size = sizeof(linear),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = linear_read,
    .infer = linear_infer,
    .params = linear_params,
    .lower = linear_lower,
};
