#include "schedule/schedules.h"

#include <assert.h>
#include <ctype.h>

#include "schedule/schedule_file.h"

/* Lists the tasks of one worker. */
typedef struct lister {
    gp_order *order;
    int worker, stage[2];     /* ZB-V has two stages: on the way down the V, and up */
    int next[2][GP_TASK_OPS]; /* how many tasks are listed */
} lister;

/* The tasks of the text, one after another, so many times; small letters are of the second stage. Each takes the next
 * micro-batch; those that are not there are left out. */
static gp_status list(lister *its, int times, const char *tasks, gp_error *err) {
    enum { MOST = 6 };
    gp_order *order = its->order;
    gp_task_op op[MOST];
    int second[MOST], count = 0;
    for (; tasks[count]; count++) {
        assert(count < MOST);
        op[count] = gp_task_named((char)toupper((unsigned char)tasks[count]));
        second[count] = islower((unsigned char)tasks[count]) != 0;
    }
    for (; times > 0; times--)
        for (int t = 0; t < count; t++) {
            int micro = its->next[second[t]][op[t]]++;
            if (micro >= order->pieces) continue;
            if (order->descending && op[t] != GP_TASK_FORWARD) micro = order->pieces - 1 - micro;
            GP_RETURN_IF_FAILED(gp_order_add(order, its->worker, op[t], its->stage[second[t]], micro, err));
        }
    return GP_OK;
}

/* GPipe (Huang et al., 1811.06965, section 2.3; torchgpipe, 2004.09910, section 3.2): all forwards, then all backwards,
 * last micro-batch first. */
static gp_status gpipe(lister *its, gp_error *err) {
    GP_RETURN_IF_FAILED(list(its, its->order->pieces, "F", err));
    return list(its, its->order->pieces, "B", err);
}

/* 1F1B, PipeDream-flush (Narayanan et al., 2006.09503). With p workers, worker s counted from 0: p−s−1 forwards, then
 * forward and backward in turn. */
static gp_status one_f_one_b(lister *its, gp_error *err) {
    GP_RETURN_IF_FAILED(list(its, its->order->workers - its->worker - 1, "F", err));
    return list(its, its->order->pieces, "FB", err);
}

/* Zero bubble, ZB-H1 (Qi et al., 2401.10241, section 2): backward for inputs and for weights apart. It has 1F1B's
 * memory, and a W once more than s I are done. */
static gp_status zb_h1(lister *its, gp_error *err) {
    GP_RETURN_IF_FAILED(list(its, its->order->workers - its->worker - 1, "F", err));
    GP_RETURN_IF_FAILED(list(its, its->worker, "FI", err));
    return list(its, its->order->pieces, "FIW", err);
}

/* ZB-H2 (the same, section 2): 2(p−s)−1 forwards before the first I, and a W once more than 2s I are done. */
static gp_status zb_h2(lister *its, gp_error *err) {
    GP_RETURN_IF_FAILED(list(its, 2 * (its->order->workers - its->worker - 1), "F", err));
    GP_RETURN_IF_FAILED(list(its, 2 * its->worker, "FI", err));
    return list(its, its->order->pieces, "FIW", err);
}

/* ZB-V (Qi et al., 2405.15362): two stages per worker, s and 2p−1−s, so that the second half comes back in a V. The
 * order is made for no fewer micro-batches than fill the pipeline. */
static gp_status zb_v(lister *its, gp_error *err) {
    int(*next)[GP_TASK_OPS] = its->next;
    int after = its->order->workers - its->worker, fill = 2 * its->order->workers - 1;
    int pieces = its->order->pieces > fill ? its->order->pieces : fill;
    GP_RETURN_IF_FAILED(list(its, 2 * after - 1, "F", err));
    GP_RETURN_IF_FAILED(list(its, its->worker, "fF", err));
    GP_RETURN_IF_FAILED(list(its, after, "fiw", err));
    while (next[1][GP_TASK_FORWARD] < pieces)
        GP_RETURN_IF_FAILED(list(its, 1, next[0][GP_TASK_FORWARD] < pieces ? "FIWfiw" : "IWfiw", err));
    GP_RETURN_IF_FAILED(list(its, its->worker, "Ii", err));
    GP_RETURN_IF_FAILED(list(its, after, "IW", err));
    GP_RETURN_IF_FAILED(list(its, next[1][GP_TASK_BACKWARD_INPUT] - next[1][GP_TASK_BACKWARD_WEIGHT], "w", err));
    return list(its, next[0][GP_TASK_BACKWARD_INPUT] - next[0][GP_TASK_BACKWARD_WEIGHT], "W", err);
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
static gp_status interleaved(lister *its, gp_error *err) {
    gp_order *order = its->order;
    int worker = its->worker;
    int chunks = order->stages / order->workers, tasks = chunks * order->pieces, groups = count_groups(order);
    int largest = (order->pieces + groups - 1) / groups, chunk, micro;
    int warm_up = 2 * (order->workers - worker - 1) + (chunks - 1) * largest;
    if (warm_up > tasks) warm_up = tasks;
    for (int done = 0; done < tasks + warm_up; done++) {
        if (done < tasks) {
            find_task(order, done, &chunk, &micro);
            GP_RETURN_IF_FAILED(
                gp_order_add(order, worker, GP_TASK_FORWARD, chunk * order->workers + worker, micro, err));
        }
        if (done < warm_up) continue;
        find_task(order, done - warm_up, &chunk, &micro);
        int stage = (chunks - 1 - chunk) * order->workers + worker;
        GP_RETURN_IF_FAILED(gp_order_add(order, worker, GP_TASK_BACKWARD, stage, micro, err));
    }
    return GP_OK;
}

/* By gp_schedule_kind. */
static const struct {
    gp_status (*list)(lister *its, gp_error *err); /* all tasks of a worker */
    int chunks;                                    /* stages per worker; 0: as configured */
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
    return file && file->programs && !file->order_only && training && file->programs->pieces == pieces;
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

static gp_status add_tasks(const gp_schedule *schedule, gp_order *order, gp_error *err) {
    if (file_order(schedule)) return copy_file(file_order(schedule), order, err);
    for (int w = 0; w < order->workers; w++) {
        lister its = {.order = order, .worker = w, .stage = {w, order->stages - 1 - w}};
        GP_RETURN_IF_FAILED(schedules[schedule->kind].list(&its, err));
    }
    return GP_OK;
}

gp_status gp_schedule_order(const gp_schedule *schedule, int workers, int pieces, gp_order **out, gp_error *err) {
    const gp_order *file = file_order(schedule);
    bool descending = file ? file->descending : schedules[schedule->kind].descending;
    gp_order *order = NULL;
    gp_status status = gp_order_create(workers, gp_schedule_stages(schedule, workers), pieces, descending, &order, err);
    if (status == GP_OK) {
        gp_schedule_place(schedule, workers, order->worker_of_stage);
        status = add_tasks(schedule, order, err);
    }
    if (status == GP_OK) status = gp_order_set_clocks(order, true, err);
    if (status != GP_OK)
        gp_order_destroy(&order);
    else
        *out = order;
    return status;
}
