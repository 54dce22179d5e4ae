#include "device/ref/ref_ops.h"

#include <math.h>

static uint8_t *index_at(const ref_view *index, int64_t n, int64_t h, int64_t w, int64_t c) {
    return (uint8_t *)index->data + ref_at4(index, n, h, w, c);
}

static bool inside(int64_t place, int64_t size) {
    return place >= 0 && place < size;
}

/* The maximum of one window and its place in it. NaN wins, and the first of them, as in PyTorch. */
static double window_maximum(const ref_call *call, const ref_view *x, int64_t n, int64_t oh, int64_t ow, int64_t c,
                             uint8_t *place) {
    const gp_pool_attributes *pool = &call->desc->attributes.pool;
    double best = 0;
    bool found = false;
    for (int64_t k = 0; k < pool->kernel[0] * pool->kernel[1]; k++) {
        int64_t h = oh * pool->stride[0] - pool->pad[0] + k / pool->kernel[1];
        int64_t w = ow * pool->stride[1] - pool->pad[1] + k % pool->kernel[1];
        if (!inside(h, x->tensor->dim[1]) || !inside(w, x->tensor->dim[2])) continue;
        double value = ref_get(x, ref_at4(x, n, h, w, c));
        if (!found || value > best || (isnan(value) && !isnan(best))) {
            best = value;
            *place = (uint8_t)k;
            found = true;
        }
    }
    return best;
}

gp_status ref_max_pool_forward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_MAX_POOL_FORWARD_X], *y = &call->operand[GP_MAX_POOL_FORWARD_Y];
    const ref_view *index = &call->operand[GP_MAX_POOL_FORWARD_INDEX];
    const int64_t *out = y->tensor->dim;
    for (int64_t n = 0; n < out[0]; n++) {
        for (int64_t oh = 0; oh < out[1]; oh++) {
            for (int64_t ow = 0; ow < out[2]; ow++) {
                for (int64_t c = 0; c < out[3]; c++) {
                    uint8_t place = 0;
                    ref_put(y, ref_at4(y, n, oh, ow, c), window_maximum(call, x, n, oh, ow, c, &place));
                    if (index->data) *index_at(index, n, oh, ow, c) = place;
                }
            }
        }
    }
    return GP_OK;
}

/* Adds up what the windows over input place [h,w] hand to it. */
static double gathered(const ref_call *call, const ref_view *index, const ref_view *dy, int64_t n, int64_t h, int64_t w,
                       int64_t c) {
    const gp_pool_attributes *pool = &call->desc->attributes.pool;
    double sum = 0;
    for (int64_t k = 0; k < pool->kernel[0] * pool->kernel[1]; k++) {
        int64_t down = h + pool->pad[0] - k / pool->kernel[1], right = w + pool->pad[1] - k % pool->kernel[1];
        if (down % pool->stride[0] || right % pool->stride[1]) continue;
        int64_t oh = down / pool->stride[0], ow = right / pool->stride[1];
        if (!inside(oh, dy->tensor->dim[1]) || !inside(ow, dy->tensor->dim[2])) continue;
        if (*index_at(index, n, oh, ow, c) == k) sum += ref_get(dy, ref_at4(dy, n, oh, ow, c));
    }
    return sum;
}

gp_status ref_max_pool_backward(const ref_call *call) {
    const ref_view *index = &call->operand[GP_MAX_POOL_BACKWARD_INDEX], *dy = &call->operand[GP_MAX_POOL_BACKWARD_DY];
    const ref_view *dx = &call->operand[GP_MAX_POOL_BACKWARD_DX];
    const int64_t *in = dx->tensor->dim;
    for (int64_t n = 0; n < in[0]; n++) {
        for (int64_t h = 0; h < in[1]; h++) {
            for (int64_t w = 0; w < in[2]; w++) {
                for (int64_t c = 0; c < in[3]; c++) {
                    ref_put(dx, ref_at4(dx, n, h, w, c), gathered(call, index, dy, n, h, w, c));
                }
            }
        }
    }
    return GP_OK;
}

gp_status ref_mean_pool_forward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_MEAN_POOL_FORWARD_X], *y = &call->operand[GP_MEAN_POOL_FORWARD_Y];
    const int64_t *in = x->tensor->dim;
    for (int64_t n = 0; n < in[0]; n++) {
        for (int64_t c = 0; c < in[3]; c++) {
            double sum = 0;
            for (int64_t h = 0; h < in[1]; h++) {
                for (int64_t w = 0; w < in[2]; w++) sum += ref_get(x, ref_at4(x, n, h, w, c));
            }
            ref_put(y, ref_at4(y, n, 0, 0, c), sum / (double)(in[1] * in[2]));
        }
    }
    return GP_OK;
}

gp_status ref_mean_pool_backward(const ref_call *call) {
    const ref_view *dy = &call->operand[GP_MEAN_POOL_BACKWARD_DY], *dx = &call->operand[GP_MEAN_POOL_BACKWARD_DX];
    const int64_t *in = dx->tensor->dim;
    for (int64_t n = 0; n < in[0]; n++) {
        for (int64_t h = 0; h < in[1]; h++) {
            for (int64_t w = 0; w < in[2]; w++) {
                for (int64_t c = 0; c < in[3]; c++) {
                    double share = ref_get(dy, ref_at4(dy, n, 0, 0, c)) / (double)(in[1] * in[2]);
                    ref_put(dx, ref_at4(dx, n, h, w, c), share);
                }
            }
        }
    }
    return GP_OK;
}
