/* The queues of all workers: whatever two instructions touch, one of them writing, is in an order that queues and waits
 * give, in a mini-batch and from one to the next that begins behind it; and every wait is needed for that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "plan/touches.h"

enum { MAX_STAGES = 5, MAX_WORKERS = 8 };

typedef struct cut {
    const char *model;
    int stages;
    int64_t layers[MAX_STAGES];
    gp_schedule schedule;
    int replicas[MAX_STAGES]; /* 0: one of each stage */
    int64_t batch;
    int micro_batches;
    size_t bucket; /* bytes; 0: all gradients go in one */
    bool shards;
} cut;

static const cut cuts[] = {
    {network_skips, 3, {2, 6, 9}, .schedule = {0}},
    {network_skips, 5, {2, 3, 4, 4, 4}, .schedule = {0}},
    {network_pictures, 2, {7, 9}, .schedule = {0}},
    {network_vectors, 1, {9}, .schedule = {0}},
    {network_vectors, 4, {1, 2, 4, 2}, .schedule = {0}},
    {network_skips, 3, {2, 6, 9}, .schedule = {.kind = GP_SCHEDULE_1F1B}},
    {network_skips, 4, {3, 5, 4, 5}, .schedule = {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}},
    {network_pictures, 2, {7, 9}, .schedule = {.kind = GP_SCHEDULE_ZB_H1}},
    {network_skips, 5, {2, 3, 4, 4, 4}, .schedule = {.kind = GP_SCHEDULE_ZB_H2}},
    {network_vectors, 4, {1, 2, 4, 2}, .schedule = {.kind = GP_SCHEDULE_ZB_V}},
    {network_vectors, 1, {9}, .schedule = {0}, .replicas = {2}},
    {network_vectors, 2, {4, 5}, .schedule = {.kind = GP_SCHEDULE_1F1B}, .replicas = {2, 2}},
    {network_pictures, 2, {7, 9}, .schedule = {0}, .replicas = {3, 1}},
    {network_vectors, 2, {4, 5}, .schedule = {0}, .replicas = {1, 3}},
    {network_vectors, 4, {1, 2, 4, 2}, .schedule = {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, .replicas = {2, 2}},
    {network_vectors, 1, {9}, .schedule = {0}, .replicas = {4}, .batch = 6, .micro_batches = 3}, /* 2 have no sample */
    {network_vectors, 1, {9}, .schedule = {0}, .replicas = {3}, .batch = 3, .micro_batches = 1, .bucket = 300},
    {network_pictures, 1, {16}, .schedule = {0}, .replicas = {2}, .bucket = 400},
    {network_vectors, 2, {4, 5}, .schedule = {.kind = GP_SCHEDULE_ZB_H1}, .replicas = {2, 2}, .bucket = 300},
    {network_vectors, 1, {9}, .schedule = {0}, .replicas = {3}, .bucket = 300, .shards = true},
};

/* All instructions of a mini-batch, of all workers, in an order in which they may be carried out; then those of a
 * second one behind it. A backward that posts is several of them: ops [first, end), and the last of them `ends` it. */
typedef struct node {
    int worker, round;
    size_t pc;
    const gp_instr *instr;
    gp_queue queue;
    size_t first, end;
    bool ends;
} node;

/* Something that a queue waits for. */
typedef struct wait {
    int worker;
    bool behind;  /* in the mini-batch before */
    bool event;   /* of another worker; else a mark */
    size_t index; /* in its list */
    bool known;
} wait;

/* That one instruction ends before another begins. */
typedef struct link {
    size_t from;
    long wait; /* by which; −1: they are in one queue */
} link;

typedef struct view {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    int rounds;
    node *nodes;
    size_t count, words;
    bool *conflict;   /* [a·count + b], a < b: both touch something, and one of them writes it */
    uint64_t *before; /* [b·words]: bit a: a has ended when b begins */
    wait *waits;
    size_t wait_count;
    link *links; /* those of b: [first_link[b]] … */
    size_t *first_link, link_count, link_capacity;
} view;

/* What a receive reads lies in the sender's arena. */
typedef struct reach {
    int worker;
    arena_touch touch;
} reach;

typedef struct reaches {
    reach *items;
    size_t count;
} reaches;

/* Whether the instruction makes the event happen, by another road than schedule/waits.c. */
static bool makes(const gp_instr *instr, const gp_wait *event) {
    if (instr->op == GP_INSTR_POST || instr->op == GP_INSTR_COLLECT)
        return event->kind == (instr->op == GP_INSTR_POST ? GP_WAIT_POSTED : GP_WAIT_COLLECTED) &&
               instr->collective == event->edge && instr->stage == event->micro;
    if (instr->op != GP_INSTR_SEND && instr->op != GP_INSTR_RECV) return false;
    return event->kind == (instr->op == GP_INSTR_SEND ? GP_WAIT_SENT : GP_WAIT_PULLED) && instr->edge == event->edge &&
           instr->micro == event->micro;
}

static const node *find_node(const view *v, int round, gp_wait event) {
    for (size_t i = 0; i < v->count; i++)
        if (v->nodes[i].round == round && makes(v->nodes[i].instr, &event)) return &v->nodes[i];
    return NULL;
}

static bool may_go(const view *v, int round, int worker, size_t pc) {
    const gp_worker_waits *waits = &v->mini->waits->worker[worker];
    for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++)
        if (!find_node(v, round, waits->items[i])) return false;
    return true;
}

