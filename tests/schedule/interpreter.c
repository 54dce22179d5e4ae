#include "schedule/interpreter.h"

#include <stdlib.h>

#include "base/memory.h"
#include "schedule/toy_graph.h"

enum { STASH, SAVED, OUTBOX, GRAD, FRAMES };

/* Of one copy: where it can be pulled from. */
typedef struct sent {
    bool sent, pulled;
    int frame;
    uint16_t slot;
} sent;

typedef struct stage_state {
    int forwards, backwards, weights;
    bool total, accumulates, adds_weights, normed, clipped, stepped;
    bool posted[2], collected[2]; /* by gp_part_kind */
} stage_state;

typedef struct machine {
    const gp_stages *stages;
    const gp_programs *programs;
    int keys;
    int *contents; /* [frame][stage][slot][key]: the micro-batch, +1. Keys of stash, outbox, saved: values; one more in
                      saved: what backward needs. Of gradients: edges coming, edges leaving, and one more: what the
                      backward for weights needs */
    sent *copies;  /* [edge][micro] */
    bool *forward, *backward, *weight; /* [stage][micro] */
    stage_state *state;                /* [stage] */
    size_t *pc;
    bool *meets; /* [worker] */
    gp_error *err;
} machine;

typedef enum outcome { WENT_ON, BLOCKED, HARM } outcome;

static outcome harm(machine *m, const gp_instr *instr, const char *what) {
    char text[GP_INSTR_TEXT];
    (void)gp_fail(m->err, GP_PROGRAM, "%s: %s", gp_instr_text(text, instr), what);
    return HARM;
}

static int *content(machine *m, int frame, int stage, int slot, int key) {
    return &m->contents[((frame * m->stages->count + stage) * INTERPRETER_SLOTS + slot) * m->keys + key];
}

static bool holds(machine *m, int frame, const gp_instr *instr, int slot, int key) {
    return *content(m, frame, instr->stage, slot, key) == instr->micro + 1;
}

static void fill(machine *m, int frame, const gp_instr *instr, int slot, int key) {
    *content(m, frame, instr->stage, slot, key) = instr->micro + 1;
}

static int backward_needs(const machine *m) {
    return m->stages->graph->value_count;
}

static int weights_need(const machine *m) {
    return 2 * (int)m->stages->edge_count;
}

static int leaving(const machine *m, int edge) {
    return (int)m->stages->edge_count + edge;
}

static sent *copy_of(machine *m, const gp_instr *instr) {
    return &m->copies[instr->edge * (uint32_t)m->programs->pieces + instr->micro];
}

/* Whether another micro-batch's copy still waits to be pulled from the slot. */
static bool still_read(machine *m, int frame, const gp_instr *instr, uint16_t slot) {
    for (uint32_t e = 0; e < m->stages->edge_count; e++) {
        if (m->stages->edges[e].from != instr->stage) continue;
        for (int micro = 0; micro < m->programs->pieces; micro++) {
            const sent *copy = &m->copies[e * (uint32_t)m->programs->pieces + (uint32_t)micro];
            if (copy->sent && !copy->pulled && copy->frame == frame && copy->slot == slot && micro != instr->micro)
                return true;
        }
    }
    return false;
}

static bool stash_complete(machine *m, const gp_instr *instr) {
    const gp_indices *takes = &m->stages->stage[instr->stage].takes;
    for (size_t i = 0; i < takes->count; i++)
        if (!holds(m, STASH, instr, instr->slot, takes->items[i])) return false;
    return true;
}

static outcome load(machine *m, const gp_instr *instr) {
    const gp_stage *stage = &m->stages->stage[instr->stage];
    if (stage->loads_input) fill(m, STASH, instr, instr->slot, GP_VALUE_INPUT);
    if (stage->loads_target) fill(m, STASH, instr, instr->slot, GP_VALUE_TARGET);
    return WENT_ON;
}

