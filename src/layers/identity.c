/* identity: y = x, of any shape. A copy that the planner leaves out where nobody else needs its input's place. */
#include "layers/types.h"

typedef struct identity {
    gp_layer layer;
} identity;

static gp_status identity_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {NULL};
    (void)layer;
    GP_RETURN_IF_FAILED(gp_layer_no_main(choice, err));
    return gp_layer_check_options(layer, choice, known, err);
}

static gp_status identity_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    (void)layer;
    (void)count;
    (void)err;
    *output = inputs[0];
    return GP_OK;
}

static gp_status identity_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const gp_ref input = {GP_ROLE_INPUT, 0, 0}, output = {GP_ROLE_OUTPUT, 0, 0};
    const gp_ref grad_input = {GP_ROLE_GRAD_INPUT, 0, 0}, grad_output = {GP_ROLE_GRAD_OUTPUT, 0, 0};
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor tensor = gp_layer_samples(lowering, layer->output);
    GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_FORWARD, tensor, input, output, err));
    GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_EVALUATE, tensor, input, output, err));
    return gp_layer_copy(lowering, GP_PASS_BACKWARD, tensor, grad_output, grad_input, err);
}

const gp_layer_type gp_identity_type = {
    .name = "identity",
    .size = sizeof(identity),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = identity_read,
    .infer = identity_infer,
    .lower = identity_lower,
};
