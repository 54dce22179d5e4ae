/* Spans of what workers did, in time: recorded into memory while a run goes on, read when it is over.
 *
 * A recorder has lanes, one per thread that records. Only that thread calls gp_lane_add, and only while nobody calls
 * anything else: room is made between mini-batches, when the workers are idle, so that recording is three reads of the
 * clock and a store. The creator owns it.
 */
#ifndef GP_TRACE_RECORDER_H
#define GP_TRACE_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Nanoseconds of the monotonic clock. */
uint64_t gp_clock(void);

/* One thing that was done: an instruction, or what the lane's owner numbers otherwise. */
typedef struct gp_span {
    uint64_t issued;  /* gp_clock: when the thread came to it */
    uint64_t started; /* when all that it waited for was there */
    uint64_t ended;
    uint32_t step;
    int32_t group; /* which program */
    size_t index;  /* in it */
} gp_span;

typedef struct gp_lane {
    gp_span *spans;
    size_t count, capacity;
} gp_lane;

typedef struct gp_recorder {
    gp_lane *lanes;
    int lane_count;
} gp_recorder;

GP_MUST_USE gp_status gp_recorder_create(int lanes, gp_recorder **out, gp_error *err);
void gp_recorder_destroy(gp_recorder **recorder);
/* Room for `more` spans, so that as many calls of gp_lane_add follow. GP_MEMORY. */
GP_MUST_USE gp_status gp_lane_reserve(gp_lane *lane, size_t more, gp_error *err);

/* What a lane takes that had room made for so many spans; SIZE_MAX: no size. */
size_t gp_lane_bytes(size_t spans);

static inline void gp_lane_add(gp_lane *lane, gp_span span) {
    lane->spans[lane->count++] = span;
}

#endif
