#include "plan/queues.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/plan.h"

/* A part of a slot, or of a bucket, that two queues use: what each did last with it, as instruction + 1, counted on
 * from one mini-batch to the next; 0: nothing. */
typedef struct part_use {
    size_t last[GP_QUEUES];
} part_use;

/* One worker while its program is gone through. */
typedef struct walker {
    int worker;
    const gp_program *program;
    const gp_worker_waits *waits, *behind; /* NULL: none */
    gp_worker_queues *queues;
    size_t pc;
    size_t before; /* instructions of the mini-batch before; 0: this is the first one */
    int *place;    /* [stage] of the worker's stages, counted from 1; 0: another worker's */
    int places;
    part_use *uses[2]; /* stash, gradient: [(place·slots + slot)·parts + part] */
    size_t slots[2], parts[2];
    part_use *sums;  /* [(place·GP_MOST_BUCKETS + bucket)·2 + 1 of the sums] */
    uint32_t *tail;  /* [queue·width]: what is known at its end */
    uint32_t *ended; /* [(before + pc)·width]: what is known behind each instruction */
} walker;

/* What the current instruction waits for, of its own worker or of another one. */
typedef struct candidate {
    const uint32_t *knows;
    size_t instr; /* of the own worker, + 1, as in part_use; 0: of others */
    size_t wait;  /* of others: in the list */
    bool behind;  /* in the mini-batch before */
    bool early;   /* posted within a backward: no knowledge of what comes before tells that the part is there */
    bool implied;
} candidate;

/* Knowledge is, for each queue of each worker that counts, how many of its instructions have ended. */
typedef struct deriver {
    const gp_queues_request *request;
    const gp_stages *stages;
    const gp_programs *programs;
    bool wide;    /* all workers count; else the own */
    size_t width; /* numbers */
    walker *walkers;
    int rounds;      /* mini-batches, one behind the other: the second is what each later one is */
    size_t events;   /* of a mini-batch */
    bool *happened;  /* [round·events + number] */
    bool *early;     /* [number] it happens within a backward */
    uint32_t *event; /* [·width]: what is known where it happened; wide only */
    candidate *candidates;
    size_t candidate_count, candidate_capacity;
} deriver;

static size_t component(const deriver *d, int worker, gp_queue queue) {
    return (d->wide ? (size_t)worker * GP_QUEUES : 0) + queue;
}

static uint32_t *tail_of(const deriver *d, const walker *w, gp_queue queue) {
    return w->tail + (size_t)queue * d->width;
}

static gp_status add_candidate(deriver *d, candidate it, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&d->candidates, &d->candidate_capacity, d->candidate_count + 1, err));
    d->candidates[d->candidate_count++] = it;
    return GP_OK;
}

/* Whether `its` follows from the tail and from the other candidates. */
static bool is_implied(const deriver *d, const uint32_t *tail, const candidate *its) {
    for (size_t i = 0; i < d->width; i++) {
        bool known = its->knows[i] <= tail[i];
        for (size_t c = 0; c < d->candidate_count && !known; c++)
            known = &d->candidates[c] != its && !d->candidates[c].implied && its->knows[i] <= d->candidates[c].knows[i];
        if (!known) return false;
    }
    return true;
}

static gp_status wait_for_mark(walker *w, gp_queue_waits *list, size_t pc, gp_error *err) {
    int *mark = &w->queues->mark[pc];
    GP_RETURN_IF_FAILED(GP_GROW(&list->wait, &list->capacity, list->count + 1, err));
    if (*mark < 0) *mark = w->queues->marks++;
    list->wait[list->count++] = *mark;
    return GP_OK;
}

/* Within the second mini-batch the waits are those within the first: what it knows besides is all of the one before. */
static gp_status wait_for_candidates(deriver *d, walker *w, gp_queue queue, gp_error *err) {
    uint32_t *tail = tail_of(d, w, queue);
    for (size_t c = 0; c < d->candidate_count; c++)
        d->candidates[c].implied = !d->candidates[c].early && is_implied(d, tail, &d->candidates[c]);
    for (size_t c = 0; c < d->candidate_count; c++) {
        const candidate *its = &d->candidates[c];
        gp_queue_waits *list = its->behind ? &w->queues->behind : &w->queues->within;
        for (size_t i = 0; i < d->width; i++)
            if (its->knows[i] > tail[i]) tail[i] = its->knows[i];
        if (w->before > 0 && !its->behind) continue;
        if (its->instr == 0)
            list->known[its->wait] = its->implied;
        else if (!its->implied)
            GP_RETURN_IF_FAILED(wait_for_mark(w, list, its->instr - 1 - (its->behind ? 0 : w->before), err));
    }
    d->candidate_count = 0;
    return GP_OK;
}

