#include "schedule/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "schedule/schedules.h"
#include "schedule/schedule_file.h"

static const struct {
    gp_order_generator generate;
    bool descending;
} kinds[] = {
    [GP_SCHEDULE_GPIPE] = {gp_order_gpipe, true},
    [GP_SCHEDULE_1F1B] = {gp_order_1f1b, false},
    [GP_SCHEDULE_INTERLEAVED] = {gp_order_interleaved, false},
    [GP_SCHEDULE_ZB_H1] = {gp_order_zb_h1, false},
    [GP_SCHEDULE_ZB_H2] = {gp_order_zb_h2, false},
    [GP_SCHEDULE_ZB_V] = {gp_order_zb_v, false},
};

const char *gp_schedule_kind_name(gp_schedule_kind kind) {
    static const char *const names[] = {
#define GP_SCHEDULE_NAME(suffix, name) name,
        GP_SCHEDULE_MAP(GP_SCHEDULE_NAME)
#undef GP_SCHEDULE_NAME
    };
    return names[kind];
}

int gp_schedule_stages(const gp_schedule *schedule, int workers) {
    switch (schedule->kind) {
    case GP_SCHEDULE_INTERLEAVED: return workers * schedule->chunks;
    case GP_SCHEDULE_ZB_V: return 2 * workers;
    case GP_SCHEDULE_FILE: return schedule->file->order->stages;
    default: return workers;
    }
}

void gp_schedule_place(const gp_schedule *schedule, int workers, int *worker_of_stage) {
    int stages = gp_schedule_stages(schedule, workers);
    for (int s = 0; s < stages; s++) {
        worker_of_stage[s] = s % workers;
        if (schedule->kind == GP_SCHEDULE_ZB_V && s >= workers) worker_of_stage[s] = stages - 1 - s;
        if (schedule->kind == GP_SCHEDULE_FILE) worker_of_stage[s] = schedule->file->order->worker_of_stage[s];
    }
}

int gp_schedule_workers(const gp_schedule *schedule, int stages) {
    switch (schedule->kind) {
    case GP_SCHEDULE_INTERLEAVED: return stages / schedule->chunks;
    case GP_SCHEDULE_ZB_V: return stages / 2;
    case GP_SCHEDULE_FILE: return schedule->file->order->workers;
    default: return stages;
    }
}

gp_status gp_order_create_empty(int workers, int stages, int pieces, bool descending, gp_order **out, gp_error *err) {
    gp_order *order = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&order, 1, err));
    *order = (gp_order){.workers = workers, .stages = stages, .pieces = pieces, .descending = descending};
    gp_status status = GP_NEW(&order->worker, workers, err);
    if (status == GP_OK) status = GP_NEW(&order->worker_of_stage, stages, err);
    if (status != GP_OK)
        gp_order_destroy(&order);
    else
        *out = order;
    return status;
}

void gp_order_destroy(gp_order **order) {
    gp_order *it = *order;
    if (!it) return;
    for (int w = 0; it->worker && w < it->workers; w++) {
        free(it->worker[w].tasks);
        free(it->worker[w].places);
    }
    free(it->worker);
    free(it->worker_of_stage);
    free(it);
    *order = NULL;
}

gp_status gp_order_add(gp_order *order, int worker, gp_task_op op, int stage, int micro, gp_error *err) {
    gp_worker_order *its = &order->worker[worker];
    GP_RETURN_IF_FAILED(GP_GROW(&its->tasks, &its->capacity, its->count + 1, err));
    its->tasks[its->count++] = (gp_task){(uint8_t)op, (uint16_t)stage, (uint16_t)micro, 0};
    return GP_OK;
}

/* A file's order, without the micro-batches that this mini-batch does not have. */
static gp_status copy_file(const gp_order *file, gp_order *order, gp_error *err) {
    for (int w = 0; w < file->workers; w++)
        for (size_t i = 0; i < file->worker[w].count; i++) {
            const gp_task *task = &file->worker[w].tasks[i];
            if (task->micro >= order->pieces) continue;
            GP_RETURN_IF_FAILED(gp_order_add(order, w, task->op, task->stage, task->micro, err));
        }
    return GP_OK;
}

gp_status gp_order_create(const gp_schedule *schedule, int workers, int pieces, gp_order **out, gp_error *err) {
    bool file = schedule->kind == GP_SCHEDULE_FILE;
    bool descending = file ? schedule->file->order->descending : kinds[schedule->kind].descending;
    gp_order *order = NULL;
    GP_RETURN_IF_FAILED(
        gp_order_create_empty(workers, gp_schedule_stages(schedule, workers), pieces, descending, &order, err));
    gp_schedule_place(schedule, workers, order->worker_of_stage);
    gp_status status = file ? copy_file(schedule->file->order, order, err) : kinds[schedule->kind].generate(order, err);
    if (status == GP_OK) status = gp_order_set_clocks(order, true, err);
    if (status != GP_OK)
        gp_order_destroy(&order);
    else
        *out = order;
    return status;
}

