#include <stdlib.h>

#include "balance/balance.h"
#include "balance/balance_problem.h"
#include "balance/cut_orders.h"
#include "base/memory.h"

static bool any_limit(const gp_balance_problem *problem) {
    for (int w = 0; w < problem->cut.worker_count; w++)
        if (problem->workers[w].memory > 0) return true;
    return false;
}

/* How many micro-batches are alive on each stage the schedule says, whatever stands there: any plan tells. */
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

static gp_status solve(gp_balance_problem *problem, const gp_balance_request *request, int64_t *layers, int *order,
                       gp_balance_order *out, gp_error *err) {
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
    gp_status status = gp_cut_solve_orders(&problem->cut, order, layers, &out->count, &least, &why);
    if (status == GP_CONFIG && out->count <= GP_CUT_MOST_ORDERS) return GP_OK;
    if (status != GP_OK) {
        *err = why;
        return status;
    }
    out->given = given.bottleneck;
    out->least = least.bottleneck;
    return GP_OK;
}

gp_status gp_balance_find_order(const gp_balance_request *request, int *order, gp_balance_order *out, gp_error *err) {
    gp_balance_problem problem;
    int64_t *layers = NULL;
    *out = (gp_balance_order){0, -1, -1};
    if (request->stage_layers)
        return gp_fail(err, GP_USAGE,
                       "--orders: the stages have different checkpoint modes, for the configured order of the "
                       "devices; give one mode for all stages (pipeline.checkpoint)");
    GP_RETURN_IF_FAILED(gp_balance_problem_init(&problem, request, err));
    gp_status status = GP_NEW(&layers, problem.cut.stage_count, err);
    if (status == GP_OK) status = solve(&problem, request, layers, order, out, err);
    free(layers);
    gp_balance_problem_fini(&problem);
    return status;
}
