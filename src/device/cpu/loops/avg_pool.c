/* Average pooling, and the mean of a whole picture. */
#include "device/cpu/loops/pool.h"
#include "device/cpu/loops/wide.h"

/* Does place [h,w] of what is written, up to TILE channels from `channel` on. */
typedef void window(const pool_loop *loop, int64_t n, int64_t h, int64_t w, int64_t channel);

/* Items are rows of `columns` places each; `height` of them are a sample. */
static inline void for_tiles(const pool_loop *loop, window *place, int64_t height, int64_t columns, int64_t begin,
                             int64_t end) {
    for (int64_t i = begin; i < end; i++)
        for (int64_t w = 0; w < columns; w++)
            for (int64_t channel = 0; channel < loop->channels; channel += TILE)
                place(loop, i / height, i % height, w, channel);
}

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

/* A factor that gives the bits of a division: the divisor is a power of two. 0: there is none. */
static double factor_of(double divisor) {
    int64_t count = (int64_t)divisor;
    return (count & (count - 1)) == 0 ? 1 / divisor : 0;
}

/* Places of one window that lie inside the input. */
typedef struct window_places {
    const float *x;
    int64_t rows, columns, row_step, step;
    double divisor, factor;
} window_places;

/* One half of a wide vector of channels. */
static inline void mean_lanes(const window_places *its, int64_t rows, int64_t columns, int64_t channel, float *y) {
    gp_wide_doubles sum = {0};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            sum += gp_widen_half(its->x + r * its->row_step + c * its->step + channel);
    if (its->factor > 0)
        sum *= gp_wide_doubles_all(its->factor);
    else
        sum /= gp_wide_doubles_all(its->divisor);
    gp_narrow_half(y + channel, sum);
}

static inline int64_t mean_vectors(const window_places *its, int64_t rows, int64_t columns, int64_t channels,
                                   float *y) {
    int64_t channel = 0;
    for (; channel + GP_WIDE / 2 <= channels; channel += GP_WIDE / 2) mean_lanes(its, rows, columns, channel, y);
    return channel;
}

/* The mean of one window, summed in f64. */
static void mean_window(const window_places *its, int64_t channels, float *y) {
    int64_t channel = its->rows == 2 && its->columns == 2 ? mean_vectors(its, 2, 2, channels, y)
                                                          : mean_vectors(its, its->rows, its->columns, channels, y);
    for (; channel < channels; channel++) {
        double sum = 0;
        for (int64_t r = 0; r < its->rows; r++)
            for (int64_t c = 0; c < its->columns; c++)
                sum += (double)its->x[r * its->row_step + c * its->step + channel];
        y[channel] = (float)(sum / its->divisor);
    }
}

/* Items are rows of the output. */
static void mean_rows(void *context, int64_t begin, int64_t end) {
    const pool_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / loop->out[0], oh = i % loop->out[0], h_first, h_last, w_first, w_last;
        kernel_range(loop, 0, oh, &h_first, &h_last);
        int64_t row = (n * loop->in[0] + oh * loop->pool.stride[0] - loop->pool.pad[0] + h_first) * loop->in[1];
        for (int64_t ow = 0; ow < loop->out[1]; ow++) {
            kernel_range(loop, 1, ow, &w_first, &w_last);
            int64_t at = row + ow * loop->pool.stride[1] - loop->pool.pad[1] + w_first;
            window_places its = {.x = loop->from + at * loop->from_pitch,
                                 .rows = h_last - h_first,
                                 .columns = w_last - w_first,
                                 .row_step = loop->in[1] * loop->from_pitch,
                                 .step = loop->from_pitch,
                                 .divisor = divisor_of(loop, oh, ow)};
            its.factor = factor_of(its.divisor);
            mean_window(&its, loop->channels, loop->to + (i * loop->out[1] + ow) * loop->to_pitch);
        }
    }
}

static void run_avg_pool_forward(const gp_cpu_call *call) {
    run_outputs(call, mean_rows);
}

