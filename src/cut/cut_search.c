#include "cut/cut_search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static gp_cut_rule rule_at(const gp_cut_search *s, int layer) {
    return s->free ? GP_CUT_FREE : gp_cut_rule_at(s->index->problem, layer);
}

static int kind_of(const gp_cut_search *s, int stage) {
    return gp_cut_kind_of(s->index->problem, stage);
}

static bool alike(const gp_cut_problem *p, int stage, int other) {
    const gp_cut_stage *a = &p->stages[stage], *b = &p->stages[other];
    const gp_cut_worker *of_a = &p->workers[a->worker], *of_b = &p->workers[b->worker];
    if (gp_cut_kind_of(p, stage) != gp_cut_kind_of(p, other)) return false;
    if (!gp_cut_looks_at_memory(p) || (of_a->memory == 0 && of_b->memory == 0)) return true;
    return of_a->memory == of_b->memory && a->stash == b->stash && a->saved == b->saved && a->outbox == b->outbox &&
           a->gradient == b->gradient && a->samples == b->samples;
}

static void find_classes(gp_cut_search *s) {
    const gp_cut_problem *p = s->index->problem;
    for (int stage = 0; stage < p->stage_count; stage++) {
        int c = 0;
        while (c < s->class_count && !alike(p, s->of_class[c], stage)) c++;
        if (c == s->class_count) s->of_class[s->class_count++] = stage;
        s->class_of[stage] = c;
        s->members[(size_t)c * (size_t)s->words + (size_t)stage / 64] |= UINT64_C(1) << stage % 64;
    }
}

static void find_roomiest(gp_cut_search *s) {
    const gp_cut_problem *p = s->index->problem;
    s->least_alive = p->stages[0].saved;
    for (int stage = 0; stage < p->stage_count; stage++) {
        const gp_cut_stage *it = &p->stages[stage];
        int64_t memory = p->workers[it->worker].memory;
        if (it->saved < s->least_alive) s->least_alive = it->saved;
        if (memory == 0 || !gp_cut_looks_at_memory(p)) memory = INT64_MAX;
        if (memory > s->most_memory) s->most_memory = memory;
    }
}

gp_status gp_cut_search_init(gp_cut_search *search, const gp_span_index *index, gp_error *err) {
    const gp_cut_problem *p = index->problem;
    size_t row = (size_t)p->layer_count + 1, words = (size_t)p->stage_count / 64 + 1;
    *search = (gp_cut_search){.index = index, .words = (int)words};
    gp_status status = GP_NEW(&search->can, row * words, err);
    if (status == GP_OK) status = GP_NEW(&search->least, row, err);
    if (status == GP_OK) status = GP_NEW(&search->most, row, err);
    if (status == GP_OK) status = GP_NEW(&search->class_of, p->stage_count, err);
    if (status == GP_OK) status = GP_NEW(&search->of_class, p->stage_count, err);
    if (status == GP_OK) status = GP_NEW(&search->members, (size_t)p->stage_count * words, err);
    if (status == GP_OK) status = GP_NEW(&search->span.on, p->kind_count, err);
    if (status != GP_OK) {
        gp_cut_search_fini(search);
        return status;
    }
    find_classes(search);
    find_roomiest(search);
    return GP_OK;
}

