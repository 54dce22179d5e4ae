/* Sums in f64. A sum has GP_SUM_LANES parts in every version: element i of a run belongs to part i modulo that. Pure
 * functions; any thread. */
#ifndef GP_DEVICE_CPU_LOOPS_DOUBLE_SUM_H
#define GP_DEVICE_CPU_LOOPS_DOUBLE_SUM_H

#include "device/cpu/loops/span.h"
#include "device/cpu/loops/wide.h"

enum { GP_F64_LANES = (int)GP_WIDE / 2, GP_F64_VECTORS = (int)GP_SUM_LANES / (int)GP_F64_LANES };

typedef struct gp_double_sum {
    gp_wide_doubles part[GP_F64_VECTORS];
} gp_double_sum;

/* 0 if the value is not above 0. */
static inline gp_wide_doubles gp_wide_doubles_positive(gp_wide_doubles value) {
    typedef int64_t longs __attribute__((vector_size(GP_F64_LANES * 8)));
    return (gp_wide_doubles)((longs)value & (longs)(value > (gp_wide_doubles){0}));
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
