#include "balance/device_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cut/cut.h"
#include "cut/cut_search.h"

typedef struct orders {
    const gp_cut_problem *given;
    gp_cut_problem problem; /* with its workers in the order at hand */
    gp_cut_worker *workers; /* of it */
    int *kind;              /* [place] which of the workers that differ stands there */
    int *kind_of;           /* [worker as given] */
    int64_t *layers;        /* of the order at hand */
    int *best;              /* [place] kind, in the best order */
    int64_t count;          /* of orders that differ */
    bool found;
    gp_cut_result least;
} orders;

static bool are_equal(const gp_cut_worker *a, const gp_cut_worker *b) {
    return a->kind == b->kind && a->memory == b->memory;
}

/* How many orders differ; INT64_MAX: too many to count. counts[kind] of workers. */
static int64_t count_orders(const int *counts, int kinds) {
    int64_t product = 1;
    for (int k = 0, placed = 0; k < kinds; k++)
        for (int i = 1; i <= counts[k]; i++) {
            /* (placed choose i), step by step: exact, since each step's product is divisible. */
            if (!gp_int64_mul(product, ++placed, &product)) return INT64_MAX;
            product /= i;
        }
    return product;
}

static gp_status find_kinds(orders *o, gp_error *err) {
    int count = o->given->worker_count, kinds = 0, *counts = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&counts, count, err));
    for (int w = 0; w < count; w++) {
        int same = 0;
        while (!are_equal(&o->given->workers[same], &o->given->workers[w])) same++;
        o->kind_of[w] = same < w ? o->kind_of[same] : kinds++;
        counts[o->kind_of[w]]++;
    }
    o->count = count_orders(counts, kinds);
    free(counts);
    if (o->count > GP_DEVICE_ORDERS)
        return gp_fail(err, GP_CONFIG,
                       "balance: %d devices of %d kinds have more orders than the %d that --orders can try", count,
                       kinds, (int)GP_DEVICE_ORDERS);
    return GP_OK;
}

/* Workers into the places of the order at hand: those of a kind in the order in which they were given. */
static void place_workers(const orders *o, const int *kinds, int *order) {
    int count = o->given->worker_count;
    for (int place = 0; place < count; place++) {
        int before = 0, w = 0;
        for (int earlier = 0; earlier < place; earlier++) before += kinds[earlier] == kinds[place];
        while (o->kind_of[w] != kinds[place] || before-- > 0) w++;
        order[place] = w;
    }
}

/* Whether some cut of the order at hand is below the best so far; where workers have several stages, nobody knows. */
static gp_status may_be_better(const orders *o, bool *out, gp_error *err) {
    gp_span_index index;
    gp_cut_search search;
    gp_cut_short missing;
    *out = true;
    if (!o->found || gp_cut_shares_workers(&o->problem)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_span_index_init(&index, &o->problem, err));
    gp_status status = gp_cut_search_init(&search, &index, err);
    if (status == GP_OK) {
        *out = o->least.bottleneck > 0 && gp_cut_search_run(&search, o->least.bottleneck - 1, &missing);
        gp_cut_search_fini(&search);
    }
    gp_span_index_fini(&index);
    return status;
}

/* An order without a cut is passed over; `why` has what the first of them said. */
static gp_status try_order(orders *o, int *order, int64_t *layers, gp_error *why, gp_error *err) {
    gp_cut_result result;
    gp_error cause = {0};
    bool better;
    place_workers(o, o->kind, order);
    for (int w = 0; w < o->given->worker_count; w++) o->workers[w] = o->given->workers[order[w]];
    GP_RETURN_IF_FAILED(may_be_better(o, &better, err));
    if (!better) return GP_OK;
    gp_status status = gp_cut_solve(&o->problem, o->layers, &result, &cause);
    if (status != GP_OK && why->status == GP_OK) *why = cause;
    if (status == GP_CONFIG) return GP_OK;
    if (status != GP_OK) {
        if (err) *err = cause;
        return status;
    }
    if (o->found && result.bottleneck >= o->least.bottleneck) return GP_OK;
    o->found = true;
    o->least = result;
    memcpy(o->best, o->kind, (size_t)o->given->worker_count * sizeof *o->best);
    memcpy(layers, o->layers, (size_t)o->given->stage_count * sizeof *layers);
    return GP_OK;
}

/* The next order of `kinds` in the order of numbers; false after the last. */
static bool next_order(int *kinds, int count) {
    int i = count - 2, j = count - 1;
    while (i >= 0 && kinds[i] >= kinds[i + 1]) i--;
    if (i < 0) return false;
    while (kinds[j] <= kinds[i]) j--;
    int kind = kinds[i];
    kinds[i] = kinds[j];
    kinds[j] = kind;
    for (int a = i + 1, b = count - 1; a < b; a++, b--) {
        kind = kinds[a];
        kinds[a] = kinds[b];
        kinds[b] = kind;
    }
    return true;
}

