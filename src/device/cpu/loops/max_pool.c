/* Max pooling. Vectors are channels of one place, so that a window's maxima and their places stay in registers. */
#include "device/cpu/loops/pool.h"
#include "device/cpu/loops/wide.h"

/* Vectors have GP_WIDE lanes or, where a place has fewer channels, GP_LANES. */

static inline gp_wide_ints load_places(const uint8_t *bytes, const int32_t *wide, int64_t channel, int64_t lanes) {
    if (wide) return (gp_wide_ints)gp_wide_load((const float *)(const void *)(wide + channel), lanes);
#if defined(__AVX512F__)
    if (lanes == GP_WIDE) return (gp_wide_ints)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(bytes + channel)));
    return (gp_wide_ints)_mm512_cvtepu8_epi32(_mm_loadl_epi64((const void *)(bytes + channel)));
#else
    return (gp_wide_ints)gp_load_bytes(bytes + channel);
#endif
}

static inline void store_bytes(uint8_t *to, gp_wide_ints places, int64_t lanes) {
#if defined(__AVX512F__)
    __m128i bytes = _mm512_cvtepi32_epi8((__m512i)places);
    if (lanes == GP_WIDE)
        _mm_storeu_si128((void *)to, bytes);
    else
        _mm_storel_epi64((void *)to, bytes);
#else
    (void)lanes;
    gp_store_bytes(to, (gp_ints)places);
#endif
}

/* 0 where the place is not k. */
static inline gp_wide keep_place(gp_wide_ints places, int32_t k, gp_wide value) {
#if defined(__AVX512F__)
    __mmask16 equal = _mm512_cmpeq_epi32_mask((__m512i)places, _mm512_set1_epi32(k));
    return (gp_wide)_mm512_maskz_mov_ps(equal, (__m512)value);
#else
    return (gp_wide)((gp_wide_ints)value & (places == (gp_wide_ints){0} + k));
#endif
}

/* Places of one window that lie inside the input: `rows` rows of `columns`, the first of which is place `k`. */
typedef struct window {
    const float *x; /* its first place */
    int64_t rows, columns;
    int64_t row_step, step; /* elements from row to row, and from place to place */
    int32_t k, k_row;       /* k_row: what k rises by from row to row */
    float *y;
    uint8_t *bytes; /* where the places go; NULL: nowhere */
    int32_t *wide;
} window;

/* The first of equals wins, NaN over all, the first of them: not ≤ is larger, or one of them NaN. */
static inline void take_larger(gp_wide *best, gp_wide_ints *place, gp_wide x, int32_t k) {
#if defined(__AVX512F__)
    __m512 before = (__m512)*best;
    __mmask16 numbers = _mm512_cmp_ps_mask(before, before, _CMP_ORD_Q);
    __mmask16 wins = _mm512_mask_cmp_ps_mask(numbers, (__m512)x, before, _CMP_NLE_UQ);
    *best = (gp_wide)_mm512_mask_mov_ps(before, wins, (__m512)x);
    *place = (gp_wide_ints)_mm512_mask_mov_epi32((__m512i)*place, wins, _mm512_set1_epi32(k));
#else
    gp_wide_ints wins = ~(x <= *best) & (*best == *best); // NOLINT(misc-redundant-expression): not NaN
    *best = (gp_wide)gp_choose((gp_ints)wins, (gp_floats)x, (gp_floats)*best);
    *place = (wins & k) | (~wins & *place);
#endif
}

/* Large windows walk through many rows at once, which the hardware does not see. */
enum { LINE = 16, AHEAD = 512 }; /* floats */

static inline void fetch_window(const window *its, int64_t rows, int64_t channel) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < 2; c++) gp_fetch(its->x + r * its->row_step + c * its->step + channel + AHEAD);
}

