#include "schedule/validate.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "schedule/order.h"
#include "schedule/play.h"
#include "schedule/validate_internal.h"
#include "schedule/waits.h"

/* What has happened to one micro-batch on the current stage. */
struct gp_checked_micro {
    bool loaded, forward, kept, recomputed, backward;  /* backward: for inputs at least */
    bool weight;                                       /* backward for weights too */
    size_t received, grads_received, sent, grads_sent; /* copies */
    bool lives[GP_FRAMES];                             /* has a slot of the frame now: slot[frame] */
    uint16_t slot[GP_FRAMES];
};

struct gp_holder {
    int stage; /* +1; another stage's entry is an old one */
    int micro; /* −1: the slot is free */
};

enum { SENT = 1, RECEIVED = 2 };

static void look_at(gp_checker *c, int worker, size_t pc) {
    c->worker = worker;
    c->pc = pc;
    c->instr = &c->programs->worker[worker].instrs[pc];
}

static gp_status check_sizes(const gp_checker *c, gp_error *err) {
    const gp_programs *programs = c->programs;
    if (programs->stages != c->stages->count)
        return gp_fail(err, GP_PROGRAM, "the programs are for %d stages, but the model is cut into %d",
                       programs->stages, c->stages->count);
    if (programs->stages < 1 || programs->stages > GP_MAX_STAGES)
        return gp_fail(err, GP_PROGRAM, "programs for %d stages: there must be 1 to %d", programs->stages,
                       GP_MAX_STAGES);
    if (programs->pieces < 1 || programs->pieces > GP_MAX_MICRO_BATCHES)
        return gp_fail(err, GP_PROGRAM, "programs for %d micro-batches: there must be 1 to %d", programs->pieces,
                       GP_MAX_MICRO_BATCHES);
    if (programs->workers < 1 || programs->workers > programs->stages)
        return gp_fail(err, GP_PROGRAM, "programs for %d workers, but %d stages: each worker needs at least one",
                       programs->workers, programs->stages);
    for (int s = 0; s < programs->stages; s++)
        if (gp_programs_worker(programs, s) < 0 || gp_programs_worker(programs, s) >= programs->workers)
            return gp_fail(err, GP_PROGRAM, "stage %d is on worker %d: there are %d workers, counted from 0", s,
                           gp_programs_worker(programs, s), programs->workers);
    for (int w = 0, s; w < programs->workers; w++) {
        for (s = 0; s < programs->stages && gp_programs_worker(programs, s) != w; s++) {}
        if (s == programs->stages)
            return gp_fail(err, GP_PROGRAM, "worker %d has no stage: each worker needs at least one", w);
    }
    return GP_OK;
}

/* Before anything is reserved per copy or micro-batch: right programs have at least these many instructions. */
static gp_status check_lengths(const gp_checker *c, gp_error *err) {
    const gp_pieces pieces = gp_programs_pieces(c->programs);
    size_t count = 0, forwards = 0, copies = 0;
    for (int w = 0; w < c->programs->workers; w++) count += c->programs->worker[w].count;
    for (int s = 0; s < c->stages->count; s++)
        forwards += (size_t)gp_micros_count(gp_micros_of_stage(pieces, &c->stages->stage[s]));
    for (size_t e = 0; e < c->stages->edge_count; e++)
        copies += (size_t)gp_micros_count(gp_micros_of_edge(pieces, c->stages, e));
    if (count < forwards || 2 * count < copies)
        return gp_fail(err, GP_PROGRAM,
                       "%zu instructions are too few for %d micro-batches, %d stages and the %zu edges between them",
                       count, c->programs->pieces, c->stages->count, c->stages->edge_count);
    return GP_OK;
}

static unsigned flags_of_op(uint8_t op) {
    switch (op) {
    case GP_INSTR_FORWARD: return GP_INSTR_KEEP | GP_INSTR_LAST;
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_INPUT:
    case GP_INSTR_BACKWARD_WEIGHT: return GP_INSTR_FIRST;
    case GP_INSTR_SEND: return GP_INSTR_KEEP;
    default: return 0;
    }
}

