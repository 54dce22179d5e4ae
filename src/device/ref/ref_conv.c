#include "device/ref/ref_ops.h"

/* What the three passes of a convolution know of its geometry. */
typedef struct geometry {
    const gp_conv_attributes *conv;
    int64_t n, in_h, in_w, out_h, out_w;
    int64_t in_group, out_group; /* channels of a group */
} geometry;

static geometry geometry_of(const ref_call *call, const ref_view *x, const ref_view *y) {
    const int64_t *in = x->tensor->dim, *out = y->tensor->dim;
    const gp_conv_attributes *conv = &call->desc->attributes.conv;
    return (geometry){conv, in[0], in[1], in[2], out[1], out[2], in[3] / conv->groups, out[3] / conv->groups};
}

static int64_t in_row(const geometry *g, int64_t out, int64_t k) {
    return out * g->conv->stride[0] - g->conv->pad[0] + k * g->conv->dilation[0];
}

static int64_t in_column(const geometry *g, int64_t out, int64_t k) {
    return out * g->conv->stride[1] - g->conv->pad[1] + k * g->conv->dilation[1];
}

static double forward_element(const geometry *g, const ref_view *x, const ref_view *w, int64_t n, int64_t oh,
                              int64_t ow, int64_t out) {
    double sum = 0;
    int64_t first_in = out / g->out_group * g->in_group;
    for (int64_t kh = 0; kh < g->conv->kernel[0]; kh++) {
        int64_t h = in_row(g, oh, kh);
        if (h < 0 || h >= g->in_h) continue;
        for (int64_t kw = 0; kw < g->conv->kernel[1]; kw++) {
            int64_t c = in_column(g, ow, kw);
            if (c < 0 || c >= g->in_w) continue;
            for (int64_t in = 0; in < g->in_group; in++) {
                sum += ref_get(x, ref_at4(x, n, h, c, first_in + in)) * ref_get(w, ref_at4(w, out, in, kh, kw));
            }
        }
    }
    return sum;
}

gp_status ref_conv_forward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_CONV_FORWARD_X], *w = &call->operand[GP_CONV_FORWARD_W];
    const ref_view *b = &call->operand[GP_CONV_FORWARD_B], *y = &call->operand[GP_CONV_FORWARD_Y];
    geometry g = geometry_of(call, x, y);
    for (int64_t n = 0; n < g.n; n++) {
        for (int64_t oh = 0; oh < g.out_h; oh++) {
            for (int64_t ow = 0; ow < g.out_w; ow++) {
                for (int64_t out = 0; out < y->tensor->dim[3]; out++) {
                    double sum = forward_element(&g, x, w, n, oh, ow, out);
                    if (b->data) sum += ref_get(b, out);
                    ref_put(y, ref_at4(y, n, oh, ow, out), sum);
                }
            }
        }
    }
    return GP_OK;
}

/* The output place whose window has input place `in` at kernel place k, or −1. */
static int64_t out_place(int64_t in, int64_t k, int64_t pad, int64_t dilation, int64_t stride, int64_t outputs) {
    int64_t scaled = in + pad - k * dilation;
    if (scaled < 0 || scaled % stride != 0 || scaled / stride >= outputs) return -1;
    return scaled / stride;
}

static double backward_data_element(const geometry *g, const ref_view *dy, const ref_view *w, int64_t n, int64_t h,
                                    int64_t c, int64_t in) {
    const gp_conv_attributes *conv = g->conv;
    double sum = 0;
    int64_t first_out = in / g->in_group * g->out_group;
    for (int64_t kh = 0; kh < conv->kernel[0]; kh++) {
        int64_t oh = out_place(h, kh, conv->pad[0], conv->dilation[0], conv->stride[0], g->out_h);
        if (oh < 0) continue;
        for (int64_t kw = 0; kw < conv->kernel[1]; kw++) {
            int64_t ow = out_place(c, kw, conv->pad[1], conv->dilation[1], conv->stride[1], g->out_w);
            if (ow < 0) continue;
            for (int64_t out = first_out; out < first_out + g->out_group; out++) {
                sum += ref_get(dy, ref_at4(dy, n, oh, ow, out)) * ref_get(w, ref_at4(w, out, in % g->in_group, kh, kw));
            }
        }
    }
    return sum;
}

gp_status ref_conv_backward_data(const ref_call *call) {
    const ref_view *dy = &call->operand[GP_CONV_BACKWARD_DATA_DY], *w = &call->operand[GP_CONV_BACKWARD_DATA_W];
    const ref_view *dx = &call->operand[GP_CONV_BACKWARD_DATA_DX];
    geometry g = geometry_of(call, dx, dy);
    for (int64_t n = 0; n < g.n; n++) {
        for (int64_t h = 0; h < g.in_h; h++) {
            for (int64_t c = 0; c < g.in_w; c++) {
                for (int64_t in = 0; in < dx->tensor->dim[3]; in++) {
                    ref_put(dx, ref_at4(dx, n, h, c, in), backward_data_element(&g, dy, w, n, h, c, in));
                }
            }
        }
    }
    return GP_OK;
}