/* ---- within a worker --------------------------------------------------------------------------------------------- */

/* Values that a slot receives; if it is not known which worker touches which, the slot is one. */
static size_t part_count(const deriver *d, int stage, gp_frame frame) {
    const gp_stage *its = &d->stages->stage[stage];
    if (!d->request->plans) return 1;
    return frame == GP_FRAME_GRAD ? its->grad_in.count : its->takes.count;
}

static bool touches(const deriver *d, const gp_instr *instr, gp_frame frame, size_t part) {
    const gp_stage *stage = &d->stages->stage[instr->stage];
    gp_routine_kind kind;
    if (!d->request->plans) return true;
    if (gp_instr_routine_kind(d->programs->training, instr, &kind)) {
        bool last = instr->micro == d->programs->pieces - 1;
        int size = last ? d->request->last_sized : d->request->piece_sized;
        const gp_sized *sized = &d->request->plans[instr->stage].sized[size];
        return (frame == GP_FRAME_GRAD ? sized->grad_users : sized->take_users)[part] >> kind & 1;
    }
    if (frame == GP_FRAME_GRAD) return stage->grad_in.items[part] == (int)instr->edge;
    int value = stage->takes.items[part];
    if (instr->op == GP_INSTR_LOAD) return value == GP_VALUE_INPUT || value == GP_VALUE_TARGET;
    return value == d->stages->edges[instr->edge].value;
}

/* `before`: what each other queue last did with the parts that the instruction touches. */
static void touch(const walker *w, gp_queue queue, part_use *part, size_t before[GP_QUEUES]) {
    for (int other = 0; other < GP_QUEUES; other++)
        if (other != (int)queue && part->last[other] > before[other]) before[other] = part->last[other];
    part->last[queue] = w->before + w->pc + 1;
}

/* Of each queue the latest: the others came before. */
static gp_status wait_behind(deriver *d, const walker *w, const size_t before[GP_QUEUES], gp_error *err) {
    for (int other = 0; other < GP_QUEUES; other++) {
        if (before[other] == 0) continue;
        candidate it = {.knows = w->ended + (before[other] - 1) * d->width,
                        .instr = before[other],
                        .behind = before[other] <= w->before};
        GP_RETURN_IF_FAILED(add_candidate(d, it, err));
    }
    return GP_OK;
}

static gp_status use(deriver *d, walker *w, gp_queue queue, gp_frame frame, uint16_t slot, gp_error *err) {
    const gp_instr *instr = &w->program->instrs[w->pc];
    int which = frame == GP_FRAME_GRAD;
    size_t place = (size_t)(w->place[instr->stage] - 1), before[GP_QUEUES] = {0};
    part_use *its = w->uses[which] + (place * w->slots[which] + slot) * w->parts[which];
    for (size_t part = 0; part < part_count(d, instr->stage, frame); part++)
        if (touches(d, instr, frame, part)) touch(w, queue, &its[part], before);
    return wait_behind(d, w, before, err);
}

/* Which buckets of its stage an instruction touches: [*first, *end) of the parts, or of the sums. False: none.
 * Backwards need not be here: what others have of a gradient, or make of it, they have after it was posted. */
static bool touches_buckets(const deriver *d, const gp_instr *instr, int *first, int *end, bool *sums) {
    *first = 0;
    *end = d->stages->stage[instr->stage].buckets;
    *sums = true;
    if (instr->op == GP_INSTR_NORM || instr->op == GP_INSTR_UPDATE || instr->op == GP_INSTR_STEP) return true;
    bool collects = gp_instr_queue(d->stages, instr) == GP_QUEUE_SUMS;
    if (!collects && instr->op != GP_INSTR_REDUCE) return false;
    const gp_collective *its = &d->stages->collectives[instr->collective];
    *first = its->bucket;
    *end = its->bucket + 1;
    *sums = its->kind == GP_COLLECTIVE_EXCHANGE;
    return true;
}

