#include "layers/types.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

int gp_layer_group(const gp_layer *layer, int replicas) {
    if (layer->sync == 0 || layer->frozen || replicas == 1) return 1;
    return layer->sync == GP_SYNC_ALL ? replicas : layer->sync;
}

const gp_yaml *gp_layer_option(const gp_choice *choice, const char *name, bool main) {
    if (main && choice->main) return choice->main;
    return choice->options ? gp_yaml_get(choice->options, name) : NULL;
}

gp_status gp_layer_check_eps(const gp_choice *choice, double eps, gp_error *err) {
    if (!choice->main || eps < 1) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, choice->main->place,
                      "%s: %.40s is not a size: the layer takes its size from its input, and a single number is eps; "
                      "write %s, or %s: {eps: 1e-5}",
                      choice->kind, choice->main->text, choice->kind, choice->kind);
}

gp_status gp_layer_read_pad(const gp_yaml *pad, const gp_key_context *at, const int64_t kernel[2],
                            const int64_t dilation[2], int64_t out[2], gp_error *err) {
    bool text = pad->kind == GP_YAML_SCALAR;
    bool same = text && strcmp(pad->text, "same") == 0, valid = text && strcmp(pad->text, "valid") == 0;
    int64_t both[2] = {0, 0};
    if (!same && !valid) return gp_read_pair(pad, at->what, 0, GP_LAYER_MAX_WINDOW, out, err);
    for (int axis = 0; axis < 2 && same; axis++) both[axis] = (kernel[axis] - 1) * dilation[axis] / 2;
    if (both[0] == both[1])
        return gp_refuse(pad->place, at->what, err, "\"%s\" is not an integer; for this kernel, write pad: %" PRId64,
                         pad->text, both[0]);
    return gp_refuse(pad->place, at->what, err,
                     "\"%s\" is not an integer; for this kernel, write pad: [%" PRId64 ", %" PRId64 "]", pad->text,
                     both[0], both[1]);
}

int gp_layer_weights(gp_shape weight, bool bias, double bound, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    specs[GP_WEIGHT] = (gp_param_spec){.suffix = "weight", .shape = weight, .init = GP_INIT_UNIFORM, .value = bound};
    specs[GP_BIAS] = (gp_param_spec){
        .suffix = "bias", .shape = {1, {weight.dim[0]}}, .init = GP_INIT_UNIFORM, .value = bound, .norm_or_bias = true};
    return bias ? 2 : 1;
}

int gp_layer_affine(int64_t channels, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    gp_shape shape = {1, {channels}};
    specs[GP_WEIGHT] =
        (gp_param_spec){.suffix = "weight", .shape = shape, .init = GP_INIT_CONSTANT, .value = 1, .norm_or_bias = true};
    specs[GP_BIAS] = (gp_param_spec){.suffix = "bias", .shape = shape, .init = GP_INIT_CONSTANT, .norm_or_bias = true};
    return 2;
}

const char *gp_pair_text(char buffer[GP_PAIR_TEXT], const int64_t pair[2]) {
    if (pair[0] == pair[1])
        snprintf(buffer, GP_PAIR_TEXT, "%" PRId64, pair[0]);
    else
        snprintf(buffer, GP_PAIR_TEXT, "%" PRId64 "x%" PRId64, pair[0], pair[1]);
    return buffer;
}

gp_status gp_layer_check_picture(gp_shape input, gp_error *err) {
    char text[GP_SHAPE_TEXT];
    if (input.rank == 3) return GP_OK;
    return gp_fail(err, GP_CONFIG, "takes a picture [channels, height, width], not %s", gp_shape_text(text, input));
}

gp_status gp_layer_window(gp_shape input, const int64_t kernel[2], const int64_t stride[2], const int64_t pad[2],
                          const int64_t dilation[2], int64_t out[2], gp_error *err) {
    int64_t padded[2], span[2];
    for (int axis = 0; axis < 2; axis++) {
        padded[axis] = input.dim[axis + 1] + 2 * pad[axis];
        span[axis] = (kernel[axis] - 1) * dilation[axis] + 1;
    }
    if (span[0] > padded[0] || span[1] > padded[1]) {
        char kernel_text[GP_PAIR_TEXT], span_text[GP_PAIR_TEXT];
        gp_pair_text(kernel_text, kernel);
        if (dilation[0] == 1 && dilation[1] == 1)
            return gp_fail(err, GP_CONFIG, "kernel %s is larger than its padded input %" PRId64 "x%" PRId64,
                           kernel_text, padded[0], padded[1]);
        return gp_fail(err, GP_CONFIG, "kernel %s, dilated to %s, is larger than its padded input %" PRId64 "x%" PRId64,
                       kernel_text, gp_pair_text(span_text, span), padded[0], padded[1]);
    }
    for (int axis = 0; axis < 2; axis++) out[axis] = (padded[axis] - span[axis]) / stride[axis] + 1;
    return GP_OK;
}