/* A micro-batch of which the stage has samples. */
static gp_status check_micro(const gp_checker *c, gp_error *err) {
    const gp_instr *instr = c->instr;
    if (instr->micro >= c->programs->pieces)
        return refuse(c, err, "micro-batch %u does not exist: there are %d micro-batches, counted from 0", instr->micro,
                      c->programs->pieces);
    if (!gp_instr_has_micro(instr)) return GP_OK;
    const gp_stage *stage = &c->stages->stage[instr->stage];
    if (gp_micros_have(gp_micros_of_stage(gp_programs_pieces(c->programs), stage), instr->micro)) return GP_OK;
    return refuse(c, err, "the share of replica %d of %d is empty", stage->replica, stage->replicas);
}

static gp_status check_edge(const gp_checker *c, gp_error *err) {
    const gp_instr *instr = c->instr;
    size_t edges = c->stages->edge_count, older = 2 * (size_t)(c->stages->count - 1);
    if (instr->edge >= edges)
        return refuse(c, err, "edge %u does not exist: there are %zu edges, counted from 0%s", instr->edge, edges,
                      instr->edge < edges + older
                          ? "; older programs had edges for flags and norms, now there are post and collect"
                          : "");
    const gp_edge *edge = &c->stages->edges[instr->edge];
    const char *kind = gp_edge_kind_name(edge->kind);
    if (instr->op == GP_INSTR_SEND && edge->from != instr->stage)
        return refuse(c, err, "the %s edge %u begins at stage %d", kind, instr->edge, edge->from);
    if (instr->op == GP_INSTR_RECV && edge->to != instr->stage)
        return refuse(c, err, "the %s edge %u ends at stage %d", kind, instr->edge, edge->to);
    if (!gp_micros_have(gp_micros_of_edge(gp_programs_pieces(c->programs), c->stages, instr->edge), instr->micro))
        return refuse(c, err, "the %s edge %u does not carry it: its ends have no sample in common", kind, instr->edge);
    bool forward = edge->kind == GP_EDGE_ACTIVATION || edge->kind == GP_EDGE_SKIP;
    if (!forward && !c->programs->training) return refuse(c, err, "a forward-only program has no %s copies", kind);
    if (!forward && instr->flags & GP_INSTR_KEEP)
        return refuse(c, err, "keep is for activations and skips only, and edge %u is a %s edge", instr->edge, kind);
    return GP_OK;
}

/* Every number that later checks, waits and player use as an index. */
static gp_status check_fields(const gp_checker *c, gp_error *err) {
    const gp_instr *instr = c->instr;
    if (instr->op >= GP_INSTR_OPS) return refuse(c, err, "operation %u does not exist", instr->op);
    if (instr->flags & ~flags_of_op(instr->op))
        return refuse(c, err, "has flags (%#x) that this instruction cannot have", instr->flags);
    if (instr->stage >= c->stages->count)
        return refuse(c, err, "stage %u does not exist: there are %d stages, counted from 0", instr->stage,
                      c->stages->count);
    if (gp_programs_worker(c->programs, instr->stage) != c->worker)
        return refuse(c, err, "stage %u is on worker %d", instr->stage, gp_programs_worker(c->programs, instr->stage));
    GP_RETURN_IF_FAILED(check_micro(c, err));
    switch (instr->op) {
    case GP_INSTR_LOAD: {
        const gp_stage *stage = &c->stages->stage[instr->stage];
        if (!stage->loads_input && !stage->loads_target)
            return refuse(c, err, "the stage uses neither input nor target");
        return GP_OK;
    }
    case GP_INSTR_SEND:
    case GP_INSTR_RECV: return check_edge(c, err);
    case GP_INSTR_POST:
    case GP_INSTR_COLLECT: return gp_check_collective_fields(c, err);
    case GP_INSTR_NORM:
    case GP_INSTR_CLIP:
        if (!c->programs->training) return refuse(c, err, "is not allowed in a forward-only program");
        if (!c->stages->norms) return refuse(c, err, "is not allowed: this run computes no norms of gradients");
        return GP_OK;
    case GP_INSTR_TOTAL:
        if (c->stages->stage[instr->stage].replicas == 1)
            return refuse(c, err, "is not allowed: the stage has no replicas");
        return GP_OK;
    case GP_INSTR_REDUCE: return gp_check_reduce_fields(c, err);
    case GP_INSTR_UPDATE:
        if (!c->programs->training) return refuse(c, err, "is not allowed in a forward-only program");
        if (!gp_stage_shards(c->stages, instr->stage))
            return refuse(c, err, "is not allowed: the stage shares its parameters with no other replica");
        return GP_OK;
    case GP_INSTR_RECOMPUTE:
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_INPUT:
    case GP_INSTR_BACKWARD_WEIGHT:
    case GP_INSTR_STEP:
        if (!c->programs->training) return refuse(c, err, "is not allowed in a forward-only program");
        return GP_OK;
    case GP_INSTR_FORWARD:
        if (!c->programs->training && instr->flags & GP_INSTR_KEEP)
            return refuse(c, err, "keep is not allowed in a forward-only program");
        return GP_OK;
    default: return GP_OK;
    }
}

