/* Slots: each micro-batch has one slot of each frame that it uses, and no slot has two of them at once. What a life
 * begins with must come after all that the life before it in the slot ends with, the copies out of it included. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check/facts.h"

/* Of a micro-batch in a frame of a stage. */
typedef struct life {
    int slot, micro;
    int64_t first, last; /* pcs of the first and of the last instruction that uses it */
} life;

typedef struct checker {
    const gp_facts *f;
    int stage;
    gp_claim_frame frame;
    life *lives; /* [micro-batches] */
    size_t count;
} checker;

/* Whether other stages take what its forward passes make. */
static bool gives(const checker *c) {
    for (size_t e = 0; e < c->f->claim->edge_count; e++)
        if (c->f->claim->edges[e].from == c->stage && c->f->claim->edges[e].kind != GP_CLAIM_GRADIENTS) return true;
    return false;
}

/* Instructions of a micro-batch that use a frame, in no order, and how many: the checker's own reading. `ends`: only
 * those after which its worker needs it no more; `begins`: only those that may be the first to write. */
static size_t find_users(const checker *c, int micro, bool begins, bool ends, int64_t out[]) {
    const gp_facts *f = c->f;
    const gp_fact_micro *its = gp_facts_micro(f, c->stage, micro);
    bool training = f->program->training, keeps = its->f != GP_NOWHERE && gp_facts_instr(f, c->stage, its->f)->keep;
    size_t count = 0;
#define ADD(pc)                                                                                                        \
    do {                                                                                                               \
        if ((pc) != GP_NOWHERE) out[count++] = (pc);                                                                   \
    } while (0)
    switch (c->frame) {
    case GP_CLAIM_STASH:
        if (!ends) ADD(its->load);
        for (int e = 0; e < (int)f->claim->edge_count && !ends; e++)
            if (f->claim->edges[e].to == c->stage && f->claim->edges[e].kind != GP_CLAIM_GRADIENTS)
                ADD(gp_facts_copy(f, e, micro)->recv);
        if (!begins && (!ends || !training)) ADD(its->f);
        if (!begins && !ends) ADD(its->r);
        if (!begins && !ends) ADD(its->i);
        if (!begins && training) ADD(gp_fact_weights(its));
        break;
    case GP_CLAIM_SAVED:
        if (!training) break;
        if (!ends) ADD(keeps ? its->f : its->r);
        if (!begins && !ends) ADD(its->i);
        if (!begins) ADD(gp_fact_weights(its));
        break;
    case GP_CLAIM_OUTBOX:
        if (!keeps && gives(c)) ADD(its->f);
        break;
    case GP_CLAIM_GRADIENT:
        if (!training) break;
        for (int e = 0; e < (int)f->claim->edge_count && !ends; e++)
            if (f->claim->edges[e].to == c->stage && f->claim->edges[e].kind == GP_CLAIM_GRADIENTS)
                ADD(gp_facts_copy(f, e, micro)->recv);
        if (!ends) ADD(gp_fact_inputs(its));
        if (!begins) ADD(gp_fact_weights(its));
        break;
    default: break;
    }
#undef ADD
    return count;
}

/* Whether a send of the stage reads the frame. */
static bool is_sent_from(const checker *c, int edge, int micro) {
    const gp_claim_edge *its = &c->f->claim->edges[edge];
    int64_t send = gp_facts_copy(c->f, edge, micro)->send;
    if (its->from != c->stage || send == GP_NOWHERE) return false;
    if (its->kind == GP_CLAIM_GRADIENTS) return c->frame == GP_CLAIM_GRADIENT;
    bool keeps = gp_facts_instr(c->f, c->stage, send)->keep;
    return c->frame == (keeps ? GP_CLAIM_SAVED : GP_CLAIM_OUTBOX);
}

static gp_status check_slot(const checker *c, int64_t pc, life *its) {
    int slot = gp_facts_instr(c->f, c->stage, pc)->slot[c->frame];
    const char *frame = gp_claim_frames[c->frame];
    if (slot < 0) return gp_facts_refuse(c->f, c->stage, pc, "names no %s slot", frame);
    if (slot >= c->f->claim->stages[c->stage].slots[c->frame].count)
        return gp_facts_refuse(c->f, c->stage, pc, "uses %s slot %d: the stage has %" PRId64, frame, slot,
                               c->f->claim->stages[c->stage].slots[c->frame].count);
    if (its->slot >= 0 && its->slot != slot)
        return gp_facts_refuse(c->f, c->stage, pc, "uses %s slot %d, but micro-batch %d is in slot %d", frame, slot,
                               its->micro, its->slot);
    its->slot = slot;
    if (its->first == GP_NOWHERE || pc < its->first) its->first = pc;
    if (pc > its->last) its->last = pc;
    return GP_OK;
}

