#include "timeline/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/program_index.h"

/* Where the mini-batches begin in a worker's lane, of those in which the worker has instructions. */
typedef struct starts {
    size_t *first;  /* index of the first span; rises */
    size_t *number; /* of the mini-batch, counted from 0; rises */
    size_t count, capacity, numbers;
} starts;

struct gp_wait_finder {
    const gp_plan *plan;
    const gp_recorder *recorder;
    gp_program_index *programs; /* [mini] */
    starts *starts;             /* [worker] */
};

static gp_status add_start(starts *its, size_t first, size_t number, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&its->first, &its->capacity, its->count + 1, err));
    GP_RETURN_IF_FAILED(GP_GROW(&its->number, &its->numbers, its->count + 1, err));
    its->first[its->count] = first;
    its->number[its->count++] = number;
    return GP_OK;
}

/* A worker that has instructions in all mini-batches, as one of the first replicas. */
static int find_steady(const gp_plan *plan) {
    for (int w = 0; w < plan->workers; w++) {
        int mini = 0;
        while (mini < plan->mini_count && plan->minis[mini].programs->worker[w].count > 0) mini++;
        if (mini == plan->mini_count) return w;
    }
    return 0;
}

/* All lanes have the mini-batches of the steady worker's, in the same order, except those in which a worker has no
 * instructions. */
static gp_status list_starts(const gp_wait_finder *finder, int steady, int worker, gp_error *err) {
    const gp_lane *lane = &finder->recorder->lanes[worker];
    const starts *all = &finder->starts[steady];
    size_t number = 0;
    for (size_t i = 0; i < lane->count; i++) {
        if (lane->spans[i].index != 0) continue;
        while (worker != steady && number < all->count) {
            int mini = finder->recorder->lanes[steady].spans[all->first[number]].group;
            if (finder->plan->minis[mini].programs->worker[worker].count > 0) break;
            number++;
        }
        GP_RETURN_IF_FAILED(add_start(&finder->starts[worker], i, number++, err));
    }
    return GP_OK;
}

gp_status gp_wait_finder_create(const gp_plan *plan, const gp_recorder *recorder, gp_wait_finder **out, gp_error *err) {
    gp_wait_finder *finder = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&finder, 1, err));
    finder->plan = plan;
    finder->recorder = recorder;
    gp_status status = GP_NEW(&finder->programs, plan->mini_count, err);
    if (status == GP_OK) status = GP_NEW(&finder->starts, plan->workers, err);
    for (int m = 0; m < plan->mini_count && status == GP_OK; m++)
        status = gp_program_index_init(plan->stages, plan->minis[m].programs, &finder->programs[m], err);
    int steady = find_steady(plan);
    if (status == GP_OK) status = list_starts(finder, steady, steady, err);
    for (int w = 0; w < plan->workers && status == GP_OK; w++)
        if (w != steady) status = list_starts(finder, steady, w, err);
    if (status != GP_OK)
        gp_wait_finder_destroy(&finder);
    else
        *out = finder;
    return status;
}

void gp_wait_finder_destroy(gp_wait_finder **finder) {
    gp_wait_finder *it = *finder;
    if (!it) return;
    for (int m = 0; it->programs && m < it->plan->mini_count; m++) gp_program_index_fini(&it->programs[m]);
    for (int w = 0; it->starts && w < it->plan->workers; w++) {
        free(it->starts[w].first);
        free(it->starts[w].number);
    }
    free(it->programs);
    free(it->starts);
    free(it);
    *finder = NULL;
}

/* An instruction of some worker, and its span. */
typedef struct cause {
    int worker;
    size_t pc;
    const gp_span *span; /* NULL: none was found */
} cause;

