/* add and concat: layers that take several values. Their main option is `from`, which the graph reads. */
#include "layers/types.h"

static gp_status add_infer(gp_layer *layer, gp_error *err) {
    const gp_shape *inputs = layer->inputs;
    for (int i = 1; i < layer->input_count; i++) {
        char first[GP_SHAPE_TEXT], other[GP_SHAPE_TEXT];
        if (!gp_shape_equal(inputs[i], inputs[0]))
            return gp_fail(err, GP_CONFIG, "takes values of one shape, not %s and %s", gp_shape_text(first, inputs[0]),
                           gp_shape_text(other, inputs[i]));
    }
    return GP_OK;
}

/* Left to right; every partial sum is a temporary of its own, so that each operand is written once. */
static gp_status lower_sum(const gp_layer *layer, gp_lowering *lowering, gp_pass pass, gp_tensor tensor, int partial,
                           gp_error *err) {
    for (int i = 1; i < layer->input_count; i++) {
        gp_lowered_op *op = NULL;
        GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_ADD, &op, err));
        if (i == 1)
            gp_lowered_operand(op, GP_ADD_A, tensor, GP_ROLE_INPUT, 0);
        else
            gp_lowered_operand(op, GP_ADD_A, tensor, GP_ROLE_TEMP, partial + i - 2);
        gp_lowered_operand(op, GP_ADD_B, tensor, GP_ROLE_INPUT, i);
        if (i == layer->input_count - 1)
            gp_lowered_operand(op, GP_ADD_Y, tensor, GP_ROLE_OUTPUT, 0);
        else
            gp_lowered_operand(op, GP_ADD_Y, tensor, GP_ROLE_TEMP, partial + i - 1);
    }
    return GP_OK;
}

static gp_status add_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    gp_tensor tensor = gp_layer_samples(lowering, layer->output);
    int first = 0;
    for (int i = 2; i < layer->input_count; i++) {
        int index = 0;
        GP_RETURN_IF_FAILED(gp_lowering_temp(lowering, tensor, &index, err));
        if (i == 2) first = index;
    }
    GP_RETURN_IF_FAILED(lower_sum(layer, lowering, GP_PASS_FORWARD, tensor, first, err));
    GP_RETURN_IF_FAILED(lower_sum(layer, lowering, GP_PASS_EVALUATE, tensor, first, err));
    for (int i = 0; i < layer->input_count; i++)
        GP_RETURN_IF_FAILED(gp_layer_copy(lowering, GP_PASS_BACKWARD, tensor, (gp_ref){GP_ROLE_GRAD_OUTPUT, 0, 0},
                                          (gp_ref){GP_ROLE_GRAD_INPUT, i, 0}, err));
    return GP_OK;
}

static gp_status check_concat(const gp_shape *inputs, int i, gp_error *err) {
    char first[GP_SHAPE_TEXT], other[GP_SHAPE_TEXT];
    gp_shape_text(first, inputs[0]);
    gp_shape_text(other, inputs[i]);
    if (inputs[i].rank == 2)
        return gp_fail(err, GP_CONFIG,
                       "takes pictures [channels, height, width] or [width]; rows %s are not available yet", other);
    if (inputs[i].rank != inputs[0].rank)
        return gp_fail(err, GP_CONFIG, "takes either pictures or rows, not %s and %s", first, other);
    if (inputs[i].rank == 3 && (inputs[i].dim[1] != inputs[0].dim[1] || inputs[i].dim[2] != inputs[0].dim[2]))
        return gp_fail(err, GP_CONFIG, "takes pictures of one height and width, not %s and %s", first, other);
    return GP_OK;
}

static gp_status concat_infer(gp_layer *layer, gp_error *err) {
    int64_t channels = 0;
    for (int i = 0; i < layer->input_count; i++) {
        GP_RETURN_IF_FAILED(check_concat(layer->inputs, i, err));
        if (layer->inputs[i].dim[0] > GP_LAYER_MAX_DIMENSION - channels)
            return gp_fail(err, GP_CONFIG, "its output has too many channels");
        channels += layer->inputs[i].dim[0];
    }
    layer->output.dim[0] = channels;
    return GP_OK;
}

/* Copies between one side as it is and the other's slice of channels. */
static gp_status lower_slices(const gp_layer *layer, gp_lowering *lowering, gp_pass pass, gp_error *err) {
    gp_tensor whole = gp_layer_samples(lowering, layer->output);
    int64_t first = 0;
    for (int i = 0; i < layer->input_count; i++) {
        gp_lowered_op *op = NULL;
        gp_tensor part = gp_layer_samples(lowering, layer->inputs[i]);
        gp_tensor slice = gp_tensor_channels(whole, layer->inputs[i].dim[0]);
        GP_RETURN_IF_FAILED(gp_lowering_op(lowering, pass, 0, GP_OP_COPY, &op, err));
        if (pass == GP_PASS_BACKWARD) {
            gp_lowered_slice(op, GP_COPY_X, slice, GP_ROLE_GRAD_OUTPUT, 0, first);
            gp_lowered_operand(op, GP_COPY_Y, part, GP_ROLE_GRAD_INPUT, i);
        } else {
            gp_lowered_operand(op, GP_COPY_X, part, GP_ROLE_INPUT, i);
            gp_lowered_slice(op, GP_COPY_Y, slice, GP_ROLE_OUTPUT, 0, first);
        }
        first += layer->inputs[i].dim[0];
    }
    return GP_OK;
}

static gp_status concat_lower(const gp_layer *layer, gp_lowering *lowering, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_layer_fits(layer, lowering, err));
    GP_RETURN_IF_FAILED(lower_slices(layer, lowering, GP_PASS_FORWARD, err));
    GP_RETURN_IF_FAILED(lower_slices(layer, lowering, GP_PASS_EVALUATE, err));
    return lower_slices(layer, lowering, GP_PASS_BACKWARD, err);
}

const gp_layer_type gp_add_type = {
    .name = "add",
    .joins = true,
    .infer = add_infer,
    .lower = add_lower,
};

const gp_layer_type gp_concat_type = {
    .name = "concat",
    .joins = true,
    .infer = concat_infer,
    .lower = concat_lower,
};
