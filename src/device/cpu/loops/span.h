/* Sums over a run of elements. A sum has GP_SUM_LANES parts in every version: element i belongs to part i modulo that.
 * Parts are f32 over at most GP_SPAN_BLOCK elements, and are then added in f64. Pure functions; any
 * thread. */
#ifndef GP_DEVICE_CPU_LOOPS_SPAN_H
#define GP_DEVICE_CPU_LOOPS_SPAN_H

#include "device/cpu/loops/vector.h"

enum { GP_SUM_LANES = 16, GP_SUM_VECTORS = (int)GP_SUM_LANES / (int)GP_LANES, GP_SPAN_BLOCK = 128 * GP_SUM_LANES };

typedef struct gp_lanes {
    gp_floats part[GP_SUM_VECTORS];
} gp_lanes;

static inline double gp_sum_lanes(const gp_lanes *lanes) {
    float each[GP_SUM_LANES];
    for (int64_t v = 0; v < GP_SUM_VECTORS; v++) gp_store(each + v * GP_LANES, lanes->part[v]);
    double sum[4] = {0};
    for (int l = 0; l < GP_SUM_LANES; l++) sum[l % 4] += (double)each[l];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The last elements of a run, with zeroes after them. */
static inline const float *gp_padded(const float *x, int64_t count, float room[GP_SUM_LANES], float fill) {
    for (int64_t i = 0; i < GP_SUM_LANES; i++) room[i] = i < count ? x[i] : fill;
    return room;
}

static inline double gp_span_sum(const float *x, int64_t count) {
    gp_lanes sum = {{{0}}};
    float room[GP_SUM_LANES];
    for (int64_t i = 0; i < count; i += GP_SUM_LANES) {
        const float *at = count - i < GP_SUM_LANES ? gp_padded(x + i, count - i, room, 0) : x + i;
        for (int64_t v = 0; v < GP_SUM_VECTORS; v++) sum.part[v] += gp_load(at + v * GP_LANES);
    }
    return gp_sum_lanes(&sum);
}

/* Σ (x − center) and Σ (x − center)². */
static inline void gp_span_deviations(const float *x, int64_t count, float center, double *sum, double *squares) {
    gp_lanes sums = {{{0}}}, of_squares = {{{0}}};
    float room[GP_SUM_LANES];
    for (int64_t i = 0; i < count; i += GP_SUM_LANES) {
        const float *at = count - i < GP_SUM_LANES ? gp_padded(x + i, count - i, room, center) : x + i;
        for (int64_t v = 0; v < GP_SUM_VECTORS; v++) {
            gp_floats difference = gp_load(at + v * GP_LANES) - gp_all(center);
            sums.part[v] += difference;
            of_squares.part[v] += difference * difference;
        }
    }
    *sum += gp_sum_lanes(&sums);
    *squares += gp_sum_lanes(&of_squares);
}

/* The mean, and the sum of the squares of what is left: the mean first, and what rounding has left of it with the
 * squares. */
static inline void gp_span_statistics(const float *x, int64_t count, double *mean, double *squares) {
    double sum = 0, rest = 0, all = 0;
    for (int64_t i = 0; i < count; i += GP_SPAN_BLOCK)
        sum += gp_span_sum(x + i, count - i < GP_SPAN_BLOCK ? count - i : GP_SPAN_BLOCK);
    float center = (float)(sum / (double)count);
    for (int64_t i = 0; i < count; i += GP_SPAN_BLOCK)
        gp_span_deviations(x + i, count - i < GP_SPAN_BLOCK ? count - i : GP_SPAN_BLOCK, center, &rest, &all);
    double shift = rest / (double)count;
    *mean = (double)center + shift;
    *squares = all - shift * rest;
}

/* One block of gp_span_gradients. */
static inline void gp_add_span_gradients(const float *x, const float *dy, const float *gamma, float mean, int64_t count,
                                         double *products, double *sums) {
    gp_lanes product = {{{0}}}, sum = {{{0}}};
    float room[3][GP_SUM_LANES];
    for (int64_t i = 0; i < count; i += GP_SUM_LANES) {
        int64_t left = count - i;
        const float *x_at = left < GP_SUM_LANES ? gp_padded(x + i, left, room[0], 0) : x + i;
        const float *dy_at = left < GP_SUM_LANES ? gp_padded(dy + i, left, room[1], 0) : dy + i;
        const float *gamma_at = NULL;
        if (gamma) gamma_at = left < GP_SUM_LANES ? gp_padded(gamma + i, left, room[2], 0) : gamma + i;
        for (int64_t v = 0; v < GP_SUM_VECTORS; v++) {
            gp_floats gradient = gp_load(dy_at + v * GP_LANES);
            if (gamma) gradient *= gp_load(gamma_at + v * GP_LANES);
            product.part[v] += gradient * (gp_load(x_at + v * GP_LANES) - gp_all(mean));
            sum.part[v] += gradient;
        }
    }
    *products += gp_sum_lanes(&product);
    *sums += gp_sum_lanes(&sum);
}

/* Σ g·(x − mean) and Σ g, where g is dy·gamma, or dy if gamma is NULL. */
static inline void gp_span_gradients(const float *x, const float *dy, const float *gamma, float mean, int64_t count,
                                     double *products, double *sums) {
    *products = *sums = 0;
    for (int64_t i = 0; i < count; i += GP_SPAN_BLOCK)
        gp_add_span_gradients(x + i, dy + i, gamma ? gamma + i : NULL, mean,
                              count - i < GP_SPAN_BLOCK ? count - i : GP_SPAN_BLOCK, products, sums);
}

#endif
