/* What a layer costs, counted from its ops: until a profile exists, the numbers that `balance: auto` and `size` and the
 * expected time of --plan stand on. Pure; any thread. */
#ifndef GP_BALANCE_COST_H
#define GP_BALANCE_COST_H

#include <stdint.h>

#include "base/status.h"
#include "device/op.h"
#include "model/graph.h"
#include "pipeline/plan.h"

/* The rates that counted costs assume of one CPU thread: a figure for comparisons between layers, not a promise. */
#define GP_COUNTED_FLOPS_PER_SECOND 5e10
#define GP_COUNTED_BYTES_PER_SECOND 5e9

/* Seconds of an op that makes `flops` and moves `bytes`, on `threads` threads: the slower of the two, as a roofline
 * (Williams, Waterman, Patterson 2009). */
double gp_counted_seconds(double flops, double bytes, int threads);

/* cost[i] in picoseconds of layer i (graph->layer_count of them; the loss is added to the last) for one micro-batch of
 * `samples`, forward and backward, on one thread; without what no training needs (gradients of the input). The sum fits
 * an int64 (GP_UNSUPPORTED where it does not); GP_CONFIG with its place for what a layer refuses. */
GP_MUST_USE gp_status gp_cost_by_time(const gp_graph *graph, int64_t samples, int64_t *cost, gp_error *err);
/* cost[i] in bytes: the value that layer i makes for one micro-batch, and its parameters times what training keeps of
 * each (itself, gradient, optimizer states; of buffers and frozen ones themselves alone); torchgpipe's balance by size.
 * The sum fits an int64, as above. */
GP_MUST_USE gp_status gp_cost_by_size(const gp_graph *graph, int64_t samples, int optimizer_states, int64_t *cost,
                                      gp_error *err);

/* A mini-batch of a plan, played in counted costs: computations take the sum of their ops; loads and copies, at the
 * receiver, their bytes at GP_COUNTED_BYTES_PER_SECOND; sends and barriers nothing. */
typedef struct gp_expectation {
    double seconds; /* of the step */
    double bubble;  /* share of workers' time in which they compute nothing */
    double *busy;   /* [worker] seconds of computing; the caller frees it */
} gp_expectation;
/* `mini`: index in plan->minis. */
GP_MUST_USE gp_status gp_expect(const gp_plan *plan, int mini, gp_expectation *out, gp_error *err);

#endif
