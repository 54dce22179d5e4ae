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

static gp_status read_pad(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base, gp_error *err) {
    gp_conv_attributes *its = &((conv *)base)->attributes;
    (void)key;
    return gp_layer_read_pad(node, at, its->kernel, its->dilation, its->pad, err);
}

static const gp_key_type pad_type = {"", read_pad, NULL, NULL};

#define AT(field) offsetof(conv, field)
#define EXAMPLE   .example = "conv: {out: 16, kernel: 3}"
static const gp_key conv_options[] = {
    GP_LAYER_COUNT("out", AT(out), EXAMPLE),
    GP_LAYER_PAIR("kernel", AT(attributes.kernel), 1, EXAMPLE),
    GP_LAYER_PAIR("stride", AT(attributes.stride), 1, .unsaid = "1"),
    {"pad", &pad_type, .unsaid = NULL},
    GP_LAYER_PAIR("dilation", AT(attributes.dilation), 1, .unsaid = "1", .flags = GP_KEY_FIRST),
    GP_LAYER_COUNT("groups", AT(attributes.groups), .unsaid = "1"),
    {"bias", &gp_boolean_type, AT(bias), .unsaid = "true"},
    {0},
};

static gp_status conv_infer(gp_layer *layer, gp_error *err) {
    const conv *self = (const conv *)layer;
    const gp_conv_attributes *attributes = &self->attributes;
    int64_t size[2];
    GP_RETURN_IF_FAILED(gp_layer_check_picture(layer->inputs[0], err));
    if (layer->inputs[0].dim[0] % attributes->groups)
        return gp_fail(err, GP_CONFIG, "groups %" PRId64 " does not divide its %" PRId64 " input channels",
                       attributes->groups, layer->inputs[0].dim[0]);
    if (self->out % attributes->groups)
        return gp_fail(err, GP_CONFIG, "groups %" PRId64 " does not divide its %" PRId64 " output channels",
                       attributes->groups, self->out);
    GP_RETURN_IF_FAILED(gp_layer_window(layer->inputs[0], attributes->kernel, attributes->stride, attributes->pad,
                                        attributes->dilation, size, err));
    layer->output = (gp_shape){3, {self->out, size[0], size[1]}};
    return GP_OK;
}

static int conv_params(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    const conv *self = (const conv *)layer;
    const int64_t *kernel = self->attributes.kernel;
    int64_t in = layer->inputs[0].dim[0] / self->attributes.groups;
    double bound = 1 / sqrt((double)in * (double)kernel[0] * (double)kernel[1]);
    return gp_layer_weights((gp_shape){4, {self->out, in, kernel[0], kernel[1]}}, self->bias, bound, specs);
}

/* Weights first: dx may then be written over dy. */
static gp_status conv_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const conv *self = (const conv *)layer;
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    ops.attributes.conv = self->attributes;
    gp_layer_set_weights(&ops, layer, GP_FORMAT_ANY);
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_CONV_FORWARD, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_CONV_BACKWARD_WEIGHTS, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_CONV_BACKWARD_DATA, err);
}

const gp_layer_type gp_conv_type = {
    .name = "conv",
    .size = sizeof(conv),
    .options = conv_options,
    .infer = conv_infer,
    .params = conv_params,
    .lower = conv_lower,
};
