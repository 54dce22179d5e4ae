/* cross_entropy: PyTorch's CrossEntropyLoss with class indices, over [C], [t,C] and, channels being the classes, over
 * pictures [C,h,w]: in memory the classes come last in all of them. Each micro-batch leaves its partial sums as
 * statistics; the mean is taken over the mini-batch, by the divisor among the step's scalars. */
#include <string.h>

#include "layers/types.h"

typedef struct cross_entropy {
    gp_layer layer;
    gp_cross_entropy_attributes attributes;
} cross_entropy;

#define AT(field) offsetof(cross_entropy, attributes.field)
static const gp_key cross_entropy_options[] = {
    {"smoothing", &gp_number_type, AT(smoothing), .number = {0, 1, 0}},
    {"ignore", &gp_int64_type, AT(ignore), .unsaid = "-100", .integer = {INT64_MIN, INT64_MAX}},
    {0},
};
static const char *const later[] = {"name", "from", "target", "loss_weight", "weight", NULL};

static gp_status cross_entropy_infer(gp_layer *layer, gp_error *err) {
    const gp_shape *input = &layer->inputs[0];
    (void)err;
    layer->output = (gp_shape){.rank = input->rank - 1};
    if (input->rank == 2) layer->output.dim[0] = input->dim[0];
    if (input->rank == 3) layer->output = (gp_shape){2, {input->dim[1], input->dim[2]}};
    return GP_OK;
}

static int64_t cross_entropy_classes(const gp_layer *layer) {
    return layer->inputs[0].dim[layer->inputs[0].rank == 2 ? 1 : 0];
}

static int64_t cross_entropy_ignore(const gp_layer *layer) {
    return ((const cross_entropy *)layer)->attributes.ignore;
}

static gp_status cross_entropy_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_op_attributes attributes;
    memset(&attributes, 0, sizeof attributes); /* the op cache compares all bytes */
    attributes.cross_entropy = ((const cross_entropy *)layer)->attributes;
    gp_tensor target = gp_tensor_samples(GP_I64, lowering->samples, layer->output);
    return gp_loss_lower(layer, lowering, target, GP_OP_CROSS_ENTROPY_FORWARD, GP_OP_CROSS_ENTROPY_BACKWARD, attributes,
                         err);
}

const gp_layer_type gp_cross_entropy_type = {
    .name = "cross_entropy",
    .size = sizeof(cross_entropy),
    .loss = true,
    .target_is_class = true,
    .options = cross_entropy_options,
    .later = later,
    .infer = cross_entropy_infer,
    .lower = cross_entropy_lower,
    .lower_mini_batch = gp_loss_lower_mini_batch,
    .classes = cross_entropy_classes,
    .ignore = cross_entropy_ignore,
};
