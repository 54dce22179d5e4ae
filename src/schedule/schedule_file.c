#include "schedule/schedule_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_file.h"

enum { MOST_BYTES = 1 << 30, SHOWN_BYTES = 24 };

typedef struct reader {
    const char *at, *line_start;
    gp_place place;
    gp_worker_order *worker; /* a task's stage is which of its worker's stages, as long as these are not known */
    size_t capacity, tasks;
    int workers, chunks, pieces;
    int *on; /* [stage] the worker; NULL: not said */
    int on_count;
    gp_place on_place;
    const gp_replicas *replicas;
} reader;

static bool at_end_of_line(const reader *r) {
    return *r->at == '\0' || *r->at == '\n' || *r->at == '#';
}

/* To the next word of the line; false: there is none. */
static bool next_word(reader *r) {
    while (*r->at == ' ' || *r->at == '\t' || *r->at == ',' || *r->at == '\r') r->at++;
    r->place.column = (int)(r->at - r->line_start) + 1;
    return !at_end_of_line(r);
}

/* Until a word has been read, this may be any file of the machine that a configuration names: then its text is not
 * shown. */
static gp_status refuse_word(const reader *r, const char *begin, const char *wanted, gp_error *err) {
    if (r->tasks == 0 && r->on_count == 0)
        return gp_fail_at(err, GP_CONFIG, r->place, "this is no schedule: expected %s", wanted);
    char shown[SHOWN_BYTES + 1] = "";
    for (int i = 0; i < SHOWN_BYTES && begin[i] && !strchr(" \t,\r\n#", begin[i]); i++)
        shown[i] = isprint((unsigned char)begin[i]) ? begin[i] : '?';
    return gp_fail_at(err, GP_CONFIG, r->place, "expected %s, not \"%s\"", wanted, shown);
}

/* Digits; −1: there are none, or the number is too large. */
static int read_number(reader *r, int highest) {
    int64_t value = 0;
    if (!isdigit((unsigned char)*r->at)) return -1;
    for (; isdigit((unsigned char)*r->at); r->at++) {
        value = value * 10 + (*r->at - '0');
        if (value > highest) return -1;
    }
    return (int)value;
}

static bool word_ends(const reader *r) {
    return at_end_of_line(r) || strchr(" \t,\r", *r->at);
}

static gp_status read_on(reader *r, gp_error *err) {
    if (r->on || r->workers)
        return gp_fail_at(err, GP_CONFIG, r->place, "\"on\" may occur only once, before the first worker");
    r->on_place = r->place;
    r->at += 2;
    GP_RETURN_IF_FAILED(GP_NEW(&r->on, GP_MAX_STAGES, err));
    while (next_word(r)) {
        const char *begin = r->at;
        int worker = read_number(r, GP_MAX_STAGES - 1);
        if (worker < 0 || !word_ends(r)) return refuse_word(r, begin, "the number of a worker", err);
        if (r->on_count == GP_MAX_STAGES)
            return gp_fail_at(err, GP_CONFIG, r->place, "more than %d stages", (int)GP_MAX_STAGES);
        r->on[r->on_count++] = worker;
    }
    return GP_OK;
}

static gp_status add_task(gp_worker_order *its, gp_task task, gp_place place, gp_error *err) {
    size_t places = its->capacity;
    GP_RETURN_IF_FAILED(GP_GROW(&its->places, &places, its->count + 1, err));
    GP_RETURN_IF_FAILED(GP_GROW(&its->tasks, &its->capacity, its->count + 1, err));
    its->places[its->count] = place;
    its->tasks[its->count++] = task;
    return GP_OK;
}

static gp_status read_task(reader *r, gp_error *err) {
    static const char wanted[] = "F, B, I or W and a micro-batch, as in F0, or 1F0 on a worker's second stage";
    const char *begin = r->at;
    int chunk = isdigit((unsigned char)*r->at) ? read_number(r, GP_MAX_STAGES - 1) : 0;
    gp_task_op op = gp_task_named(*r->at);
    if (chunk < 0 || op == GP_TASK_OPS) return refuse_word(r, begin, wanted, err);
    r->at++;
    int micro = read_number(r, GP_MAX_MICRO_BATCHES - 1);
    if (micro < 0 || !word_ends(r)) return refuse_word(r, begin, wanted, err);
    if (chunk >= r->chunks) r->chunks = chunk + 1;
    if (micro >= r->pieces) r->pieces = micro + 1;
    r->tasks++;
    const gp_task task = {(uint8_t)op, (uint16_t)chunk, (uint16_t)micro, 0};
    return add_task(&r->worker[r->workers - 1], task, r->place, err);
}

