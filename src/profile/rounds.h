/* Inside the room: rounds over benches, until the medians are known well enough or the time is over.
 *
 * Devices of the host share processors, caches and memory. If they work at the same time in training, they do so here:
 * each such bench has a thread. The last benches are *company*: they work as long as others are timed, and their times
 * are not read. All other benches take turns in the calling thread, so that a disturbance affects all of them. Each
 * thread spins as the calling one does (gp_wait_spin). Borrows the benches; blocks. */
#ifndef GP_PROFILE_ROUNDS_H
#define GP_PROFILE_ROUNDS_H

#include "profile/bench.h"

/* The width of the medians (bench.h) that ends the rounds early. */
#define GP_MEASURE_NARROW 0.02
/* How many times as long they may take if a time stands out (gp_bench_medians). */
#define GP_MEASURE_OUTLIERS 1.5
/* The fewest rounds: if time is left; if three times the time is not over. Else one. */
enum { GP_MEASURE_ROUNDS = 8, GP_MEASURE_FEW_ROUNDS = 5 };

/* The first benches are those of the request's devices; the others, up to `count`, are company. The time began at
 * `from` of the request's clock. Sets rounds and width. The first failure ends all; GP_MEMORY if a thread cannot be
 * started. */
GP_MUST_USE gp_status gp_rounds_run(const gp_measure_request *request, gp_bench *benches, int count, uint64_t from,
                                    gp_measured *out, gp_error *err);

#endif
