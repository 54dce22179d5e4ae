#include "schedule/schedules.h"

#define ADD(op, stage, micro) GP_RETURN_IF_FAILED(gp_order_add(order, worker, GP_TASK_##op, stage, micro, err))

static int least(int a, int b) {
    return a < b ? a : b;
}

gp_status gp_order_gpipe(gp_order *order, gp_error *err) {
    for (int worker = 0; worker < order->workers; worker++) {
        for (int m = 0; m < order->pieces; m++) ADD(FORWARD, worker, m);
        for (int m = order->pieces - 1; m >= 0; m--) ADD(BACKWARD, worker, m);
    }
    return GP_OK;
}

gp_status gp_order_1f1b(gp_order *order, gp_error *err) {
    int pieces = order->pieces;
    for (int worker = 0; worker < order->workers; worker++) {
        int warm_up = least(order->workers - worker - 1, pieces), backward = 0;
        for (int m = 0; m < warm_up; m++) ADD(FORWARD, worker, m);
        for (int m = warm_up; m < pieces; m++) {
            ADD(FORWARD, worker, m);
            ADD(BACKWARD, worker, backward++);
        }
        while (backward < pieces) ADD(BACKWARD, worker, backward++);
    }
    return GP_OK;
}

/* ---- interleaved ------------------------------------------------------------------------------------------------- */

/* Where the walk over groups, a worker's stages and a group's micro-batches is. */
typedef struct group_walk {
    int workers, chunks, pieces, groups;
    int group, first, chunk, micro;
} group_walk;

static group_walk start_walk(const gp_order *order) {
    int groups = order->pieces / order->workers;
    return (group_walk){.workers = order->workers,
                        .chunks = order->stages / order->workers,
                        .pieces = order->pieces,
                        .groups = groups > 0 ? groups : 1};
}

static int group_size(const group_walk *walk) {
    return walk->pieces / walk->groups + (walk->group < walk->pieces % walk->groups);
}

static void walk_on(group_walk *walk) {
    int size = group_size(walk);
    if (++walk->micro < walk->first + size) return;
    if (++walk->chunk == walk->chunks) {
        walk->chunk = 0;
        walk->first += size;
        walk->group++;
    }
    walk->micro = walk->first;
}

gp_status gp_order_interleaved(gp_order *order, gp_error *err) {
    for (int worker = 0; worker < order->workers; worker++) {
        group_walk forward = start_walk(order), backward = forward;
        int chunks = forward.chunks, tasks = chunks * order->pieces;
        int warm_up =
            least(tasks, 2 * (order->workers - worker - 1) + (chunks - 1) * least(group_size(&forward), tasks));
        for (int done = 0; done < tasks + warm_up; done++) {
            if (done < tasks) {
                ADD(FORWARD, forward.chunk * order->workers + worker, forward.micro);
                walk_on(&forward);
            }
            if (done < warm_up) continue;
            ADD(BACKWARD, (chunks - 1 - backward.chunk) * order->workers + worker, backward.micro);
            walk_on(&backward);
        }
    }
    return GP_OK;
}

/* ---- zero bubble ------------------------------------------------------------------------------------------------- */

gp_status gp_order_zb_h1(gp_order *order, gp_error *err) {
    int pieces = order->pieces;
    for (int worker = 0; worker < order->workers; worker++) {
        int forward = 0, weight = 0;
        while (forward < least(order->workers - worker - 1, pieces)) ADD(FORWARD, worker, forward++);
        for (int m = 0; m < pieces; m++) {
            if (forward < pieces) ADD(FORWARD, worker, forward++);
            ADD(BACKWARD_INPUT, worker, m);
            if (m + 1 - weight > worker) ADD(BACKWARD_WEIGHT, worker, weight++);
        }
        while (weight < pieces) ADD(BACKWARD_WEIGHT, worker, weight++);
    }
    return GP_OK;
}

