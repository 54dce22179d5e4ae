/* Spans of what workers did, in time: recorded into memory while a run goes on, read when it is over.
 *
 * A recorder has lanes, one per thread that records. Only that thread calls gp_lane_add, and only while no thread calls
 * anything else: room is made between mini-batches, when the workers are idle, so that recording is three reads of the
 * clock and a store. Each lane may have ticks: times within its spans. The creator owns the recorder.
 */
#ifndef GP_TRACE_RECORDER_H
#define GP_TRACE_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

/* One thing that was done: an instruction, or what the lane's owner numbers otherwise. */
typedef struct gp_span {
    uint64_t issued;  /* gp_clock: when the thread came to it */
    uint64_t started; /* when all that it waited for was there */
    uint64_t ended;
    uint64_t
        early; /* a post that was carried out within a backward before: when that began; 0: it was not, or not known */
    uint32_t step;
    int32_t group; /* which program */
    size_t index;  /* in it */
} gp_span;

typedef struct gp_lane {
    gp_span *spans;
    size_t count, capacity;
} gp_lane;

/* Times at which parts of the lane's spans began and ended, in their order. What each time belongs to follows from the
 * program of the span. */
typedef struct gp_ticks {
    uint64_t *times; /* gp_clock */
    size_t count, capacity;
} gp_ticks;

typedef struct gp_recorder {
    gp_lane *lanes;
    gp_ticks *ticks; /* [lane]; NULL: only spans are recorded */
    int lane_count;
} gp_recorder;

GP_MUST_USE gp_status gp_recorder_create(int lanes, gp_recorder **out, gp_error *err);
/* From now on each lane has ticks. GP_MEMORY. */
GP_MUST_USE gp_status gp_recorder_add_ticks(gp_recorder *recorder, gp_error *err);
void gp_recorder_destroy(gp_recorder **recorder);
/* Room for `more` spans or ticks, so that as many calls of gp_lane_add or gp_ticks_add follow. GP_MEMORY. */
GP_MUST_USE gp_status gp_lane_reserve(gp_lane *lane, size_t more, gp_error *err);
GP_MUST_USE gp_status gp_ticks_reserve(gp_ticks *ticks, size_t more, gp_error *err);

/* What a lane, or its ticks, take that had room made for so many; SIZE_MAX: no size. */
size_t gp_lane_bytes(size_t spans);
size_t gp_ticks_bytes(size_t ticks);

static inline void gp_lane_add(gp_lane *lane, gp_span span) {
    lane->spans[lane->count++] = span;
}

static inline void gp_ticks_add(gp_ticks *ticks, uint64_t time) {
    ticks->times[ticks->count++] = time;
}

#endif
