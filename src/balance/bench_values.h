/* Inside the room: the values in a bench's memory, and where an op finds its operands.
 *
 * Borrows the bench; one thread. */
#ifndef GP_BALANCE_BENCH_VALUES_H
#define GP_BALANCE_BENCH_VALUES_H

#include "balance/bench.h"

/* An op with its addresses in the arena. */
gp_device_op gp_bench_place(const gp_bench *bench, int stage, const gp_exec_op *op);
/* Fills the arena as in training: parameters, what enters the stage, gradients that arrive. */
GP_MUST_USE gp_status gp_bench_load(gp_bench *bench, int stage, gp_error *err);

#endif
