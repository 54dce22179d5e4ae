/* relu. Any shape; its backward needs the output only. */
#include "layers/types.h"

typedef struct relu {
    gp_layer layer;
} relu;

static gp_status relu_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {NULL};
    (void)layer;
    GP_RETURN_IF_FAILED(gp_layer_no_main(choice, err));
    return gp_layer_check_options(choice, known, err);
}

static gp_status relu_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    (void)layer;
    (void)count;
    (void)err;
    *output = inputs[0];
    return GP_OK;
}

static gp_status lower_forward(gp_lowering *lowering, gp_pass pass, gp_tensor tensor, gp_error *err) {
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
    GP_RETURN_IF_FAILED(lower_forward(lowering, GP_PASS_FORWARD, tensor, err));
    GP_RETURN_IF_FAILED(lower_forward(lowering, GP_PASS_EVALUATE, tensor, err));
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
    .infer = relu_infer,
    .lower = relu_lower,
};
