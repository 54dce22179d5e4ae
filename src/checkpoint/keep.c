#include "checkpoint/keep.h"

#include <stdlib.h>

#include "base/memory.h"
#include "checkpoint/recompute.h"

gp_keep_result gp_keep_measure(const gp_keep_layer *layers, int count, const bool *kept, bool *runs) {
    gp_keep_result sum = {0};
    for (int i = 0; i < count; i++) runs[i] = layers[i].read && !kept[i]; /* wanted, until its turn comes */
    for (int i = count - 1; i >= 0; i--) {
        runs[i] = gp_recompute_read(layers[i].more || runs[i], layers[i].inputs, layers[i].input_count, kept, runs);
        if (kept[i]) sum.bytes += layers[i].bytes;
        if (runs[i]) sum.time += layers[i].time;
    }
    return sum;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

enum { NO_BIT = -1, ALWAYS = -2 };

/* bit[layer]: of a state, set if the layer's output is wanted. ALWAYS: it is wanted in every state, or all bits are
 * taken, which counts as that. NO_BIT: it is not wanted in any. A bit is free again when its layer is decided. */
static void find_bits(const gp_keep_layer *layers, int count, int *bit) {
    uint64_t taken = 0;
    for (int i = 0; i < count; i++) bit[i] = layers[i].read || layers[i].more ? ALWAYS : NO_BIT;
    for (int i = count - 1; i >= 0; i--) {
        if (bit[i] >= 0) taken &= ~(UINT64_C(1) << bit[i]);
        for (int j = 0; j < layers[i].input_count; j++) {
            int *its = &bit[layers[i].inputs[j]];
            if (*its != NO_BIT) continue;
            *its = ~taken ? __builtin_ctzll(~taken) : ALWAYS;
            if (*its >= 0) taken |= UINT64_C(1) << *its;
        }
    }
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

/* What is decided for the layers from one on to the last. */
typedef struct choice {
    uint64_t wanted; /* state: bits of the layers before it whose outputs are wanted */
    int64_t bytes;
    int64_t time; /* of the layers that run, and of those before that are wanted: as if they ran */
    int step;     /* in `steps`, of the layer that was decided last */
    bool kept;    /* the layer that is being decided */
} choice;

/* One layer of a choice. */
typedef struct step {
    int next; /* the step of the layer after it */
    bool kept;
} step;

typedef struct solver {
    const gp_keep_layer *layers;
    int64_t budget;
    int *bit;
    choice *choices; /* at most `most`; while a layer is being decided twice as many */
    int size, most;
    step *steps;
    int step_count;
} solver;

static int by_state(const void *a, const void *b) {
    const choice *x = a, *y = b;
    if (x->wanted != y->wanted) return x->wanted < y->wanted ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->step != y->step ? (x->step < y->step ? -1 : 1) : (int)x->kept - (int)y->kept;
}

static int by_time(const void *a, const void *b) {
    const choice *x = a, *y = b;
    return x->time != y->time ? (x->time < y->time ? -1 : 1) : by_state(a, b);
}

/* Drops each choice for which another one of its state has no more bytes and no more time. */
static void drop_dominated(solver *s) {
    int left = 0;
    qsort(s->choices, (size_t)s->size, sizeof *s->choices, by_state);
    for (int i = 0; i < s->size; i++) {
        const choice *now = &s->choices[i], *last = left > 0 ? &s->choices[left - 1] : NULL;
        if (!last || last->wanted != now->wanted || now->time < last->time) s->choices[left++] = *now;
    }
    s->size = left;
}

/* How far a choice lies above the line from `a` to `b`, with bytes to the right and time upward. */
static double height(const choice *c, const choice *a, const choice *b) {
    return (double)(c->time - a->time) * (double)(b->bytes - a->bytes) +
           (double)(a->time - b->time) * (double)(c->bytes - a->bytes);
}

/* Leaves one choice of each state in each cell of bytes: the lowest above the line from the choice before the cell to
 * the one after it. */
static void thin(solver *s, int64_t cell) {
    choice *all = s->choices, before = all[0];
    int left = 0;
    for (int first = 0, end; first < s->size; first = end) {
        int best = first;
        for (end = first; end < s->size && all[end].wanted == all[first].wanted; end++)
            if (all[end].bytes / cell != all[first].bytes / cell) break;
        const choice *after = &all[end < s->size && all[end].wanted == all[first].wanted ? end : end - 1];
        if (before.wanted != all[first].wanted) before = all[first];
        for (int i = first; i < end; i++)
            if (height(&all[i], &before, after) < height(&all[best], &before, after)) best = i;
        before = all[end - 1];
        all[left++] = all[best];
    }
    s->size = left;
}

/* Larger and larger cells; if states are so many that only few choices of each are left, the best states. */
static void bound(solver *s) {
    enum { FEW = 16 };
    int64_t most = 0;
    for (int c = 0; c < s->size; c++)
        if (s->choices[c].bytes > most) most = s->choices[c].bytes;
    for (int64_t cell = most / s->most + 1; s->size > s->most; cell *= 2) {
        thin(s, cell);
        if (s->size <= s->most || cell < most / FEW) continue;
        qsort(s->choices, (size_t)s->size, sizeof *s->choices, by_time);
        s->size = s->most;
    }
}

/* The layer runs and reads its inputs. */
static void run(const solver *s, const gp_keep_layer *layer, choice *c) {
    for (int j = 0; j < layer->input_count; j++) {
        int input = layer->inputs[j], bit = s->bit[input];
        if (bit < 0 || c->wanted >> bit & 1) continue;
        c->wanted |= UINT64_C(1) << bit;
        c->time += s->layers[input].time;
    }
}

/* Each choice in which the layer's output is wanted becomes two: it is kept, or it is not and the layer runs. */
static void decide(solver *s, int i) {
    const gp_keep_layer *layer = &s->layers[i];
    uint64_t own = s->bit[i] >= 0 ? UINT64_C(1) << s->bit[i] : 0;
    for (int c = 0, count = s->size; c < count; c++) {
        choice *now = &s->choices[c];
        if (s->bit[i] != ALWAYS && !(now->wanted & own)) continue;
        now->wanted &= ~own;
        if (!layer->more && !layer->fixed && now->bytes <= s->budget - layer->bytes) {
            choice *keeps = &s->choices[s->size++];
            *keeps = *now;
            keeps->kept = true;
            keeps->bytes += layer->bytes;
            keeps->time -= layer->time;
        }
        run(s, layer, now);
    }
    drop_dominated(s);
    bound(s);
    for (int c = 0; c < s->size; c++) {
        choice *now = &s->choices[c];
        s->steps[s->step_count] = (step){now->step, now->kept};
        now->step = s->step_count++;
        now->kept = false;
    }
}

static void solve(solver *s, int count, bool *kept) {
    s->choices[s->size++] = (choice){.step = -1};
    find_bits(s->layers, count, s->bit);
    for (int i = count - 1; i >= 0; i--) decide(s, i);
    qsort(s->choices, (size_t)s->size, sizeof *s->choices, by_time);
    int at = s->choices[0].step;
    for (int i = 0; i < count; i++, at = s->steps[at].next) kept[i] = s->steps[at].kept;
}

gp_status gp_keep_solve(const gp_keep_layer *layers, int count, int64_t budget, bool *kept, gp_keep_result *out,
                        gp_error *err) {
    int most = count > 0 && GP_KEEP_STEPS / count < GP_KEEP_CHOICES ? GP_KEEP_STEPS / count : GP_KEEP_CHOICES;
    solver s = {.layers = layers, .budget = budget > 0 ? budget : 0, .most = most > 0 ? most : 1};
    bool *runs = NULL;
    gp_status status = GP_NEW(&runs, count, err);
    if (status == GP_OK) status = GP_NEW(&s.bit, count, err);
    if (status == GP_OK) status = GP_NEW(&s.choices, 2 * s.most, err);
    if (status == GP_OK) status = GP_NEW(&s.steps, (size_t)count * (size_t)s.most, err);
    if (status == GP_OK) {
        solve(&s, count, kept);
        *out = gp_keep_measure(layers, count, kept, runs);
    }
    free(runs);
    free(s.bit);
    free(s.choices);
    free(s.steps);
    return status;
}