/* Also gathers each stage's instructions: first[s + 1] counts those of stage s. */
static gp_status check_worker(gp_checker *c, int worker, size_t *barriers, gp_error *err) {
    const gp_program *program = &c->programs->worker[worker];
    bool stepped = false;
    uint32_t last[] = {0, 0}; /* posted, collected */
    *barriers = 0;
    for (size_t pc = 0; pc < program->count; pc++) {
        look_at(c, worker, pc);
        GP_RETURN_IF_FAILED(check_fields(c, err));
        c->first[c->instr->stage + 1]++;
        if (c->instr->op == GP_INSTR_BARRIER) ++*barriers;
        if (gp_instr_joins(c->instr)) {
            bool collects = c->instr->op == GP_INSTR_COLLECT;
            if (c->instr->collective < last[collects])
                return refuse(c, err, "comes after collective %u: all workers must have %s in rising order",
                              last[collects], collects ? "collects" : "posts");
            last[collects] = c->instr->collective;
        }
        if (stepped && c->instr->op != GP_INSTR_STEP)
            return refuse(c, err, "comes after a step: steps must be the last instructions of a worker");
        stepped = c->instr->op == GP_INSTR_STEP;
    }
    return GP_OK;
}

static gp_status check_workers(gp_checker *c, gp_error *err) {
    size_t barriers = 0;
    for (int w = 0; w < c->programs->workers; w++) {
        size_t its;
        GP_RETURN_IF_FAILED(check_worker(c, w, &its, err));
        if (w == 0) barriers = its;
        if (its != barriers)
            return gp_fail(err, GP_PROGRAM, "worker %d has %zu barriers, but worker 0 has %zu", w, its, barriers);
    }
    return GP_OK;
}

static gp_status sort_by_stage(gp_checker *c, gp_error *err) {
    for (int s = 0; s < c->stages->count; s++) c->first[s + 1] += c->first[s];
    GP_RETURN_IF_FAILED(GP_NEW(&c->pcs, c->first[c->stages->count], err));
    size_t *next = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&next, c->stages->count, err));
    memcpy(next, c->first, (size_t)c->stages->count * sizeof *next);
    for (int w = 0; w < c->programs->workers; w++)
        for (size_t pc = 0; pc < c->programs->worker[w].count; pc++)
            c->pcs[next[c->programs->worker[w].instrs[pc].stage]++] = (uint32_t)pc;
    free(next);
    return GP_OK;
}

/* The current micro-batch has, or now gets, this slot. */
static gp_status hold(gp_checker *c, gp_frame frame, uint16_t slot, gp_error *err) {
    struct gp_checked_micro *p = &c->pieces[c->instr->micro];
    if (p->lives[frame]) {
        if (p->slot[frame] == slot) return GP_OK;
        return refuse(c, err, "uses %s slot %u, but its micro-batch is in slot %u", gp_frame_name(frame), slot,
                      p->slot[frame]);
    }
    struct gp_holder *h = &c->holders[frame][slot];
    if (h->stage == c->s + 1 && h->micro >= 0)
        return refuse(c, err, "overwrites %s slot %u, which micro-batch %d still needs", gp_frame_name(frame), slot,
                      h->micro);
    *h = (struct gp_holder){c->s + 1, c->instr->micro};
    p->lives[frame] = true;
    p->slot[frame] = slot;
    return GP_OK;
}

