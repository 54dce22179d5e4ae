/* In which order the copies of an edge are sent and received, and how many are in flight.
 *
 * A copy is in flight from its send until the sender has waited for its receive. Each worker counts the copies of an
 * edge in the order of its program: a copy has a number among the sends, and one among the receives. Schedules send
 * micro-batches in rising or falling order; only programs of a file can have another order, which takes a table.
 *
 * Derived from a plan's programs and waits, pure; read-only after it is made, any thread. */
#ifndef GP_PLAN_COPY_ORDER_H
#define GP_PLAN_COPY_ORDER_H

#include "plan/plan.h"

/* Of one edge in one mini-batch, among its sends or among its receives. */
typedef struct gp_copy_order {
    bool falling;     /* the last micro-batch comes first */
    uint16_t *number; /* [micro] in any other order; NULL: rising or falling */
} gp_copy_order;

typedef struct gp_copy_orders {
    size_t edges;
    int minis, *pieces;   /* [mini] */
    gp_copy_order *order; /* [2·(mini·edges + edge)] of sends; the next one, of receives */
    uint16_t *in_flight;  /* [edge] copies at most, in any mini-batch */
    size_t bytes;         /* all that this takes */
} gp_copy_orders;

/* GP_MEMORY. */
GP_MUST_USE gp_status gp_copy_orders_create(const gp_plan *plan, gp_copy_orders **out, gp_error *err);
void gp_copy_orders_destroy(gp_copy_orders **orders);

/* The number of a micro-batch's copy, from 0. */
static inline uint16_t gp_copy_number(const gp_copy_orders *orders, int mini, uint32_t edge, bool received,
                                      uint16_t micro) {
    const gp_copy_order *order = &orders->order[2 * ((size_t)mini * orders->edges + edge) + received];
    if (order->number) return order->number[micro];
    return order->falling ? (uint16_t)(orders->pieces[mini] - 1 - micro) : micro;
}

#endif