static outcome forward(machine *m, const gp_instr *instr) {
    const gp_stage *stage = &m->stages->stage[instr->stage];
    stage_state *state = &m->state[instr->stage];
    bool keep = instr->flags & GP_INSTR_KEEP;
    int to = keep ? SAVED : OUTBOX;
    if (keep && !m->programs->training) return harm(m, instr, "keeps, but there are no saved slots");
    if ((keep || stage->gives.count > 0) && still_read(m, to, instr, instr->work)) return BLOCKED;
    if (!stash_complete(m, instr)) return harm(m, instr, "the stash does not hold what the stage takes");
    bool *done = &m->forward[instr->stage * m->programs->pieces + instr->micro];
    if (*done) return harm(m, instr, "happens twice");
    *done = true;
    state->forwards++;
    if (state->total) return harm(m, instr, "comes after the total was taken");
    if (instr->flags & GP_INSTR_LAST) {
        if (state->forwards < m->programs->pieces) return harm(m, instr, "takes the total too early");
        state->total = true;
    }
    if (keep) fill(m, SAVED, instr, instr->work, backward_needs(m));
    for (size_t i = 0; i < stage->gives.count; i++) fill(m, to, instr, instr->work, stage->gives.items[i]);
    return WENT_ON;
}

static outcome recompute(machine *m, const gp_instr *instr) {
    if (still_read(m, SAVED, instr, instr->work)) return BLOCKED;
    if (!m->forward[instr->stage * m->programs->pieces + instr->micro]) return harm(m, instr, "lacks its statistics");
    if (!stash_complete(m, instr)) return harm(m, instr, "the stash does not hold what the stage takes");
    for (int key = 0; key < m->keys; key++) *content(m, SAVED, instr->stage, instr->work, key) = 0;
    fill(m, SAVED, instr, instr->work, backward_needs(m));
    return WENT_ON;
}

/* Of gradients of one kind, those of a backward for inputs (batch norm's) or those of one for weights. */
static outcome add_up(machine *m, const gp_instr *instr, bool *done, bool *accumulates, int *count) {
    if (*done) return harm(m, instr, "happens twice");
    *done = true;
    if (!(instr->flags & GP_INSTR_FIRST) != *accumulates)
        return harm(m, instr, "overwrites gradients or adds to nothing");
    *accumulates = true;
    int order = m->programs->descending ? m->programs->pieces - 1 - instr->micro : instr->micro;
    if (order != (*count)++) return harm(m, instr, "adds up in another order");
    return WENT_ON;
}

static outcome accumulate(machine *m, const gp_instr *instr) {
    stage_state *state = &m->state[instr->stage];
    int at = instr->stage * m->programs->pieces + instr->micro;
    outcome it = WENT_ON;
    if (instr->op != GP_INSTR_BACKWARD_WEIGHT)
        it = add_up(m, instr, &m->backward[at], &state->accumulates, &state->backwards);
    if (it == WENT_ON && instr->op != GP_INSTR_BACKWARD_INPUT)
        it = add_up(m, instr, &m->weight[at], &state->adds_weights, &state->weights);
    return it;
}

static outcome backward(machine *m, const gp_instr *instr) {
    const gp_stage *stage = &m->stages->stage[instr->stage];
    if (still_read(m, GRAD, instr, instr->grad)) return BLOCKED;
    if (!stash_complete(m, instr)) return harm(m, instr, "the stash does not hold what the stage takes");
    if (!holds(m, SAVED, instr, instr->work, backward_needs(m))) return harm(m, instr, "lacks what forward saves");
    for (size_t i = 0; i < stage->grad_in.count; i++)
        if (!holds(m, GRAD, instr, instr->grad, stage->grad_in.items[i])) return harm(m, instr, "lacks a gradient");
    for (int key = 0; key < m->keys; key++) *content(m, GRAD, instr->stage, instr->grad, key) = 0;
    for (size_t i = 0; i < stage->grad_out.count; i++)
        fill(m, GRAD, instr, instr->grad, leaving(m, stage->grad_out.items[i]));
    if (instr->op == GP_INSTR_BACKWARD_INPUT)
        fill(m, GRAD, instr, instr->grad, weights_need(m));
    else
        *content(m, SAVED, instr->stage, instr->work, backward_needs(m)) = 0;
    return accumulate(m, instr);
}

