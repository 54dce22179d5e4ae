#include "schedule/slots.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "schedule/play.h"

/* Lives of the slots of one stage and frame: which micro-batch has which slot, and when each slot is free again. */
typedef struct pool {
    int *slot_of_micro;   /* −1: none alive */
    double *end_of_micro; /* when what was sent from it has been pulled, as far as known from the play */
    double *free_at;      /* [slot]; DBL_MAX while alive */
    size_t slots, capacity;
    size_t lowest; /* all slots before it are alive: where the search for a free one begins */
} pool;

typedef struct assigner {
    const gp_stages *stages;
    gp_programs *programs;
    const gp_play *play;
    double *pulled_at;     /* [edge·pieces + micro] */
    size_t *first;         /* [stage]: where its instructions begin in `pcs` */
    uint32_t *pcs;         /* of all stages, each one's in its worker's order */
    double *before;        /* beside pcs: when the last computation before it on its worker began */
    bool ahead;            /* of the worker at hand */
    pool pools[GP_FRAMES]; /* of the stage at hand */
    gp_life *lives;        /* [micro] likewise */
} assigner;

static double unit_duration(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)context;
    (void)worker;
    (void)pc;
    switch (instr->op) {
    case GP_INSTR_FORWARD:
    case GP_INSTR_RECOMPUTE: return 1;
    case GP_INSTR_BACKWARD: return 2;
    case GP_INSTR_BACKWARD_INPUT:
    case GP_INSTR_BACKWARD_WEIGHT: return 1;
    default: return 0;
    }
}

static gp_status begin_life(pool *p, int micro, double now, gp_error *err) {
    if (p->slot_of_micro[micro] >= 0) return GP_OK;
    while (p->lowest < p->slots && p->free_at[p->lowest] == DBL_MAX) p->lowest++;
    size_t s = p->lowest;
    while (s < p->slots && p->free_at[s] >= now) s++;
    if (s == p->slots) {
        if (s >= GP_SLOT_MAX) return gp_fail(err, GP_PROGRAM, "a stage needs more than %d slots", GP_SLOT_MAX);
        GP_RETURN_IF_FAILED(GP_GROW(&p->free_at, &p->capacity, s + 1, err));
        p->slots++;
    }
    p->free_at[s] = DBL_MAX;
    p->slot_of_micro[micro] = (int)s;
    return GP_OK;
}

/* The micro-batch has no more use for its slot here: later instructions of this worker may reuse it at once where
 * nothing was sent from it, else after the time at which the last of it was pulled (strictly after, so that a copy has
 * time to happen while the next computation runs). Where receives go ahead, from the time on at which the
 * computation `ended`: times are whole numbers. */
static void end_life(const assigner *a, pool *p, int micro, double ended) {
    int slot = p->slot_of_micro[micro];
    if (slot < 0) return;
    if (a->ahead && ended - 0.5 > p->end_of_micro[micro]) p->end_of_micro[micro] = ended - 0.5;
    p->free_at[slot] = p->end_of_micro[micro];
    if ((size_t)slot < p->lowest) p->lowest = (size_t)slot;
    p->end_of_micro[micro] = -DBL_MAX;
    p->slot_of_micro[micro] = -1;
}

static void note_send(const assigner *a, pool *p, const gp_instr *instr) {
    double pulled = a->pulled_at[(size_t)instr->edge * (size_t)a->programs->pieces + instr->micro];
    if (pulled > p->end_of_micro[instr->micro]) p->end_of_micro[instr->micro] = pulled;
}

/* A send without a slot is refused by the validator, which knows why. */
static gp_status assign_slots(assigner *a, gp_instr *instr, double now, gp_error *err) {
    const gp_accesses its = gp_instr_accesses(a->stages, instr);
    for (int f = 0; f < GP_FRAMES; f++) {
        pool *p = &a->pools[f];
        bool sends = its.frame[f].uses & GP_SENDS;
        if (!its.frame[f].uses || (sends && p->slot_of_micro[instr->micro] < 0)) continue;
        if (sends) note_send(a, p, instr);
        GP_RETURN_IF_FAILED(begin_life(p, instr->micro, now, err));
        gp_instr_set_slot(instr, its.frame[f], (uint16_t)p->slot_of_micro[instr->micro]);
    }
    return GP_OK;
}

/* `before`: when the computation before this instruction began, which a receive that goes ahead runs beside. */
static gp_status assign_instr(assigner *a, int worker, size_t pc, double before, gp_error *err) {
    gp_instr *instr = &a->programs->worker[worker].instrs[pc];
    double now = a->play->worker[worker].start[pc], ended = a->play->worker[worker].end[pc];
    if (a->ahead && gp_instr_queue(a->stages, instr) != GP_QUEUE_COMPUTE && before < now) now = before;
    GP_RETURN_IF_FAILED(assign_slots(a, instr, now, err));
    unsigned ends = gp_life_end(a->stages, a->programs->training, instr, &a->lives[instr->micro]);
    for (int f = 0; f < GP_FRAMES && ends; f++, ends >>= 1)
        if (ends & 1) end_life(a, &a->pools[f], instr->micro, instr->op == GP_INSTR_SEND ? -DBL_MAX : ended);
    return GP_OK;
}

