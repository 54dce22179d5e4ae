/* Max and average pooling. */
#include "device/cpu/cpu_ops.h"

#include <math.h>

#include "device/cpu/cpu_column.h"

/* Channels that are done together, so that a window's maxima and their places stay in registers or the first cache. */
enum { TILE = GP_COLUMN_TILE };

typedef struct pool_loop {
    gp_pool_attributes pool;
    int64_t samples, in[2], out[2], channels, tiles; /* in, out: height, width */
    const float *from;
    float *to;
    void *index; /* written forward (NULL: absent), read backward; bytes, or int32_t where `wide` */
    bool wide;
    int64_t from_pitch, to_pitch, index_pitch;
} pool_loop;

static pool_loop loop_of(const gp_cpu_call *call) {
    gp_cpu_views views;
    gp_cpu_find_views(call, &views);
    bool forward = views.x.at;
    gp_cpu_view from = forward ? views.x : views.dy, to = forward ? views.y : views.dx;
    const int64_t *in = (forward ? from : to).tensor->dim, *out = (forward ? to : from).tensor->dim;
    return (pool_loop){.pool = call->prepared->desc.attributes.pool,
                       .samples = in[0],
                       .in = {in[1], in[2]},
                       .out = {out[1], out[2]},
                       .channels = in[3],
                       .tiles = (in[3] + TILE - 1) / TILE,
                       .from = from.at,
                       .to = to.at,
                       .index = views.index.at,
                       .wide = views.index.at && views.index.tensor->dtype == GP_I32,
                       .from_pitch = from.rows.pitch,
                       .to_pitch = to.rows.pitch,
                       .index_pitch = views.index.rows.pitch};
}

static int64_t tile_width(const pool_loop *loop, int64_t channel) {
    return loop->channels - channel < TILE ? loop->channels - channel : TILE;
}

/* The range of kernel places along one side that lie inside the input: [*first, *last). */
static void kernel_range(const pool_loop *loop, int side, int64_t out, int64_t *first, int64_t *last) {
    int64_t begin = out * loop->pool.stride[side] - loop->pool.pad[side];
    *first = begin < 0 ? -begin : 0;
    *last = loop->in[side] - begin < loop->pool.kernel[side] ? loop->in[side] - begin : loop->pool.kernel[side];
}

/* The first of equals wins, NaN over all, the first of them. */
static void take_larger(float *best, int32_t *place, const float *x, int32_t k, int64_t channels) {
    GP_INDEPENDENT
    for (int64_t c = 0; c < channels; c++) {
        float old = best[c], new = x[c];
        int32_t old_place = place[c];
        /* Not ≤: larger, or one of them NaN; written without branches, so that it becomes vector code. */
        int32_t wins = -(int32_t)(!(new <= old) & (old == old));
        best[c] = wins ? new : old;
        place[c] = (k & wins) | (old_place & ~wins);
    }
}

/* Does place [h,w] of what is written, up to TILE channels from `channel` on. */
typedef void window(const pool_loop *loop, int64_t n, int64_t h, int64_t w, int64_t channel);

static void max_window(const pool_loop *loop, int64_t n, int64_t oh, int64_t ow, int64_t channel) {
    float best[TILE];
    int32_t place[TILE];
    int64_t width = tile_width(loop, channel);
    int64_t h_first, h_last, w_first, w_last;
    kernel_range(loop, 0, oh, &h_first, &h_last);
    kernel_range(loop, 1, ow, &w_first, &w_last);
    bool begun = false;
    for (int64_t kh = h_first; kh < h_last; kh++) {
        int64_t row = (n * loop->in[0] + oh * loop->pool.stride[0] - loop->pool.pad[0] + kh) * loop->in[1];
        for (int64_t kw = w_first; kw < w_last; kw++) {
            int64_t at = row + ow * loop->pool.stride[1] - loop->pool.pad[1] + kw;
            const float *x = loop->from + at * loop->from_pitch + channel;
            int32_t k = (int32_t)(kh * loop->pool.kernel[1] + kw);
            if (begun) {
                take_larger(best, place, x, k, width);
                continue;
            }
            for (int64_t c = 0; c < width; c++) best[c] = x[c];
            for (int64_t c = 0; c < width; c++) place[c] = k;
            begun = true;
        }
    }
    int64_t at = (n * loop->out[0] + oh) * loop->out[1] + ow;
    float *y = loop->to + at * loop->to_pitch + channel;
    /* No window lies in the padding alone: the op's check holds pads to half of the kernel at most. */
    for (int64_t c = 0; c < width; c++) y[c] = best[c]; // NOLINT(clang-analyzer-core.uninitialized.Assign)
    if (!loop->index) return;
    at = at * loop->index_pitch + channel;
    if (loop->wide)
        for (int64_t c = 0; c < width; c++) ((int32_t *)loop->index)[at + c] = place[c];
    else
        for (int64_t c = 0; c < width; c++) ((uint8_t *)loop->index)[at + c] = (uint8_t)place[c];
}

