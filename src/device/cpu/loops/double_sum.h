/* Sums in f64. A sum has GP_SUM_LANES parts in every version: element i of a run belongs to part i modulo that. Pure
 * functions; any thread. */
#ifndef GP_DEVICE_CPU_LOOPS_DOUBLE_SUM_H
#define GP_DEVICE_CPU_LOOPS_DOUBLE_SUM_H

#include "device/cpu/loops/span.h"

enum { GP_HALF = (int)GP_LANES / 2, GP_DOUBLE_VECTORS = (int)GP_SUM_LANES / (int)GP_HALF };

typedef struct gp_double_sum {
    gp_doubles part[GP_DOUBLE_VECTORS];
} gp_double_sum;

static inline gp_doubles gp_all_doubles(double value) {
    return value - (gp_doubles){0};
}

/* 0 if the value is not above 0. */
static inline gp_doubles gp_positive(gp_doubles value) {
    typedef int64_t gp_longs __attribute__((vector_size(GP_LANES * 4)));
    return (gp_doubles)((gp_longs)value & (gp_longs)(value > (gp_doubles){0}));
}

/* `rest`: elements after the last whole GP_SUM_LANES, in their parts; NULL: none. */
static inline double gp_double_total(const gp_double_sum *sum, const double *rest, int64_t count) {
    double each[GP_SUM_LANES], total[4] = {0};
    for (int64_t v = 0; v < GP_DOUBLE_VECTORS; v++) gp_store_doubles(each + v * GP_HALF, sum->part[v]);
    for (int64_t l = 0; l < count; l++) each[l] += rest[l];
    for (int64_t l = 0; l < GP_SUM_LANES; l++) total[l % 4] += each[l];
    return (total[0] + total[1]) + (total[2] + total[3]);
}

#endif
