#include "checkpoint/keep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

gp_keep_result gp_keep_measure(const gp_keep_layer *layers, int count, const bool *kept, bool *runs) {
    gp_keep_result sum = {0};
    for (int i = 0; i < count; i++) runs[i] = layers[i].read; /* wanted, until its turn comes */
    for (int i = count - 1; i >= 0; i--) {
        runs[i] = layers[i].more || (runs[i] && !kept[i]);
        if (kept[i]) sum.bytes += layers[i].bytes;
        if (!runs[i]) continue;
        sum.time += layers[i].time;
        for (int j = 0; j < layers[i].input_count; j++) runs[layers[i].inputs[j]] = true;
    }
    return sum;
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */

/* What the layers from one on to the last can come to. */
typedef struct choice {
    int64_t bytes, time;
    int behind; /* the choice of the layers behind, in their arena; −1: there are none */
    bool kept;
} choice;

/* Choices of which none is better than another in both, by bytes. */
typedef struct front {
    choice *items;
    int count;
} front;

typedef struct solver {
    const gp_keep_layer *layers;
    int count;
    int64_t budget;
    choice *arena; /* all fronts, one behind the other */
    size_t used, capacity;
    size_t first[2]; /* where the fronts at hand begin: nobody, somebody behind reads the output before it */
    int size[2];
    bool too_many;
} solver;

static bool is_chain(const gp_keep_layer *layers, int count) {
    for (int i = 0; i < count; i++)
        if (layers[i].input_count > 1 || (layers[i].input_count == 1 && layers[i].inputs[0] != i - 1)) return false;
    return true;
}

/* One of a pair goes on to each state of the layer before. */
typedef struct step {
    int state; /* of the layers behind, that it goes on from */
    int64_t bytes, time;
    bool kept;
} step;

/* Ways of layer i that lead to state `reads`: it runs and reads the output before it, or not. */
static int list_steps(const gp_keep_layer *layer, bool reads, step *steps) {
    int count = 0;
    for (int state = 0; state < 2; state++) {
        bool wanted = layer->read || state == 1;
        bool can_run = layer->more || wanted, can_rest = !layer->more;
        bool run_reads = layer->input_count > 0;
        if (can_run && run_reads == reads) steps[count++] = (step){state, 0, layer->time, false};
        if (can_rest && !reads && !wanted) steps[count++] = (step){state, 0, 0, false};
        if (can_rest && !reads && wanted && !layer->fixed) steps[count++] = (step){state, layer->bytes, 0, true};
    }
    return count;
}

static int by_bytes(const void *a, const void *b) {
    const choice *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->behind != y->behind ? (x->behind < y->behind ? -1 : 1) : (int)x->kept - (int)y->kept;
}

/* Sorts, and leaves those that are better than all with fewer bytes. */
static int prune(choice *items, int count) {
    int left = 0;
    qsort(items, (size_t)count, sizeof *items, by_bytes);
    for (int i = 0; i < count; i++)
        if (left == 0 || items[i].time < items[left - 1].time) items[left++] = items[i];
    return left;
}

static gp_status advance(solver *s, int i, gp_error *err) {
    size_t first[2], old[2] = {s->first[0], s->first[1]};
    int size[2];
    for (int reads = 0; reads < 2; reads++) {
        step steps[6];
        int count = list_steps(&s->layers[i], reads == 1, steps), added = 0;
        size_t most = 0;
        first[reads] = s->used;
        for (int k = 0; k < count; k++) most += (size_t)s->size[steps[k].state];
        GP_RETURN_IF_FAILED(GP_GROW(&s->arena, &s->capacity, s->used + most, err));
        choice *items = s->arena + s->used;
        for (int k = 0; k < count; k++)
            for (int c = 0; c < s->size[steps[k].state]; c++) {
                size_t at = old[steps[k].state] + (size_t)c;
                const choice *behind = &s->arena[at];
                if (behind->bytes > s->budget - steps[k].bytes) break;
                items[added++] =
                    (choice){behind->bytes + steps[k].bytes, behind->time + steps[k].time, (int)at, steps[k].kept};
            }
        size[reads] = prune(items, added);
        s->used += (size_t)size[reads];
        s->too_many = s->too_many || size[reads] > GP_KEEP_MOST || s->used > GP_KEEP_ALL;
    }
    memcpy(s->first, first, sizeof first);
    memcpy(s->size, size, sizeof size);
    return GP_OK;
}

/* *exact: it was; else nothing is found. */
static gp_status solve_by_fronts(const gp_keep_layer *layers, int count, int64_t budget, bool *kept, bool *exact,
                                 gp_error *err) {
    solver s = {.layers = layers, .count = count, .budget = budget, .used = 1, .size = {1, 0}};
    gp_status status = GP_GROW(&s.arena, &s.capacity, 1, err);
    if (status == GP_OK) s.arena[0] = (choice){.behind = -1};
    for (int i = count - 1; i >= 0 && status == GP_OK && !s.too_many; i--) status = advance(&s, i, err);
    *exact = !s.too_many;
    if (status == GP_OK && *exact) {
        /* The first layer reads none of the stage's own, so that all that there is ends in one state. */
        int at = (int)s.first[0] + s.size[0] - 1;
        for (int i = 0; i < count; i++, at = s.arena[at].behind) kept[i] = s.arena[at].kept;
    }
    free(s.arena);
    return status;
}

/* ---- long chains ------------------------------------------------------------------------------------------------- */

enum { PRICES = 200 }; /* tried; doubles between two of which there is none are met before */

/* What is best behind a layer, for each state that it leads to. */
typedef struct pick {
    bool kept[2];
    unsigned char behind[2]; /* the state of the layers behind */
} pick;

/* The set with the least time + price × bytes. */
static void choose_at(const gp_keep_layer *layers, int count, double price, pick *picks, bool *kept) {
    double cost[2] = {0, INFINITY};
    for (int i = count - 1; i >= 0; i--) {
        double next[2] = {INFINITY, INFINITY};
        for (int reads = 0; reads < 2; reads++) {
            step steps[6];
            int found = list_steps(&layers[i], reads == 1, steps);
            for (int k = 0; k < found; k++) {
                double its = cost[steps[k].state] + (double)steps[k].time + price * (double)steps[k].bytes;
                if (!(its < next[reads])) continue;
                next[reads] = its;
                picks[i].kept[reads] = steps[k].kept;
                picks[i].behind[reads] = (unsigned char)steps[k].state;
            }
        }
        memcpy(cost, next, sizeof cost);
    }
    for (int i = 0, state = 0; i < count; i++) {
        kept[i] = picks[i].kept[state];
        state = picks[i].behind[state];
    }
}

static int64_t bytes_of(const gp_keep_layer *layers, int count, const bool *kept) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (kept[i]) bytes += layers[i].bytes;
    return bytes;
}

