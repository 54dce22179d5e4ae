/* upsample: PyTorch's nearest, by whole factors: each element becomes a block of equals. */
#include "layers/types.h"

typedef struct upsample {
    gp_layer layer;
    int64_t scale[2];
} upsample;

static const gp_key upsample_options[] = {
    GP_LAYER_PAIR("scale", offsetof(upsample, scale), 1, .example = "upsample: 2"), {0}};

static gp_status upsample_infer(gp_layer *layer, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_check_picture(layer->inputs[0], err));
    for (int axis = 0; axis < 2; axis++) layer->output.dim[axis + 1] *= ((const upsample *)layer)->scale[axis];
    return GP_OK;
}

static gp_status upsample_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_UPSAMPLE_FORWARD, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_UPSAMPLE_BACKWARD, err);
}

const gp_layer_type gp_upsample_type = {
    .name = "upsample",
    .size = sizeof(upsample),
    .options = upsample_options,
    .infer = upsample_infer,
    .lower = upsample_lower,
};
