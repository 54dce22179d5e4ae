/* What a program must have, and in which order: the layers, the passes of each micro-batch, copies, collectives, sums
 * of gradients and the step. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "check/facts.h"

/* ---- layers, stages, replicas ----------------------------------------------------------------------------------- */

/* Whether a stage has samples of some mini-batch; `trains`: of one that trains. */
static bool has_samples(const gp_claim *claim, int s, bool trains) {
    for (size_t p = 0; p < claim->program_count; p++)
        if ((claim->programs[p].training || !trains) && gp_claim_stage_has(claim, &claim->programs[p], s, 0))
            return true;
    return false;
}

/* A forward pass reads what the stage before has made; the first and the last stage load input and target. */
static gp_status check_neighbours(const gp_claim *claim, gp_error *err) {
    int last = claim->stages[claim->stage_count - 1].number;
    for (size_t s = 0; s < claim->stage_count; s++) {
        const gp_claim_stage *stage = &claim->stages[s];
        bool receives = stage->number == 0;
        for (size_t e = 0; e < claim->edge_count; e++) {
            const gp_claim_edge *edge = &claim->edges[e];
            if (edge->to != (int)s || edge->kind == GP_CLAIM_GRADIENTS) continue;
            receives = receives || claim->stages[edge->from].number == stage->number - 1;
            if (!(edge->readers >> GP_CLAIM_F & 1) && has_samples(claim, (int)s, false))
                return gp_fail(err, GP_PROGRAM, "edge %zu brings stage %zu what its forward pass (F) does not read", e,
                               s);
        }
        if (!receives && has_samples(claim, (int)s, false))
            return gp_fail(err, GP_PROGRAM, "stage %zu receives nothing from the stage before it", s);
        if (claim->slots && stage->loads && !(stage->readers >> GP_CLAIM_F & 1) && has_samples(claim, (int)s, false))
            return gp_fail(err, GP_PROGRAM, "stage %zu loads what its forward pass (F) does not read", s);
        if (claim->slots && !stage->loads && (stage->number == 0 || stage->number == last))
            return gp_fail(err, GP_PROGRAM,
                           "stage %zu loads nothing: the first stage has the input, the last one the target", s);
    }
    for (size_t e = 0; e < claim->edge_count; e++)
        if (claim->edges[e].kind == GP_CLAIM_GRADIENTS && has_samples(claim, claim->edges[e].to, true) &&
            !(claim->edges[e].readers & (1U << GP_CLAIM_B | 1U << GP_CLAIM_I | 1U << GP_CLAIM_W)))
            return gp_fail(err, GP_PROGRAM, "edge %zu brings a gradient that no backward pass of stage %d reads", e,
                           claim->edges[e].to);
    return GP_OK;
}