static gp_status use_buckets(deriver *d, walker *w, gp_queue queue, gp_error *err) {
    const gp_instr *instr = &w->program->instrs[w->pc];
    size_t place = (size_t)(w->place[instr->stage] - 1), before[GP_QUEUES] = {0};
    int first, end;
    bool sums;
    if (!touches_buckets(d, instr, &first, &end, &sums)) return GP_OK;
    for (int b = first; b < end; b++)
        touch(w, queue, &w->sums[2 * (place * GP_MOST_BUCKETS + (size_t)b) + sums], before);
    return wait_behind(d, w, before, err);
}

/* What is sent needs no wait: it stands in the queue of its computation, and lies beside what is received. */
static gp_status use_slots(deriver *d, walker *w, gp_queue queue, gp_error *err) {
    static const gp_frame received[] = {GP_FRAME_STASH, GP_FRAME_GRAD};
    const gp_instr *instr = &w->program->instrs[w->pc];
    const gp_accesses its = gp_instr_accesses(d->stages, instr);
    for (int i = 0; i < 2; i++) {
        gp_access access = its.frame[received[i]];
        if (!(access.uses & (GP_READS | GP_WRITES))) continue;
        GP_RETURN_IF_FAILED(use(d, w, queue, received[i], gp_instr_get_slot(instr, access), err));
    }
    return GP_OK;
}

/* ---- between workers --------------------------------------------------------------------------------------------- */

static size_t event_of(const deriver *d, bool second, const gp_wait *event) {
    return (second ? d->events : 0) + gp_event_number(d->stages, d->programs->pieces, event);
}

static bool all_happened(const deriver *d, const walker *w) {
    for (size_t i = w->waits->first[w->pc]; i < w->waits->first[w->pc + 1]; i++) {
        if (!d->happened[event_of(d, w->before > 0, &w->waits->items[i])]) return false;
    }
    return true;
}

static gp_status add_events(deriver *d, const walker *w, const gp_worker_waits *waits, bool behind, gp_error *err) {
    for (size_t i = waits->first[w->pc]; i < waits->first[w->pc + 1] && d->wide; i++) {
        /* The queue does not wait for it. In the first mini-batch it knew what comes before it by then. A post that
         * begins a program tells more in the second: all of the mini-batch before. */
        if (w->before > 0 && !behind && w->queues->within.known[i]) continue;
        size_t event = event_of(d, w->before > 0 && !behind, &waits->items[i]);
        candidate it = {
            .knows = d->event + event * d->width, .wait = i, .behind = behind, .early = d->early[event % d->events]};
        GP_RETURN_IF_FAILED(add_candidate(d, it, err));
    }
    return GP_OK;
}

static gp_status wait_for_others(deriver *d, const walker *w, gp_error *err) {
    GP_RETURN_IF_FAILED(add_events(d, w, w->waits, false, err));
    return w->before > 0 ? add_events(d, w, w->behind, true, err) : GP_OK;
}

static void tell(deriver *d, const walker *w, const gp_instr *instr, gp_queue queue) {
    gp_wait its;
    if (!gp_instr_event(instr, &its)) return;
    size_t event = event_of(d, w->before > 0, &its);
    d->happened[event] = true;
    if (d->wide) memcpy(d->event + event * d->width, tail_of(d, w, queue), d->width * sizeof(uint32_t));
}

static const gp_worker_posts *posts_of(const deriver *d, const walker *w) {
    return d->request->early ? &d->request->early[w->worker] : NULL;
}

/* Before the instruction counts as over: what it posts, it posts in its midst. */
static void tell_early(deriver *d, const walker *w, gp_queue queue) {
    const gp_worker_posts *posts = posts_of(d, w);
    for (size_t i = 0; posts && i < posts->count; i++) {
        const gp_instr *post = &w->program->instrs[posts->items[i].post];
        gp_wait its;
        if (posts->items[i].pc != w->pc || !gp_instr_event(post, &its)) continue;
        d->early[event_of(d, false, &its)] = true;
        tell(d, w, post, queue);
    }
}