static gp_status read_line(reader *r, gp_error *err) {
    if (!next_word(r)) return GP_OK;
    if (strncmp(r->at, "on", 2) == 0 && strchr(" \t,\r\n", r->at[2])) return read_on(r, err);
    if (r->workers == GP_MAX_STAGES)
        return gp_fail_at(err, GP_CONFIG, r->place, "more than %d workers", (int)GP_MAX_STAGES);
    GP_RETURN_IF_FAILED(GP_GROW(&r->worker, &r->capacity, r->workers + 1, err));
    r->workers++;
    do GP_RETURN_IF_FAILED(read_task(r, err));
    while (next_word(r));
    return GP_OK;
}

static gp_status read_lines(reader *r, gp_error *err) {
    for (;;) {
        GP_RETURN_IF_FAILED(read_line(r, err));
        r->at += strcspn(r->at, "\n");
        if (!*r->at) break;
        r->line_start = ++r->at;
        r->place.line++;
    }
    if (r->workers == 0) return gp_fail_at(err, GP_CONFIG, r->place, "there is no worker: the text is empty");
    return GP_OK;
}

static gp_status place_stages(const reader *r, gp_order *order, gp_error *err) {
    for (int s = 0; s < order->stages; s++) {
        order->worker_of_stage[s] = r->on ? r->on[s] : s % order->workers;
        if (order->worker_of_stage[s] < order->workers) continue;
        return gp_fail_at(err, GP_CONFIG, r->on_place,
                          "stage %d is on worker %d, but there are %d workers, counted from 0", s,
                          order->worker_of_stage[s], order->workers);
    }
    return GP_OK;
}

/* Stages worker by worker: those of w are items[first[w]] … items[first[w + 1] − 1]. */
typedef struct stage_list {
    int *first, *items;
} stage_list;

static gp_status list_stages(const gp_order *order, stage_list *out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&out->first, order->workers + 2, err));
    GP_RETURN_IF_FAILED(GP_NEW(&out->items, order->stages, err));
    for (int s = 0; s < order->stages; s++) out->first[order->worker_of_stage[s] + 2]++;
    for (int w = 0; w < order->workers; w++) out->first[w + 2] += out->first[w + 1];
    for (int s = 0; s < order->stages; s++) out->items[out->first[order->worker_of_stage[s] + 1]++] = s;
    return GP_OK;
}

/* The how manyeth stage of a worker; −1: it has not so many. */
static int stage_of(const stage_list *stages, int worker, int chunk) {
    int at = stages->first[worker] + chunk;
    return at < stages->first[worker + 1] ? stages->items[at] : -1;
}

static gp_status refuse_chunk(const stage_list *stages, int worker, int chunk, gp_place place, gp_error *err) {
    int count = stages->first[worker + 1] - stages->first[worker];
    if (count == 0)
        return gp_fail_at(err, GP_CONFIG, place, "worker %d has no stage: \"on\" must name each worker", worker);
    return gp_fail_at(err, GP_CONFIG, place,
                      "worker %d has %d stage%s: the number before the letter must be from 0 to %d, not %d", worker,
                      count, count == 1 ? "" : "s", count - 1, chunk);
}

/* From now on each task names its stage among all. */
static gp_status find_stages(const stage_list *stages, gp_order *order, gp_error *err) {
    for (int w = 0; w < order->workers; w++)
        for (size_t i = 0; i < order->worker[w].count; i++) {
            gp_task *task = &order->worker[w].tasks[i];
            int stage = stage_of(stages, w, task->stage);
            if (stage < 0) return refuse_chunk(stages, w, task->stage, order->worker[w].places[i], err);
            task->stage = (uint16_t)stage;
        }
    return GP_OK;
}