void gp_cut_search_fini(gp_cut_search *search) {
    free(search->can);
    free(search->least);
    free(search->most);
    free(search->class_of);
    free(search->of_class);
    free(search->members);
    free(search->span.on);
    *search = (gp_cut_search){0};
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static void keep_least(int64_t *least, int64_t value) {
    if (value < *least) *least = value;
}

/* Stages before layer i are at least as many as runs within the bound that reach it from the front, each layer at its
 * cheapest; those behind likewise from the end. A bound below *next changes none of these runs. */
static void find_windows(gp_cut_search *s, int64_t bound, int64_t *next) {
    const int64_t *floor = s->index->floor;
    int count = s->index->problem->layer_count, stages = s->index->problem->stage_count;
    s->least[0] = 0;
    for (int i = 1, first = 0, runs = 1; i <= count; i++) {
        if (floor[i] - floor[first] > bound) {
            keep_least(next, floor[i] - floor[first]);
            first = i - 1;
            runs++;
        }
        s->least[i] = runs;
    }
    s->most[count] = stages;
    for (int i = count - 1, end = count, runs = 1; i >= 0; i--) {
        if (floor[end] - floor[i] > bound) {
            keep_least(next, floor[end] - floor[i]);
            end = i + 1;
            runs++;
        }
        s->most[i] = stages - runs;
    }
    if (s->most[0] > 0) s->most[0] = 0;
}

/* ---- spans as stages --------------------------------------------------------------------------------------------- */

static int64_t limit_of(const gp_cut_search *s, int stage) {
    const gp_cut_problem *p = s->index->problem;
    int64_t memory = p->workers[p->stages[stage].worker].memory;
    return !gp_cut_looks_at_memory(p) || memory == 0 || memory > INT64_MAX - s->more ? INT64_MAX : memory + s->more;
}

/* Whether the span may be a stage like this one. */
static bool can_be(const gp_cut_search *s, int stage, int64_t bound, gp_cut_short *missing) {
    const gp_cut_problem *p = s->index->problem;
    int64_t cost = gp_span_cost(s->index, &s->span, kind_of(s, stage));
    if (cost > bound) {
        keep_least(&missing->cost, cost);
        return false;
    }
    int64_t limit = limit_of(s, stage);
    if (limit == INT64_MAX) return true;
    int64_t bytes = gp_span_bytes(p, &s->span, stage) + s->span.on[kind_of(s, stage)].transient;
    if (bytes <= limit) return true;
    keep_least(&missing->bytes, bytes - limit);
    return false;
}

/* No longer span keeps within bound and memory on any stage. */
static bool is_full(const gp_cut_search *s, int64_t bound, gp_cut_short *missing) {
    int64_t cost = s->index->floor[s->span.end] - s->index->floor[s->span.first];
    if (cost > bound) {
        keep_least(&missing->cost, cost);
        return true;
    }
    if (s->most_memory > INT64_MAX - s->more) return false;
    int64_t bytes = INT64_MAX;
    for (int k = 0; k < s->index->problem->kind_count; k++)
        keep_least(&bytes, gp_span_floor(&s->span, k, s->least_alive));
    if (bytes <= s->most_memory + s->more) return false;
    keep_least(&missing->bytes, bytes - s->most_memory - s->more);
    return true;
}

/* Stages s that could begin where the span does and whose next one can begin at its end. */
static void try_end(gp_cut_search *s, uint64_t *can, int64_t bound, gp_cut_short *missing, bool *complete) {
    size_t words = (size_t)s->words;
    const uint64_t *next = s->can + (size_t)s->span.end * words;
    int least = s->least[s->span.first], most = s->most[s->span.first];
    *complete = true;
    for (int w = least / 64; w <= most / 64; w++) {
        uint64_t wanted = ~UINT64_C(0);
        if (w == least / 64) wanted &= ~UINT64_C(0) << least % 64;
        if (w == most / 64) wanted &= ~UINT64_C(0) >> (63 - most % 64);
        uint64_t shifted = next[w] >> 1 | (w + 1 < s->words ? next[w + 1] << 63 : 0);
        uint64_t open = shifted & wanted & ~can[w];
        while (open) {
            int c = s->class_of[w * 64 + __builtin_ctzll(open)];
            uint64_t members = s->members[(size_t)c * words + (size_t)w];
            if (can_be(s, s->of_class[c], bound, missing)) can[w] |= open & members;
            open &= ~members;
        }
        if (wanted & ~can[w]) *complete = false;
    }
}

static void fill_place(gp_cut_search *s, int first, int64_t bound, gp_cut_short *missing) {
    int count = s->index->problem->layer_count;
    bool complete = false;
    gp_span_begin(s->index, &s->span, first);
    while (s->span.end < count && !complete) {
        gp_span_extend(s->index, &s->span);
        if (is_full(s, bound, missing)) break;
        gp_cut_rule rule = rule_at(s, s->span.end);
        if (rule != GP_CUT_NEVER) try_end(s, s->can + (size_t)first * (size_t)s->words, bound, missing, &complete);
        if (rule == GP_CUT_MUST) break;
    }
}

bool gp_cut_search_run(gp_cut_search *search, int64_t bound, gp_cut_short *missing) {
    const gp_cut_problem *p = search->index->problem;
    size_t words = (size_t)search->words, row = (size_t)p->layer_count;
    *missing = (gp_cut_short){INT64_MAX, INT64_MAX};
    memset(search->can, 0, (row + 1) * words * sizeof *search->can);
    find_windows(search, bound, &missing->cost);
    search->can[row * words + (size_t)p->stage_count / 64] = UINT64_C(1) << (unsigned)p->stage_count % 64;
    for (int i = p->layer_count - 1; i >= 0; i--)
        if (search->least[i] <= search->most[i] && rule_at(search, i) != GP_CUT_NEVER)
            fill_place(search, i, bound, missing);
    return search->can[0] & 1;
}

/* ---- the cut ----------------------------------------------------------------------------------------------------- */

static int64_t distance(int64_t a, int64_t b) {
    return a > b ? a - b : b - a;
}

/* What each stage from `stage` on would cost if the layers from `first` on could be divided at will. */
static int64_t fair_share(const gp_cut_search *s, int stage, int first) {
    const gp_cut_problem *p = s->index->problem;
    double speed = 0;
    int left = p->stage_count - stage, kind = kind_of(s, stage);
    bool equal = true;
    for (int t = stage; t < p->stage_count; t++) {
        const int64_t *sums = gp_span_sums(s->index, kind_of(s, t));
        int64_t rest = sums[p->layer_count] - sums[first];
        if (rest == 0) return 0;
        speed += 1 / (double)rest;
        equal &= kind_of(s, t) == kind;
    }
    const int64_t *sums = gp_span_sums(s->index, kind);
    return equal ? (sums[p->layer_count] - sums[first]) / left : (int64_t)(1 / speed);
}

/* The end of the stage that begins at `first`. Costs only grow with the layers but for what the values cost, so the
 * search ends where the layers alone are further away than the best end. */
static int choose_end(gp_cut_search *s, int stage, int first, int64_t bound) {
    const gp_cut_problem *p = s->index->problem;
    int kind = kind_of(s, stage), best = -1;
    const int64_t *sums = gp_span_sums(s->index, kind);
    const int64_t *behind = stage + 1 < p->stage_count ? gp_span_crossing(s->index, kind_of(s, stage + 1)) : NULL;
    int64_t share = fair_share(s, stage, first), layers_share = (p->layer_count - first) / (p->stage_count - stage);
    uint64_t best_away = 0;
    int64_t best_layers = 0;
    gp_cut_short ignored = {0, 0};
    gp_span_begin(s->index, &s->span, first);
    while (s->span.end < p->layer_count) {
        gp_span_extend(s->index, &s->span);
        int end = s->span.end;
        int64_t least = sums[end] - sums[first];
        if (best >= 0 && least > share && (uint64_t)(least - share) > best_away) break;
        gp_cut_rule rule = rule_at(s, end);
        const uint64_t *can = s->can + (size_t)end * (size_t)s->words;
        bool goes_on = can[(stage + 1) / 64] >> (stage + 1) % 64 & 1;
        if (rule != GP_CUT_NEVER && goes_on && can_be(s, stage, bound, &ignored)) {
            uint64_t away = (uint64_t)distance(gp_span_cost(s->index, &s->span, kind), share) +
                            (uint64_t)(behind ? behind[end] : 0);
            int64_t by_layers = distance(end - first, layers_share);
            if (best < 0 || away < best_away || (away == best_away && by_layers < best_layers)) {
                best = end;
                best_away = away;
                best_layers = by_layers;
            }
        }
        if (rule == GP_CUT_MUST) break;
    }
    assert(best > first);
    return best;
}

void gp_cut_search_pick(gp_cut_search *search, int64_t bound, int64_t *layers) {
    int first = 0;
    for (int stage = 0; stage < search->index->problem->stage_count; stage++) {
        int end = choose_end(search, stage, first, bound);
        layers[stage] = end - first;
        first = end;
    }
}
