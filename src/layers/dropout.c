/* dropout: elements, or whole channels, dropped with probability p, the others scaled by 1/(1−p); the mask is drawn
 * from counters, so that the backward pass and a recompute draw it again. */
#include "base/philox.h"
#include "layers/types.h"

typedef struct dropout {
    gp_layer layer;
    double p;
    bool channels;
} dropout;

static gp_status dropout_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"p", "channels", NULL};
    dropout *self = (dropout *)layer;
    self->p = 0.5;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    const gp_yaml *p = gp_layer_option(choice, "p", true);
    if (p) GP_RETURN_IF_FAILED(gp_read_number(p, "dropout: p", 0, 1, 0, &self->p, err));
    const gp_yaml *channels = gp_layer_option(choice, "channels", false);
    return channels ? gp_read_boolean(channels, "dropout: channels", &self->channels, err) : GP_OK;
}

static gp_status dropout_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    (void)count;
    if (((const dropout *)layer)->channels && inputs[0].rank != 3)
        return gp_fail(err, GP_CONFIG, "drops whole channels of a picture [channels, height, width], not of %s",
                       gp_shape_text(text, inputs[0]));
    *output = inputs[0];
    return GP_OK;
}

/* One direction of training: y from x. p = 1 drops everything, and 1/(1−p) is never taken. */
static gp_status lower_masked(const dropout *self, gp_lowering *lowering, gp_pass pass, gp_tensor tensor, gp_role from,
                              gp_role to, gp_error *err) {
    gp_lowered_op *op = NULL;
    if (self->p == 0) return gp_layer_copy(lowering, pass, tensor, (gp_ref){from, 0, 0}, (gp_ref){to, 0, 0}, err);
    if (self->p == 1) {
        GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_FILL, &op, err));
        gp_lowered_operand(op, GP_FILL_Y, tensor, to, 0);
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_DROPOUT, &op, err));
    op->desc.attributes.dropout.p = self->p;
    op->desc.attributes.dropout.node = lowering->node;
    op->desc.attributes.dropout.purpose = GP_RANDOM_DROPOUT;
    op->desc.attributes.dropout.channels = self->channels;
    gp_lowered_operand(op, GP_DROPOUT_X, tensor, from, 0);
    gp_layer_scalars(op, GP_DROPOUT_SCALARS);
    gp_lowered_operand(op, GP_DROPOUT_Y, tensor, to, 0);
    return GP_OK;
}

static gp_status dropout_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const dropout *self = (const dropout *)layer;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor tensor = gp_layer_samples(lowering, layer->output);
    GP_RETURN_IF_FAILED(lower_masked(self, lowering, GP_PASS_FORWARD, tensor, GP_ROLE_INPUT, GP_ROLE_OUTPUT, err));
    GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_EVALUATE, tensor, (gp_ref){GP_ROLE_INPUT, 0, 0},
                                      (gp_ref){GP_ROLE_OUTPUT, 0, 0}, err));
    return lower_masked(self, lowering, GP_PASS_BACKWARD, tensor, GP_ROLE_GRAD_OUTPUT, GP_ROLE_GRAD_INPUT, err);
}

const gp_layer_type gp_dropout_type = {
    .name = "dropout",
    .main_option = "p",
    .size = sizeof(dropout),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = dropout_read,
    .infer = dropout_infer,
    .lower = dropout_lower,
};
