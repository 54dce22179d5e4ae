#include "balance/balance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cut/cut.h"
#include "plan/memory.h"

/* Cuts that are tried where the first does not fit. */
enum { MOST_TRIES = 12 };

typedef struct finder {
    const gp_balance_request *request;
    gp_balance_problem problem;
    int64_t *now, *layers; /* [stage] of the current cut; of the best */
    gp_plan *plan;         /* of the best */
    size_t excess;         /* of the best: the most that a worker is over its memory */
    int64_t *limits;       /* [worker] as the devices have them */
    int64_t *apart;        /* [worker] by how much a plan takes more than the solver's bytes */
    char *missing;
} finder;

static size_t excess_of(const gp_plan *plan) {
    size_t most = 0;
    for (int w = 0; w < plan->workers; w++) {
        size_t room = gp_device_room(&plan->devices[w]);
        if (room > 0 && plan->arena[w] > room && plan->arena[w] - room > most) most = plan->arena[w] - room;
    }
    return most;
}

/* Plans the current cut, and keeps it where it is the first or nearer to fitting; *plan is valid for as long as no
 * other is taken. */
static gp_status take(finder *f, gp_plan **plan, gp_error *err) {
    gp_plan_request request = f->request->plan;
    request.layers = f->now;
    GP_RETURN_IF_FAILED(gp_plan_create(&request, plan, err));
    size_t excess = excess_of(*plan);
    if (f->plan && excess >= f->excess) return GP_OK;
    gp_plan_destroy(&f->plan);
    f->plan = *plan;
    f->excess = excess;
    memcpy(f->layers, f->now, (size_t)request.stages * sizeof *f->layers);
    return GP_OK;
}

/* Of the replicas of a worker. */
static int64_t largest_arena(const gp_plan_request *request, const gp_plan *plan, int worker) {
    int end = gp_plan_request_worker(request, worker + 1);
    size_t largest = 0;
    for (int w = gp_plan_request_worker(request, worker); w < end; w++)
        if (plan->arena[w] > largest) largest = plan->arena[w];
    return (int64_t)largest;
}

/* What the plan takes beyond the solver's bytes, worker by worker. */
static gp_status compare(finder *f, const gp_plan *plan, gp_error *err) {
    const gp_cut_problem *cut = &f->problem.cut;
    gp_cut_numbers *numbers = NULL;
    int64_t *transient = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&numbers, cut->stage_count, err));
    gp_status status = GP_NEW(&transient, cut->worker_count, err);
    if (status == GP_OK) status = gp_cut_measure(cut, f->now, numbers, err);
    for (int w = 0; w < cut->worker_count && status == GP_OK; w++)
        f->apart[w] = largest_arena(&f->request->plan, plan, w);
    for (int s = 0; s < cut->stage_count && status == GP_OK; s++) {
        int worker = cut->stages[s].worker;
        f->apart[worker] -= numbers[s].bytes;
        if (numbers[s].transient > transient[worker]) transient[worker] = numbers[s].transient;
    }
    for (int w = 0; w < cut->worker_count && status == GP_OK; w++) f->apart[w] -= transient[w];
    free(transient);
    free(numbers);
    return status;
}

/* `share` eighths of what plans take beyond the solver's bytes is left free. */
static void set_limits(finder *f, int share) {
    for (int w = 0; w < f->problem.cut.worker_count; w++) {
        int64_t limit = f->limits[w] - f->apart[w] / 8 * share;
        f->problem.workers[w].memory = f->limits[w] == 0 ? 0 : limit > 0 ? limit : 1;
    }
}

/* A cut that the solver thinks fits, planned; corrected by how far the plan was from what it thought, and again. Where
 * the correction leaves no cut, less of it is believed. */
static gp_status search(finder *f, gp_error *err) {
    int share = 0, next = 8;
    for (int i = 0; i < MOST_TRIES && f->excess > 0; i++) {
        int64_t bottleneck;
        gp_plan *plan = NULL;
        gp_error why = {0};
        set_limits(f, share);
        gp_status status = gp_cut_solve(&f->problem.cut, f->now, &bottleneck, &why);
        if (status == GP_CONFIG) {
            static const char prefix[] = "balance: ";
            bool prefixed = strncmp(why.text, prefix, sizeof prefix - 1) == 0;
            if (i == 0) snprintf(f->missing, GP_ERROR_TEXT, "%s", why.text + (prefixed ? sizeof prefix - 1 : 0));
            if (next == 0) return GP_OK;
            share = next;
            next /= 2;
            continue;
        }
        if (status != GP_OK) {
            *err = why;
            return status;
        }
        GP_RETURN_IF_FAILED(take(f, &plan, err));
        status = compare(f, plan, err);
        if (plan != f->plan) gp_plan_destroy(&plan);
        GP_RETURN_IF_FAILED(status);
        if (share == 0) share = next;
    }
    return GP_OK;
}

static gp_status prepare(finder *f, gp_error *err) {
    int workers;
    GP_RETURN_IF_FAILED(gp_balance_problem_init(&f->problem, f->request, err));
    workers = f->problem.cut.worker_count;
    GP_RETURN_IF_FAILED(GP_NEW(&f->now, f->problem.cut.stage_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&f->limits, workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&f->apart, workers, err));
    for (int w = 0; w < workers; w++) f->limits[w] = f->problem.workers[w].memory;
    return GP_OK;
}

static gp_status find(finder *f, gp_error *err) {
    int64_t bottleneck;
    gp_plan *plan = NULL;
    GP_RETURN_IF_FAILED(prepare(f, err));
    GP_RETURN_IF_FAILED(gp_cut_solve(&f->problem.cut, f->now, &bottleneck, err));
    GP_RETURN_IF_FAILED(take(f, &plan, err));
    if (f->excess > 0 && f->problem.cut.layer_count <= GP_MAX_STAGES) {
        GP_RETURN_IF_FAILED(gp_balance_problem_add_memory(&f->problem, f->request, plan, err));
        GP_RETURN_IF_FAILED(compare(f, plan, err));
        GP_RETURN_IF_FAILED(search(f, err));
    }
    return GP_OK;
}

gp_status gp_balance_find(const gp_balance_request *request, int64_t *layers, gp_plan **plan,
                          char missing[GP_ERROR_TEXT], gp_error *err) {
    finder f = {.request = request, .layers = layers, .missing = missing};
    missing[0] = '\0';
    gp_status status = find(&f, err);
    gp_balance_problem_fini(&f.problem);
    free(f.now);
    free(f.limits);
    free(f.apart);
    if (status == GP_OK)
        *plan = f.plan;
    else
        gp_plan_destroy(&f.plan);
    return status;
}
