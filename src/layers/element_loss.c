/* mse, bce_logits: PyTorch's MSELoss and BCEWithLogitsLoss over targets of the prediction's shape, the mean over all
 * elements. Each micro-batch leaves its sum as statistics; the divisor stands among the step's scalars. */
#include "layers/types.h"

typedef struct element_loss {
    gp_layer layer;
} element_loss;

static gp_status element_loss_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {NULL};
    static const char *const later[] = {"name", "from", "target", "loss_weight", NULL};
    (void)layer;
    if (choice->main)
        return gp_fail_at(err, GP_CONFIG, choice->main->place, "%s has no options, and takes no value", choice->kind);
    return choice->options ? gp_check_keys(choice->options, choice->kind, known, later, err) : GP_OK;
}

static gp_status element_loss_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output,
                                    gp_error *err) {
    (void)layer;
    (void)count;
    (void)err;
    *output = inputs[0];
    return GP_OK;
}

static gp_status lower_forward(gp_lowering *lowering, gp_pass pass, gp_tensor tensor, gp_element_loss function,
                               gp_error *err) {
    unsigned flags = pass == GP_PASS_FORWARD ? GP_LOWERED_ONCE : 0;
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, flags, GP_OP_ELEMENT_LOSS_FORWARD, &op, err));
    op->desc.attributes.element_loss.function = (uint32_t)function;
    gp_lowered_operand(op, GP_ELEMENT_LOSS_FORWARD_X, tensor, GP_ROLE_INPUT, GP_LOSS_PREDICTION);
    gp_lowered_operand(op, GP_ELEMENT_LOSS_FORWARD_TARGET, tensor, GP_ROLE_INPUT, GP_LOSS_TARGET);
    gp_lowered_operand(op, GP_ELEMENT_LOSS_FORWARD_PARTIAL, gp_loss_partial(), GP_ROLE_STATS, GP_LOSS_STATS_PARTIAL);
    return GP_OK;
}

static gp_status lower(const gp_layer *layer, gp_lowering *lowering, gp_element_loss function, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor tensor = gp_layer_samples(lowering, layer->inputs[0]);
    GP_RETURN_IF_FAILED(gp_loss_declare(layer, lowering, err));
    GP_RETURN_IF_FAILED(lower_forward(lowering, GP_PASS_FORWARD, tensor, function, err));
    GP_RETURN_IF_FAILED(lower_forward(lowering, GP_PASS_EVALUATE, tensor, function, err));
    GP_RETURN_IF_FAILED(gp_loss_keep_prediction(layer, lowering, err));
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_ELEMENT_LOSS_BACKWARD, &op, err));
    op->desc.attributes.element_loss.function = (uint32_t)function;
    gp_lowered_operand(op, GP_ELEMENT_LOSS_BACKWARD_X, tensor, GP_ROLE_INPUT, GP_LOSS_PREDICTION);
    gp_lowered_operand(op, GP_ELEMENT_LOSS_BACKWARD_TARGET, tensor, GP_ROLE_INPUT, GP_LOSS_TARGET);
    gp_layer_scalars(op, GP_ELEMENT_LOSS_BACKWARD_SCALARS);
    gp_lowered_operand(op, GP_ELEMENT_LOSS_BACKWARD_DX, tensor, GP_ROLE_GRAD_INPUT, GP_LOSS_PREDICTION);
    return GP_OK;
}

static gp_status mse_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    return lower(layer, lowering, GP_ELEMENT_MSE, err);
}

static gp_status bce_logits_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    return lower(layer, lowering, GP_ELEMENT_BCE_LOGITS, err);
}

const gp_layer_type gp_mse_type = {
    .name = "mse",
    .size = sizeof(element_loss),
    .loss = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .read = element_loss_read,
    .infer = element_loss_infer,
    .lower = mse_lower,
    .lower_mini_batch = gp_loss_lower_mini_batch,
};

const gp_layer_type gp_bce_logits_type = {
    .name = "bce_logits",
    .size = sizeof(element_loss),
    .loss = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .read = element_loss_read,
    .infer = element_loss_infer,
    .lower = bce_logits_lower,
    .lower_mini_batch = gp_loss_lower_mini_batch,
};