static inline void max_lanes(const window *its, int64_t rows, int64_t columns, int64_t channel, int64_t lanes) {
    const float *x = its->x + channel;
    if (columns > 2 && channel % LINE == 0) fetch_window(its, rows, channel);
    gp_wide best = gp_wide_load(x, lanes);
    gp_wide_ints place = (gp_wide_ints){0} + its->k;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r == 0; c < columns; c++)
            take_larger(&best, &place, gp_wide_load(x + r * its->row_step + c * its->step, lanes),
                        its->k + (int32_t)r * its->k_row + (int32_t)c);
    gp_wide_store(its->y + channel, best, lanes);
    if (its->bytes) store_bytes(its->bytes + channel, place, lanes);
    if (its->wide) gp_wide_store((float *)(void *)(its->wide + channel), (gp_wide)place, lanes);
}

/* The last vector ends with the last channel: it does some channels again. */
static inline void max_vectors(const window *its, int64_t rows, int64_t columns, int64_t channels) {
    if (channels < GP_WIDE) {
        for (int64_t channel = 0; channel < channels; channel += GP_LANES)
            max_lanes(its, rows, columns, channel < channels - GP_LANES ? channel : channels - GP_LANES, GP_LANES);
        return;
    }
    for (int64_t channel = 0; channel < channels; channel += GP_WIDE)
        max_lanes(its, rows, columns, channel < channels - GP_WIDE ? channel : channels - GP_WIDE, GP_WIDE);
}

static void max_channel(const window *its, int64_t channel) {
    float best = its->x[channel];
    int32_t place = its->k;
    for (int64_t r = 0; r < its->rows; r++) {
        for (int64_t c = 0; c < its->columns; c++) {
            float x = its->x[r * its->row_step + c * its->step + channel];
            bool wins = !(x <= best) && best == best;
            best = wins ? x : best;
            place = wins ? its->k + (int32_t)r * its->k_row + (int32_t)c : place;
        }
    }
    its->y[channel] = best;
    if (its->bytes) its->bytes[channel] = (uint8_t)place;
    if (its->wide) its->wide[channel] = place;
}

static void max_window(const window *its, int64_t channels) {
    if (channels < GP_LANES)
        for (int64_t channel = 0; channel < channels; channel++) max_channel(its, channel);
    else if (its->rows == 2 && its->columns == 2)
        max_vectors(its, 2, 2, channels);
    else if (its->rows == 3 && its->columns == 3)
        max_vectors(its, 3, 3, channels);
    else
        max_vectors(its, its->rows, its->columns, channels);
}

/* Items are rows of the output. No window lies in the padding alone: the op's check holds pads to half of the kernel.
 */
static void max_rows(void *context, int64_t begin, int64_t end) {
    const pool_loop *loop = context;
    const int64_t *stride = loop->pool.stride, *pad = loop->pool.pad;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / loop->out[0], oh = i % loop->out[0];
        int64_t h_first, h_last, w_first, w_last;
        kernel_range(loop, 0, oh, &h_first, &h_last);
        int64_t row = (n * loop->in[0] + oh * stride[0] - pad[0] + h_first) * loop->in[1];
        window its = {.rows = h_last - h_first,
                      .row_step = loop->in[1] * loop->from_pitch,
                      .step = loop->from_pitch,
                      .k_row = (int32_t)loop->pool.kernel[1]};
        for (int64_t ow = 0; ow < loop->out[1]; ow++) {
            kernel_range(loop, 1, ow, &w_first, &w_last);
            int64_t to = i * loop->out[1] + ow;
            its.columns = w_last - w_first;
            its.x = loop->from + (row + ow * stride[1] - pad[1] + w_first) * loop->from_pitch;
            its.k = (int32_t)(h_first * loop->pool.kernel[1] + w_first);
            its.y = loop->to + to * loop->to_pitch;
            if (loop->index && loop->wide) its.wide = (int32_t *)loop->index + to * loop->index_pitch;
            if (loop->index && !loop->wide) its.bytes = (uint8_t *)loop->index + to * loop->index_pitch;
            max_window(&its, loop->channels);
        }
    }
}

