/* Which instruction of a program surely ends before which other one begins: from the order within each queue and from
 * the waits that the plan names, and from nothing else.
 *
 * A clock for each chain of instructions that follow one another (Fidge 1988, Mattern 1989): a worker whose device does
 * at once what it is given has one chain, one with queues has four. What cannot begin at all is a deadlock.
 *
 * Borrows claim and program; owned by its creator; one thread makes it, any reads. */
#ifndef GP_CHECK_HAPPENS_H
#define GP_CHECK_HAPPENS_H

#include "check/claim.h"

typedef struct gp_happens {
    const gp_claim *claim;
    const gp_claim_program *program;
    size_t *first; /* [worker] number of its first instruction */
    int *chain_of; /* [worker] its first chain */
    size_t chains;
    uint32_t *clock; /* [number·chains + chain] instructions of the chain that have ended, this one included */
} gp_happens;

/* Waits besides those of the program. */
typedef struct gp_more_wait {
    gp_claim_wait after, before; /* `before` must have ended before `after` begins */
} gp_more_wait;

/* GP_PROGRAM for a deadlock, with the instructions that wait for one another. `more` is sorted by `after`. Without
 * `clocks` only the deadlock is looked for. */
GP_MUST_USE gp_status gp_happens_create(const gp_claim *claim, const gp_claim_program *program,
                                        const gp_more_wait *more, size_t more_count, bool clocks, gp_happens **out,
                                        gp_error *err);
void gp_happens_destroy(gp_happens **happens);
bool gp_happens_before(const gp_happens *happens, gp_claim_wait a, gp_claim_wait b);

#endif