gp_status gp_order_keep_forwards(gp_order *order, gp_error *err) {
    for (int w = 0; w < order->workers; w++) {
        gp_worker_order *its = &order->worker[w];
        size_t kept = 0;
        for (size_t i = 0; i < its->count; i++)
            if (its->tasks[i].op == GP_TASK_FORWARD) its->tasks[kept++] = its->tasks[i];
        its->count = kept;
    }
    return gp_order_set_clocks(order, false, err);
}

uint32_t gp_order_clocks(const gp_order *order) {
    uint32_t last = 0;
    for (int w = 0; w < order->workers; w++) {
        const gp_worker_order *its = &order->worker[w];
        if (its->count && its->tasks[its->count - 1].clock > last) last = its->tasks[its->count - 1].clock;
    }
    return last + 1;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

/* The clock after forward, backward for inputs and backward for weights of a micro-batch on a stage; 0: not yet. */
typedef struct done {
    uint32_t forward, input, weight;
} done;

typedef struct clockmaker {
    gp_order *order;
    done *done;     /* [stage·pieces + micro] */
    size_t *next;   /* [worker] */
    int *backwards; /* [stage] micro-batches whose backward for inputs is done */
    int *weights;   /* [stage] likewise for weights */
    int *sleeper;   /* [worker] who sleeps until this one goes on, +1: a list through `after` */
    int *after;     /* [worker] the next in the list that it is in, +1 */
    int *awake;     /* workers that may go on: each is here, sleeps, or is at its end */
    int awake_count;
} clockmaker;

static done *done_of(const clockmaker *c, int stage, int micro) {
    return &c->done[(size_t)stage * (size_t)c->order->pieces + (size_t)micro];
}

static const char task_letters[] = {
#define GP_TASK_LETTER(suffix, letter) letter,
    GP_TASK_MAP(GP_TASK_LETTER)
#undef GP_TASK_LETTER
};

static gp_status refuse(const clockmaker *c, int worker, const gp_task *task, const char *why, gp_error *err) {
    const gp_worker_order *its = &c->order->worker[worker];
    gp_place place = its->places ? its->places[task - its->tasks] : (gp_place){0};
    char what[200];
    snprintf(what, sizeof what, "worker %d, %c%u of stage %u: %s", worker, task_letters[task->op], task->micro,
             task->stage, why);
    return place.line ? gp_fail_at(err, GP_PROGRAM, place, "%s", what) : gp_fail(err, GP_PROGRAM, "%s", what);
}

/* The clock after the other stage's task that it needs; 0 where that is not done, UINT32_MAX where it needs none. */
static uint32_t ready_at(const clockmaker *c, const gp_task *task) {
    int stage = task->stage, micro = task->micro;
    switch (task->op) {
    case GP_TASK_FORWARD: return stage == 0 ? UINT32_MAX : done_of(c, stage - 1, micro)->forward;
    case GP_TASK_BACKWARD:
    case GP_TASK_BACKWARD_INPUT:
        return stage == c->order->stages - 1 ? UINT32_MAX : done_of(c, stage + 1, micro)->input;
    default: return UINT32_MAX;
    }
}

static gp_status check_turn(clockmaker *c, int worker, const gp_task *task, int *taken, gp_error *err) {
    int next = c->order->descending ? c->order->pieces - 1 - *taken : *taken;
    (*taken)++;
    char why[120];
    if (task->micro == next) return GP_OK;
    snprintf(why, sizeof why, "comes too early: gradients add up in %s order of micro-batches, and %d is next",
             c->order->descending ? "descending" : "ascending", next);
    return refuse(c, worker, task, why, err);
}

static gp_status check_task(clockmaker *c, int worker, const gp_task *task, gp_error *err) {
    const done *its = done_of(c, task->stage, task->micro);
    switch (task->op) {
    case GP_TASK_FORWARD: return its->forward ? refuse(c, worker, task, "a second forward", err) : GP_OK;
    case GP_TASK_BACKWARD:
    case GP_TASK_BACKWARD_INPUT:
        if (its->input) return refuse(c, worker, task, "a second backward", err);
        if (!its->forward) return refuse(c, worker, task, "comes before its forward", err);
        return check_turn(c, worker, task, &c->backwards[task->stage], err);
    default:
        if (its->weight) return refuse(c, worker, task, "a second backward for weights", err);
        if (!its->input) return refuse(c, worker, task, "comes before its backward for inputs", err);
        return check_turn(c, worker, task, &c->weights[task->stage], err);
    }
}

static gp_status finish_task(clockmaker *c, int worker, gp_task *task, uint32_t clock, gp_error *err) {
    done *its = done_of(c, task->stage, task->micro);
    task->clock = clock;
    if (task->op == GP_TASK_FORWARD) its->forward = clock + 1;
    if (task->op == GP_TASK_BACKWARD || task->op == GP_TASK_BACKWARD_INPUT) its->input = clock + 1;
    if (task->op == GP_TASK_BACKWARD_WEIGHT) its->weight = clock + 1;
    if (task->op != GP_TASK_BACKWARD) return GP_OK;
    its->weight = clock + 1;
    return check_turn(c, worker, task, &c->weights[task->stage], err);
}

/* What is waited for in the worker's own order stands later there, and never comes. */
static void sleep_until(clockmaker *c, int worker, int other) {
    if (other == worker) return;
    c->after[worker] = c->sleeper[other];
    c->sleeper[other] = worker + 1;
}

static void wake_sleepers(clockmaker *c, int worker) {
    for (int w = c->sleeper[worker]; w; w = c->after[w - 1]) c->awake[c->awake_count++] = w - 1;
    c->sleeper[worker] = 0;
}

/* Until the worker's order ends, or it waits for another's task. */
static gp_status go_on(clockmaker *c, int worker, gp_error *err) {
    gp_worker_order *its = &c->order->worker[worker];
    size_t before = c->next[worker];
    for (; c->next[worker] < its->count; c->next[worker]++) {
        gp_task *task = &its->tasks[c->next[worker]];
        uint32_t clock = c->next[worker] ? its->tasks[c->next[worker] - 1].clock + 1 : 0;
        uint32_t ready = ready_at(c, task);
        if (ready == 0) {
            sleep_until(c, worker,
                        c->order->worker_of_stage[task->op == GP_TASK_FORWARD ? task->stage - 1 : task->stage + 1]);
            break;
        }
        if (ready != UINT32_MAX && ready > clock) clock = ready;
        GP_RETURN_IF_FAILED(check_task(c, worker, task, err));
        GP_RETURN_IF_FAILED(finish_task(c, worker, task, clock, err));
    }
    if (c->next[worker] > before) wake_sleepers(c, worker);
    return GP_OK;
}

/* Whether the order has what the task waits for at all, and if not, what that is. */
static gp_status check_exists(const clockmaker *c, int worker, const gp_task *task, gp_error *err) {
    bool forward = task->op == GP_TASK_FORWARD;
    int stage = forward ? task->stage - 1 : task->stage + 1;
    const gp_worker_order *there = &c->order->worker[c->order->worker_of_stage[stage]];
    char why[80];
    for (size_t i = 0; i < there->count; i++) {
        const gp_task *other = &there->tasks[i];
        bool is = forward ? other->op == GP_TASK_FORWARD
                          : other->op == GP_TASK_BACKWARD || other->op == GP_TASK_BACKWARD_INPUT;
        if (is && other->stage == stage && other->micro == task->micro) return GP_OK;
    }
    snprintf(why, sizeof why, "needs the %s of micro-batch %u on stage %d, which is missing",
             forward ? "forward" : "backward", task->micro, stage);
    return refuse(c, worker, task, why, err);
}

static gp_status say_what_lacks(const clockmaker *c, bool training, gp_error *err) {
    for (int w = 0; w < c->order->workers; w++)
        if (c->next[w] < c->order->worker[w].count)
            GP_RETURN_IF_FAILED(check_exists(c, w, &c->order->worker[w].tasks[c->next[w]], err));
    for (int w = 0; w < c->order->workers; w++)
        if (c->next[w] < c->order->worker[w].count)
            return refuse(c, w, &c->order->worker[w].tasks[c->next[w]],
                          "can never begin: it waits for a task that waits for it", err);
    for (int s = 0; s < c->order->stages; s++)
        for (int m = 0; m < c->order->pieces; m++) {
            const done *its = done_of(c, s, m);
            const char *lacks = !its->forward              ? "forward"
                                : training && !its->input  ? "backward"
                                : training && !its->weight ? "backward for weights"
                                                           : NULL;
            if (lacks) return gp_fail(err, GP_PROGRAM, "stage %d: micro-batch %d has no %s", s, m, lacks);
        }
    return GP_OK;
}

gp_status gp_order_set_clocks(gp_order *order, bool training, gp_error *err) {
    clockmaker c = {.order = order};
    gp_status status = GP_NEW(&c.done, (size_t)order->stages * (size_t)order->pieces, err);
    if (status == GP_OK) status = GP_NEW(&c.next, order->workers, err);
    if (status == GP_OK) status = GP_NEW(&c.sleeper, order->workers, err);
    if (status == GP_OK) status = GP_NEW(&c.after, order->workers, err);
    if (status == GP_OK) status = GP_NEW(&c.awake, order->workers, err);
    if (status == GP_OK) status = GP_NEW(&c.backwards, order->stages, err);
    if (status == GP_OK) status = GP_NEW(&c.weights, order->stages, err);
    for (int w = order->workers - 1; w >= 0 && status == GP_OK; w--) c.awake[c.awake_count++] = w;
    while (c.awake_count > 0 && status == GP_OK) status = go_on(&c, c.awake[--c.awake_count], err);
    if (status == GP_OK) status = say_what_lacks(&c, training, err);
    free(c.done);
    free(c.next);
    free(c.sleeper);
    free(c.after);
    free(c.awake);
    free(c.backwards);
    free(c.weights);
    return status;
}
