/* The ops relu, add, copy, fill, flatten and dropout. */
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

void ref_write(const ref_call *call, const ref_view *out, ref_value *value) {
    int64_t elements = gp_tensor_elements(out->tensor);
    for (int64_t i = 0; i < elements; i++) ref_put(out, ref_element(out->tensor, i), value(call, i));
}

void ref_write4(const ref_call *call, const ref_view *out, ref_value4 *value) {
    const int64_t *dim = out->tensor->dim;
    for (int64_t a = 0; a < dim[0]; a++)
        for (int64_t b = 0; b < dim[1]; b++)
            for (int64_t c = 0; c < dim[2]; c++)
                for (int64_t d = 0; d < dim[3]; d++) ref_put(out, ref_at4(out, a, b, c, d), value(call, a, b, c, d));
}

static double relu_element(const ref_call *call, int64_t i) {
    double value = ref_get_element(&call->x, i);
    return value > 0 || isnan(value) ? value : 0;
}

void ref_relu_forward(const ref_call *call) {
    ref_write(call, &call->y, relu_element);
}

static double relu_gradient(const ref_call *call, int64_t i) {
    return ref_get_element(&call->y, i) > 0 ? ref_get_element(&call->dy, i) : 0;
}

void ref_relu_backward(const ref_call *call) {
    ref_write(call, &call->dx, relu_gradient);
}

static double sum_element(const ref_call *call, int64_t i) {
    return ref_get_element(&call->a, i) + ref_get_element(&call->b, i);
}

void ref_add(const ref_call *call) {
    ref_write(call, &call->y, sum_element);
}

void ref_flatten(const ref_call *call) {
    const ref_view *x = &call->x, *y = &call->y;
    for (int64_t n = 0; n < y->tensor->dim[0]; n++)
        for (int64_t e = 0; e < y->tensor->dim[1]; e++)
            ref_put(y, ref_at2(y, n, e), ref_get(x, ref_sample_element(x->tensor, n, e)));
}

void ref_unflatten(const ref_call *call) {
    const ref_view *x = &call->x, *y = &call->y;
    for (int64_t n = 0; n < x->tensor->dim[0]; n++)
        for (int64_t e = 0; e < x->tensor->dim[1]; e++)
            ref_put(y, ref_sample_element(y->tensor, n, e), ref_get(x, ref_at2(x, n, e)));
}

void ref_dropout(const ref_call *call) {
    const ref_view *x = &call->x, *y = &call->y;
    const gp_dropout_attributes *dropout = &call->desc->attributes.dropout;
    double scale = ref_round(x->tensor->dtype, gp_dropout_scale(dropout));
    int64_t samples = x->tensor->dim[0], elements = gp_tensor_elements(x->tensor) / samples;
    int64_t places = dropout->channels ? x->tensor->dim[1] * x->tensor->dim[2] : 1;
    for (int64_t n = 0; n < samples; n++) {
        for (int64_t e = 0; e < elements; e++) {
            int64_t drawn = e / places;
            gp_philox draw = gp_dropout_draw(dropout, call->scalars.data, call->args->first_sample + n, drawn / 4);
            double value = ref_get(x, ref_sample_element(x->tensor, n, e));
            ref_put(y, ref_sample_element(y->tensor, n, e),
                    gp_dropout_keeps(dropout, draw.word[drawn % 4]) ? value * scale : 0);
        }
    }
}

/* Bytes, of any dtype; without x: zeroes. */
static void move(const ref_call *call) {
    const ref_view *x = &call->x, *y = &call->y;
    size_t size = gp_dtype_size(y->tensor->dtype);
    int64_t elements = gp_tensor_elements(y->tensor);
    for (int64_t i = 0; i < elements; i++) {
        char *to = (char *)y->data + (size_t)ref_element(y->tensor, i) * size;
        if (x->data)
            memcpy(to, (const char *)x->data + (size_t)ref_element(x->tensor, i) * size, size);
        else
            memset(to, 0, size);
    }
}

void ref_copy(const ref_call *call) {
    if (call->x.data != call->y.data) move(call); /* else: in place */
}

void ref_reorder(const ref_call *call) {
    ref_copy(call);
}

void ref_fill(const ref_call *call) {
    move(call);
}
