/* Orders: what each worker computes in one mini-batch, and in which order. No copies, no memory, no model.
 *
 * A schedule makes an order (schedule/schedules.h); programs are made of it (schedule/emit.h). Plain data owned by its
 * creator; functions are pure.
 */
#ifndef GP_SCHEDULE_ORDER_H
#define GP_SCHEDULE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

enum {
    GP_MAX_STAGES = 4096, /* = workers for now */
    GP_MAX_MICRO_BATCHES = 4096,
    GP_MAX_PLANNED = 1 << 23, /* stages times micro-batches of a plan or a simulation: some GiB */
};

/* Of a stage and micro-batch there is a forward, and either a backward or one for inputs and, later, one for weights.
 */
typedef enum gp_task_op {
    GP_TASK_FORWARD,
    GP_TASK_BACKWARD,        /* for inputs and weights */
    GP_TASK_BACKWARD_INPUT,  /* what stages before wait for */
    GP_TASK_BACKWARD_WEIGHT, /* only the step waits for it */
    GP_TASK_OPS
} gp_task_op;
/* In the text form, by gp_task_op. */
#define GP_TASK_LETTERS "FBIW"
/* GP_TASK_OPS: no task has that letter. */
static inline gp_task_op gp_task_named(char letter) {
    return (gp_task_op)strcspn(GP_TASK_LETTERS, (char[]){letter, '\0'});
}

typedef struct gp_task {
    uint8_t op; /* gp_task_op */
    uint16_t stage;
    uint16_t micro; /* micro-batch */
    uint32_t clock; /* the earliest there can be, each task taking one clock */
} gp_task;

typedef struct gp_worker_order {
    gp_task *tasks;
    size_t count, capacity;
    gp_place *places; /* of as many tasks in the text that they were read from; NULL: from none */
} gp_worker_order;

typedef struct gp_order {
    int workers;
    gp_worker_order *worker;
    int stages;
    int *worker_of_stage;
    int pieces;      /* micro-batches */
    bool descending; /* order in which backward takes micro-batches, the same on every stage */
} gp_order;

/* Without tasks; places of stages are all 0. The caller destroys it after a failure, too. */
GP_MUST_USE gp_status gp_order_create(int workers, int stages, int pieces, bool descending, gp_order **out,
                                      gp_error *err);
void gp_order_destroy(gp_order **order);
/* Keeps the forwards only, for an evaluation, and sets their clocks. */
GP_MUST_USE gp_status gp_order_keep_forwards(gp_order *order, gp_error *err);

GP_MUST_USE gp_status gp_order_add(gp_order *order, int worker, gp_task_op op, int stage, int micro, gp_error *err);
/* Checks that every stage and micro-batch has its tasks once, backward in the declared order, and sets the clocks.
 * GP_PROGRAM with the sentence where not, or where tasks wait for one another in a circle. */
GP_MUST_USE gp_status gp_order_set_clocks(gp_order *order, bool training, gp_error *err);
uint32_t gp_order_clocks(const gp_order *order); /* the last clock + 1 */

/* ---- orders that name replicas ------------------------------------------------------------------------------------
 */

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
