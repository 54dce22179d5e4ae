/* Improves cuts for workers with several stages, until they fit. */
#include "cut/cut_search.h"

#include <stdlib.h>

#include "base/memory.h"

/* Places on either side that a cut may move to at once, alone and together with the next; passes over all cuts. */
enum { REACH = 64, PAIR_REACH = 8, MOST_CUTS = 2, MOST_PASSES = 200 };

typedef struct mover {
    const gp_span_index *index;
    gp_span *span;
    int *first;              /* [stages + 1] first layer of each stage; the last: the number of layers */
    gp_cut_numbers *numbers; /* [stage] */
    int64_t *cost;           /* [worker] */
} mover;

/* What the workers of up to three stages in a row have of a cut: less is better, the first that differs decides. */
typedef struct score {
    int64_t excess;  /* bytes beyond their memory */
    int64_t cost[3]; /* the largest first */
} score;

static int64_t excess_of(const mover *m, int worker) {
    const gp_cut_problem *p = m->index->problem;
    int64_t bytes = 0, transient = 0;
    if (!gp_cut_looks_at_memory(p) || p->workers[worker].memory == 0) return 0;
    for (int s = 0; s < p->stage_count; s++) {
        if (p->stages[s].worker != worker) continue;
        bytes += m->numbers[s].bytes;
        if (m->numbers[s].transient > transient) transient = m->numbers[s].transient;
    }
    bytes += transient - p->workers[worker].memory;
    return bytes > 0 ? bytes : 0;
}

/* Of the workers of stages first … last. */
static score score_of(const mover *m, int first, int last) {
    const gp_cut_stage *stages = m->index->problem->stages;
    score s = {0};
    for (int stage = first; stage <= last; stage++) {
        int worker = stages[stage].worker, at = 2;
        bool seen = false;
        for (int before = first; before < stage; before++) seen |= stages[before].worker == worker;
        if (seen) continue;
        s.excess += excess_of(m, worker);
        for (; at > 0 && s.cost[at - 1] < m->cost[worker]; at--) s.cost[at] = s.cost[at - 1];
        if (s.cost[at] < m->cost[worker]) s.cost[at] = m->cost[worker];
    }
    return s;
}

static bool is_better(score a, score b) {
    if (a.excess != b.excess) return a.excess < b.excess;
    for (int i = 0; i < 3; i++)
        if (a.cost[i] != b.cost[i]) return a.cost[i] < b.cost[i];
    return false;
}

/* The cut before `stage`, to another place. */
static void move_cut(mover *m, int stage, int place) {
    const gp_cut_stage *stages = m->index->problem->stages;
    m->first[stage] = place;
    for (int s = stage - 1; s <= stage; s++) {
        m->cost[stages[s].worker] -= m->numbers[s].cost;
        m->numbers[s] = gp_span_numbers(m->index, m->span, s, m->first[s], m->first[s + 1]);
        m->cost[stages[s].worker] += m->numbers[s].cost;
    }
}

/* A move of one cut, or of two in a row: the cuts before `stage` and the next. */
typedef struct trip {
    int stage, cuts, reach;
    int from[MOST_CUTS], best[MOST_CUTS];
    score least;
} trip;

static bool may_move(const gp_cut_problem *p, int from, int to) {
    return from == to || (gp_cut_rule_at(p, from) != GP_CUT_MUST && gp_cut_rule_at(p, to) != GP_CUT_NEVER);
}

/* Every place for cut `i` of the trip, and for those behind it. */
static void try_places(mover *m, trip *t, int i) {
    if (i == t->cuts || i == MOST_CUTS) {
        score there = score_of(m, t->stage - 1, t->stage - 1 + t->cuts);
        if (!is_better(there, t->least)) return;
        t->least = there;
        for (int c = 0; c < t->cuts; c++) t->best[c] = m->first[t->stage + c];
        return;
    }
    int last = m->first[t->stage + t->cuts] - (t->cuts - i);
    for (int place = t->from[i] - t->reach; place <= t->from[i] + t->reach && place <= last; place++) {
        if (place <= m->first[t->stage + i - 1] || !may_move(m->index->problem, t->from[i], place)) continue;
        move_cut(m, t->stage + i, place);
        try_places(m, t, i + 1);
    }
}

/* Whether cuts went to better places. */
static bool improve_cuts(mover *m, int stage, int cuts, int reach) {
    trip t = {.stage = stage, .cuts = cuts, .reach = reach, .least = score_of(m, stage - 1, stage - 1 + cuts)};
    bool moved = false;
    for (int c = 0; c < cuts; c++) t.from[c] = t.best[c] = m->first[stage + c];
    try_places(m, &t, 0);
    for (int c = 0; c < cuts; c++) {
        move_cut(m, stage + c, t.best[c]);
        moved |= t.best[c] != t.from[c];
    }
    return moved;
}

static gp_status finish(mover *m, int64_t *layers, int64_t *bottleneck, gp_error *err) {
    const gp_cut_problem *p = m->index->problem;
    char over[32], limit[32];
    int64_t most = 0;
    for (int w = 0; w < p->worker_count; w++) {
        int64_t excess = excess_of(m, w);
        if (excess > 0)
            return gp_fail(err, GP_CONFIG,
                           "balance: no cut was found in which all stages of %s fit together; the best takes %s more "
                           "than its %s",
                           p->workers[w].name, gp_bytes_text(over, (size_t)excess),
                           gp_bytes_text(limit, (size_t)p->workers[w].memory));
        if (m->cost[w] > most) most = m->cost[w];
    }
    for (int s = 0; s < p->stage_count; s++) layers[s] = m->first[s + 1] - m->first[s];
    *bottleneck = most;
    return GP_OK;
}

static gp_status improve(mover *m, int64_t *layers, int64_t *bottleneck, gp_error *err) {
    const gp_cut_problem *p = m->index->problem;
    for (int s = 0; s < p->stage_count; s++) m->first[s + 1] = m->first[s] + (int)layers[s];
    for (int s = 0; s < p->stage_count; s++) {
        m->numbers[s] = gp_span_numbers(m->index, m->span, s, m->first[s], m->first[s + 1]);
        m->cost[p->stages[s].worker] += m->numbers[s].cost;
    }
    bool moved = true;
    for (int pass = 0; pass < MOST_PASSES && moved; pass++) {
        moved = false;
        for (int s = 1; s < p->stage_count; s++) moved |= improve_cuts(m, s, 1, REACH);
        for (int s = 1; s + 1 < p->stage_count && !moved; s++) moved |= improve_cuts(m, s, 2, PAIR_REACH);
    }
    return finish(m, layers, bottleneck, err);
}

gp_status gp_cut_share_workers(const gp_span_index *index, gp_span *span, int64_t *layers, int64_t *bottleneck,
                               gp_error *err) {
    const gp_cut_problem *p = index->problem;
    mover m = {.index = index, .span = span};
    gp_status status = GP_NEW(&m.first, p->stage_count + 1, err);
    if (status == GP_OK) status = GP_NEW(&m.numbers, p->stage_count, err);
    if (status == GP_OK) status = GP_NEW(&m.cost, p->worker_count, err);
    if (status == GP_OK) status = improve(&m, layers, bottleneck, err);
    free(m.first);
    free(m.numbers);
    free(m.cost);
    return status;
}
