/* In which order unequal devices should stand, where that is free: cuts for every order that differs.
 *
 * Pure; any thread. */
#ifndef GP_BALANCE_CUT_ORDERS_H
#define GP_BALANCE_CUT_ORDERS_H

#include "balance/cut.h"

/* Orders that differ; workers of one kind with as much memory are equal, and changing their places changes nothing. */
enum { GP_CUT_MOST_ORDERS = 10000 };

/* gp_cut_solve for every order of the problem's workers: order[w] is the worker, as given, that stands in place w,
 * layers and out are those of the order with the least bottleneck; the given order where it is as good, else the first
 * in the order of places. *count is how many orders differ, INT64_MAX: too many to count, also where it fails.
 * GP_CONFIG as gp_cut_solve where no order has a cut, and where there are more than GP_CUT_MOST_ORDERS. */
GP_MUST_USE gp_status gp_cut_solve_orders(const gp_cut_problem *problem, int *order, int64_t *layers, int64_t *count,
                                          gp_cut_result *out, gp_error *err);

#endif