static void free_slot(gp_checker *c, gp_frame frame) {
    struct gp_checked_micro *p = &c->pieces[c->instr->micro];
    if (p->lives[frame]) c->holders[frame][p->slot[frame]].micro = -1;
    p->lives[frame] = false;
}

/* Of the current micro-batch. */
static size_t count_copies(const gp_checker *c, const gp_indices *edges) {
    return gp_edges_carrying(gp_programs_pieces(c->programs), c->stages, edges, c->instr->micro);
}

/* What the instruction was the last to use is free: the validator's own reading, not the one of schedule/access.h. */
static void release(gp_checker *c) {
    struct gp_checked_micro *p = &c->pieces[c->instr->micro];
    switch (c->instr->op) {
    case GP_INSTR_FORWARD:
        if (!c->programs->training) free_slot(c, GP_FRAME_STASH);
        break;
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_WEIGHT:
        free_slot(c, GP_FRAME_STASH);
        free_slot(c, GP_FRAME_SAVED);
        break;
    case GP_INSTR_SEND:
        if (p->sent == count_copies(c, &c->stage->out)) free_slot(c, GP_FRAME_OUTBOX);
        break;
    default: return;
    }
    if (p->weight && p->grads_sent == count_copies(c, &c->stage->grad_out)) free_slot(c, GP_FRAME_GRAD);
}

static gp_status mark_copied(gp_checker *c, uint8_t which, gp_error *err) {
    uint8_t *copied = &c->copied[(size_t)c->instr->edge * (size_t)c->programs->pieces + c->instr->micro];
    if (*copied & which)
        return refuse(c, err, "micro-batch %u is %s on edge %u a second time", c->instr->micro,
                      which == SENT ? "sent" : "received", c->instr->edge);
    *copied = (uint8_t)(*copied | which);
    return GP_OK;
}

static gp_status check_all_received(const gp_checker *c, const gp_indices *edges, size_t received, gp_error *err) {
    const gp_pieces pieces = gp_programs_pieces(c->programs);
    if (received == edges->count) return GP_OK;
    for (size_t i = 0; i < edges->count; i++) {
        size_t at = (size_t)edges->items[i] * (size_t)c->programs->pieces + c->instr->micro;
        gp_micros carried = gp_micros_of_edge(pieces, c->stages, (size_t)edges->items[i]);
        if (gp_micros_have(carried, c->instr->micro) && !(c->copied[at] & RECEIVED))
            return refuse(c, err, "the %s of edge %d must be received before",
                          gp_edge_kind_name(c->stages->edges[edges->items[i]].kind), edges->items[i]);
    }
    return GP_OK;
}

static gp_status check_load(gp_checker *c, struct gp_checked_micro *p, gp_error *err) {
    if (p->loaded) return refuse(c, err, "the micro-batch is loaded a second time");
    p->loaded = true;
    return hold(c, GP_FRAME_STASH, c->instr->slot, err);
}

/* None comes late: forward and backward demand all of theirs before, so that a later one is a second one. */
static gp_status check_recv(gp_checker *c, struct gp_checked_micro *p, gp_error *err) {
    GP_RETURN_IF_FAILED(mark_copied(c, RECEIVED, err));
    switch (c->stages->edges[c->instr->edge].kind) {
    case GP_EDGE_GRADIENT: p->grads_received++; return hold(c, GP_FRAME_GRAD, c->instr->slot, err);
    default: p->received++; return hold(c, GP_FRAME_STASH, c->instr->slot, err);
    }
}

