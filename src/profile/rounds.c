#include "profile/rounds.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sync.h"

typedef struct rounds rounds;

/* A thread, and the benches that take turns in it. */
typedef struct lane {
    rounds *all;
    pthread_t thread;
    bool started;
    bool timed; /* false: company */
    bool known; /* the medians, well enough: from then on the lane is company for the others */
    int rounds;
    double width;
    bool outlier; /* some time stands out: further rounds tell whether it was disturbed */
} lane;

struct rounds {
    const gp_measure_request *request;
    gp_bench *benches;
    int bench_count;
    uint64_t from;
    lane *lanes;
    int count;
    int *lane_of;       /* [bench] */
    atomic_int unknown; /* lanes that are timed and not known yet */
    gp_cancel cancel;
    uint32_t spin; /* of the calling thread */
};

static double elapsed(const rounds *all) {
    return (double)(all->request->clock() - all->from) * 1e-9;
}

/* A timed lane is known after whole rounds only, so its first round is always completed. Lane 0 belongs to the calling
 * thread. */
static bool is_over(void *context) {
    const lane *l = context;
    const gp_rounds_watch *watch = &l->all->request->watch;
    if (watch->tell && l == &l->all->lanes[0]) watch->tell(watch->context, elapsed(l->all), l->rounds);
    return atomic_load(&l->all->unknown) == 0 || gp_cancelled(&l->all->cancel);
}

static gp_status find_width(lane *l, gp_error *err) {
    const rounds *all = l->all;
    l->width = 0;
    l->outlier = false;
    for (int b = 0; b < all->bench_count; b++) {
        gp_bench_medians medians;
        if (&all->lanes[all->lane_of[b]] != l) continue;
        GP_RETURN_IF_FAILED(gp_bench_find_medians(&all->benches[b], &medians, err));
        free(medians.op);
        if (medians.width > l->width) l->width = medians.width;
        l->outlier = l->outlier || medians.outlier;
    }
    return GP_OK;
}

/* Looking takes time too, so the lane looks after `look` rounds, and then ever more seldom. Few rounds say little on a
 * machine with other work: then they may take longer, and so they may if a time stands out. */
static gp_status look_at(lane *l, int *look, gp_error *err) {
    double over = elapsed(l->all) / l->all->request->seconds;
    bool few = l->rounds < GP_MEASURE_FEW_ROUNDS;
    if (over < (few ? 3 : l->outlier ? GP_MEASURE_OUTLIERS : 1) && l->rounds < *look) return GP_OK;
    *look += *look / 4;
    GP_RETURN_IF_FAILED(find_width(l, err));
    bool late = over >= (few ? 3 : l->outlier ? GP_MEASURE_OUTLIERS : 1);
    l->known = late || (l->width <= GP_MEASURE_NARROW && !l->outlier);
    if (l->known) atomic_fetch_sub(&l->all->unknown, 1);
    return GP_OK;
}

static gp_status run_lane(lane *l, gp_error *err) {
    const rounds *all = l->all;
    int look = GP_MEASURE_ROUNDS;
    while (!is_over(l)) {
        for (int b = 0; b < all->bench_count; b++)
            if (&all->lanes[all->lane_of[b]] == l)
                GP_RETURN_IF_FAILED(gp_bench_round(&all->benches[b], is_over, l, err));
        if (!l->timed || l->known) continue;
        if (gp_cancelled(&all->cancel)) break; /* another lane failed; the round may not be whole */
        l->rounds++;
        GP_RETURN_IF_FAILED(look_at(l, &look, err));
    }
    return GP_OK;
}

static void *work(void *argument) {
    lane *l = argument;
    gp_error failure = {0};
    gp_wait_spin(l->all->spin);
    if (run_lane(l, &failure) != GP_OK) gp_cancel_raise(&l->all->cancel, &failure);
    return NULL;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static bool has_own_thread(const rounds *all, int bench) {
    return all->request->at_once && all->benches[bench].spec.kind->on_host;
}

/* Lane 0 has the benches that take turns: only the calling thread, which opened their devices, may use them. If there
 * are none, it has the first bench. */
static gp_status make_lanes(rounds *all, gp_error *err) {
    bool turns = false;
    GP_RETURN_IF_FAILED(GP_NEW(&all->lanes, all->bench_count + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&all->lane_of, all->bench_count, err));
    for (int b = 0; b < all->bench_count; b++) turns = turns || !has_own_thread(all, b);
    all->count = turns;
    for (int b = 0; b < all->bench_count; b++) {
        lane *its = &all->lanes[all->lane_of[b] = has_own_thread(all, b) ? all->count++ : 0];
        its->all = all;
        its->timed = its->timed || b < all->request->device_count;
    }
    for (int i = 0; i < all->count; i++) atomic_fetch_add(&all->unknown, all->lanes[i].timed);
    return GP_OK;
}

static void start_lanes(rounds *all) {
    int failed = 0;
    for (int i = 1; i < all->count && !failed; i++) {
        failed = gp_thread_start(&all->lanes[i].thread, 0, work, &all->lanes[i]);
        all->lanes[i].started = !failed;
    }
    if (!failed) return;
    gp_error failure = {0};
    (void)gp_fail(&failure, GP_MEMORY, "timing: a thread could not be started: %s", strerror(failed));
    gp_cancel_raise(&all->cancel, &failure);
}

static gp_status run_lanes(rounds *all, gp_measured *out, gp_error *err) {
    GP_RETURN_IF_FAILED(make_lanes(all, err));
    start_lanes(all);
    work(&all->lanes[0]);
    out->rounds = 0;
    out->width = 0;
    for (int i = 0; i < all->count; i++) {
        const lane *its = &all->lanes[i];
        if (its->started) pthread_join(its->thread, NULL);
        if (!its->timed) continue;
        if (out->rounds == 0 || its->rounds < out->rounds) out->rounds = its->rounds;
        if (its->width > out->width) out->width = its->width;
    }
    return gp_cancel_cause(&all->cancel, err);
}

gp_status gp_rounds_run(const gp_measure_request *request, gp_bench *benches, int count, uint64_t from,
                        gp_measured *out, gp_error *err) {
    rounds all = {.request = request, .benches = benches, .bench_count = count, .from = from, .spin = gp_wait_spins()};
    atomic_init(&all.unknown, 0);
    GP_RETURN_IF_FAILED(gp_cancel_init(&all.cancel, err));
    gp_status status = run_lanes(&all, out, err);
    free(all.lanes);
    free(all.lane_of);
    gp_cancel_fini(&all.cancel);
    return status;
}
