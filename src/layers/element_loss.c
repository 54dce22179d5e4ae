/* mse, bce_logits: PyTorch's MSELoss and BCEWithLogitsLoss over targets of the prediction's shape, the mean over all
 * elements. Each micro-batch leaves its sum as statistics; the divisor stands among the step's scalars. */
#include <string.h>

#include "layers/types.h"

static const char *const later[] = {"name", "from", "target", "loss_weight", NULL};

static gp_status element_loss_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_element_loss function = layer->type == &gp_mse_type ? GP_ELEMENT_MSE : GP_ELEMENT_BCE_LOGITS;
    gp_op_attributes attributes;
    memset(&attributes, 0, sizeof attributes); /* the op cache compares all bytes */
    attributes.element_loss.function = (uint32_t)function;
    gp_tensor target = gp_layer_samples(lowering, layer->inputs[0]);
    return gp_loss_lower(layer, lowering, target, GP_OP_ELEMENT_LOSS_FORWARD, GP_OP_ELEMENT_LOSS_BACKWARD, attributes,
                         err);
}

const gp_layer_type gp_mse_type = {
    .name = "mse",
    .loss = true,
    .later = later,
    .lower = element_loss_lower,
    .lower_mini_batch = gp_loss_lower_mini_batch,
};

const gp_layer_type gp_bce_logits_type = {
    .name = "bce_logits",
    .loss = true,
    .later = later,
    .lower = element_loss_lower,
    .lower_mini_batch = gp_loss_lower_mini_batch,
};
