/* Runs the lowered passes of one layer on a device, op by op: no graph, no plan, memory for every role.
 *
 * A test sets values, runs passes and reads values, all as doubles in PyTorch's order (pictures [n,c,h,w]); the runner
 * converts to the device's order, type and formats of weights. Everything that a pass writes is poisoned with NaNs when
 * the runner is made. The caller owns the runner; main thread only, since every call fails the cmocka test that makes
 * it where something goes wrong.
 */
#ifndef TESTS_LAYERS_LOWERED_RUNNER_H
#define TESTS_LAYERS_LOWERED_RUNNER_H

#include <stdint.h>

#include "device/device.h"
#include "layers/layer.h"
#include "layers/lowering.h"

typedef struct lowered_runner lowered_runner;

typedef struct runner_options {
    const gp_device_kind *kind;
    gp_dtype real;
    const char *layer; /* YAML: "conv: {out: 3, kernel: 3}" */
    bool loss;
    const gp_shape *inputs;
    int input_count;
    int64_t samples; /* of a micro-batch */
    int64_t pieces;  /* micro-batches of the mini-batch, ≥ 1 */
    int64_t last;    /* samples of the last one, for COMMIT; 0: as the others */
} runner_options;

lowered_runner *runner_create(const runner_options *options);
void runner_destroy(lowered_runner **runner);

const gp_layer *runner_layer(const lowered_runner *runner);
const gp_lowering *runner_lowering(const lowered_runner *runner);
gp_step_scalars *runner_scalars(lowered_runner *runner); /* read by every op that runs later, updated by TOTAL */
void runner_set_first_sample(lowered_runner *runner, int64_t first_sample);
/* Which micro-batch's STATS the passes FORWARD, EVALUATE and BACKWARD use: 0 … pieces−1. */
void runner_set_piece(lowered_runner *runner, int64_t piece);

/* INPUT, OUTPUT, GRAD_INPUT, GRAD_OUTPUT, PARAM, GRAD_PARAM; and STATS of the piece that is set (in the order of
 * memory). */
int64_t runner_count(const lowered_runner *runner, gp_role role, int index);
void runner_set(lowered_runner *runner, gp_role role, int index, const double *values);
/* The caller frees it. */
double *runner_get(lowered_runner *runner, gp_role role, int index);

void runner_run(lowered_runner *runner, gp_pass pass);
/* FORWARD again without what runs once: what a recompute does. */
void runner_recompute(lowered_runner *runner);
/* Fills what FORWARD and BACKWARD write, statistics excepted, with NaNs. */
void runner_poison(lowered_runner *runner);

#endif
