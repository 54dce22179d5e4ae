#include "balance/partition.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

typedef struct problem {
    const int64_t *cost;
    int count, stages;
    int64_t total, largest;
} problem;

static gp_status add_up(problem *p, gp_error *err) {
    for (int i = 0; i < p->count; i++) {
        assert(p->cost[i] >= 0);
        if (p->cost[i] > p->largest) p->largest = p->cost[i];
        if (!gp_int64_add(p->total, p->cost[i], &p->total))
            return gp_fail(err, GP_UNSUPPORTED,
                           "balance: the costs of layers 0 to %d exceed the range of 64-bit integers", i);
    }
    return GP_OK;
}

/* Layers one after another, each stage as long as `bottleneck` allows: no partition has fewer stages. More are always
 * possible, since cutting a stage in two makes neither half dearer. bottleneck ≥ p->largest. */
static bool reaches(const problem *p, int64_t bottleneck) {
    int used = 1;
    int64_t sum = 0;
    for (int i = 0; i < p->count; i++) {
        if (p->cost[i] > bottleneck - sum) {
            if (++used > p->stages) return false;
            sum = 0;
        }
        sum += p->cost[i];
    }
    return true;
}

static int64_t find_bottleneck(const problem *p) {
    int64_t low = p->largest, high = p->total; /* the answer lies in [low, high] */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (reaches(p, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* needed[i]: the fewest stages for layers i … count−1; needed[count] is 0. */
static void count_needed(const problem *p, int64_t bottleneck, int *needed) {
    int end = p->count; /* of the longest stage that begins at i */
    int64_t sum = 0;
    needed[p->count] = 0;
    for (int i = p->count - 1; i >= 0; i--) {
        while (p->cost[i] > bottleneck - sum) sum -= p->cost[--end];
        sum += p->cost[i];
        needed[i] = needed[end] + 1;
    }
}

static int64_t distance(int64_t a, int64_t b) {
    return a > b ? a - b : b - a;
}

/* The end of the stage that begins at `first` with `left` stages to go, itself among them, for `rest` of costs. Both
 * distances have one valley, so the search ends where both grow. */
static int choose_end(const problem *p, int64_t bottleneck, const int *needed, int first, int left, int64_t rest,
                      int64_t *cost) {
    int64_t share = rest / left, sum = 0, best_cost = 0, best_layers = 0;
    int layers_share = (p->count - first) / left, best = -1;
    for (int end = first + 1; p->count - end >= left - 1 && p->cost[end - 1] <= bottleneck - sum; end++) {
        sum += p->cost[end - 1];
        if (needed[end] > left - 1) continue;
        int64_t by_cost = distance(sum, share), by_layers = distance(end - first, layers_share);
        if (best < 0 || by_cost < best_cost || (by_cost == best_cost && by_layers < best_layers)) {
            best = end;
            best_cost = by_cost;
            best_layers = by_layers;
            *cost = sum;
        }
        if (sum >= share && end - first >= layers_share) break;
    }
    assert(best > first);
    return best;
}

gp_status gp_partition_min_max(const int64_t *cost, int count, int stages, int64_t *layers, gp_error *err) {
    problem p = {.cost = cost, .count = count, .stages = stages};
    if (stages < 1 || stages > count)
        return gp_fail(err, GP_CONFIG, "balance: %d layers cannot be cut into %d stages of at least one layer each",
                       count, stages);
    GP_RETURN_IF_FAILED(add_up(&p, err));
    int *needed = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&needed, (size_t)count + 1, err));
    int64_t bottleneck = find_bottleneck(&p);
    count_needed(&p, bottleneck, needed);
    int first = 0;
    int64_t rest = p.total;
    for (int s = 0; s < stages; s++) {
        int64_t taken = 0;
        int end = choose_end(&p, bottleneck, needed, first, stages - s, rest, &taken);
        layers[s] = end - first;
        rest -= taken;
        first = end;
    }
    free(needed);
    return GP_OK;
}