static gp_status check_forward(gp_checker *c, struct gp_checked_micro *p, gp_error *err) {
    const gp_instr *instr = c->instr;
    if (p->forward) return refuse(c, err, "a second forward of the micro-batch");
    if ((c->stage->loads_input || c->stage->loads_target) && !p->loaded)
        return refuse(c, err, "the micro-batch must be loaded before");
    GP_RETURN_IF_FAILED(check_all_received(c, &c->stage->in, p->received, err));
    p->forward = true;
    p->kept = instr->flags & GP_INSTR_KEEP;
    bool last = ++c->forwards == gp_micros_count(c->micros);
    if (last != !!(instr->flags & GP_INSTR_LAST))
        return refuse(c, err,
                      last ? "is the stage's last forward, but has no flag last"
                           : "has the flag last, but is not the stage's last forward");
    GP_RETURN_IF_FAILED(hold(c, GP_FRAME_STASH, instr->slot, err));
    if (p->kept) return hold(c, GP_FRAME_SAVED, instr->work, err);
    return c->stage->out.count ? hold(c, GP_FRAME_OUTBOX, instr->work, err) : GP_OK;
}

static gp_status check_recompute(gp_checker *c, struct gp_checked_micro *p, gp_error *err) {
    if (!p->forward) return refuse(c, err, "a recompute before the forward");
    if (p->kept) return refuse(c, err, "recomputes what the forward has kept");
    if (p->recomputed) return refuse(c, err, "a second recompute of the micro-batch");
    p->recomputed = true;
    GP_RETURN_IF_FAILED(hold(c, GP_FRAME_STASH, c->instr->slot, err));
    return hold(c, GP_FRAME_SAVED, c->instr->work, err);
}

/* `taken`: micro-batches whose gradients of this kind are added up. */
static gp_status check_turn(const gp_checker *c, int taken, gp_error *err) {
    int next = c->programs->descending ? c->micros.end - 1 - taken : c->micros.first + taken;
    if (c->instr->micro == next) return GP_OK;
    return refuse(c, err, "comes too early: gradients add up in %s order of micro-batches, and %d is next",
                  c->programs->descending ? "descending" : "ascending", next);
}

static gp_status check_backward_order(gp_checker *c, gp_error *err) {
    bool input = gp_instr_begins_backward(c->instr), weight = gp_instr_ends_backward(c->instr);
    if (input) GP_RETURN_IF_FAILED(check_turn(c, c->backwards, err));
    if (weight) GP_RETURN_IF_FAILED(check_turn(c, c->weights, err));
    bool first = (!input || c->backwards == 0) && (!weight || c->weights == 0);
    c->backwards += input;
    c->weights += weight;
    if (first != !!(c->instr->flags & GP_INSTR_FIRST))
        return refuse(c, err,
                      first ? "is the stage's first backward, but has no flag first"
                            : "has the flag first, but is not the stage's first backward");
    return GP_OK;
}

static gp_status hold_for_backward(gp_checker *c, gp_error *err) {
    GP_RETURN_IF_FAILED(hold(c, GP_FRAME_STASH, c->instr->slot, err));
    GP_RETURN_IF_FAILED(hold(c, GP_FRAME_SAVED, c->instr->work, err));
    return hold(c, GP_FRAME_GRAD, c->instr->grad, err);
}

static gp_status check_backward(gp_checker *c, struct gp_checked_micro *p, gp_error *err) {
    const gp_instr *instr = c->instr;
    if (p->backward) return refuse(c, err, "a second backward of the micro-batch");
    if (!p->forward) return refuse(c, err, "a backward before the forward");
    if (!p->kept && !p->recomputed) return refuse(c, err, "needs a recompute before it: the forward kept nothing");
    GP_RETURN_IF_FAILED(check_backward_order(c, err));
    GP_RETURN_IF_FAILED(check_all_received(c, &c->stage->grad_in, p->grads_received, err));
    p->backward = true;
    GP_RETURN_IF_FAILED(hold_for_backward(c, err));
    if (instr->op == GP_INSTR_BACKWARD_INPUT) return GP_OK;
    p->weight = true;
    return GP_OK;
}

