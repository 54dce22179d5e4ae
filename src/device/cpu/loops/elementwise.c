/* The ops relu, add, copy, fill and flatten. */
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/sample.h"
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
enum { TILE_WIDTH = 16, TILE_PLACES = 64 };

typedef struct flatten_loop {
    sample_view picture;
    float *rows; /* the picture's side */
    float *flat;
    int64_t flat_pitch;
    bool back; /* from flat to rows */
} flatten_loop;

static void flatten_tile(const flatten_loop *loop, float *rows, float *flat, int64_t place, int64_t channel) {
    const sample_view *view = &loop->picture;
    int64_t last_place = place + TILE_PLACES < view->places ? place + TILE_PLACES : view->places;
    int64_t last_channel = channel + TILE_WIDTH < view->width ? channel + TILE_WIDTH : view->width;
    for (int64_t c = channel; c < last_channel; c++) {
        float *line = flat + (view->channels_last ? c * view->places : c);
        int64_t step = view->channels_last ? 1 : view->width;
        for (int64_t p = place; p < last_place; p++) {
            if (loop->back)
                rows[p * view->pitch + c] = line[p * step];
            else
                line[p * step] = rows[p * view->pitch + c];
        }
    }
}

static void flatten_samples(void *context, int64_t begin, int64_t end) {
    const flatten_loop *loop = context;
    const sample_view *view = &loop->picture;
    int64_t strips = (view->width + TILE_WIDTH - 1) / TILE_WIDTH;
    for (int64_t i = begin; i < end; i++) {
        float *rows = loop->rows + i / strips * view->places * view->pitch;
        float *flat = loop->flat + i / strips * loop->flat_pitch;
        for (int64_t p = 0; p < view->places; p += TILE_PLACES)
            flatten_tile(loop, rows, flat, p, i % strips * TILE_WIDTH);
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
