#include "base/finite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

gp_finite gp_finite_of(double value) {
    if (isfinite(value)) return GP_FINITE;
    return isnan(value) ? GP_NAN : value > 0 ? GP_POSITIVE_INFINITE : GP_NEGATIVE_INFINITE;
}

static double value_at(gp_dtype dtype, const void *values, int64_t i) {
    return dtype == GP_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* No early end: compilers make vectors of these loops, and values are almost always finite. */
static int64_t count_nonfinite(gp_dtype dtype, const void *values, int64_t count) {
    const double *wide = values;
    const float *narrow = values;
    int64_t found = 0;
    if (dtype == GP_F64)
        for (int64_t i = 0; i < count; i++) found += !isfinite(wide[i]);
    else
        for (int64_t i = 0; i < count; i++) found += !isfinite(narrow[i]);
    return found;
}

gp_nonfinite gp_nonfinite_find(gp_dtype dtype, const void *values, int64_t count) {
    gp_nonfinite found = {.count = count_nonfinite(dtype, values, count)};
    while (found.count > 0 && found.first == GP_FINITE) found.first = gp_finite_of(value_at(dtype, values, found.at++));
    if (found.count > 0) found.at--;
    return found;
}

const char *gp_finite_name(gp_finite finite) {
    static const char *const names[] = {"finite", "nan", "inf", "-inf"};
    return names[finite];
}

const char *gp_nonfinite_text(char buffer[GP_NONFINITE_TEXT], gp_nonfinite found, int64_t elements) {
    snprintf(buffer, GP_NONFINITE_TEXT, "%" PRId64 " of %" PRId64 " element%s, the first is %s", found.count, elements,
             elements == 1 ? "" : "s", gp_finite_name(found.first));
    return buffer;
}