static gp_status check_backward_weight(gp_checker *c, struct gp_checked_micro *p, gp_error *err) {
    if (!p->backward) return refuse(c, err, "comes before its backward for inputs");
    if (p->weight) return refuse(c, err, "a second backward for weights of the micro-batch");
    GP_RETURN_IF_FAILED(check_backward_order(c, err));
    p->weight = true;
    return hold_for_backward(c, err);
}

static gp_status check_send(gp_checker *c, struct gp_checked_micro *p, gp_error *err) {
    GP_RETURN_IF_FAILED(mark_copied(c, SENT, err));
    gp_edge_kind kind = c->stages->edges[c->instr->edge].kind;
    if (kind == GP_EDGE_GRADIENT) {
        if (!p->backward) return refuse(c, err, "is sent before the backward that computes it");
        p->grads_sent++;
        return hold(c, GP_FRAME_GRAD, c->instr->slot, err);
    }
    if (!p->forward) return refuse(c, err, "is sent before the forward that computes it");
    if (p->kept != !!(c->instr->flags & GP_INSTR_KEEP))
        return refuse(c, err,
                      p->kept ? "needs the flag keep: the forward kept the value in its saved slot"
                              : "must not have the flag keep: the forward has no saved slot");
    if (p->kept && p->weight) return refuse(c, err, "is sent after the backward that frees the saved slot");
    p->sent++;
    return hold(c, p->kept ? GP_FRAME_SAVED : GP_FRAME_OUTBOX, c->instr->slot, err);
}

static gp_status check_stage_instr(gp_checker *c, gp_error *err) {
    struct gp_checked_micro *p = &c->pieces[c->instr->micro];
    switch (c->instr->op) {
    case GP_INSTR_LOAD: return check_load(c, p, err);
    case GP_INSTR_FORWARD: return check_forward(c, p, err);
    case GP_INSTR_RECOMPUTE: return check_recompute(c, p, err);
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_INPUT: return check_backward(c, p, err);
    case GP_INSTR_BACKWARD_WEIGHT: return check_backward_weight(c, p, err);
    case GP_INSTR_SEND: return check_send(c, p, err);
    case GP_INSTR_RECV: return check_recv(c, p, err);
    case GP_INSTR_POST: return gp_check_post(c, err);
    case GP_INSTR_COLLECT: return gp_check_collect(c, err);
    case GP_INSTR_NORM: return gp_check_norm(c, err);
    case GP_INSTR_CLIP: return gp_check_clip(c, err);
    case GP_INSTR_TOTAL: return gp_check_total(c, err);
    case GP_INSTR_REDUCE: return gp_check_reduce(c, err);
    case GP_INSTR_UPDATE: return gp_check_update(c, err);
    case GP_INSTR_STEP:
        if (c->steps++ > 0) return refuse(c, err, "a second step of the stage");
        return GP_OK;
    default: return GP_OK;
    }
}

