/* The queues of a worker: whatever two instructions touch, one of them writing, is in an order that queues and waits
 * give; and every wait is needed for that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { MAX_STAGES = 5 };

typedef struct cut {
    const char *model;
    int stages;
    int64_t layers[MAX_STAGES];
} cut;

static const cut cuts[] = {
    {network_skips, 3, {2, 6, 9}}, {network_skips, 5, {2, 3, 4, 4, 4}}, {network_pictures, 2, {7, 9}},
    {network_vectors, 1, {9}},     {network_vectors, 4, {1, 2, 4, 2}},
};

/* One worker's program of one mini-batch. */
typedef struct view {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    int worker;
    size_t count;
    bool *conflict; /* [a·count + b], a < b: both touch something, and one of them writes it */
    bool *before;   /* likewise: a has ended when b begins */
} view;

static const gp_instr *instr_at(const view *v, size_t pc) {
    return &v->mini->programs->worker[v->worker].instrs[pc];
}

static bool conflicts(const gp_touches *a, const gp_touches *b) {
    for (size_t i = 0; i < a->count; i++)
        for (size_t j = 0; j < b->count; j++) {
            const gp_touch *x = &a->items[i], *y = &b->items[j];
            if ((x->write || y->write) && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes)
                return true;
        }
    return false;
}

static void find_conflicts(view *v) {
    gp_error err = {0};
    gp_touches *touches = calloc(v->count, sizeof *touches);
    assert_non_null(touches);
    for (size_t pc = 0; pc < v->count; pc++)
        assert_int_equal(gp_plan_touches(v->plan, v->mini, v->worker, pc, &touches[pc], &err), GP_OK);
    for (size_t a = 0; a < v->count; a++) {
        /* A send touches nothing here: it says that others may. */
        for (size_t b = a + 1; b < v->count; b++)
            v->conflict[a * v->count + b] = instr_at(v, a)->op != GP_INSTR_SEND &&
                                            instr_at(v, b)->op != GP_INSTR_SEND && conflicts(&touches[a], &touches[b]);
    }
    for (size_t pc = 0; pc < v->count; pc++) free(touches[pc].items);
    free(touches);
}

static gp_queue queue_at(const view *v, size_t pc) {
    return gp_instr_queue(v->plan->stages, instr_at(v, pc));
}

/* The order without wait number `without`. */
static void find_order(view *v, size_t without) {
    const gp_worker_queues *queues = &v->mini->queues->worker[v->worker];
    memset(v->before, 0, v->count * v->count);
    for (size_t b = 0; b < v->count; b++) {
        for (size_t a = 0; a < b; a++) {
            bool direct = queue_at(v, a) == queue_at(v, b);
            for (size_t i = queues->first[b]; i < queues->first[b + 1]; i++)
                direct = direct || (i != without && queues->wait[i] == queues->mark[a]);
            if (!direct) continue;
            v->before[a * v->count + b] = true;
            for (size_t c = 0; c < a; c++)
                if (v->before[c * v->count + a]) v->before[c * v->count + b] = true;
        }
    }
}

static bool all_ordered(const view *v) {
    for (size_t a = 0; a < v->count; a++)
        for (size_t b = a + 1; b < v->count; b++)
            if (v->conflict[a * v->count + b] && !v->before[a * v->count + b]) return false;
    return true;
}

static void check_marks(const view *v) {
    const gp_worker_queues *queues = &v->mini->queues->worker[v->worker];
    int marks = 0;
    for (size_t pc = 0; pc < v->count; pc++)
        if (queues->mark[pc] >= 0) marks++;
    assert_int_equal(marks, queues->marks);
    assert_int_equal(queues->first[v->count], queues->count);
}

/* Returns how many waits there are. */
static size_t check(const gp_plan *plan, const gp_mini_plan *mini, int worker) {
    view v = {.plan = plan, .mini = mini, .worker = worker, .count = mini->programs->worker[worker].count};
    const gp_worker_queues *queues = &mini->queues->worker[worker];
    v.conflict = calloc(v.count * v.count, 1);
    v.before = calloc(v.count * v.count, 1);
    assert_true(v.conflict && v.before);
    check_marks(&v);
    find_conflicts(&v);
    find_order(&v, SIZE_MAX);
    assert_true(all_ordered(&v));
    for (size_t i = 0; i < queues->count; i++) {
        find_order(&v, i);
        if (all_ordered(&v)) fail_msg("worker %d: wait %zu of %zu is not needed", worker, i, queues->count);
    }
    free(v.conflict);
    free(v.before);
    return queues->count;
}

static void whatever_is_touched_is_in_order(void **state) {
    (void)state;
    size_t waits[2] = {0};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
            harness h;
            harness_plan(&h, &(harness_options){.model = cuts[c].model,
                                                .layers = cuts[c].layers,
                                                .stages = cuts[c].stages,
                                                .kind = &gp_ref_kind,
                                                .real = GP_F32,
                                                .checkpoint = (gp_checkpoint_mode)mode,
                                                .lockstep = (c + (size_t)mode) % 2 == 0,
                                                .micro_batches = 4,
                                                .batch = 10,
                                                .last = 7,
                                                .evaluation = 9,
                                                .norms = c % 2 == 0});
            for (int m = 0; m < h.plan->mini_count; m++)
                for (int w = 0; w < h.plan->workers; w++)
                    waits[h.plan->minis[m].training] += check(h.plan, &h.plan->minis[m], w);
            harness_end(&h);
        }
    assert_true(waits[0] > 0 && waits[1] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_is_touched_is_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
