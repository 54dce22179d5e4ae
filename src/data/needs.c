#include "data/needs.h"

static gp_share next_range(const gp_needs *needs, int64_t samples, bool target, int64_t from) {
    if (from >= samples) return (gp_share){samples, 0};
    return needs->next ? needs->next(needs->context, samples, target, from) : (gp_share){from, samples - from};
}

bool gp_needs_any(const gp_needs *needs, int64_t samples, bool target) {
    return next_range(needs, samples, target, 0).count > 0;
}

/* The range that position `at` is in, or the next one; `range` is that of an earlier position. */
static gp_share range_from(const gp_needs *needs, int64_t samples, bool target, int64_t at, gp_share range) {
    bool behind = range.count > 0 && range.first + range.count <= at;
    return behind ? next_range(needs, samples, target, at) : range;
}

int gp_needs_list(const gp_needs *needs, int64_t samples, int64_t from, int most, gp_position *out, int64_t *end) {
    gp_share input = next_range(needs, samples, false, from), target = next_range(needs, samples, true, from);
    int count = 0;
    for (int64_t at = from;; at++) {
        input = range_from(needs, samples, false, at, input);
        target = range_from(needs, samples, true, at, target);
        *end = samples;
        if (input.count > 0) *end = input.first;
        if (target.count > 0 && target.first < *end) *end = target.first;
        if (*end < at) *end = at; /* within a range */
        if (*end == samples || count == most) return count;
        at = *end;
        out[count++] = (gp_position){at, input.count > 0 && input.first <= at, target.count > 0 && target.first <= at};
    }
}
