#include "train/first_step.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "balance/expect.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sync.h"
#include "base/ticker.h"
#include "profile/profile_words.h"
#include "report/plan_report.h"
#include "report/plan_report_parts.h"
#include "train/progress.h"

static const double terminal_patience = 3, pipe_patience = 10, turn = 0.2;
enum { STACK = 256 << 10 };

typedef enum phase { PREPARING, WAITING, COMPUTING } phase;

struct gp_first_step {
    const gp_session *session;
    double patience;
    char predicted[64]; /* the thread's */
    bool said;          /* the thread's: there was a line in this phase */
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    gp_ticker ticker;
    phase phase;
    double began; /* the phase; seconds of a monotonic clock */
    bool ended;
};

/* "; a step is predicted to take 41 s", once, if the plan has a step to predict. */
static void predict(gp_first_step *w) {
    gp_expectation expected = {0};
    gp_error ignored = {0};
    const gp_plan *plan = w->session->plan;
    int mini = gp_plan_largest_mini(plan);
    if (!plan->minis[mini].training) return;
    if (gp_expect(plan, mini, w->session->profile, &expected, &ignored) != GP_OK) return;
    snprintf(w->predicted, sizeof w->predicted, "; a step is predicted to take %.30s",
             gp_report_predicted(expected.seconds, gp_profile_spread(w->session->profile)).text);
    free(expected.busy);
}

static void say(gp_first_step *w, phase now, double seconds) {
    /* As the plan has them: a mini-batch of fewer samples has fewer than the configuration allows. */
    int micro_batches = w->session->plan->minis[gp_plan_largest_mini(w->session->plan)].pieces;
    switch (now) {
    case PREPARING:
        gp_ticker_say(&w->ticker, "before the first step: memory, initial values and files, %.0f s so far", seconds);
        break;
    case WAITING: gp_ticker_say(&w->ticker, "first step: waiting for its data, %.0f s so far", seconds); break;
    case COMPUTING:
        gp_ticker_say(&w->ticker, "first step: %d micro-batch%s on %d worker%s, %.0f s so far%s", micro_batches,
                      micro_batches == 1 ? "" : "es", w->session->plan->workers,
                      w->session->plan->workers == 1 ? "" : "s", seconds, w->predicted);
        break;
    }
}

/* The lock is held, but for predicting: that may take long, and the trainer's thread must not wait for it. */
static void look(gp_first_step *w, phase *last) {
    if (w->phase != *last) w->said = false;
    *last = w->phase;
    if (gp_now() - w->began < w->patience || (w->said && !gp_ticker_is_due(&w->ticker))) return;
    if (w->phase == COMPUTING && !w->predicted[0]) {
        pthread_mutex_unlock(&w->lock);
        predict(w);
        pthread_mutex_lock(&w->lock);
    }
    if (w->ended || w->phase != *last) return;
    w->said = true;
    say(w, w->phase, gp_now() - w->began);
}

static void *work(void *argument) {
    gp_first_step *w = argument;
    double pause = w->patience < turn ? w->patience : turn;
    phase last = PREPARING;
    pthread_mutex_lock(&w->lock);
    while (!w->ended) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        long nanoseconds = until.tv_nsec + (long)(pause * 1e9);
        until.tv_sec += nanoseconds / 1000000000;
        until.tv_nsec = nanoseconds % 1000000000;
        if (pthread_cond_timedwait(&w->changed, &w->lock, &until) == ETIMEDOUT && !w->ended) look(w, &last);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void destroy(gp_first_step *w) {
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

gp_first_step *gp_first_step_watch(const gp_session *session, FILE *to, double patience) {
    gp_first_step *w = NULL;
    gp_error ignored = {0};
    pthread_condattr_t monotonic;
    if (!to || GP_NEW(&w, 1, &ignored) != GP_OK) return NULL;
    w->session = session;
    w->ticker = gp_ticker_on(to);
    w->patience = patience > 0 ? patience : w->ticker.terminal ? terminal_patience : pipe_patience;
    w->began = gp_now();
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (gp_thread_start(&w->thread, STACK, work, w) == 0) return w;
    destroy(w);
    return NULL;
}

static void enter(gp_first_step *w, phase now) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->phase = now;
    w->began = gp_now();
    pthread_mutex_unlock(&w->lock);
}

void gp_first_step_waits(gp_first_step *watch) {
    enter(watch, WAITING);
}

void gp_first_step_computes(gp_first_step *watch) {
    enter(watch, COMPUTING);
}

void gp_first_step_clear(gp_first_step *watch) {
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    gp_ticker_end(&watch->ticker);
    pthread_mutex_unlock(&watch->lock);
}

void gp_first_step_end(gp_first_step **watch) {
    gp_first_step *w = *watch;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    gp_ticker_end(&w->ticker);
    destroy(w);
    *watch = NULL;
}