static const gp_worker_posts *posts_of(const view *v, int worker) {
    return v->mini->early ? &v->mini->early[worker] : NULL;
}

static void add_node(view *v, int round, int worker, size_t pc, size_t first, size_t end, bool ends) {
    const gp_instr *instr = &v->mini->programs->worker[worker].instrs[pc];
    gp_queue queue = gp_instr_queue(v->plan->stages, instr);
    v->nodes[v->count++] = (node){worker, round, pc, instr, queue, first, end, ends};
}

/* With what is posted within it, at the place where it is; such a post has no other place. */
static void add_nodes(view *v, int round, int worker, size_t pc) {
    const gp_worker_posts *posts = posts_of(v, worker);
    size_t first = 0;
    if (posts && gp_early_posts_have(posts, pc)) return;
    for (size_t i = 0; posts && i < posts->count; i++) {
        const gp_early_post *its = &posts->items[i];
        if (its->pc != pc) continue;
        add_node(v, round, worker, pc, first, its->ops, false);
        first = its->ops;
        add_node(v, round, worker, its->post, 0, SIZE_MAX, true);
    }
    add_node(v, round, worker, pc, first, SIZE_MAX, true);
}

static void list_nodes(view *v) {
    size_t all = 0;
    for (int w = 0; w < v->plan->workers; w++) {
        const gp_worker_posts *posts = posts_of(v, w);
        all += v->mini->programs->worker[w].count + (posts ? posts->count : 0);
    }
    v->nodes = calloc((size_t)v->rounds * all, sizeof *v->nodes);
    assert_non_null(v->nodes);
    for (int round = 0; round < v->rounds; round++) {
        size_t pc[MAX_WORKERS] = {0};
        while (v->count < (size_t)(round + 1) * all)
            for (int w = 0; w < v->plan->workers; w++) {
                const gp_program *program = &v->mini->programs->worker[w];
                for (; pc[w] < program->count && may_go(v, round, w, pc[w]); pc[w]++) add_nodes(v, round, w, pc[w]);
            }
    }
}

/* The parts of the contributors, in their arenas. */
static size_t add_parts(const view *v, const node *n, reach *out) {
    size_t count = 0;
    gp_move move;
    for (int i = 0; gp_instr_move(v->plan, v->mini, n->instr, i, &move); i++) {
        reach its = {v->plan->stage[move.from].worker, {move.source, move.bytes, false}};
        if (out) out[count] = its;
        count++;
    }
    return count;
}

static reaches reaches_of(const view *v, const node *n) {
    gp_error err = {0};
    arena_touches touches = {0};
    reaches out = {0};
    assert_int_equal(touches_list_ops(v->plan, v->mini, n->worker, n->pc, n->first, n->end, &touches, &err), GP_OK);
    bool collects = n->instr->op == GP_INSTR_COLLECT;
    out.items = calloc(touches.count + (collects ? add_parts(v, n, NULL) : 0) + 1, sizeof *out.items);
    assert_non_null(out.items);
    /* A send or post touches nothing itself: it says that others may. */
    bool says = n->instr->op == GP_INSTR_SEND || n->instr->op == GP_INSTR_POST;
    for (size_t i = 0; i < touches.count && !says; i++) out.items[out.count++] = (reach){n->worker, touches.items[i]};
    if (n->instr->op == GP_INSTR_RECV) {
        const node *sender = find_node(v, n->round, (gp_wait){n->instr->edge, n->instr->micro, GP_WAIT_SENT});
        gp_move move;
        assert_true(gp_instr_move(v->plan, v->mini, sender->instr, 0, &move));
        out.items[out.count++] = (reach){sender->worker, {move.offset, move.bytes, false}};
    }
    if (collects) out.count += add_parts(v, n, out.items + out.count);
    free(touches.items);
    return out;
}

