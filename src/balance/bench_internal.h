/* What the files of the bench share: which routines a round runs, what lies in memory, where an op's operands are.
 *
 * For src/balance/bench*.c only; borrows the bench; one thread. */
#ifndef GP_BALANCE_BENCH_INTERNAL_H
#define GP_BALANCE_BENCH_INTERNAL_H

#include "balance/bench.h"

/* A run of a routine within a round. */
typedef struct gp_bench_routine {
    const gp_routine *routine;
    gp_sampled_pass pass;
    gp_when skipped; /* ops of that kind are left out; ALWAYS: none */
} gp_bench_routine;

enum { GP_BENCH_ROUTINES = 9 };
/* Those of a stage in the order of a round, what each needs being made before it: how many are returned. */
int gp_bench_routines(const gp_plan *plan, int stage, gp_bench_routine out[GP_BENCH_ROUTINES]);

/* Memory as it would be in training: parameters, what enters the stage, gradients that arrive. */
GP_MUST_USE gp_status gp_bench_load(gp_bench *bench, int stage, gp_error *err);
/* Ops of a stage, bound. */
void gp_bench_bind(const gp_bench *bench, int stage, const gp_exec_op *ops, size_t count, gp_device_op *out);

#endif