/* What a micro-batch loads and receives fits its slot, and as much is sent as is received. */
static gp_status check_sizes(const checker *c, int micro, const int64_t users[], size_t count) {
    int64_t sum = 0, bytes = c->f->claim->stages[c->stage].slots[c->frame].bytes;
    for (size_t i = 0; i < count; i++) {
        const gp_claim_instr *instr = gp_facts_instr(c->f, c->stage, users[i]);
        if (instr->op != GP_CLAIM_LOAD && instr->op != GP_CLAIM_RECV) continue;
        if (instr->bytes < 1) return gp_facts_refuse(c->f, c->stage, users[i], "copies no byte");
        sum += instr->bytes;
        if (sum > bytes)
            return gp_facts_refuse(c->f, c->stage, users[i], "goes beyond the end of its %s slot of %" PRId64 " bytes",
                                   gp_claim_frames[c->frame], bytes);
        if (instr->op == GP_CLAIM_LOAD) continue;
        int from = c->f->claim->edges[instr->edge].from;
        int64_t send = gp_facts_copy(c->f, instr->edge, micro)->send;
        if (gp_facts_instr(c->f, from, send)->bytes != instr->bytes)
            return gp_facts_refuse(c->f, c->stage, users[i], "receives %" PRId64 " bytes, but %" PRId64 " are sent",
                                   instr->bytes, gp_facts_instr(c->f, from, send)->bytes);
    }
    return GP_OK;
}

/* What is sent lies within its slot. */
static gp_status check_sent(const checker *c, int64_t send) {
    int64_t bytes = c->f->claim->stages[c->stage].slots[c->frame].bytes;
    if (gp_facts_instr(c->f, c->stage, send)->bytes <= bytes) return GP_OK;
    return gp_facts_refuse(c->f, c->stage, send, "sends more than its %s slot of %" PRId64 " bytes holds",
                           gp_claim_frames[c->frame], bytes);
}

static gp_status find_life(checker *c, int micro, int64_t users[]) {
    life its = {.slot = -1, .micro = micro, .first = GP_NOWHERE, .last = GP_NOWHERE};
    size_t count = find_users(c, micro, false, false, users);
    for (size_t i = 0; i < count; i++) GP_RETURN_IF_FAILED(check_slot(c, users[i], &its));
    GP_RETURN_IF_FAILED(check_sizes(c, micro, users, count));
    for (int e = 0; e < (int)c->f->claim->edge_count; e++)
        if (is_sent_from(c, e, micro)) {
            if (c->frame == GP_CLAIM_SAVED)
                GP_RETURN_IF_FAILED(gp_facts_in_order(c->f, c->stage, gp_facts_copy(c->f, e, micro)->send, c->stage,
                                                      gp_fact_weights(gp_facts_micro(c->f, c->stage, micro))));
            GP_RETURN_IF_FAILED(check_slot(c, gp_facts_copy(c->f, e, micro)->send, &its));
            GP_RETURN_IF_FAILED(check_sent(c, gp_facts_copy(c->f, e, micro)->send));
        }
    if (count == 0) return GP_OK;
    int64_t bytes = c->f->claim->stages[c->stage].slots[c->frame].bytes,
            *grows = c->f->grows[gp_facts_worker(c->f, c->stage)];
    grows[its.first] += bytes;
    grows[its.last + 1] -= bytes;
    c->lives[c->count++] = its;
    return GP_OK;
}

