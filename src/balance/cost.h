/* What a layer costs, counted from its ops: where no profile fits, the numbers that `balance: auto` and the expected
 * time of --plan stand on; and those of `balance: size`. Pure; any thread. */
#ifndef GP_BALANCE_COST_H
#define GP_BALANCE_COST_H

#include <stdint.h>

#include "base/status.h"
#include "device/op.h"
#include "model/graph.h"

/* The rates that counted costs assume of one CPU thread: a figure for comparisons between layers, not a promise. */
#define GP_COUNTED_FLOPS_PER_SECOND 5e10
#define GP_COUNTED_BYTES_PER_SECOND 5e9

/* Seconds of an op that makes `flops` and moves `bytes`, on `threads` threads: the slower of the two, as a roofline
 * (Williams, Waterman, Patterson 2009). */
double gp_counted_seconds(double flops, double bytes, int threads);

/* cost[i] in picoseconds of layer i (graph->layer_count of them; the loss is added to the last) for one micro-batch of
 * `samples`, forward, backward and `recomputes` times forward again, on one thread; without what no training needs
 * (gradients of the input). The sum fits an int64 (GP_UNSUPPORTED where it does not); GP_CONFIG with its place for what
 * a layer refuses. */
GP_MUST_USE gp_status gp_cost_by_time(const gp_graph *graph, int64_t samples, double recomputes, int64_t *cost,
                                      gp_error *err);
/* cost[i] in bytes: the value that layer i makes for one micro-batch, and its parameters times what training keeps of
 * each (itself, gradient, optimizer states; of buffers and frozen ones themselves alone); torchgpipe's balance by size.
 * The sum fits an int64, as above. */
GP_MUST_USE gp_status gp_cost_by_size(const gp_graph *graph, int64_t samples, int optimizer_states, int64_t *cost,
                                      gp_error *err);

#endif