static double backward_weights_element(const geometry *g, const ref_view *x, const ref_view *dy, int64_t out,
                                       int64_t in, int64_t kh, int64_t kw) {
    double sum = 0;
    int64_t channel = out / g->out_group * g->in_group + in;
    for (int64_t n = 0; n < g->n; n++) {
        for (int64_t oh = 0; oh < g->out_h; oh++) {
            int64_t h = in_row(g, oh, kh);
            if (h < 0 || h >= g->in_h) continue;
            for (int64_t ow = 0; ow < g->out_w; ow++) {
                int64_t c = in_column(g, ow, kw);
                if (c < 0 || c >= g->in_w) continue;
                sum += ref_get(x, ref_at4(x, n, h, c, channel)) * ref_get(dy, ref_at4(dy, n, oh, ow, out));
            }
        }
    }
    return sum;
}

/* Gradients of weights add to what is there where the descriptor says so. */
static void put_gradient(const ref_call *call, const ref_view *gradient, int64_t offset, double sum) {
    if (call->desc->flags & GP_OP_ACCUMULATE) sum += ref_get(gradient, offset);
    ref_put(gradient, offset, sum);
}

static void bias_gradient(const ref_call *call, const ref_view *dy, const ref_view *db) {
    int64_t rows = gp_tensor_rows(dy->tensor);
    for (int64_t out = 0; out < db->tensor->dim[0]; out++) {
        double sum = 0;
        for (int64_t row = 0; row < rows; row++) sum += ref_get(dy, ref_row(dy->tensor, row) + out);
        put_gradient(call, db, out, sum);
    }
}

gp_status ref_conv_backward_weights(const ref_call *call) {
    const ref_view *x = &call->operand[GP_CONV_BACKWARD_WEIGHTS_X], *dy = &call->operand[GP_CONV_BACKWARD_WEIGHTS_DY];
    const ref_view *dw = &call->operand[GP_CONV_BACKWARD_WEIGHTS_DW], *db = &call->operand[GP_CONV_BACKWARD_WEIGHTS_DB];
    geometry g = geometry_of(call, x, dy);
    for (int64_t out = 0; out < dw->tensor->dim[0]; out++) {
        for (int64_t in = 0; in < g.in_group; in++) {
            for (int64_t kh = 0; kh < g.conv->kernel[0]; kh++) {
                for (int64_t kw = 0; kw < g.conv->kernel[1]; kw++) {
                    double sum = backward_weights_element(&g, x, dy, out, in, kh, kw);
                    put_gradient(call, dw, ref_at4(dw, out, in, kh, kw), sum);
                }
            }
        }
    }
    if (db->data) bias_gradient(call, dy, db);
    return GP_OK;
}

gp_status ref_linear_forward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_LINEAR_FORWARD_X], *w = &call->operand[GP_LINEAR_FORWARD_W];
    const ref_view *b = &call->operand[GP_LINEAR_FORWARD_B], *y = &call->operand[GP_LINEAR_FORWARD_Y];
    int64_t rows = gp_tensor_rows(x->tensor), outputs = w->tensor->dim[0], inputs = w->tensor->dim[1];
    for (int64_t row = 0; row < rows; row++) {
        int64_t from = ref_row(x->tensor, row), to = ref_row(y->tensor, row);
        for (int64_t out = 0; out < outputs; out++) {
            double sum = 0;
            for (int64_t in = 0; in < inputs; in++) sum += ref_get(x, from + in) * ref_get(w, ref_at2(w, out, in));
            if (b->data) sum += ref_get(b, out);
            ref_put(y, to + out, sum);
        }
    }
    return GP_OK;
}

gp_status ref_linear_backward_data(const ref_call *call) {
    const ref_view *dy = &call->operand[GP_LINEAR_BACKWARD_DATA_DY], *w = &call->operand[GP_LINEAR_BACKWARD_DATA_W];
    const ref_view *dx = &call->operand[GP_LINEAR_BACKWARD_DATA_DX];
    int64_t rows = gp_tensor_rows(dy->tensor), outputs = w->tensor->dim[0], inputs = w->tensor->dim[1];
    for (int64_t row = 0; row < rows; row++) {
        int64_t from = ref_row(dy->tensor, row), to = ref_row(dx->tensor, row);
        for (int64_t in = 0; in < inputs; in++) {
            double sum = 0;
            for (int64_t out = 0; out < outputs; out++) {
                sum += ref_get(dy, from + out) * ref_get(w, ref_at2(w, out, in));
            }
            ref_put(dx, to + in, sum);
        }
    }
    return GP_OK;
}

gp_status ref_linear_backward_weights(const ref_call *call) {
    const ref_view *x = &call->operand[GP_LINEAR_BACKWARD_WEIGHTS_X];
    const ref_view *dy = &call->operand[GP_LINEAR_BACKWARD_WEIGHTS_DY];
    const ref_view *dw = &call->operand[GP_LINEAR_BACKWARD_WEIGHTS_DW];
    const ref_view *db = &call->operand[GP_LINEAR_BACKWARD_WEIGHTS_DB];
    int64_t rows = gp_tensor_rows(x->tensor);
    for (int64_t out = 0; out < dw->tensor->dim[0]; out++) {
        for (int64_t in = 0; in < dw->tensor->dim[1]; in++) {
            double sum = 0;
            for (int64_t row = 0; row < rows; row++) {
                sum += ref_get(x, ref_row(x->tensor, row) + in) * ref_get(dy, ref_row(dy->tensor, row) + out);
            }
            put_gradient(call, dw, ref_at2(dw, out, in), sum);
        }
    }
    if (db->data) bias_gradient(call, dy, db);
    return GP_OK;
}
