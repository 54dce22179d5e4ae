/* The best order of unequal devices: solves a cut for every order that differs.
 *
 * Touches no device. One thread. */
#ifndef GP_BALANCE_DEVICE_ORDER_H
#define GP_BALANCE_DEVICE_ORDER_H

#include "balance/balance_problem.h"

/* The most orders that are tried. Workers of one kind with equal memory are equal, and exchanging them changes nothing.
 */
enum { GP_DEVICE_ORDERS = 10000 };

/* gp_cut_solve (cut.h) for every order of the problem's workers. order[place] is the worker, as given, that the best
 * order has there; layers and *bottleneck are those of that order. Of equally good orders the given one comes first,
 * then the first by places. *count is how many orders differ, also on failure; INT64_MAX: too many to count. GP_CONFIG
 * as gp_cut_solve if no order has a cut, and for more than GP_DEVICE_ORDERS. */
GP_MUST_USE gp_status gp_device_order_solve(const gp_cut_problem *problem, int *order, int64_t *layers, int64_t *count,
                                            int64_t *bottleneck, gp_error *err);

typedef struct gp_device_order {
    int64_t count;        /* orders that differ */
    int64_t given, least; /* cost of the bottleneck stage, in the configured order and in the best; −1: no cut fits */
} gp_device_order;

/* order[worker] is the device, as the request has them, that the best order has there. The order stays if no order is
 * better, or if by the sizes of single layers nothing fits in any order. GP_CONFIG if rules allow no cut, and for more
 * than GP_DEVICE_ORDERS; GP_USAGE if stages have checkpoint modes of their own, which belong to the configured order.
 */
GP_MUST_USE gp_status gp_device_order_find(const gp_balance_request *request, int *order, gp_device_order *out,
                                           gp_error *err);

#endif
