/* `dropout`: elements, or whole channels, are dropped with probability p, and the others are scaled by 1/(1−p). The
 * mask is drawn from counters, so the backward pass and a recompute draw it again. */
#include "base/philox.h"
#include "layers/types.h"

typedef struct dropout {
    gp_layer layer;
    double p;
    bool channels;
} dropout;

static const gp_key dropout_options[] = {
    {"p", &gp_number_type, offsetof(dropout, p), .unsaid = "0.5", .number = {0, 1, 0}},
    {"channels", &gp_boolean_type, offsetof(dropout, channels), .unsaid = NULL},
    {0},
};

static gp_status dropout_infer(gp_layer *layer, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    if (((const dropout *)layer)->channels && layer->inputs[0].rank != 3)
        return gp_fail(err, GP_CONFIG, "drops whole channels of a picture [channels, height, width], not of %s",
                       gp_shape_text(text, layer->inputs[0]));
    return GP_OK;
}

/* p = 1 drops everything, and 1/(1−p) is never taken. */
static gp_status dropout_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const dropout *self = (const dropout *)layer;
    gp_op_kind kind = self->p == 0 ? GP_OP_COPY : self->p == 1 ? GP_OP_FILL : GP_OP_DROPOUT;
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    gp_layer_ops evaluate = ops;
    if (kind == GP_OP_DROPOUT)
        ops.attributes.dropout = (gp_dropout_attributes){
            .p = self->p, .node = lowering->node, .purpose = GP_RANDOM_DROPOUT, .channels = self->channels};
    gp_layer_ops backward = gp_layer_reversed(&ops);
    GP_RETURN_IF_FAILED(gp_layer_op(&ops, GP_PASS_FORWARD, 0, kind, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&evaluate, GP_PASS_EVALUATE, 0, GP_OP_COPY, err));
    return gp_layer_op(&backward, GP_PASS_BACKWARD, 0, kind, err);
}

const gp_layer_type gp_dropout_type = {
    .name = "dropout",
    .size = sizeof(dropout),
    .options = dropout_options,
    .infer = dropout_infer,
    .lower = dropout_lower,
};