/* The last of some rising numbers that is at most `value`. */
static size_t find_last(const size_t *numbers, size_t count, size_t value) {
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (numbers[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The span of an instruction in the same mini-batch; NULL: it was not recorded, as after a failure. */
static const gp_span *find_span(const gp_wait_finder *finder, int worker, size_t mini_batch, size_t pc) {
    const starts *its = &finder->starts[worker];
    const gp_lane *lane = &finder->recorder->lanes[worker];
    size_t at = find_last(its->number, its->count, mini_batch);
    if (its->count == 0 || its->number[at] != mini_batch || its->first[at] + pc >= lane->count) return NULL;
    const gp_span *span = &lane->spans[its->first[at] + pc];
    return span->index == pc ? span : NULL;
}

size_t gp_wait_finder_mini_batch(const gp_wait_finder *finder, int worker, size_t index) {
    const starts *its = &finder->starts[worker];
    return its->number[find_last(its->first, its->count, index)];
}

static cause copy_cause(const gp_wait_finder *finder, const gp_span *span, size_t mini_batch, const gp_wait *wait) {
    const gp_mini_plan *mini = &finder->plan->minis[span->group];
    cause found = {.worker = gp_programs_worker(mini->programs, gp_event_stage(finder->plan->stages, wait))};
    size_t place = gp_program_index_place(&finder->programs[span->group], wait);
    if (place == 0) return found;
    found.pc = place - 1;
    found.span = find_span(finder, found.worker, mini_batch, found.pc);
    return found;
}

/* When a span had happened for the others. */
static uint64_t time_of(const gp_span *span) {
    return span->early ? span->early : span->ended;
}

/* Whether the cause can have held up a worker that came to its instruction at `since`: a message from another process
 * is under way for some time after its send has ended. */
static bool may_hold_up(const gp_wait_finder *finder, const cause *its, int worker, uint64_t since) {
    if (!its->span || its->worker == worker) return false;
    return time_of(its->span) > since || finder->plan->process[its->worker] != finder->plan->process[worker];
}

static cause last_copy(const gp_wait_finder *finder, int worker, const gp_span *span, uint64_t since, size_t mini_batch,
                       const gp_worker_waits *waits, size_t which) {
    cause last = {0};
    for (size_t i = waits->first[which]; i < waits->first[which + 1]; i++) {
        cause its = copy_cause(finder, span, mini_batch, &waits->items[i]);
        if (may_hold_up(finder, &its, worker, since) && (!last.span || time_of(its.span) > time_of(last.span)))
            last = its;
    }
    return last;
}

/* The worker that came last to a barrier at which all meet. */
static cause last_to_come(const gp_wait_finder *finder, const gp_span *span, size_t mini_batch, size_t barrier) {
    cause last = {0};
    for (int w = 0; w < finder->plan->workers; w++) {
        cause its = {.worker = w, .pc = finder->programs[span->group].barriers[w][barrier]};
        its.span = find_span(finder, w, mini_batch, its.pc);
        if (its.span && (!last.span || its.span->started > last.span->started)) last = its;
    }
    return last;
}

static cause find_cause(const gp_wait_finder *finder, int worker, size_t index, bool barrier) {
    const gp_span *span = &finder->recorder->lanes[worker].spans[index];
    const gp_mini_plan *mini = &finder->plan->minis[span->group];
    const gp_program_index *stands = &finder->programs[span->group];
    const starts *its = &finder->starts[worker];
    size_t mini_batch = its->number[find_last(its->first, its->count, index)];
    if (!barrier)
        return last_copy(finder, worker, span, span->issued, mini_batch, &mini->waits->worker[worker], span->index);
    size_t which = find_last(stands->barriers[worker], stands->barrier_count[worker], span->index);
    if (mini->meets)
        return last_copy(finder, worker, span, span->started, mini_batch, &mini->meets->worker[worker], which);
    cause last = last_to_come(finder, span, mini_batch, which);
    return may_hold_up(finder, &last, worker, span->started) ? last : (cause){0};
}

static const char *word_before(const gp_instr *instr, bool barrier) {
    if (barrier) return instr->op == GP_INSTR_BARRIER ? "" : "barrier: ";
    return instr->op == GP_INSTR_RECV ? "slot: " : "";
}

const char *gp_wait_finder_text(const gp_wait_finder *finder, int worker, size_t index, bool barrier,
                                char buffer[GP_WAIT_TEXT]) {
    const gp_plan *plan = finder->plan;
    const gp_span *span = &finder->recorder->lanes[worker].spans[index];
    const gp_programs *programs = plan->minis[span->group].programs;
    cause its = find_cause(finder, worker, index, barrier);
    char text[GP_INSTR_TEXT], carries[32] = "";
    if (!its.span) {
        snprintf(buffer, GP_WAIT_TEXT, "\"for\":\"nothing: %s\"",
                 barrier ? "the other workers had come" : "the worker's thread did not run");
        return buffer;
    }
    const gp_instr *instr = &programs->worker[its.worker].instrs[its.pc];
    if (gp_instr_carries(plan->stages, instr))
        snprintf(carries, sizeof carries, " (%s)", gp_instr_carries(plan->stages, instr));
    snprintf(buffer, GP_WAIT_TEXT, "\"for\":\"%s%s on worker %d%s\",\"for_worker\":%d,\"for_pc\":%zu",
             word_before(instr, barrier), gp_instr_text(text, instr), its.worker, carries, its.worker, its.pc);
    return buffer;
}
