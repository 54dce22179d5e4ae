/* How the samples of a micro-batch are shared out among the replicas of a stage, in contiguous shares. Pure functions;
 * any thread. */
#ifndef GP_BASE_SHARE_H
#define GP_BASE_SHARE_H

#include <stdint.h>

/* Samples of a micro-batch, from `first` on. */
typedef struct gp_share {
    int64_t first, count;
} gp_share;

/* Each replica has the next ⌈n/r⌉ samples. The last replicas may have fewer, or none: of 8 samples and 5 replicas, four
 * have 2 each. */
static inline gp_share gp_share_of(int64_t samples, int replicas, int replica) {
    int64_t each = (samples + replicas - 1) / replicas;
    int64_t first = each * replica < samples ? each * replica : samples;
    return (gp_share){first, samples - first < each ? samples - first : each};
}

/* How many replicas have a share that is not empty: the first ones. */
static inline int gp_share_takers(int64_t samples, int replicas) {
    int64_t each = (samples + replicas - 1) / replicas;
    return each > 0 ? (int)((samples + each - 1) / each) : 0;
}

/* What two shares of one micro-batch have in common; count 0: nothing. */
static inline gp_share gp_share_common(gp_share a, gp_share b) {
    int64_t first = a.first > b.first ? a.first : b.first;
    int64_t a_end = a.first + a.count, b_end = b.first + b.count, end = a_end < b_end ? a_end : b_end;
    return (gp_share){first, end > first ? end - first : 0};
}

#endif
