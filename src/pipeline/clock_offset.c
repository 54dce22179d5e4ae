#include "pipeline/clock_offset.h"

gp_clock_range gp_clock_range_open(void) {
    return (gp_clock_range){INT64_MIN, INT64_MAX};
}

/* Clocks drift: a range that would be empty stays as it was. */
void gp_clock_range_narrow(gp_clock_range *range, uint64_t began, uint64_t theirs, uint64_t ended) {
    int64_t least = (int64_t)(theirs - ended), most = (int64_t)(theirs - began);
    if (least < range->least) least = range->least;
    if (most > range->most) most = range->most;
    if (least <= most) *range = (gp_clock_range){least, most};
}

int64_t gp_clock_range_offset(const gp_clock_range *range) {
    if (range->least <= 0 && range->most >= 0) return 0;
    return range->least + (range->most - range->least) / 2;
}