/* A backward of which the part for weights stands apart is the part for inputs. */
static void split_backwards(gp_order *order, bool *apart) {
    for (int pass = 0; pass < 2; pass++)
        for (int w = 0; w < order->workers; w++)
            for (size_t i = 0; i < order->worker[w].count; i++) {
                gp_task *task = &order->worker[w].tasks[i];
                bool *its = &apart[(size_t)task->stage * (size_t)order->pieces + task->micro];
                if (pass == 0 && task->op == GP_TASK_BACKWARD_WEIGHT) *its = true;
                if (pass == 1 && task->op == GP_TASK_BACKWARD && *its) task->op = GP_TASK_BACKWARD_INPUT;
            }
}

static bool takes_last_first(const gp_order *order) {
    for (size_t i = 0; i < order->worker[0].count; i++) {
        const gp_task *task = &order->worker[0].tasks[i];
        if (task->op != GP_TASK_FORWARD) return task->micro > 0 && task->micro == order->pieces - 1;
    }
    return false;
}

/* Of the stages. What is wrong with no task in particular is the file's. */
static gp_status set_clocks(gp_order *order, const gp_replicas *replicas, const char *name, gp_error *err) {
    gp_status status = gp_order_fold_replicas(order, replicas, err);
    if (status == GP_OK) status = gp_order_set_clocks(order, true, err);
    if (status == GP_OK || strncmp(err->text, name, strlen(name)) == 0) return status;
    return gp_error_context(err, "%s: ", name);
}

static gp_status fill_order(reader *r, gp_order *order, gp_error *err) {
    stage_list stages = {0};
    bool *apart = NULL;
    memcpy(order->worker, r->worker, (size_t)r->workers * sizeof *r->worker);
    r->workers = 0; /* the tasks are the order's */
    gp_status status = place_stages(r, order, err);
    if (status == GP_OK) status = list_stages(order, &stages, err);
    if (status == GP_OK) status = find_stages(&stages, order, err);
    if (status == GP_OK) status = GP_NEW(&apart, (size_t)order->stages * (size_t)order->pieces, err);
    if (status == GP_OK) {
        split_backwards(order, apart);
        order->descending = takes_last_first(order);
        status = set_clocks(order, r->replicas, r->place.path, err);
    }
    free(stages.first);
    free(stages.items);
    free(apart);
    return status;
}

/* After a failure too the order is the caller's. */
static gp_status make_order(reader *r, gp_order **out, gp_error *err) {
    int stages = r->on ? r->on_count : r->workers * r->chunks;
    if (stages > GP_MAX_STAGES)
        return gp_fail_at(err, GP_CONFIG, r->place, "%d stages are too many; at most %d are possible", stages,
                          (int)GP_MAX_STAGES);
    if (stages < r->workers)
        return gp_fail_at(err, GP_CONFIG, r->on_place,
                          "%d stages are too few for %d workers: each worker needs at least one", stages, r->workers);
    /* Before anything is reserved for each. */
    if (r->tasks / (size_t)r->pieces < 2 * (size_t)stages)
        return gp_fail_at(err, GP_CONFIG, r->place,
                          "%zu tasks are too few for %d stages and %d micro-batches: %zu are needed", r->tasks, stages,
                          r->pieces, 2 * (size_t)stages * (size_t)r->pieces);
    GP_RETURN_IF_FAILED(gp_order_create(r->workers, stages, r->pieces, false, out, err));
    return fill_order(r, *out, err);
}

static gp_status add_instr(const gp_programs *programs, gp_order *order, int worker, gp_task_op op, size_t pc,
                           gp_error *err) {
    const gp_program *program = &programs->worker[worker];
    const gp_instr *instr = &program->instrs[pc];
    if (instr->stage >= order->stages || instr->micro >= order->pieces ||
        order->worker_of_stage[instr->stage] != worker)
        return gp_programs_refuse(programs, worker, pc, err,
                                  "there is no such stage on the worker, or no such micro-batch");
    return add_task(&order->worker[worker], (gp_task){(uint8_t)op, instr->stage, instr->micro, 0},
                    (gp_place){programs->source, (int)program->lines[pc], 1}, err);
}

