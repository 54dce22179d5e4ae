/* flatten: a sample's elements as one row, in PyTorch's order. */
#include "layers/types.h"

typedef struct flatten {
    gp_layer layer;
} flatten;

static gp_status flatten_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {NULL};
    (void)layer;
    GP_RETURN_IF_FAILED(gp_layer_no_main(choice, err));
    return gp_layer_check_options(layer, choice, known, err);
}

static gp_status flatten_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    int64_t elements;
    (void)layer;
    (void)count;
    if (!gp_shape_elements(inputs[0], &elements)) {
        char text[GP_SHAPE_TEXT];
        return gp_fail(err, GP_CONFIG, "its input %s is too large", gp_shape_text(text, inputs[0]));
    }
    *output = (gp_shape){1, {elements}};
    return GP_OK;
}

/* A picture changes from channels last to channels first; rows are in PyTorch's order already. */
static gp_status flatten_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor y = gp_layer_samples(lowering, layer->output);
    bool picture = layer->inputs[0].rank == 3;
    gp_tensor x = picture ? gp_layer_samples(lowering, layer->inputs[0]) : y;
    gp_lowered_op *op = NULL;
    for (gp_pass pass = GP_PASS_FORWARD; pass <= GP_PASS_EVALUATE; pass++) {
        GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, picture ? GP_OP_FLATTEN : GP_OP_COPY, &op, err));
        gp_lowered_operand(op, GP_FLATTEN_X, x, GP_ROLE_INPUT, 0);
        gp_lowered_operand(op, GP_FLATTEN_Y, y, GP_ROLE_OUTPUT, 0);
    }
    GP_RETURN_IF_FAILED(
        gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, picture ? GP_OP_UNFLATTEN : GP_OP_COPY, &op, err));
    gp_lowered_operand(op, GP_FLATTEN_X, y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_FLATTEN_Y, x, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}
_Static_assert((int)GP_FLATTEN_X == (int)GP_COPY_X && (int)GP_FLATTEN_Y == (int)GP_COPY_Y, "both are x to y");

const gp_layer_type gp_flatten_type = {
    .name = "flatten",
    .size = sizeof(flatten),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = flatten_read,
    .infer = flatten_infer,
    .lower = flatten_lower,
};
