#include "device/cpu/cpu_conv_shape.h"

/* The operand of either name. */
static const gp_tensor *operand(const gp_op_desc *desc, gp_operand_name name, gp_operand_name or_name) {
    int found = 0;
    for (int i = 0; i < (int)desc->operands; i++) {
        gp_operand_name its = gp_op_operand_named(desc->kind, i);
        if (its == name || its == or_name) found = i;
    }
    return &desc->operand[found];
}

gp_conv_shape gp_conv_shape_of(const gp_op_desc *desc) {
    const gp_conv_attributes *a = &desc->attributes.conv;
    const gp_tensor *x = operand(desc, GP_NAME_X, GP_NAME_DX), *y = operand(desc, GP_NAME_Y, GP_NAME_DY);
    gp_conv_shape shape = {.n = x->dim[0], .in = x->dim[3], .out = y->dim[3], .groups = a->groups};
    for (int d = 0; d < 2; d++) {
        shape.size[d] = x->dim[1 + d];
        shape.outputs[d] = y->dim[1 + d];
        shape.kernel[d] = a->kernel[d];
        shape.stride[d] = a->stride[d];
        shape.pad[d] = a->pad[d];
        shape.dilation[d] = a->dilation[d];
    }
    return shape;
}

gp_taps gp_conv_taps(const gp_conv_shape *shape, int d, int64_t place) {
    int64_t first = place * shape->stride[d] - shape->pad[d], step = shape->dilation[d];
    gp_taps taps = {first < 0 ? (-first + step - 1) / step : 0, 0};
    if (first < shape->size[d]) taps.end = (shape->size[d] - 1 - first) / step + 1;
    if (taps.begin > shape->kernel[d]) taps.begin = shape->kernel[d];
    if (taps.end > shape->kernel[d]) taps.end = shape->kernel[d];
    if (taps.end < taps.begin) taps.end = taps.begin;
    return taps;
}

int64_t gp_conv_rows(const gp_conv_shape *shape) {
    return shape->n * shape->outputs[0] * shape->outputs[1];
}

int64_t gp_conv_depth(const gp_conv_shape *shape) {
    return shape->kernel[0] * shape->kernel[1] * (shape->in / shape->groups);
}

double gp_conv_flops(const gp_conv_shape *shape) {
    return 2.0 * (double)gp_conv_rows(shape) * (double)gp_conv_depth(shape) * (double)shape->out;
}

/* Places of the output, along side d, at which tap k sees the input. */
static int64_t places_seen(const gp_conv_shape *shape, int d, int64_t k) {
    int64_t step = shape->stride[d], first = k * shape->dilation[d] - shape->pad[d]; /* what place 0 sees */
    int64_t begin = first < 0 ? (-first + step - 1) / step : 0, end = 0;
    if (first < shape->size[d]) end = (shape->size[d] - 1 - first) / step + 1;
    if (end > shape->outputs[d]) end = shape->outputs[d];
    return end > begin ? end - begin : 0;
}

/* Pairs of a tap and a place, along one side. The shorter list of the two is walked: either may be long. */
static double visible(const gp_conv_shape *shape, int d) {
    double sum = 0;
    if (shape->kernel[d] < shape->outputs[d]) {
        for (int64_t k = 0; k < shape->kernel[d]; k++) sum += (double)places_seen(shape, d, k);
        return sum;
    }
    for (int64_t place = 0; place < shape->outputs[d]; place++) {
        gp_taps taps = gp_conv_taps(shape, d, place);
        sum += (double)(taps.end - taps.begin);
    }
    return sum;
}

double gp_conv_visible_flops(const gp_conv_shape *shape) {
    double channels = (double)shape->in / (double)shape->groups * (double)shape->out;
    return 2.0 * (double)shape->n * visible(shape, 0) * visible(shape, 1) * channels;
}

bool gp_conv_is_product(const gp_conv_shape *shape) {
    for (int d = 0; d < 2; d++)
        if (shape->kernel[d] != 1 || shape->stride[d] != 1 || shape->pad[d] != 0) return false;
    return shape->groups == 1;
}
