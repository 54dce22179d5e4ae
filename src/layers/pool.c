/* max_pool: PyTorch's MaxPool2d; global_avg_pool: the mean over a picture. */
#include <inttypes.h>

#include "layers/types.h"

typedef struct max_pool {
    gp_layer layer;
    gp_pool_attributes attributes;
} max_pool;

typedef struct global_avg_pool {
    gp_layer layer;
} global_avg_pool;

enum { MAX_PLACES = 255 }; /* in a window: the index of the maximum is a byte */

/* PyTorch's rule: every window holds an element that is not padding. */
static gp_status check_window(const max_pool *self, const gp_choice *choice, gp_error *err) {
    const int64_t *kernel = self->attributes.kernel, *pad = self->attributes.pad;
    char kernel_text[GP_PAIR_TEXT], pad_text[GP_PAIR_TEXT];
    gp_pair_text(kernel_text, kernel);
    if (kernel[0] * kernel[1] > MAX_PLACES)
        return gp_fail_at(err, GP_CONFIG, gp_layer_option(choice, "kernel", true)->place,
                          "max_pool: kernel %s has %" PRId64 " places; the most is %d", kernel_text,
                          kernel[0] * kernel[1], MAX_PLACES);
    if (2 * pad[0] > kernel[0] || 2 * pad[1] > kernel[1])
        return gp_fail_at(err, GP_CONFIG, gp_layer_option(choice, "pad", false)->place,
                          "max_pool: pad %s is more than half of kernel %s", gp_pair_text(pad_text, pad), kernel_text);
    return GP_OK;
}

static gp_status max_pool_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {"kernel", "stride", "pad", "ceil", NULL};
    gp_pool_attributes *attributes = &((max_pool *)layer)->attributes;
    GP_RETURN_IF_FAILED(gp_layer_check_options(choice, known, err));
    const gp_yaml *kernel = gp_layer_option(choice, "kernel", true);
    const gp_yaml *stride = gp_layer_option(choice, "stride", false);
    const gp_yaml *pad = gp_layer_option(choice, "pad", false);
    GP_RETURN_IF_FAILED(gp_layer_required(choice, kernel, "kernel", "max_pool: 2", err));
    GP_RETURN_IF_FAILED(gp_read_pair(kernel, "max_pool: kernel", 1, GP_LAYER_MAX_WINDOW, attributes->kernel, err));
    for (int axis = 0; axis < 2; axis++) attributes->stride[axis] = attributes->kernel[axis];
    if (stride)
        GP_RETURN_IF_FAILED(gp_read_pair(stride, "max_pool: stride", 1, GP_LAYER_MAX_WINDOW, attributes->stride, err));
    if (pad) GP_RETURN_IF_FAILED(gp_read_pair(pad, "max_pool: pad", 0, GP_LAYER_MAX_WINDOW, attributes->pad, err));
    GP_RETURN_IF_FAILED(gp_layer_only_false(choice, "ceil", err));
    return check_window((const max_pool *)layer, choice, err);
}

static gp_status check_picture(gp_shape input, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    if (input.rank == 3) return GP_OK;
    return gp_fail(err, GP_CONFIG, "takes a picture [channels, height, width], not %s", gp_shape_text(text, input));
}

static gp_status max_pool_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output, gp_error *err) {
    static const int64_t dilation[2] = {1, 1};
    const gp_pool_attributes *attributes = &((const max_pool *)layer)->attributes;
    int64_t size[2];
    (void)count;
    GP_RETURN_IF_FAILED(check_picture(inputs[0], err));
    GP_RETURN_IF_FAILED(
        gp_layer_window(inputs[0], attributes->kernel, attributes->stride, attributes->pad, dilation, size, err));
    *output = (gp_shape){3, {inputs[0].dim[0], size[0], size[1]}};
    return GP_OK;
}

static gp_status max_pool_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    const gp_pool_attributes *attributes = &((const max_pool *)layer)->attributes;
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor x = gp_layer_samples(lowering, layer->inputs[0]);
    gp_tensor y = gp_layer_samples(lowering, layer->output);
    gp_tensor places = gp_tensor_samples(GP_U8, lowering->samples, layer->output);
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

static gp_status global_avg_pool_read(gp_layer *layer, const gp_choice *choice, gp_error *err) {
    static const char *const known[] = {NULL};
    (void)layer;
    GP_RETURN_IF_FAILED(gp_layer_no_main(choice, err));
    return gp_layer_check_options(choice, known, err);
}

static gp_status global_avg_pool_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_shape *output,
                                       gp_error *err) {
    (void)layer;
    (void)count;
    GP_RETURN_IF_FAILED(check_picture(inputs[0], err));
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
    .size = sizeof(max_pool),
    .inputs_min = 1,
    .inputs_max = 1,
    .read = max_pool_read,
    .infer = max_pool_infer,
    .lower = max_pool_lower,
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
