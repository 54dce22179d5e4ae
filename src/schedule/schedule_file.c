#include "schedule/schedule_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_file.h"

enum { MOST_BYTES = 1 << 30, SHOWN_BYTES = 24 };

/* One task as it stands there; the stage is known once all are read. */
typedef struct word {
    gp_place place;
    int worker, chunk, micro;
    gp_task_op op;
} word;

typedef struct reader {
    const char *at, *line_start;
    gp_place place;
    word *words;
    size_t count, capacity;
    int workers, chunks, pieces;
    int *on; /* [stage] the worker; NULL: not said */
    int on_count;
    gp_place on_place;
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

static gp_status refuse_word(const reader *r, const char *begin, const char *wanted, gp_error *err) {
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

static gp_status read_task(reader *r, gp_error *err) {
    static const char letters[] = {
#define LETTER(suffix, letter) letter,
        GP_TASK_MAP(LETTER)
#undef LETTER
    };
    static const char wanted[] = "F, B, I or W and a micro-batch, as in F0, or 1F0 on a worker's second stage";
    const char *begin = r->at;
    word it = {.place = r->place, .worker = r->workers - 1};
    if (isdigit((unsigned char)*r->at)) it.chunk = read_number(r, GP_MAX_STAGES - 1);
    const char *letter = *r->at ? memchr(letters, *r->at, sizeof letters) : NULL;
    if (it.chunk < 0 || !letter) return refuse_word(r, begin, wanted, err);
    it.op = (gp_task_op)(letter - letters);
    r->at++;
    it.micro = read_number(r, GP_MAX_MICRO_BATCHES - 1);
    if (it.micro < 0 || !word_ends(r)) return refuse_word(r, begin, wanted, err);
    if (it.chunk >= r->chunks) r->chunks = it.chunk + 1;
    if (it.micro >= r->pieces) r->pieces = it.micro + 1;
    GP_RETURN_IF_FAILED(GP_GROW(&r->words, &r->capacity, r->count + 1, err));
    r->words[r->count++] = it;
    return GP_OK;
}

static gp_status read_line(reader *r, gp_error *err) {
    if (!next_word(r)) return GP_OK;
    if (strncmp(r->at, "on", 2) == 0 && strchr(" \t,\r\n", r->at[2])) return read_on(r, err);
    if (++r->workers > GP_MAX_STAGES)
        return gp_fail_at(err, GP_CONFIG, r->place, "more than %d workers", (int)GP_MAX_STAGES);
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

/* ---- the order of what was read ---------------------------------------------------------------------------------- */

static gp_status place_stages(const reader *r, gp_order *order, gp_error *err) {
    for (int s = 0; s < order->stages; s++) {
        order->worker_of_stage[s] = r->on ? r->on[s] : s % r->workers;
        if (order->worker_of_stage[s] < r->workers) continue;
        return gp_fail_at(err, GP_CONFIG, r->on_place,
                          "stage %d is on worker %d, but there are %d workers, counted from 0", s,
                          order->worker_of_stage[s], r->workers);
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

static gp_status refuse_chunk(const stage_list *stages, const word *it, gp_error *err) {
    int count = stages->first[it->worker + 1] - stages->first[it->worker];
    if (count == 0)
        return gp_fail_at(err, GP_CONFIG, it->place, "worker %d has no stage: \"on\" must name each worker",
                          it->worker);
    return gp_fail_at(err, GP_CONFIG, it->place,
                      "worker %d has %d stage%s: the number before the letter must be from 0 to %d, not %d", it->worker,
                      count, count == 1 ? "" : "s", count - 1, it->chunk);
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

/* What is wrong with no task in particular is the file's. */
static gp_status set_clocks(gp_order *order, const char *name, gp_error *err) {
    gp_status status = gp_order_set_clocks(order, true, err);
    if (status == GP_OK || strncmp(err->text, name, strlen(name)) == 0) return status;
    return gp_error_context(err, "%s: ", name);
}

/* Words stand worker by worker, as tasks do. */
static gp_status note_places(const reader *r, gp_order *order, gp_error *err) {
    size_t first = 0;
    for (int w = 0; w < order->workers; w++) {
        gp_worker_order *its = &order->worker[w];
        GP_RETURN_IF_FAILED(GP_NEW(&its->places, its->count, err));
        for (size_t i = 0; i < its->count; i++) its->places[i] = r->words[first + i].place;
        first += its->count;
    }
    return GP_OK;
}

static gp_status fill_order(const reader *r, gp_order *order, gp_error *err) {
    stage_list stages = {0};
    bool *apart = NULL;
    gp_status status = place_stages(r, order, err);
    if (status == GP_OK) status = list_stages(order, &stages, err);
    for (size_t i = 0; i < r->count && status == GP_OK; i++) {
        const word *it = &r->words[i];
        int stage = stage_of(&stages, it->worker, it->chunk);
        status =
            stage < 0 ? refuse_chunk(&stages, it, err) : gp_order_add(order, it->worker, it->op, stage, it->micro, err);
    }
    if (status == GP_OK) status = note_places(r, order, err);
    if (status == GP_OK) status = GP_NEW(&apart, (size_t)order->stages * (size_t)order->pieces, err);
    if (status == GP_OK) {
        split_backwards(order, apart);
        order->descending = takes_last_first(order);
        status = set_clocks(order, r->place.path, err);
    }
    free(stages.first);
    free(stages.items);
    free(apart);
    return status;
}

static gp_status make_order(const reader *r, gp_order **out, gp_error *err) {
    int stages = r->on ? r->on_count : r->workers * r->chunks;
    gp_order *order = NULL;
    if (stages > GP_MAX_STAGES)
        return gp_fail_at(err, GP_CONFIG, r->place, "%d stages are too many; at most %d are possible", stages,
                          (int)GP_MAX_STAGES);
    if (stages < r->workers)
        return gp_fail_at(err, GP_CONFIG, r->on_place,
                          "%d stages are too few for %d workers: each worker needs at least one", stages, r->workers);
    /* Before anything is reserved for each. */
    if (r->count / (size_t)r->pieces < 2 * (size_t)stages)
        return gp_fail_at(err, GP_CONFIG, r->place,
                          "%zu tasks are too few for %d stages and %d micro-batches: %zu are needed", r->count, stages,
                          r->pieces, 2 * (size_t)stages * (size_t)r->pieces);
    GP_RETURN_IF_FAILED(gp_order_create(r->workers, stages, r->pieces, false, &order, err));
    gp_status status = fill_order(r, order, err);
    if (status != GP_OK)
        gp_order_destroy(&order);
    else
        *out = order;
    return status;
}

/* ---- the order of programs --------------------------------------------------------------------------------------- */

static gp_status add_task(const gp_programs *programs, gp_order *order, int worker, gp_task_op op, size_t pc,
                          gp_error *err) {
    const gp_program *program = &programs->worker[worker];
    const gp_instr *instr = &program->instrs[pc];
    gp_worker_order *its = &order->worker[worker];
    if (instr->stage >= order->stages || instr->micro >= order->pieces ||
        order->worker_of_stage[instr->stage] != worker)
        return gp_programs_refuse(programs, worker, pc, err,
                                  "there is no such stage on the worker, or no such micro-batch");
    if (!its->places) GP_RETURN_IF_FAILED(GP_NEW(&its->places, program->count, err));
    its->places[its->count] = (gp_place){programs->source, (int)program->lines[pc], 1};
    return gp_order_add(order, worker, op, instr->stage, instr->micro, err);
}

static gp_status add_tasks(const gp_programs *programs, gp_order *order, gp_error *err) {
    static const int tasks[GP_INSTR_OPS] = {[GP_INSTR_FORWARD] = GP_TASK_FORWARD + 1,
                                            [GP_INSTR_BACKWARD] = GP_TASK_BACKWARD + 1,
                                            [GP_INSTR_BACKWARD_INPUT] = GP_TASK_BACKWARD_INPUT + 1,
                                            [GP_INSTR_BACKWARD_WEIGHT] = GP_TASK_BACKWARD_WEIGHT + 1};
    memcpy(order->worker_of_stage, programs->worker_of_stage, (size_t)order->stages * sizeof *order->worker_of_stage);
    for (int w = 0; w < order->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            int task = tasks[programs->worker[w].instrs[pc].op] - 1;
            if (task >= 0) GP_RETURN_IF_FAILED(add_task(programs, order, w, (gp_task_op)task, pc, err));
        }
    return set_clocks(order, programs->source, err);
}

static gp_status order_of_programs(const gp_programs *programs, gp_order **out, gp_error *err) {
    gp_order *order = NULL;
    if (!programs->training)
        return gp_fail(err, GP_CONFIG, "%s: its programs are for evaluation; a schedule needs programs for training",
                       programs->source);
    GP_RETURN_IF_FAILED(
        gp_order_create(programs->workers, programs->stages, programs->pieces, programs->descending, &order, err));
    gp_status status = add_tasks(programs, order, err);
    if (status != GP_OK)
        gp_order_destroy(&order);
    else
        *out = order;
    return status;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* The first word that is not in a comment. */
static bool are_programs(const char *text) {
    text += strspn(text, " \t\r\n");
    while (*text == '#') {
        text += strcspn(text, "\n");
        text += strspn(text, " \t\r\n");
    }
    return strncmp(text, "programs", 8) == 0;
}

static gp_status parse(const char *text, const char *name, gp_schedule_file *file, gp_error *err) {
    if (are_programs(text)) {
        GP_RETURN_IF_FAILED(gp_programs_read(text, name, &file->programs, err));
        return order_of_programs(file->programs, &file->order, err);
    }
    reader r = {.at = text, .line_start = text, .place = {name, 1, 1}, .chunks = 1, .pieces = 1};
    gp_status status = read_lines(&r, err);
    if (status == GP_OK) status = make_order(&r, &file->order, err);
    free(r.words);
    free(r.on);
    return status;
}

gp_status gp_schedule_file_parse(const char *text, const char *name, gp_schedule_file **out, gp_error *err) {
    gp_schedule_file *file = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&file, 1, err));
    gp_status status = parse(text, name, file, err);
    if (status == GP_PROGRAM) err->status = status = GP_CONFIG;
    if (status != GP_OK)
        gp_schedule_file_destroy(&file);
    else
        *out = file;
    return status;
}

gp_status gp_schedule_file_read(const char *path, gp_schedule_file **out, gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    GP_RETURN_IF_FAILED(gp_text_file_read(path, MOST_BYTES, "a schedule", &text, &bytes, err));
    gp_status status = strlen(text) == bytes
                           ? gp_schedule_file_parse(text, path, out, err)
                           : gp_fail(err, GP_CONFIG, "%s: is not text: byte %zu is 0", path, strlen(text));
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