/* Stage s of those that are no further replicas has the layers after those of the stage before. */
gp_status gp_check_layers(const gp_claim *claim, gp_error *err) {
    int next = 0, number = -1;
    for (size_t s = 0; s < claim->stage_count; s++) {
        const gp_claim_stage *stage = &claim->stages[s];
        if (stage->worker < 0 || (size_t)stage->worker >= claim->worker_count)
            return gp_fail(err, GP_PROGRAM, "stage %zu is on worker %d: there are %zu workers, counted from 0", s,
                           stage->worker, claim->worker_count);
        if (stage->layers < 1) return gp_fail(err, GP_PROGRAM, "stage %zu has no layer", s);
        if (stage->replica > 0) {
            const gp_claim_stage *before = s > 0 ? &claim->stages[s - 1] : NULL;
            if (!before || stage->number != before->number || stage->replica != before->replica + 1 ||
                stage->first_layer != before->first_layer || stage->layers != before->layers ||
                stage->replicas != before->replicas || stage->group != before->group)
                return gp_fail(err, GP_PROGRAM,
                               "stage %zu is replica %d of stage %d, but does not follow replica %d with its layers", s,
                               stage->replica, stage->number, stage->replica - 1);
            continue;
        }
        if (stage->number != ++number)
            return gp_fail(err, GP_PROGRAM, "stage %zu has number %d, and %d is next", s, stage->number, number);
        if (stage->first_layer > next) return gp_fail(err, GP_PROGRAM, "layer %d stands on no stage", next);
        if (stage->first_layer < next)
            return gp_fail(err, GP_PROGRAM, "layer %d stands on two stages: %zu is the second", stage->first_layer, s);
        next = stage->first_layer + stage->layers;
    }
    for (size_t s = 0; s < claim->stage_count; s++) {
        size_t last = s + (size_t)(claim->stages[s].replicas - 1 - claim->stages[s].replica);
        if (last >= claim->stage_count || claim->stages[last].number != claim->stages[s].number)
            return gp_fail(err, GP_PROGRAM, "stage %zu is replica %d of %d, and the last of them is missing", s,
                           claim->stages[s].replica, claim->stages[s].replicas);
    }
    for (size_t l = 0; l < claim->layer_count; l++) {
        const gp_claim_layer *layer = &claim->layers[l];
        if (layer->stage < 0 || (size_t)layer->stage >= claim->stage_count)
            return gp_fail(err, GP_PROGRAM, "layer %s is on stage %d: there is none", layer->name, layer->stage);
        const gp_claim_stage *stage = &claim->stages[layer->stage];
        /* The loss has the number of the last layer. */
        if (layer->layer < stage->first_layer || layer->layer >= stage->first_layer + stage->layers)
            return gp_fail(err, GP_PROGRAM, "layer %s (%d) is said to be on stage %d, which has layers %d to %d",
                           layer->name, layer->layer, layer->stage, stage->first_layer,
                           stage->first_layer + stage->layers - 1);
    }
    int before = 0;
    for (size_t l = 0; l < claim->layer_count; l++) {
        int its = claim->layers[l].layer;
        if (its < before || its > before + (l > 0))
            return gp_fail(err, GP_PROGRAM, "layer %s has number %d after %d: numbers rise one by one",
                           claim->layers[l].name, its, before);
        before = its;
    }
    if (next != before + 1)
        return gp_fail(err, GP_PROGRAM,
                       next <= before ? "layer %d stands on no stage" : "there is no layer %d, which a stage has",
                       next <= before ? next : before + 1);
    return check_neighbours(claim, err);
}

/* ---- presence --------------------------------------------------------------------------------------------------- */

static gp_status check_passes(const gp_facts *f, int s, int m) {
    const gp_fact_micro *its = gp_facts_micro(f, s, m);
    if (its->f == GP_NOWHERE) return gp_facts_lack(f, "stage %d: micro-batch %d has no forward (F)", s, m);
    if (f->claim->slots && f->claim->stages[s].loads && its->load == GP_NOWHERE)
        return gp_facts_lack(f, "stage %d: micro-batch %d is never loaded", s, m);
    if (!f->program->training) return GP_OK;
    if (its->b != GP_NOWHERE && (its->i != GP_NOWHERE || its->w != GP_NOWHERE))
        return gp_facts_refuse(f, s, its->b,
                               "the micro-batch has also a backward in halves (I, W): its gradients would count twice");
    if (its->b == GP_NOWHERE && its->i == GP_NOWHERE)
        return gp_facts_lack(f, "stage %d: micro-batch %d has no backward (B, or I and W)", s, m);
    if (its->b == GP_NOWHERE && its->w == GP_NOWHERE)
        return gp_facts_lack(f, "stage %d: micro-batch %d has no backward for weights (W): its gradients are not added",
                             s, m);
    bool keeps = gp_facts_instr(f, s, its->f)->keep;
    if (!f->claim->slots) return GP_OK;
    if (keeps && its->r != GP_NOWHERE) return gp_facts_refuse(f, s, its->r, "recomputes what the forward has kept");
    if (!keeps && its->r == GP_NOWHERE)
        return gp_facts_lack(f, "stage %d: micro-batch %d is never recomputed (R), and its forward kept nothing", s, m);
    return GP_OK;
}

