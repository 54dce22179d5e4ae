/* The queues of all workers: whatever two instructions touch, one of them writing, is in an order that queues and waits
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
    gp_schedule schedule;
} cut;

static const cut cuts[] = {
    {network_skips, 3, {2, 6, 9}, {0}},
    {network_skips, 5, {2, 3, 4, 4, 4}, {0}},
    {network_pictures, 2, {7, 9}, {0}},
    {network_vectors, 1, {9}, {0}},
    {network_vectors, 4, {1, 2, 4, 2}, {0}},
    {network_skips, 3, {2, 6, 9}, {.kind = GP_SCHEDULE_1F1B}},
    {network_skips, 4, {3, 5, 4, 5}, {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}},
    {network_pictures, 2, {7, 9}, {.kind = GP_SCHEDULE_ZB_H1}},
    {network_skips, 5, {2, 3, 4, 4, 4}, {.kind = GP_SCHEDULE_ZB_H2}},
    {network_vectors, 4, {1, 2, 4, 2}, {.kind = GP_SCHEDULE_ZB_V}},
};

/* All instructions of a mini-batch, of all workers, in an order in which they may be carried out. */
typedef struct node {
    int worker;
    size_t pc;
    const gp_instr *instr;
    gp_queue queue;
} node;

typedef struct view {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    node *nodes;
    size_t count, words;
    bool *conflict;   /* [a·count + b], a < b: both touch something, and one of them writes it */
    uint64_t *before; /* [b·words]: bit a: a has ended when b begins */
} view;

/* What a receive reads lies in the sender's arena. */
typedef struct reach {
    int worker;
    gp_touch touch;
} reach;

typedef struct reaches {
    reach *items;
    size_t count;
} reaches;

static const node *find_node(const view *v, gp_instr_op op, uint32_t edge, uint16_t micro) {
    for (size_t i = 0; i < v->count; i++)
        if (v->nodes[i].instr->op == op && v->nodes[i].instr->edge == edge && v->nodes[i].instr->micro == micro)
            return &v->nodes[i];
    return NULL;
}

static bool may_go(const view *v, int worker, size_t pc) {
    const gp_worker_waits *waits = &v->mini->waits->worker[worker];
    for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++)
        if (!find_node(v, waits->items[i].kind == GP_WAIT_SENT ? GP_INSTR_SEND : GP_INSTR_RECV, waits->items[i].edge,
                       waits->items[i].micro))
            return false;
    return true;
}

static void list_nodes(view *v) {
    size_t all = 0, pc[MAX_STAGES] = {0};
    for (int w = 0; w < v->plan->workers; w++) all += v->mini->programs->worker[w].count;
    v->nodes = calloc(all, sizeof *v->nodes);
    assert_non_null(v->nodes);
    while (v->count < all)
        for (int w = 0; w < v->plan->workers; w++) {
            const gp_program *program = &v->mini->programs->worker[w];
            for (; pc[w] < program->count && may_go(v, w, pc[w]); pc[w]++) {
                const gp_instr *instr = &program->instrs[pc[w]];
                v->nodes[v->count++] = (node){w, pc[w], instr, gp_instr_queue(v->plan->stages, instr)};
            }
        }
}

static reaches reaches_of(const view *v, const node *n) {
    gp_error err = {0};
    gp_touches touches = {0};
    reaches out = {0};
    assert_int_equal(gp_plan_touches(v->plan, v->mini, n->worker, n->pc, &touches, &err), GP_OK);
    out.items = calloc(touches.count + 1, sizeof *out.items);
    assert_non_null(out.items);
    /* A send touches nothing itself: it says that others may. */
    for (size_t i = 0; i < touches.count && n->instr->op != GP_INSTR_SEND; i++)
        out.items[out.count++] = (reach){n->worker, touches.items[i]};
    if (n->instr->op == GP_INSTR_RECV) {
        const node *sender = find_node(v, GP_INSTR_SEND, n->instr->edge, n->instr->micro);
        gp_touch touch = {.write = false};
        gp_instr_copy(v->plan, v->mini, sender->instr, &touch.offset, &touch.bytes);
        out.items[out.count++] = (reach){sender->worker, touch};
    }
    free(touches.items);
    return out;
}

static bool conflicts(const reaches *a, const reaches *b) {
    for (size_t i = 0; i < a->count; i++)
        for (size_t j = 0; j < b->count; j++) {
            const gp_touch *x = &a->items[i].touch, *y = &b->items[j].touch;
            if (a->items[i].worker == b->items[j].worker && (x->write || y->write) &&
                x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes)
                return true;
        }
    return false;
}

static void find_conflicts(view *v) {
    reaches *all = calloc(v->count, sizeof *all);
    v->conflict = calloc(v->count * v->count, 1);
    assert_true(all && v->conflict);
    for (size_t i = 0; i < v->count; i++) all[i] = reaches_of(v, &v->nodes[i]);
    for (size_t a = 0; a < v->count; a++)
        for (size_t b = a + 1; b < v->count; b++) v->conflict[a * v->count + b] = conflicts(&all[a], &all[b]);
    for (size_t i = 0; i < v->count; i++) free(all[i].items);
    free(all);
}

static void follow(view *v, size_t a, size_t b) {
    v->before[b * v->words + a / 64] |= UINT64_C(1) << a % 64;
    for (size_t i = 0; i < v->words; i++) v->before[b * v->words + i] |= v->before[a * v->words + i];
}

static bool is_before(const view *v, size_t a, size_t b) {
    return v->before[b * v->words + a / 64] >> a % 64 & 1;
}