static outcome backward_weight(machine *m, const gp_instr *instr) {
    if (!stash_complete(m, instr)) return harm(m, instr, "the stash does not hold what the stage takes");
    if (!holds(m, SAVED, instr, instr->work, backward_needs(m))) return harm(m, instr, "lacks what forward saves");
    if (!holds(m, GRAD, instr, instr->grad, weights_need(m))) return harm(m, instr, "lacks what I leaves");
    *content(m, SAVED, instr->stage, instr->work, backward_needs(m)) = 0;
    *content(m, GRAD, instr->stage, instr->grad, weights_need(m)) = 0;
    return accumulate(m, instr);
}

static outcome send(machine *m, const gp_instr *instr) {
    const gp_edge *edge = &m->stages->edges[instr->edge];
    sent *copy = copy_of(m, instr);
    if (edge->from != instr->stage) return harm(m, instr, "sends from another stage");
    if (copy->sent) return harm(m, instr, "sends twice");
    int from = edge->kind == GP_EDGE_GRADIENT ? GRAD : instr->flags & GP_INSTR_KEEP ? SAVED : OUTBOX;
    *copy = (sent){true, false, from, instr->slot};
    return WENT_ON;
}

static outcome receive(machine *m, const gp_instr *instr) {
    const gp_edge *edge = &m->stages->edges[instr->edge];
    sent *copy = copy_of(m, instr);
    bool gradient = edge->kind == GP_EDGE_GRADIENT;
    if (edge->to != instr->stage) return harm(m, instr, "receives for another stage");
    if (!copy->sent) return BLOCKED;
    if (copy->pulled) return harm(m, instr, "receives twice");
    copy->pulled = true;
    int key = gradient ? leaving(m, (int)instr->edge) : edge->value;
    if (*content(m, copy->frame, edge->from, copy->slot, key) != instr->micro + 1)
        return harm(m, instr, "pulls what is not there, or no longer");
    fill(m, gradient ? GRAD : STASH, instr, instr->slot, gradient ? (int)instr->edge : edge->value);
    return WENT_ON;
}

/* By another road than the lists of the collective: who has squares, who folds them, who needs the scalars. */
static outcome post(machine *m, const gp_instr *instr) {
    stage_state *state = &m->state[instr->stage];
    gp_part_kind part = m->stages->collectives[instr->collective].part;
    bool last = instr->stage == m->stages->count - 1;
    if (last != (part == GP_PART_SCALARS)) return harm(m, instr, "has nothing to show");
    if (part == GP_PART_SCALARS && !state->total) return harm(m, instr, "shows no total");
    if (part == GP_PART_SCALARS && m->stages->norms && !state->clipped) return harm(m, instr, "shows no clip");
    if (part == GP_PART_SQUARES && !state->normed) return harm(m, instr, "shows no norm");
    if (state->posted[part]) return harm(m, instr, "happens twice");
    state->posted[part] = true;
    return WENT_ON;
}

static outcome collect(machine *m, const gp_instr *instr) {
    stage_state *state = &m->state[instr->stage];
    gp_part_kind part = m->stages->collectives[instr->collective].part;
    int last = m->stages->count - 1;
    if ((instr->stage == last) != (part == GP_PART_SQUARES)) return harm(m, instr, "has no place for it");
    for (int s = 0; s <= last; s++)
        if ((s == last) == (part == GP_PART_SCALARS) && !m->state[s].posted[part]) return BLOCKED;
    if (state->collected[part]) return harm(m, instr, "happens twice");
    state->collected[part] = true;
    return WENT_ON;
}

