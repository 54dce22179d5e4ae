/* The validator's rules for collectives: who takes part, how often, and after what; also for the routines that make
 * what they carry. */
#include "schedule/validate_internal.h"

enum { POSTED = 1, COLLECTED = 2, REDUCED = 4 };

static gp_status check_number(const gp_checker *c, gp_error *err) {
    if (c->instr->collective < c->stages->collective_count) return GP_OK;
    return refuse(c, err, "collective %u does not exist: there are %zu collectives, counted from 0",
                  c->instr->collective, c->stages->collective_count);
}

gp_status gp_check_collective_fields(const gp_checker *c, gp_error *err) {
    const gp_instr *instr = c->instr;
    bool posts = instr->op == GP_INSTR_POST;
    GP_RETURN_IF_FAILED(check_number(c, err));
    const gp_collective *its = &c->stages->collectives[instr->collective];
    if (!c->programs->training && its->part != GP_PART_LOSSES)
        return refuse(c, err, "is not allowed in a forward-only program");
    if (gp_indices_find(posts ? &its->contributors : &its->collectors, instr->stage) >= 0) return GP_OK;
    if (gp_indices_find(posts ? &its->collectors : &its->contributors, instr->stage) < 0)
        return refuse(c, err, "stage %u takes no part in collective %u, a %s of %s", instr->stage, instr->collective,
                      gp_collective_kind_name(its->kind), gp_part_kind_name(its->part));
    return refuse(c, err, "stage %u %s in collective %u, a %s of %s with root %d", instr->stage,
                  posts ? "collects" : "posts", instr->collective, gp_collective_kind_name(its->kind),
                  gp_part_kind_name(its->part), its->root);
}

static uint8_t *joined_by(const gp_checker *c, uint32_t collective, int stage) {
    return &c->joined[gp_stages_place(c->stages, collective, stage)];
}

static uint8_t joins_as(const gp_instr *instr) {
    return instr->op == GP_INSTR_POST ? POSTED : COLLECTED;
}

void gp_check_note_joined(gp_checker *c) {
    uint8_t *joined = joined_by(c, c->instr->collective, c->instr->stage);
    *joined = (uint8_t)(*joined | joins_as(c->instr));
}

static gp_status join(gp_checker *c, gp_error *err) {
    uint8_t joins = joins_as(c->instr);
    if (*joined_by(c, c->instr->collective, c->s) & joins)
        return refuse(c, err, "a second %s of the stage", joins == POSTED ? "post" : "collect");
    gp_check_note_joined(c);
    return GP_OK;
}

/* Whether the stage has collected in all collectives of that kind and part in which it collects. */
static bool has_collected(const gp_checker *c, gp_collective_kind kind, gp_part_kind part) {
    for (uint32_t i = 0; i < c->stages->collective_count; i++) {
        const gp_collective *its = &c->stages->collectives[i];
        if (its->kind == kind && its->part == part && gp_indices_find(&its->collectors, c->s) >= 0 &&
            !(*joined_by(c, i, c->s) & COLLECTED))
            return false;
    }
    return true;
}

static bool has_reduced(const gp_checker *c, size_t scatter) {
    return *joined_by(c, (uint32_t)scatter, c->s) & REDUCED;
}

/* Scalars say what the last forward found, and with norms, the clip. */
gp_status gp_check_post(gp_checker *c, gp_error *err) {
    const gp_collective *its = &c->stages->collectives[c->instr->collective];
    bool forwards = c->forwards == gp_micros_count(c->micros), backwards = c->weights == gp_micros_count(c->micros);
    switch (its->part) {
    case GP_PART_SCALARS:
        if (!forwards) return refuse(c, err, "comes before the stage's last forward");
        if (c->stage->replicas > 1 && c->totals == 0) return refuse(c, err, "comes before the total");
        if (c->stages->norms && c->clips == 0) return refuse(c, err, "comes before the clip");
        break;
    case GP_PART_SQUARES:
        if (c->norms == 0) return refuse(c, err, "comes before the norm of the stage");
        break;
    case GP_PART_LOSSES:
    case GP_PART_STATISTICS:
        if (!forwards) return refuse(c, err, "comes before the stage's last forward");
        break;
    case GP_PART_GRADIENTS:
        if (!backwards) return refuse(c, err, "comes before the stage's last backward");
        if (gp_collective_has_sums(its) && !has_reduced(c, gp_stages_scatter(c->stages, c->instr->collective)))
            return refuse(c, err, "comes before the reduce of its bucket");
        break;
    case GP_PART_BLOCKS:
        if (c->reduces < c->stage->buckets) return refuse(c, err, "comes before the last reduce");
        break;
    case GP_PART_PARAMETERS:
        if (c->updates == 0) return refuse(c, err, "comes before the update");
        break;
    }
    return join(c, err);
}

/* A mutual collective's member has posted before it waits for the others. */
gp_status gp_check_collect(gp_checker *c, gp_error *err) {
    const gp_collective *its = &c->stages->collectives[c->instr->collective];
    if (gp_collective_is_mutual(its) && !(*joined_by(c, c->instr->collective, c->s) & POSTED))
        return refuse(c, err, "comes before the stage's own post");
    return join(c, err);
}