gp_status gp_layer_fits(const gp_layer *layer, const gp_lowering *lowering, gp_error *err) {
    int64_t largest = 1;
    for (int i = -1; i < layer->input_count; i++) {
        int64_t elements = 1;
        gp_shape shape = i < 0 ? layer->output : layer->inputs[i];
        if (!gp_shape_elements(shape, &elements)) elements = INT64_MAX;
        if (elements > largest) largest = elements;
    }
    int64_t bytes;
    if (gp_int64_mul(largest, lowering->samples, &bytes) && gp_int64_mul(bytes, sizeof(double), &bytes)) return GP_OK;
    return gp_fail(err, GP_CONFIG,
                   "a micro-batch of %" PRId64 " samples of %" PRId64 " elements is larger than any memory",
                   lowering->samples, largest);
}

gp_tensor gp_layer_samples(const gp_lowering *lowering, gp_shape shape) {
    return gp_tensor_samples(lowering->types.storage, lowering->samples, shape);
}

gp_tensor gp_layer_vector(gp_dtype dtype, int64_t count) {
    return gp_tensor_plain(dtype, 1, &count);
}

gp_status gp_layer_begin(const gp_layer *layer, gp_lowering *lowering, gp_layer_ops *out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor x = gp_layer_samples(lowering, layer->inputs[0]), y = gp_layer_samples(lowering, layer->output);
    memset(out, 0, sizeof *out);
    out->lowering = lowering;
    gp_layer_set(out, GP_NAME_X, x, GP_ROLE_INPUT, 0);
    gp_layer_set(out, GP_NAME_Y, y, GP_ROLE_OUTPUT, 0);
    gp_layer_set(out, GP_NAME_DX, x, GP_ROLE_GRAD_INPUT, 0);
    gp_layer_set(out, GP_NAME_DY, y, GP_ROLE_GRAD_OUTPUT, 0);
    gp_layer_set(out, GP_NAME_SCALARS, gp_tensor_scalars(), GP_ROLE_SCALARS, 0);
    return GP_OK;
}

void gp_layer_set(gp_layer_ops *ops, gp_operand_name name, gp_tensor tensor, gp_role role, int index) {
    gp_layer_set_slice(ops, name, tensor, role, index, 0);
}

void gp_layer_set_slice(gp_layer_ops *ops, gp_operand_name name, gp_tensor tensor, gp_role role, int index,
                        int64_t first) {
    ops->tensor[name] = tensor;
    ops->ref[name] = (gp_ref){role, index, first};
}

void gp_layer_set_weights(gp_layer_ops *ops, const gp_layer *layer, gp_format format) {
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    int count = layer->type->params(layer, specs);
    gp_tensor weight = gp_tensor_param(ops->lowering->types.compute, specs[GP_WEIGHT].shape);
    weight.format = format;
    ops->flags = layer->tf32 ? GP_OP_TF32 : 0;
    gp_layer_set(ops, GP_NAME_W, weight, GP_ROLE_PARAM, GP_WEIGHT);
    gp_layer_set(ops, GP_NAME_DW, weight, GP_ROLE_GRAD_PARAM, GP_WEIGHT);
    if (count == 1) return;
    gp_tensor bias = gp_tensor_param(ops->lowering->types.compute, specs[GP_BIAS].shape);
    gp_layer_set(ops, GP_NAME_B, bias, GP_ROLE_PARAM, GP_BIAS);
    gp_layer_set(ops, GP_NAME_DB, bias, GP_ROLE_GRAD_PARAM, GP_BIAS);
}

gp_layer_ops gp_layer_reversed(const gp_layer_ops *ops) {
    gp_layer_ops reversed = *ops;
    gp_layer_set(&reversed, GP_NAME_X, ops->tensor[GP_NAME_DY], GP_ROLE_GRAD_OUTPUT, 0);
    gp_layer_set(&reversed, GP_NAME_Y, ops->tensor[GP_NAME_DX], GP_ROLE_GRAD_INPUT, 0);
    return reversed;
}

gp_status gp_layer_op(const gp_layer_ops *ops, gp_pass pass, unsigned flags, gp_op_kind kind, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(ops->lowering, pass, flags, kind, &op, err));
    op->desc.flags = ops->flags;
    memcpy(&op->desc.attributes, &ops->attributes, sizeof ops->attributes);
    for (int i = 0; i < (int)op->desc.operands; i++) {
        gp_operand_name name = gp_op_operand_named(kind, i);
        op->desc.operand[i] = ops->tensor[name];
        op->ref[i] = ops->ref[name];
    }
    return GP_OK;
}

gp_status gp_layer_forward(const gp_layer_ops *ops, gp_op_kind kind, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_op(ops, GP_PASS_FORWARD, 0, kind, err));
    return gp_layer_op(ops, GP_PASS_EVALUATE, 0, kind, err);
}

gp_status gp_layer_copy(gp_lowering *lowering, gp_pass pass, gp_tensor tensor, gp_ref from, gp_ref to, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_COPY, &op, err));
    gp_lowered_slice(op, GP_COPY_X, tensor, from.role, from.index, from.first);
    gp_lowered_slice(op, GP_COPY_Y, tensor, to.role, to.index, to.first);
    return GP_OK;
}
