#include "device/ref/ref_ops.h"

#include <math.h>
#include <string.h>

#include "device/dropout_mask.h"

int64_t ref_element(const gp_tensor *tensor, int64_t i) {
    int64_t offset = 0;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        offset += i % tensor->dim[d] * tensor->stride[d];
        i /= tensor->dim[d];
    }
    return offset;
}

int64_t ref_row(const gp_tensor *tensor, int64_t row) {
    return ref_element(tensor, row * tensor->dim[tensor->rank - 1]);
}

int64_t ref_sample_element(const gp_tensor *tensor, int64_t n, int64_t element) {
    const int64_t *dim = tensor->dim, *stride = tensor->stride;
    if (tensor->rank == 4) {
        int64_t place = element % (dim[1] * dim[2]), channel = element / (dim[1] * dim[2]);
        return n * stride[0] + place / dim[2] * stride[1] + place % dim[2] * stride[2] + channel;
    }
    return ref_element(tensor, n * (gp_tensor_elements(tensor) / dim[0]) + element);
}

gp_status ref_relu_forward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_RELU_FORWARD_X], *y = &call->operand[GP_RELU_FORWARD_Y];
    int64_t elements = gp_tensor_elements(x->tensor);
    for (int64_t i = 0; i < elements; i++) {
        double value = ref_get(x, ref_element(x->tensor, i));
        ref_put(y, ref_element(y->tensor, i), value > 0 || isnan(value) ? value : 0);
    }
    return GP_OK;
}

gp_status ref_relu_backward(const ref_call *call) {
    const ref_view *y = &call->operand[GP_RELU_BACKWARD_Y], *dy = &call->operand[GP_RELU_BACKWARD_DY];
    const ref_view *dx = &call->operand[GP_RELU_BACKWARD_DX];
    int64_t elements = gp_tensor_elements(y->tensor);
    for (int64_t i = 0; i < elements; i++) {
        bool passes = ref_get(y, ref_element(y->tensor, i)) > 0;
        double gradient = ref_get(dy, ref_element(dy->tensor, i));
        ref_put(dx, ref_element(dx->tensor, i), passes ? gradient : 0);
    }
    return GP_OK;
}

gp_status ref_flatten(const ref_call *call) {
    const ref_view *x = &call->operand[GP_FLATTEN_X], *y = &call->operand[GP_FLATTEN_Y];
    for (int64_t n = 0; n < y->tensor->dim[0]; n++) {
        for (int64_t e = 0; e < y->tensor->dim[1]; e++) {
            ref_put(y, ref_at2(y, n, e), ref_get(x, ref_sample_element(x->tensor, n, e)));
        }
    }
    return GP_OK;
}

gp_status ref_unflatten(const ref_call *call) {
    const ref_view *x = &call->operand[GP_FLATTEN_X], *y = &call->operand[GP_FLATTEN_Y];
    for (int64_t n = 0; n < x->tensor->dim[0]; n++) {
        for (int64_t e = 0; e < x->tensor->dim[1]; e++) {
            ref_put(y, ref_sample_element(y->tensor, n, e), ref_get(x, ref_at2(x, n, e)));
        }
    }
    return GP_OK;
}

gp_status ref_dropout(const ref_call *call) {
    const ref_view *x = &call->operand[GP_DROPOUT_X], *y = &call->operand[GP_DROPOUT_Y];
    const gp_step_scalars *scalars = call->operand[GP_DROPOUT_SCALARS].data;
    const gp_dropout_attributes *dropout = &call->desc->attributes.dropout;
    double scale = ref_round(x->tensor->dtype, gp_dropout_scale(dropout));
    int64_t samples = x->tensor->dim[0], elements = gp_tensor_elements(x->tensor) / samples;
    int64_t places = dropout->channels ? x->tensor->dim[1] * x->tensor->dim[2] : 1;
    for (int64_t n = 0; n < samples; n++) {
        for (int64_t e = 0; e < elements; e++) {
            int64_t drawn = e / places;
            gp_philox draw = gp_dropout_draw(dropout, scalars, call->args->first_sample + n, drawn / 4);
            double value = ref_get(x, ref_sample_element(x->tensor, n, e));
            ref_put(y, ref_sample_element(y->tensor, n, e),
                    gp_dropout_keeps(dropout, draw.word[drawn % 4]) ? value * scale : 0);
        }
    }
    return GP_OK;
}

gp_status ref_add(const ref_call *call) {
    const ref_view *a = &call->operand[GP_ADD_A], *b = &call->operand[GP_ADD_B], *y = &call->operand[GP_ADD_Y];
    int64_t elements = gp_tensor_elements(y->tensor);
    for (int64_t i = 0; i < elements; i++) {
        double sum = ref_get(a, ref_element(a->tensor, i)) + ref_get(b, ref_element(b->tensor, i));
        ref_put(y, ref_element(y->tensor, i), sum);
    }
    return GP_OK;
}

gp_status ref_copy(const ref_call *call) {
    const ref_view *x = &call->operand[GP_COPY_X], *y = &call->operand[GP_COPY_Y];
    if (x->data == y->data) return GP_OK; /* in place */
    size_t size = gp_dtype_size(x->tensor->dtype);
    int64_t elements = gp_tensor_elements(x->tensor);
    for (int64_t i = 0; i < elements; i++) {
        const char *from = (const char *)x->data + (size_t)ref_element(x->tensor, i) * size;
        memcpy((char *)y->data + (size_t)ref_element(y->tensor, i) * size, from, size);
    }
    return GP_OK;
}

gp_status ref_reorder(const ref_call *call) {
    return ref_copy(call);
}

gp_status ref_fill(const ref_call *call) {
    const ref_view *y = &call->operand[GP_FILL_Y];
    size_t size = gp_dtype_size(y->tensor->dtype);
    int64_t elements = gp_tensor_elements(y->tensor);
    for (int64_t i = 0; i < elements; i++) {
        memset((char *)y->data + (size_t)ref_element(y->tensor, i) * size, 0, size);
    }
    return GP_OK;
}
