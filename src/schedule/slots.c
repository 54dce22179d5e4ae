#include "schedule/slots.h"

#include <float.h>
#include <stdlib.h>

#include "base/memory.h"
#include "schedule/play.h"

/* Saved slots are sent before the backward, which ends them. */
static bool all_sent(const gp_stages *stages, const gp_programs *programs, const gp_instr *instr, gp_frame frame,
                     const gp_life *life) {
    const gp_stage *stage = &stages->stage[instr->stage];
    if (frame != GP_FRAME_OUTBOX && frame != GP_FRAME_GRAD) return true;
    bool gradients = frame == GP_FRAME_GRAD;
    const gp_indices *edges = gradients ? &stage->grad_out : &stage->out;
    return (gradients ? life->grads_sent : life->sent) ==
           gp_edges_carrying(gp_programs_pieces(programs), stages, edges, instr->micro);
}

unsigned gp_life_end(const gp_stages *stages, const gp_programs *programs, const gp_instr *instr, gp_life *life) {
    const gp_accesses its = gp_instr_accesses(stages, instr);
    const unsigned ends = programs->training ? GP_ENDS : GP_ENDS | GP_ENDS_FORWARD;
    unsigned ended = 0;
    for (int f = 0; f < GP_FRAMES; f++) {
        unsigned uses = its.frame[f].uses;
        if (uses & GP_SENDS) (*(f == GP_FRAME_GRAD ? &life->grads_sent : &life->sent))++;
        if (uses & ends) life->over |= 1U << f;
        bool last = uses & (ends | GP_SENDS) && life->over & 1U << f;
        if (last && all_sent(stages, programs, instr, (gp_frame)f, life)) ended |= 1U << f;
    }
    return ended;
}

/* Lives of the slots of a stage and frame: which micro-batch has which slot, and when each slot is free again. */
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
    double *pulled_at; /* [edge·pieces + micro] */
    gp_life *lives;    /* [stage·pieces + micro] */
    /* Of the current worker. */
    bool ahead;
    double before; /* when its last computation began */
    pool *pools;   /* [stage·frames + frame] */
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
        pool *p = &a->pools[instr->stage * GP_FRAMES + f];
        bool sends = its.frame[f].uses & GP_SENDS;
        if (!its.frame[f].uses || (sends && p->slot_of_micro[instr->micro] < 0)) continue;
        if (sends) note_send(a, p, instr);
        GP_RETURN_IF_FAILED(begin_life(p, instr->micro, now, err));
        gp_instr_set_slot(instr, its.frame[f], (uint16_t)p->slot_of_micro[instr->micro]);
    }
    return GP_OK;
}

/* A receive that goes ahead runs beside the computation before it. */
static gp_status assign_instr(assigner *a, int worker, size_t pc, gp_error *err) {
    gp_instr *instr = &a->programs->worker[worker].instrs[pc];
    double now = a->play->worker[worker].start[pc], ended = a->play->worker[worker].end[pc];
    gp_life *life = &a->lives[(size_t)instr->stage * (size_t)a->programs->pieces + instr->micro];
    if (unit_duration(NULL, worker, pc, instr) > 0) a->before = now;
    if (a->ahead && gp_instr_queue(a->stages, instr) != GP_QUEUE_COMPUTE && a->before < now) now = a->before;
    GP_RETURN_IF_FAILED(assign_slots(a, instr, now, err));
    unsigned ends = gp_life_end(a->stages, a->programs, instr, life);
    for (int f = 0; f < GP_FRAMES && ends; f++, ends >>= 1)
        if (ends & 1)
            end_life(a, &a->pools[instr->stage * GP_FRAMES + f], instr->micro,
                     instr->op == GP_INSTR_SEND ? -DBL_MAX : ended);
    return GP_OK;
}

static gp_status init_pools(assigner *a, int stage, gp_error *err) {
    for (pool *p = &a->pools[(size_t)stage * GP_FRAMES], *end = p + GP_FRAMES; p < end; p++) {
        GP_RETURN_IF_FAILED(GP_NEW(&p->slot_of_micro, a->programs->pieces, err));
        GP_RETURN_IF_FAILED(GP_NEW(&p->end_of_micro, a->programs->pieces, err));
        for (int m = 0; m < a->programs->pieces; m++) {
            p->slot_of_micro[m] = -1;
            p->end_of_micro[m] = -DBL_MAX;
        }
    }
    return GP_OK;
}

static void fini_pools(assigner *a) {
    for (pool *p = a->pools, *end = p + (size_t)a->programs->stages * GP_FRAMES; p < end; p++) {
        free(p->slot_of_micro);
        free(p->end_of_micro);
        free(p->free_at);
        *p = (pool){0};
    }
}

static gp_status assign_worker(assigner *a, int worker, gp_error *err) {
    gp_status status = GP_OK;
    for (int s = 0; s < a->programs->stages && status == GP_OK; s++)
        if (gp_programs_worker(a->programs, s) == worker) status = init_pools(a, s, err);
    a->before = -DBL_MAX;
    for (size_t pc = 0; pc < a->programs->worker[worker].count && status == GP_OK; pc++)
        status = assign_instr(a, worker, pc, err);
    fini_pools(a);
    return status;
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
    const gp_play_request request = {
        .stages = stages, .programs = programs, .waits = waits, .duration = unit_duration, .timeline = true};
    if (status == GP_OK) status = gp_play_run(&request, &play, err);
    gp_waits_destroy(&waits);
    a.play = play;
    if (status == GP_OK) status = GP_NEW(&a.pulled_at, stages->edge_count * (size_t)programs->pieces, err);
    if (status == GP_OK) status = GP_NEW(&a.lives, (size_t)stages->count * (size_t)programs->pieces, err);
    if (status == GP_OK) status = GP_NEW(&a.pools, stages->count * GP_FRAMES, err);
    if (status == GP_OK) find_pulls(&a);
    for (int w = 0; w < programs->workers && status == GP_OK; w++) {
        a.ahead = ahead && ahead[w];
        status = assign_worker(&a, w, err);
    }
    free(a.pulled_at);
    free(a.lives);
    free(a.pools);
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