/* `kept` fits and `more` does not: as many of the first layers as fit as `more` has them. */
static void mend(const gp_keep_layer *layers, int count, int64_t budget, const bool *more, bool *kept, bool *mixed,
                 bool *runs) {
    int fits = 0, over = count;
    while (over - fits > 1) {
        int middle = fits + (over - fits) / 2;
        int64_t bytes = bytes_of(layers, middle, more) + bytes_of(layers + middle, count - middle, kept + middle);
        *(bytes <= budget ? &fits : &over) = middle;
    }
    memcpy(mixed, kept, (size_t)count * sizeof *kept);
    memcpy(mixed, more, (size_t)fits * sizeof *more);
    if (gp_keep_measure(layers, count, mixed, runs).time < gp_keep_measure(layers, count, kept, runs).time)
        memcpy(kept, mixed, (size_t)count * sizeof *kept);
}

static gp_status solve_by_price(const gp_keep_layer *layers, int count, int64_t budget, bool *kept, bool *runs,
                                gp_error *err) {
    pick *picks = NULL;
    bool *more = NULL, *mixed = NULL;
    double low = 0, high = 1;
    gp_status status = GP_NEW(&picks, count, err);
    if (status == GP_OK) status = GP_NEW(&more, count, err);
    if (status == GP_OK) status = GP_NEW(&mixed, count, err);
    if (status == GP_OK) {
        for (int i = 0; i < count; i++) high += (double)layers[i].time; /* for which no byte is worth it */
        choose_at(layers, count, high, picks, kept);
        choose_at(layers, count, low, picks, more);
        for (int i = 0; i < PRICES; i++) {
            double price = low + (high - low) / 2;
            if (!(price > low && price < high)) break;
            choose_at(layers, count, price, picks, mixed);
            bool fits = bytes_of(layers, count, mixed) <= budget;
            memcpy(fits ? kept : more, mixed, (size_t)count * sizeof *mixed);
            *(fits ? &high : &low) = price;
        }
        mend(layers, count, budget, more, kept, mixed, runs);
    }
    free(picks);
    free(more);
    free(mixed);
    return status;
}