static void fini_pools(assigner *a) {
    for (int f = 0; f < GP_FRAMES; f++) {
        pool *p = &a->pools[f];
        free(p->slot_of_micro);
        free(p->end_of_micro);
        free(p->free_at);
        *p = (pool){0};
    }
    free(a->lives);
    a->lives = NULL;
}

static gp_status assign_stage(assigner *a, int s, gp_error *err) {
    int worker = a->programs->worker_of_stage[s];
    gp_status status = GP_NEW(&a->lives, a->programs->pieces, err);
    for (int f = 0; f < GP_FRAMES && status == GP_OK; f++) {
        pool *p = &a->pools[f];
        status = GP_NEW(&p->slot_of_micro, a->programs->pieces, err);
        if (status == GP_OK) status = GP_NEW(&p->end_of_micro, a->programs->pieces, err);
        for (int m = 0; m < a->programs->pieces && status == GP_OK; m++) {
            p->slot_of_micro[m] = -1;
            p->end_of_micro[m] = -DBL_MAX;
        }
    }
    for (size_t i = a->first[s]; i < a->first[s + 1] && status == GP_OK; i++)
        status = assign_instr(a, worker, a->pcs[i], a->before[i], err);
    fini_pools(a);
    return status;
}

static gp_status sort_by_stage(assigner *a, gp_error *err) {
    const gp_programs *programs = a->programs;
    size_t *next = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&a->first, programs->stages + 1, err));
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) a->first[programs->worker[w].instrs[pc].stage + 1]++;
    for (int s = 0; s < programs->stages; s++) a->first[s + 1] += a->first[s];
    GP_RETURN_IF_FAILED(GP_NEW(&a->pcs, a->first[programs->stages], err));
    GP_RETURN_IF_FAILED(GP_NEW(&a->before, a->first[programs->stages], err));
    GP_RETURN_IF_FAILED(GP_NEW(&next, programs->stages, err));
    memcpy(next, a->first, (size_t)programs->stages * sizeof *next);
    for (int w = 0; w < programs->workers; w++) {
        double before = -DBL_MAX;
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            size_t at = next[instr->stage]++;
            a->pcs[at] = (uint32_t)pc;
            a->before[at] = before;
            if (unit_duration(NULL, 0, 0, instr) > 0) before = a->play->worker[w].start[pc];
        }
    }
    free(next);
    return GP_OK;
}

static void find_pulls(assigner *a) {
    for (int w = 0; w < a->programs->workers; w++) {
        const gp_program *program = &a->programs->worker[w];
        for (size_t pc = 0; pc < program->count; pc++) {
            const gp_instr *instr = &program->instrs[pc];
            if (instr->op == GP_INSTR_RECV)
                a->pulled_at[(size_t)instr->edge * (size_t)a->programs->pieces + instr->micro] =
                    a->play->worker[w].end[pc];
        }
    }
}

gp_status gp_slots_assign(const gp_stages *stages, gp_programs *programs, const bool *ahead, gp_error *err) {
    assigner a = {.stages = stages, .programs = programs};
    gp_waits *waits = NULL;
    gp_play *play = NULL;
    gp_status status = gp_waits_create(stages, programs, false, &waits, err);
    if (status == GP_OK) status = gp_play_create(stages, programs, waits, unit_duration, NULL, &play, err);
    gp_waits_destroy(&waits);
    if (status == GP_OK) status = GP_NEW(&a.pulled_at, stages->edge_count * (size_t)programs->pieces, err);
    if (status == GP_OK) {
        a.play = play;
        find_pulls(&a);
        status = sort_by_stage(&a, err);
    }
    for (int s = 0; s < stages->count && status == GP_OK; s++) {
        a.ahead = ahead && ahead[programs->worker_of_stage[s]];
        status = assign_stage(&a, s, err);
    }
    free(a.pulled_at);
    free(a.first);
    free(a.pcs);
    free(a.before);
    gp_play_destroy(&play);
    return status;
}

void gp_slots_count(const gp_stages *stages, const gp_programs *programs, gp_slot_counts *counts) {
    for (int w = 0; w < programs->workers; w++) {
        const gp_program *program = &programs->worker[w];
        for (size_t pc = 0; pc < program->count; pc++) {
            const gp_instr *instr = &program->instrs[pc];
            const gp_accesses its = gp_instr_accesses(stages, instr);
            for (int f = 0; f < GP_FRAMES; f++) {
                int *count = &counts[instr->stage].frame[f];
                int least = its.frame[f].uses ? gp_instr_get_slot(instr, its.frame[f]) + 1 : 0;
                if (*count < least) *count = least;
            }
        }
    }
}