static outcome norm(machine *m, const gp_instr *instr) {
    stage_state *state = &m->state[instr->stage];
    if (!m->programs->training || !m->stages->norms) return harm(m, instr, "has no place for squares");
    if (state->weights != m->programs->pieces) return harm(m, instr, "squares half a gradient");
    if (state->normed) return harm(m, instr, "happens twice");
    state->normed = true;
    return WENT_ON;
}

static outcome clip(machine *m, const gp_instr *instr) {
    stage_state *state = &m->state[instr->stage];
    if (!m->stages->norms || instr->stage != m->stages->count - 1) return harm(m, instr, "has no squares");
    if (!state->normed || (m->stages->count > 1 && !state->collected[GP_PART_SQUARES]))
        return harm(m, instr, "lacks a norm");
    if (state->clipped) return harm(m, instr, "happens twice");
    state->clipped = true;
    return WENT_ON;
}

static outcome step(machine *m, const gp_instr *instr) {
    stage_state *state = &m->state[instr->stage];
    if (!m->programs->training || state->weights != m->programs->pieces || !state->total)
        return harm(m, instr, "updates too early");
    bool last = instr->stage == m->stages->count - 1;
    if (m->stages->norms && last && !state->clipped) return harm(m, instr, "updates before the clip");
    if (m->stages->norms && !state->normed) return harm(m, instr, "changes what its norm is of");
    if (!last && !state->collected[GP_PART_SCALARS]) return harm(m, instr, "has not seen whether the loss is finite");
    state->stepped = true;
    return WENT_ON;
}

static outcome execute(machine *m, const gp_instr *instr) {
    if (m->state[instr->stage].stepped) return harm(m, instr, "comes after the step");
    switch (instr->op) {
    case GP_INSTR_LOAD: return still_read(m, STASH, instr, instr->slot) ? BLOCKED : load(m, instr);
    case GP_INSTR_FORWARD: return forward(m, instr);
    case GP_INSTR_RECOMPUTE: return recompute(m, instr);
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_INPUT: return backward(m, instr);
    case GP_INSTR_BACKWARD_WEIGHT: return backward_weight(m, instr);
    case GP_INSTR_SEND: return send(m, instr);
    case GP_INSTR_RECV: return receive(m, instr); /* beside what is still pulled from the slot */
    case GP_INSTR_POST: return post(m, instr);
    case GP_INSTR_COLLECT: return collect(m, instr);
    case GP_INSTR_NORM: return norm(m, instr);
    case GP_INSTR_CLIP: return clip(m, instr);
    default: return step(m, instr);
    }
}

static bool slot_fits(const gp_instr *instr) {
    bool copy = instr->op == GP_INSTR_SEND || instr->op == GP_INSTR_RECV;
    return instr->slot < INTERPRETER_SLOTS && (copy || gp_instr_has_collective(instr) ||
                                               (instr->work < INTERPRETER_SLOTS && instr->grad < INTERPRETER_SLOTS));
}

static bool instr_fits(const machine *m, int worker, const gp_instr *instr) {
    if (instr->op >= GP_INSTR_OPS || instr->stage >= m->stages->count || instr->micro >= m->programs->pieces)
        return false;
    if (m->programs->worker_of_stage[instr->stage] != worker || !slot_fits(instr)) return false;
    bool copy = instr->op == GP_INSTR_SEND || instr->op == GP_INSTR_RECV;
    if (gp_instr_has_collective(instr)) return m->programs->training && instr->collective < m->stages->collective_count;
    return !copy || instr->edge < m->stages->edge_count;
}

