#include "process/start_limit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "base/sync.h"
#include "base/ticker.h"

enum { TICK = 100000000 /* nanoseconds */, LATER = 3 /* seconds, for each rank: up to 2 */ };

struct gp_start_limit {
    int rank;
    double seconds;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool over;     /* lock, and what follows */
    int64_t ticks; /* that have passed */
};

/* A tick, or the end of it. */
static bool wait_tick(gp_start_limit *its) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&its->lock);
    if (!its->over) pthread_cond_timedwait(&its->change, &its->lock, &until);
    bool over = its->over;
    its->ticks++;
    pthread_mutex_unlock(&its->lock);
    return over;
}

static void give_up(const gp_start_limit *its) {
    if (its->rank <= 1) {
        gp_ticker_clear_line(true);
        fprintf(stderr,
                "gpipe-train: process %d: the processes have not met within %.0f s; one of them hangs, was stopped, or "
                "was started to do something else\n",
                its->rank, its->seconds);
    }
    fflush(stderr);
    _exit(gp_status_exit(GP_LOST));
}

static void *work(void *argument) {
    gp_start_limit *its = argument;
    int later = its->rank < 2 ? its->rank : 2;
    int64_t ticks = (int64_t)((its->seconds + LATER * later) * 1e9 / TICK);
    for (int64_t i = 0; i < ticks; i++)
        if (wait_tick(its)) return NULL;
    give_up(its);
    return NULL;
}

gp_start_limit *gp_start_limit_begin(int rank, double seconds) {
    gp_start_limit *its = calloc(1, sizeof *its);
    if (!its) return NULL;
    its->rank = rank;
    its->seconds = seconds;
    pthread_mutex_init(&its->lock, NULL);
    pthread_cond_init(&its->change, NULL);
    if (gp_thread_start(&its->thread, 0, work, its) == 0) return its;
    pthread_mutex_destroy(&its->lock);
    pthread_cond_destroy(&its->change);
    free(its);
    return NULL;
}

double gp_start_limit_left(gp_start_limit *limit) {
    if (!limit) return GP_START_SECONDS;
    pthread_mutex_lock(&limit->lock);
    double left = limit->seconds - 1e-9 * TICK * (double)limit->ticks;
    pthread_mutex_unlock(&limit->lock);
    return left;
}

void gp_start_limit_end(gp_start_limit **limit) {
    gp_start_limit *its = *limit;
    if (!its) return;
    pthread_mutex_lock(&its->lock);
    its->over = true;
    pthread_cond_signal(&its->change);
    pthread_mutex_unlock(&its->lock);
    pthread_join(its->thread, NULL);
    pthread_mutex_destroy(&its->lock);
    pthread_cond_destroy(&its->change);
    free(its);
    *limit = NULL;
}
