/* Medians of measured times, and how far the times lie apart.
 *
 * Pure; any thread. */
#ifndef GP_PROFILE_MEDIAN_H
#define GP_PROFILE_MEDIAN_H

#include <stddef.h>

typedef struct gp_median {
    double median;
    double spread; /* distance of the quartiles */
} gp_median;

/* Sorts the values. count ≥ 1. */
gp_median gp_median_of(double *values, size_t count);

#endif
