/* max_pool, avg_pool: PyTorch's MaxPool2d, AvgPool2d; global_avg_pool: the mean over a picture. */
#include <inttypes.h>
#include <stdio.h>

#include "layers/types.h"

typedef struct window_pool {
    gp_layer layer;
    gp_pool_attributes attributes;
    bool ceil;
} window_pool;

typedef struct global_avg_pool {
    gp_layer layer;
} global_avg_pool;

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

static gp_status read_pair(const gp_choice *choice, const gp_yaml *option, const char *name, int64_t low,
                           int64_t out[2], gp_error *err) {
    char what[64];
    if (!option) return GP_OK;
    snprintf(what, sizeof what, "%s: %s", choice->kind, name);
    return gp_read_pair(option, what, low, GP_LAYER_MAX_WINDOW, out, err);
}

static gp_status read_pad(gp_pool_attributes *attributes, const gp_choice *choice, gp_error *err) {
    static const int64_t dilation[2] = {1, 1};
    const gp_yaml *pad = gp_layer_option(choice, "pad", false);
    char what[64];
    if (!pad) return GP_OK;
    snprintf(what, sizeof what, "%s: pad", choice->kind);
    return gp_layer_read_pad(pad, what, attributes->kernel, dilation, attributes->pad, err);
}

static gp_status read_boolean(const gp_choice *choice, const char *name, bool *out, gp_error *err) {
    const gp_yaml *option = gp_layer_option(choice, name, false);
    char what[64];
    if (!option) return GP_OK;
    snprintf(what, sizeof what, "%s: %s", choice->kind, name);
    return gp_read_boolean(option, what, out, err);
}

static gp_status window_read(window_pool *self, const gp_choice *choice, const char *example, gp_error *err) {
    gp_pool_attributes *attributes = &self->attributes;
    const gp_yaml *kernel = gp_layer_option(choice, "kernel", true);
    GP_RETURN_IF_FAILED(gp_layer_required(choice, kernel, "kernel", example, err));
    GP_RETURN_IF_FAILED(read_pair(choice, kernel, "kernel", 1, attributes->kernel, err));
    for (int axis = 0; axis < 2; axis++) attributes->stride[axis] = attributes->kernel[axis];
    GP_RETURN_IF_FAILED(
        read_pair(choice, gp_layer_option(choice, "stride", false), "stride", 1, attributes->stride, err));
    GP_RETURN_IF_FAILED(read_pad(attributes, choice, err));
    GP_RETURN_IF_FAILED(read_boolean(choice, "ceil", &self->ceil, err));
    return check_window(self, choice, err);
}

static gp_status max_pool_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"kernel", "stride", "pad", "ceil", NULL};
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    return window_read((window_pool *)layer, choice, "max_pool: 2", err);
}

static gp_status avg_pool_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"kernel", "stride", "pad", "ceil", "count_pad", NULL};
    window_pool *self = (window_pool *)layer;
    bool count_pad = true;
    GP_RETURN_IF_FAILED(gp_layer_check_options(layer, choice, known, err));
    GP_RETURN_IF_FAILED(window_read(self, choice, "avg_pool: 2", err));
    GP_RETURN_IF_FAILED(read_boolean(choice, "count_pad", &count_pad, err));
    self->attributes.count_pad = count_pad ? 1 : 0;
    return GP_OK;
}

static gp_status window_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    static const int64_t dilation[2] = {1, 1};
    const window_pool *self = (const window_pool *)layer;
    const int64_t *kernel = self->attributes.kernel, *stride = self->attributes.stride, *pad = self->attributes.pad;
    int64_t size[2];
    (void)count;
    GP_RETURN_IF_FAILED(gp_layer_check_picture(inputs[0], err));
    for (int axis = 0; axis < 2; axis++)
        size[axis] = gp_pool_outputs(inputs[0].dim[axis + 1], kernel[axis], stride[axis], pad[axis], self->ceil);
    if (size[0] < 1 || size[1] < 1)
        GP_RETURN_IF_FAILED(gp_layer_window(inputs[0], kernel, stride, pad, dilation, size, err));
    *output = (gp_shape){3, {inputs[0].dim[0], size[0], size[1]}};
    return GP_OK;
}

