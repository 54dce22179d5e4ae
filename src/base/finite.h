/* Values that are not finite: how many there are, and what the first one is.
 *
 * Pure functions that own nothing, any thread. */
#ifndef GP_BASE_FINITE_H
#define GP_BASE_FINITE_H

#include <stdint.h>

#include "base/shape.h"

typedef enum gp_finite { GP_FINITE, GP_NAN, GP_POSITIVE_INFINITE, GP_NEGATIVE_INFINITE } gp_finite;

/* What `count` values have that is not finite. */
typedef struct gp_nonfinite {
    int64_t count;   /* 0: all values are finite */
    int64_t at;      /* index of the first one; 0 if there is none */
    gp_finite first; /* what it is */
} gp_nonfinite;

/* `dtype`: GP_F32 or GP_F64. */
gp_nonfinite gp_nonfinite_find(gp_dtype dtype, const void *values, int64_t count);

/* "finite", "nan", "inf", "-inf". */
const char *gp_finite_name(gp_finite finite);
/* "3 of 32 elements, the first is nan" into buffer, which is returned. */
enum { GP_NONFINITE_TEXT = 96 };
const char *gp_nonfinite_text(char buffer[GP_NONFINITE_TEXT], gp_nonfinite found, int64_t elements);
/* The same of one value. */
gp_finite gp_finite_of(double value);

#endif