/* The waits of a worker's queues: marks first, then those for other workers. */
static size_t count_waits(const view *v, int worker) {
    return v->mini->queues->worker[worker].count + v->mini->waits->worker[worker].count;
}

/* Whether wait number `wait` of the worker of `b` is one of b's, and for a. */
static bool waits_for(const view *v, size_t wait, const node *a, const node *b) {
    const gp_worker_queues *queues = &v->mini->queues->worker[b->worker];
    const gp_worker_waits *waits = &v->mini->waits->worker[b->worker];
    if (wait < queues->count)
        return wait >= queues->first[b->pc] && wait < queues->first[b->pc + 1] && a->worker == b->worker &&
               queues->wait[wait] == queues->mark[a->pc];
    wait -= queues->count;
    if (wait < waits->first[b->pc] || wait >= waits->first[b->pc + 1] || queues->known[wait]) return false;
    const gp_wait *it = &waits->items[wait];
    return a->instr->op == (it->kind == GP_WAIT_SENT ? GP_INSTR_SEND : GP_INSTR_RECV) && a->instr->edge == it->edge &&
           a->instr->micro == it->micro;
}

/* The order without one wait of one worker (−1: with all). */
static void find_order(view *v, int worker, size_t without) {
    memset(v->before, 0, v->count * v->words * sizeof *v->before);
    for (size_t b = 0; b < v->count; b++)
        for (size_t a = 0; a < b; a++) {
            const node *x = &v->nodes[a], *y = &v->nodes[b];
            bool direct = x->worker == y->worker && x->queue == y->queue;
            for (size_t i = 0; !direct && i < count_waits(v, y->worker); i++)
                direct = (y->worker != worker || i != without) && waits_for(v, i, x, y);
            if (direct) follow(v, a, b);
        }
}

static bool all_ordered(const view *v) {
    for (size_t a = 0; a < v->count; a++)
        for (size_t b = a + 1; b < v->count; b++)
            if (v->conflict[a * v->count + b] && !is_before(v, a, b)) return false;
    return true;
}

static bool is_known(const view *v, int worker, size_t wait) {
    const gp_worker_queues *queues = &v->mini->queues->worker[worker];
    return wait >= queues->count && queues->known[wait - queues->count];
}

/* Without memory to follow other workers there are more waits, and the order is as whole. */
static void check_narrow(view *v, gp_mini_plan *mini) {
    gp_error err = {0};
    gp_program_queues *wide = mini->queues;
    assert_int_equal(gp_mini_queues(v->plan, mini, 0, &err), GP_OK);
    find_order(v, -1, 0);
    assert_true(all_ordered(v));
    for (int w = 0; w < v->plan->workers; w++) {
        assert_true(mini->queues->worker[w].count >= wide->worker[w].count);
        for (size_t i = 0; i < mini->waits->worker[w].count; i++) assert_false(mini->queues->worker[w].known[i]);
    }
    gp_queues_destroy(&mini->queues);
    mini->queues = wide;
}

/* Gradients arrive beside those that others still pull from the slot: not they wait for that, but the backward. */
static void check_gradients(const view *v) {
    for (size_t n = 0; n < v->count; n++) {
        const node *its = &v->nodes[n];
        const gp_worker_waits *waits = &v->mini->waits->worker[its->worker];
        for (size_t i = waits->first[its->pc]; i < waits->first[its->pc + 1] && its->queue == GP_QUEUE_BACK; i++)
            assert_int_equal(waits->items[i].kind, GP_WAIT_SENT);
    }
}

/* Counts the waits, and those for other workers that the queue need not wait for. */
static void check(const gp_plan *plan, gp_mini_plan *mini, size_t *waits, size_t *known) {
    view v = {.plan = plan, .mini = mini};
    list_nodes(&v);
    v.words = (v.count + 63) / 64;
    v.before = calloc(v.count * v.words, sizeof *v.before);
    assert_non_null(v.before);
    find_conflicts(&v);
    find_order(&v, -1, 0);
    assert_true(all_ordered(&v));
    for (int w = 0; w < plan->workers; w++)
        for (size_t i = 0; i < count_waits(&v, w); i++) {
            ++*(is_known(&v, w, i) ? known : waits);
            if (is_known(&v, w, i)) continue;
            find_order(&v, w, i);
            if (all_ordered(&v)) fail_msg("worker %d: wait %zu of %zu is not needed", w, i, count_waits(&v, w));
        }
    check_gradients(&v);
    check_narrow(&v, mini);
    free(v.nodes);
    free(v.conflict);
    free(v.before);
}

static void whatever_is_touched_is_in_order(void **state) {
    (void)state;
    size_t waits[2] = {0}, known = 0;
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
            harness h;
            harness_plan(&h, &(harness_options){.model = cuts[c].model,
                                                .layers = cuts[c].layers,
                                                .stages = cuts[c].stages,
                                                .schedule = cuts[c].schedule,
                                                .kind = &gp_ref_kind,
                                                .real = GP_F32,
                                                .checkpoint = (gp_checkpoint_mode)mode,
                                                .lockstep = cuts[c].schedule.kind == GP_SCHEDULE_GPIPE &&
                                                            (c + (size_t)mode) % 2 == 0,
                                                .micro_batches = 4,
                                                .batch = 10,
                                                .last = 7,
                                                .evaluation = 9,
                                                .norms = c % 2 == 0});
            for (int m = 0; m < h.plan->mini_count; m++)
                check(h.plan, &h.plan->minis[m], &waits[h.plan->minis[m].training], &known);
            harness_end(&h);
        }
    assert_true(waits[0] > 0 && waits[1] > 0 && known > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_is_touched_is_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