static outcome try_worker(machine *m, int worker) {
    const gp_program *program = &m->programs->worker[worker];
    if (m->pc[worker] == program->count || m->meets[worker]) return BLOCKED;
    const gp_instr *instr = &program->instrs[m->pc[worker]];
    if (!instr_fits(m, worker, instr)) return harm(m, instr, "does not fit");
    if (instr->op != GP_INSTR_BARRIER) {
        outcome it = execute(m, instr);
        if (it == WENT_ON) m->pc[worker]++;
        return it;
    }
    m->meets[worker] = true;
    for (int w = 0; w < m->programs->workers; w++)
        if (!m->meets[w]) return WENT_ON;
    for (int w = 0; w < m->programs->workers; w++) {
        m->meets[w] = false;
        m->pc[w]++;
    }
    return WENT_ON;
}

/* Any worker that can go on does; which, is the interleaving's choice. */
static outcome go_on(machine *m, interleaving how, uint64_t *random) {
    int workers = m->programs->workers;
    int first = how == RANDOM_WORKER ? (int)toy_random(random, (uint32_t)workers) : 0;
    for (int i = 0; i < workers; i++) {
        int w = how == HIGHEST_WORKER_FIRST ? workers - 1 - i : (first + i) % workers;
        outcome it = try_worker(m, w);
        if (it != BLOCKED) return it;
    }
    return BLOCKED;
}

static gp_status check_end(const machine *m) {
    for (int w = 0; w < m->programs->workers; w++)
        if (m->pc[w] < m->programs->worker[w].count) return gp_fail(m->err, GP_PROGRAM, "worker %d hangs", w);
    for (int s = 0; s < m->stages->count; s++)
        for (uint32_t c = 0; c < m->stages->collective_count && m->programs->training; c++) {
            gp_part_kind part = m->stages->collectives[c].part;
            if (!m->state[s].posted[part] && !m->state[s].collected[part])
                return gp_fail(m->err, GP_PROGRAM, "stage %d is not in collective %u", s, c);
        }
    for (int s = 0; s < m->stages->count; s++)
        if (!m->state[s].total || m->state[s].stepped != m->programs->training)
            return gp_fail(m->err, GP_PROGRAM, "stage %d is not done", s);
    return GP_OK;
}

static gp_status reserve(machine *m, gp_error *err) {
    size_t stages = (size_t)m->stages->count, pieces = (size_t)m->programs->pieces;
    int edges = (int)m->stages->edge_count, values = m->stages->graph->value_count;
    m->keys = 2 * edges > values ? 2 * edges + 1 : values + 1;
    GP_RETURN_IF_FAILED(GP_NEW(&m->contents, FRAMES * stages * INTERPRETER_SLOTS * (size_t)m->keys, err));
    GP_RETURN_IF_FAILED(GP_NEW(&m->copies, m->stages->edge_count * pieces, err));
    GP_RETURN_IF_FAILED(GP_NEW(&m->forward, stages * pieces, err));
    GP_RETURN_IF_FAILED(GP_NEW(&m->backward, stages * pieces, err));
    GP_RETURN_IF_FAILED(GP_NEW(&m->weight, stages * pieces, err));
    GP_RETURN_IF_FAILED(GP_NEW(&m->state, stages, err));
    GP_RETURN_IF_FAILED(GP_NEW(&m->pc, m->programs->workers, err));
    return GP_NEW(&m->meets, m->programs->workers, err);
}

gp_status interpret(const gp_stages *stages, const gp_programs *programs, interleaving how, uint64_t *random,
                    gp_error *err) {
    machine m = {.stages = stages, .programs = programs, .err = err};
    gp_status status = reserve(&m, err);
    outcome it = WENT_ON;
    while (status == GP_OK && it == WENT_ON) it = go_on(&m, how, random);
    if (status == GP_OK) status = it == HARM ? GP_PROGRAM : check_end(&m);
    free(m.contents);
    free(m.copies);
    free(m.forward);
    free(m.backward);
    free(m.weight);
    free(m.state);
    free(m.pc);
    free(m.meets);
    return status;
}