/* Items are rows of `columns` places each; `height` of them are a sample. */
static inline void for_tiles(const pool_loop *loop, window *place, int64_t height, int64_t columns, int64_t begin,
                             int64_t end) {
    for (int64_t i = begin; i < end; i++)
        for (int64_t w = 0; w < columns; w++)
            for (int64_t channel = 0; channel < loop->channels; channel += TILE)
                place(loop, i / height, i % height, w, channel);
}

static void run_outputs(const gp_cpu_call *call, gp_cpu_range rows) {
    pool_loop loop = loop_of(call);
    int64_t work = loop.out[1] * loop.channels * loop.pool.kernel[0] * loop.pool.kernel[1];
    gp_cpu_pool_for(call->pool, loop.samples * loop.out[0], gp_cpu_grain(work), rows, &loop);
}

static void run_inputs(const gp_cpu_call *call, gp_cpu_range rows) {
    pool_loop loop = loop_of(call);
    gp_cpu_pool_for(call->pool, loop.samples * loop.in[0], gp_cpu_grain(loop.in[1] * loop.channels), rows, &loop);
}

static void max_rows(void *loop, int64_t begin, int64_t end) {
    const pool_loop *its = loop;
    for_tiles(its, max_window, its->out[0], its->out[1], begin, end);
}

static void run_max_pool_forward(const gp_cpu_call *call) {
    run_outputs(call, max_rows);
}

const gp_cpu_op gp_cpu_max_pool_forward = {.compute = run_max_pool_forward};

/* The outputs along one side whose windows hold input place `in`: [*first, *last). */
static void output_range(const pool_loop *loop, int side, int64_t in, int64_t *first, int64_t *last) {
    int64_t end = in + loop->pool.pad[side], stride = loop->pool.stride[side], kernel = loop->pool.kernel[side];
    *first = end < kernel ? 0 : (end - kernel) / stride + 1;
    *last = end / stride + 1 < loop->out[side] ? end / stride + 1 : loop->out[side];
}

/* Windows whose maximum is place k hand on their gradient. It is read in any case: no branch, so that this becomes
 * vector code. */
#define DEFINE_ADD_WINNERS(name, type)                                                                                 \
    static void name(float *sum, const float *dy, const type *index, int32_t k, int64_t channels) {                    \
        GP_INDEPENDENT                                                                                                 \
        for (int64_t c = 0; c < channels; c++) {                                                                       \
            float share = dy[c];                                                                                       \
            sum[c] += index[c] == k ? share : 0;                                                                       \
        }                                                                                                              \
    }
DEFINE_ADD_WINNERS(add_byte_winners, uint8_t)
DEFINE_ADD_WINNERS(add_wide_winners, int32_t)
#undef DEFINE_ADD_WINNERS

/* One place of the input gathers from the windows that hold it, last to first: in rising order of the place that it has
 * in them, as every device kind adds. */