static gp_status check_copies(const gp_facts *f) {
    for (int e = 0; e < (int)f->claim->edge_count; e++)
        for (int m = 0; m < f->program->micro_batches; m++) {
            const gp_fact_copy *copy = gp_facts_copy(f, e, m);
            if (!gp_facts_carries(f, e, m)) continue;
            if (copy->send == GP_NOWHERE || copy->recv == GP_NOWHERE)
                return gp_facts_lack(f, "edge %d, from stage %d to stage %d: micro-batch %d is never %s", e,
                                     f->claim->edges[e].from, f->claim->edges[e].to, m,
                                     copy->send == GP_NOWHERE ? "sent" : "received");
        }
    return GP_OK;
}

static const char *const part_words[GP_CLAIM_PARTS] = {"squares",   "scalars",        "losses",    "statistics",
                                                       "gradients", "sums of blocks", "parameters"};

static gp_status check_collective(const gp_facts *f, int c) {
    const gp_claim_collective *its = &f->claim->collectives[c];
    if (!f->program->training && its->part != GP_CLAIM_PART_LOSSES) return GP_OK;
    for (size_t i = 0; i < its->contributor_count; i++)
        if (gp_facts_member(f, c, its->contributors[i])->post == GP_NOWHERE)
            return gp_facts_lack(f, "collective %d (%s): stage %d never posts", c, part_words[its->part],
                                 its->contributors[i]);
    for (size_t i = 0; i < its->collector_count; i++) {
        const gp_fact_member *member = gp_facts_member(f, c, its->collectors[i]);
        if (member->collect == GP_NOWHERE)
            return gp_facts_lack(f, "collective %d (%s): stage %d never collects", c, part_words[its->part],
                                 its->collectors[i]);
        if (its->kind == GP_CLAIM_SCATTER && member->reduce == GP_NOWHERE)
            return gp_facts_lack(f, "stage %d never adds up the gradients that collective %d has brought (reduce)",
                                 its->collectors[i], c);
    }
    return GP_OK;
}

static gp_status check_ends(const gp_facts *f, int s) {
    const gp_fact_stage *its = &f->stages[s];
    const gp_claim_stage *stage = &f->claim->stages[s];
    bool root = s == gp_claim_root(f->claim);
    if (root && stage->replicas > 1 && its->total == GP_NOWHERE)
        return gp_facts_lack(f, "stage %d never adds up the loss (total)", s);
    if (its->total != GP_NOWHERE && (!root || stage->replicas == 1))
        return gp_facts_refuse(f, s, its->total, "the loss is added up on the first replica of the last stage only");
    if (!f->program->training) return GP_OK;
    if (its->step == GP_NOWHERE) return gp_facts_lack(f, "stage %d never takes its step", s);
    if (f->norms && stage->replica == 0 && its->norm == GP_NOWHERE)
        return gp_facts_lack(f, "stage %d never finds the norm of its gradients", s);
    if (f->norms && root && its->clip == GP_NOWHERE)
        return gp_facts_lack(f, "stage %d never finds the factor that clips (clip)", s);
    if (its->clip != GP_NOWHERE && !root)
        return gp_facts_refuse(f, s, its->clip, "the factor that clips is found on the last stage only");
    if (f->claim->shards && stage->replicas > 1 && its->update == GP_NOWHERE)
        return gp_facts_lack(f, "stage %d never updates its share of the parameters (update)", s);
    return GP_OK;
}

static gp_status check_barriers(const gp_facts *f) {
    size_t first = 0;
    for (size_t w = 0; w < f->claim->worker_count; w++) {
        size_t count = 0;
        for (size_t pc = 0; pc < f->program->worker[w].count; pc++)
            count += f->program->worker[w].instrs[pc].op == GP_CLAIM_BARRIER;
        if (w == 0) first = count;
        if (count != first)
            return gp_facts_lack(f, "worker %zu has %zu barriers, but worker 0 has %zu", w, count, first);
    }
    return GP_OK;
}

