/* Cuts a sequence of layers into stages for unequal devices: exact, as pure functions on arrays of numbers.
 *
 * The bottleneck of a cut is its most expensive stage. The solver finds the least bottleneck of all cuts that fit their
 * devices' memory and keep the rules (docs/balance.md has the method). Any thread. */
#ifndef GP_CUT_CUT_H
#define GP_CUT_CUT_H

#include "cut/cut_problem.h"
#include "base/status.h"

/* layers[s] ≥ 1 for each stage, so that the bottleneck is the least possible. Among the cuts that reach it: the one
 * whose stages, first to last, come as near as they can to an equal share of what is left (the layers left, over the
 * devices left according to their speeds; in whole units), counting as distance also what the values alive behind the
 * stage cost to copy to the next; of those equally near, the one nearest to an equal share of the layers that are left.
 *
 * Where a worker has several stages, this is exact for the dearest stage with a whole worker's memory for each; from
 * there cuts are moved, one or two in a row, until no move makes the dearest worker concerned cheaper, or what does not
 * fit smaller.
 *
 * GP_CONFIG where no cut is possible: the sentence says which layers or devices stand against it, and by how many
 * bytes. GP_UNSUPPORTED where costs or bytes together exceed an int64. */
GP_MUST_USE gp_status gp_cut_solve(const gp_cut_problem *problem, int64_t *layers, gp_cut_result *out, gp_error *err);

/* The same for a list of costs, of equal devices without limits. */
GP_MUST_USE gp_status gp_cut_list(const int64_t *cost, int count, int stages, int64_t *layers, gp_error *err);

/* numbers[stage] of any cut, rules or not. */
GP_MUST_USE gp_status gp_cut_measure(const gp_cut_problem *problem, const int64_t *layers, gp_cut_numbers *numbers,
                                     gp_error *err);

#endif
