/* relu, leaky_relu, gelu, silu, sigmoid, tanh. Any shape. The backward of relu, sigmoid and tanh needs the output only,
 * that of the others the input only. */
#include <math.h>

#include "layers/types.h"

static gp_status relu_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_RELU_FORWARD, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_RELU_BACKWARD, err);
}

const gp_layer_type gp_relu_type = {
    .name = "relu",
    .lower = relu_lower,
};

/* Those that the activation ops compute. */
typedef struct activation {
    gp_layer layer;
    double slope;     /* leaky_relu */
    bool approximate; /* gelu */
} activation;

static gp_activation function_of(const activation *self) {
    const gp_layer_type *type = self->layer.type;
    if (type == &gp_leaky_relu_type) return GP_LEAKY_RELU;
    if (type == &gp_gelu_type) return self->approximate ? GP_GELU_TANH : GP_GELU;
    return type == &gp_silu_type ? GP_SILU : type == &gp_sigmoid_type ? GP_SIGMOID : GP_TANH;
}

static gp_status activation_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    const activation *self = (const activation *)layer;
    gp_activation function = function_of(self);
    gp_role kept = gp_activation_takes_output(function) ? GP_ROLE_OUTPUT : GP_ROLE_INPUT;
    ops.attributes.activation.function = (uint32_t)function;
    ops.attributes.activation.slope = self->slope;
    gp_layer_set(&ops, GP_NAME_A, ops.tensor[GP_NAME_Y], kept, 0);
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_ACTIVATION_FORWARD, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_ACTIVATION_BACKWARD, err);
}

static const gp_key leaky_relu_options[] = {
    {"slope", &gp_number_type, offsetof(activation, slope), .unsaid = "0.01", .number = {-INFINITY, INFINITY, 0}}, {0}};

const gp_layer_type gp_leaky_relu_type = {
    .name = "leaky_relu",
    .size = sizeof(activation),
    .options = leaky_relu_options,
    .lower = activation_lower,
};

static const gp_key gelu_options[] = {{"tanh", &gp_boolean_type, offsetof(activation, approximate), .unsaid = NULL},
                                      {0}};

const gp_layer_type gp_gelu_type = {
    .name = "gelu",
    .size = sizeof(activation),
    .options = gelu_options,
    .lower = activation_lower,
};

const gp_layer_type gp_silu_type = {
    .name = "silu",
    .size = sizeof(activation),
    .lower = activation_lower,
};

const gp_layer_type gp_sigmoid_type = {
    .name = "sigmoid",
    .size = sizeof(activation),
    .lower = activation_lower,
};

const gp_layer_type gp_tanh_type = {
    .name = "tanh",
    .size = sizeof(activation),
    .lower = activation_lower,
};
