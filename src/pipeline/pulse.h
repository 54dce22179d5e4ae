/* The pulse of a worker: it says what it computes, so that another thread can notice when it never ends.
 *
 * The worker counts a beat when it begins to compute and one when it ends, so that an odd count says that it computes.
 * It reads no clock. The lookout keeps the time: as long as the count stays the same, the worker is at
 * the same work. Waiting for other workers, messages or data is not computing. */
#ifndef GP_PIPELINE_PULSE_H
#define GP_PIPELINE_PULSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GP_PULSE_PC_BITS = 40 };

/* Zero at first. Written by the worker's thread. */
typedef struct gp_pulse {
    atomic_uint_fast64_t beats;
    atomic_uint_fast64_t at; /* mini << GP_PULSE_PC_BITS | pc */
} gp_pulse;

static inline void gp_pulse_beat(gp_pulse *pulse, bool computes) {
    uint64_t next = atomic_load_explicit(&pulse->beats, memory_order_relaxed) + 1;
    atomic_store_explicit(&pulse->beats, next + (next % 2 != computes), memory_order_release);
}
/* The worker begins the instruction `pc` of mini-batch plan `mini`. */
static inline void gp_pulse_begin(gp_pulse *pulse, int mini, size_t pc) {
    atomic_store_explicit(&pulse->at, (uint64_t)mini << GP_PULSE_PC_BITS | pc, memory_order_relaxed);
    gp_pulse_beat(pulse, true);
}
/* It has ended, well or not. */
static inline void gp_pulse_end(gp_pulse *pulse) {
    gp_pulse_beat(pulse, false);
}
/* It goes on with what it is at. */
static inline void gp_pulse_go_on(gp_pulse *pulse) {
    uint64_t beats = atomic_load_explicit(&pulse->beats, memory_order_relaxed);
    atomic_store_explicit(&pulse->beats, beats + 2, memory_order_release);
}
/* Around a wait within an instruction. */
static inline void gp_pulse_pause(gp_pulse *pulse) {
    gp_pulse_beat(pulse, false);
}
static inline void gp_pulse_resume(gp_pulse *pulse) {
    gp_pulse_beat(pulse, true);
}

/* The mini-batch plan of the instruction that the worker began last. Any thread. */
static inline int gp_pulse_mini(const gp_pulse *pulse) {
    return (int)(atomic_load_explicit(&pulse->at, memory_order_relaxed) >> GP_PULSE_PC_BITS);
}

/* What the lookout remembers of a worker. Zero at first. */
typedef struct gp_pulse_seen {
    uint64_t beats;
    double since; /* it was first seen at this work */
    int mini;
    size_t pc;
} gp_pulse_seen;

/* Seconds for which the worker has been seen at the work that it is at, up to `now`; 0: it computes nothing. `now`: of
 * a clock that stands while this process is stopped. */
static inline double gp_pulse_look(gp_pulse_seen *seen, const gp_pulse *pulse, double now) {
    uint64_t beats = atomic_load_explicit(&pulse->beats, memory_order_acquire);
    uint64_t at = atomic_load_explicit(&pulse->at, memory_order_relaxed);
    if (beats != seen->beats) {
        *seen = (gp_pulse_seen){beats, now, (int)(at >> GP_PULSE_PC_BITS),
                                (size_t)(at & ((UINT64_C(1) << GP_PULSE_PC_BITS) - 1))};
    }
    return beats % 2 == 1 ? now - seen->since : 0;
}

#endif
