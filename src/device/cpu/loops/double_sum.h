/* Sums in f64. A sum has GP_SUM_LANES parts in every version: element i of a run belongs to part i modulo that. Pure
 * functions; any thread. */
#ifndef GP_DEVICE_CPU_LOOPS_DOUBLE_SUM_H
#define GP_DEVICE_CPU_LOOPS_DOUBLE_SUM_H

#include "device/cpu/loops/span.h"

/* As wide as the registers: what adds in f64 is bound by instructions, not by memory. */
#if defined(__AVX512F__)
enum { GP_F64_LANES = 8 };
#else
enum { GP_F64_LANES = (int)GP_LANES / 2 };
#endif
enum { GP_F64_VECTORS = (int)GP_SUM_LANES / (int)GP_F64_LANES };
typedef double gp_f64s __attribute__((vector_size(GP_F64_LANES * 8)));

typedef struct gp_double_sum {
    gp_f64s part[GP_F64_VECTORS];
} gp_double_sum;

static inline gp_f64s gp_f64s_all(double value) {
    return value - (gp_f64s){0};
}

static inline gp_f64s gp_f64s_load(const float *from) {
#if defined(__AVX512F__)
    return (gp_f64s)_mm512_cvtps_pd(_mm256_loadu_ps(from));
#else
    return gp_widen(from);
#endif
}

/* 0 if the value is not above 0. */
static inline gp_f64s gp_f64s_positive(gp_f64s value) {
    typedef int64_t longs __attribute__((vector_size(GP_F64_LANES * 8)));
    return (gp_f64s)((longs)value & (longs)(value > (gp_f64s){0}));
}

/* `rest`: the `count` last elements, fewer than GP_SUM_LANES; NULL: none. */
static inline double gp_double_total(const gp_double_sum *sum, const double *rest, int64_t count) {
    double each[GP_SUM_LANES], total[4] = {0};
    memcpy(each, sum->part, sizeof each);
    for (int64_t l = 0; l < count; l++) each[l] += rest[l];
    for (int64_t l = 0; l < GP_SUM_LANES; l++) total[l % 4] += each[l];
    return (total[0] + total[1]) + (total[2] + total[3]);
}

#endif
