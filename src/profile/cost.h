/* What a layer costs, counted from its ops: if no profile fits, the costs for `balance: auto` and the predicted time of
 * --plan; and the costs for `balance: size`. Pure; any thread. */
#ifndef GP_PROFILE_COST_H
#define GP_PROFILE_COST_H

#include <stdint.h>

#include "base/status.h"
#include "device/op.h"
#include "model/graph.h"
#include "profile/rates.h"

/* cost[i] in picoseconds of layer i (graph->layer_count of them; the loss is added to the last) for one micro-batch of
 * `samples`, forward, backward and `recomputes` times forward again, on one thread; without what no training needs
 * (gradients of the input). The sum fits an int64 (GP_UNSUPPORTED where it does not); GP_CONFIG with its place for what
 * a layer refuses. */
GP_MUST_USE gp_status gp_cost_by_time(const gp_graph *graph, int64_t samples, double recomputes, int64_t *cost,
                                      gp_error *err);
/* The same on a device of these rates. */
GP_MUST_USE gp_status gp_cost_at_rates(const gp_graph *graph, int64_t samples, double recomputes, const gp_rates *rates,
                                       int64_t *cost, gp_error *err);
/* cost[i] in bytes: the value that layer i makes for one micro-batch, and its parameters times what training keeps of
 * each (itself, gradient, optimizer states; of buffers and frozen ones themselves alone); torchgpipe's balance by size.
 * The sum fits an int64, as above. */
GP_MUST_USE gp_status gp_cost_by_size(const gp_graph *graph, int64_t samples, int optimizer_states, int64_t *cost,
                                      gp_error *err);

#endif
