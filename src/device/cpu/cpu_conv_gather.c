#include "device/cpu/cpu_conv_gather.h"

#include <string.h>

#include "device/cpu/cpu_call.h"

typedef struct walk {
    const gp_conv_shape *shape;
    const float *from;
    float *to;
    int64_t floats, pitch; /* of a row */
    int64_t rows;
} walk;

static size_t bytes_of(int64_t elements) {
    return (size_t)elements * sizeof(float);
}

/* The taps of one row of the kernel at one place: `line` is the row of the picture that they see. */
static void gather_taps(const gp_conv_shape *s, const float *line, int64_t place, float *to) {
    gp_taps taps = gp_conv_taps(s, 1, place);
    int64_t first = place * s->stride[1] - s->pad[1];
    memset(to, 0, bytes_of(taps.begin * s->in));
    if (s->dilation[1] == 1) {
        memcpy(to + taps.begin * s->in, line + (first + taps.begin) * s->in, bytes_of((taps.end - taps.begin) * s->in));
    } else {
        for (int64_t k = taps.begin; k < taps.end; k++)
            memcpy(to + k * s->in, line + (first + k * s->dilation[1]) * s->in, bytes_of(s->in));
    }
    memset(to + taps.end * s->in, 0, bytes_of((s->kernel[1] - taps.end) * s->in));
}

/* Lines of the output: (sample, row). */
static void gather_lines(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    const gp_conv_shape *s = w->shape;
    int64_t row = s->kernel[1] * s->in, pitch = w->pitch;
    for (int64_t line = begin; line < end; line++) {
        int64_t sample = line / s->outputs[0], y = line % s->outputs[0];
        gp_taps taps = gp_conv_taps(s, 0, y);
        for (int64_t k = 0; k < s->kernel[0]; k++) {
            int64_t from = y * s->stride[0] - s->pad[0] + k * s->dilation[0];
            float *to = w->to + line * s->outputs[1] * pitch + k * row;
            bool seen = k >= taps.begin && k < taps.end;
            for (int64_t x = 0; x < s->outputs[1]; x++, to += pitch) {
                if (seen)
                    gather_taps(s, w->from + (sample * s->size[0] + from) * s->size[1] * s->in, x, to);
                else
                    memset(to, 0, bytes_of(row));
            }
        }
    }
}

void gp_conv_gather(gp_cpu_pool *pool, const gp_conv_shape *shape, const float *x, float *rows, int64_t pitch) {
    walk w = {.shape = shape, .from = x, .to = rows, .pitch = pitch};
    gp_cpu_pool_for(pool, shape->n * shape->outputs[0], gp_cpu_grain(shape->outputs[1] * gp_conv_depth(shape)),
                    gather_lines, &w);
}

/* Whether tap k along side d is what sees `at` in the input, and from which place of the output. */
static bool sees(const gp_conv_shape *s, int d, int64_t at, int64_t k, int64_t *place) {
    int64_t reach = at + s->pad[d] - k * s->dilation[d];
    if (reach < 0 || reach % s->stride[d]) return false;
    *place = reach / s->stride[d];
    return *place < s->outputs[d];
}

static void add(const float *restrict from, float *restrict to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

static void scatter_place(const walk *w, int64_t sample, int64_t y, int64_t x) {
    const gp_conv_shape *s = w->shape;
    float *to = w->to + ((sample * s->size[0] + y) * s->size[1] + x) * s->in;
    bool begun = false;
    int64_t oy, ox;
    for (int64_t kh = 0; kh < s->kernel[0]; kh++) {
        if (!sees(s, 0, y, kh, &oy)) continue;
        for (int64_t kw = 0; kw < s->kernel[1]; kw++) {
            if (!sees(s, 1, x, kw, &ox)) continue;
            int64_t row = (sample * s->outputs[0] + oy) * s->outputs[1] + ox;
            const float *from = w->from + ((row * s->kernel[0] + kh) * s->kernel[1] + kw) * s->in;
            if (begun)
                add(from, to, s->in);
            else
                memcpy(to, from, bytes_of(s->in));
            begun = true;
        }
    }
    if (!begun) memset(to, 0, bytes_of(s->in));
}

/* Lines of the input: (sample, row). */
static void scatter_lines(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    const gp_conv_shape *s = w->shape;
    for (int64_t line = begin; line < end; line++)
        for (int64_t x = 0; x < s->size[1]; x++) scatter_place(w, line / s->size[0], line % s->size[0], x);
}

void gp_conv_scatter(gp_cpu_pool *pool, const gp_conv_shape *shape, const float *rows, float *dx) {
    walk w = {.shape = shape, .from = rows, .to = dx};
    gp_cpu_pool_for(pool, shape->n * shape->size[0], gp_cpu_grain(shape->size[1] * shape->in), scatter_lines, &w);
}

static void spread_rows(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    for (int64_t row = begin; row < end; row++)
        memcpy(w->to + row * w->pitch, w->from + row * w->floats, bytes_of(w->floats));
}

void gp_conv_spread(gp_cpu_pool *pool, const float *from, int64_t rows, int64_t floats, float *to, int64_t pitch) {
    walk w = {.from = from, .to = to, .floats = floats, .pitch = pitch};
    gp_cpu_pool_for(pool, rows, gp_cpu_grain(floats), spread_rows, &w);
}

static void zero_span(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    memset(w->to + begin, 0, bytes_of(end - begin));
}

void gp_conv_zero(gp_cpu_pool *pool, float *x, int64_t count) {
    walk w = {.to = x};
    gp_cpu_pool_for(pool, count, GP_CPU_GRAIN, zero_span, &w);
}

static void add_span(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    for (int64_t row = 0; row < w->rows; row++) add(w->from + row * w->pitch + begin, w->to + begin, end - begin);
}

void gp_conv_add(gp_cpu_pool *pool, float *x, int64_t count, const float *part, int64_t pitch, int parts) {
    walk w = {.from = part, .to = x, .pitch = pitch, .rows = parts};
    gp_cpu_pool_for(pool, count, GP_CPU_GRAIN, add_span, &w);
}
