/* How the result of a product of matrices is shared out among threads: cpu_conv_choice.c decides, cpu_product.c carries
 * it out. Internal to device/cpu. A value without pointers, and a pure function: any thread. */
#ifndef GP_DEVICE_CPU_CPU_DIVISION_H
#define GP_DEVICE_CPU_CPU_DIVISION_H

#include <stdbool.h>
#include <stdint.h>

/* By rows, else by columns, in units of so many. */
typedef struct gp_division {
    bool by_rows;
    int64_t unit;
    int parts; /* threads that have work */
} gp_division;

/* GP_PRODUCT_UNIT: a line of the cache, of rows or columns. GP_PRODUCT_BLOCK: columns, a multiple of the blocks of all
 * of oneDNN's kernels, so that the division changes no bit. */
enum { GP_PRODUCT_UNIT = 16, GP_PRODUCT_BLOCK = 48 };

/* Of results that have `side` rows (or columns), or more. */
static inline gp_division gp_product_divide(bool by_rows, int64_t unit, int64_t side, int threads) {
    int64_t units = (side + unit - 1) / unit;
    return (gp_division){by_rows, unit, units < threads ? (int)units : threads};
}

#endif
