#include "cut/cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cut/cut_search.h"

static void measure_all(const gp_span_index *index, gp_span *span, const int64_t *layers, gp_cut_numbers *numbers) {
    for (int s = 0, first = 0; s < index->problem->stage_count; first += (int)layers[s++])
        numbers[s] = gp_span_numbers(index, span, s, first, first + (int)layers[s]);
}

gp_status gp_cut_measure(const gp_cut_problem *problem, const int64_t *layers, gp_cut_numbers *numbers, gp_error *err) {
    gp_span_index index;
    gp_span span = {0};
    GP_RETURN_IF_FAILED(gp_span_index_init(&index, problem, err));
    gp_status status = GP_NEW(&span.on, problem->kind_count, err);
    if (status == GP_OK) measure_all(&index, &span, layers, numbers);
    free(span.on);
    gp_span_index_fini(&index);
    return status;
}

/* ---- the least bottleneck ---------------------------------------------------------------------------------------- */

static int64_t bottleneck_of(gp_cut_search *search, const int64_t *layers, gp_cut_numbers *numbers) {
    int64_t most = 0;
    measure_all(search->index, &search->span, layers, numbers);
    for (int s = 0; s < search->index->problem->stage_count; s++)
        if (numbers[s].cost > most) most = numbers[s].cost;
    return most;
}

static int64_t lower_bound(const gp_span_index *index) {
    int layers = index->problem->layer_count, stages = index->problem->stage_count;
    int64_t least = index->floor[layers] / stages + (index->floor[layers] % stages > 0);
    for (int i = 0; i < layers; i++)
        if (index->floor[i + 1] - index->floor[i] > least) least = index->floor[i + 1] - index->floor[i];
    return least;
}

/* Some cut, under a bound that grows until there is one: a search under a low bound has less to look at. *low: no cut
 * has less. */
static gp_status find_some(gp_cut_search *search, int64_t *low, int64_t *layers, gp_error *err) {
    gp_cut_short missing;
    int64_t bound = *low, slack = *low / 16 + 1;
    while (!gp_cut_search_run(search, bound, &missing)) {
        if (missing.cost == INT64_MAX) return gp_cut_explain(search, err);
        *low = missing.cost;
        bound = slack < INT64_MAX - *low ? *low + slack : INT64_MAX;
        slack = slack < INT64_MAX / 2 ? 2 * slack : INT64_MAX;
    }
    gp_cut_search_pick(search, bound, layers);
    return GP_OK;
}

/* Halves what lies between `low` and what some cut costs. A search that fails says below which bound every other one
 * fails as well; one that finds a cut, what that one costs. */
static gp_status find_bottleneck(gp_cut_search *search, int64_t *layers, gp_cut_numbers *numbers, int64_t *out,
                                 gp_error *err) {
    gp_cut_short missing;
    int64_t low = lower_bound(search->index);
    GP_RETURN_IF_FAILED(find_some(search, &low, layers, err));
    int64_t high = bottleneck_of(search, layers, numbers);
    while (low < high) {
        int64_t bound = low + (high - low) / 2;
        if (gp_cut_search_run(search, bound, &missing)) {
            gp_cut_search_pick(search, bound, layers);
            high = bottleneck_of(search, layers, numbers);
        } else {
            low = missing.cost;
        }
    }
    (void)gp_cut_search_run(search, high, &missing);
    gp_cut_search_pick(search, high, layers);
    *out = high;
    return GP_OK;
}

static gp_status solve(const gp_span_index *index, int64_t *layers, int64_t *bottleneck, gp_error *err) {
    gp_cut_search search;
    gp_cut_numbers *numbers = NULL;
    int64_t *found = NULL;
    int64_t least = 0;
    GP_RETURN_IF_FAILED(gp_cut_search_init(&search, index, err));
    gp_status status = GP_NEW(&numbers, index->problem->stage_count, err);
    if (status == GP_OK) status = GP_NEW(&found, index->problem->stage_count, err);
    if (status == GP_OK) status = find_bottleneck(&search, found, numbers, &least, err);
    if (status == GP_OK && gp_cut_shares_workers(index->problem))
        status = gp_cut_share_workers(index, &search.span, found, &least, err);
    if (status == GP_OK) {
        memcpy(layers, found, (size_t)index->problem->stage_count * sizeof *layers);
        *bottleneck = least;
    }
    free(found);
    free(numbers);
    gp_cut_search_fini(&search);
    return status;
}

gp_status gp_cut_solve(const gp_cut_problem *problem, int64_t *layers, int64_t *bottleneck, gp_error *err) {
    gp_span_index index;
    GP_RETURN_IF_FAILED(gp_cut_check_places(problem, err));
    GP_RETURN_IF_FAILED(gp_span_index_init(&index, problem, err));
    gp_status status = solve(&index, layers, bottleneck, err);
    gp_span_index_fini(&index);
    return status;
}

gp_status gp_cut_list(const int64_t *cost, int count, int stages, int64_t *layers, gp_error *err) {
    const gp_cut_kind kind = {cost, NULL, NULL};
    gp_cut_problem problem = {
        .layer_count = count, .kinds = &kind, .kind_count = 1, .worker_count = stages, .stage_count = stages};
    gp_cut_worker *workers = NULL;
    gp_cut_stage *of = NULL;
    int64_t bottleneck;
    gp_status status = GP_NEW(&workers, stages > 0 ? stages : 0, err);
    if (status == GP_OK) status = GP_NEW(&of, stages > 0 ? stages : 0, err);
    for (int s = 0; s < stages && status == GP_OK; s++) of[s].worker = s;
    problem.workers = workers;
    problem.stages = of;
    if (status == GP_OK) status = gp_cut_solve(&problem, layers, &bottleneck, err);
    free(workers);
    free(of);
    return status;
}
