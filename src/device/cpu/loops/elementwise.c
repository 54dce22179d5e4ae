/* The ops relu, add, copy, fill, flatten and dropout. */
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/transpose.h"
#include "device/cpu/loops/vector.h"

#include <string.h>

#include "device/dropout_mask.h"

/* Written so that NaN stays and −0 becomes 0. */
static void relu_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    (void)context;
    float *y = at[GP_RELU_FORWARD_Y];
    const float *x = at[GP_RELU_FORWARD_X];
    GP_INDEPENDENT
    for (int64_t i = 0; i < count; i++) y[i] = x[i] <= 0 ? 0 : x[i];
}

const gp_cpu_loop GP_CPU_LOOP(relu_forward) = {.span = relu_span};

static void relu_backward_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    (void)context;
    float *dx = at[GP_RELU_BACKWARD_DX];
    const float *y = at[GP_RELU_BACKWARD_Y], *dy = at[GP_RELU_BACKWARD_DY];
    GP_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        float gradient = dy[i];
        dx[i] = y[i] > 0 ? gradient : 0;
    }
}

const gp_cpu_loop GP_CPU_LOOP(relu_backward) = {.span = relu_backward_span};

static void add_span(const void *context, float *const at[GP_SPAN_OPERANDS], int64_t count) {
    (void)context;
    float *y = at[GP_ADD_Y];
    const float *a = at[GP_ADD_A], *b = at[GP_ADD_B];
    GP_INDEPENDENT
    for (int64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

const gp_cpu_loop GP_CPU_LOOP(add) = {.span = add_span};

/* Copy and fill move bytes: any dtype. */

typedef struct byte_loop {
    char *y;
    const char *x;                 /* NULL: zeroes */
    int64_t y_pitch, x_pitch, row; /* bytes */
} byte_loop;

static void move_rows(void *context, int64_t begin, int64_t end) {
    const byte_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        char *y = loop->y + i * loop->y_pitch;
        if (loop->x)
            gp_copy_row(y, loop->x + i * loop->x_pitch, loop->row);
        else
            memset(y, 0, (size_t)loop->row);
    }
}

/* Dense operands are one row, which is cut into pieces of this many bytes. */
enum { PIECE = 65536 };

static void move_pieces(void *context, int64_t begin, int64_t end) {
    const byte_loop *loop = context;
    int64_t from = begin * PIECE;
    int64_t to = end * PIECE < loop->row ? end * PIECE : loop->row;
    if (loop->x)
        memcpy(loop->y + from, loop->x + from, (size_t)(to - from));
    else
        memset(loop->y + from, 0, (size_t)(to - from));
}

static void move_bytes(const gp_cpu_call *call, int to, int from) {
    int64_t size = (int64_t)gp_dtype_size(call->prepared->desc.operand[to].dtype);
    gp_rows y = gp_cpu_rows(call, to);
    gp_rows x = from >= 0 ? gp_cpu_rows(call, from) : y;
    byte_loop loop = {call->operand[to], from >= 0 ? call->operand[from] : NULL, y.pitch * size, x.pitch * size,
                      y.width * size};
    if (gp_rows_dense(y) && gp_rows_dense(x)) {
        loop.row *= y.count;
        gp_cpu_pool_for(call->pool, (loop.row + PIECE - 1) / PIECE, 1, move_pieces, &loop);
    } else {
        gp_cpu_pool_for(call->pool, y.count, gp_cpu_grain(y.width), move_rows, &loop);
    }
}

static void run_copy(const gp_cpu_call *call) {
    if (call->operand[GP_COPY_Y] == call->operand[GP_COPY_X]) return; /* in place */
    move_bytes(call, GP_COPY_Y, GP_COPY_X);
}

const gp_cpu_loop GP_CPU_LOOP(copy) = {.compute = run_copy};

static void run_fill(const gp_cpu_call *call) {
    move_bytes(call, GP_FILL_Y, -1);
}

const gp_cpu_loop GP_CPU_LOOP(fill) = {.compute = run_fill};

/* A sample as `places` rows of `width` elements, and where they stand in PyTorch's order: a picture's channels come
 * first there, everything else lies as it does here. */
typedef struct sample_view {
    int64_t places, width, pitch;
    bool channels_last;
} sample_view;

static sample_view sample_of(const gp_tensor *tensor) {
    gp_rows rows = gp_rows_of(tensor);
    return (sample_view){rows.count / tensor->dim[0], rows.width, rows.pitch, tensor->rank == 4};
}

/* Flatten and its reverse transpose [places, width] of each sample, in tiles so that both sides stay in the cache. */
enum { TILE_WIDTH = 16, FETCHED_PLACES = 1024 /* of strips that stay in the second cache */ };

typedef struct flatten_loop {
    sample_view picture;
    float *rows; /* the picture's side */
    float *flat;
    int64_t flat_pitch;
    bool back; /* from flat to rows */
} flatten_loop;

/* A block of the picture: GP_LANES places and as many channels. */
static inline void flatten_block(const flatten_loop *loop, float *rows, float *flat) {
    if (loop->back)
        gp_transpose_block(flat, loop->picture.places, rows, loop->picture.pitch);
    else
        gp_transpose_block(rows, loop->picture.pitch, flat, loop->picture.places);
}

/* The hardware does not see the order of either side: one has 64 bytes in each place, the other as many rows as there
 * are channels. Both are fetched a strip ahead, which halves the time and more beyond the second cache. */
static inline void fetch_next_strip(const flatten_loop *loop, const float *rows, const float *flat) {
    const float *next = flat + loop->picture.places * TILE_WIDTH;
    for (int64_t i = 0; i < GP_LANES; i++) gp_fetch(rows + i * loop->picture.pitch + TILE_WIDTH);
    for (int64_t i = 0; i < GP_LANES; i++) gp_fetch(next + i * TILE_WIDTH);
}

/* The last block ends with the last place or channel: it does some again. Channels of a place follow one another, so
 * that lines of the cache on the picture's side are done at once. */
static void flatten_strip(const flatten_loop *loop, float *rows, float *flat, int64_t channels) {
    int64_t places = loop->picture.places, pitch = loop->picture.pitch;
    if (places < GP_LANES || channels < GP_LANES) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t p = 0; p < places; p++) {
                float *row = rows + p * pitch + c, *line = flat + c * places + p;
                *(loop->back ? row : line) = *(loop->back ? line : row);
            }
        }
        return;
    }
    bool fetch = places <= FETCHED_PLACES && channels == TILE_WIDTH;
    for (int64_t p = 0; p < places; p += GP_LANES) {
        int64_t place = p < places - GP_LANES ? p : places - GP_LANES;
        if (fetch) fetch_next_strip(loop, rows + place * pitch, flat + place * TILE_WIDTH);
        for (int64_t c = 0; c < channels; c += GP_LANES) {
            int64_t channel = c < channels - GP_LANES ? c : channels - GP_LANES;
            flatten_block(loop, rows + place * pitch + channel, flat + channel * places + place);
        }
    }
}