static gp_status max_pool_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const gp_pool_attributes *attributes = &((const window_pool *)layer)->attributes;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor x = gp_layer_samples(lowering, layer->inputs[0]);
    gp_tensor y = gp_layer_samples(lowering, layer->output);
    gp_tensor places = gp_tensor_samples(gp_pool_index_dtype(attributes), lowering->samples, layer->output);
    gp_lowered_op *op = NULL;
    int side = 0;
    GP_RETURN_IF_FAILED(gp_lowering_side(lowering, places, &side, err));
    for (gp_pass pass = GP_PASS_FORWARD; pass <= GP_PASS_EVALUATE; pass++) {
        GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_MAX_POOL_FORWARD, &op, err));
        op->desc.attributes.pool = *attributes;
        gp_lowered_operand(op, GP_MAX_POOL_FORWARD_X, x, GP_ROLE_INPUT, 0);
        gp_lowered_operand(op, GP_MAX_POOL_FORWARD_Y, y, GP_ROLE_OUTPUT, 0);
        if (pass == GP_PASS_FORWARD) gp_lowered_operand(op, GP_MAX_POOL_FORWARD_INDEX, places, GP_ROLE_SIDE, side);
    }
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_MAX_POOL_BACKWARD, &op, err));
    op->desc.attributes.pool = *attributes;
    gp_lowered_operand(op, GP_MAX_POOL_BACKWARD_INDEX, places, GP_ROLE_SIDE, side);
    gp_lowered_operand(op, GP_MAX_POOL_BACKWARD_DY, y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_MAX_POOL_BACKWARD_DX, x, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

static gp_status avg_pool_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const gp_pool_attributes *attributes = &((const window_pool *)layer)->attributes;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor x = gp_layer_samples(lowering, layer->inputs[0]);
    gp_tensor y = gp_layer_samples(lowering, layer->output);
    gp_lowered_op *op = NULL;
    for (gp_pass pass = GP_PASS_FORWARD; pass <= GP_PASS_EVALUATE; pass++) {
        GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_AVG_POOL_FORWARD, &op, err));
        op->desc.attributes.pool = *attributes;
        gp_lowered_operand(op, GP_AVG_POOL_FORWARD_X, x, GP_ROLE_INPUT, 0);
        gp_lowered_operand(op, GP_AVG_POOL_FORWARD_Y, y, GP_ROLE_OUTPUT, 0);
    }
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_AVG_POOL_BACKWARD, &op, err));
    op->desc.attributes.pool = *attributes;
    gp_lowered_operand(op, GP_AVG_POOL_BACKWARD_DY, y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_AVG_POOL_BACKWARD_DX, x, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

static gp_status global_avg_pool_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {NULL};
    (void)layer;
    GP_RETURN_IF_FAILED(gp_layer_no_main(choice, err));
    return gp_layer_check_options(layer, choice, known, err);
}

static gp_status global_avg_pool_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output,
                                       gp_error *err) {
    (void)layer;
    (void)count;
    GP_RETURN_IF_FAILED(gp_layer_check_picture(inputs[0], err));
    *output = (gp_shape){3, {inputs[0].dim[0], 1, 1}};
    return GP_OK;
}

static gp_status global_avg_pool_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor x = gp_layer_samples(lowering, layer->inputs[0]);
    gp_tensor y = gp_layer_samples(lowering, layer->output);
    gp_lowered_op *op = NULL;
    for (gp_pass pass = GP_PASS_FORWARD; pass <= GP_PASS_EVALUATE; pass++) {
        GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_MEAN_POOL_FORWARD, &op, err));
        gp_lowered_operand(op, GP_MEAN_POOL_FORWARD_X, x, GP_ROLE_INPUT, 0);
        gp_lowered_operand(op, GP_MEAN_POOL_FORWARD_Y, y, GP_ROLE_OUTPUT, 0);
    }
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, GP_PASS_BACKWARD, 0, GP_OP_MEAN_POOL_BACKWARD, &op, err));
    gp_lowered_operand(op, GP_MEAN_POOL_BACKWARD_DY, y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_lowered_operand(op, GP_MEAN_POOL_BACKWARD_DX, x, GP_ROLE_GRAD_INPUT, 0);
    return GP_OK;
}

const gp_layer_type gp_max_pool_type = {
    .name = "max_pool",
    .main_option = "kernel",
    .size = sizeof(window_pool),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = max_pool_read,
    .infer = window_infer,
    .lower = max_pool_lower,
};

const gp_layer_type gp_avg_pool_type = {
    .name = "avg_pool",
    .main_option = "kernel",
    .size = sizeof(window_pool),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = avg_pool_read,
    .infer = window_infer,
    .lower = avg_pool_lower,
};

const gp_layer_type gp_global_avg_pool_type = {
    .name = "global_avg_pool",
    .size = sizeof(global_avg_pool),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = global_avg_pool_read,
    .infer = global_avg_pool_infer,
    .lower = global_avg_pool_lower,
};
