#include "pipeline/queues.h"

#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/waits.h"

gp_queue gp_instr_queue(const gp_stages *stages, const gp_instr *instr) {
    if (instr->op == GP_INSTR_LOAD) return GP_QUEUE_IN;
    if (instr->op != GP_INSTR_RECV || gp_edge_is_fixed(&stages->edges[instr->edge])) return GP_QUEUE_COMPUTE;
    return stages->edges[instr->edge].kind == GP_EDGE_GRADIENT ? GP_QUEUE_BACK : GP_QUEUE_IN;
}

/* Slots that two queues use: what was last done with each, as instructions + 1; 0: nothing. */
typedef struct slot_use {
    size_t last[GP_QUEUES];
} slot_use;

/* What is known where an instruction ends: the last instruction of each queue that has ended before, + 1. */
typedef struct knowledge {
    size_t ended[GP_QUEUES];
} knowledge;

typedef struct deriver {
    const gp_stages *stages;
    const gp_program *program;
    gp_worker_queues *queues;
    int *place; /* [stage] of the worker's stages, counted from 1; 0: another worker's */
    int places;
    slot_use *uses[2]; /* stash, gradient: [place·slots + slot] */
    size_t slots[2];
    knowledge tail[GP_QUEUES]; /* of each queue's last instruction */
    knowledge *ended;          /* [pc] */
} deriver;

static slot_use *use_of(deriver *d, gp_frame frame, const gp_instr *instr, uint16_t slot) {
    int which = frame == GP_FRAME_GRAD;
    return &d->uses[which][(size_t)(d->place[instr->stage] - 1) * d->slots[which] + slot];
}

/* The queue of `pc` waits until instruction `before` − 1 of queue `other` has ended. */
static gp_status wait_until(deriver *d, gp_queue queue, gp_queue other, size_t before, gp_error *err) {
    knowledge *its = &d->tail[queue];
    gp_worker_queues *queues = d->queues;
    if (before <= its->ended[other]) return GP_OK;
    GP_RETURN_IF_FAILED(GP_GROW(&queues->wait, &queues->capacity, queues->count + 1, err));
    int *mark = &queues->mark[before - 1];
    if (*mark < 0) *mark = queues->marks++;
    queues->wait[queues->count++] = *mark;
    for (int q = 0; q < GP_QUEUES; q++)
        if (d->ended[before - 1].ended[q] > its->ended[q]) its->ended[q] = d->ended[before - 1].ended[q];
    return GP_OK;
}

static gp_status use(deriver *d, size_t pc, gp_queue queue, gp_frame frame, uint16_t slot, gp_error *err) {
    slot_use *its = use_of(d, frame, &d->program->instrs[pc], slot);
    for (int other = 0; other < GP_QUEUES; other++)
        if (other != (int)queue) GP_RETURN_IF_FAILED(wait_until(d, queue, (gp_queue)other, its->last[other], err));
    its->last[queue] = pc + 1;
    return GP_OK;
}

static gp_status derive(deriver *d, size_t pc, gp_error *err) {
    const gp_instr *instr = &d->program->instrs[pc];
    gp_queue queue = gp_instr_queue(d->stages, instr);
    d->queues->first[pc] = d->queues->count;
    switch (instr->op) {
    case GP_INSTR_LOAD:
    case GP_INSTR_FORWARD:
    case GP_INSTR_RECOMPUTE: GP_RETURN_IF_FAILED(use(d, pc, queue, GP_FRAME_STASH, instr->slot, err)); break;
    case GP_INSTR_BACKWARD:
        GP_RETURN_IF_FAILED(use(d, pc, queue, GP_FRAME_STASH, instr->slot, err));
        GP_RETURN_IF_FAILED(use(d, pc, queue, GP_FRAME_GRAD, instr->grad, err));
        break;
    case GP_INSTR_RECV:
        if (queue != GP_QUEUE_COMPUTE)
            GP_RETURN_IF_FAILED(
                use(d, pc, queue, queue == GP_QUEUE_BACK ? GP_FRAME_GRAD : GP_FRAME_STASH, instr->slot, err));
        break;
    default: break;
    }
    d->tail[queue].ended[queue] = pc + 1;
    d->ended[pc] = d->tail[queue];
    d->queues->first[pc + 1] = d->queues->count;
    return GP_OK;
}

static void count_slots(deriver *d) {
    d->slots[0] = d->slots[1] = 1;
    for (size_t pc = 0; pc < d->program->count; pc++) {
        const gp_instr *instr = &d->program->instrs[pc];
        bool backward = instr->op == GP_INSTR_BACKWARD;
        if (!d->place[instr->stage]) d->place[instr->stage] = ++d->places;
        if (instr->slot >= d->slots[0]) d->slots[0] = (size_t)instr->slot + 1;
        if (instr->slot >= d->slots[1]) d->slots[1] = (size_t)instr->slot + 1;
        if (backward && instr->grad >= d->slots[1]) d->slots[1] = (size_t)instr->grad + 1;
    }
}

static gp_status derive_worker(deriver *d, gp_error *err) {
    size_t count = d->program->count;
    GP_RETURN_IF_FAILED(GP_NEW(&d->place, d->stages->count, err));
    count_slots(d);
    GP_RETURN_IF_FAILED(GP_NEW(&d->queues->mark, count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&d->queues->first, count + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&d->ended, count, err));
    for (int i = 0; i < 2; i++) GP_RETURN_IF_FAILED(GP_NEW(&d->uses[i], d->slots[i] * (size_t)d->places, err));
    for (size_t pc = 0; pc < count; pc++) d->queues->mark[pc] = -1;
    for (size_t pc = 0; pc < count; pc++) GP_RETURN_IF_FAILED(derive(d, pc, err));
    return GP_OK;
}

gp_status gp_queues_create(const gp_stages *stages, const gp_programs *programs, gp_program_queues **out,
                           gp_error *err) {
    gp_program_queues *queues = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&queues, 1, err));
    queues->workers = programs->workers;
    gp_status status = GP_NEW(&queues->worker, programs->workers, err);
    for (int w = 0; w < programs->workers && status == GP_OK; w++) {
        deriver d = {.stages = stages, .program = &programs->worker[w], .queues = &queues->worker[w]};
        status = derive_worker(&d, err);
        free(d.place);
        free(d.uses[0]);
        free(d.uses[1]);
        free(d.ended);
    }
    if (status != GP_OK) {
        gp_queues_destroy(&queues);
        return status;
    }
    *out = queues;
    return GP_OK;
}

void gp_queues_destroy(gp_program_queues **queues) {
    gp_program_queues *it = *queues;
    if (!it) return;
    for (int w = 0; it->worker && w < it->workers; w++) {
        free(it->worker[w].mark);
        free(it->worker[w].first);
        free(it->worker[w].wait);
    }
    free(it->worker);
    free(it);
    *queues = NULL;
}
