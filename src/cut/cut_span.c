#include "cut/cut_span.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

static const char costs_exceed[] = "balance: the costs of the layers and copies exceed the range of 64-bit integers";
static const char bytes_exceed[] = "balance: the bytes of the layers and values exceed the range of 64-bit integers";

static gp_status list_uses(gp_span_index *index, gp_error *err) {
    const gp_cut_problem *p = index->problem;
    size_t uses = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&index->use_begin, (size_t)p->layer_count + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&index->made_begin, (size_t)p->layer_count + 1, err));
    for (int v = 0; v < p->value_count; v++) {
        const gp_cut_value *value = &p->values[v];
        assert(value->user_count > 0 && value->users[0] > value->producer);
        for (int u = 0; u < value->user_count; u++) index->use_begin[value->users[u] + 1]++;
        if (value->producer >= 0) index->made_begin[value->producer + 1]++;
        uses += (size_t)value->user_count;
    }
    for (int i = 0; i < p->layer_count; i++) {
        index->use_begin[i + 1] += index->use_begin[i];
        index->made_begin[i + 1] += index->made_begin[i];
    }
    GP_RETURN_IF_FAILED(GP_NEW(&index->uses, uses, err));
    GP_RETURN_IF_FAILED(GP_NEW(&index->made, p->value_count, err));
    int *next = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&next, 2 * (size_t)p->layer_count, err));
    for (int v = 0; v < p->value_count; v++) {
        const gp_cut_value *value = &p->values[v];
        int before = value->producer;
        for (int u = 0; u < value->user_count; before = value->users[u++]) {
            int user = value->users[u];
            index->uses[index->use_begin[user] + next[user]++] = (gp_span_use){v, before};
        }
        if (value->producer >= 0)
            index->made[index->made_begin[value->producer] + next[p->layer_count + value->producer]++] = v;
    }
    free(next);
    return GP_OK;
}

/* A value's cost counts once for each layer that uses it: no cut has more. */
static gp_status add_up_kind(const gp_span_index *index, int kind, gp_error *err) {
    const gp_cut_problem *p = index->problem;
    int64_t *sums = index->sums + (int64_t)kind * (p->layer_count + 1), total = 0;
    for (int i = 0; i < p->layer_count; i++) {
        assert(p->kinds[kind].layers[i] >= 0);
        if (!gp_int64_add(total, p->kinds[kind].layers[i], &total)) return gp_fail(err, GP_UNSUPPORTED, costs_exceed);
        sums[i + 1] = total;
    }
    for (int v = 0; v < p->value_count && p->kinds[kind].copies; v++) {
        int64_t all;
        assert(p->kinds[kind].copies[v] >= 0);
        if (!gp_int64_mul(p->kinds[kind].copies[v], p->values[v].user_count, &all) || !gp_int64_add(total, all, &total))
            return gp_fail(err, GP_UNSUPPORTED, costs_exceed);
    }
    return GP_OK;
}

static void add_up_crossing(gp_span_index *index, int kind) {
    const gp_cut_problem *p = index->problem;
    int64_t *crossing = index->crossing + (int64_t)kind * (p->layer_count + 1);
    for (int v = 0; v < p->value_count && p->kinds[kind].copies; v++) {
        const gp_cut_value *value = &p->values[v];
        int from = value->producer >= 0 ? value->producer : value->users[0];
        crossing[from + 1] += p->kinds[kind].copies[v];
        crossing[value->users[value->user_count - 1] + 1] -= p->kinds[kind].copies[v];
    }
    for (int i = 0; i < p->layer_count; i++) crossing[i + 1] += crossing[i];
}

static bool add_times(int64_t *sum, int64_t bytes, int64_t times) {
    int64_t all;
    return gp_int64_mul(bytes, times, &all) && gp_int64_add(*sum, all, sum);
}

/* More than any stage could take. */
static gp_status check_bytes(const gp_cut_problem *p, gp_error *err) {
    int64_t most = 1, sum = 0;
    for (int s = 0; s < p->stage_count; s++) {
        const gp_cut_stage *stage = &p->stages[s];
        const int alive[] = {stage->stash, stage->saved, stage->outbox, stage->gradient};
        for (int i = 0; i < 4; i++)
            if (alive[i] > most) most = alive[i];
    }
    bool fits = true;
    for (int k = 0; k < p->kind_count; k++)
        for (int i = 0; i < p->layer_count && fits; i++) {
            const gp_cut_bytes *bytes = &p->kinds[k].bytes[i];
            fits = add_times(&sum, bytes->fixed, 1) && add_times(&sum, bytes->saved, most) &&
                   add_times(&sum, bytes->transient, 1);
        }
    for (int v = 0; v < p->value_count && fits; v++)
        fits = add_times(&sum, p->values[v].bytes, 2 * most) && add_times(&sum, p->values[v].gradients, 3 * most);
    return fits ? GP_OK : gp_fail(err, GP_UNSUPPORTED, bytes_exceed);
}

