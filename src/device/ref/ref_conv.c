/* Convolution, linear. */
#include "device/ref/ref_ops.h"

/* What the three passes of a convolution know of its geometry. */
typedef struct geometry {
    const gp_conv_attributes *conv;
    int64_t n, in[2], out[2];    /* height, width */
    int64_t in_group, out_group; /* channels of a group */
} geometry;

static geometry geometry_of(const ref_call *call) {
    const ref_view *x = call->x.tensor ? &call->x : &call->dx, *y = call->y.tensor ? &call->y : &call->dy;
    const int64_t *in = x->tensor->dim, *out = y->tensor->dim;
    const gp_conv_attributes *conv = &call->desc->attributes.conv;
    return (geometry){conv, in[0], {in[1], in[2]}, {out[1], out[2]}, in[3] / conv->groups, out[3] / conv->groups};
}

/* The input place that kernel place k of the window of output place `out` has, or −1. side: 0 height, 1 width. */
static int64_t in_place(const geometry *g, int side, int64_t out, int64_t k) {
    int64_t place = out * g->conv->stride[side] - g->conv->pad[side] + k * g->conv->dilation[side];
    return place < 0 || place >= g->in[side] ? -1 : place;
}

/* The output place whose window has input place `in` at kernel place k, or −1. */
static int64_t out_place(const geometry *g, int side, int64_t in, int64_t k) {
    int64_t stride = g->conv->stride[side];
    int64_t scaled = in + g->conv->pad[side] - k * g->conv->dilation[side];
    if (scaled < 0 || scaled % stride != 0 || scaled / stride >= g->out[side]) return -1;
    return scaled / stride;
}

static double forward_element(const ref_call *call, int64_t n, int64_t oh, int64_t ow, int64_t out) {
    geometry g = geometry_of(call);
    double sum = 0;
    int64_t first_in = out / g.out_group * g.in_group;
    for (int64_t kh = 0; kh < g.conv->kernel[0]; kh++) {
        int64_t h = in_place(&g, 0, oh, kh);
        if (h < 0) continue;
        for (int64_t kw = 0; kw < g.conv->kernel[1]; kw++) {
            int64_t w = in_place(&g, 1, ow, kw);
            if (w < 0) continue;
            for (int64_t in = 0; in < g.in_group; in++)
                sum += ref_get4(&call->x, n, h, w, first_in + in) * ref_get4(&call->w, out, in, kh, kw);
        }
    }
    return call->b.data ? sum + ref_get(&call->b, out) : sum;
}

void ref_conv_forward(const ref_call *call) {
    ref_write4(call, &call->y, forward_element);
}

static double backward_data_element(const ref_call *call, int64_t n, int64_t h, int64_t w, int64_t in) {
    geometry g = geometry_of(call);
    double sum = 0;
    int64_t first_out = in / g.in_group * g.out_group;
    for (int64_t kh = 0; kh < g.conv->kernel[0]; kh++) {
        int64_t oh = out_place(&g, 0, h, kh);
        if (oh < 0) continue;
        for (int64_t kw = 0; kw < g.conv->kernel[1]; kw++) {
            int64_t ow = out_place(&g, 1, w, kw);
            if (ow < 0) continue;
            for (int64_t out = first_out; out < first_out + g.out_group; out++)
                sum += ref_get4(&call->dy, n, oh, ow, out) * ref_get4(&call->w, out, in % g.in_group, kh, kw);
        }
    }
    return sum;
}

void ref_conv_backward_data(const ref_call *call) {
    ref_write4(call, &call->dx, backward_data_element);
}

/* Gradients of weights add to what is there where the descriptor says so. */
static double added_to(const ref_call *call, const ref_view *gradient, int64_t offset, double sum) {
    return call->desc->flags & GP_OP_ACCUMULATE ? sum + ref_get(gradient, offset) : sum;
}

static double backward_weights_element(const ref_call *call, int64_t out, int64_t in, int64_t kh, int64_t kw) {
    geometry g = geometry_of(call);
    double sum = 0;
    int64_t channel = out / g.out_group * g.in_group + in;
    for (int64_t n = 0; n < g.n; n++) {
        for (int64_t oh = 0; oh < g.out[0]; oh++) {
            int64_t h = in_place(&g, 0, oh, kh);
            if (h < 0) continue;
            for (int64_t ow = 0; ow < g.out[1]; ow++) {
                int64_t w = in_place(&g, 1, ow, kw);
                if (w >= 0) sum += ref_get4(&call->x, n, h, w, channel) * ref_get4(&call->dy, n, oh, ow, out);
            }
        }
    }
    return added_to(call, &call->dw, ref_at4(&call->dw, out, in, kh, kw), sum);
}

void ref_conv_backward_weights(const ref_call *call) {
    int64_t rows = gp_tensor_rows(call->dy.tensor);
    ref_write4(call, &call->dw, backward_weights_element);
    if (!call->db.data) return;
    for (int64_t out = 0; out < call->db.tensor->dim[0]; out++) {
        double sum = 0;
        for (int64_t row = 0; row < rows; row++) sum += ref_get_row(&call->dy, row, out);
        ref_put(&call->db, out, added_to(call, &call->db, out, sum));
    }
}

/* Linear layers are convolutions of one place: rows [n,w] are pictures [n,1,1,w], rows [n,t,w] pictures [n,1,t,w]. */
static gp_tensor as_picture(const gp_tensor *rows) {
    int last = rows->rank - 1;
    gp_tensor picture = *rows;
    picture.rank = 4;
    for (int d = 1; d < 4; d++) {
        int of = d == 3 ? last : d + last - 3;
        picture.dim[d] = of > 0 ? rows->dim[of] : 1;
        picture.stride[d] = of > 0 ? rows->stride[of] : 0;
    }
    return picture;
}

static gp_tensor as_kernel(const gp_tensor *weights) {
    gp_tensor kernel = *weights;
    kernel.rank = 4;
    for (int d = 2; d < 4; d++) kernel.dim[d] = 1;
    return kernel;
}

static void as_conv(const ref_call *call, void (*conv)(const ref_call *call)) {
    static const gp_operand_name pictures[] = {GP_NAME_X, GP_NAME_Y, GP_NAME_DX, GP_NAME_DY};
    static const gp_operand_name kernels[] = {GP_NAME_W, GP_NAME_DW};
    gp_tensor picture[4], kernel[2];
    gp_op_desc desc = *call->desc;
    ref_call turned = *call;
    desc.attributes.conv = (gp_conv_attributes){.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    turned.desc = &desc;
    for (int i = 0; i < 4; i++) {
        ref_view *view = &turned.named[pictures[i]];
        if (!view->tensor) continue;
        picture[i] = as_picture(view->tensor);
        view->tensor = &picture[i];
    }
    for (int i = 0; i < 2; i++) {
        ref_view *view = &turned.named[kernels[i]];
        if (!view->tensor) continue;
        kernel[i] = as_kernel(view->tensor);
        view->tensor = &kernel[i];
    }
    conv(&turned);
}

void ref_linear_forward(const ref_call *call) {
    as_conv(call, ref_conv_forward);
}

void ref_linear_backward_data(const ref_call *call) {
    as_conv(call, ref_conv_backward_data);
}

void ref_linear_backward_weights(const ref_call *call) {
    as_conv(call, ref_conv_backward_weights);
}
