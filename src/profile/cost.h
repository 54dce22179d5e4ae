/* What a layer costs, counted from its ops: if no profile fits, the costs for `balance: auto` and the predicted time of
 * --plan; and the costs for `balance: size`. Pure; any thread. */
#ifndef GP_PROFILE_COST_H
#define GP_PROFILE_COST_H

#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "model/graph.h"
#include "profile/rates.h"

typedef struct gp_cost_request {
    const gp_graph *graph;
    int64_t samples;            /* of a micro-batch */
    double recomputes;          /* how many times forward is computed again */
    double updates;             /* of the parameters, for each micro-batch: one over their number; 0: not counted */
    int optimizer_states;       /* of a parameter, that an update reads and writes */
    const gp_device_kind *kind; /* its efforts count; NULL: any device's, 1 */
    int threads;                /* of the device, ≥ 1 */
    gp_rates rates;             /* with these threads */
} gp_cost_request;

/* One forward and one backward on one thread of any device, at assumed rates. */
gp_cost_request gp_cost_assumed(const gp_graph *graph, int64_t samples);
/* cost[i]: what layer i takes for one micro-batch, in picoseconds; graph->layer_count of them, and the loss is added to
 * the last. It counts the forward and the backward pass, and recomputes and updates if the request has them. Gradients
 * that nothing reads are not counted. GP_UNSUPPORTED if the sum does not fit an int64; GP_CONFIG, with the place, for
 * what a layer refuses. */
GP_MUST_USE gp_status gp_cost_by_time(const gp_cost_request *request, int64_t *cost, gp_error *err);
/* cost[i] in bytes: the value that layer i makes for one micro-batch, and its parameters times what training keeps of
 * each (itself, gradient, optimizer states; of buffers and frozen ones themselves alone); torchgpipe's balance by size.
 * The sum fits an int64, as above. */
GP_MUST_USE gp_status gp_cost_by_size(const gp_graph *graph, int64_t samples, int optimizer_states, int64_t *cost,
                                      gp_error *err);

#endif