static int compare_lives(const void *a, const void *b) {
    const life *x = a, *y = b;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Instructions of micro-batch `a` that must have ended before a receive or a load may write its slot: those that touch
 * what it writes over, and that receive or load itself; what else lies in the slot stays. */
static size_t find_readers(const checker *c, int a, const gp_claim_instr *by, int64_t out[]) {
    unsigned readers =
        by->op == GP_CLAIM_LOAD ? c->f->claim->stages[c->stage].readers : c->f->claim->edges[by->edge].readers;
    size_t all = find_users(c, a, false, false, out), count = 0;
    for (size_t i = 0; i < all; i++) {
        const gp_claim_instr *instr = gp_facts_instr(c->f, c->stage, out[i]);
        bool same = instr->op == by->op && instr->edge == by->edge;
        if (same || (instr->op >= GP_CLAIM_F && instr->op <= GP_CLAIM_W && readers >> instr->op & 1))
            out[count++] = out[i];
    }
    return count;
}

/* What must have ended on the stage before `pc` may begin a life in the slot that micro-batch `a` had. */
static size_t find_before(const checker *c, int a, int64_t pc, int64_t out[]) {
    const gp_claim_instr *instr = gp_facts_instr(c->f, c->stage, pc);
    bool copies = instr->op == GP_CLAIM_RECV || instr->op == GP_CLAIM_LOAD;
    return copies ? find_readers(c, a, instr, out) : find_users(c, a, false, true, out);
}

/* `b` follows `a` in a slot. */
static gp_status check_turn(const checker *c, const life *a, const life *b, int64_t ends[], int64_t begins[]) {
    const gp_facts *f = c->f;
    const char *frame = gp_claim_frames[c->frame];
    int worker = gp_facts_worker(f, c->stage);
    size_t begin_count = find_users(c, b->micro, true, false, begins);
    for (size_t i = 0; i < begin_count; i++) {
        gp_claim_wait begin = {worker, (size_t)begins[i]};
        size_t end_count = find_before(c, a->micro, begins[i], ends);
        for (size_t k = 0; k < end_count; k++)
            if (!gp_happens_before(f->order, (gp_claim_wait){worker, (size_t)ends[k]}, begin))
                return gp_facts_refuse(f, c->stage, begins[i],
                                       "may write %s slot %d while micro-batch %d still needs it: instruction %" PRId64
                                       " (%s) need not have ended",
                                       frame, b->slot, a->micro, ends[k], gp_facts_instr(f, c->stage, ends[k])->name);
        /* Received gradients lie beside those that are sent. */
        if (c->frame == GP_CLAIM_GRADIENT && gp_facts_instr(f, c->stage, begins[i])->op == GP_CLAIM_RECV) continue;
        for (int e = 0; e < (int)f->claim->edge_count; e++) {
            int to = f->claim->edges[e].to;
            int64_t pulled = is_sent_from(c, e, a->micro) ? gp_facts_copy(f, e, a->micro)->recv : GP_NOWHERE;
            if (pulled == GP_NOWHERE ||
                gp_happens_before(f->order, (gp_claim_wait){gp_facts_worker(f, to), (size_t)pulled}, begin))
                continue;
            return gp_facts_refuse(f, c->stage, begins[i],
                                   "may write %s slot %d before worker %d, instruction %" PRId64
                                   " (%s) has copied out of it",
                                   frame, b->slot, gp_facts_worker(f, to), pulled, gp_facts_instr(f, to, pulled)->name);
        }
    }
    return GP_OK;
}

/* What must have ended before the memory of each receive of `b` is free. */
static gp_status note_freed(const checker *c, const life *a, const life *b, gp_freed *freed, int64_t ends[]) {
    const gp_facts *f = c->f;
    for (int e = 0; e < (int)f->claim->edge_count; e++) {
        const gp_claim_edge *edge = &f->claim->edges[e];
        int64_t recv = edge->to == c->stage ? gp_facts_copy(f, e, b->micro)->recv : GP_NOWHERE;
        if (recv == GP_NOWHERE || c->frame != (edge->kind == GP_CLAIM_GRADIENTS ? GP_CLAIM_GRADIENT : GP_CLAIM_STASH))
            continue;
        size_t count = find_readers(c, a->micro, gp_facts_instr(f, c->stage, recv), ends);
        for (size_t k = 0; k < count; k++) {
            GP_RETURN_IF_FAILED(GP_GROW(&freed->items, &freed->capacity, freed->count + 1, f->err));
            freed->items[freed->count++] = (gp_freed_by){e, b->micro, (size_t)ends[k]};
        }
    }
    return GP_OK;
}

gp_status gp_check_lives(gp_facts *f, gp_freed *freed, size_t *lives) {
    checker c = {.f = f};
    size_t users = 2 * f->claim->edge_count + 8;
    int64_t *ends = NULL, *begins = NULL;
    gp_status status = GP_NEW(&c.lives, f->program->micro_batches, f->err);
    if (status == GP_OK) status = GP_NEW(&ends, users, f->err);
    if (status == GP_OK) status = GP_NEW(&begins, users, f->err);
    if (status == GP_OK) status = GP_NEW(&f->grows, f->claim->worker_count, f->err);
    for (size_t w = 0; w < f->claim->worker_count && status == GP_OK; w++)
        status = GP_NEW(&f->grows[w], f->program->worker[w].count + 1, f->err);
    for (c.stage = 0; c.stage < (int)f->claim->stage_count && status == GP_OK; c.stage++)
        for (int frame = 0; frame < GP_CLAIM_FRAMES && status == GP_OK; frame++) {
            c.frame = (gp_claim_frame)frame;
            c.count = 0;
            for (int m = 0; m < f->program->micro_batches && status == GP_OK; m++)
                if (gp_claim_stage_has(f->claim, f->program, c.stage, m)) status = find_life(&c, m, ends);
            qsort(c.lives, c.count, sizeof *c.lives, compare_lives);
            *lives += c.count;
            for (size_t i = 1; i < c.count && status == GP_OK; i++) {
                if (c.lives[i].slot != c.lives[i - 1].slot) continue;
                status = check_turn(&c, &c.lives[i - 1], &c.lives[i], ends, begins);
                if (status == GP_OK) status = note_freed(&c, &c.lives[i - 1], &c.lives[i], freed, ends);
            }
        }
    free(c.lives);
    free(ends);
    free(begins);
    return status;
}