static void tell_others(deriver *d, const walker *w, gp_queue queue) {
    const gp_worker_posts *posts = posts_of(d, w);
    if (!posts || !gp_early_posts_have(posts, w->pc)) tell(d, w, &w->program->instrs[w->pc], queue);
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

/* Until the program ends or waits for another one. */
static gp_status walk(deriver *d, walker *w, bool *moved, gp_error *err) {
    for (; w->pc < w->program->count; w->pc++) {
        const gp_instr *instr = &w->program->instrs[w->pc];
        gp_queue queue = gp_instr_queue(d->stages, instr);
        uint32_t *tail = tail_of(d, w, queue);
        gp_queue_waits *list = w->before > 0 ? &w->queues->behind : &w->queues->within;
        if (!all_happened(d, w)) return GP_OK;
        list->first[w->pc] = (uint32_t)list->count;
        GP_RETURN_IF_FAILED(wait_for_others(d, w, err));
        GP_RETURN_IF_FAILED(use_slots(d, w, queue, err));
        GP_RETURN_IF_FAILED(use_buckets(d, w, queue, err));
        GP_RETURN_IF_FAILED(wait_for_candidates(d, w, queue, err));
        list->first[w->pc + 1] = (uint32_t)list->count;
        tell_early(d, w, queue);
        /* A send or post does nothing itself: to know of it is to know of what comes before it. */
        if (instr->op != GP_INSTR_SEND && instr->op != GP_INSTR_POST) tail[component(d, w->worker, queue)]++;
        memcpy(w->ended + (w->before + w->pc) * d->width, tail, d->width * sizeof *tail);
        tell_others(d, w, queue);
        *moved = true;
    }
    return GP_OK;
}

static void count_slots(const deriver *d, walker *w) {
    w->slots[0] = w->slots[1] = 1;
    w->parts[0] = w->parts[1] = 0;
    for (size_t pc = 0; pc < w->program->count; pc++) {
        const gp_instr *instr = &w->program->instrs[pc];
        if (!w->place[instr->stage]) {
            w->place[instr->stage] = ++w->places;
            for (int i = 0; i < 2; i++) {
                size_t parts = part_count(d, instr->stage, i == 0 ? GP_FRAME_STASH : GP_FRAME_GRAD);
                if (parts > w->parts[i]) w->parts[i] = parts;
            }
        }
        const gp_accesses its = gp_instr_accesses(d->stages, instr);
        for (int i = 0; i < 2; i++) {
            gp_access access = its.frame[i == 0 ? GP_FRAME_STASH : GP_FRAME_GRAD];
            size_t slot = access.uses ? gp_instr_get_slot(instr, access) : 0;
            if (slot >= w->slots[i]) w->slots[i] = slot + 1;
        }
    }
}

static gp_status prepare_walker(deriver *d, int worker, gp_program_queues *queues, gp_error *err) {
    walker *w = &d->walkers[worker];
    *w = (walker){.worker = worker,
                  .program = &d->programs->worker[worker],
                  .waits = &d->request->waits->worker[worker],
                  .behind = d->request->behind ? &d->request->behind->worker[worker] : NULL,
                  .queues = &queues->worker[worker]};
    size_t count = w->program->count;
    GP_RETURN_IF_FAILED(GP_NEW(&w->place, d->stages->count, err));
    count_slots(d, w);
    GP_RETURN_IF_FAILED(GP_NEW(&w->queues->mark, count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&w->queues->within.first, count + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&w->queues->within.known, w->waits->count, err));
    if (w->behind) GP_RETURN_IF_FAILED(GP_NEW(&w->queues->behind.first, count + 1, err));
    if (w->behind) GP_RETURN_IF_FAILED(GP_NEW(&w->queues->behind.known, w->behind->count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&w->tail, GP_QUEUES * d->width, err));
    GP_RETURN_IF_FAILED(GP_NEW(&w->ended, (size_t)d->rounds * count * d->width, err));
    for (int i = 0; i < 2; i++)
        GP_RETURN_IF_FAILED(GP_NEW(&w->uses[i], (size_t)w->places * w->slots[i] * w->parts[i], err));
    GP_RETURN_IF_FAILED(GP_NEW(&w->sums, (size_t)w->places * GP_MOST_BUCKETS * 2, err));
    for (size_t pc = 0; pc < count; pc++) w->queues->mark[pc] = -1;
    return GP_OK;
}

static gp_status walk_all(deriver *d, gp_error *err) {
    bool moved = true;
    while (moved) {
        moved = false;
        for (int w = 0; w < d->programs->workers; w++) GP_RETURN_IF_FAILED(walk(d, &d->walkers[w], &moved, err));
    }
    for (int w = 0; w < d->programs->workers; w++)
        if (d->walkers[w].pc < d->walkers[w].program->count)
            return gp_fail(err, GP_INTERNAL, "worker %d, instruction %zu: waits for an event that never happens", w,
                           d->walkers[w].pc);
    return GP_OK;
}

static gp_status derive(deriver *d, gp_program_queues *queues, gp_error *err) {
    d->events = gp_event_count(d->stages, d->programs->pieces);
    size_t events = (size_t)d->rounds * d->events;
    GP_RETURN_IF_FAILED(GP_NEW(&d->walkers, d->programs->workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&d->happened, events, err));
    GP_RETURN_IF_FAILED(GP_NEW(&d->early, d->events, err));
    if (d->wide) GP_RETURN_IF_FAILED(GP_NEW(&d->event, events * d->width, err));
    for (int w = 0; w < d->programs->workers; w++) GP_RETURN_IF_FAILED(prepare_walker(d, w, queues, err));
    GP_RETURN_IF_FAILED(walk_all(d, err));
    if (d->rounds == 1) return GP_OK;
    for (int w = 0; w < d->programs->workers; w++) {
        d->walkers[w].before = d->walkers[w].program->count;
        d->walkers[w].pc = 0;
    }
    return walk_all(d, err);
}

static void free_deriver(deriver *d) {
    for (int w = 0; d->walkers && w < d->programs->workers; w++) {
        walker *its = &d->walkers[w];
        free(its->place);
        free(its->uses[0]);
        free(its->uses[1]);
        free(its->sums);
        free(its->tail);
        free(its->ended);
    }
    free(d->walkers);
    free(d->candidates);
    free(d->happened);
    free(d->early);
    free(d->event);
}

/* Whether it is worth its memory: knowledge of all workers behind each instruction, and where each copy is. */
static bool may_be_wide(const gp_stages *stages, const gp_programs *programs, int rounds, size_t memory) {
    size_t instrs = 0, copies = stages->edge_count * (size_t)programs->pieces;
    size_t width = (size_t)rounds * GP_QUEUES * (size_t)programs->workers * sizeof(uint32_t);
    for (int w = 0; w < programs->workers; w++) instrs += programs->worker[w].count;
    return instrs + 2 * copies <= memory / width;
}

gp_status gp_queues_create(const gp_queues_request *request, gp_program_queues **out, gp_error *err) {
    const gp_programs *programs = request->programs;
    int rounds = request->behind ? 2 : 1;
    bool wide = may_be_wide(request->stages, programs, rounds, request->memory);
    deriver d = {.request = request, .stages = request->stages, .programs = programs, .rounds = rounds, .wide = wide};
    gp_program_queues *queues = NULL;
    d.width = GP_QUEUES * (wide ? (size_t)programs->workers : 1);
    GP_RETURN_IF_FAILED(GP_NEW(&queues, 1, err));
    queues->workers = programs->workers;
    gp_status status = GP_NEW(&queues->worker, programs->workers, err);
    if (status == GP_OK) status = derive(&d, queues, err);
    free_deriver(&d);
    if (status != GP_OK) {
        gp_queues_destroy(&queues);
        return status;
    }
    *out = queues;
    return GP_OK;
}

static void free_waits(gp_queue_waits *waits) {
    free(waits->first);
    free(waits->wait);
    free(waits->known);
}

void gp_queues_destroy(gp_program_queues **queues) {
    gp_program_queues *it = *queues;
    if (!it) return;
    for (int w = 0; it->worker && w < it->workers; w++) {
        free(it->worker[w].mark);
        free_waits(&it->worker[w].within);
        free_waits(&it->worker[w].behind);
    }
    free(it->worker);
    free(it);
    *queues = NULL;
}
