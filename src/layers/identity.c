/* identity: y = x, of any shape. A copy that the planner leaves out if no other layer needs the place of its input. */
#include "layers/types.h"

static gp_status identity_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    gp_layer_ops backward = gp_layer_reversed(&ops);
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_COPY, err));
    return gp_layer_op(&backward, GP_PASS_BACKWARD, 0, GP_OP_COPY, err);
}

const gp_layer_type gp_identity_type = {
    .name = "identity",
    .lower = identity_lower,
};
