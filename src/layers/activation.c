/* relu, leaky_relu, gelu, silu, sigmoid, tanh. Any shape. The backward of relu, sigmoid and tanh needs the output only,
 * that of the others the input only. */
#include <math.h>

#include "layers/types.h"

static gp_status same_shape(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    (void)layer;
    (void)count;
    (void)err;
    *output = inputs[0];
    return GP_OK;
}

typedef struct relu {
    gp_layer layer;
} relu;

static gp_status relu_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {NULL};
    (void)layer;
    GP_RETURN_IF_FAILED(gp_layer_no_main(choice, err));
    return gp_layer_check_options(layer, choice, known, err);
}

static gp_status lower_relu(gp_lowering *lowering, gp_pass pass, gp_tensor tensor, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_RELU_FORWARD, &op, err));
    gp_lowered_operand(op, GP_RELU_FORWARD_X, tensor, GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_RELU_FORWARD_Y, tensor, GP_ROLE_OUTPUT, 0);
    return GP_OK;
}

static gp_status relu_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor tensor = gp_layer_samples(lowering, layer->output);
    GP_RETURN_IF_FAILED(lower_relu(lowering, GP_PASS_FORWARD, tensor, err));
    GP_RETURN_IF_FAILED(lower_relu(lowering, GP_PASS_EVALUATE, tensor, err));
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_RELU_BACKWARD, &op, err));
    gp_lowered_operand(op, GP_RELU_BACKWARD_Y, tensor, GP_ROLE_OUTPUT, 0);
    gp_lowered_operand(op, GP_RELU_BACKWARD_DY, tensor, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_RELU_BACKWARD_DX, tensor, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

const gp_layer_type gp_relu_type = {
    .name = "relu",
    .size = sizeof(relu),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = relu_read,
    .infer = same_shape,
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
    const gp_yaml *slope = gp_layer_option(choice, "slope", true);
    if (!slope) return GP_OK;
    return gp_read_number(slope, "leaky_relu: slope", -INFINITY, INFINITY, 0, &self->slope, err);
}

static gp_status gelu_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"tanh", NULL};
    activation *self = (activation *)layer;
    bool approximate = false;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    const gp_yaml *tanh = gp_layer_option(choice, "tanh", true);
    if (tanh) GP_RETURN_IF_FAILED(gp_read_boolean(tanh, "gelu: tanh", &approximate, err));
    self->function = approximate ? GP_GELU_TANH : GP_GELU;
    return GP_OK;
}

static gp_status plain_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {NULL};
    activation *self = (activation *)layer;
    self->function = layer->type == &gp_silu_type ? GP_SILU : layer->type == &gp_sigmoid_type ? GP_SIGMOID : GP_TANH;
    GP_RETURN_IF_FAILED(gp_layer_no_main(choice, err));
    return gp_layer_check_options(layer, choice, known, err);
}

static gp_status lower_forward(const activation *self, gp_lowering *lowering, gp_pass pass, gp_error *err) {
    gp_tensor tensor = gp_layer_samples(lowering, self->layer.output);
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_ACTIVATION_FORWARD, &op, err));
    op->desc.attributes.activation.function = (uint32_t)self->function;
    op->desc.attributes.activation.slope = self->slope;
    gp_lowered_operand(op, GP_ACTIVATION_FORWARD_X, tensor, GP_ROLE_INPUT, 0);
    gp_lowered_operand(op, GP_ACTIVATION_FORWARD_Y, tensor, GP_ROLE_OUTPUT, 0);
    return GP_OK;
}

static gp_status activation_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const activation *self = (const activation *)layer;
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor tensor = gp_layer_samples(lowering, layer->output);
    gp_role kept = gp_activation_takes_output(self->function) ? GP_ROLE_OUTPUT : GP_ROLE_INPUT;
    GP_RETURN_IF_FAILED(lower_forward(self, lowering, GP_PASS_FORWARD, err));
    GP_RETURN_IF_FAILED(lower_forward(self, lowering, GP_PASS_EVALUATE, err));
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_ACTIVATION_BACKWARD, &op, err));
    op->desc.attributes.activation.function = (uint32_t)self->function;
    op->desc.attributes.activation.slope = self->slope;
    gp_lowered_operand(op, GP_ACTIVATION_BACKWARD_A, tensor, kept, 0);
    gp_lowered_operand(op, GP_ACTIVATION_BACKWARD_DY, tensor, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_ACTIVATION_BACKWARD_DX, tensor, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

const gp_layer_type gp_leaky_relu_type = {
    .name = "leaky_relu",
    .main_option = "slope",
    .size = sizeof(activation),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = leaky_relu_read,
    .infer = same_shape,
    .lower = activation_lower,
};

const gp_layer_type gp_gelu_type = {
    .name = "gelu",
    .main_option = "tanh",
    .size = sizeof(activation),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = gelu_read,
    .infer = same_shape,
    .lower = activation_lower,
};

const gp_layer_type gp_silu_type = {
    .name = "silu",
    .size = sizeof(activation),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = plain_read,
    .infer = same_shape,
    .lower = activation_lower,
};

const gp_layer_type gp_sigmoid_type = {
    .name = "sigmoid",
    .size = sizeof(activation),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = plain_read,
    .infer = same_shape,
    .lower = activation_lower,
};

const gp_layer_type gp_tanh_type = {
    .name = "tanh",
    .size = sizeof(activation),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = plain_read,
    .infer = same_shape,
    .lower = activation_lower,
};
