/* The balance of a plan: which layers stand on which stage, by what layers cost on each device, what copies cost, and
 * the memory that the plan takes.
 *
 * Makes problems for the solver (cut.h) and plans of what it finds: the plan, not the solver's estimate, says what
 * fits. Touches no device. One thread. */
#ifndef GP_BALANCE_BALANCE_H
#define GP_BALANCE_BALANCE_H

#include "balance/cut.h"
#include "pipeline/plan.h"

/* What a worker's device makes of a micro-batch. */
typedef struct gp_balance_device {
    const int64_t *layers; /* [layer] picoseconds: forward, backward, recomputing as often as the checkpoint mode asks;
                              or any other cost, in units of its own. Equal devices share the array */
    double copy_latency, copy_per_byte; /* of a copy to it, in the same units */
    double load_latency, load_per_byte; /* of input and targets, from the host */
} gp_balance_device;

typedef struct gp_balance_request {
    gp_plan_request plan;             /* all but `layers` */
    const gp_balance_device *devices; /* [worker] */
    /* [stage] layers in place of its device's, where checkpoint modes differ; equal ones share the array. NULL: none */
    const int64_t *const *stage_layers;
    const gp_cut_rule *rules; /* [layer]; NULL: all free */
} gp_balance_request;

typedef struct gp_balance {
    gp_cut_result cut;
    gp_cut_numbers *numbers;     /* [stage]; bytes and transient only where memory was looked at; owned */
    bool fits;                   /* the plan keeps within the memory of its devices */
    char missing[GP_ERROR_TEXT]; /* what the solver says of why none was found that does; "": nothing */
} gp_balance;

/* layers[stage], as gp_cut_solve documents, and the plan of that cut; the plan of the one that came nearest to fitting
 * where none was found that does. The first cut is the best without regard to memory: where its plan fits, that is all.
 * Else the solver looks at memory too, in layers' bytes as plans of single layers have them and with as many
 * micro-batches alive as the first plan has; it is corrected by what the plans of its cuts take, a few times.
 * GP_CONFIG where rules allow no cut, and as gp_plan_create. */
GP_MUST_USE gp_status gp_balance_find(const gp_balance_request *request, int64_t *layers, gp_plan **plan,
                                      gp_balance *out, gp_error *err);
void gp_balance_fini(gp_balance *balance);

/* What finding an order came to. */
typedef struct gp_balance_order {
    int64_t count;        /* orders that differ */
    int64_t given, least; /* the dearest stage as the devices stood, and in the order found; -1: no cut fits */
} gp_balance_order;

/* order[worker] is the device, as the request has them, that should stand there, so that the dearest stage is cheapest;
 * as they stand where nothing is better, or where by the sizes of single layers nothing fits in any order. GP_CONFIG
 * where rules allow no cut, and for more than GP_CUT_MOST_ORDERS orders (cut_orders.h); GP_USAGE where stages have
 * checkpoint modes of their own, which would have to go with the devices. */
GP_MUST_USE gp_status gp_balance_find_order(const gp_balance_request *request, int *order, gp_balance_order *out,
                                            gp_error *err);

#endif
