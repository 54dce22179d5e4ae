/* upsample: PyTorch's nearest, by whole factors: each element becomes a block of equals. */
#include "layers/types.h"

typedef struct upsample {
    gp_layer layer;
    int64_t scale[2];
} upsample;

static gp_status upsample_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"scale", NULL};
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    const gp_yaml *scale = gp_layer_option(choice, "scale", true);
    GP_RETURN_IF_FAILED(gp_layer_required(choice, scale, "scale", "upsample: 2", err));
    return gp_read_pair(scale, "upsample: scale", 1, GP_LAYER_MAX_WINDOW, ((upsample *)layer)->scale, err);
}

static gp_status upsample_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    const int64_t *scale = ((const upsample *)layer)->scale;
    (void)count;
    GP_RETURN_IF_FAILED(gp_layer_check_picture(inputs[0], err));
    *output = (gp_shape){3, {inputs[0].dim[0], inputs[0].dim[1] * scale[0], inputs[0].dim[2] * scale[1]}};
    return GP_OK;
}

static gp_status upsample_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor x = gp_layer_samples(lowering, layer->inputs[0]);
    gp_tensor y = gp_layer_samples(lowering, layer->output);
    gp_lowered_op *op = NULL;
    for (gp_pass pass = GP_PASS_FORWARD; pass <= GP_PASS_EVALUATE; pass++) {
        GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_UPSAMPLE_FORWARD, &op, err));
        gp_lowered_operand(op, GP_UPSAMPLE_FORWARD_X, x, GP_ROLE_INPUT, 0);
        gp_lowered_operand(op, GP_UPSAMPLE_FORWARD_Y, y, GP_ROLE_OUTPUT, 0);
    }
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_UPSAMPLE_BACKWARD, &op, err));
    gp_lowered_operand(op, GP_UPSAMPLE_BACKWARD_DY, y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_UPSAMPLE_BACKWARD_DX, x, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

const gp_layer_type gp_upsample_type = {
    .name = "upsample",
    .main_option = "scale",
    .size = sizeof(upsample),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = upsample_read,
    .infer = upsample_infer,
    .lower = upsample_lower,
};
