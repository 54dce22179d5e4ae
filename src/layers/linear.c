/* linear: y = x·Wᵀ + b over the last dimension. */
#include <math.h>

#include "layers/types.h"

typedef struct linear {
    gp_layer layer;
    int64_t out;
    bool bias;
} linear;

/* Its other value comes later. */
static gp_status read_false(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                            gp_error *err) {
    bool given = false;
    (void)key;
    (void)base;
    GP_RETURN_IF_FAILED(gp_read_boolean(node, at->what, &given, err));
    return given ? gp_refuse(node->place, at->what, err, "true is not available yet") : GP_OK;
}

static const gp_key_type false_type = {"", read_false, NULL, NULL};

static const gp_key linear_options[] = {
    GP_LAYER_COUNT("out", offsetof(linear, out), .example = "linear: {out: 10}"),
    {"bias", &gp_boolean_type, offsetof(linear, bias), .unsaid = "true"},
    {"transposed", &false_type, .unsaid = NULL},
    {0},
};

static gp_status linear_infer(gp_layer *layer, gp_error *err) {
    const linear *self = (const linear *)layer;
    char text[GP_SHAPE_TEXT];
    if (layer->inputs[0].rank > 2)
        return gp_fail(err, GP_CONFIG,
                       "takes rows [width] or [length, width], not the picture %s: put flatten before it",
                       gp_shape_text(text, layer->inputs[0]));
    layer->output.dim[layer->output.rank - 1] = self->out;
    return GP_OK;
}

static int linear_params(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    const linear *self = (const linear *)layer;
    int64_t in = layer->inputs[0].dim[layer->inputs[0].rank - 1];
    return gp_layer_weights((gp_shape){2, {self->out, in}}, self->bias, 1 / sqrt((double)in), specs);
}

/* Weights first: dx may then be written over dy. */
static gp_status linear_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    gp_layer_set_weights(&ops, layer, GP_FORMAT_PLAIN);
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_LINEAR_FORWARD, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_LINEAR_BACKWARD_WEIGHTS, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_LINEAR_BACKWARD_DATA, err);
}

const gp_layer_type gp_linear_type = {
    .name = "linear",
    .size = sizeof(linear),
    .options = linear_options,
    .infer = linear_infer,
    .params = linear_params,
    .lower = linear_lower,
};