const gp_cpu_loop GP_CPU_LOOP(avg_pool_forward) = {.compute = run_avg_pool_forward};

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

/* The share of one window, for `columns` places that follow one another. Zero is added so that no −0 is left. With a
 * divisor that is a power of two, f32 rounds once too, and gives the same bits. */
static inline void put_lanes(const float *dy, double divisor, double factor, float *dx, int64_t pitch, int64_t columns,
                             int64_t lanes) {
    gp_wide share;
    if (factor > 0) {
        share = (gp_wide_load(dy, lanes) + (gp_wide){0}) * gp_wide_all((float)factor);
    } else {
        float room[GP_WIDE] = {0};
        for (int64_t h = 0; h < lanes; h += GP_WIDE / 2)
            gp_narrow_half(room + h, (gp_wide_doubles){0} + gp_widen_half(dy + h) / gp_wide_doubles_all(divisor));
        share = gp_wide_load(room, GP_WIDE);
    }
    for (int64_t k = 0; k < columns; k++) gp_wide_store(dx + k * pitch, share, lanes);
}

static inline void put_share(const pool_loop *loop, const float *dy, double divisor, float *dx, int64_t columns) {
    int64_t channel = 0, pitch = loop->to_pitch;
    double factor = factor_of(divisor);
    for (; channel + GP_WIDE <= loop->channels; channel += GP_WIDE)
        put_lanes(dy + channel, divisor, factor, dx + channel, pitch, columns, GP_WIDE);
    for (; channel + GP_WIDE / 2 <= loop->channels; channel += GP_WIDE / 2)
        put_lanes(dy + channel, divisor, factor, dx + channel, pitch, columns, GP_WIDE / 2);
    for (; channel < loop->channels; channel++) {
        float share = (float)(0 + (double)dy[channel] / divisor);
        for (int64_t k = 0; k < columns; k++) dx[k * pitch + channel] = share;
    }
}

/* The same where windows lie side by side. Items are rows of the input. */
static void hand_out_rows(void *context, int64_t begin, int64_t end) {
    const pool_loop *loop = context;
    int64_t kernel = loop->pool.kernel[1];
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / loop->in[0], oh = i % loop->in[0] / loop->pool.kernel[0];
        int64_t place = i * loop->in[1], last = place + loop->in[1];
        for (int64_t ow = 0; ow < loop->out[1] && oh < loop->out[0]; ow++, place += kernel) {
            int64_t at = (n * loop->out[0] + oh) * loop->out[1] + ow;
            const float *dy = loop->from + at * loop->from_pitch;
            float *dx = loop->to + place * loop->to_pitch;
            int64_t columns = last - place < kernel ? last - place : kernel;
            double divisor = divisor_of(loop, oh, ow);
            if (columns == 2)
                put_share(loop, dy, divisor, dx, 2);
            else
                put_share(loop, dy, divisor, dx, columns);
        }
        clear_places(loop, place, last);
    }
}

static void run_avg_pool_backward(const gp_cpu_call *call) {
    run_inputs(call, side_by_side(&call->prepared->desc.attributes.pool) ? hand_out_rows : share_rows);
}

const gp_cpu_loop GP_CPU_LOOP(avg_pool_backward) = {.compute = run_avg_pool_backward};

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
    pool_loop loop = pool_loop_of(call);
    gp_cpu_pool_for(call->pool, loop.samples * loop.tiles, gp_cpu_grain(loop.in[0] * loop.in[1] * TILE), mean_tiles,
                    &loop);
}

const gp_cpu_loop GP_CPU_LOOP(mean_pool_forward) = {.compute = run_mean_pool_forward};

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
    pool_loop loop = pool_loop_of(call);
    int64_t places = loop.samples * loop.in[0] * loop.in[1];
    gp_cpu_pool_for(call->pool, places, gp_cpu_grain(loop.channels), spread_places, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(mean_pool_backward) = {.compute = run_mean_pool_backward};
