/* Why no cut is possible: the sentence of gp_cut_solve. */
#include "cut/cut_search.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

typedef struct layer_text {
    char text[160];
} layer_text;

static layer_text show_layer(const gp_cut_problem *p, int layer) {
    layer_text name;
    if (p->layer_names)
        snprintf(name.text, sizeof name.text, "layer \"%s\"", p->layer_names[layer]);
    else
        snprintf(name.text, sizeof name.text, "layer %d", layer);
    return name;
}

static const char *plural(int count) {
    return count == 1 ? "" : "s";
}

gp_status gp_cut_check_places(const gp_cut_problem *problem, gp_error *err) {
    int stages = problem->stage_count, layers = problem->layer_count, places = 0, musts = 0;
    for (int i = 1; i < layers; i++) {
        places += gp_cut_rule_at(problem, i) != GP_CUT_NEVER;
        musts += gp_cut_rule_at(problem, i) == GP_CUT_MUST;
    }
    if (stages < 1 || stages > layers)
        return gp_fail(err, GP_CONFIG, "balance: %d layer%s cannot be cut into %d stages of at least one layer each",
                       layers, plural(layers), stages);
    if (places + 1 >= stages && musts < stages) return GP_OK;
    return gp_fail(err, GP_CONFIG, "balance: no cut into %d stages keeps the rules", stages);
}

/* ---- layers that fit nowhere ------------------------------------------------------------------------------------- */

/* The stage on which a span is over its worker's limit by least, and by how much; ≤ 0: it fits there. */
static int64_t least_excess(const gp_cut_problem *p, const gp_span *span, int *stage) {
    int64_t least = INT64_MAX;
    *stage = 0;
    for (int s = 0; s < p->stage_count; s++) {
        int64_t memory = p->workers[p->stages[s].worker].memory;
        int64_t excess = memory == 0 ? 0 : gp_span_floor(span, gp_cut_kind_of(p, s), p->stages[s].saved) - memory;
        if (excess >= least) continue;
        least = excess;
        *stage = s;
    }
    return least;
}

static gp_status refuse_span(const gp_cut_problem *p, const gp_span *span, int stage, int64_t excess, gp_error *err) {
    const gp_cut_worker *worker = &p->workers[p->stages[stage].worker];
    char needs[32], over[32], has[32], together[200] = "";
    if (span->end - span->first > 1)
        snprintf(together, sizeof together, " to %s, which stay together, need", show_layer(p, span->end - 1).text);
    return gp_fail(err, GP_CONFIG, "balance: %s%s at least %s, %s more than the %s of %s%s",
                   show_layer(p, span->first).text, together[0] ? together : " alone needs",
                   gp_bytes_text(needs, (size_t)gp_span_floor(span, gp_cut_kind_of(p, stage), p->stages[stage].saved)),
                   gp_bytes_text(over, (size_t)excess), gp_bytes_text(has, (size_t)worker->memory), worker->name,
                   p->worker_count > 1 ? ", which has most room for it" : "");
}

static bool find_too_large(gp_cut_search *s, gp_error *err) {
    const gp_cut_problem *p = s->index->problem;
    for (int first = 0; first < p->layer_count;) {
        int stage;
        gp_span_begin(s->index, &s->span, first);
        do {
            gp_span_extend(s->index, &s->span);
        } while (s->span.end < p->layer_count && gp_cut_rule_at(p, s->span.end) == GP_CUT_NEVER);
        int64_t excess = least_excess(p, &s->span, &stage);
        if (excess > 0) {
            (void)refuse_span(p, &s->span, stage, excess, err);
            return true;
        }
        first = s->span.end;
    }
    return false;
}

/* ---- all of them together ---------------------------------------------------------------------------------------- */

/* The most that a stage of a cut is over its limit. */
static int64_t excess_of(gp_cut_search *s, const int64_t *layers) {
    const gp_cut_problem *p = s->index->problem;
    int64_t most = 0;
    for (int stage = 0, first = 0; stage < p->stage_count; first += (int)layers[stage++]) {
        int64_t memory = p->workers[p->stages[stage].worker].memory;
        gp_cut_numbers its = gp_span_numbers(s->index, &s->span, stage, first, first + (int)layers[stage]);
        int64_t excess = its.bytes + its.transient - memory;
        if (memory > 0 && excess > most) most = excess;
    }
    return most;
}

/* The least bytes by which every limit would have to grow for the stages to fit. */
static gp_status find_missing(gp_cut_search *s, int64_t low, int64_t *out, gp_error *err) {
    int64_t *layers = NULL, high = INT64_MAX;
    gp_cut_short missing;
    GP_RETURN_IF_FAILED(GP_NEW(&layers, s->index->problem->stage_count, err));
    while (low < high) {
        s->more = high == INT64_MAX ? INT64_MAX - 1 : low + (high - low) / 2;
        if (gp_cut_search_run(s, INT64_MAX, &missing)) {
            gp_cut_search_pick(s, INT64_MAX, layers);
            high = excess_of(s, layers);
        } else {
            low = s->more + missing.bytes;
        }
    }
    free(layers);
    *out = high;
    return GP_OK;
}

/* "cpu has 2.00 GiB" where all limits are equal; else each limited worker's. */
static void list_limits(const gp_cut_problem *p, char *text, size_t bytes) {
    size_t used = 0;
    char limit[32];
    for (int w = 0; w < p->worker_count && used < bytes; w++) {
        if (p->workers[w].memory == 0) continue;
        int wrote = snprintf(text + used, bytes - used, "%s%s has %s", used ? ", " : "", p->workers[w].name,
                             gp_bytes_text(limit, (size_t)p->workers[w].memory));
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* The one limit that all workers have; 0: they differ, or some have none. */
static int64_t common_limit(const gp_cut_problem *p) {
    for (int w = 1; w < p->worker_count; w++)
        if (p->workers[w].memory != p->workers[0].memory) return 0;
    return p->workers[0].memory;
}

gp_status gp_cut_explain(gp_cut_search *search, gp_error *err) {
    const gp_cut_problem *p = search->index->problem;
    gp_cut_short missing;
    int64_t more = 0;
    char least[32], limit[32], over[32], limits[GP_ERROR_TEXT / 4] = "";
    if (find_too_large(search, err)) return GP_CONFIG;
    search->free = true;
    const char *hint = gp_cut_search_run(search, INT64_MAX, &missing)
                           ? "; it fits without the layers named in balance, and without together"
                           : "";
    search->free = false;
    GP_RETURN_IF_FAILED(find_missing(search, 1, &more, err));
    gp_bytes_text(over, (size_t)more);
    /* Each stage was given a whole worker's memory, which those of one worker share. */
    if (gp_cut_shares_workers(p))
        return gp_fail(
            err, GP_CONFIG,
            "balance: no cut into %d stage%s fits; each limit needs at least %s more, for single stages to fit alone%s",
            p->stage_count, plural(p->stage_count), over, hint);
    if (common_limit(p) > 0)
        return gp_fail(err, GP_CONFIG,
                       "balance: the least memory with which %d stage%s fit%s is %s each, %s more than %s%s",
                       p->stage_count, plural(p->stage_count), p->stage_count == 1 ? "s" : "",
                       gp_bytes_text(least, (size_t)(common_limit(p) + more)), over,
                       gp_bytes_text(limit, (size_t)common_limit(p)), hint);
    list_limits(p, limits, sizeof limits);
    return gp_fail(err, GP_CONFIG, "balance: no cut into %d stage%s fits; one does with %s more for each limit (%s)%s",
                   p->stage_count, plural(p->stage_count), over, limits, hint);
}
