/* The ops relu, add, copy, fill and flatten. */
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/sample.h"
#include "device/cpu/loops/transpose.h"
#include "device/cpu/loops/vector.h"

#include <string.h>

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
