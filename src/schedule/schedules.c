#include "schedule/schedules.h"

#include "schedule/schedule_file.h"

#define ADD(op, stage, micro) GP_RETURN_IF_FAILED(gp_order_add(order, worker, GP_TASK_##op, stage, micro, err))

static int least(int a, int b) {
    return a < b ? a : b;
}

/* How a worker with one stage goes through the micro-batches. */
typedef struct turns {
    int warm_up; /* forwards before forward and backward alternate */
    int lag;     /* backwards for inputs that may be done before the first one for weights; −1: backward is whole */
} turns;

static gp_status add_turns(gp_order *order, int worker, turns its, gp_error *err) {
    int pieces = order->pieces, forward = 0, weight = 0;
    while (forward < least(its.warm_up, pieces)) ADD(FORWARD, worker, forward++);
    for (int done = 0; done < pieces; done++) {
        int micro = order->descending ? pieces - 1 - done : done;
        if (forward < pieces) ADD(FORWARD, worker, forward++);
        if (its.lag < 0)
            ADD(BACKWARD, worker, micro);
        else
            ADD(BACKWARD_INPUT, worker, micro);
        if (its.lag >= 0 && done + 1 - weight > its.lag) ADD(BACKWARD_WEIGHT, worker, weight++);
    }
    while (its.lag >= 0 && weight < pieces) ADD(BACKWARD_WEIGHT, worker, weight++);
    return GP_OK;
}

/* GPipe (Huang et al., 1811.06965, section 2.3; torchgpipe, 2004.09910, section 3.2): all forwards, then all backwards,
 * last micro-batch first. */
static gp_status gpipe(gp_order *order, int worker, gp_error *err) {
    return add_turns(order, worker, (turns){order->pieces, -1}, err);
}

/* 1F1B, PipeDream-flush (Narayanan et al., 2006.09503). With p workers, worker s counted from 0: p−s−1 forwards, then
 * forward and backward in turn. */
static gp_status one_f_one_b(gp_order *order, int worker, gp_error *err) {
    return add_turns(order, worker, (turns){order->workers - worker - 1, -1}, err);
}

/* Zero bubble, ZB-H1 (Qi et al., 2401.10241, section 2): backward for inputs and for weights apart. It has 1F1B's
 * memory, and a W once more than s I are done. */
static gp_status zb_h1(gp_order *order, int worker, gp_error *err) {
    return add_turns(order, worker, (turns){order->workers - worker - 1, worker}, err);
}

/* ZB-H2 (the same, section 2): 2(p−s)−1 forwards before the first I, and a W once more than 2s I are done. */
static gp_status zb_h2(gp_order *order, int worker, gp_error *err) {
    return add_turns(order, worker, (turns){2 * (order->workers - worker - 1), 2 * worker}, err);
}

/* Groups into which interleaved stages divide the micro-batches: of as many as there are workers, or some more. */
static int count_groups(const gp_order *order) {
    return order->pieces < order->workers ? 1 : order->pieces / order->workers;
}

/* Task `i` of a worker in one direction: groups of micro-batches go through its stages one after another. The first
 * groups have a micro-batch more than the others. */
static void find_task(const gp_order *order, int i, int *chunk, int *micro) {
    int chunks = order->stages / order->workers, groups = count_groups(order);
    int size = order->pieces / groups, first = 0, larger = order->pieces % groups * (size + 1);
    if (i < larger * chunks)
        size++;
    else
        first = larger;
    i -= first * chunks;
    *chunk = i / size % chunks;
    *micro = first + i / (size * chunks) * size + i % size;
}

/* Interleaved 1F1B (Narayanan et al., 2104.04473, section 2.2): v stages per worker, stage c·p + s on worker s. Groups
 * of micro-batches go through a worker's stages one after another; 2(p−s−1) + (v−1)·group forwards to warm up. Groups
 * of p if p divides the micro-batches. Else groups of p or some more, the larger ones first, to avoid deadlocks. */
