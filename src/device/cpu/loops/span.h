/* Sums over runs of elements. A sum has GP_SUM_LANES parts in every version: element i belongs to part i modulo that.
 * Parts are f32 over at most GP_SPAN_BLOCK elements, and are then added in f64. Up to GP_SPANS runs of equal length are
 * done together, so that no addition waits for the one before it. Pure functions; any thread. */
#ifndef GP_DEVICE_CPU_LOOPS_SPAN_H
#define GP_DEVICE_CPU_LOOPS_SPAN_H

#include <stdbool.h>

#include "device/cpu/loops/wide.h"

enum {
    GP_SUM_LANES = 16,
    GP_SUM_VECTORS = (int)GP_SUM_LANES / (int)GP_WIDE,
    GP_SPAN_BLOCK = 128 * GP_SUM_LANES,
    GP_SPANS = (int)GP_WIDE / 4 /* as many sums as there are registers for */
};

typedef struct gp_lanes {
    gp_wide part[GP_SUM_VECTORS];
} gp_lanes;

/* Part l is added to sum l modulo 4. */
static inline double gp_sum_lanes(const gp_lanes *lanes) {
    enum { HALF = (int)GP_LANES / 2, VECTORS = 4 / HALF };
    float each[GP_SUM_LANES];
    double sum[4];
    gp_doubles sums[VECTORS] = {{0}};
    for (int64_t v = 0; v < GP_SUM_VECTORS; v++) gp_wide_store(each + v * GP_WIDE, lanes->part[v], GP_WIDE);
    for (int l = 0; l < GP_SUM_LANES; l += HALF) sums[l / HALF % VECTORS] += gp_widen(each + l);
    for (int64_t v = 0; v < VECTORS; v++) gp_store_doubles(sum + v * HALF, sums[v]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The last elements of a run, with others after them. */
static inline const float *gp_padded(const float *x, int64_t count, float room[GP_SUM_LANES], float fill) {
    for (int64_t i = 0; i < GP_SUM_LANES; i++) room[i] = i < count ? x[i] : fill;
    return room;
}

static inline void gp_add_lanes(gp_lanes *sum, const float *x) {
    for (int64_t v = 0; v < GP_SUM_VECTORS; v++) sum->part[v] += gp_wide_load(x + v * GP_WIDE, GP_WIDE);
}

/* Elements [first, first+count), one block, of each of `spans` runs. */
static inline void gp_add_span_sums(const float *const *x, int64_t spans, int64_t first, int64_t count, double *sum) {
    gp_lanes its[GP_SPANS] = {{{{0}}}};
    int64_t rest = count % GP_SUM_LANES, last = first + count - rest;
    for (int64_t i = first; i < last; i += GP_SUM_LANES)
        for (int64_t s = 0; s < spans; s++) gp_add_lanes(&its[s], x[s] + i);
    float room[GP_SUM_LANES];
    for (int64_t s = 0; s < spans && rest > 0; s++) gp_add_lanes(&its[s], gp_padded(x[s] + last, rest, room, 0));
    for (int64_t s = 0; s < spans; s++) sum[s] += gp_sum_lanes(&its[s]);
}

typedef struct gp_lane_pair {
    gp_lanes sum, product;
} gp_lane_pair;

static inline void gp_add_deviation(gp_lane_pair *to, const float *x, float center) {
    for (int64_t v = 0; v < GP_SUM_VECTORS; v++) {
        gp_wide difference = gp_wide_load(x + v * GP_WIDE, GP_WIDE) - gp_wide_all(center);
        to->sum.part[v] += difference;
        to->product.part[v] += difference * difference;
    }
}

/* Σ (x − center) and Σ (x − center)². */
static inline void gp_add_span_deviations(const float *const *x, int64_t spans, int64_t first, int64_t count,
                                          const float *center, double *sum, double *squares) {
    gp_lane_pair its[GP_SPANS] = {0};
    int64_t rest = count % GP_SUM_LANES, last = first + count - rest;
    for (int64_t i = first; i < last; i += GP_SUM_LANES)
        for (int64_t s = 0; s < spans; s++) gp_add_deviation(&its[s], x[s] + i, center[s]);
    float room[GP_SUM_LANES];
    for (int64_t s = 0; s < spans && rest > 0; s++)
        gp_add_deviation(&its[s], gp_padded(x[s] + last, rest, room, center[s]), center[s]);
    for (int64_t s = 0; s < spans; s++) sum[s] += gp_sum_lanes(&its[s].sum);
    for (int64_t s = 0; s < spans; s++) squares[s] += gp_sum_lanes(&its[s].product);
}

static inline int64_t gp_span_block(int64_t count, int64_t first) {
    return count - first < GP_SPAN_BLOCK ? count - first : GP_SPAN_BLOCK;
}

/* gcc 12 takes (double)(float)x for x in vectors of doubles, and would lose the rounding. It cannot see through this.
 */
static inline float gp_rounded(double x) {
    float rounded = (float)x;
    __asm__("" : "+m"(rounded));
    return rounded;
}

/* Of each run: the mean, and the sum of the squares of what is left: the mean first, and what rounding has left of it
 * with the squares. */
static inline void gp_span_statistics(const float *const *x, int64_t spans, int64_t count, double *mean,
                                      double *squares) {
    double sum[GP_SPANS] = {0}, rest[GP_SPANS] = {0};
    float center[GP_SPANS];
    for (int64_t i = 0; i < count; i += GP_SPAN_BLOCK) gp_add_span_sums(x, spans, i, gp_span_block(count, i), sum);
    for (int64_t s = 0; s < spans; s++) center[s] = gp_rounded(sum[s] / (double)count);
    for (int64_t s = 0; s < spans; s++) squares[s] = 0;
    for (int64_t i = 0; i < count; i += GP_SPAN_BLOCK)
        gp_add_span_deviations(x, spans, i, gp_span_block(count, i), center, rest, squares);
    for (int64_t s = 0; s < spans; s++) {
        double shift = rest[s] / (double)count;
        mean[s] = (double)center[s] + shift;
        squares[s] -= shift * rest[s];
    }
}

/* One run of a gradient. */
typedef struct gp_gradient_span {
    const float *x, *dy, *gamma; /* gamma: NULL: 1 */
    float mean;
} gp_gradient_span;

static inline void gp_add_gradient(gp_lane_pair *to, const float *x, const float *dy, const float *gamma, float mean) {
    for (int64_t v = 0; v < GP_SUM_VECTORS; v++) {
        gp_wide gradient = gp_wide_load(dy + v * GP_WIDE, GP_WIDE);
        if (gamma) gradient *= gp_wide_load(gamma + v * GP_WIDE, GP_WIDE);
        to->product.part[v] += gradient * (gp_wide_load(x + v * GP_WIDE, GP_WIDE) - gp_wide_all(mean));
        to->sum.part[v] += gradient;
    }
}

/* One block of gp_span_gradients. */
static inline void gp_add_span_gradients(const gp_gradient_span *span, int64_t spans, bool scaled, int64_t first,
                                         int64_t count, double *products, double *sums) {
    gp_lane_pair its[GP_SPANS] = {0};
    int64_t rest = count % GP_SUM_LANES, last = first + count - rest;
    for (int64_t i = first; i < last; i += GP_SUM_LANES)
        for (int64_t s = 0; s < spans; s++)
            gp_add_gradient(&its[s], span[s].x + i, span[s].dy + i, scaled ? span[s].gamma + i : NULL, span[s].mean);
    float room[3][GP_SUM_LANES];
    for (int64_t s = 0; s < spans && rest > 0; s++)
        gp_add_gradient(&its[s], gp_padded(span[s].x + last, rest, room[0], 0),
                        gp_padded(span[s].dy + last, rest, room[1], 0),
                        scaled ? gp_padded(span[s].gamma + last, rest, room[2], 0) : NULL, span[s].mean);
    for (int64_t s = 0; s < spans; s++) products[s] += gp_sum_lanes(&its[s].product);
    for (int64_t s = 0; s < spans; s++) sums[s] += gp_sum_lanes(&its[s].sum);
}

/* Of each run: Σ g·(x − mean) and Σ g, where g is dy·gamma, or dy where no run has gamma. */
static inline void gp_span_gradients(const gp_gradient_span *span, int64_t spans, int64_t count, double *products,
                                     double *sums) {
    for (int64_t s = 0; s < spans; s++) products[s] = sums[s] = 0;
    for (int64_t i = 0; i < count; i += GP_SPAN_BLOCK) {
        if (span[0].gamma)
            gp_add_span_gradients(span, spans, true, i, gp_span_block(count, i), products, sums);
        else
            gp_add_span_gradients(span, spans, false, i, gp_span_block(count, i), products, sums);
    }
}

#endif