static gp_status add_up(gp_span_index *index, gp_error *err) {
    const gp_cut_problem *p = index->problem;
    size_t row = (size_t)p->layer_count + 1;
    GP_RETURN_IF_FAILED(GP_NEW(&index->sums, (size_t)p->kind_count * row, err));
    GP_RETURN_IF_FAILED(GP_NEW(&index->floor, row, err));
    GP_RETURN_IF_FAILED(GP_NEW(&index->crossing, (size_t)p->kind_count * row, err));
    for (int k = 0; k < p->kind_count; k++) {
        GP_RETURN_IF_FAILED(add_up_kind(index, k, err));
        add_up_crossing(index, k);
    }
    for (int i = 0; i < p->layer_count; i++) {
        int64_t least = p->kinds[0].layers[i];
        for (int k = 1; k < p->kind_count; k++)
            if (p->kinds[k].layers[i] < least) least = p->kinds[k].layers[i];
        index->floor[i + 1] = index->floor[i] + least;
    }
    return gp_cut_looks_at_memory(p) ? check_bytes(p, err) : GP_OK;
}

gp_status gp_span_index_init(gp_span_index *index, const gp_cut_problem *problem, gp_error *err) {
    *index = (gp_span_index){.problem = problem};
    gp_status status = list_uses(index, err);
    if (status == GP_OK) status = add_up(index, err);
    if (status != GP_OK) gp_span_index_fini(index);
    return status;
}

void gp_span_index_fini(gp_span_index *index) {
    free(index->use_begin);
    free(index->uses);
    free(index->made_begin);
    free(index->made);
    free(index->sums);
    free(index->crossing);
    free(index->floor);
    *index = (gp_span_index){0};
}

void gp_span_begin(const gp_span_index *index, gp_span *span, int first) {
    gp_span_kind *on = span->on;
    *span = (gp_span){.first = first, .end = first, .on = on};
    for (int k = 0; k < index->problem->kind_count; k++) on[k] = (gp_span_kind){0};
}

static void enter(const gp_cut_problem *p, gp_span *span, int v) {
    span->entering += p->values[v].bytes;
    span->gradients += p->values[v].gradients;
    for (int k = 0; k < p->kind_count; k++)
        if (p->kinds[k].copies) span->on[k].copies += p->kinds[k].copies[v];
}

/* A value's gradient takes a buffer where it comes from a later stage, and one where it goes to an earlier. */
void gp_span_extend(const gp_span_index *index, gp_span *span) {
    const gp_cut_problem *p = index->problem;
    int layer = span->end++;
    for (int u = index->use_begin[layer]; u < index->use_begin[layer + 1]; u++) {
        const gp_span_use *use = &index->uses[u];
        const gp_cut_value *value = &p->values[use->value];
        bool last = value->users[value->user_count - 1] == layer;
        bool enters = use->before < span->first;
        if (enters) enter(p, span, use->value);
        if (value->producer < 0) continue;
        if (enters && !last) span->gradients += value->gradients;
        if (!enters && last) span->gradients -= value->gradients;
        if (last && value->producer >= span->first) span->leaving -= value->bytes;
    }
    for (int m = index->made_begin[layer]; m < index->made_begin[layer + 1]; m++) {
        span->leaving += p->values[index->made[m]].bytes;
        span->gradients += p->values[index->made[m]].gradients;
    }
    for (int k = 0; k < p->kind_count && gp_cut_looks_at_memory(p); k++) {
        const gp_cut_bytes *bytes = &p->kinds[k].bytes[layer];
        span->on[k].fixed += bytes->fixed;
        span->on[k].saved += bytes->saved;
        if (bytes->transient > span->on[k].transient) span->on[k].transient = bytes->transient;
    }
}

int64_t gp_span_cost(const gp_span_index *index, const gp_span *span, int kind) {
    const int64_t *sums = gp_span_sums(index, kind);
    return sums[span->end] - sums[span->first] + span->on[kind].copies;
}

/* Of a stage's samples, rounded up. No product exceeds `bytes`, or the square of the problem's samples. */
static int64_t share_of(const gp_cut_problem *p, const gp_cut_stage *stage, int64_t bytes) {
    int64_t all = p->samples, its = stage->samples;
    if (its == 0 || its >= all) return bytes;
    return bytes / all * its + (bytes % all * its + all - 1) / all;
}

int64_t gp_span_bytes(const gp_cut_problem *problem, const gp_span *span, int stage) {
    const gp_cut_stage *it = &problem->stages[stage];
    const gp_span_kind *on = &span->on[gp_cut_kind_of(problem, stage)];
    return on->fixed + on->saved * it->saved +
           share_of(problem, it,
                    span->entering * it->stash + span->leaving * it->outbox + span->gradients * it->gradient);
}

int64_t gp_span_floor(const gp_span *span, int kind, int alive) {
    const gp_span_kind *on = &span->on[kind];
    return on->fixed + on->saved * alive + on->transient;
}

gp_cut_numbers gp_span_numbers(const gp_span_index *index, gp_span *span, int stage, int first, int end) {
    int kind = gp_cut_kind_of(index->problem, stage);
    gp_span_begin(index, span, first);
    while (span->end < end) gp_span_extend(index, span);
    gp_cut_numbers numbers = {.cost = gp_span_cost(index, span, kind)};
    if (gp_cut_looks_at_memory(index->problem)) {
        numbers.bytes = gp_span_bytes(index->problem, span, stage);
        numbers.transient = span->on[kind].transient;
    }
    return numbers;
}