static void copy_strip(const flatten_loop *loop, float *rows, float *flat, int64_t channels) {
    const sample_view *view = &loop->picture;
    for (int64_t p = 0; p < view->places; p++, rows += view->pitch, flat += view->width)
        memcpy(loop->back ? rows : flat, loop->back ? flat : rows, (size_t)channels * sizeof *rows);
}

static void flatten_samples(void *context, int64_t begin, int64_t end) {
    const flatten_loop *loop = context;
    const sample_view *view = &loop->picture;
    int64_t strips = (view->width + TILE_WIDTH - 1) / TILE_WIDTH;
    for (int64_t i = begin; i < end; i++) {
        int64_t channel = i % strips * TILE_WIDTH;
        int64_t channels = view->width - channel < TILE_WIDTH ? view->width - channel : TILE_WIDTH;
        float *rows = loop->rows + i / strips * view->places * view->pitch + channel;
        float *flat = loop->flat + i / strips * loop->flat_pitch;
        if (view->channels_last)
            flatten_strip(loop, rows, flat + channel * view->places, channels);
        else
            copy_strip(loop, rows, flat + channel, channels);
    }
}

static void flatten_any(const gp_cpu_call *call, int picture, int flat) {
    const gp_tensor *tensor = &call->prepared->desc.operand[picture];
    flatten_loop loop = {sample_of(tensor), call->operand[picture], call->operand[flat], gp_cpu_rows(call, flat).pitch,
                         flat == GP_FLATTEN_X};
    int64_t strips = (loop.picture.width + TILE_WIDTH - 1) / TILE_WIDTH;
    gp_cpu_pool_for(call->pool, tensor->dim[0] * strips, gp_cpu_grain(loop.picture.places * TILE_WIDTH),
                    flatten_samples, &loop);
}

