#include "schedule/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

gp_status gp_order_create(int workers, int stages, int pieces, bool descending, gp_order **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(out, 1, err));
    **out = (gp_order){.workers = workers, .stages = stages, .pieces = pieces, .descending = descending};
    GP_RETURN_IF_FAILED(GP_NEW(&(*out)->worker, workers, err));
    return GP_NEW(&(*out)->worker_of_stage, stages, err);
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

/* The clock after forward, backward for inputs and backward for weights of a micro-batch on a stage; 0: not yet. */
typedef struct done {
    uint32_t forward, input, weight;
} done;

/* Micro-batches whose backward for inputs, or for weights, is done on a stage. */
typedef struct backwards {
    int inputs, weights;
} backwards;

typedef struct clockmaker {
    gp_order *order;
    done *done;       /* [stage·pieces + micro] */
    backwards *taken; /* [stage] */
    size_t *next;     /* [worker] its next task */
    bool *woken;      /* [worker] it is in `awake` */
    int *awake;       /* workers that may go on */
    int awake_count;
} clockmaker;

static done *done_of(const clockmaker *c, int stage, int micro) {
    return &c->done[(size_t)stage * (size_t)c->order->pieces + (size_t)micro];
}

static gp_status refuse(const clockmaker *c, int worker, const gp_task *task, const char *why, gp_error *err) {
    const gp_worker_order *its = &c->order->worker[worker];
    gp_place place = its->places ? its->places[task - its->tasks] : (gp_place){0};
    char what[200];
    snprintf(what, sizeof what, "worker %d, %c%u of stage %u: %s", worker, GP_TASK_LETTERS[task->op], task->micro,
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
        return check_turn(c, worker, task, &c->taken[task->stage].inputs, err);
    default:
        if (its->weight) return refuse(c, worker, task, "a second backward for weights", err);
        if (!its->input) return refuse(c, worker, task, "comes before its backward for inputs", err);
        return check_turn(c, worker, task, &c->taken[task->stage].weights, err);
    }
}

static void wake(clockmaker *c, int worker) {
    if (c->woken[worker]) return;
    c->woken[worker] = true;
    c->awake[c->awake_count++] = worker;
}

/* The worker of the next stage in that direction may wait for it. */
static gp_status finish_task(clockmaker *c, int worker, gp_task *task, uint32_t clock, gp_error *err) {
    done *its = done_of(c, task->stage, task->micro);
    int next = task->op == GP_TASK_FORWARD ? task->stage + 1 : task->stage - 1;
    task->clock = clock;
    if (task->op == GP_TASK_FORWARD) its->forward = clock + 1;
    if (task->op == GP_TASK_BACKWARD || task->op == GP_TASK_BACKWARD_INPUT) its->input = clock + 1;
    if (task->op == GP_TASK_BACKWARD || task->op == GP_TASK_BACKWARD_WEIGHT) its->weight = clock + 1;
    if (next >= 0 && next < c->order->stages) wake(c, c->order->worker_of_stage[next]);
    if (task->op != GP_TASK_BACKWARD) return GP_OK;
    return check_turn(c, worker, task, &c->taken[task->stage].weights, err);
}

