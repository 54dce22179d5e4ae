#include "pipeline/slots.h"

#include <float.h>
#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/play.h"

/* Lives of the slots of one stage and frame: which micro-batch has which slot, and when each slot is free again. */
typedef struct pool {
    int *slot_of_micro;   /* −1: none alive */
    double *end_of_micro; /* when what was sent from it has been pulled, as far as known from the play */
    double *free_at;      /* [slot]; DBL_MAX while alive */
    size_t slots, capacity;
} pool;

typedef struct assigner {
    const gp_stages *stages;
    gp_programs *programs;
    const gp_play *play;
    double *pulled_at;     /* [edge·pieces + micro] */
    bool ahead;            /* of the worker at hand */
    pool pools[GP_FRAMES]; /* of the stage at hand */
    bool *pending;         /* [micro] its backward for weights is still to come */
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

static gp_status begin_life(pool *p, int micro, double now, uint16_t *slot, gp_error *err) {
    if (p->slot_of_micro[micro] >= 0) {
        *slot = (uint16_t)p->slot_of_micro[micro];
        return GP_OK;
    }
    size_t s = 0;
    while (s < p->slots && p->free_at[s] >= now) s++;
    if (s == p->slots) {
        if (s >= GP_SLOT_MAX) return gp_fail(err, GP_PROGRAM, "a stage needs more than %d slots", GP_SLOT_MAX);
        GP_RETURN_IF_FAILED(GP_GROW(&p->free_at, &p->capacity, s + 1, err));
        p->slots++;
    }
    p->free_at[s] = DBL_MAX;
    p->slot_of_micro[micro] = (int)s;
    *slot = (uint16_t)s;
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
    p->end_of_micro[micro] = -DBL_MAX;
    p->slot_of_micro[micro] = -1;
}

static void note_send(assigner *a, pool *p, const gp_instr *instr) {
    double pulled = a->pulled_at[(size_t)instr->edge * (size_t)a->programs->pieces + instr->micro];
    if (pulled > p->end_of_micro[instr->micro]) p->end_of_micro[instr->micro] = pulled;
}

static gp_status assign_send(assigner *a, const gp_program *program, size_t pc, gp_error *err) {
    gp_instr *instr = &program->instrs[pc];
    if (gp_edge_is_fixed(&a->stages->edges[instr->edge])) return GP_OK;
    gp_frame frame;
    uint16_t slot;
    gp_instr_sends_from(a->stages, instr, &frame, &slot);
    pool *p = &a->pools[frame];
    if (p->slot_of_micro[instr->micro] < 0)
        return gp_programs_refuse(a->programs, a->programs->worker_of_stage[instr->stage], pc, err,
                                  "sends what was not computed");
    instr->slot = (uint16_t)p->slot_of_micro[instr->micro];
    note_send(a, p, instr);
    bool ends = frame != GP_FRAME_SAVED && gp_program_last_send(program, pc);
    if (ends && !(frame == GP_FRAME_GRAD && a->pending[instr->micro])) end_life(a, p, instr->micro, -DBL_MAX);
    return GP_OK;
}

/* `before`: when the computation before this instruction began, which a receive that goes ahead runs beside. */
static gp_status assign_instr(assigner *a, const gp_program *program, size_t pc, double before, gp_error *err) {
    gp_instr *instr = &program->instrs[pc];
    int worker = a->programs->worker_of_stage[instr->stage];
    double now = a->play->worker[worker].start[pc], ended = a->play->worker[worker].end[pc];
    if (a->ahead && (instr->op == GP_INSTR_RECV || instr->op == GP_INSTR_LOAD) && before < now) now = before;
    const gp_stage *stage = &a->stages->stage[instr->stage];
    pool *pools = a->pools;
    int micro = instr->micro;
    switch (instr->op) {
    case GP_INSTR_LOAD: return begin_life(&pools[GP_FRAME_STASH], micro, now, &instr->slot, err);
    case GP_INSTR_RECV:
        if (gp_edge_is_fixed(&a->stages->edges[instr->edge])) return GP_OK;
        return begin_life(
            &pools[a->stages->edges[instr->edge].kind == GP_EDGE_GRADIENT ? GP_FRAME_GRAD : GP_FRAME_STASH], micro, now,
            &instr->slot, err);
    case GP_INSTR_SEND: return assign_send(a, program, pc, err);
    case GP_INSTR_FORWARD:
        GP_RETURN_IF_FAILED(begin_life(&pools[GP_FRAME_STASH], micro, now, &instr->slot, err));
        if (!a->programs->training) end_life(a, &pools[GP_FRAME_STASH], micro, ended);
        if (instr->flags & GP_INSTR_KEEP) return begin_life(&pools[GP_FRAME_SAVED], micro, now, &instr->work, err);
        return stage->out.count ? begin_life(&pools[GP_FRAME_OUTBOX], micro, now, &instr->work, err) : GP_OK;
    case GP_INSTR_RECOMPUTE:
        GP_RETURN_IF_FAILED(begin_life(&pools[GP_FRAME_STASH], micro, now, &instr->slot, err));
        return begin_life(&pools[GP_FRAME_SAVED], micro, now, &instr->work, err);
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_INPUT:
    case GP_INSTR_BACKWARD_WEIGHT:
        GP_RETURN_IF_FAILED(begin_life(&pools[GP_FRAME_STASH], micro, now, &instr->slot, err));
        GP_RETURN_IF_FAILED(begin_life(&pools[GP_FRAME_SAVED], micro, now, &instr->work, err));
        GP_RETURN_IF_FAILED(begin_life(&pools[GP_FRAME_GRAD], micro, now, &instr->grad, err));
        a->pending[micro] = instr->op == GP_INSTR_BACKWARD_INPUT;
        if (a->pending[micro]) return GP_OK;
        end_life(a, &pools[GP_FRAME_STASH], micro, ended);
        end_life(a, &pools[GP_FRAME_SAVED], micro, ended);
        if (stage->grad_out.count == 0 || instr->op == GP_INSTR_BACKWARD_WEIGHT)
            end_life(a, &pools[GP_FRAME_GRAD], micro, ended);
        return GP_OK;
    default: return GP_OK;
    }
}

static void fini_pools(assigner *a) {
    for (int f = 0; f < GP_FRAMES; f++) {
        pool *p = &a->pools[f];
        free(p->slot_of_micro);
        free(p->end_of_micro);
        free(p->free_at);
        *p = (pool){0};
    }
    free(a->pending);
    a->pending = NULL;
}

static gp_status assign_stage(assigner *a, int s, gp_error *err) {
    int worker = a->programs->worker_of_stage[s];
    const gp_program *program = &a->programs->worker[worker];
    gp_status status = GP_NEW(&a->pending, a->programs->pieces, err);
    for (int f = 0; f < GP_FRAMES && status == GP_OK; f++) {
        pool *p = &a->pools[f];
        status = GP_NEW(&p->slot_of_micro, a->programs->pieces, err);
        if (status == GP_OK) status = GP_NEW(&p->end_of_micro, a->programs->pieces, err);
        for (int m = 0; m < a->programs->pieces && status == GP_OK; m++) {
            p->slot_of_micro[m] = -1;
            p->end_of_micro[m] = -DBL_MAX;
        }
    }
    double before = -DBL_MAX;
    for (size_t pc = 0; pc < program->count && status == GP_OK; pc++) {
        if (program->instrs[pc].stage == s) status = assign_instr(a, program, pc, before, err);
        if (unit_duration(NULL, 0, 0, &program->instrs[pc]) > 0) before = a->play->worker[worker].start[pc];
    }
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
    gp_play *play = NULL;
    gp_status status = gp_play_create(stages, programs, NULL, unit_duration, NULL, &play, err);
    if (status == GP_OK) status = GP_NEW(&a.pulled_at, stages->edge_count * (size_t)programs->pieces, err);
    if (status == GP_OK) {
        a.play = play;
        find_pulls(&a);
    }
    for (int s = 0; s < stages->count && status == GP_OK; s++) {
        a.ahead = ahead && ahead[programs->worker_of_stage[s]];
        status = assign_stage(&a, s, err);
    }
    free(a.pulled_at);
    gp_play_destroy(&play);
    return status;
}

static void raise_count(gp_slot_counts *counts, gp_frame frame, uint16_t slot) {
    if (counts->frame[frame] < slot + 1) counts->frame[frame] = slot + 1;
}

void gp_slots_count(const gp_stages *stages, const gp_programs *programs, gp_slot_counts *counts) {
    for (int w = 0; w < programs->workers; w++) {
        const gp_program *program = &programs->worker[w];
        for (size_t pc = 0; pc < program->count; pc++) {
            const gp_instr *instr = &program->instrs[pc];
            gp_frame frame;
            uint16_t slot;
            if (gp_instr_begins(stages, instr, &frame, &slot)) raise_count(&counts[instr->stage], frame, slot);
            if (instr->op == GP_INSTR_FORWARD) raise_count(&counts[instr->stage], GP_FRAME_STASH, instr->slot);
        }
    }
}