static gp_status check_stage(gp_checker *c, int s, gp_error *err) {
    int pieces = c->programs->pieces;
    bool training = c->programs->training;
    c->s = s;
    c->stage = &c->stages->stage[s];
    c->micros = gp_micros_of_stage(gp_programs_pieces(c->programs), c->stage);
    c->forwards = c->backwards = c->weights = c->norms = c->clips = c->totals = c->reduces = c->updates = c->steps = 0;
    if (c->first[s + 1] - c->first[s] < (size_t)gp_micros_count(c->micros))
        return gp_fail(err, GP_PROGRAM, "stage %d has %zu instructions, too few for %d micro-batches", s,
                       c->first[s + 1] - c->first[s], gp_micros_count(c->micros));
    memset(c->pieces, 0, (size_t)pieces * sizeof *c->pieces);
    for (size_t i = c->first[s]; i < c->first[s + 1]; i++) {
        look_at(c, gp_programs_worker(c->programs, s), c->pcs[i]);
        GP_RETURN_IF_FAILED(check_stage_instr(c, err));
        release(c);
    }
    for (int m = c->micros.first; m < c->micros.end; m++) {
        if (!c->pieces[m].forward) return gp_fail(err, GP_PROGRAM, "stage %d: micro-batch %d has no forward", s, m);
        if (training && !c->pieces[m].backward)
            return gp_fail(err, GP_PROGRAM, "stage %d: micro-batch %d has no backward", s, m);
        if (training && !c->pieces[m].weight)
            return gp_fail(err, GP_PROGRAM, "stage %d: micro-batch %d has no backward for weights", s, m);
    }
    if (training && c->stages->norms && c->stage->replica == 0 && c->norms == 0)
        return gp_fail(err, GP_PROGRAM, "stage %d has no norm, which this run needs", s);
    if (s == gp_stages_root(c->stages) && c->stage->replicas > 1 && c->totals == 0)
        return gp_fail(err, GP_PROGRAM, "stage %d has no total", s);
    if (training && c->reduces < c->stage->buckets)
        return gp_fail(err, GP_PROGRAM, "stage %d has no reduce of %d of its %d buckets", s,
                       c->stage->buckets - c->reduces, c->stage->buckets);
    if (training && gp_stage_shards(c->stages, s) && c->updates == 0)
        return gp_fail(err, GP_PROGRAM, "stage %d has no update", s);
    if (training && c->stages->norms && s == gp_stages_root(c->stages) && c->clips == 0)
        return gp_fail(err, GP_PROGRAM, "stage %d has no clip", s);
    if (training && c->steps == 0) return gp_fail(err, GP_PROGRAM, "stage %d has no step", s);
    return GP_OK;
}

static gp_status check_copies(const gp_checker *c, gp_error *err) {
    for (size_t e = 0; e < c->stages->edge_count; e++) {
        const gp_edge *edge = &c->stages->edges[e];
        bool forward = edge->kind == GP_EDGE_ACTIVATION || edge->kind == GP_EDGE_SKIP;
        if (!forward && !c->programs->training) continue;
        gp_micros carried = gp_micros_of_edge(gp_programs_pieces(c->programs), c->stages, e);
        for (int m = carried.first; m < carried.end; m++) {
            uint8_t copied = c->copied[e * (size_t)c->programs->pieces + (size_t)m];
            if (copied == (SENT | RECEIVED)) continue;
            return gp_fail(err, GP_PROGRAM, "edge %zu (%s from stage %d to stage %d): micro-batch %d is never %s", e,
                           gp_edge_kind_name(edge->kind), edge->from, edge->to, m, copied & SENT ? "received" : "sent");
        }
    }
    return GP_OK;
}

/* The next pass of a stage, from `*at` on, that its group computes together, of micro-batches of which another one has
 * samples; false: there are no more. */
static bool next_joint(gp_checker *c, int stage, gp_micros micros, size_t *at) {
    for (; *at < c->first[stage + 1]; ++*at) {
        look_at(c, gp_programs_worker(c->programs, stage), c->pcs[*at]);
        if (gp_instr_is_joint(c->stages, c->instr) && gp_micros_have(micros, c->instr->micro)) return true;
    }
    return false;
}

/* Each exchange of a replica meets the one of the same pass on the others. The first one of a group has samples of all
 * micro-batches of which another one has some. */
static gp_status check_group(gp_checker *c, int stage, gp_error *err) {
    int first = gp_stages_group(c->stages, stage);
    gp_micros micros = gp_micros_of_stage(gp_programs_pieces(c->programs), &c->stages->stage[stage]);
    for (size_t a = c->first[first], b = c->first[stage]; next_joint(c, first, micros, &a); a++, b++) {
        gp_instr wanted = *c->instr;
        char text[GP_INSTR_TEXT];
        if (!next_joint(c, stage, micros, &b)) return gp_fail(err, GP_INTERNAL, "stage %d has too few passes", stage);
        bool forward = c->instr->op == GP_INSTR_FORWARD;
        if (c->instr->micro == wanted.micro && forward == (wanted.op == GP_INSTR_FORWARD)) continue;
        return refuse(c, err,
                      "comes where stage %d, with which it synchronises batch norm, has %s: replicas that synchronise "
                      "must have forwards and backwards in the same order",
                      first, gp_instr_text(text, &wanted));
    }
    return GP_OK;
}