/* Until the worker's order ends, or it waits for another's task. */
static gp_status go_on(clockmaker *c, int worker, gp_error *err) {
    gp_worker_order *its = &c->order->worker[worker];
    for (size_t *next = &c->next[worker]; *next < its->count; ++*next) {
        gp_task *task = &its->tasks[*next];
        uint32_t clock = *next ? its->tasks[*next - 1].clock + 1 : 0;
        uint32_t ready = ready_at(c, task);
        if (ready == 0) break;
        if (ready != UINT32_MAX && ready > clock) clock = ready;
        GP_RETURN_IF_FAILED(check_task(c, worker, task, err));
        GP_RETURN_IF_FAILED(finish_task(c, worker, task, clock, err));
    }
    c->woken[worker] = false;
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

static gp_status set_clocks(clockmaker *c, bool training, gp_error *err) {
    const gp_order *order = c->order;
    GP_RETURN_IF_FAILED(GP_NEW(&c->done, (size_t)order->stages * (size_t)order->pieces, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->taken, order->stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->next, order->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->woken, order->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->awake, order->workers, err));
    for (int w = order->workers - 1; w >= 0; w--) wake(c, w);
    while (c->awake_count > 0) GP_RETURN_IF_FAILED(go_on(c, c->awake[--c->awake_count], err));
    return say_what_lacks(c, training, err);
}

gp_status gp_order_set_clocks(gp_order *order, bool training, gp_error *err) {
    clockmaker c = {.order = order};
    gp_status status = set_clocks(&c, training, err);
    free(c.done);
    free(c.taken);
    free(c.next);
    free(c.woken);
    free(c.awake);
    return status;
}

/* ---- orders that name replicas ----------------------------------------------------------------------------------- */

int gp_replicas_count(const gp_replicas *replicas) {
    int count = 0;
    for (int w = 0; w < replicas->workers; w++) count += replicas->of[w];
    return count;
}

bool gp_replicas_are_named(const gp_replicas *replicas, int workers) {
    return replicas && workers != replicas->workers && workers == gp_replicas_count(replicas);
}

typedef struct folder {
    gp_order *order;
    const gp_replicas *replicas;
    int *first;   /* [worker of the schedule] its first replica */
    int *place;   /* [replica] the worker of the schedule */
    int *numbers; /* [stage] of its replica's stage */
} folder;

/* Stages of one number stand together, each on its replica. */
static gp_status number_stages(folder *f, gp_error *err) {
    gp_order *order = f->order;
    int count = 0;
    for (int s = 0; s < order->stages; count++) {
        int place = f->place[order->worker_of_stage[s]], end = s + f->replicas->of[place];
        for (int worker = f->first[place]; s < end; s++, worker++) {
            if (s >= order->stages)
                return gp_fail(err, GP_PROGRAM, "there are %d stages, but stage %d has no replica on worker %d",
                               order->stages, count, worker);
            if (order->worker_of_stage[s] != worker)
                return gp_fail(err, GP_PROGRAM,
                               "stage %d is on worker %d, but it must be on worker %d: the replicas of a stage stand "
                               "together, from the first to the last",
                               s, order->worker_of_stage[s], worker);
            f->numbers[s] = count;
        }
    }
    return GP_OK;
}

static bool tasks_equal(const folder *f, const gp_task *a, const gp_task *b) {
    return a->op == b->op && a->micro == b->micro && f->numbers[a->stage] == f->numbers[b->stage];
}

static gp_status refuse_task(const gp_worker_order *its, size_t task, int worker, int first, gp_error *err) {
    static const char why[] = "worker %d is a replica of worker %d, but its tasks are others, or in another order";
    if (task < its->count && its->places) return gp_fail_at(err, GP_PROGRAM, its->places[task], why, worker, first);
    return gp_fail(err, GP_PROGRAM, why, worker, first);
}

static gp_status compare_replicas(const folder *f, gp_error *err) {
    for (int w = 0; w < f->order->workers; w++) {
        int first = f->first[f->place[w]];
        const gp_worker_order *its = &f->order->worker[w], *other = &f->order->worker[first];
        size_t i = 0;
        while (i < its->count && i < other->count && tasks_equal(f, &its->tasks[i], &other->tasks[i])) i++;
        if (i < its->count || i < other->count) return refuse_task(its, i, w, first, err);
    }
    return GP_OK;
}

static void keep_first_replicas(const folder *f) {
    gp_order *order = f->order;
    for (int w = 0; w < order->workers; w++) {
        gp_worker_order *its = &order->worker[w];
        int place = f->place[w];
        if (w != f->first[place]) {
            free(its->tasks);
            free(its->places);
        } else {
            for (size_t i = 0; i < its->count; i++) its->tasks[i].stage = (uint16_t)f->numbers[its->tasks[i].stage];
            order->worker[place] = *its;
        }
        if (w != place || w != f->first[place]) *its = (gp_worker_order){0};
    }
    int stages = 0;
    for (int s = 0; s < order->stages; s++) {
        order->worker_of_stage[f->numbers[s]] = f->place[order->worker_of_stage[s]];
        stages = f->numbers[s] + 1;
    }
    order->stages = stages;
    order->workers = f->replicas->workers;
}

static gp_status fold(folder *f, gp_error *err) {
    int all = f->order->workers;
    GP_RETURN_IF_FAILED(GP_NEW(&f->first, f->replicas->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&f->place, all, err));
    GP_RETURN_IF_FAILED(GP_NEW(&f->numbers, f->order->stages, err));
    for (int place = 0, w = 0; place < f->replicas->workers; place++) {
        f->first[place] = w;
        for (int end = w + f->replicas->of[place]; w < end; w++) f->place[w] = place;
    }
    GP_RETURN_IF_FAILED(number_stages(f, err));
    GP_RETURN_IF_FAILED(compare_replicas(f, err));
    keep_first_replicas(f);
    return GP_OK;
}

gp_status gp_order_fold_replicas(gp_order *order, const gp_replicas *replicas, gp_error *err) {
    folder f = {.order = order, .replicas = replicas};
    if (!gp_replicas_are_named(replicas, order->workers)) return GP_OK;
    gp_status status = fold(&f, err);
    free(f.first);
    free(f.place);
    free(f.numbers);
    return status;
}
