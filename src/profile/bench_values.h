/* Inside the room: the values in a bench's memory, and where an op finds its operands.
 *
 * Borrows the bench; one thread. */
#ifndef GP_PROFILE_BENCH_VALUES_H
#define GP_PROFILE_BENCH_VALUES_H

#include "profile/bench.h"

/* Binds an op to its addresses in the arena. */
void gp_bench_bind(const gp_bench *bench, int stage, const gp_exec_op *op, gp_device_op *out);
/* Fills the arena as in training: parameters, what enters the stage, gradients that arrive. */
GP_MUST_USE gp_status gp_bench_load(gp_bench *bench, int stage, gp_error *err);

#endif
