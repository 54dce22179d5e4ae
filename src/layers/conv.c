/* conv: PyTorch's Conv2d, zero padding. */
#include <inttypes.h>
#include <math.h>

#include "layers/types.h"

typedef struct conv {
    gp_layer layer;
    int64_t out;
    gp_conv_attributes attributes;
    bool bias;
} conv;

enum { WEIGHT, BIAS };

static gp_status read_window(conv *self, const gp_choice *choice, gp_error *err) {
    gp_conv_attributes *attributes = &self->attributes;
    const gp_yaml *kernel = gp_layer_option(choice, "kernel", false);
    const gp_yaml *stride = gp_layer_option(choice, "stride", false);
    const gp_yaml *pad = gp_layer_option(choice, "pad", false);
    const gp_yaml *dilation = gp_layer_option(choice, "dilation", false);
    GP_RETURN_IF_FAILED(gp_layer_required(choice, kernel, "kernel", "conv: {out: 16, kernel: 3}", err));
    GP_RETURN_IF_FAILED(gp_read_pair(kernel, "conv: kernel", 1, GP_LAYER_MAX_WINDOW, attributes->kernel, err));
    if (stride)
        GP_RETURN_IF_FAILED(gp_read_pair(stride, "conv: stride", 1, GP_LAYER_MAX_WINDOW, attributes->stride, err));
    if (dilation)
        GP_RETURN_IF_FAILED(
            gp_read_pair(dilation, "conv: dilation", 1, GP_LAYER_MAX_WINDOW, attributes->dilation, err));
    if (pad)
        GP_RETURN_IF_FAILED(
            gp_layer_read_pad(pad, "conv: pad", attributes->kernel, attributes->dilation, attributes->pad, err));
    return GP_OK;
}

static gp_status conv_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"out", "kernel", "stride", "pad", "dilation", "groups", "bias", NULL};
    conv *self = (conv *)layer;
    self->attributes = (gp_conv_attributes){.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    self->bias = true;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    const gp_yaml *out = gp_layer_option(choice, "out", true);
    GP_RETURN_IF_FAILED(gp_layer_required(choice, out, "out", "conv: {out: 16, kernel: 3}", err));
    GP_RETURN_IF_FAILED(gp_read_integer(out, "conv: out", 1, GP_LAYER_MAX_DIMENSION, &self->out, err));
    GP_RETURN_IF_FAILED(read_window(self, choice, err));
    const gp_yaml *groups = gp_layer_option(choice, "groups", false);
    if (groups)
        GP_RETURN_IF_FAILED(
            gp_read_integer(groups, "conv: groups", 1, GP_LAYER_MAX_DIMENSION, &self->attributes.groups, err));
    const gp_yaml *bias = gp_layer_option(choice, "bias", false);
    return bias ? gp_read_boolean(bias, "conv: bias", &self->bias, err) : GP_OK;
}

static gp_status conv_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    const conv *self = (const conv *)layer;
    const gp_conv_attributes *attributes = &self->attributes;
    int64_t size[2];
    (void)count;
    GP_RETURN_IF_FAILED(gp_layer_check_picture(inputs[0], err));
    if (inputs[0].dim[0] % attributes->groups)
        return gp_fail(err, GP_CONFIG, "groups %" PRId64 " does not divide its %" PRId64 " input channels",
                       attributes->groups, inputs[0].dim[0]);
    if (self->out % attributes->groups)
        return gp_fail(err, GP_CONFIG, "groups %" PRId64 " does not divide its %" PRId64 " output channels",
                       attributes->groups, self->out);
    GP_RETURN_IF_FAILED(gp_layer_window(inputs[0], attributes->kernel, attributes->stride, attributes->pad,
                                        attributes->dilation, size, err));
    *output = (gp_shape){3, {self->out, size[0], size[1]}};
    return GP_OK;
}