static int by_number(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static gp_status try_all(orders *o, int *order, int64_t *layers, gp_error *err) {
    int count = o->given->worker_count;
    gp_error why = {0};
    GP_RETURN_IF_FAILED(find_kinds(o, err));
    memcpy(o->kind, o->kind_of, (size_t)count * sizeof *o->kind);
    GP_RETURN_IF_FAILED(try_order(o, order, layers, &why, err));
    qsort(o->kind, (size_t)count, sizeof *o->kind, by_number);
    do {
        GP_RETURN_IF_FAILED(try_order(o, order, layers, &why, err));
    } while (next_order(o->kind, count));
    if (o->found) return GP_OK;
    if (err) *err = why;
    return why.status;
}

gp_status gp_device_order_solve(const gp_cut_problem *problem, int *order, int64_t *layers, int64_t *count,
                                gp_cut_result *out, gp_error *err) {
    orders o = {.given = problem, .problem = *problem};
    int64_t *best = NULL;
    int *places = NULL;
    gp_status status = GP_NEW(&o.workers, problem->worker_count, err);
    if (status == GP_OK) status = GP_NEW(&o.kind, problem->worker_count, err);
    if (status == GP_OK) status = GP_NEW(&o.kind_of, problem->worker_count, err);
    if (status == GP_OK) status = GP_NEW(&o.best, problem->worker_count, err);
    if (status == GP_OK) status = GP_NEW(&o.layers, problem->stage_count, err);
    if (status == GP_OK) status = GP_NEW(&best, problem->stage_count, err);
    if (status == GP_OK) status = GP_NEW(&places, problem->worker_count, err);
    o.problem.workers = o.workers;
    if (status == GP_OK) status = try_all(&o, places, best, err);
    if (status == GP_OK) {
        place_workers(&o, o.best, order);
        memcpy(layers, best, (size_t)problem->stage_count * sizeof *layers);
        *out = o.least;
    }
    *count = o.count;
    free(o.workers);
    free(o.kind);
    free(o.kind_of);
    free(o.best);
    free(o.layers);
    free(best);
    free(places);
    return status;
}

/* ---- the devices of a plan --------------------------------------------------------------------------------------- */

static bool any_limit(const gp_balance_problem *problem) {
    for (int w = 0; w < problem->cut.worker_count; w++)
        if (problem->workers[w].memory > 0) return true;
    return false;
}

/* The schedule decides how many micro-batches each stage has in flight, so any plan tells. */
static gp_status add_memory(gp_balance_problem *problem, const gp_balance_request *request, const int64_t *layers,
                            gp_error *err) {
    gp_plan_request now = request->plan;
    gp_plan *plan = NULL;
    now.layers = layers;
    GP_RETURN_IF_FAILED(gp_plan_create(&now, &plan, err));
    gp_status status = gp_balance_problem_add_memory(problem, request, plan, err);
    gp_plan_destroy(&plan);
    return status;
}

static gp_status find(gp_balance_problem *problem, const gp_balance_request *request, int64_t *layers, int *order,
                      gp_device_order *out, gp_error *err) {
    gp_cut_result given, least;
    gp_error why = {0};
    for (int w = 0; w < problem->cut.worker_count; w++) order[w] = w;
    GP_RETURN_IF_FAILED(gp_cut_solve(&problem->cut, layers, &given, err));
    if (any_limit(problem) && problem->cut.layer_count <= GP_MAX_STAGES) {
        GP_RETURN_IF_FAILED(add_memory(problem, request, layers, err));
        gp_status alone = gp_cut_solve(&problem->cut, layers, &given, &why);
        if (alone != GP_OK) given.bottleneck = -1;
        if (alone != GP_OK && alone != GP_CONFIG) {
            *err = why;
            return alone;
        }
    }
    gp_status status = gp_device_order_solve(&problem->cut, order, layers, &out->count, &least, &why);
    if (status == GP_CONFIG && out->count <= GP_DEVICE_ORDERS) return GP_OK;
    if (status != GP_OK) {
        *err = why;
        return status;
    }
    out->given = given.bottleneck;
    out->least = least.bottleneck;
    return GP_OK;
}

gp_status gp_device_order_find(const gp_balance_request *request, int *order, gp_device_order *out, gp_error *err) {
    gp_balance_problem problem;
    int64_t *layers = NULL;
    *out = (gp_device_order){0, -1, -1};
    if (request->stage_layers)
        return gp_fail(err, GP_USAGE,
                       "--orders: the stages have different checkpoint modes, for the configured order of the "
                       "devices; give one mode for all stages (pipeline.checkpoint)");
    GP_RETURN_IF_FAILED(gp_balance_problem_init(&problem, request, err));
    gp_status status = GP_NEW(&layers, problem.cut.stage_count, err);
    if (status == GP_OK) status = find(&problem, request, layers, order, out, err);
    free(layers);
    gp_balance_problem_fini(&problem);
    return status;
}
