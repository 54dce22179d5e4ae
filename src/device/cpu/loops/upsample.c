/* Upsampling. */
#include "device/cpu/loops/vector.h"
#include "device/cpu/loops/loops.h"

#include "device/cpu/cpu_column.h"

/* Channels that are summed together. */
enum { TILE = GP_COLUMN_TILE };

typedef struct upsample_loop {
    int64_t samples;
    int64_t height, width, channels; /* of the small picture */
    int64_t rows, columns;           /* places of the large one for each of the small one */
    int64_t small_pitch, large_pitch;
    const float *from;
    float *to;
} upsample_loop;

static upsample_loop loop_of(const gp_cpu_call *call) {
    gp_cpu_views views;
    gp_cpu_find_views(call, &views);
    bool forward = views.x.at;
    gp_cpu_view small = forward ? views.x : views.dx, large = forward ? views.y : views.dy;
    const int64_t *in = small.tensor->dim, *out = large.tensor->dim;
    return (upsample_loop){.samples = in[0],
                           .height = in[1],
                           .width = in[2],
                           .channels = in[3],
                           .rows = out[1] / in[1],
                           .columns = out[2] / in[2],
                           .small_pitch = small.rows.pitch,
                           .large_pitch = large.rows.pitch,
                           .from = forward ? small.at : large.at,
                           .to = forward ? large.at : small.at};
}

/* Places with more vectors than this are copied by memcpy, which is as fast then. */
enum { FEW = 8 };

/* Reads a place of the small picture once. */
static inline void spread_vectors(const upsample_loop *loop, int64_t rows, int64_t columns, const float *x, float *y) {
    int64_t down = loop->width * columns * loop->large_pitch;
    for (int64_t c = 0; c < loop->channels; c += GP_LANES) {
        gp_floats value = gp_load(x + c);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) gp_store(y + i * down + j * loop->large_pitch + c, value);
    }
}

static inline void spread_bytes(const upsample_loop *loop, const float *x, float *y) {
    int64_t down = loop->width * loop->columns * loop->large_pitch;
    for (int64_t i = 0; i < loop->rows; i++)
        for (int64_t j = 0; j < loop->columns; j++)
            memcpy(y + i * down + j * loop->large_pitch, x, (size_t)loop->channels * sizeof *y);
}

/* Items are rows of the small picture. */
static void spread_rows(void *context, int64_t begin, int64_t end) {
    const upsample_loop *loop = context;
    int64_t across = loop->width * loop->columns;
    bool few = loop->channels % GP_LANES == 0 && loop->channels <= (int64_t)FEW * GP_LANES;
    bool doubles = loop->rows == 2 && loop->columns == 2; /* by far the most frequent: a loop of its own */
    for (int64_t row = begin; row < end; row++) {
        const float *x = loop->from + row * loop->width * loop->small_pitch;
        float *y = loop->to + row * loop->rows * across * loop->large_pitch;
        for (int64_t w = 0; w < loop->width; w++, x += loop->small_pitch, y += loop->columns * loop->large_pitch) {
            if (few && doubles)
                spread_vectors(loop, 2, 2, x, y);
            else if (few)
                spread_vectors(loop, loop->rows, loop->columns, x, y);
            else
                spread_bytes(loop, x, y);
        }
    }
}

static void run_upsample_forward(const gp_cpu_call *call) {
    upsample_loop loop = loop_of(call);
    int64_t work = loop.width * loop.rows * loop.columns * loop.channels;
    gp_cpu_pool_for(call->pool, loop.samples * loop.height, gp_cpu_grain(work), spread_rows, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(upsample_forward) = {.compute = run_upsample_forward};

/* One place of the small picture, up to TILE channels: row by row of its block, in f64. */
static void sum_block(const upsample_loop *loop, int64_t row, int64_t w, int64_t channel) {
    double sum[TILE] = {0};
    int64_t count = loop->channels - channel < TILE ? loop->channels - channel : TILE;
    int64_t across = loop->width * loop->columns;
    for (int64_t i = 0; i < loop->rows; i++) {
        for (int64_t j = 0; j < loop->columns; j++) {
            int64_t place = (row * loop->rows + i) * across + w * loop->columns + j;
            const float *dy = loop->from + place * loop->large_pitch + channel;
            for (int64_t c = 0; c < count; c++) sum[c] += (double)dy[c];
        }
    }
    float *dx = loop->to + (row * loop->width + w) * loop->small_pitch + channel;
    for (int64_t c = 0; c < count; c++) dx[c] = (float)sum[c];
}

/* Items are rows of the small picture. */
static void sum_rows(void *context, int64_t begin, int64_t end) {
    const upsample_loop *loop = context;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t w = 0; w < loop->width; w++) {
            for (int64_t channel = 0; channel < loop->channels; channel += TILE) sum_block(loop, row, w, channel);
        }
    }
}

static void run_upsample_backward(const gp_cpu_call *call) {
    upsample_loop loop = loop_of(call);
    int64_t work = loop.width * loop.rows * loop.columns * loop.channels;
    gp_cpu_pool_for(call->pool, loop.samples * loop.height, gp_cpu_grain(work), sum_rows, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(upsample_backward) = {.compute = run_upsample_backward};
