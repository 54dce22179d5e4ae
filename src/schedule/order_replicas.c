#include "schedule/order_replicas.h"

#include <stdlib.h>

#include "base/memory.h"

int gp_replicas_count(const gp_replicas *replicas) {
    int count = 0;
    for (int w = 0; w < replicas->workers; w++) count += replicas->of[w];
    return count;
}

bool gp_replicas_are_named(const gp_replicas *replicas, int workers) {
    return replicas && workers != replicas->workers && workers == gp_replicas_count(replicas);
}

typedef struct folder {
    gp_order *order;
    const gp_replicas *replicas;
    int *first;   /* [worker of the schedule] its first replica */
    int *place;   /* [replica] the worker of the schedule */
    int *numbers; /* [stage] of its replica's stage */
} folder;

/* Stages of one number stand together, each on its replica. */
static gp_status number_stages(folder *f, gp_error *err) {
    gp_order *order = f->order;
    int count = 0;
    for (int s = 0; s < order->stages; count++) {
        int place = f->place[order->worker_of_stage[s]], end = s + f->replicas->of[place];
        for (int worker = f->first[place]; s < end; s++, worker++) {
            if (s >= order->stages)
                return gp_fail(err, GP_PROGRAM, "there are %d stages, but stage %d has no replica on worker %d",
                               order->stages, count, worker);
            if (order->worker_of_stage[s] != worker)
                return gp_fail(err, GP_PROGRAM,
                               "stage %d is on worker %d, but it must be on worker %d: the replicas of a stage stand "
                               "together, from the first to the last",
                               s, order->worker_of_stage[s], worker);
            f->numbers[s] = count;
        }
    }
    return GP_OK;
}

static bool tasks_equal(const folder *f, const gp_task *a, const gp_task *b) {
    return a->op == b->op && a->micro == b->micro && f->numbers[a->stage] == f->numbers[b->stage];
}

static gp_status refuse_task(const gp_worker_order *its, size_t task, int worker, int first, gp_error *err) {
    static const char why[] = "worker %d is a replica of worker %d, but its tasks are others, or in another order";
    if (task < its->count && its->places) return gp_fail_at(err, GP_PROGRAM, its->places[task], why, worker, first);
    return gp_fail(err, GP_PROGRAM, why, worker, first);
}

static gp_status compare_replicas(const folder *f, gp_error *err) {
    for (int w = 0; w < f->order->workers; w++) {
        int first = f->first[f->place[w]];
        const gp_worker_order *its = &f->order->worker[w], *other = &f->order->worker[first];
        size_t i = 0;
        while (i < its->count && i < other->count && tasks_equal(f, &its->tasks[i], &other->tasks[i])) i++;
        if (i < its->count || i < other->count) return refuse_task(its, i, w, first, err);
    }
    return GP_OK;
}

static void keep_first_replicas(const folder *f) {
    gp_order *order = f->order;
    for (int w = 0; w < order->workers; w++) {
        gp_worker_order *its = &order->worker[w];
        int place = f->place[w];
        if (w != f->first[place]) {
            free(its->tasks);
            free(its->places);
        } else {
            for (size_t i = 0; i < its->count; i++) its->tasks[i].stage = (uint16_t)f->numbers[its->tasks[i].stage];
            order->worker[place] = *its;
        }
        if (w != place || w != f->first[place]) *its = (gp_worker_order){0};
    }
    int stages = 0;
    for (int s = 0; s < order->stages; s++) {
        order->worker_of_stage[f->numbers[s]] = f->place[order->worker_of_stage[s]];
        stages = f->numbers[s] + 1;
    }
    order->stages = stages;
    order->workers = f->replicas->workers;
}

static gp_status fold(folder *f, gp_error *err) {
    int all = f->order->workers;
    GP_RETURN_IF_FAILED(GP_NEW(&f->first, f->replicas->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&f->place, all, err));
    GP_RETURN_IF_FAILED(GP_NEW(&f->numbers, f->order->stages, err));
    for (int place = 0, w = 0; place < f->replicas->workers; place++) {
        f->first[place] = w;
        for (int end = w + f->replicas->of[place]; w < end; w++) f->place[w] = place;
    }
    GP_RETURN_IF_FAILED(number_stages(f, err));
    GP_RETURN_IF_FAILED(compare_replicas(f, err));
    keep_first_replicas(f);
    return GP_OK;
}

gp_status gp_order_fold_replicas(gp_order *order, const gp_replicas *replicas, gp_error *err) {
    folder f = {.order = order, .replicas = replicas};
    if (!gp_replicas_are_named(replicas, order->workers)) return GP_OK;
    gp_status status = fold(&f, err);
    free(f.first);
    free(f.place);
    free(f.numbers);
    return status;
}
