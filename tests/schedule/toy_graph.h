/* Graphs for the tests of programs: a chain of layers, a loss, and skips. No layer behind the nodes: stages read the
 * values alone. Fails the running test where something cannot be made; main thread only. */
#ifndef TOY_GRAPH_H
#define TOY_GRAPH_H

#include "checkpoint/policy.h"
#include "schedule/program.h"
#include "schedule/schedules.h"

/* What layer `from` makes is an input of layer `to` too; from < to. */
typedef struct toy_skip {
    int from, to;
} toy_skip;

typedef struct toy {
    gp_graph graph;
    gp_stages *stages;
    int64_t piece, last; /* samples of micro-batches */
} toy;

/* balance[s] layers on stage s, which has replicas[s] replicas; they share out micro-batches of `piece` samples, and
 * the last one of `last`, and with `shards`, the optimizer. The value of layer i is 2 + i. */
void toy_init_shared(toy *t, const int64_t *balance, const int *replicas, bool shards, int stages,
                     const toy_skip *skips, int skip_count, int64_t piece, int64_t last);
/* Micro-batches of 12. */
void toy_init_replicated(toy *t, const int64_t *balance, const int *replicas, bool shards, int stages,
                         const toy_skip *skips, int skip_count);
/* One of each. */
void toy_init(toy *t, const int64_t *balance, int stages, const toy_skip *skips, int skip_count);
/* One layer per stage; with skips: from the first layer to two others and from the second to the last, where there are
 * that many. */
void toy_init_chain(toy *t, int stages, bool skips);
/* Training finds the norm of the gradients. */
void toy_add_norms(toy *t);
void toy_fini(toy *t);

typedef struct toy_run {
    int pieces;
    gp_checkpoint_mode checkpoint;
    bool lockstep, training;
} toy_run;

/* GPipe's programs without slots, and with. */
gp_programs *toy_schedule(const toy *t, toy_run run);
gp_programs *toy_programs(const toy *t, toy_run run);
/* Another schedule's, with slots. */
gp_programs *toy_programs_of(const toy *t, gp_schedule schedule, toy_run run);

/* Several stages per worker: 0 and 2 on worker 0, 1 and 3 on worker 1; one micro-batch after another, ascending,
 * keeping everything. t has 4 stages. */
gp_programs *toy_interleaved(const toy *t, int pieces);

/* Deterministic numbers for the tests that mutate: the next one below `bound`. */
uint32_t toy_random(uint64_t *state, uint32_t bound);

#endif
