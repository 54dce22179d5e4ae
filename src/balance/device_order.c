#include "balance/device_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cut/cut.h"
#include "cut/cut_search.h"

typedef struct orders {
    const gp_cut_problem *given;
    gp_cut_problem problem; /* with its workers in the current order */
    gp_cut_worker *workers; /* of it */
    int *kind_of;           /* [worker as given] the first worker that is equal to it */
    bool *placed;           /* [worker as given] */
    int *order;             /* [place] worker as given */
    int64_t *layers;        /* of the current order */
    int *best_order;        /* of the best order so far; of no meaning unless found */
    int64_t *best_layers;
    bool found;
    int64_t least; /* its bottleneck */
    gp_error why;  /* what the first order without a cut said */
} orders;

/* How many orders differ; INT64_MAX: too many to count. *kinds: of workers. */
static int64_t count_orders(const orders *o, int *kinds) {
    int64_t product = 1;
    *kinds = 0;
    for (int w = 0; w < o->given->worker_count; w++) {
        int equal = 1; /* up to this one */
        for (int v = 0; v < w; v++) equal += o->kind_of[v] == o->kind_of[w];
        *kinds += equal == 1;
        /* A multinomial coefficient, worker by worker: each product is divisible. */
        bool counts = product < INT64_MAX && gp_int64_mul(product, w + 1, &product);
        product = counts ? product / equal : INT64_MAX;
    }
    return product;
}

/* Whether some cut of the current order is below the best so far. Unknown if workers have several stages: true. */
static gp_status may_be_better(const orders *o, bool *out, gp_error *err) {
    gp_span_index index;
    gp_cut_search search;
    gp_cut_short missing;
    *out = true;
    if (!o->found || gp_cut_shares_workers(&o->problem)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_span_index_init(&index, &o->problem, err));
    gp_status status = gp_cut_search_init(&search, &index, err);
    if (status == GP_OK) {
        *out = o->least > 0 && gp_cut_search_run(&search, o->least - 1, &missing);
        gp_cut_search_fini(&search);
    }
    gp_span_index_fini(&index);
    return status;
}

/* An order without a cut is passed over. */
static gp_status try_order(orders *o, gp_error *err) {
    int workers = o->given->worker_count;
    int64_t bottleneck;
    gp_error cause = {0};
    bool better;
    for (int w = 0; w < workers; w++) o->workers[w] = o->given->workers[o->order[w]];
    GP_RETURN_IF_FAILED(may_be_better(o, &better, err));
    if (!better) return GP_OK;
    gp_status status = gp_cut_solve(&o->problem, o->layers, &bottleneck, &cause);
    if (status != GP_OK && o->why.status == GP_OK) o->why = cause;
    if (status == GP_CONFIG) return GP_OK;
    if (status != GP_OK) {
        if (err) *err = cause;
        return status;
    }
    if (o->found && bottleneck >= o->least) return GP_OK;
    o->found = true;
    o->least = bottleneck;
    memcpy(o->best_order, o->order, (size_t)workers * sizeof *o->best_order);
    memcpy(o->best_layers, o->layers, (size_t)o->given->stage_count * sizeof *o->best_layers);
    return GP_OK;
}

/* Every order of the workers that are left, from `place` on. Of equal workers the first that is left comes next. */
static gp_status try_places(orders *o, int place, gp_error *err) {
    if (place == o->given->worker_count) return try_order(o, err);
    for (int kind = 0; kind < o->given->worker_count; kind++) {
        int w = kind;
        if (o->kind_of[kind] != kind) continue;
        while (w < o->given->worker_count && (o->placed[w] || o->kind_of[w] != kind)) w++;
        if (w == o->given->worker_count) continue;
        o->placed[w] = true;
        o->order[place] = w;
        GP_RETURN_IF_FAILED(try_places(o, place + 1, err));
        o->placed[w] = false;
    }
    return GP_OK;
}

static gp_status try_all(orders *o, int64_t *count, gp_error *err) {
    const gp_cut_worker *given = o->given->workers;
    int workers = o->given->worker_count, kinds;
    for (int w = 0; w < workers; w++) {
        int *kind = &o->kind_of[w];
        while (given[*kind].kind != given[w].kind || given[*kind].memory != given[w].memory) ++*kind;
        o->order[w] = w;
    }
    *count = count_orders(o, &kinds);
    if (*count > GP_DEVICE_ORDERS)
        return gp_fail(err, GP_CONFIG,
                       "balance: %d devices of %d kinds have more orders than the %d that --orders can try", workers,
                       kinds, (int)GP_DEVICE_ORDERS);
    GP_RETURN_IF_FAILED(try_order(o, err)); /* as given: of equally good orders the first one stays */
    GP_RETURN_IF_FAILED(try_places(o, 0, err));
    if (o->found) return GP_OK;
    if (err) *err = o->why;
    return o->why.status;
}

gp_status gp_device_order_solve(const gp_cut_problem *problem, int *order, int64_t *layers, int64_t *count,
                                int64_t *bottleneck, gp_error *err) {
    orders o = {.given = problem, .problem = *problem};
    int *numbers = NULL;
    int64_t *cuts = NULL;
    size_t workers = (size_t)problem->worker_count, stages = (size_t)problem->stage_count;
    *count = 0;
    gp_status status = GP_NEW(&o.workers, workers, err);
    if (status == GP_OK) status = GP_NEW(&o.placed, workers, err);
    if (status == GP_OK) status = GP_NEW(&numbers, 3 * workers, err);
    if (status == GP_OK) status = GP_NEW(&cuts, 2 * stages, err);
    if (status == GP_OK) {
        o.problem.workers = o.workers;
        o.kind_of = numbers;
        o.order = numbers + workers;
        o.best_order = numbers + 2 * workers;
        o.layers = cuts;
        o.best_layers = cuts + stages;
        status = try_all(&o, count, err);
    }
    if (status == GP_OK) {
        memcpy(order, o.best_order, workers * sizeof *order);
        memcpy(layers, o.best_layers, stages * sizeof *layers);
        *bottleneck = o.least;
    }
    free(o.workers);
    free(o.placed);
    free(numbers);
    free(cuts);
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
    int64_t given, least;
    gp_error why = {0};
    for (int w = 0; w < problem->cut.worker_count; w++) order[w] = w;
    GP_RETURN_IF_FAILED(gp_cut_solve(&problem->cut, layers, &given, err));
    if (any_limit(problem) && problem->cut.layer_count <= GP_MAX_STAGES) {
        GP_RETURN_IF_FAILED(add_memory(problem, request, layers, err));
        gp_status alone = gp_cut_solve(&problem->cut, layers, &given, &why);
        if (alone != GP_OK) given = -1;
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
    out->given = given;
    out->least = least;
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
