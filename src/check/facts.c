#include "check/facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

/* ---- sentences -------------------------------------------------------------------------------------------------- */

const char *gp_program_name(const gp_claim_program *program, char text[64]) {
    snprintf(text, 64, "%s, %" PRId64 " sample%s", program->training ? "training" : "evaluation", program->samples,
             program->samples == 1 ? "" : "s");
    return text;
}

gp_status gp_facts_lack(const gp_facts *f, const char *format, ...) {
    char what[600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    char name[64];
    return gp_fail(f->err, GP_PROGRAM, "%s: %s", gp_program_name(f->program, name), what);
}

gp_status gp_facts_refuse(const gp_facts *f, int stage, int64_t pc, const char *format, ...) {
    char what[500];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return gp_facts_lack(f, "worker %d, instruction %" PRId64 " (%s): %s", gp_facts_worker(f, stage), pc,
                         gp_facts_instr(f, stage, pc)->name, what);
}

gp_status gp_facts_in_order(const gp_facts *f, int stage_a, int64_t a, int stage_b, int64_t b) {
    if (a == GP_NOWHERE || b == GP_NOWHERE) return GP_OK;
    gp_claim_wait first = {gp_facts_worker(f, stage_a), (size_t)a}, second = {gp_facts_worker(f, stage_b), (size_t)b};
    if (gp_happens_before(f->order, first, second)) return GP_OK;
    return gp_facts_refuse(f, stage_b, b,
                           "may begin before worker %d, instruction %" PRId64 " (%s) has ended, and must not",
                           first.worker, a, gp_facts_instr(f, stage_a, a)->name);
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

static gp_status note(const gp_facts *f, int64_t *place, const gp_claim_instr *instr, int64_t pc) {
    if (*place != GP_NOWHERE)
        return gp_facts_refuse(f, instr->stage, pc, "is there a second time: the first is instruction %" PRId64,
                               *place);
    *place = pc;
    return GP_OK;
}

bool gp_fact_is_among(const int *stages, size_t count, int stage) {
    for (size_t i = 0; i < count; i++)
        if (stages[i] == stage) return true;
    return false;
}

static gp_status note_copy(const gp_facts *f, const gp_claim_instr *instr, int64_t pc) {
    const gp_claim_edge *edge = &f->claim->edges[instr->edge];
    bool sends = instr->op == GP_CLAIM_SEND;
    gp_fact_copy *copy = gp_facts_copy(f, instr->edge, instr->micro);
    if ((sends ? edge->from : edge->to) != instr->stage)
        return gp_facts_refuse(f, instr->stage, pc, "edge %d goes from stage %d to stage %d", instr->edge, edge->from,
                               edge->to);
    if (!gp_facts_carries(f, instr->edge, instr->micro))
        return gp_facts_refuse(f, instr->stage, pc, "edge %d does not carry micro-batch %d in this pass", instr->edge,
                               instr->micro);
    return note(f, sends ? &copy->send : &copy->recv, instr, pc);
}

static gp_status note_member(const gp_facts *f, const gp_claim_instr *instr, int64_t pc) {
    const gp_claim_collective *its = &f->claim->collectives[instr->collective];
    gp_fact_member *member = gp_facts_member(f, instr->collective, instr->stage);
    bool posts = instr->op == GP_CLAIM_POST;
    if (!f->program->training && its->part != GP_CLAIM_PART_LOSSES)
        return gp_facts_refuse(f, instr->stage, pc, "belongs to training");
    if (f->claim->members && !gp_fact_is_among(posts ? its->contributors : its->collectors,
                                               posts ? its->contributor_count : its->collector_count, instr->stage))
        return gp_facts_refuse(f, instr->stage, pc, "stage %d is none of those that %s in collective %d", instr->stage,
                               posts ? "post" : "collect", instr->collective);
    if (instr->op == GP_CLAIM_REDUCE && its->kind != GP_CLAIM_SCATTER)
        return gp_facts_refuse(f, instr->stage, pc, "collective %d is no scatter of gradients", instr->collective);
    return note(f,
                posts                          ? &member->post
                : instr->op == GP_CLAIM_REDUCE ? &member->reduce
                                               : &member->collect,
                instr, pc);
}

/* Flags where they have no meaning are no harmless ones: another reader may give them some. */
static gp_status check_flags(const gp_facts *f, const gp_claim_instr *instr, int64_t pc) {
    bool forward = instr->op == GP_CLAIM_F ||
                   (instr->op == GP_CLAIM_SEND && f->claim->edges[instr->edge].kind != GP_CLAIM_GRADIENTS);
    bool backward = instr->op == GP_CLAIM_B || instr->op == GP_CLAIM_I || instr->op == GP_CLAIM_W;
    if (instr->keep && (!forward || !f->program->training))
        return gp_facts_refuse(f, instr->stage, pc, "cannot have the flag keep");
    if (instr->first && !backward) return gp_facts_refuse(f, instr->stage, pc, "cannot have the flag first");
    return GP_OK;
}

/* Passes share what is transient, so all that computes stands in one queue. Sums of replicas that are collected, and
 * what is received, may have one of their own. */
static gp_status check_queue(const gp_facts *f, const gp_claim_instr *instr, int64_t pc) {
    bool receives = instr->op == GP_CLAIM_LOAD || instr->op == GP_CLAIM_RECV || instr->op == GP_CLAIM_COLLECT;
    if (instr->queue == 0 || receives || !f->claim->workers[gp_facts_worker(f, instr->stage)].queues) return GP_OK;
    return gp_facts_refuse(f, instr->stage, pc, "stands in queue %d, beside the passes of the worker", instr->queue);
}

static gp_status note_instr(const gp_facts *f, const gp_claim_instr *instr, int64_t pc) {
    gp_fact_micro *micro = instr->micro >= 0 ? gp_facts_micro(f, instr->stage, instr->micro) : NULL;
    gp_fact_stage *stage = &f->stages[instr->stage];
    if (micro && !gp_claim_stage_has(f->claim, f->program, instr->stage, instr->micro))
        return gp_facts_refuse(f, instr->stage, pc, "the stage's replica has no sample of micro-batch %d",
                               instr->micro);
    GP_RETURN_IF_FAILED(check_flags(f, instr, pc));
    GP_RETURN_IF_FAILED(check_queue(f, instr, pc));
    switch (instr->op) {
    case GP_CLAIM_LOAD:
        if (f->claim->slots && !f->claim->stages[instr->stage].loads)
            return gp_facts_refuse(f, instr->stage, pc, "the stage uses neither input nor target");
        return note(f, &micro->load, instr, pc);
    case GP_CLAIM_F: return note(f, &micro->f, instr, pc);
    case GP_CLAIM_SEND:
    case GP_CLAIM_RECV: return note_copy(f, instr, pc);
    case GP_CLAIM_POST:
    case GP_CLAIM_COLLECT:
    case GP_CLAIM_REDUCE: return note_member(f, instr, pc);
    case GP_CLAIM_TOTAL: return note(f, &stage->total, instr, pc);
    case GP_CLAIM_BARRIER: return GP_OK;
    default: break;
    }
    if (!f->program->training) return gp_facts_refuse(f, instr->stage, pc, "belongs to training");
    switch (instr->op) {
    case GP_CLAIM_R: return note(f, &micro->r, instr, pc);
    case GP_CLAIM_B: return note(f, &micro->b, instr, pc);
    case GP_CLAIM_I: return note(f, &micro->i, instr, pc);
    case GP_CLAIM_W: return note(f, &micro->w, instr, pc);
    case GP_CLAIM_NORM: return note(f, &stage->norm, instr, pc);
    case GP_CLAIM_CLIP: return note(f, &stage->clip, instr, pc);
    case GP_CLAIM_UPDATE:
        if (!f->claim->shards || f->claim->stages[instr->stage].replicas == 1)
            return gp_facts_refuse(
                f, instr->stage, pc,
                "the stage shares its parameters with no other replica: they would be updated twice");
        return note(f, &stage->update, instr, pc);
    default: return note(f, &stage->step, instr, pc);
    }
}

bool gp_facts_carries(const gp_facts *f, int edge, int micro) {
    if (!f->program->training && f->claim->edges[edge].kind == GP_CLAIM_GRADIENTS) return false;
    return gp_claim_edge_carries(f->claim, f->program, edge, micro);
}

/* Before anything is reserved for each micro-batch: right programs have at least their forward passes. */
static gp_status check_length(const gp_facts *f) {
    size_t count = 0, passes = 0;
    for (size_t w = 0; w < f->claim->worker_count; w++) count += f->program->worker[w].count;
    for (int s = 0; s < (int)f->claim->stage_count; s++)
        for (int m = 0; m < f->program->micro_batches && passes <= count; m++)
            passes += gp_claim_stage_has(f->claim, f->program, s, m);
    if (passes <= count) return GP_OK;
    return gp_facts_lack(f, "%zu instructions are too few for %d micro-batches on %zu stages", count,
                         f->program->micro_batches, f->claim->stage_count);
}

/* An array of places, all nowhere. */
static gp_status new_places(void **out, size_t count, size_t fields, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_new_array(out, gp_size_times(count, fields), sizeof(int64_t), err));
    for (size_t i = 0; i < count * fields; i++) ((int64_t *)*out)[i] = GP_NOWHERE;
    return GP_OK;
}
#define PLACES(field, count)                                                                                           \
    GP_RETURN_IF_FAILED(new_places((void **)&facts->field, (count), sizeof *facts->field / sizeof(int64_t), err))

gp_status gp_facts_init(gp_facts *facts, const gp_claim *claim, const gp_claim_program *program, gp_error *err) {
    *facts = (gp_facts){.claim = claim, .program = program, .err = err, .norms = claim->norms && program->training};
    size_t micros = (size_t)program->micro_batches;
    GP_RETURN_IF_FAILED(check_length(facts));
    PLACES(micros, gp_size_times(claim->stage_count, micros));
    PLACES(copies, gp_size_times(claim->edge_count, micros));
    PLACES(members, gp_size_times(claim->collective_count, claim->stage_count));
    PLACES(stages, claim->stage_count);
    for (size_t w = 0; w < claim->worker_count; w++) {
        int last[2] = {-1, -1}; /* posted, collected */
        for (size_t pc = 0; pc < program->worker[w].count; pc++) {
            const gp_claim_instr *instr = &program->worker[w].instrs[pc];
            if (gp_facts_worker(facts, instr->stage) != (int)w)
                return gp_facts_lack(facts, "worker %zu, instruction %zu (%s): stage %d is on worker %d", w, pc,
                                     instr->name, instr->stage, gp_facts_worker(facts, instr->stage));
            GP_RETURN_IF_FAILED(note_instr(facts, instr, (int64_t)pc));
            bool collects = instr->op == GP_CLAIM_COLLECT;
            if (!collects && instr->op != GP_CLAIM_POST) continue;
            if (instr->collective < last[collects])
                return gp_facts_refuse(facts, instr->stage, (int64_t)pc,
                                       "comes after collective %d: workers %s in rising order", last[collects],
                                       collects ? "collect" : "post");
            last[collects] = instr->collective;
        }
    }
    return GP_OK;
}

void gp_facts_fini(gp_facts *facts) {
    free(facts->micros);
    free(facts->stages);
    free(facts->copies);
    free(facts->members);
    for (size_t w = 0; facts->grows && w < facts->claim->worker_count; w++) free(facts->grows[w]);
    free(facts->grows);
    gp_happens_destroy(&facts->order);
}