static void run_max_pool_forward(const gp_cpu_call *call) {
    run_outputs(call, max_rows);
}

const gp_cpu_loop GP_CPU_LOOP(max_pool_forward) = {.compute = run_max_pool_forward};

/* Gradients: windows whose maximum is place k hand on their gradient. It is read in any case: no branch. */

/* One window, seen from a place that it holds: the place is its place k. */
typedef struct share {
    const float *dy;
    const uint8_t *bytes; /* one of the two */
    const int32_t *wide;
    int32_t k;
} share;

static inline share share_of(const pool_loop *loop, int64_t at, int64_t k) {
    share its = {.dy = loop->from + at * loop->from_pitch, .k = (int32_t)k};
    if (loop->wide)
        its.wide = (const int32_t *)loop->index + at * loop->index_pitch;
    else
        its.bytes = (const uint8_t *)loop->index + at * loop->index_pitch;
    return its;
}

static inline gp_wide_ints places_of(const share *its, int64_t channel, int64_t lanes) {
    return load_places(its->bytes, its->wide, channel, lanes);
}

static inline float value_of(const share *its, int64_t channel) {
    return (its->wide ? its->wide[channel] : its->bytes[channel]) == its->k ? its->dy[channel] : 0;
}

enum { SHARES = 16 };

static inline void add_lanes(const share *shares, int64_t count, bool add, float *dx, int64_t channel, int64_t lanes) {
    gp_wide sum = add ? gp_wide_load(dx + channel, lanes) : (gp_wide){0};
    for (int64_t s = 0; s < count; s++)
        sum +=
            keep_place(places_of(&shares[s], channel, lanes), shares[s].k, gp_wide_load(shares[s].dy + channel, lanes));
    gp_wide_store(dx + channel, sum, lanes);
}

/* Adds the shares to dx in their order, or puts their sum there. Lanes that were done are not added twice. */
static void add_shares(const share *shares, int64_t count, bool add, float *dx, int64_t channels) {
    int64_t channel = 0;
    for (; channel + GP_WIDE <= channels; channel += GP_WIDE) add_lanes(shares, count, add, dx, channel, GP_WIDE);
    for (; channel + GP_LANES <= channels; channel += GP_LANES) add_lanes(shares, count, add, dx, channel, GP_LANES);
    for (; channel < channels; channel++) {
        float sum = add ? dx[channel] : 0;
        for (int64_t s = 0; s < count; s++) sum += value_of(&shares[s], channel);
        dx[channel] = sum;
    }
}

/* The windows that hold one place of the input: rows [h_first, h_last) and columns [w_first, w_last) of the output. */
typedef struct holders {
    int64_t h_first, h_last, w_first, w_last;
    int64_t row;  /* of the output: the first of the sample */
    int64_t h, w; /* the place, counted from the padding's edge */
} holders;

/* A place gathers from the windows that hold it, last to first: in rising order of the place that it has in them, as
 * every device kind adds. */
static void gather_place(const pool_loop *loop, const holders *its, float *dx) {
    share shares[SHARES];
    int64_t count = 0;
    bool add = false;
    for (int64_t oh = its->h_last - 1; oh >= its->h_first; oh--) {
        int64_t row = (its->h - oh * loop->pool.stride[0]) * loop->pool.kernel[1] + its->w;
        for (int64_t ow = its->w_last - 1; ow >= its->w_first; ow--) {
            if (count == SHARES) {
                add_shares(shares, count, add, dx, loop->channels);
                count = 0;
                add = true;
            }
            shares[count++] = share_of(loop, (its->row + oh) * loop->out[1] + ow, row - ow * loop->pool.stride[1]);
        }
    }
    add_shares(shares, count, add, dx, loop->channels);
}

