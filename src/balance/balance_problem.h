/* The solver's problem (cut_problem.h) of a graph on the devices of a plan.
 *
 * Owns all arrays but the request's, which it borrows. One thread. */
#ifndef GP_BALANCE_BALANCE_PROBLEM_H
#define GP_BALANCE_BALANCE_PROBLEM_H

#include "cut/cut_problem.h"
#include "plan/plan.h"

/* What a worker's device makes of a micro-batch. */
typedef struct gp_balance_device {
    const int64_t *layers; /* [layer] picoseconds: forward, backward, recomputing as often as the checkpoint mode asks;
                              or any other cost, in units of its own. Equal devices share the array */
    double copy_latency, copy_per_byte; /* of a copy to it, in the same units */
    double load_latency, load_per_byte; /* of input and targets, from the host */
    int64_t samples;                    /* of a full micro-batch: its share */
} gp_balance_device;

typedef struct gp_balance_request {
    gp_plan_request plan;             /* all but `layers` */
    const gp_balance_device *devices; /* [worker] */
    /* [stage] layers in place of its device's, where checkpoint modes differ; equal ones share the array. NULL: none */
    const int64_t *const *stage_layers;
    const gp_cut_rule *rules; /* [layer]; NULL: all free */
} gp_balance_request;

typedef struct gp_balance_problem {
    gp_cut_problem cut;
    const char **names;
    gp_cut_value *values;
    int *users;
    gp_cut_kind *kinds;
    int64_t *copies;
    gp_cut_worker *workers;
    gp_cut_stage *stages;
    int *stage_kinds;
    int *kind_workers;   /* [kind] a worker of that kind */
    gp_cut_bytes *bytes; /* [kind][layer] */
} gp_balance_problem;

GP_MUST_USE gp_status gp_balance_problem_init(gp_balance_problem *problem, const gp_balance_request *request,
                                              gp_error *err);
void gp_balance_problem_fini(gp_balance_problem *problem);
/* Has the solver look at memory: fills bytes, and what is alive from the plan's slots. */
GP_MUST_USE gp_status gp_balance_problem_add_memory(gp_balance_problem *problem, const gp_balance_request *request,
                                                    const gp_plan *plan, gp_error *err);

#endif