static bool conflicts(const reaches *a, const reaches *b) {
    for (size_t i = 0; i < a->count; i++)
        for (size_t j = 0; j < b->count; j++) {
            const arena_touch *x = &a->items[i].touch, *y = &b->items[j].touch;
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

static const gp_queue_waits *list_of(const view *v, const wait *its) {
    const gp_worker_queues *queues = &v->mini->queues->worker[its->worker];
    return its->behind ? &queues->behind : &queues->within;
}

static const gp_worker_waits *events_of(const view *v, const wait *its) {
    return &(its->behind ? v->mini->behind : v->mini->waits)->worker[its->worker];
}

static void list_waits(view *v) {
    size_t most = 0;
    for (int w = 0; w < v->plan->workers; w++)
        for (int behind = 0; behind < v->rounds; behind++) {
            wait it = {.worker = w, .behind = behind > 0};
            most += list_of(v, &it)->count + events_of(v, &it)->count;
        }
    v->waits = calloc(most + 1, sizeof *v->waits);
    assert_non_null(v->waits);
    for (int w = 0; w < v->plan->workers; w++)
        for (int behind = 0; behind < v->rounds; behind++) {
            wait it = {.worker = w, .behind = behind > 0};
            for (; it.index < list_of(v, &it)->count; it.index++) v->waits[v->wait_count++] = it;
            it.event = true;
            for (it.index = 0; it.index < events_of(v, &it)->count; it.index++) {
                it.known = list_of(v, &it)->known[it.index];
                v->waits[v->wait_count++] = it;
            }
        }
}

/* Whether it is a wait of b, and for a. */
static bool waits_for(const view *v, const wait *its, const node *a, const node *b) {
    if (its->worker != b->worker || its->known || a->round != b->round - its->behind) return false;
    if (b->first > 0 || !a->ends) return false; /* what b has done before has waited; the mark comes after all of a */
    if (its->event) {
        const gp_worker_waits *events = events_of(v, its);
        if (its->index < events->first[b->pc] || its->index >= events->first[b->pc + 1]) return false;
        return makes(a->instr, &events->items[its->index]);
    }
    const gp_queue_waits *marks = list_of(v, its);
    return its->index >= marks->first[b->pc] && its->index < marks->first[b->pc + 1] && a->worker == b->worker &&
           marks->wait[its->index] == v->mini->queues->worker[b->worker].mark[a->pc];
}

static void add_link(view *v, size_t from, long by) {
    if (v->link_count == v->link_capacity) {
        v->link_capacity = 2 * v->link_capacity + 64;
        v->links = realloc(v->links, v->link_capacity * sizeof *v->links);
        assert_non_null(v->links);
    }
    v->links[v->link_count++] = (link){from, by};
}

static void list_links(view *v) {
    v->first_link = calloc(v->count + 1, sizeof *v->first_link);
    assert_non_null(v->first_link);
    for (size_t b = 0; b < v->count; b++) {
        const node *y = &v->nodes[b];
        v->first_link[b] = v->link_count;
        for (size_t a = 0; a < b; a++)
            if (v->nodes[a].worker == y->worker && v->nodes[a].queue == y->queue) add_link(v, a, -1);
        for (size_t i = 0; i < v->wait_count; i++)
            for (size_t a = 0; a < b && v->waits[i].worker == y->worker; a++)
                if (waits_for(v, &v->waits[i], &v->nodes[a], y)) add_link(v, a, (long)i);
    }
    v->first_link[v->count] = v->link_count;
}

/* The order without one wait (−2: with all). */
static void find_order(view *v, long without) {
    memset(v->before, 0, v->count * v->words * sizeof *v->before);
    for (size_t b = 0; b < v->count; b++)
        for (size_t l = v->first_link[b]; l < v->first_link[b + 1]; l++)
            if (v->links[l].wait != without) follow(v, v->links[l].from, b);
}

static bool all_ordered(const view *v) {
    for (size_t a = 0; a < v->count; a++)
        for (size_t b = a + 1; b < v->count; b++)
            if (v->conflict[a * v->count + b] && !is_before(v, a, b)) return false;
    return true;
}

static void say_unordered(const view *v) {
    char a_text[GP_INSTR_TEXT], b_text[GP_INSTR_TEXT];
    for (size_t a = 0; a < v->count; a++)
        for (size_t b = a + 1; b < v->count; b++)
            if (v->conflict[a * v->count + b] && !is_before(v, a, b))
                fail_msg("nothing orders worker %d, %s (mini-batch %d) and worker %d, %s (mini-batch %d)",
                         v->nodes[a].worker, gp_instr_text(a_text, v->nodes[a].instr), v->nodes[a].round,
                         v->nodes[b].worker, gp_instr_text(b_text, v->nodes[b].instr), v->nodes[b].round);
}

static void open_view(view *v, const gp_plan *plan, const gp_mini_plan *mini, int rounds) {
    *v = (view){.plan = plan, .mini = mini, .rounds = rounds};
    list_nodes(v);
    v->words = (v->count + 63) / 64;
    v->before = calloc(v->count * v->words, sizeof *v->before);
    assert_non_null(v->before);
    find_conflicts(v);
    list_waits(v);
    list_links(v);
    find_order(v, -2);
    say_unordered(v);
}

static void close_view(view *v) {
    free(v->nodes);
    free(v->conflict);
    free(v->before);
    free(v->waits);
    free(v->links);
    free(v->first_link);
}

/* Without memory to follow other workers there are more waits, and the order is as whole. */
static void check_narrow(const view *with, gp_mini_plan *mini) {
    gp_error err = {0};
    view v;
    gp_program_queues *wide = mini->queues;
    assert_int_equal(gp_mini_queues(with->plan, mini, 0, &err), GP_OK);
    open_view(&v, with->plan, mini, with->rounds);
    assert_true(v.wait_count >= with->wait_count);
    for (size_t i = 0; i < v.wait_count; i++) assert_false(v.waits[i].known);
    close_view(&v);
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

typedef struct counts {
    size_t needed, known;
} counts;

/* `rounds` 1: the waits within a mini-batch; 2: those for the one before. */
static void check(const gp_plan *plan, gp_mini_plan *mini, int rounds, counts *out) {
    /* Of replicas, parts may be empty, and a post tells more than that its part is there. */
    bool alone = plan->stages->count == plan->stages->numbers;
    view v;
    open_view(&v, plan, mini, rounds);
    for (size_t i = 0; i < v.wait_count; i++) {
        if (v.waits[i].behind != (rounds == 2)) continue;
        ++*(v.waits[i].known ? &out->known : &out->needed);
        if (v.waits[i].known || !alone) continue;
        find_order(&v, (long)i);
        if (all_ordered(&v))
            fail_msg("worker %d: wait %zu of %zu is not needed (%d)", v.waits[i].worker, i, v.wait_count, rounds);
    }
    check_gradients(&v);
    check_narrow(&v, mini);
    close_view(&v);
}

/* The same devices plan no mini-batches behind others: they leave nothing under way. */
static void check_behind(const gp_plan *plan, gp_mini_plan *mini, counts *out) {
    gp_error err = {0};
    gp_program_queues *alone = mini->queues;
    assert_null(mini->behind);
    assert_int_equal(gp_waits_create_behind(plan->stages, mini->programs, &mini->behind, &err), GP_OK);
    assert_int_equal(gp_mini_queues(plan, mini, GP_QUEUES_MEMORY, &err), GP_OK);
    check(plan, mini, 2, out);
    gp_queues_destroy(&mini->queues);
    gp_waits_destroy(&mini->behind);
    mini->queues = alone;
}

static void whatever_is_touched_is_in_order(void **state) {
    (void)state;
    counts training = {0}, evaluation = {0}, behind = {0};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
            harness h;
            const cut *its = &cuts[c];
            harness_plan(&h, &(harness_options){.model = cuts[c].model,
                                                .layers = cuts[c].layers,
                                                .stages = cuts[c].stages,
                                                .schedule = cuts[c].schedule,
                                                .kind = &gp_ref_kind,
                                                .checkpoint = (gp_checkpoint_mode)mode,
                                                .lockstep = cuts[c].schedule.kind == GP_SCHEDULE_GPIPE &&
                                                            (c + (size_t)mode) % 2 == 0,
                                                .replicas = cuts[c].replicas[0] ? cuts[c].replicas : NULL,
                                                .micro_batches = its->micro_batches ? its->micro_batches : 4,
                                                .batch = its->batch ? its->batch : 10,
                                                .last = 7,
                                                .evaluation = 9,
                                                .bucket = its->bucket,
                                                .shard_optimizer = its->shards,
                                                .norms = c % 2 == 0});
            for (int m = 0; m < h.plan->mini_count; m++) {
                gp_mini_plan *mini = &h.plan->minis[m];
                gp_error err = {0};
                assert_null(mini->queues); /* a plan on the host alone has none */
                assert_int_equal(gp_mini_queues(h.plan, mini, GP_QUEUES_MEMORY, &err), GP_OK);
                check(h.plan, mini, 1, mini->training ? &training : &evaluation);
                if (mini->training) check_behind(h.plan, mini, &behind);
            }
            harness_end(&h);
        }
    assert_true(training.needed > 0 && training.known > 0 && evaluation.needed > 0);
    print_message("behind another: %zu waits needed, %zu known\n", behind.needed, behind.known);
    assert_true(behind.needed > 0 && behind.known > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_is_touched_is_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
