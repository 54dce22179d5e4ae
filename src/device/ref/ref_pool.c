#include "device/ref/ref_ops.h"

#include <math.h>

static int64_t index_get(const ref_view *index, int64_t offset) {
    return index->tensor->dtype == GP_U8 ? ((const uint8_t *)index->data)[offset]
                                         : ((const int32_t *)index->data)[offset];
}

static void index_put(const ref_view *index, int64_t offset, int64_t place) {
    if (index->tensor->dtype == GP_U8)
        ((uint8_t *)index->data)[offset] = (uint8_t)place;
    else
        ((int32_t *)index->data)[offset] = (int32_t)place;
}

static bool inside(int64_t place, int64_t size) {
    return place >= 0 && place < size;
}

/* The maximum of one window and its place in it. NaN wins, and the first of them, as in PyTorch. */
static double window_maximum(const ref_call *call, const ref_view *x, int64_t n, int64_t oh, int64_t ow, int64_t c,
                             int64_t *place) {
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
            *place = k;
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
                    int64_t place = 0;
                    ref_put(y, ref_at4(y, n, oh, ow, c), window_maximum(call, x, n, oh, ow, c, &place));
                    if (index->data) index_put(index, ref_at4(index, n, oh, ow, c), place);
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
        if (index_get(index, ref_at4(index, n, oh, ow, c)) == k) sum += ref_get(dy, ref_at4(dy, n, oh, ow, c));
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

/* Places that a window of avg_pool counts along one side: its own that lie in the input and, where padding counts, in
 * the padding. */
static int64_t counted_places(const gp_pool_attributes *pool, int side, int64_t size, int64_t out) {
    int64_t counted = 0, first = out * pool->stride[side] - pool->pad[side];
    for (int64_t at = first; at < first + pool->kernel[side]; at++) {
        if (inside(at, size) || (pool->count_pad && at < size + pool->pad[side])) counted++;
    }
    return counted;
}

static double window_mean(const ref_call *call, const ref_view *x, int64_t n, int64_t oh, int64_t ow, int64_t c) {
    const gp_pool_attributes *pool = &call->desc->attributes.pool;
    const int64_t *in = x->tensor->dim;
    double sum = 0;
    for (int64_t k = 0; k < pool->kernel[0] * pool->kernel[1]; k++) {
        int64_t h = oh * pool->stride[0] - pool->pad[0] + k / pool->kernel[1];
        int64_t w = ow * pool->stride[1] - pool->pad[1] + k % pool->kernel[1];
        if (inside(h, in[1]) && inside(w, in[2])) sum += ref_get(x, ref_at4(x, n, h, w, c));
    }
    return sum / (double)(counted_places(pool, 0, in[1], oh) * counted_places(pool, 1, in[2], ow));
}

gp_status ref_avg_pool_forward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_AVG_POOL_FORWARD_X], *y = &call->operand[GP_AVG_POOL_FORWARD_Y];
    const int64_t *out = y->tensor->dim;
    for (int64_t n = 0; n < out[0]; n++) {
        for (int64_t oh = 0; oh < out[1]; oh++) {
            for (int64_t ow = 0; ow < out[2]; ow++) {
                for (int64_t c = 0; c < out[3]; c++) {
                    ref_put(y, ref_at4(y, n, oh, ow, c), window_mean(call, x, n, oh, ow, c));
                }
            }
        }
    }
    return GP_OK;
}

/* Adds up what the windows over input place [h,w] hand to it. */
static double gathered_shares(const ref_call *call, const ref_view *dy, const int64_t *in, int64_t n, int64_t h,
                              int64_t w, int64_t c) {
    const gp_pool_attributes *pool = &call->desc->attributes.pool;
    double sum = 0;
    for (int64_t k = 0; k < pool->kernel[0] * pool->kernel[1]; k++) {
        int64_t down = h + pool->pad[0] - k / pool->kernel[1], right = w + pool->pad[1] - k % pool->kernel[1];
        if (down % pool->stride[0] || right % pool->stride[1]) continue;
        int64_t oh = down / pool->stride[0], ow = right / pool->stride[1];
        if (!inside(oh, dy->tensor->dim[1]) || !inside(ow, dy->tensor->dim[2])) continue;
        sum += ref_get(dy, ref_at4(dy, n, oh, ow, c)) /
               (double)(counted_places(pool, 0, in[1], oh) * counted_places(pool, 1, in[2], ow));
    }
    return sum;
}

gp_status ref_avg_pool_backward(const ref_call *call) {
    const ref_view *dy = &call->operand[GP_AVG_POOL_BACKWARD_DY], *dx = &call->operand[GP_AVG_POOL_BACKWARD_DX];
    const int64_t *in = dx->tensor->dim;
    for (int64_t n = 0; n < in[0]; n++) {
        for (int64_t h = 0; h < in[1]; h++) {
            for (int64_t w = 0; w < in[2]; w++) {
                for (int64_t c = 0; c < in[3]; c++) {
                    ref_put(dx, ref_at4(dx, n, h, w, c), gathered_shares(call, dy, in, n, h, w, c));
                }
            }
        }
    }
    return GP_OK;
}

gp_status ref_upsample_forward(const ref_call *call) {
    const ref_view *x = &call->operand[GP_UPSAMPLE_FORWARD_X], *y = &call->operand[GP_UPSAMPLE_FORWARD_Y];
    const int64_t *in = x->tensor->dim, *out = y->tensor->dim;
    for (int64_t n = 0; n < out[0]; n++) {
        for (int64_t h = 0; h < out[1]; h++) {
            for (int64_t w = 0; w < out[2]; w++) {
                for (int64_t c = 0; c < out[3]; c++) {
                    int64_t from = ref_at4(x, n, h / (out[1] / in[1]), w / (out[2] / in[2]), c);
                    ref_put(y, ref_at4(y, n, h, w, c), ref_get(x, from));
                }
            }
        }
    }
    return GP_OK;
}

gp_status ref_upsample_backward(const ref_call *call) {
    const ref_view *dy = &call->operand[GP_UPSAMPLE_BACKWARD_DY], *dx = &call->operand[GP_UPSAMPLE_BACKWARD_DX];
    const int64_t *in = dx->tensor->dim, *out = dy->tensor->dim;
    int64_t rows = out[1] / in[1], columns = out[2] / in[2];
    for (int64_t n = 0; n < in[0]; n++) {
        for (int64_t h = 0; h < in[1]; h++) {
            for (int64_t w = 0; w < in[2]; w++) {
                for (int64_t c = 0; c < in[3]; c++) {
                    double sum = 0;
                    for (int64_t k = 0; k < rows * columns; k++)
                        sum += ref_get(dy, ref_at4(dy, n, h * rows + k / columns, w * columns + k % columns, c));
                    ref_put(dx, ref_at4(dx, n, h, w, c), sum);
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
