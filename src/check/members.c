/* Which stages a collective must have, and no others, by what it carries. */
#include <stdlib.h>

#include "base/memory.h"
#include "check/facts.h"

static const char *const part_names[GP_CLAIM_PARTS] = {"squares",   "scalars",        "losses",    "statistics",
                                                       "gradients", "sums of blocks", "parameters"};

/* Whether a stage must take part. `of`: a stage whose replicas it is about; a gather's root does not contribute. */
static bool must_contribute(const gp_claim *claim, const gp_claim_collective *its, int of, int s) {
    const gp_claim_stage *stage = &claim->stages[s];
    int root = gp_claim_root(claim);
    switch (its->part) {
    case GP_CLAIM_PART_SQUARES: return stage->replica == 0 && s != root;
    case GP_CLAIM_PART_SCALARS: return s == root;
    case GP_CLAIM_PART_LOSSES: return stage->number == claim->stages[root].number && s != root;
    case GP_CLAIM_PART_BLOCKS: return stage->number == claim->stages[of].number && stage->replica > 0;
    default: return stage->number == claim->stages[of].number;
    }
}

static bool must_collect(const gp_claim *claim, const gp_claim_collective *its, int of, int s) {
    const gp_claim_stage *stage = &claim->stages[s];
    int root = gp_claim_root(claim);
    switch (its->part) {
    case GP_CLAIM_PART_SQUARES:
    case GP_CLAIM_PART_LOSSES: return s == root;
    case GP_CLAIM_PART_SCALARS: return s != root;
    case GP_CLAIM_PART_BLOCKS: return stage->number == claim->stages[of].number && stage->replica == 0;
    default: return stage->number == claim->stages[of].number;
    }
}

static gp_status check_collective(const gp_claim *claim, size_t c, gp_error *err) {
    const gp_claim_collective *its = &claim->collectives[c];
    static const gp_claim_collective_kind kinds[GP_CLAIM_PARTS] = {
        [GP_CLAIM_PART_SQUARES] = GP_CLAIM_GATHER,     [GP_CLAIM_PART_SCALARS] = GP_CLAIM_BROADCAST,
        [GP_CLAIM_PART_LOSSES] = GP_CLAIM_GATHER,      [GP_CLAIM_PART_STATISTICS] = GP_CLAIM_EXCHANGE,
        [GP_CLAIM_PART_GRADIENTS] = GP_CLAIM_EXCHANGE, [GP_CLAIM_PART_BLOCKS] = GP_CLAIM_GATHER,
        [GP_CLAIM_PART_PARAMETERS] = GP_CLAIM_EXCHANGE};
    bool scatters = its->kind == GP_CLAIM_SCATTER && its->part == GP_CLAIM_PART_GRADIENTS;
    if (its->kind != kinds[its->part] && !scatters)
        return gp_fail(err, GP_PROGRAM, "collective %zu carries %s in a way that they are not carried", c,
                       part_names[its->part]);
    if (its->contributor_count == 0 || its->collector_count == 0)
        return gp_fail(err, GP_PROGRAM, "collective %zu (%s) has no members", c, part_names[its->part]);
    int of = its->contributors[0];
    for (int s = 0; s < (int)claim->stage_count; s++)
        for (int collects = 0; collects < 2; collects++) {
            const int *members = collects ? its->collectors : its->contributors;
            size_t count = collects ? its->collector_count : its->contributor_count, found = 0;
            bool must = collects ? must_collect(claim, its, of, s) : must_contribute(claim, its, of, s);
            for (size_t i = 0; i < count; i++) found += members[i] == s;
            if (found == (size_t)must) continue;
            return gp_fail(err, GP_PROGRAM, "collective %zu (%s): stage %d %s %zu times, and must %s", c,
                           part_names[its->part], s, collects ? "collects" : "posts", found, must ? "once" : "not");
        }
    return GP_OK;
}

/* Collectives of a kind and part in which a stage contributes; of gradients, those of its own bucket in turn. */
static size_t count_of(const gp_claim *claim, gp_claim_collective_kind kind, gp_claim_part part, int s, bool *turns) {
    size_t count = 0;
    for (size_t c = 0; c < claim->collective_count; c++) {
        const gp_claim_collective *its = &claim->collectives[c];
        if (its->kind != kind || its->part != part || !gp_fact_is_among(its->contributors, its->contributor_count, s))
            continue;
        *turns = *turns && (part != GP_CLAIM_PART_GRADIENTS || its->bucket == (int)count);
        count++;
    }
    return count;
}

static int buckets_of(const gp_claim *claim, int s) {
    for (size_t c = 0; c < claim->collective_count; c++)
        if (claim->collectives[c].kind == GP_CLAIM_SCATTER &&
            gp_fact_is_among(claim->collectives[c].contributors, claim->collectives[c].contributor_count, s))
            return claim->collectives[c].buckets;
    return 0;
}

static gp_status check_stage(const gp_claim *claim, int s, bool trains, gp_error *err) {
    const gp_claim_stage *stage = &claim->stages[s];
    int root = gp_claim_root(claim);
    bool shared = stage->replicas > 1, turns = true, shards = shared && claim->shards;
    size_t buckets = shared ? (size_t)buckets_of(claim, s) : 0;
    const struct {
        gp_claim_collective_kind kind;
        gp_claim_part part;
        size_t wanted;
    } wanted[] = {
        {GP_CLAIM_GATHER, GP_CLAIM_PART_LOSSES, stage->number == claim->stages[root].number && s != root},
        {GP_CLAIM_BROADCAST, GP_CLAIM_PART_SCALARS, trains && s == root && claim->stage_count > 1},
        {GP_CLAIM_GATHER, GP_CLAIM_PART_SQUARES, trains && claim->norms && stage->replica == 0 && s != root},
        {GP_CLAIM_SCATTER, GP_CLAIM_PART_GRADIENTS, trains ? buckets : 0},
        {GP_CLAIM_EXCHANGE, GP_CLAIM_PART_GRADIENTS, trains && !shards ? buckets : 0},
        {GP_CLAIM_EXCHANGE, GP_CLAIM_PART_PARAMETERS, trains && shards},
        {GP_CLAIM_GATHER, GP_CLAIM_PART_BLOCKS, trains && shards && claim->norms && stage->replica > 0},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t found = count_of(claim, wanted[i].kind, wanted[i].part, s, &turns);
        if (found < wanted[i].wanted || (trains && found > wanted[i].wanted))
            return gp_fail(err, GP_PROGRAM, "stage %d posts %s in %zu collectives, and must in %zu", s,
                           part_names[wanted[i].part], found, wanted[i].wanted);
    }
    if (shared && trains && buckets == 0)
        return gp_fail(err, GP_PROGRAM, "stage %d never adds up the gradients of its replicas", s);
    return turns ? GP_OK
                 : gp_fail(err, GP_PROGRAM, "stage %d exchanges a bucket of its gradients twice, or out of turn", s);
}

gp_status gp_check_members(const gp_claim *claim, gp_error *err) {
    bool trains = false;
    for (size_t p = 0; p < claim->program_count; p++) trains = trains || claim->programs[p].training;
    for (size_t c = 0; c < claim->collective_count; c++) GP_RETURN_IF_FAILED(check_collective(claim, c, err));
    for (int s = 0; s < (int)claim->stage_count; s++) GP_RETURN_IF_FAILED(check_stage(claim, s, trains, err));
    return GP_OK;
}
