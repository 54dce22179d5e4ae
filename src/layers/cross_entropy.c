/* cross_entropy: PyTorch's CrossEntropyLoss with class indices, over [C], [t,C] and, channels being the classes, over
 * pictures [C,h,w]: in memory the classes come last in all of them. Each micro-batch leaves its partial sums as
 * statistics; the mean is taken over the mini-batch, by the divisor among the step's scalars. */
#include "layers/types.h"

typedef struct cross_entropy {
    gp_layer layer;
    gp_cross_entropy_attributes attributes;
} cross_entropy;

static gp_status cross_entropy_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"smoothing", "ignore", NULL};
    static const char *const later[] = {"name", "from", "target", "loss_weight", "weight", NULL};
    gp_cross_entropy_attributes *attributes = &((cross_entropy *)layer)->attributes;
    if (choice->options) GP_RETURN_IF_FAILED(gp_check_keys(choice->options, choice->kind, known, later, err));
    const gp_yaml *smoothing = gp_layer_option(choice, "smoothing", true);
    const gp_yaml *ignore = gp_layer_option(choice, "ignore", false);
    attributes->ignore = -100;
    if (smoothing)
        GP_RETURN_IF_FAILED(
            gp_read_number(smoothing, "cross_entropy: smoothing", 0, 1, 0, &attributes->smoothing, err));
    if (!ignore) return GP_OK;
    return gp_read_integer(ignore, "cross_entropy: ignore", INT64_MIN, INT64_MAX, &attributes->ignore, err);
}

static gp_status cross_entropy_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output,
                                     gp_error *err) {
    const int64_t *dim = inputs[0].dim;
    (void)layer;
    (void)count;
    (void)err;
    *output = (gp_shape){.rank = inputs[0].rank - 1};
    if (inputs[0].rank == 2) output->dim[0] = dim[0];
    if (inputs[0].rank == 3) *output = (gp_shape){2, {dim[1], dim[2]}};
    return GP_OK;
}

static int64_t cross_entropy_classes(const gp_layer *layer) {
    return layer->inputs[0].dim[layer->inputs[0].rank == 2 ? 1 : 0];
}

static int64_t cross_entropy_ignore(const gp_layer *layer) {
    return ((const cross_entropy *)layer)->attributes.ignore;
}

static gp_status lower_forward(const gp_layer *layer, gp_lowering *lowering, gp_pass pass, gp_error *err) {
    unsigned flags = pass == GP_PASS_FORWARD ? GP_LOWERED_ONCE : 0;
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, flags, GP_OP_CROSS_ENTROPY_FORWARD, &op, err));
    op->desc.attributes.cross_entropy = ((const cross_entropy *)layer)->attributes;
    gp_lowered_operand(op, GP_CROSS_ENTROPY_FORWARD_X, gp_layer_samples(lowering, layer->inputs[0]), GP_ROLE_INPUT,
                       GP_LOSS_PREDICTION);
    gp_lowered_operand(op, GP_CROSS_ENTROPY_FORWARD_TARGET, gp_tensor_samples(GP_I64, lowering->samples, layer->output),
                       GP_ROLE_INPUT, GP_LOSS_TARGET);
    gp_lowered_operand(op, GP_CROSS_ENTROPY_FORWARD_PARTIAL, gp_loss_partial(), GP_ROLE_STATS, GP_LOSS_STATS_PARTIAL);
    return GP_OK;
}

static gp_status cross_entropy_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    GP_RETURN_IF_FAILED(gp_loss_declare(layer, lowering, err));
    GP_RETURN_IF_FAILED(lower_forward(layer, lowering, GP_PASS_FORWARD, err));
    GP_RETURN_IF_FAILED(lower_forward(layer, lowering, GP_PASS_EVALUATE, err));
    GP_RETURN_IF_FAILED(gp_loss_keep_prediction(layer, lowering, err));

    gp_tensor x = gp_layer_samples(lowering, layer->inputs[0]);
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_CROSS_ENTROPY_BACKWARD, &op, err));
    op->desc.attributes.cross_entropy = ((const cross_entropy *)layer)->attributes;
    gp_lowered_operand(op, GP_CROSS_ENTROPY_BACKWARD_X, x, GP_ROLE_INPUT, GP_LOSS_PREDICTION);
    gp_lowered_operand(op, GP_CROSS_ENTROPY_BACKWARD_TARGET,
                       gp_tensor_samples(GP_I64, lowering->samples, layer->output), GP_ROLE_INPUT, GP_LOSS_TARGET);
    gp_layer_scalars(op, GP_CROSS_ENTROPY_BACKWARD_SCALARS);
    gp_lowered_operand(op, GP_CROSS_ENTROPY_BACKWARD_DX, x, GP_ROLE_GRAD_INPUT, GP_LOSS_PREDICTION);
    return GP_OK;
}

const gp_layer_type gp_cross_entropy_type = {
    .name = "cross_entropy",
    .main_option = "smoothing",
    .size = sizeof(cross_entropy),
    .loss = true,
    .target_is_class = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .read = cross_entropy_read,
    .infer = cross_entropy_infer,
    .lower = cross_entropy_lower,
    .lower_mini_batch = gp_loss_lower_mini_batch,
    .classes = cross_entropy_classes,
    .ignore = cross_entropy_ignore,
};
