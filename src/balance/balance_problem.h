/* The solver's problem of a graph on the devices of a plan. Part of gp_balance_find.
 *
 * Owns all arrays but the request's, which it borrows. One thread. */
#ifndef GP_BALANCE_BALANCE_PROBLEM_H
#define GP_BALANCE_BALANCE_PROBLEM_H

#include "balance/balance.h"

typedef struct gp_balance_problem {
    gp_cut_problem cut;
    const char **names;
    gp_cut_value *values;
    int *users;
    gp_cut_kind *kinds;
    int64_t *copies;
    gp_cut_worker *workers;
    char (*worker_names)[32];
    gp_cut_stage *stages;
    int *stage_kinds;
    gp_cut_bytes *bytes;
} gp_balance_problem;

GP_MUST_USE gp_status gp_balance_problem_init(gp_balance_problem *problem, const gp_balance_request *request,
                                              gp_error *err);
void gp_balance_problem_fini(gp_balance_problem *problem);
/* Has the solver look at memory: fills bytes, and what is alive from the plan's slots. */
GP_MUST_USE gp_status gp_balance_problem_add_memory(gp_balance_problem *problem, const gp_balance_request *request,
                                                    const gp_plan *plan, gp_error *err);

#endif
