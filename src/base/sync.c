#include "base/sync.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPINS = 200,                  /* a few microseconds: shorter than a sleep and a wake-up */
    TAKEN = 50,                   /* microseconds: a round of spinning that took longer lost its processor meanwhile */
    SLEEP_NANOSECONDS = 100000000 /* a sleeper that is not woken looks for a cancellation this often */
};

int gp_thread_start(pthread_t *thread, size_t stack, void *(*work)(void *), void *argument) {
    sigset_t all, before;
    pthread_attr_t with;
    int failed = pthread_attr_init(&with);
    if (failed) return failed;
    if (stack > 0) pthread_attr_setstacksize(&with, stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* which the thread inherits */
    failed = pthread_create(thread, &with, work, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&with);
    return failed;
}

gp_status gp_cancel_init(gp_cancel *cancel, gp_error *err) {
    memset(cancel, 0, sizeof *cancel);
    atomic_init(&cancel->raised, false);
    int failed = pthread_mutex_init(&cancel->lock, NULL);
    if (failed) return gp_fail(err, GP_INTERNAL, "a mutex could not be made: %s", strerror(failed));
    return GP_OK;
}

void gp_cancel_fini(gp_cancel *cancel) {
    pthread_mutex_destroy(&cancel->lock);
}

bool gp_cancel_raise(gp_cancel *cancel, const gp_error *cause) {
    pthread_mutex_lock(&cancel->lock);
    bool first = !atomic_load_explicit(&cancel->raised, memory_order_relaxed);
    if (first) {
        cancel->cause = *cause;
        atomic_store_explicit(&cancel->raised, true, memory_order_release);
    }
    pthread_mutex_unlock(&cancel->lock);
    return first;
}

gp_status gp_cancel_cause(gp_cancel *cancel, gp_error *err) {
    if (!gp_cancelled(cancel)) return GP_OK;
    pthread_mutex_lock(&cancel->lock);
    if (err) *err = cancel->cause;
    gp_status status = cancel->cause.status;
    pthread_mutex_unlock(&cancel->lock);
    return status == GP_OK ? GP_CANCELLED : status;
}

void gp_signal_init(gp_signal *signal) {
    atomic_init(&signal->value, 0);
    atomic_init(&signal->sleepers, 0);
    atomic_init(&signal->wake, 0);
}

static void futex_wake_all(atomic_uint *word) {
    syscall(SYS_futex, (void *)word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void futex_sleep(atomic_uint *word, unsigned seen) {
    struct timespec limit = {0, SLEEP_NANOSECONDS};
    syscall(SYS_futex, (void *)word, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0);
}

void gp_signal_raise(gp_signal *signal, uint64_t value) {
    atomic_store_explicit(&signal->value, value, memory_order_seq_cst);
    if (atomic_load_explicit(&signal->sleepers, memory_order_seq_cst) > 0) {
        atomic_fetch_add_explicit(&signal->wake, 1, memory_order_seq_cst);
        futex_wake_all(&signal->wake);
    }
}

void gp_signal_wake(gp_signal *signal) {
    atomic_fetch_add_explicit(&signal->wake, 1, memory_order_seq_cst);
    futex_wake_all(&signal->wake);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static _Thread_local uint32_t spin_microseconds;

void gp_wait_spin(uint32_t most) {
    spin_microseconds = most;
}

uint32_t gp_wait_spins(void) {
    return spin_microseconds;
}

static uint64_t microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static bool is_over(const gp_signal *signal, uint64_t value, const gp_cancel *cancel) {
    return gp_signal_reached(signal, value) || gp_cancelled(cancel);
}

static bool spin_briefly(const gp_signal *signal, uint64_t value, const gp_cancel *cancel) {
    for (int i = 0; i < SPINS; i++) {
        if (is_over(signal, value, cancel)) return true;
        relax();
    }
    return false;
}

/* Yields, so that any other thread that wants the processor gets it. If one took it, the thread sleeps: it would not
 * leave a processor on which the thread that it waits for wants to run. */
static void spin(const gp_signal *signal, uint64_t value, const gp_cancel *cancel) {
    if (spin_briefly(signal, value, cancel) || spin_microseconds == 0) return;
    uint64_t now = microseconds(), end = now + spin_microseconds, before;
    do {
        before = now;
        sched_yield();
        if (spin_briefly(signal, value, cancel)) return;
        now = microseconds();
    } while (now < end && now - before < TAKEN);
}

static void sleep_once(gp_signal *signal, uint64_t value, const gp_cancel *cancel) {
    /* A raise that sees no sleeper happened before the increment, so the look at the value below sees it; one that
     * sees the sleeper changes the word, and the sleep returns at once. Likewise a cancellation: what it wakes
     * after the word was read ends the sleep, and what came before is seen by the look at the flag. */
    atomic_fetch_add_explicit(&signal->sleepers, 1, memory_order_seq_cst);
    unsigned seen = atomic_load_explicit(&signal->wake, memory_order_seq_cst);
    if (atomic_load_explicit(&signal->value, memory_order_seq_cst) < value && !gp_cancelled(cancel))
        futex_sleep(&signal->wake, seen);
    atomic_fetch_sub_explicit(&signal->sleepers, 1, memory_order_seq_cst);
}

gp_status gp_signal_wait(gp_signal *signal, uint64_t value, const gp_cancel *cancel, gp_error *err) {
    spin(signal, value, cancel);
    while (!is_over(signal, value, cancel)) sleep_once(signal, value, cancel);
    if (gp_signal_reached(signal, value)) return GP_OK;
    return gp_fail(err, GP_CANCELLED, "cancelled while waiting");
}

void gp_barrier_init(gp_barrier *barrier, int parties) {
    barrier->parties = parties;
    atomic_init(&barrier->arrived, 0);
    gp_signal_init(&barrier->generation);
}

gp_status gp_barrier_meet(gp_barrier *barrier, const gp_cancel *cancel, gp_error *err) {
    uint64_t next = atomic_load_explicit(&barrier->generation.value, memory_order_acquire) + 1;
    int arrived = atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1;
    if (arrived == barrier->parties) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        gp_signal_raise(&barrier->generation, next);
        return GP_OK;
    }
    return gp_signal_wait(&barrier->generation, next, cancel, err);
}