gp_status gp_check_total(gp_checker *c, gp_error *err) {
    if (c->s != gp_stages_root(c->stages))
        return refuse(c, err, "only stage %d may have a total", gp_stages_root(c->stages));
    if (c->totals++ > 0) return refuse(c, err, "a second total");
    if (c->forwards < gp_micros_count(c->micros)) return refuse(c, err, "comes before the stage's last forward");
    if (has_collected(c, GP_COLLECTIVE_GATHER, GP_PART_LOSSES)) return GP_OK;
    return refuse(c, err, "must come after the collect of the losses of the other replicas");
}

gp_status gp_check_reduce_fields(const gp_checker *c, gp_error *err) {
    const gp_instr *instr = c->instr;
    if (!c->programs->training) return refuse(c, err, "is not allowed in a forward-only program");
    if (c->stages->stage[instr->stage].replicas == 1)
        return refuse(c, err, "is not allowed: the stage has no replicas");
    GP_RETURN_IF_FAILED(check_number(c, err));
    const gp_collective *its = &c->stages->collectives[instr->collective];
    if (its->kind == GP_COLLECTIVE_SCATTER && gp_indices_find(&its->collectors, instr->stage) >= 0) return GP_OK;
    return refuse(c, err, "collective %u is no scatter of the stage's gradients", instr->collective);
}

gp_status gp_check_reduce(gp_checker *c, gp_error *err) {
    uint8_t *joined = joined_by(c, c->instr->collective, c->s);
    if (*joined & REDUCED) return refuse(c, err, "a second reduce of the bucket");
    if (!(*joined & COLLECTED))
        return refuse(c, err, "must come after the collect of the gradients of the other replicas");
    *joined |= REDUCED;
    c->reduces++;
    return GP_OK;
}

gp_status gp_check_norm(gp_checker *c, gp_error *err) {
    if (c->stage->replica > 0) return refuse(c, err, "is not allowed: the first replica finds the norm");
    if (c->norms++ > 0) return refuse(c, err, "a second norm of the stage");
    if (c->weights < gp_micros_count(c->micros)) return refuse(c, err, "comes before the stage's last backward");
    if (gp_stage_shards(c->stages, c->s) && c->reduces < c->stage->buckets)
        return refuse(c, err, "comes before the last reduce");
    if (!has_collected(c, GP_COLLECTIVE_GATHER, GP_PART_BLOCKS))
        return refuse(c, err, "must come after the collect of the squares of the other replicas");
    if (has_collected(c, GP_COLLECTIVE_EXCHANGE, GP_PART_GRADIENTS)) return GP_OK;
    return refuse(c, err, "must come after the collect of the gradients of the other replicas");
}

/* Whether the loss is finite, and how much to clip, must be known. */
gp_status gp_check_update(gp_checker *c, gp_error *err) {
    if (c->updates++ > 0) return refuse(c, err, "a second update of the stage");
    if (c->reduces < c->stage->buckets) return refuse(c, err, "comes before the last reduce");
    if (c->stages->norms && c->s == gp_stages_root(c->stages) && c->clips == 0)
        return refuse(c, err, "comes before the clip");
    if (has_collected(c, GP_COLLECTIVE_BROADCAST, GP_PART_SCALARS)) return GP_OK;
    return refuse(c, err, "must come after the collect of the scalars");
}

gp_status gp_check_clip(gp_checker *c, gp_error *err) {
    if (c->s != gp_stages_root(c->stages))
        return refuse(c, err, "only the last stage, %d, may have a clip", gp_stages_root(c->stages));
    if (c->clips++ > 0) return refuse(c, err, "a second clip");
    if (c->norms == 0) return refuse(c, err, "comes before the stage's own norm");
    for (uint32_t i = 0; i < c->stages->collective_count; i++)
        if (c->stages->collectives[i].part == GP_PART_SQUARES && !(*joined_by(c, i, c->s) & COLLECTED))
            return refuse(c, err, "must come after the collect of the squares of all other stages, collective %u", i);
    return GP_OK;
}

static gp_status check_members(const gp_checker *c, uint32_t collective, uint8_t joins, gp_error *err) {
    const gp_collective *its = &c->stages->collectives[collective];
    const gp_indices *members = joins == POSTED ? &its->contributors : &its->collectors;
    for (size_t m = 0; m < members->count; m++) {
        if (*joined_by(c, collective, members->items[m]) & joins) continue;
        return gp_fail(err, GP_PROGRAM, "collective %u (%s of %s): stage %d has no %s", collective,
                       gp_collective_kind_name(its->kind), gp_part_kind_name(its->part), members->items[m],
                       joins == POSTED ? "post" : "collect");
    }
    return GP_OK;
}

gp_status gp_check_collectives(const gp_checker *c, gp_error *err) {
    for (uint32_t i = 0; i < c->stages->collective_count; i++) {
        if (!c->programs->training && c->stages->collectives[i].part != GP_PART_LOSSES) continue;
        GP_RETURN_IF_FAILED(check_members(c, i, POSTED, err));
        GP_RETURN_IF_FAILED(check_members(c, i, COLLECTED, err));
    }
    return GP_OK;
}