static gp_status interleaved(gp_order *order, int worker, gp_error *err) {
    int chunks = order->stages / order->workers, tasks = chunks * order->pieces, groups = count_groups(order);
    int largest = (order->pieces + groups - 1) / groups, chunk, micro;
    int warm_up = least(tasks, 2 * (order->workers - worker - 1) + (chunks - 1) * largest);
    for (int done = 0; done < tasks + warm_up; done++) {
        if (done < tasks) {
            find_task(order, done, &chunk, &micro);
            ADD(FORWARD, chunk * order->workers + worker, micro);
        }
        if (done < warm_up) continue;
        find_task(order, done - warm_up, &chunk, &micro);
        ADD(BACKWARD, (chunks - 1 - chunk) * order->workers + worker, micro);
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

/* ZB-V (Qi et al., 2405.15362): two stages per worker, s and 2p−1−s, so that the second half comes back in a V. */
static gp_status zb_v(gp_order *order, int worker, gp_error *err) {
    v_worker v = {.order = order, .worker = worker, .stage = {worker, order->stages - 1 - worker}};
    GP_RETURN_IF_FAILED(warm_up_v(&v, err));
    GP_RETURN_IF_FAILED(steady_v(&v, err));
    return drain_v(&v, err);
}

/* By gp_schedule_kind. */
static const struct {
    gp_status (*add_tasks)(gp_order *order, int worker, gp_error *err); /* the worker's, to an order without them */
    int chunks;                                                         /* stages per worker; 0: as configured */
    bool descending, splits_backward;
    bool folds; /* the second half of the stages goes back over the workers */
} schedules[] = {
    [GP_SCHEDULE_GPIPE] = {gpipe, 1, true, false, false},
    [GP_SCHEDULE_1F1B] = {one_f_one_b, 1, false, false, false},
    [GP_SCHEDULE_INTERLEAVED] = {interleaved, 0, false, false, false},
    [GP_SCHEDULE_ZB_H1] = {zb_h1, 1, false, true, false},
    [GP_SCHEDULE_ZB_H2] = {zb_h2, 1, false, true, false},
    [GP_SCHEDULE_ZB_V] = {zb_v, 2, false, true, true},
};

const char *gp_schedule_kind_name(gp_schedule_kind kind) {
    static const char *const names[] = {
#define GP_SCHEDULE_NAME(suffix, name) name,
        GP_SCHEDULE_MAP(GP_SCHEDULE_NAME)
#undef GP_SCHEDULE_NAME
    };
    return names[kind];
}

static const gp_order *file_order(const gp_schedule *schedule) {
    return schedule->kind == GP_SCHEDULE_FILE ? schedule->file->order : NULL;
}

static int chunks_of(const gp_schedule *schedule) {
    int chunks = schedules[schedule->kind].chunks;
    return chunks ? chunks : schedule->chunks;
}

int gp_schedule_stages(const gp_schedule *schedule, int workers) {
    const gp_order *file = file_order(schedule);
    return file ? file->stages : workers * chunks_of(schedule);
}

int gp_schedule_workers(const gp_schedule *schedule, int stages) {
    const gp_order *file = file_order(schedule);
    return file ? file->workers : stages / chunks_of(schedule);
}

void gp_schedule_place(const gp_schedule *schedule, int workers, int *worker_of_stage) {
    const gp_order *file = file_order(schedule);
    int stages = gp_schedule_stages(schedule, workers);
    for (int s = 0; s < stages; s++) {
        bool back = !file && schedules[schedule->kind].folds && s >= workers;
        worker_of_stage[s] = file ? file->worker_of_stage[s] : back ? stages - 1 - s : s % workers;
    }
}

bool gp_schedule_splits_backward(const gp_schedule *schedule) {
    return !file_order(schedule) && schedules[schedule->kind].splits_backward;
}

bool gp_schedule_has_programs(const gp_schedule *schedule, bool training, int pieces) {
    const gp_schedule_file *file = schedule->kind == GP_SCHEDULE_FILE ? schedule->file : NULL;
    return file && file->programs && training && file->programs->pieces == pieces;
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

gp_status gp_schedule_order(const gp_schedule *schedule, int workers, int pieces, gp_order **out, gp_error *err) {
    const gp_order *file = file_order(schedule);
    bool descending = file ? file->descending : schedules[schedule->kind].descending;
    gp_order *order = NULL;
    GP_RETURN_IF_FAILED(
        gp_order_create(workers, gp_schedule_stages(schedule, workers), pieces, descending, &order, err));
    gp_schedule_place(schedule, workers, order->worker_of_stage);
    gp_status status = file ? copy_file(file, order, err) : GP_OK;
    for (int w = 0; w < workers && !file && status == GP_OK; w++)
        status = schedules[schedule->kind].add_tasks(order, w, err);
    if (status == GP_OK) status = gp_order_set_clocks(order, true, err);
    if (status != GP_OK)
        gp_order_destroy(&order);
    else
        *out = order;
    return status;
}
