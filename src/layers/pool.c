/* max_pool, avg_pool: PyTorch's MaxPool2d, AvgPool2d; global_avg_pool: the mean over a picture. */
#include <inttypes.h>

#include "layers/types.h"

typedef struct window_pool {
    gp_layer layer;
    gp_pool_attributes attributes;
    bool ceil, counts_pad;
} window_pool;

static const int64_t no_dilation[2] = {1, 1};

/* PyTorch's rule, by which every window holds an element that is not padding. */
static gp_status check_window(const window_pool *self, const gp_choice *choice, gp_error *err) {
    const int64_t *kernel = self->attributes.kernel, *pad = self->attributes.pad;
    char kernel_text[GP_PAIR_TEXT], pad_text[GP_PAIR_TEXT];
    gp_pair_text(kernel_text, kernel);
    if (kernel[0] * kernel[1] > GP_POOL_MAX_PLACES)
        return gp_fail_at(err, GP_CONFIG, gp_layer_option(choice, "kernel", true)->place,
                          "%s: kernel %s has %" PRId64 " places; the most is %d", choice->kind, kernel_text,
                          kernel[0] * kernel[1], GP_POOL_MAX_PLACES);
    if (2 * pad[0] > kernel[0] || 2 * pad[1] > kernel[1])
        return gp_fail_at(err, GP_CONFIG, gp_layer_option(choice, "pad", false)->place,
                          "%s: pad %s is more than half of kernel %s", choice->kind, gp_pair_text(pad_text, pad),
                          kernel_text);
    return GP_OK;
}

/* Windows do not overlap unless a stride is said. */
static gp_status window_check(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    gp_pool_attributes *its = &((window_pool *)layer)->attributes;
    its->count_pad = ((window_pool *)layer)->counts_pad;
    for (int axis = 0; axis < 2; axis++)
        if (its->stride[axis] == 0) its->stride[axis] = its->kernel[axis];
    return check_window((window_pool *)layer, choice, err);
}

static gp_status read_pad(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base, gp_error *err) {
    gp_pool_attributes *its = &((window_pool *)base)->attributes;
    (void)key;
    return gp_layer_read_pad(node, at, its->kernel, no_dilation, its->pad, err);
}

static const gp_key_type pad_type = {"", read_pad, NULL, NULL};

#define AT(field) offsetof(window_pool, field)
#define WINDOW(shown)                                                                                                  \
    GP_LAYER_PAIR("kernel", AT(attributes.kernel), 1, .example = (shown)),                                             \
        GP_LAYER_PAIR("stride", AT(attributes.stride), 1, .unsaid = NULL), {"pad", &pad_type, .unsaid = NULL}, {       \
        "ceil", &gp_boolean_type, AT(ceil), .unsaid = NULL                                                             \
    }
static const gp_key max_pool_options[] = {WINDOW("max_pool: 2"), {0}};
static const gp_key avg_pool_options[] = {
    WINDOW("avg_pool: 2"), {"count_pad", &gp_boolean_type, AT(counts_pad), .unsaid = "true"}, {0}};

static gp_status window_infer(gp_layer *layer, gp_error *err) {
    const window_pool *self = (const window_pool *)layer;
    const int64_t *kernel = self->attributes.kernel, *stride = self->attributes.stride, *pad = self->attributes.pad;
    int64_t size[2];
    GP_RETURN_IF_FAILED(gp_layer_check_picture(layer->inputs[0], err));
    for (int axis = 0; axis < 2; axis++)
        size[axis] = gp_pool_outputs(layer->inputs[0].dim[axis + 1], kernel[axis], stride[axis], pad[axis], self->ceil);
    if (size[0] < 1 || size[1] < 1)
        GP_RETURN_IF_FAILED(gp_layer_window(layer->inputs[0], kernel, stride, pad, no_dilation, size, err));
    layer->output = (gp_shape){3, {layer->inputs[0].dim[0], size[0], size[1]}};
    return GP_OK;
}

static gp_status max_pool_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    ops.attributes.pool = ((const window_pool *)layer)->attributes;
    gp_tensor places = gp_tensor_samples(gp_pool_index_dtype(&ops.attributes.pool), lowering->samples, layer->output);
    int side = 0;
    GP_RETURN_IF_FAILED(gp_lowering_side(lowering, places, &side, err));
    gp_layer_ops evaluate = ops; /* without the places */
    gp_layer_set(&ops, GP_NAME_INDEX, places, GP_ROLE_SIDE, side);
    GP_RETURN_IF_FAILED(gp_layer_op(&ops, GP_PASS_FORWARD, 0, GP_OP_MAX_POOL_FORWARD, err));
    GP_RETURN_IF_FAILED(gp_layer_op(&evaluate, GP_PASS_EVALUATE, 0, GP_OP_MAX_POOL_FORWARD, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_MAX_POOL_BACKWARD, err);
}

static gp_status avg_pool_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    ops.attributes.pool = ((const window_pool *)layer)->attributes;
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_AVG_POOL_FORWARD, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_AVG_POOL_BACKWARD, err);
}

static gp_status global_avg_pool_infer(gp_layer *layer, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_check_picture(layer->inputs[0], err));
    layer->output.dim[1] = layer->output.dim[2] = 1;
    return GP_OK;
}

static gp_status global_avg_pool_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    gp_layer_ops ops;
    GP_RETURN_IF_FAILED(gp_layer_begin(layer, lowering, &ops, err));
    GP_RETURN_IF_FAILED(gp_layer_forward(&ops, GP_OP_MEAN_POOL_FORWARD, err));
    return gp_layer_op(&ops, GP_PASS_BACKWARD, 0, GP_OP_MEAN_POOL_BACKWARD, err);
}

const gp_layer_type gp_max_pool_type = {
    .name = "max_pool",
    .size = sizeof(window_pool),
    .options = max_pool_options,
    .check = window_check,
    .infer = window_infer,
    .lower = max_pool_lower,
};

const gp_layer_type gp_avg_pool_type = {
    .name = "avg_pool",
    .size = sizeof(window_pool),
    .options = avg_pool_options,
    .check = window_check,
    .infer = window_infer,
    .lower = avg_pool_lower,
};

const gp_layer_type gp_global_avg_pool_type = {
    .name = "global_avg_pool",
    .infer = global_avg_pool_infer,
    .lower = global_avg_pool_lower,
};
