/* Max and average pooling, upsampling. */
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

/* The input place that kernel place k of the window of output [oh,ow] has; false where it is padding. */
static bool in_window(const gp_pool_attributes *pool, const int64_t *in, int64_t oh, int64_t ow, int64_t k, int64_t *h,
                      int64_t *w) {
    *h = oh * pool->stride[0] - pool->pad[0] + k / pool->kernel[1];
    *w = ow * pool->stride[1] - pool->pad[1] + k % pool->kernel[1];
    return inside(*h, in[1]) && inside(*w, in[2]);
}

/* The output whose window has input [h,w] at kernel place k; false where there is none. */
static bool window_of(const gp_pool_attributes *pool, const int64_t *out, int64_t h, int64_t w, int64_t k, int64_t *oh,
                      int64_t *ow) {
    int64_t down = h + pool->pad[0] - k / pool->kernel[1], right = w + pool->pad[1] - k % pool->kernel[1];
    if (down % pool->stride[0] || right % pool->stride[1]) return false;
    *oh = down / pool->stride[0];
    *ow = right / pool->stride[1];
    return inside(*oh, out[1]) && inside(*ow, out[2]);
}

static int64_t places_of(const gp_pool_attributes *pool) {
    return pool->kernel[0] * pool->kernel[1];
}

/* The maximum of one window; its place goes to the index. NaN wins, and the first of them, as in PyTorch. */
static double window_maximum(const ref_call *call, int64_t n, int64_t oh, int64_t ow, int64_t c) {
    const gp_pool_attributes *pool = &call->desc->attributes.pool;
    double best = 0;
    int64_t place = -1, h, w;
    for (int64_t k = 0; k < places_of(pool); k++) {
        if (!in_window(pool, call->x.tensor->dim, oh, ow, k, &h, &w)) continue;
        double value = ref_get4(&call->x, n, h, w, c);
        if (place < 0 || value > best || (isnan(value) && !isnan(best))) {
            best = value;
            place = k;
        }
    }
    if (call->index.data) index_put(&call->index, ref_at4(&call->index, n, oh, ow, c), place);
    return best;
}

void ref_max_pool_forward(const ref_call *call) {
    ref_write4(call, &call->y, window_maximum);
}

/* Adds up what the windows over input place [h,w] hand to it. */
static double gathered(const ref_call *call, int64_t n, int64_t h, int64_t w, int64_t c) {
    const gp_pool_attributes *pool = &call->desc->attributes.pool;
    const ref_view *index = &call->index, *dy = &call->dy;
    double sum = 0;
    int64_t oh, ow;
    for (int64_t k = 0; k < places_of(pool); k++)
        if (window_of(pool, dy->tensor->dim, h, w, k, &oh, &ow) && index_get(index, ref_at4(index, n, oh, ow, c)) == k)
            sum += ref_get4(dy, n, oh, ow, c);
    return sum;
}

void ref_max_pool_backward(const ref_call *call) {
    ref_write4(call, &call->dx, gathered);
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

/* What a window's sum is divided by. */
static double divisor_of(const gp_pool_attributes *pool, const int64_t *in, int64_t oh, int64_t ow) {
    return (double)(counted_places(pool, 0, in[1], oh) * counted_places(pool, 1, in[2], ow));
}

static double window_mean(const ref_call *call, int64_t n, int64_t oh, int64_t ow, int64_t c) {
    const gp_pool_attributes *pool = &call->desc->attributes.pool;
    const int64_t *in = call->x.tensor->dim;
    double sum = 0;
    int64_t h, w;
    for (int64_t k = 0; k < places_of(pool); k++)
        if (in_window(pool, in, oh, ow, k, &h, &w)) sum += ref_get4(&call->x, n, h, w, c);
    return sum / divisor_of(pool, in, oh, ow);
}

void ref_avg_pool_forward(const ref_call *call) {
    ref_write4(call, &call->y, window_mean);
}

static double gathered_shares(const ref_call *call, int64_t n, int64_t h, int64_t w, int64_t c) {
    const gp_pool_attributes *pool = &call->desc->attributes.pool;
    double sum = 0;
    int64_t oh, ow;
    for (int64_t k = 0; k < places_of(pool); k++)
        if (window_of(pool, call->dy.tensor->dim, h, w, k, &oh, &ow))
            sum += ref_get4(&call->dy, n, oh, ow, c) / divisor_of(pool, call->dx.tensor->dim, oh, ow);
    return sum;
}

void ref_avg_pool_backward(const ref_call *call) {
    ref_write4(call, &call->dx, gathered_shares);
}

static double spread_element(const ref_call *call, int64_t n, int64_t h, int64_t w, int64_t c) {
    const int64_t *in = call->x.tensor->dim, *out = call->y.tensor->dim;
    return ref_get4(&call->x, n, h / (out[1] / in[1]), w / (out[2] / in[2]), c);
}

void ref_upsample_forward(const ref_call *call) {
    ref_write4(call, &call->y, spread_element);
}

static double block_sum(const ref_call *call, int64_t n, int64_t h, int64_t w, int64_t c) {
    const int64_t *in = call->dx.tensor->dim, *out = call->dy.tensor->dim;
    int64_t rows = out[1] / in[1], columns = out[2] / in[2];
    double sum = 0;
    for (int64_t k = 0; k < rows * columns; k++)
        sum += ref_get4(&call->dy, n, h * rows + k / columns, w * columns + k % columns, c);
    return sum;
}

void ref_upsample_backward(const ref_call *call) {
    ref_write4(call, &call->dx, block_sum);
}

static double picture_mean(const ref_call *call, int64_t n, int64_t oh, int64_t ow, int64_t c) {
    const int64_t *in = call->x.tensor->dim;
    double sum = 0;
    for (int64_t h = 0; h < in[1]; h++)
        for (int64_t w = 0; w < in[2]; w++) sum += ref_get4(&call->x, n, oh + h, ow + w, c);
    return sum / (double)(in[1] * in[2]);
}

void ref_mean_pool_forward(const ref_call *call) {
    ref_write4(call, &call->y, picture_mean);
}

static double picture_share(const ref_call *call, int64_t n, int64_t h, int64_t w, int64_t c) {
    const int64_t *in = call->dx.tensor->dim;
    (void)h;
    (void)w;
    return ref_get4(&call->dy, n, 0, 0, c) / (double)(in[1] * in[2]);
}

void ref_mean_pool_backward(const ref_call *call) {
    ref_write4(call, &call->dx, picture_share);
}