static gp_status check_groups(gp_checker *c, gp_error *err) {
    for (int s = 0; s < c->stages->count && c->programs->training; s++)
        if (gp_stages_group(c->stages, s) != s) GP_RETURN_IF_FAILED(check_group(c, s, err));
    return GP_OK;
}

static gp_status check_deadlock(const gp_checker *c, gp_error *err) {
    gp_waits *waits = NULL;
    gp_play *play = NULL;
    gp_status status = gp_waits_create(c->stages, c->programs, true, &waits, err);
    const gp_play_request request = {.stages = c->stages, .programs = c->programs, .waits = waits};
    if (status == GP_OK) status = gp_play_run(&request, &play, err);
    gp_play_destroy(&play);
    gp_waits_destroy(&waits);
    return status;
}

static gp_status check_numbers(gp_checker *c, gp_error *err) {
    GP_RETURN_IF_FAILED(check_sizes(c, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->first, c->stages->count + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->joined, c->stages->places, err));
    GP_RETURN_IF_FAILED(check_workers(c, err));
    return check_lengths(c, err);
}

static gp_status check_all(gp_checker *c, gp_error *err) {
    GP_RETURN_IF_FAILED(check_numbers(c, err));
    GP_RETURN_IF_FAILED(sort_by_stage(c, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->copied, c->stages->edge_count * (size_t)c->programs->pieces, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->pieces, c->programs->pieces, err));
    for (int f = 0; f < GP_FRAMES; f++) GP_RETURN_IF_FAILED(GP_NEW(&c->holders[f], GP_SLOT_MAX + 1, err));
    for (int s = 0; s < c->stages->count; s++) GP_RETURN_IF_FAILED(check_stage(c, s, err));
    GP_RETURN_IF_FAILED(check_copies(c, err));
    GP_RETURN_IF_FAILED(gp_check_collectives(c, err));
    GP_RETURN_IF_FAILED(check_groups(c, err));
    return check_deadlock(c, err);
}

/* The cause of most deadlocks, named where it is: a copy that has one end, a member that does not take part. */
static gp_status check_ends(gp_checker *c, gp_error *err) {
    size_t pieces = (size_t)c->programs->pieces;
    GP_RETURN_IF_FAILED(GP_NEW(&c->copied, c->stages->edge_count * pieces, err));
    for (int look = 0; look < 2; look++)
        for (int w = 0; w < c->programs->workers; w++)
            for (size_t pc = 0; pc < c->programs->worker[w].count; pc++) {
                look_at(c, w, pc);
                if (gp_instr_joins(c->instr)) gp_check_note_joined(c);
                if (c->instr->op != GP_INSTR_SEND && c->instr->op != GP_INSTR_RECV) continue;
                bool send = c->instr->op == GP_INSTR_SEND;
                uint8_t *copied = &c->copied[c->instr->edge * pieces + c->instr->micro];
                if (look == 0)
                    *copied |= send ? SENT : RECEIVED;
                else if (!(*copied & (send ? RECEIVED : SENT)))
                    return refuse(c, err, send ? "no instruction receives it" : "no instruction sends it");
            }
    return gp_check_collectives(c, err);
}

gp_status gp_programs_check_parts(const gp_stages *stages, const gp_programs *programs, gp_error *err) {
    gp_checker c = {.stages = stages, .programs = programs};
    gp_status status = check_numbers(&c, err);
    if (status == GP_OK) status = check_ends(&c, err);
    free(c.first);
    free(c.joined);
    free(c.copied);
    return status;
}

gp_status gp_programs_validate(const gp_stages *stages, const gp_programs *programs, gp_error *err) {
    gp_checker c = {.stages = stages, .programs = programs};
    gp_status status = check_all(&c, err);
    free(c.first);
    free(c.joined);
    free(c.pcs);
    free(c.copied);
    free(c.pieces);
    for (int f = 0; f < GP_FRAMES; f++) free(c.holders[f]);
    return status;
}
