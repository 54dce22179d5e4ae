/* Upsampling. */
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/wide.h"

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

/* One place of the small picture: row by row of its block, in f64. Half a wide vector of channels. */
static inline void sum_lanes(const upsample_loop *loop, int64_t rows, int64_t columns, const float *dy, float *dx) {
    int64_t down = loop->width * columns * loop->large_pitch;
    gp_wide_doubles sum = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) sum += gp_widen_half(dy + i * down + j * loop->large_pitch);
    gp_narrow_half(dx, sum);
}

static inline void sum_block(const upsample_loop *loop, int64_t rows, int64_t columns, const float *dy, float *dx) {
    int64_t down = loop->width * columns * loop->large_pitch, c = 0;
    for (; c + GP_WIDE / 2 <= loop->channels; c += GP_WIDE / 2) sum_lanes(loop, rows, columns, dy + c, dx + c);
    for (; c < loop->channels; c++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) sum += (double)dy[i * down + j * loop->large_pitch + c];
        dx[c] = (float)sum;
    }
}

/* Items are rows of the small picture. */
static void sum_rows(void *context, int64_t begin, int64_t end) {
    const upsample_loop *loop = context;
    int64_t across = loop->width * loop->columns;
    bool doubles = loop->rows == 2 && loop->columns == 2;
    for (int64_t row = begin; row < end; row++) {
        const float *dy = loop->from + row * loop->rows * across * loop->large_pitch;
        float *dx = loop->to + row * loop->width * loop->small_pitch;
        for (int64_t w = 0; w < loop->width; w++, dy += loop->columns * loop->large_pitch, dx += loop->small_pitch) {
            if (doubles)
                sum_block(loop, 2, 2, dy, dx);
            else
                sum_block(loop, loop->rows, loop->columns, dy, dx);
        }
    }
}

static void run_upsample_backward(const gp_cpu_call *call) {
    upsample_loop loop = loop_of(call);
    int64_t work = loop.width * loop.rows * loop.columns * loop.channels;
    gp_cpu_pool_for(call->pool, loop.samples * loop.height, gp_cpu_grain(work), sum_rows, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(upsample_backward) = {.compute = run_upsample_backward};
