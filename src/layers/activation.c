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
    gp_activation function;
    double slope;
} activation;

static gp_status leaky_relu_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"slope", NULL};
    activation *self = (activation *)layer;
    self->function = GP_LEAKY_RELU;
    self->slope = 0.01;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    return gp_layer_read_number(choice, "slope", true, -INFINITY, INFINITY, &self->slope, err);
}

static gp_status gelu_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"tanh", NULL};
    activation *self = (activation *)layer;
    bool approximate = false;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    GP_RETURN_IF_FAILED(gp_layer_read_boolean(choice, "tanh", true, &approximate, err));
    self->function = approximate ? GP_GELU_TANH : GP_GELU;
    return GP_OK;
}

static gp_status plain_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    activation *self = (activation *)layer;
    self->function = layer->type == &gp_silu_type ? GP_SILU : layer->type == &gp_sigmoid_type ? GP_SIGMOID : GP_TANH;
    return gp_layer_read_nothing(layer, choice, err);
}

static gp_status activation_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    const activation *self = (const activation *)layer;
    gp_role kept = gp_activation_takes_output(self->function) ? GP_ROLE_OUTPUT : GP_ROLE_INPUT;
    ops.attributes.activation.function = (uint32_t)self->function;
    ops.attributes.activation.slope = self->slope;
    gp_layer_set(&ops, GP_NAME_A, ops.tensor[GP_NAME_Y], kept, 0);
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_ACTIVATION_FORWARD, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_ACTIVATION_BACKWARD, err);
}

const gp_layer_type gp_leaky_relu_type = {
    .name = "leaky_relu",
    .main_option = "slope",
    .size = sizeof(activation),
    .read = leaky_relu_read,
    .lower = activation_lower,
};

const gp_layer_type gp_gelu_type = {
    .name = "gelu",
    .main_option = "tanh",
    .size = sizeof(activation),
    .read = gelu_read,
    .lower = activation_lower,
};

const gp_layer_type gp_silu_type = {
    .name = "silu",
    .size = sizeof(activation),
    .read = plain_read,
    .lower = activation_lower,
};

const gp_layer_type gp_sigmoid_type = {
    .name = "sigmoid",
    .size = sizeof(activation),
    .read = plain_read,
    .lower = activation_lower,
};

const gp_layer_type gp_tanh_type = {
    .name = "tanh",
    .size = sizeof(activation),
    .read = plain_read,
    .lower = activation_lower,
};
