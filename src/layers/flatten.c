/* flatten: a sample's elements as one row, in PyTorch's order. */
#include "layers/types.h"

static gp_status flatten_infer(gp_layer *layer, gp_error *err) {
    int64_t elements;
    if (!gp_shape_elements(layer->inputs[0], &elements)) {
        char text[GP_SHAPE_TEXT];
        return gp_fail(err, GP_CONFIG, "its input %s is too large", gp_shape_text(text, layer->inputs[0]));
    }
    layer->output = (gp_shape){1, {elements}};
    return GP_OK;
}

/* A picture changes from channels last to channels first; rows are in PyTorch's order already. */
static gp_status flatten_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    bool picture = layer->inputs[0].rank == 3;
    if (!picture) ops.tensor[GP_NAME_X] = ops.tensor[GP_NAME_DX] = ops.tensor[GP_NAME_Y];
    gp_layer_ops backward = gp_layer_reversed(&ops);
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, picture ? GP_OP_FLATTEN : GP_OP_COPY, err));
    return gp_layer_op(&backward, GP_PASS_BACKWARD, 0, picture ? GP_OP_UNFLATTEN : GP_OP_COPY, err);
}

const gp_layer_type gp_flatten_type = {
    .name = "flatten",
    .infer = flatten_infer,
    .lower = flatten_lower,
};
