/* Inside the room: rounds over benches, until the medians are known narrowly enough or the time is over.
 *
 * Devices of the host share processors, caches and memory: where they work at the same time in training, they do so
 * here, each bench in a thread of its own. Some are *company*: they work as long as others are timed, and nothing is
 * read off them. All other benches take turns in the calling thread, so that a noisy neighbour hits all alike. Borrows
 * the benches; blocks. */
#ifndef GP_BALANCE_ROUNDS_H
#define GP_BALANCE_ROUNDS_H

#include "balance/bench.h"

/* Half the width of the 95 % intervals, by the sum of the medians, that ends it early. */
#define GP_MEASURE_NARROW 0.02
/* Rounds at least: where the time is over, where three times the time is over, 1. */
enum { GP_MEASURE_ROUNDS = 8, GP_MEASURE_FEW_ROUNDS = 5 };

/* Told by the calling thread between ops: seconds since the time began, and the rounds that it has done. */
typedef struct gp_rounds_watch {
    void (*tell)(void *context, double seconds, int rounds); /* NULL: nothing is told */
    void *context;
} gp_rounds_watch;

typedef struct gp_rounds_request {
    gp_bench *benches;
    int count, timed; /* benches; the first so many are timed, the others are company */
    bool at_once;     /* those on the host, each in its thread */
    uint64_t from;    /* of the clock, when the time began */
    double seconds;   /* that it may take */
    uint64_t (*clock)(void);
    gp_rounds_watch watch;
} gp_rounds_request;

/* What came of it, beside the times: of the benches that are timed, the fewest rounds and the widest intervals. */
typedef struct gp_measured {
    int rounds;
    double seconds, width;
} gp_measured;

/* Sets rounds and width. The first failure ends all; GP_MEMORY where a thread cannot be started. */
GP_MUST_USE gp_status gp_rounds_run(const gp_rounds_request *request, gp_measured *out, gp_error *err);

#endif