static int conv_params(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    const conv *self = (const conv *)layer;
    const int64_t *kernel = self->attributes.kernel;
    int64_t in = layer->inputs[0].dim[0] / self->attributes.groups;
    double bound = 1 / sqrt((double)in * (double)kernel[0] * (double)kernel[1]);
    specs[WEIGHT] = (gp_param_spec){.suffix = "weight",
                                    .shape = {4, {self->out, in, kernel[0], kernel[1]}},
                                    .init = GP_INIT_UNIFORM,
                                    .value = bound};
    specs[BIAS] = (gp_param_spec){
        .suffix = "bias", .shape = {1, {self->out}}, .init = GP_INIT_UNIFORM, .value = bound, .norm_or_bias = true};
    return self->bias ? 2 : 1;
}

typedef struct conv_tensors {
    gp_tensor x, y, weight, bias;
} conv_tensors;

static conv_tensors tensors_of(const conv *self, const gp_lowering *lowering) {
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    conv_params(&self->layer, specs);
    conv_tensors tensors = {.x = gp_layer_samples(lowering, self->layer.inputs[0]),
                            .y = gp_layer_samples(lowering, self->layer.output),
                            .weight = gp_tensor_param(lowering->real, specs[WEIGHT].shape),
                            .bias = gp_tensor_param(lowering->real, specs[BIAS].shape)};
    tensors.weight.format = GP_FORMAT_ANY;
    return tensors;
}

static gp_status add_op(const conv *self, gp_lowering *lowering, gp_pass pass, gp_op_kind kind, gp_lowered_op **out,
                        gp_error *err) {
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, kind, out, err));
    (*out)->desc.flags = gp_layer_op_flags(&self->layer);
    (*out)->desc.attributes.conv = self->attributes;
    return GP_OK;
}

static gp_status lower_forward(const conv *self, const conv_tensors *tensors, gp_lowering *lowering, gp_pass pass,
                               gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(add_op(self, lowering, pass, GP_OP_CONV_FORWARD, &op, err));
    gp_lowered_operand(op, GP_CONV_FORWARD_X, tensors->x, GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_CONV_FORWARD_W, tensors->weight, GP_ROLE_PARAM, WEIGHT);
    if (self->bias) gp_lowered_operand(op, GP_CONV_FORWARD_B, tensors->bias, GP_ROLE_PARAM, BIAS);
    gp_lowered_operand(op, GP_CONV_FORWARD_Y, tensors->y, GP_ROLE_OUTPUT, 0);
    return GP_OK;
}

/* Weights first: dx may then be written over dy. */
static gp_status lower_backward(const conv *self, const conv_tensors *tensors, gp_lowering *lowering, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(add_op(self, lowering, GP_PASS_BACKWARD, GP_OP_CONV_BACKWARD_WEIGHTS, &op, err));
    gp_lowered_operand(op, GP_CONV_BACKWARD_WEIGHTS_X, tensors->x, GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_CONV_BACKWARD_WEIGHTS_DY, tensors->y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_CONV_BACKWARD_WEIGHTS_DW, tensors->weight, GP_ROLE_GRAD_PARAM, WEIGHT);
    if (self->bias) gp_lowered_operand(op, GP_CONV_BACKWARD_WEIGHTS_DB, tensors->bias, GP_ROLE_GRAD_PARAM, BIAS);

    GP_RETURN_IF_FAILED(add_op(self, lowering, GP_PASS_BACKWARD, GP_OP_CONV_BACKWARD_DATA, &op, err));
    gp_lowered_operand(op, GP_CONV_BACKWARD_DATA_DY, tensors->y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_CONV_BACKWARD_DATA_W, tensors->weight, GP_ROLE_PARAM, WEIGHT);
    gp_lowered_operand(op, GP_CONV_BACKWARD_DATA_DX, tensors->x, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

static gp_status conv_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const conv *self = (const conv *)layer;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    conv_tensors tensors = tensors_of(self, lowering);
    GP_RETURN_IF_FAILED(lower_forward(self, &tensors, lowering, GP_PASS_FORWARD, err));
    GP_RETURN_IF_FAILED(lower_forward(self, &tensors, lowering, GP_PASS_EVALUATE, err));
    return lower_backward(self, &tensors, lowering, err);
}

const gp_layer_type gp_conv_type = {
    .name = "conv",
    .main_option = "out",
    .size = sizeof(conv),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = conv_read,
    .infer = conv_infer,
    .params = conv_params,
    .lower = conv_lower,
};