/* Items are rows of the input. */
static void gather_rows(void *context, int64_t begin, int64_t end) {
    const pool_loop *loop = context;
    int64_t stride = loop->pool.stride[1], kernel = loop->pool.kernel[1];
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / loop->in[0], h = i % loop->in[0];
        holders its = {.row = n * loop->out[0], .h = h + loop->pool.pad[0]};
        output_range(loop, 0, h, &its.h_first, &its.h_last);
        for (int64_t w = 0; w < loop->in[1]; w++) {
            its.w = w + loop->pool.pad[1];
            while (its.w_last < loop->out[1] && its.w_last * stride <= its.w) its.w_last++;
            while (its.w_first < its.w_last && its.w_first * stride + kernel <= its.w) its.w_first++;
            gather_place(loop, &its, loop->to + (i * loop->in[1] + w) * loop->to_pitch);
        }
    }
}

/* Windows that lie side by side: each place is in one window at most, and each window is read once for each of its
 * rows. Zero is added so that no −0 is left, as in a sum. */

static inline void hand_out_lanes(const share *its, int64_t columns, float *dx, int64_t pitch, int64_t channel,
                                  int64_t lanes) {
    gp_wide_ints places = places_of(its, channel, lanes);
    gp_wide value = gp_wide_load(its->dy + channel, lanes) + (gp_wide){0};
    for (int64_t c = 0; c < columns; c++)
        gp_wide_store(dx + c * pitch + channel, keep_place(places, its->k + (int32_t)c, value), lanes);
}

/* The last vector ends with the last channel: it does some channels again. */
static inline void hand_out(const share *its, int64_t columns, float *dx, int64_t pitch, int64_t channels) {
    if (channels < GP_LANES) {
        for (int64_t c = 0; c < columns; c++) {
            share place = *its;
            place.k += (int32_t)c;
            for (int64_t channel = 0; channel < channels; channel++)
                dx[c * pitch + channel] = value_of(&place, channel) + 0.0F;
        }
        return;
    }
    if (channels < GP_WIDE) {
        for (int64_t channel = 0; channel < channels; channel += GP_LANES)
            hand_out_lanes(its, columns, dx, pitch, channel < channels - GP_LANES ? channel : channels - GP_LANES,
                           GP_LANES);
        return;
    }
    for (int64_t channel = 0; channel < channels; channel += GP_WIDE)
        hand_out_lanes(its, columns, dx, pitch, channel < channels - GP_WIDE ? channel : channels - GP_WIDE, GP_WIDE);
}

/* Items are rows of the input. */
static void hand_out_rows(void *context, int64_t begin, int64_t end) {
    const pool_loop *loop = context;
    int64_t kernel = loop->pool.kernel[1];
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / loop->in[0], h = i % loop->in[0], oh = h / loop->pool.kernel[0];
        int64_t place = i * loop->in[1], last = place + loop->in[1];
        int32_t k = (int32_t)(h % loop->pool.kernel[0] * kernel);
        for (int64_t ow = 0; ow < loop->out[1] && oh < loop->out[0]; ow++, place += kernel) {
            int64_t at = (n * loop->out[0] + oh) * loop->out[1] + ow;
            int64_t columns = last - place < kernel ? last - place : kernel;
            share its = share_of(loop, at, k);
            float *dx = loop->to + place * loop->to_pitch;
            if (columns == 2)
                hand_out(&its, 2, dx, loop->to_pitch, loop->channels);
            else
                hand_out(&its, columns, dx, loop->to_pitch, loop->channels);
        }
        clear_places(loop, place, last);
    }
}

static void run_max_pool_backward(const gp_cpu_call *call) {
    run_inputs(call, side_by_side(&call->prepared->desc.attributes.pool) ? hand_out_rows : gather_rows);
}

const gp_cpu_loop GP_CPU_LOOP(max_pool_backward) = {.compute = run_max_pool_backward};
