/* The op dropout. */
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/mask_bits.h"
#include "device/cpu/loops/sample.h"
#include "device/cpu/loops/vector.h"

typedef struct dropout_loop {
    const gp_dropout_attributes *dropout;
    const gp_step_scalars *scalars;
    sample_view x, y;
    const float *from;
    float *to;
    int64_t first_sample;
    float scale;
} dropout_loop;

static gp_mask mask_of(const dropout_loop *loop, int64_t n) {
    return (gp_mask){loop->dropout, loop->scalars, loop->first_sample + n, gp_dropout_least(loop->dropout)};
}

/* Pictures: neighbours in PyTorch's order are neighbouring places of one channel, so 32 places of a channel are a word
 * of bits. Rows of the tile then look at one bit of the words of their channels. */
enum { TILE_PLACES = 256, TILE_CHANNELS = 64 };

typedef struct tile_bits {
    int32_t word[TILE_PLACES / 32][TILE_CHANNELS];
} tile_bits;

/* The channels of a small picture are one run of elements; those of a large one are a run each. */
static void draw_tile(const dropout_loop *loop, int64_t n, int64_t place, int64_t places, int64_t channel,
                      int64_t channels, tile_bits *out) {
    const gp_mask mask = mask_of(loop, n);
    uint32_t bits[GP_MASK_WORDS(TILE_PLACES * TILE_CHANNELS)];
    int64_t together = places == loop->x.places ? channels : 1;
    for (int64_t c = 0; c < channels; c += together) {
        int64_t first = (channel + c) * loop->x.places + place;
        gp_mask_run(&mask, first, together * places, bits);
        for (int64_t i = 0; i < together; i++)
            for (int64_t p = 0; p < places; p += 32)
                out->word[p / 32][c + i] = (int32_t)gp_mask_word(bits, first % 4 + i * places + p);
    }
}

static void keep_row(const float *from, float *to, const int32_t *word, int bit, int64_t channels, float scale) {
    int64_t c = 0;
    for (; c + GP_LANES <= channels; c += GP_LANES) {
        gp_ints keeps = gp_load_ints(word + c) << (31 - bit) >> 31;
        gp_store(to + c, gp_keep(keeps, gp_load(from + c) * gp_all(scale)));
    }
    for (; c < channels; c++) {
        float scaled = from[c] * scale;
        to[c] = (uint32_t)word[c] >> bit & 1 ? scaled : 0;
    }
}

static void dropout_tile(const dropout_loop *loop, int64_t n, int64_t place, int64_t channel) {
    const sample_view *x = &loop->x, *y = &loop->y;
    int64_t places = x->places - place < TILE_PLACES ? x->places - place : TILE_PLACES;
    int64_t channels = x->width - channel < TILE_CHANNELS ? x->width - channel : TILE_CHANNELS;
    const float *from = loop->from + (n * x->places + place) * x->pitch + channel;
    float *to = loop->to + (n * y->places + place) * y->pitch + channel;
    tile_bits bits;
    draw_tile(loop, n, place, places, channel, channels, &bits);
    for (int64_t p = 0; p < places; p++)
        keep_row(from + p * x->pitch, to + p * y->pitch, bits.word[p / 32], (int)(p % 32), channels, loop->scale);
}

static void dropout_tiles(void *context, int64_t begin, int64_t end) {
    const dropout_loop *loop = context;
    int64_t strips = (loop->x.places + TILE_PLACES - 1) / TILE_PLACES;
    for (int64_t i = begin; i < end; i++)
        for (int64_t channel = 0; channel < loop->x.width; channel += TILE_CHANNELS)
            dropout_tile(loop, i / strips, i % strips * TILE_PLACES, channel);
}

/* Everything else lies in PyTorch's order: runs of this many elements. */
enum { RUN = 4096 };

static void keep_run(const float *from, float *to, const uint32_t *bits, int64_t at, int64_t count, float scale) {
    gp_ints bit;
    for (int i = 0; i < GP_LANES; i++) bit[i] = 1 << i;
    int64_t i = 0;
    for (; i + GP_LANES <= count; i += GP_LANES) {
        gp_ints word = (int32_t)gp_mask_word(bits, at + i) - (gp_ints){0};
        gp_store(to + i, gp_keep((word & bit) != 0, gp_load(from + i) * gp_all(scale)));
    }
    for (; i < count; i++) {
        float scaled = from[i] * scale;
        to[i] = gp_mask_word(bits, at + i) & 1 ? scaled : 0;
    }
}

static void dropout_runs(void *context, int64_t begin, int64_t end) {
    const dropout_loop *loop = context;
    const sample_view *x = &loop->x, *y = &loop->y;
    int64_t elements = x->places * x->width, runs = (elements + RUN - 1) / RUN;
    uint32_t bits[GP_MASK_WORDS(RUN)];
    for (int64_t i = begin; i < end; i++) {
        const gp_mask mask = mask_of(loop, i / runs);
        int64_t first = i % runs * RUN, last = first + RUN < elements ? first + RUN : elements;
        gp_mask_run(&mask, first, last - first, bits);
        for (int64_t e = first; e < last;) {
            int64_t row = i / runs * x->places + e / x->width, column = e % x->width;
            int64_t count = x->width - column < last - e ? x->width - column : last - e;
            keep_run(loop->from + row * x->pitch + column, loop->to + row * y->pitch + column, bits, e - first, count,
                     loop->scale);
            e += count;
        }
    }
}

