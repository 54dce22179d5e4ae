/* What max and average pooling share: the loop over a picture, and which places a window has. The loop is the
 * op's own; any thread reads it. */
#ifndef GP_DEVICE_CPU_LOOPS_POOL_H
#define GP_DEVICE_CPU_LOOPS_POOL_H

#include "device/cpu/loops/loops.h"

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

static inline pool_loop pool_loop_of(const gp_cpu_call *call) {
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

static inline int64_t tile_width(const pool_loop *loop, int64_t channel) {
    return loop->channels - channel < TILE ? loop->channels - channel : TILE;
}

/* The range of kernel places along one side that lie inside the input: [*first, *last). */
static inline void kernel_range(const pool_loop *loop, int side, int64_t out, int64_t *first, int64_t *last) {
    int64_t begin = out * loop->pool.stride[side] - loop->pool.pad[side];
    *first = begin < 0 ? -begin : 0;
    *last = loop->in[side] - begin < loop->pool.kernel[side] ? loop->in[side] - begin : loop->pool.kernel[side];
}

/* The outputs along one side whose windows hold input place `in`: [*first, *last). */
static inline void output_range(const pool_loop *loop, int side, int64_t in, int64_t *first, int64_t *last) {
    int64_t end = in + loop->pool.pad[side], stride = loop->pool.stride[side], kernel = loop->pool.kernel[side];
    *first = end < kernel ? 0 : (end - kernel) / stride + 1;
    *last = end / stride + 1 < loop->out[side] ? end / stride + 1 : loop->out[side];
}

static inline void run_outputs(const gp_cpu_call *call, gp_cpu_range rows) {
    pool_loop loop = pool_loop_of(call);
    int64_t work = loop.out[1] * loop.channels * loop.pool.kernel[0] * loop.pool.kernel[1];
    gp_cpu_pool_for(call->pool, loop.samples * loop.out[0], gp_cpu_grain(work), rows, &loop);
}

static inline void run_inputs(const gp_cpu_call *call, gp_cpu_range rows) {
    pool_loop loop = pool_loop_of(call);
    gp_cpu_pool_for(call->pool, loop.samples * loop.in[0], gp_cpu_grain(loop.in[1] * loop.channels), rows, &loop);
}

/* Windows that touch, and do not overlap: each place of the input is in one of them at most. */
static inline bool side_by_side(const gp_pool_attributes *pool) {
    return pool->kernel[0] == pool->stride[0] && pool->kernel[1] == pool->stride[1] && pool->pad[0] == 0 &&
           pool->pad[1] == 0;
}

/* Places [place, last) of the input, counted through all samples. */
static inline void clear_places(const pool_loop *loop, int64_t place, int64_t last) {
    for (; place < last; place++)
        for (int64_t c = 0; c < loop->channels; c++) loop->to[place * loop->to_pitch + c] = 0;
}

#endif
