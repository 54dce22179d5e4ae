/* Waiting between threads: every wait can be cancelled.
 *
 * gp_cancel is the run's one flag, with the first error; gp_signal is a sequence number that one thread raises and any
 * number of threads wait for; gp_barrier is met by a fixed number of threads. Waits spin, then sleep. After
 * gp_cancel_raise every wait under way and every later one returns GP_CANCELLED: at once where gp_signal_wake follows,
 * else within a tenth of a second.
 * The creator destroys, after all threads that use an object were joined.
 */
#ifndef GP_BASE_SYNC_H
#define GP_BASE_SYNC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Starts a thread that handles no signals: they stay the business of the calling thread. `stack`: its bytes, 0: as many
 * as usual. Returns 0, or the system's error. */
int gp_thread_start(pthread_t *thread, size_t stack, void *(*work)(void *), void *argument);

/* Any thread. The error is written once, by the first to raise. */
typedef struct gp_cancel {
    atomic_bool raised;
    pthread_mutex_t lock; /* guards cause */
    gp_error cause;
} gp_cancel;

GP_MUST_USE gp_status gp_cancel_init(gp_cancel *cancel, gp_error *err);
void gp_cancel_fini(gp_cancel *cancel);
/* The first to raise wins: true for it; what others bring is dropped. */
bool gp_cancel_raise(gp_cancel *cancel, const gp_error *cause);
static inline bool gp_cancelled(const gp_cancel *cancel) {
    return atomic_load_explicit(&cancel->raised, memory_order_acquire);
}
/* The first cause; GP_OK where nothing was raised. */
gp_status gp_cancel_cause(gp_cancel *cancel, gp_error *err);

/* The time for which the calling thread spins in a wait before it sleeps, in microseconds; 0 at first: a few of them.
 * While it spins it yields, so that other threads that want the processor get it. Only a thread with a processor to
 * itself gains from it (docs/cpu-threads.md). */
void gp_wait_spin(uint32_t most);
uint32_t gp_wait_spins(void);

/* A number that only rises. Zero at first. 64 bytes, so that neighbours do not share a cache line. */
typedef struct gp_signal {
    _Alignas(64) atomic_uint_fast64_t value;
    atomic_uint sleepers;
    atomic_uint wake; /* futex word */
} gp_signal;

void gp_signal_init(gp_signal *signal);
/* Everything written before is visible to those whose wait for `value` or less returns. One raising thread at a time.
 */
void gp_signal_raise(gp_signal *signal, uint64_t value);
/* Ends the sleep of those that wait, so that they look at the cancel flag. Any thread. */
void gp_signal_wake(gp_signal *signal);
/* Blocks until the signal has reached `value`, or the run was cancelled. */
GP_MUST_USE gp_status gp_signal_wait(gp_signal *signal, uint64_t value, const gp_cancel *cancel, gp_error *err);
static inline bool gp_signal_reached(const gp_signal *signal, uint64_t value) {
    return atomic_load_explicit(&signal->value, memory_order_acquire) >= value;
}

/* Met by `parties` threads again and again. */
typedef struct gp_barrier {
    int parties;
    atomic_int arrived;
    gp_signal generation;
} gp_barrier;

void gp_barrier_init(gp_barrier *barrier, int parties);
/* Blocks until all have arrived, or the run was cancelled. */
GP_MUST_USE gp_status gp_barrier_meet(gp_barrier *barrier, const gp_cancel *cancel, gp_error *err);

#endif
