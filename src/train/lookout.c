#include "train/lookout.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "balance/longest.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sync.h"
#include "base/ticker.h"
#include "train/opening.h"

/* ---- what instructions should take ------------------------------------------------------------------------------- */

gp_status gp_train_lookout_share(gp_train_lookout *its, gp_processes *processes, const gp_session *session,
                                 gp_error *err) {
    const gp_plan *plan = session->plan;
    size_t count = gp_lookout_expected_count(plan);
    its->processes = processes;
    if (!processes && !gp_plan_works_on(plan)) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&its->expected, count, err));
    if (plan->rank > 0) {
        GP_RETURN_IF_FAILED(
            gp_processes_hear(processes, GP_OPENING_EXPECTED, its->expected, count * sizeof *its->expected, err));
        return gp_expected_check(its->expected, count, err);
    }
    GP_RETURN_IF_FAILED(gp_expect_longest(plan, session->profile, its->expected, err));
    if (!processes) return GP_OK;
    return gp_processes_tell(processes, GP_OPENING_EXPECTED, its->expected, count * sizeof *its->expected, err);
}

/* ---- the thread of a process that is alone ----------------------------------------------------------------------- */

enum { TURN = 100000000, STACK = 256 << 10 }; /* nanoseconds; bytes */

struct gp_watch {
    gp_lookout *lookout; /* borrowed, as is the run, until `ended` or `found` */
    gp_run *run;
    double timeout;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool ended; /* the run comes to its end: what it has is no longer there to look at */
    bool found;
};

/* Seconds, 0 for a turn in which this process was stopped. The lock is held. */
static double wait_turn(gp_watch *its) {
    struct timespec until;
    double before = gp_now();
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TURN;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&its->changed, &its->lock, &until);
    double passed = gp_now() - before;
    return passed > 1 ? 0 : passed;
}

/* The lock is held; *cause if it returns true: a worker hangs, or what failed before it began to. */
static bool look_until_end(gp_watch *its, gp_error *cause) {
    while (!its->ended) {
        double passed = wait_turn(its);
        if (its->ended || gp_lookout_look(its->lookout, passed, cause) == GP_OK) continue;
        gp_cancel *cancel = gp_run_cancel(its->run);
        if (!gp_cancel_raise(cancel, cause)) (void)gp_cancel_cause(cancel, cause);
        return true;
    }
    return false;
}

/* The lock is held. A snapshot that is still being written has its time: only workers hang, and what closes devices. */
static void wait_for_end(gp_watch *its) {
    double waited = 0;
    while (waited <= its->timeout) {
        double passed = wait_turn(its);
        if (its->ended || !gp_lookout_have_left(its->lookout)) waited += passed;
    }
}

static void *watch(void *argument) {
    gp_watch *its = argument;
    gp_error cause = {0};
    pthread_mutex_lock(&its->lock);
    its->found = look_until_end(its, &cause);
    if (its->found) wait_for_end(its);
    bool found = its->found;
    pthread_mutex_unlock(&its->lock);
    if (!found) return NULL;
    gp_ticker_clear_line(true);
    fprintf(stderr, "gpipe-train: %s\n", cause.text);
    fflush(stderr);
    _exit(gp_status_exit(cause.status));
}

static void destroy(gp_watch *its) {
    pthread_cond_destroy(&its->changed);
    pthread_mutex_destroy(&its->lock);
    free(its);
}

static gp_status start_watch(gp_train_lookout *its, gp_run *run, double timeout, gp_error *err) {
    gp_watch *made = NULL;
    pthread_condattr_t monotonic;
    GP_RETURN_IF_FAILED(GP_NEW(&made, 1, err));
    made->lookout = its->lookout;
    made->run = run;
    made->timeout = timeout;
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int failed = gp_thread_start(&made->thread, STACK, watch, made);
    if (failed) {
        destroy(made);
        return gp_fail(err, GP_MEMORY, "the thread that looks after the workers could not be started: %s",
                       strerror(failed));
    }
    its->watch = made;
    return GP_OK;
}

/* What has found a worker that hangs stays, to end the process. */
static void end_watch(gp_watch *its) {
    if (!its) return;
    pthread_mutex_lock(&its->lock);
    bool found = its->found;
    its->ended = true;
    pthread_cond_signal(&its->changed);
    pthread_mutex_unlock(&its->lock);
    if (found) {
        pthread_detach(its->thread);
        return;
    }
    pthread_join(its->thread, NULL);
    destroy(its);
}

/* ---- from a run's begin to its end ------------------------------------------------------------------------------- */

static gp_status look(void *context, double awake, gp_error *err) {
    return gp_lookout_look(context, awake, err);
}

gp_status gp_train_lookout_begin(gp_train_lookout *its, gp_run *run, const gp_plan *plan, double timeout,
                                 gp_error *err) {
    bool alone = !its->processes;
    if (alone && !gp_plan_works_on(plan)) return GP_OK;
    if (!alone) gp_processes_set_timeout(its->processes, timeout);
    if (!alone) gp_run_note(run, true);
    GP_RETURN_IF_FAILED(gp_lookout_create(run, timeout, alone, its->expected, &its->lookout, err));
    if (alone) return start_watch(its, run, timeout, err);
    gp_processes_set_look(its->processes, look, its->lookout);
    return GP_OK;
}

void gp_train_lookout_end(gp_train_lookout *its) {
    if (its->processes) gp_processes_set_look(its->processes, NULL, NULL);
    end_watch(its->watch);
    gp_lookout_destroy(&its->lookout);
    free(its->expected);
    *its = (gp_train_lookout){.processes = NULL};
}