gp_status gp_check_presence(const gp_facts *f) {
    const gp_claim_program *p = f->program;
    int64_t last = p->samples - p->piece * (p->micro_batches - 1);
    int64_t each = (p->samples + p->micro_batches - 1) / p->micro_batches; /* torch.chunk */
    if (p->piece != each || last != p->last || last < 1)
        return gp_facts_lack(f,
                             "%d micro-batches of %" PRId64 " samples, the last one of %" PRId64
                             ", do not make the mini-batch, by whose "
                             "size gradients are divided",
                             p->micro_batches, p->piece, p->last);
    for (int s = 0; s < (int)f->claim->stage_count; s++) {
        for (int m = 0; m < p->micro_batches; m++)
            if (gp_claim_stage_has(f->claim, p, s, m)) GP_RETURN_IF_FAILED(check_passes(f, s, m));
        GP_RETURN_IF_FAILED(check_ends(f, s));
    }
    for (int c = 0; c < (int)f->claim->collective_count; c++) GP_RETURN_IF_FAILED(check_collective(f, c));
    GP_RETURN_IF_FAILED(check_barriers(f));
    return check_copies(f);
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

#define BEFORE(a_stage, a, b_stage, b) GP_RETURN_IF_FAILED(gp_facts_in_order(f, (a_stage), (a), (b_stage), (b)))

/* What enters a pass is there, and what leaves it has been made. */
static gp_status order_copies(const gp_facts *f) {
    for (int e = 0; e < (int)f->claim->edge_count; e++) {
        const gp_claim_edge *edge = &f->claim->edges[e];
        for (int m = 0; m < f->program->micro_batches; m++) {
            const gp_fact_copy *copy = gp_facts_copy(f, e, m);
            if (!gp_facts_carries(f, e, m)) continue;
            const gp_fact_micro *from = gp_facts_micro(f, edge->from, m), *to = gp_facts_micro(f, edge->to, m);
            bool gradients = edge->kind == GP_CLAIM_GRADIENTS;
            BEFORE(edge->from, gradients ? gp_fact_inputs(from) : from->f, edge->from, copy->send);
            BEFORE(edge->from, copy->send, edge->to, copy->recv);
            if (!gradients) {
                BEFORE(edge->to, copy->recv, edge->to, to->f);
                if (f->claim->slots &&
                    gp_facts_instr(f, edge->from, copy->send)->keep != gp_facts_instr(f, edge->from, from->f)->keep)
                    return gp_facts_refuse(
                        f, edge->from, copy->send,
                        "reads another frame than its forward pass (F) has written: keep must be the same");
                continue;
            }
            if (edge->readers & (1U << GP_CLAIM_B | 1U << GP_CLAIM_I))
                BEFORE(edge->to, copy->recv, edge->to, gp_fact_inputs(to));
            BEFORE(edge->to, copy->recv, edge->to, gp_fact_weights(to));
        }
    }
    return GP_OK;
}

/* Forward, recompute, backward of each micro-batch; and gradients of micro-batches in one order, the first of which
 * overwrites what the step before has left. */
static gp_status order_passes(const gp_facts *f, int s) {
    int count = f->program->micro_batches, step = f->program->descending ? -1 : 1;
    const gp_fact_micro *before = NULL;
    for (int i = 0, m = f->program->descending ? count - 1 : 0; i < count; i++, m += step) {
        const gp_fact_micro *its = gp_facts_micro(f, s, m);
        if (its->f == GP_NOWHERE) continue;
        BEFORE(s, its->load, s, its->f);
        if (!f->program->training) continue;
        BEFORE(s, its->f, s, its->r);
        BEFORE(s, its->r == GP_NOWHERE ? its->f : its->r, s, gp_fact_inputs(its));
        BEFORE(s, its->i, s, its->w);
        if (f->claim->slots)
            for (int half = 0; half < 2; half++) {
                int64_t pc = half ? gp_fact_weights(its) : gp_fact_inputs(its);
                bool first = gp_facts_instr(f, s, pc)->first;
                if (first && before)
                    return gp_facts_refuse(f, s, pc, "overwrites gradients (first) to which others have been added");
                if (!first && !before)
                    return gp_facts_refuse(f, s, pc,
                                           "adds to gradients that the step before has left: it has no flag first");
            }
        if (before) {
            BEFORE(s, gp_fact_inputs(before), s, gp_fact_inputs(its));
            BEFORE(s, gp_fact_weights(before), s, gp_fact_weights(its));
        }
        before = its;
    }
    return GP_OK;
}

/* The next pass at or behind `pc` that replicas compute together, of a micro-batch that `stage` has; the program's end:
 * none. */
static size_t next_joint(const gp_facts *f, int of, int stage, size_t pc) {
    const gp_claim_worker_program *program = &f->program->worker[gp_facts_worker(f, of)];
    for (; pc < program->count; pc++) {
        const gp_claim_instr *instr = &program->instrs[pc];
        bool joint = instr->op == GP_CLAIM_F || instr->op == GP_CLAIM_B || instr->op == GP_CLAIM_I;
        if (joint && instr->stage == of && gp_claim_stage_has(f->claim, f->program, stage, instr->micro)) break;
    }
    return pc;
}

/* Replicas that synchronise batch norm compute their passes in one order, else each waits for the other's. */
static gp_status order_group(const gp_facts *f, int s) {
    const gp_claim_stage *its = &f->claim->stages[s];
    int first = s - its->replica % its->group;
    size_t a = 0, b = 0;
    if (first == s || !f->program->training) return GP_OK;
    for (size_t count = f->program->worker[its->worker].count; (b = next_joint(f, s, s, b)) < count; a++, b++) {
        a = next_joint(f, first, s, a);
        const gp_claim_instr *instr = gp_facts_instr(f, s, (int64_t)b);
        const gp_claim_instr *wanted =
            a < f->program->worker[gp_facts_worker(f, first)].count ? gp_facts_instr(f, first, (int64_t)a) : NULL;
        if (!wanted || wanted->micro != instr->micro || (wanted->op == GP_CLAIM_F) != (instr->op == GP_CLAIM_F))
            return gp_facts_refuse(f, s, (int64_t)b,
                                   "comes where stage %d, with which it synchronises batch norm, has %s", first,
                                   wanted ? wanted->name : "nothing more");
    }
    return GP_OK;
}

/* What a stage posts has been found. */
static int64_t found_by(const gp_facts *f, int c, int s) {
    const gp_claim_collective *its = &f->claim->collectives[c];
    const gp_fact_stage *stage = &f->stages[s];
    switch (its->part) {
    case GP_CLAIM_PART_SQUARES: return stage->norm;
    case GP_CLAIM_PART_SCALARS: return stage->clip;
    case GP_CLAIM_PART_PARAMETERS: return stage->update;
    default: return GP_NOWHERE;
    }
}

/* All that a pass over all micro-batches must have ended before. */
static gp_status order_after_all(const gp_facts *f, int s, bool backward, int64_t pc) {
    for (int m = 0; m < f->program->micro_batches; m++) {
        const gp_fact_micro *its = gp_facts_micro(f, s, m);
        BEFORE(s, backward ? gp_fact_weights(its) : its->f, s, pc);
    }
    return GP_OK;
}

/* The instruction that a stage adds up a bucket with, or NOWHERE. */
static int64_t reduce_of(const gp_facts *f, int exchange, int s) {
    for (int c = 0; c < (int)f->claim->collective_count; c++)
        if (f->claim->collectives[c].kind == GP_CLAIM_SCATTER &&
            f->claim->collectives[c].bucket == f->claim->collectives[exchange].bucket &&
            gp_facts_member(f, c, s)->reduce != GP_NOWHERE)
            return gp_facts_member(f, c, s)->reduce;
    return GP_NOWHERE;
}

static gp_status order_reduces_before(const gp_facts *f, int s, int64_t pc) {
    for (int c = 0; c < (int)f->claim->collective_count; c++) BEFORE(s, gp_facts_member(f, c, s)->reduce, s, pc);
    return GP_OK;
}

/* All collects of a stage that carry `part`. */
static gp_status order_collects_before(const gp_facts *f, int s, gp_claim_part part, int64_t pc) {
    for (int c = 0; c < (int)f->claim->collective_count; c++)
        if (f->claim->collectives[c].part == part) BEFORE(s, gp_facts_member(f, c, s)->collect, s, pc);
    return GP_OK;
}

static gp_status order_collective(const gp_facts *f, int c) {
    const gp_claim_collective *its = &f->claim->collectives[c];
    for (int s = 0; s < (int)f->claim->stage_count; s++) {
        const gp_fact_member *member = gp_facts_member(f, c, s);
        if (member->post == GP_NOWHERE) continue;
        BEFORE(s, found_by(f, c, s), s, member->post);
        if (its->part == GP_CLAIM_PART_SCALARS) BEFORE(s, f->stages[s].total, s, member->post);
        if (its->root < 0 && member->collect < member->post)
            return gp_facts_refuse(f, s, member->collect, "collects before its own stage has posted");
        if (its->part == GP_CLAIM_PART_GRADIENTS || its->part == GP_CLAIM_PART_BLOCKS)
            GP_RETURN_IF_FAILED(order_after_all(f, s, true, member->post));
        else if (its->part != GP_CLAIM_PART_PARAMETERS)
            GP_RETURN_IF_FAILED(order_after_all(f, s, false, member->post));
        if (its->kind == GP_CLAIM_EXCHANGE && its->part == GP_CLAIM_PART_GRADIENTS)
            BEFORE(s, reduce_of(f, c, s), s, member->post);
        if (its->part == GP_CLAIM_PART_BLOCKS) GP_RETURN_IF_FAILED(order_reduces_before(f, s, member->post));
        for (int other = 0; other < (int)f->claim->stage_count; other++)
            if (other != s) BEFORE(s, member->post, other, gp_facts_member(f, c, other)->collect);
    }
    for (int s = 0; s < (int)f->claim->stage_count; s++)
        BEFORE(s, gp_facts_member(f, c, s)->collect, s, gp_facts_member(f, c, s)->reduce);
    return GP_OK;
}

static gp_status order_ends(const gp_facts *f, int s) {
    const gp_fact_stage *its = &f->stages[s];
    GP_RETURN_IF_FAILED(order_after_all(f, s, false, its->total));
    GP_RETURN_IF_FAILED(order_collects_before(f, s, GP_CLAIM_PART_LOSSES, its->total));
    if (!f->program->training) return GP_OK;
    BEFORE(s, its->total, s, its->update);
    BEFORE(s, its->total, s, its->step);
    GP_RETURN_IF_FAILED(order_after_all(f, s, true, its->norm));
    if (f->claim->shards) GP_RETURN_IF_FAILED(order_reduces_before(f, s, its->norm));
    GP_RETURN_IF_FAILED(order_collects_before(f, s, GP_CLAIM_PART_BLOCKS, its->norm));
    if (!f->claim->shards) GP_RETURN_IF_FAILED(order_collects_before(f, s, GP_CLAIM_PART_GRADIENTS, its->norm));
    BEFORE(s, its->norm, s, its->clip);
    GP_RETURN_IF_FAILED(order_collects_before(f, s, GP_CLAIM_PART_SQUARES, its->clip));
    GP_RETURN_IF_FAILED(order_reduces_before(f, s, its->update));
    BEFORE(s, its->clip, s, its->update);
    GP_RETURN_IF_FAILED(order_collects_before(f, s, GP_CLAIM_PART_SCALARS, its->update));
    GP_RETURN_IF_FAILED(order_after_all(f, s, true, its->step));
    for (int part = 0; part < GP_CLAIM_PARTS; part++)
        GP_RETURN_IF_FAILED(order_collects_before(f, s, (gp_claim_part)part, its->step));
    GP_RETURN_IF_FAILED(order_reduces_before(f, s, its->step));
    BEFORE(s, its->update, s, its->step);
    BEFORE(s, its->norm, s, its->step);
    BEFORE(s, its->clip, s, its->step);
    return GP_OK;
}

gp_status gp_check_order(const gp_facts *f) {
    for (int s = 0; s < (int)f->claim->stage_count; s++) GP_RETURN_IF_FAILED(order_group(f, s));
    GP_RETURN_IF_FAILED(order_copies(f));
    for (int s = 0; s < (int)f->claim->stage_count; s++) {
        GP_RETURN_IF_FAILED(order_passes(f, s));
        GP_RETURN_IF_FAILED(order_ends(f, s));
    }
    for (int c = 0; c < (int)f->claim->collective_count; c++) GP_RETURN_IF_FAILED(order_collective(f, c));
    return GP_OK;
}