static gp_status add_tasks(const gp_programs *programs, const gp_replicas *replicas, gp_order *order, gp_error *err) {
    static const int tasks[GP_INSTR_OPS] = {[GP_INSTR_FORWARD] = GP_TASK_FORWARD + 1,
                                            [GP_INSTR_BACKWARD] = GP_TASK_BACKWARD + 1,
                                            [GP_INSTR_BACKWARD_INPUT] = GP_TASK_BACKWARD_INPUT + 1,
                                            [GP_INSTR_BACKWARD_WEIGHT] = GP_TASK_BACKWARD_WEIGHT + 1};
    memcpy(order->worker_of_stage, programs->worker_of_stage, (size_t)order->stages * sizeof *order->worker_of_stage);
    for (int w = 0; w < order->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            int task = tasks[programs->worker[w].instrs[pc].op] - 1;
            if (task >= 0) GP_RETURN_IF_FAILED(add_instr(programs, order, w, (gp_task_op)task, pc, err));
        }
    return set_clocks(order, replicas, programs->source, err);
}

/* Likewise. */
static gp_status order_of_programs(const gp_programs *programs, const gp_replicas *replicas, gp_order **out,
                                   gp_error *err) {
    if (!programs->training)
        return gp_fail(err, GP_CONFIG, "%s: its programs are for evaluation; a schedule needs programs for training",
                       programs->source);
    GP_RETURN_IF_FAILED(
        gp_order_create(programs->workers, programs->stages, programs->pieces, programs->descending, out, err));
    return add_tasks(programs, replicas, *out, err);
}

/* The first word that is not in a comment. */
static bool are_programs(const char *text) {
    text += strspn(text, " \t\r\n");
    while (*text == '#') {
        text += strcspn(text, "\n");
        text += strspn(text, " \t\r\n");
    }
    return strncmp(text, "programs", 8) == 0;
}

static gp_status parse(const char *text, const char *name, const gp_replicas *replicas, gp_schedule_file *file,
                       gp_error *err) {
    if (are_programs(text)) {
        GP_RETURN_IF_FAILED(gp_programs_read(text, name, &file->programs, err));
        file->order_only = replicas && file->programs->workers != gp_replicas_count(replicas);
        return order_of_programs(file->programs, replicas, &file->order, err);
    }
    reader r = {.at = text, .line_start = text, .place = {name, 1, 1}, .chunks = 1, .pieces = 1, .replicas = replicas};
    gp_status status = read_lines(&r, err);
    if (status == GP_OK) status = make_order(&r, &file->order, err);
    for (int w = 0; w < r.workers; w++) {
        free(r.worker[w].tasks);
        free(r.worker[w].places);
    }
    free(r.worker);
    free(r.on);
    return status;
}

gp_status gp_schedule_file_parse(const char *text, const char *name, const gp_replicas *replicas,
                                 gp_schedule_file **out, gp_error *err) {
    gp_schedule_file *file = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&file, 1, err));
    gp_status status = parse(text, name, replicas, file, err);
    if (status == GP_PROGRAM) err->status = status = GP_CONFIG;
    if (status != GP_OK)
        gp_schedule_file_destroy(&file);
    else
        *out = file;
    return status;
}

gp_status gp_schedule_file_read(const char *path, gp_place named, const gp_replicas *replicas, gp_schedule_file **out,
                                gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    gp_error cause = {0};
    if (gp_text_file_read(path, MOST_BYTES, "a schedule", &text, &bytes, &cause) != GP_OK)
        return gp_fail_at(err, cause.status, cause.status == GP_CONFIG ? named : (gp_place){0}, "%s", cause.text);
    gp_status status = strlen(text) == bytes
                           ? gp_schedule_file_parse(text, path, replicas, out, err)
                           : gp_fail_at(err, GP_CONFIG, named, "%s: is not text: byte %zu is 0", path, strlen(text));
    free(text);
    return status;
}

void gp_schedule_file_destroy(gp_schedule_file **file) {
    gp_schedule_file *it = *file;
    if (!it) return;
    gp_order_destroy(&it->order);
    gp_programs_destroy(&it->programs);
    free(it);
    *file = NULL;
}