static void run_flatten(const gp_cpu_call *call) {
    flatten_any(call, GP_FLATTEN_X, GP_FLATTEN_Y);
}

const gp_cpu_loop GP_CPU_LOOP(flatten) = {.compute = run_flatten};

static void run_unflatten(const gp_cpu_call *call) {
    flatten_any(call, GP_FLATTEN_Y, GP_FLATTEN_X);
}

const gp_cpu_loop GP_CPU_LOOP(unflatten) = {.compute = run_unflatten};

typedef struct dropout_loop {
    const gp_dropout_attributes *dropout;
    const gp_step_scalars *scalars;
    sample_view x, y;
    const float *from;
    float *to;
    int64_t first_sample;
    float scale;
} dropout_loop;

/* Places that are done together: neighbours in PyTorch's order are neighbouring places of one channel of a picture, and
 * share a draw. */
enum { DROPOUT_PLACES = 16 };

static void dropout_strip(const dropout_loop *loop, int64_t n, int64_t place, int64_t last_place) {
    const sample_view *x = &loop->x, *y = &loop->y;
    const float *from = loop->from + n * x->places * x->pitch;
    float *to = loop->to + n * y->places * y->pitch;
    gp_philox draw = {{0}};
    int64_t group = -1;
    int64_t channels = x->channels_last ? x->width : 1;
    for (int64_t outer = 0; outer < channels; outer++) {
        int64_t first = x->channels_last ? place : place * x->width;
        int64_t last = x->channels_last ? last_place : last_place * x->width;
        for (int64_t inner = first; inner < last; inner++) {
            int64_t p = x->channels_last ? inner : inner / x->width;
            int64_t c = x->channels_last ? outer : inner % x->width;
            int64_t element = outer * x->places + inner;
            if (element / 4 != group) {
                group = element / 4;
                draw = gp_dropout_draw(loop->dropout, loop->scalars, loop->first_sample + n, group);
            }
            bool keeps = gp_dropout_keeps(loop->dropout, draw.word[element % 4]);
            to[p * y->pitch + c] = keeps ? from[p * x->pitch + c] * loop->scale : 0;
        }
    }
}

static void dropout_strips(void *context, int64_t begin, int64_t end) {
    const dropout_loop *loop = context;
    int64_t strips = (loop->x.places + DROPOUT_PLACES - 1) / DROPOUT_PLACES;
    for (int64_t i = begin; i < end; i++) {
        int64_t place = i % strips * DROPOUT_PLACES;
        int64_t last = place + DROPOUT_PLACES < loop->x.places ? place + DROPOUT_PLACES : loop->x.places;
        dropout_strip(loop, i / strips, place, last);
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
    int64_t strips = (loop.x.places + DROPOUT_PLACES - 1) / DROPOUT_PLACES;
    /* An element costs some ten times what it costs to copy it. */
    int64_t grain = gp_cpu_grain(10 * loop.x.width * DROPOUT_PLACES);
    gp_cpu_pool_for(call->pool, desc->operand[GP_DROPOUT_X].dim[0] * strips, grain, dropout_strips, &loop);
}

const gp_cpu_loop GP_CPU_LOOP(dropout) = {.compute = run_dropout};