/* ---- anything else ----------------------------------------------------------------------------------------------- */

enum { ROUNDS = 4 };

typedef struct gain {
    int layer;
    int64_t time, bytes;
} gain;

/* More time by bytes first. */
static int by_gain(const void *a, const void *b) {
    const gain *x = a, *y = b;
    double left = (double)x->time * (double)(y->bytes + 1), right = (double)y->time * (double)(x->bytes + 1);
    if (left != right) return left > right ? -1 : 1;
    return x->layer - y->layer;
}

static int list_gains(const gp_keep_layer *layers, int count, bool *kept, bool *runs, gain *gains) {
    int found = 0;
    int64_t now = gp_keep_measure(layers, count, kept, runs).time;
    for (int i = 0; i < count; i++) {
        if (kept[i] || layers[i].more || layers[i].fixed) continue;
        kept[i] = true;
        int64_t spared = now - gp_keep_measure(layers, count, kept, runs).time;
        kept[i] = false;
        if (spared > 0) gains[found++] = (gain){i, spared, layers[i].bytes};
    }
    qsort(gains, (size_t)found, sizeof *gains, by_gain);
    return found;
}

/* What others made superfluous makes room. */
static void drop_useless(const gp_keep_layer *layers, int count, bool *kept, bool *runs) {
    int64_t time = gp_keep_measure(layers, count, kept, runs).time;
    for (int i = 0; i < count; i++) {
        if (!kept[i]) continue;
        kept[i] = false;
        if (gp_keep_measure(layers, count, kept, runs).time > time) kept[i] = true;
    }
}

static void add_greedily(const gp_keep_layer *layers, int count, int64_t budget, bool *kept, bool *runs, gain *gains) {
    for (int round = 0; round < ROUNDS; round++) {
        int found = list_gains(layers, count, kept, runs, gains);
        for (int g = 0; g < found; g++) {
            gp_keep_result now = gp_keep_measure(layers, count, kept, runs);
            int i = gains[g].layer;
            if (gains[g].bytes > budget - now.bytes) continue;
            kept[i] = true;
            if (gp_keep_measure(layers, count, kept, runs).time >= now.time) kept[i] = false;
        }
        drop_useless(layers, count, kept, runs);
    }
}

gp_status gp_keep_solve(const gp_keep_layer *layers, int count, int64_t budget, bool *kept, gp_keep_result *out,
                        gp_error *err) {
    bool *runs = NULL, exact = false;
    gain *gains = NULL;
    gp_status status = GP_NEW(&runs, count, err);
    if (budget < 0) budget = 0;
    if (status == GP_OK) status = GP_NEW(&gains, count, err);
    for (int i = 0; i < count; i++) kept[i] = false;
    bool chain = is_chain(layers, count);
    if (status == GP_OK && chain) status = solve_by_fronts(layers, count, budget, kept, &exact, err);
    if (status == GP_OK && chain && !exact) status = solve_by_price(layers, count, budget, kept, runs, err);
    if (status == GP_OK && !chain) add_greedily(layers, count, budget, kept, runs, gains);
    if (status == GP_OK) {
        *out = gp_keep_measure(layers, count, kept, runs);
        out->exact = exact;
    }
    free(runs);
    free(gains);
    return status;
}
