/* Cuts a sequence of layers into stages for unequal devices: exact, as pure functions on arrays of numbers.
 *
 * The bottleneck of a cut is its most expensive stage. The solver finds the least bottleneck of all cuts that fit their
 * devices' memory and keep the rules (docs/balance.md has the method). Any thread. */
#ifndef GP_CUT_CUT_H
#define GP_CUT_CUT_H

#include "base/status.h"
#include "cut/cut_problem.h"

/* layers[s] ≥ 1 for each stage, so that the bottleneck, the most that a worker's stages cost together, is the least
 * possible. Among the cuts that reach it: the one whose stages, first to last, come as near as they can to an equal
 * share of what is left (the layers left, over the devices left according to their speeds; in whole units), counting as
 * distance also what the values alive behind the stage cost to copy to the next; of those equally near, the one nearest
 * to an equal share of the layers that are left.
 *
 * If a worker has several stages, the search has two steps. The first finds the least bottleneck of single stages, each
 * with the memory of a whole worker; it is exact. The second moves one or two neighbouring cuts at a time. It stops
 * when no move lowers the largest cost of the workers that it touches, or the bytes that do not fit.
 *
 * GP_CONFIG if no cut is possible: the sentence names the layers or devices that prevent it, and how many bytes are
 * missing. GP_UNSUPPORTED if the costs or the bytes add up to more than an int64. */
GP_MUST_USE gp_status gp_cut_solve(const gp_cut_problem *problem, int64_t *layers, int64_t *bottleneck, gp_error *err);

/* The same for a list of costs, of equal devices without limits. */
GP_MUST_USE gp_status gp_cut_list(const int64_t *cost, int count, int stages, int64_t *layers, gp_error *err);

/* numbers[stage] of any cut, rules or not. */
GP_MUST_USE gp_status gp_cut_measure(const gp_cut_problem *problem, const int64_t *layers, gp_cut_numbers *numbers,
                                     gp_error *err);

#endif
