#include "layers/types.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { MAX_OPTIONS = 16 };

gp_status gp_layer_check_options(const gp_layer *layer, const gp_choice *choice, const char *const *known,
                                 gp_error *err) {
    static const char *const later[] = {"tie", "lr_mult", "decay_mult", "phase", NULL};
    const char *all[MAX_OPTIONS + 1];
    int count = 0;
    for (; known[count]; count++) all[count] = known[count];
    assert(count + 5 <= MAX_OPTIONS);
    all[count++] = "name";
    all[count++] = "from";
    if (layer->type->params) all[count++] = "init";
    all[count++] = "freeze";
    all[count++] = "checkpoint";
    all[count] = NULL;
    return choice->options ? gp_check_keys(choice->options, choice->kind, all, later, err) : GP_OK;
}

const gp_yaml *gp_layer_option(const gp_choice *choice, const char *name, bool main) {
    if (main && choice->main) return choice->main;
    return choice->options ? gp_yaml_get(choice->options, name) : NULL;
}

gp_status gp_layer_no_main(const gp_choice *choice, gp_error *err) {
    if (!choice->main) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, choice->main->place,
                      "%s takes no single value; write its options as a mapping, %s: {name: a}", choice->kind,
                      choice->kind);
}

gp_status gp_layer_required(const gp_choice *choice, const gp_yaml *option, const char *name, const char *example,
                            gp_error *err) {
    if (option) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, choice->place, "%s: %s is missing: %s", choice->kind, name, example);
}

gp_status gp_layer_read_eps(const gp_choice *choice, bool main, double *eps, gp_error *err) {
    char what[64];
    const gp_yaml *option = gp_layer_option(choice, "eps", main);
    *eps = 1e-5;
    if (!option) return GP_OK;
    snprintf(what, sizeof what, "%s: eps", choice->kind);
    GP_RETURN_IF_FAILED(gp_read_number(option, what, 0, INFINITY, 1, eps, err));
    if (!main || !choice->main || *eps < 1) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, option->place,
                      "%s: %.40s is not a size: the layer takes its size from its input, and a single number is eps; "
                      "write %s, or %s: {eps: 1e-5}",
                      choice->kind, option->text, choice->kind, choice->kind);
}

gp_status gp_layer_read_pad(const gp_yaml *pad, const char *what, const int64_t kernel[2], const int64_t dilation[2],
                            int64_t out[2], gp_error *err) {
    bool text = pad->kind == GP_YAML_SCALAR;
    bool same = text && strcmp(pad->text, "same") == 0, valid = text && strcmp(pad->text, "valid") == 0;
    int64_t both[2] = {0, 0};
    if (!same && !valid) return gp_read_pair(pad, what, 0, GP_LAYER_MAX_WINDOW, out, err);
    for (int axis = 0; axis < 2 && same; axis++) both[axis] = (kernel[axis] - 1) * dilation[axis] / 2;
    if (both[0] == both[1])
        return gp_fail_at(err, GP_CONFIG, pad->place,
                          "%s: \"%s\" is not an integer; for this kernel, write pad: %" PRId64, what, pad->text,
                          both[0]);
    return gp_fail_at(err, GP_CONFIG, pad->place,
                      "%s: \"%s\" is not an integer; for this kernel, write pad: [%" PRId64 ", %" PRId64 "]", what,
                      pad->text, both[0], both[1]);
}

gp_status gp_layer_only_false(const gp_choice *choice, const char *name, gp_error *err) {
    const gp_yaml *option = gp_layer_option(choice, name, false);
    bool given = false;
    char what[64];
    if (!option) return GP_OK;
    snprintf(what, sizeof what, "%s: %s", choice->kind, name);
    GP_RETURN_IF_FAILED(gp_read_boolean(option, what, &given, err));
    if (!given) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, option->place, "%s: true is not available yet", what);
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
    return gp_tensor_samples(lowering->real, lowering->samples, shape);
}

gp_tensor gp_layer_vector(gp_dtype dtype, int64_t count) {
    return gp_tensor_plain(dtype, 1, &count);
}

void gp_layer_scalars(gp_lowered_op *op, int position) {
    gp_lowered_operand(op, position, gp_tensor_scalars(), GP_ROLE_SCALARS, 0);
}

gp_status gp_layer_copy(gp_lowering *lowering, gp_pass pass, gp_tensor tensor, gp_ref from, gp_ref to, gp_error *err) {
    gp_lowered_op *op = NULL;
    GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_COPY, &op, err));
    gp_lowered_slice(op, GP_COPY_X, tensor, from.role, from.index, from.first);
    gp_lowered_slice(op, GP_COPY_Y, tensor, to.role, to.index, to.first);
    return GP_OK;
}
