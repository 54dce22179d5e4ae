#include "profile/median.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

gp_median gp_median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
    double middle = (values[(count - 1) / 2] + values[count / 2]) / 2;
    return (gp_median){middle, values[count - 1 - count / 4] - values[count / 4]};
}