static void gather_place(const pool_loop *loop, int64_t n, int64_t h, int64_t w, int64_t channel) {
    float sum[TILE] = {0};
    int64_t width = tile_width(loop, channel);
    int64_t h_first, h_last, w_first, w_last;
    output_range(loop, 0, h, &h_first, &h_last);
    output_range(loop, 1, w, &w_first, &w_last);
    for (int64_t oh = h_last - 1; oh >= h_first; oh--) {
        for (int64_t ow = w_last - 1; ow >= w_first; ow--) {
            int64_t at = (n * loop->out[0] + oh) * loop->out[1] + ow;
            int64_t kh = h + loop->pool.pad[0] - oh * loop->pool.stride[0];
            int64_t kw = w + loop->pool.pad[1] - ow * loop->pool.stride[1];
            int32_t k = (int32_t)(kh * loop->pool.kernel[1] + kw);
            const float *dy = loop->from + at * loop->from_pitch + channel;
            int64_t places = at * loop->index_pitch + channel;
            if (loop->wide)
                add_wide_winners(sum, dy, (const int32_t *)loop->index + places, k, width);
            else
                add_byte_winners(sum, dy, (const uint8_t *)loop->index + places, k, width);
        }
    }
    float *dx = loop->to + ((n * loop->in[0] + h) * loop->in[1] + w) * loop->to_pitch + channel;
    for (int64_t c = 0; c < width; c++) dx[c] = sum[c];
}

static void gather_rows(void *loop, int64_t begin, int64_t end) {
    const pool_loop *its = loop;
    for_tiles(its, gather_place, its->in[0], its->in[1], begin, end);
}

static void run_max_pool_backward(const gp_cpu_call *call) {
    run_inputs(call, gather_rows);
}

const gp_cpu_op gp_cpu_max_pool_backward = {.compute = run_max_pool_backward};

/* Places that a window counts along one side, see op.h. */
static int64_t counted_places(const pool_loop *loop, int side, int64_t out) {
    int64_t first, last;
    kernel_range(loop, side, out, &first, &last);
    if (!loop->pool.count_pad) return last - first;
    int64_t begin = out * loop->pool.stride[side] - loop->pool.pad[side];
    int64_t end = loop->in[side] + loop->pool.pad[side] - begin;
    return end < loop->pool.kernel[side] ? end : loop->pool.kernel[side];
}

static double divisor_of(const pool_loop *loop, int64_t oh, int64_t ow) {
    return (double)(counted_places(loop, 0, oh) * counted_places(loop, 1, ow));
}

/* The mean of one window, summed in f64. */
static void mean_window(const pool_loop *loop, int64_t n, int64_t oh, int64_t ow, int64_t channel) {
    double sum[TILE] = {0}, divisor = divisor_of(loop, oh, ow);
    int64_t width = tile_width(loop, channel);
    int64_t h_first, h_last, w_first, w_last;
    kernel_range(loop, 0, oh, &h_first, &h_last);
    kernel_range(loop, 1, ow, &w_first, &w_last);
    for (int64_t kh = h_first; kh < h_last; kh++) {
        int64_t row = (n * loop->in[0] + oh * loop->pool.stride[0] - loop->pool.pad[0] + kh) * loop->in[1];
        for (int64_t kw = w_first; kw < w_last; kw++) {
            int64_t at = row + ow * loop->pool.stride[1] - loop->pool.pad[1] + kw;
            const float *x = loop->from + at * loop->from_pitch + channel;
            for (int64_t c = 0; c < width; c++) sum[c] += (double)x[c];
        }
    }
    float *y = loop->to + ((n * loop->out[0] + oh) * loop->out[1] + ow) * loop->to_pitch + channel;
    for (int64_t c = 0; c < width; c++) y[c] = (float)(sum[c] / divisor);
}

static void mean_rows(void *loop, int64_t begin, int64_t end) {
    const pool_loop *its = loop;
    for_tiles(its, mean_window, its->out[0], its->out[1], begin, end);
}

static void run_avg_pool_forward(const gp_cpu_call *call) {
    run_outputs(call, mean_rows);
}

const gp_cpu_op gp_cpu_avg_pool_forward = {.compute = run_avg_pool_forward};

