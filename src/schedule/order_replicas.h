/* The order of a file that names every replica, as the order of the stages.
 *
 * Replicas of a stage have the same tasks in the same order, so that one of them stands for all. One thread. */
#ifndef GP_SCHEDULE_ORDER_REPLICAS_H
#define GP_SCHEDULE_ORDER_REPLICAS_H

#include "schedule/order.h"

/* How many replicas each worker of a schedule has. NULL: one each. */
typedef struct gp_replicas {
    const int *of; /* [workers] */
    int workers;
} gp_replicas;

/* All replicas together. */
int gp_replicas_count(const gp_replicas *replicas);
/* Whether something for so many workers is for each replica, and not for each worker of the schedule. */
bool gp_replicas_are_named(const gp_replicas *replicas, int workers);

/* An order for each replica becomes one for each worker of the schedule; clocks are not looked at. Another one stays.
 * GP_PROGRAM, with the place of a task that has one, if replicas differ, or if their stages do not stand together, from
 * the first replica to the last. */
GP_MUST_USE gp_status gp_order_fold_replicas(gp_order *order, const gp_replicas *replicas, gp_error *err);

#endif