gp_status gp_order_zb_h2(gp_order *order, gp_error *err) {
    int pieces = order->pieces;
    for (int worker = 0; worker < order->workers; worker++) {
        int forward = 0, weight = 0;
        while (forward < least(2 * (order->workers - worker) - 1, pieces)) ADD(FORWARD, worker, forward++);
        for (int m = 0; m < pieces; m++) {
            ADD(BACKWARD_INPUT, worker, m);
            if (m + 1 - weight > 2 * worker) ADD(BACKWARD_WEIGHT, worker, weight++);
            if (forward < pieces) ADD(FORWARD, worker, forward++);
        }
        while (weight < pieces) ADD(BACKWARD_WEIGHT, worker, weight++);
    }
    return GP_OK;
}

/* Of a worker's two stages, down and up the V: how many of each task are listed. */
typedef struct v_worker {
    gp_order *order;
    int worker, stage[2];
    int forward[2], input[2], weight[2];
} v_worker;

/* The order is made for no fewer micro-batches than fill the pipeline; those that are not there are left out. */
static gp_status add_v(v_worker *v, gp_task_op op, int half, gp_error *err) {
    int *next = op == GP_TASK_FORWARD          ? &v->forward[half]
                : op == GP_TASK_BACKWARD_INPUT ? &v->input[half]
                                               : &v->weight[half];
    int micro = (*next)++;
    if (micro >= v->order->pieces) return GP_OK;
    return gp_order_add(v->order, v->worker, op, v->stage[half], micro, err);
}

#define ADD_V(op, half) GP_RETURN_IF_FAILED(add_v(v, GP_TASK_##op, half, err))

static gp_status backward_v(v_worker *v, int half, gp_error *err) {
    ADD_V(BACKWARD_INPUT, half);
    return add_v(v, GP_TASK_BACKWARD_WEIGHT, half, err);
}

static gp_status warm_up_v(v_worker *v, gp_error *err) {
    int after = v->order->workers - v->worker;
    for (int i = 0; i < 2 * after - 1; i++) ADD_V(FORWARD, 0);
    for (int i = 0; i < v->worker; i++) {
        ADD_V(FORWARD, 1);
        ADD_V(FORWARD, 0);
    }
    for (int i = 0; i < after; i++) {
        ADD_V(FORWARD, 1);
        GP_RETURN_IF_FAILED(backward_v(v, 1, err));
    }
    return GP_OK;
}

static gp_status steady_v(v_worker *v, gp_error *err) {
    int fill = 2 * v->order->workers - 1;
    int pieces = v->order->pieces > fill ? v->order->pieces : fill;
    while (v->forward[1] < v->forward[0] || v->forward[0] < pieces) {
        if (v->forward[0] < pieces) ADD_V(FORWARD, 0);
        GP_RETURN_IF_FAILED(backward_v(v, 0, err));
        ADD_V(FORWARD, 1);
        GP_RETURN_IF_FAILED(backward_v(v, 1, err));
    }
    return GP_OK;
}

static gp_status drain_v(v_worker *v, gp_error *err) {
    for (int i = 0; i < v->worker; i++) {
        ADD_V(BACKWARD_INPUT, 0);
        ADD_V(BACKWARD_INPUT, 1);
    }
    for (int i = 0; i < v->order->workers - v->worker; i++) {
        ADD_V(BACKWARD_INPUT, 0);
        ADD_V(BACKWARD_WEIGHT, 0);
    }
    while (v->weight[1] < v->input[1]) ADD_V(BACKWARD_WEIGHT, 1);
    while (v->weight[0] < v->input[0]) ADD_V(BACKWARD_WEIGHT, 0);
    return GP_OK;
}

gp_status gp_order_zb_v(gp_order *order, gp_error *err) {
    for (int worker = 0; worker < order->workers; worker++) {
        v_worker v = {.order = order, .worker = worker, .stage = {worker, order->stages - 1 - worker}};
        GP_RETURN_IF_FAILED(warm_up_v(&v, err));
        GP_RETURN_IF_FAILED(steady_v(&v, err));
        GP_RETURN_IF_FAILED(drain_v(&v, err));
    }
    return GP_OK;
}