/* One place of the input gathers the shares of the windows that hold it, last to first, as gather_place does. */
static void share_place(const pool_loop *loop, int64_t n, int64_t h, int64_t w, int64_t channel) {
    double sum[TILE] = {0};
    int64_t width = tile_width(loop, channel);
    int64_t h_first, h_last, w_first, w_last;
    output_range(loop, 0, h, &h_first, &h_last);
    output_range(loop, 1, w, &w_first, &w_last);
    for (int64_t oh = h_last - 1; oh >= h_first; oh--) {
        for (int64_t ow = w_last - 1; ow >= w_first; ow--) {
            int64_t at = (n * loop->out[0] + oh) * loop->out[1] + ow;
            const float *dy = loop->from + at * loop->from_pitch + channel;
            double divisor = divisor_of(loop, oh, ow);
            for (int64_t c = 0; c < width; c++) sum[c] += (double)dy[c] / divisor;
        }
    }
    float *dx = loop->to + ((n * loop->in[0] + h) * loop->in[1] + w) * loop->to_pitch + channel;
    for (int64_t c = 0; c < width; c++) dx[c] = (float)sum[c];
}

static void share_rows(void *loop, int64_t begin, int64_t end) {
    const pool_loop *its = loop;
    for_tiles(its, share_place, its->in[0], its->in[1], begin, end);
}

static void run_avg_pool_backward(const gp_cpu_call *call) {
    run_inputs(call, share_rows);
}

const gp_cpu_op gp_cpu_avg_pool_backward = {.compute = run_avg_pool_backward};

/* The mean over `places` rows of one tile: blocks in f32, their sums in f64. */
static void mean_tile(const pool_loop *loop, int64_t n, int64_t channel) {
    double total[TILE] = {0};
    int64_t width = tile_width(loop, channel), places = loop->in[0] * loop->in[1];
    const float *first = loop->from + n * places * loop->from_pitch + channel;
    for (int64_t place = 0; place < places;) {
        float sum[TILE] = {0};
        int64_t last = place + GP_COLUMN_ROWS < places ? place + GP_COLUMN_ROWS : places;
        for (; place < last; place++) {
            const float *x = first + place * loop->from_pitch;
            for (int64_t c = 0; c < width; c++) sum[c] += x[c];
        }
        for (int64_t c = 0; c < width; c++) total[c] += (double)sum[c];
    }
    float *y = loop->to + n * loop->to_pitch + channel;
    for (int64_t c = 0; c < width; c++) y[c] = (float)(total[c] / (double)places);
}

static void mean_tiles(void *context, int64_t begin, int64_t end) {
    const pool_loop *loop = context;
    for (int64_t i = begin; i < end; i++) mean_tile(loop, i / loop->tiles, i % loop->tiles * TILE);
}

static void run_mean_pool_forward(const gp_cpu_call *call) {
    pool_loop loop = loop_of(call);
    gp_cpu_pool_for(call->pool, loop.samples * loop.tiles, gp_cpu_grain(loop.in[0] * loop.in[1] * TILE), mean_tiles,
                    &loop);
}

const gp_cpu_op gp_cpu_mean_pool_forward = {.compute = run_mean_pool_forward};

/* Items are places of all samples. */
static void spread_places(void *context, int64_t begin, int64_t end) {
    const pool_loop *loop = context;
    int64_t places = loop->in[0] * loop->in[1];
    for (int64_t i = begin; i < end; i++) {
        const float *dy = loop->from + i / places * loop->from_pitch;
        float *dx = loop->to + i * loop->to_pitch;
        for (int64_t c = 0; c < loop->channels; c++) dx[c] = dy[c] / (float)places;
    }
}

static void run_mean_pool_backward(const gp_cpu_call *call) {
    pool_loop loop = loop_of(call);
    int64_t places = loop.samples * loop.in[0] * loop.in[1];
    gp_cpu_pool_for(call->pool, places, gp_cpu_grain(loop.channels), spread_places, &loop);
}

const gp_cpu_op gp_cpu_mean_pool_backward = {.compute = run_mean_pool_backward};
