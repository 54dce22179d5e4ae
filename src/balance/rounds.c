#include "balance/rounds.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sync.h"

typedef struct rounds rounds;

/* Benches that take turns in one thread. */
typedef struct lane {
    rounds *all;
    gp_bench **benches;
    int count;
    bool timed; /* false: company */
    bool known; /* well enough: from then on it is company for the others */
    int rounds;
    double width;
    pthread_t thread;
    bool started;
} lane;

struct rounds {
    const gp_rounds_request *request;
    lane *lanes;
    int count;
    atomic_int unknown; /* lanes that are timed and not known yet */
    gp_cancel cancel;
};

static double elapsed(const rounds *all) {
    return (double)(all->request->clock() - all->request->from) * 1e-9;
}

static bool is_late(const void *context) {
    const lane *l = context;
    return elapsed(l->all) >= l->all->request->seconds;
}

/* Whether the round that is under way is not needed. Asked before each op; lane 0 is the calling thread's. */
static bool is_over(const void *context) {
    const lane *l = context;
    const gp_rounds_watch *watch = &l->all->request->watch;
    if (watch->tell && l == &l->all->lanes[0]) watch->tell(watch->context, elapsed(l->all), l->rounds);
    return atomic_load(&l->all->unknown) == 0 || gp_cancelled(&l->all->cancel);
}

static gp_status find_width(const lane *l, double *out, gp_error *err) {
    *out = 0;
    for (int i = 0; i < l->count; i++) {
        double width;
        GP_RETURN_IF_FAILED(gp_bench_width(l->benches[i], &width, err));
        if (width > *out) *out = width;
    }
    return GP_OK;
}

/* Few rounds say little where neighbours are noisy: then it may take longer. */
static bool has_had_its_time(const lane *l) {
    double times = elapsed(l->all) / l->all->request->seconds;
    return times >= (l->rounds < GP_MEASURE_FEW_ROUNDS ? 3 : 1);
}

/* How narrow it is by now is looked at ever more seldom (`look`: after that many rounds): that takes time too. */
static gp_status look_at(lane *l, int *look, gp_error *err) {
    bool late = has_had_its_time(l);
    if (!late && l->rounds < *look) return GP_OK;
    *look += *look / 4;
    GP_RETURN_IF_FAILED(find_width(l, &l->width, err));
    l->known = late || l->width <= GP_MEASURE_NARROW;
    if (l->known) atomic_fetch_sub(&l->all->unknown, 1);
    return GP_OK;
}

static gp_status run_lane(lane *l, gp_error *err) {
    const gp_bench_pace pace = {.late = is_late, .over = is_over, .context = l};
    int look = GP_MEASURE_ROUNDS;
    for (bool cold = true; !is_over(l); cold = false) {
        for (int i = 0; i < l->count; i++) GP_RETURN_IF_FAILED(gp_bench_round(l->benches[i], cold, &pace, err));
        if (!l->timed || l->known) continue;
        l->rounds++;
        GP_RETURN_IF_FAILED(look_at(l, &look, err));
    }
    return GP_OK;
}

static void *work(void *argument) {
    lane *l = argument;
    gp_error failure = {0};
    if (run_lane(l, &failure) != GP_OK) gp_cancel_raise(&l->all->cancel, &failure);
    return NULL;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static bool has_own_thread(const gp_rounds_request *request, int bench) {
    return request->at_once && request->benches[bench].request.spec.kind->on_host;
}

static gp_status add_lane(rounds *all, int first, gp_error *err) {
    lane *its = &all->lanes[all->count];
    GP_RETURN_IF_FAILED(GP_NEW(&its->benches, all->request->count, err));
    its->all = all;
    its->timed = first < all->request->timed;
    all->count++;
    if (its->timed) atomic_fetch_add(&all->unknown, 1);
    return GP_OK;
}

/* Lane 0 is the calling thread's, which opened the devices: of those that take turns, which only that thread may call;
 * where there are none, of the first bench. */
static gp_status make_lanes(rounds *all, gp_error *err) {
    const gp_rounds_request *request = all->request;
    GP_RETURN_IF_FAILED(GP_NEW(&all->lanes, request->count, err));
    for (int own = 0; own < 2; own++)
        for (int b = 0; b < request->count; b++) {
            if (has_own_thread(request, b) != own) continue;
            if (own || all->count == 0) GP_RETURN_IF_FAILED(add_lane(all, b, err));
            lane *its = &all->lanes[all->count - 1];
            its->benches[its->count++] = &request->benches[b];
        }
    return GP_OK;
}

/* Signals stay the business of the calling thread. */
static void start_lanes(rounds *all) {
    sigset_t signals, before;
    int failed = 0;
    sigfillset(&signals);
    pthread_sigmask(SIG_SETMASK, &signals, &before);
    for (int i = 1; i < all->count && !failed; i++) {
        failed = pthread_create(&all->lanes[i].thread, NULL, work, &all->lanes[i]);
        all->lanes[i].started = !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) return;
    gp_error failure = {0};
    (void)gp_fail(&failure, GP_MEMORY, "timing: a thread could not be started: %s", strerror(failed));
    gp_cancel_raise(&all->cancel, &failure);
}

static gp_status run_lanes(rounds *all, gp_measured *out, gp_error *err) {
    GP_RETURN_IF_FAILED(make_lanes(all, err));
    start_lanes(all);
    work(&all->lanes[0]);
    for (int i = 1; i < all->count; i++)
        if (all->lanes[i].started) pthread_join(all->lanes[i].thread, NULL);
    out->rounds = 0;
    out->width = 0;
    for (int i = 0; i < all->count; i++) {
        const lane *its = &all->lanes[i];
        if (!its->timed) continue;
        if (out->rounds == 0 || its->rounds < out->rounds) out->rounds = its->rounds;
        if (its->width > out->width) out->width = its->width;
    }
    return gp_cancel_cause(&all->cancel, err);
}

gp_status gp_rounds_run(const gp_rounds_request *request, gp_measured *out, gp_error *err) {
    rounds all = {.request = request};
    atomic_init(&all.unknown, 0);
    GP_RETURN_IF_FAILED(gp_cancel_init(&all.cancel, err));
    gp_status status = run_lanes(&all, out, err);
    for (int i = 0; i < all.count; i++) free(all.lanes[i].benches);
    free(all.lanes);
    gp_cancel_fini(&all.cancel);
    return status;
}