/* Whole channels: the mask of a tile of channels is drawn once for many places. */
enum { DROPOUT_CHANNELS = 64, DROPOUT_ROWS = 256 };

/* to = from·factor, or 0 where the factor is; both may be the same. */
static void scale_rows(const float *from, int64_t from_pitch, float *to, int64_t to_pitch, const float *factor,
                       int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++, from += from_pitch, to += to_pitch) {
        int64_t c = 0;
        for (; c + GP_LANES <= columns; c += GP_LANES) {
            gp_floats its = gp_load(factor + c);
            gp_store(to + c, gp_keep(its > (gp_floats){0}, gp_load(from + c) * its));
        }
        for (; c < columns; c++) {
            float scaled = from[c] * factor[c];
            to[c] = factor[c] > 0 ? scaled : 0;
        }
    }
}

static void draw_factors(const dropout_loop *loop, int64_t n, int64_t channel, int64_t channels, float *factor) {
    for (int64_t c = 0; c < channels; c += 4) {
        gp_philox draw = gp_dropout_draw(loop->dropout, loop->scalars, loop->first_sample + n, (channel + c) / 4);
        for (int64_t lane = 0; lane < 4 && c + lane < channels; lane++)
            factor[c + lane] = gp_dropout_keeps(loop->dropout, draw.word[lane]) ? loop->scale : 0;
    }
}

/* Where rows follow one another and are narrow, several are one row of a tile. */
static void dropout_channel_tile(const dropout_loop *loop, int64_t n, int64_t place, int64_t channel) {
    const sample_view *x = &loop->x, *y = &loop->y;
    float factor[DROPOUT_CHANNELS];
    int64_t rows = x->places - place < DROPOUT_ROWS ? x->places - place : DROPOUT_ROWS;
    int64_t channels = x->width - channel < DROPOUT_CHANNELS ? x->width - channel : DROPOUT_CHANNELS;
    const float *from = loop->from + (n * x->places + place) * x->pitch + channel;
    float *to = loop->to + (n * y->places + place) * y->pitch + channel;
    draw_factors(loop, n, channel, channels, factor);
    int64_t together = x->pitch == channels && y->pitch == channels ? DROPOUT_CHANNELS / channels : 1;
    for (int64_t c = channels; c < together * channels; c++) factor[c] = factor[c - channels];
    int64_t whole = rows / together;
    scale_rows(from, together * x->pitch, to, together * y->pitch, factor, whole, together * channels);
    scale_rows(from + whole * together * x->pitch, x->pitch, to + whole * together * y->pitch, y->pitch, factor,
               rows - whole * together, channels);
}

static void dropout_channel_strips(void *context, int64_t begin, int64_t end) {
    const dropout_loop *loop = context;
    int64_t strips = (loop->x.places + DROPOUT_ROWS - 1) / DROPOUT_ROWS;
    for (int64_t i = begin; i < end; i++)
        for (int64_t channel = 0; channel < loop->x.width; channel += DROPOUT_CHANNELS)
            dropout_channel_tile(loop, i / strips, i % strips * DROPOUT_ROWS, channel);
}

static void run_dropout(const gp_cpu_call *call) {
    const gp_op_desc *desc = &call->prepared->desc;
    dropout_loop loop = {.dropout = &desc->attributes.dropout,
                         .scalars = call->operand[GP_DROPOUT_SCALARS],
                         .x = sample_of(&desc->operand[GP_DROPOUT_X]),
                         .y = sample_of(&desc->operand[GP_DROPOUT_Y]),
                         .from = call->operand[GP_DROPOUT_X],
                         .to = call->operand[GP_DROPOUT_Y],
                         .first_sample = call->args->first_sample,
                         .scale = (float)gp_dropout_scale(&desc->attributes.dropout)};
    if (desc->attributes.dropout.channels) {
        int64_t strips = (loop.x.places + DROPOUT_ROWS - 1) / DROPOUT_ROWS;
        gp_cpu_pool_for(call->pool, desc->operand[GP_DROPOUT_X].dim[0] * strips,
                        gp_cpu_grain(DROPOUT_ROWS * loop.x.width), dropout_channel_strips, &loop);
        return;
    }
    int64_t samples = desc->operand[GP_DROPOUT_X].dim[0], size = loop.x.places * loop.x.width;
    bool dense = loop.x.pitch == loop.x.width && loop.y.pitch == loop.y.width;
    if (dense && !loop.x.channels_last) loop.x = loop.y = (sample_view){1, size, size, false};
    /* A draw costs some times what it costs to copy its elements. */
    if (loop.x.channels_last)
        gp_cpu_pool_for(call->pool, samples * ((loop.x.places + TILE_PLACES - 1) / TILE_PLACES),
                        gp_cpu_grain(4 * loop.x.width * (loop.x.places < TILE_PLACES ? loop.x.places : TILE_PLACES)),
                        dropout_tiles, &loop);
    else
        gp_cpu_pool_for(call->pool, samples * ((size + RUN - 1) / RUN), gp_cpu_grain(4 * (size < RUN ? size : RUN)),
                        dropout_runs, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(dropout) = {.compute = run_dropout};
