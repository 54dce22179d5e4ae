/* The solver against every cut there is: random graphs with skips, unequal devices, copies, memory, rules. What a cut
 * costs and takes is said anew here, from the definitions, cut by cut and value by value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "balance/device_order.h"
#include "base/philox.h"
#include "cut/cut.h"

enum { LAYERS = 10, STAGES = 5, KINDS = 3, VALUES = 24 };

static uint32_t counter;

static uint32_t draw(uint32_t bound) {
    gp_philox out = gp_philox_draw(11, (gp_philox){{counter++, 0, 0, 0}});
    return (uint32_t)((uint64_t)out.word[0] * bound >> 32);
}

/* A problem and the room for all that it points to. */
typedef struct trial {
    gp_cut_problem problem;
    gp_cut_bytes bytes[KINDS][LAYERS];
    gp_cut_rule rules[LAYERS];
    gp_cut_value values[VALUES];
    int users[VALUES][LAYERS];
    gp_cut_kind kinds[KINDS];
    int64_t costs[KINDS][LAYERS], copies[KINDS][VALUES];
    gp_cut_worker workers[STAGES];
    gp_cut_stage stages[STAGES];
} trial;

static void draw_values(trial *t, int layers, uint32_t bound) {
    int count = 0;
    for (int producer = -1; producer < layers - 1; producer++) {
        gp_cut_value *value = &t->values[count];
        *value = (gp_cut_value){.producer = producer, .users = t->users[count]};
        for (int user = producer + 1; user < layers; user++)
            if (user == producer + 1 ? draw(8) > 0 : draw(6) == 0) t->users[count][value->user_count++] = user;
        if (value->user_count == 0) continue;
        value->bytes = draw(bound);
        value->gradients = producer >= 0 && draw(4) ? value->bytes : 0;
        for (int k = 0; k < KINDS; k++) t->copies[k][count] = draw(bound);
        count++;
    }
    t->problem.value_count = count;
}

static void draw_rules(trial *t, int layers) {
    for (int i = 1; i < layers; i++) {
        uint32_t side = draw(12);
        t->rules[i] = side == 0 ? GP_CUT_MUST : side < 3 ? GP_CUT_NEVER : GP_CUT_FREE;
    }
    t->problem.rules = t->rules;
}

/* shares: stages have 1, 2 or all of the 3 samples of a micro-batch. */
static void draw_trial(trial *t, bool memory, bool rules, bool shares) {
    static const uint32_t bounds[] = {2, 5, 30, 1000};
    memset(t, 0, sizeof *t);
    int layers = 1 + (int)draw(LAYERS), stages = 1 + (int)draw((uint32_t)(layers < STAGES ? layers : STAGES));
    uint32_t bound = bounds[draw(4)];
    t->problem = (gp_cut_problem){.layer_count = layers,
                                  .values = t->values,
                                  .kinds = t->kinds,
                                  .kind_count = 1 + (int)draw(KINDS),
                                  .workers = t->workers,
                                  .worker_count = stages,
                                  .stages = t->stages,
                                  .stage_count = stages};
    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; i < layers; i++) t->costs[k][i] = (int64_t)draw(bound) * (k + 1);
        for (int i = 0; i < layers; i++) t->bytes[k][i] = (gp_cut_bytes){draw(bound), draw(bound), draw(bound)};
        t->kinds[k] = (gp_cut_kind){t->costs[k], draw(5) ? t->copies[k] : NULL, memory ? t->bytes[k] : NULL};
    }
    draw_values(t, layers, draw(2) ? bound : 3);
    bool equal = draw(2);
    uint32_t limit = 1 + draw(bound * (uint32_t)layers * 3);
    for (int s = 0; s < stages; s++) {
        t->workers[s] = (gp_cut_worker){(int)draw((uint32_t)t->problem.kind_count), 0, "cpu"};
        if (memory && draw(5)) t->workers[s].memory = equal ? limit : 1 + draw(bound * (uint32_t)layers * 6);
        t->stages[s] = (gp_cut_stage){s, (int)draw(4), (int)draw(4), (int)draw(3), (int)draw(3), 0};
        if (shares) t->stages[s].samples = draw(4); /* 0: all */
    }
    if (shares) t->problem.samples = 3;
    if (rules) draw_rules(t, layers);
}

/* ---- the definitions --------------------------------------------------------------------------------------------- */

static bool uses(const gp_cut_value *value, int first, int end) {
    for (int u = 0; u < value->user_count; u++)
        if (value->users[u] >= first && value->users[u] < end) return true;
    return false;
}

static int64_t cost_of(const gp_cut_problem *p, int stage, int first, int end) {
    const gp_cut_kind *kind = &p->kinds[p->workers[p->stages[stage].worker].kind];
    int64_t sum = 0;
    for (int i = first; i < end; i++) sum += kind->layers[i];
    for (int v = 0; v < p->value_count && kind->copies; v++)
        if (p->values[v].producer < first && uses(&p->values[v], first, end)) sum += kind->copies[v];
    return sum;
}

static int64_t bytes_of(const gp_cut_problem *p, int stage, int first, int end) {
    const gp_cut_stage *it = &p->stages[stage];
    const gp_cut_bytes *bytes = p->kinds[p->workers[it->worker].kind].bytes;
    int64_t sum = 0, fixed = 0, transient = 0, samples = it->samples ? it->samples : p->samples;
    for (int i = first; i < end; i++) {
        fixed += bytes[i].fixed + bytes[i].saved * it->saved;
        if (bytes[i].transient > transient) transient = bytes[i].transient;
    }
    for (int v = 0; v < p->value_count; v++) {
        const gp_cut_value *value = &p->values[v];
        bool here = value->producer >= first && value->producer < end;
        bool behind = uses(value, end, p->layer_count);
        if (value->producer < first && uses(value, first, end)) {
            sum += value->bytes * it->stash + value->gradients * it->gradient; /* its gradient goes */
            if (behind && value->producer >= 0) sum += value->gradients * it->gradient;
        } else if (here && behind) {
            sum += value->bytes * it->outbox + value->gradients * it->gradient;
        }
    }
    return fixed + (samples < p->samples ? (sum * samples + p->samples - 1) / p->samples : sum) + transient;
}

/* −1: memory or rules forbid it. */
static int64_t bottleneck_of(const gp_cut_problem *p, const int64_t *layers) {
    int64_t most = 0;
    for (int s = 0, first = 0; s < p->stage_count; first += (int)layers[s++]) {
        int end = first + (int)layers[s];
        int64_t memory = p->workers[p->stages[s].worker].memory, cost = cost_of(p, s, first, end);
        if (p->kinds[0].bytes && memory > 0 && bytes_of(p, s, first, end) > memory) return -1;
        for (int i = first + 1; i < end && p->rules; i++)
            if (p->rules[i] == GP_CUT_MUST) return -1;
        if (first > 0 && p->rules && p->rules[first] == GP_CUT_NEVER) return -1;
        if (cost > most) most = cost;
    }
    return most;
}

static int64_t least_of(const gp_cut_problem *p, int stage, int first, int64_t *layers) {
    if (stage == p->stage_count - 1) {
        layers[stage] = p->layer_count - first;
        return bottleneck_of(p, layers);
    }
    int64_t least = -1;
    for (int count = 1; p->layer_count - first - count >= p->stage_count - stage - 1; count++) {
        layers[stage] = count;
        int64_t found = least_of(p, stage + 1, first + count, layers);
        if (found >= 0 && (least < 0 || found < least)) least = found;
    }
    return least;
}

/* ---- against them ------------------------------------------------------------------------------------------------ */

static void check_numbers(const gp_cut_problem *p, const int64_t *layers) {
    gp_cut_numbers numbers[STAGES];
    gp_error err = {0};
    assert_int_equal(gp_cut_measure(p, layers, numbers, &err), GP_OK);
    for (int s = 0, first = 0; s < p->stage_count; first += (int)layers[s++]) {
        int end = first + (int)layers[s];
        assert_int_equal(numbers[s].cost, cost_of(p, s, first, end));
        if (p->kinds[0].bytes) assert_int_equal(numbers[s].bytes + numbers[s].transient, bytes_of(p, s, first, end));
    }
}

/* Whether there was a cut. */
static bool check(int number, const gp_cut_problem *p) {
    int64_t layers[STAGES + 1], room[STAGES + 1];
    int64_t result;
    gp_error err = {0};
    gp_status status = gp_cut_solve(p, layers, &result, &err);
    int64_t least = least_of(p, 0, 0, room);
    if (least < 0) {
        if (status != GP_CONFIG) fail_msg("trial %d: no cut is possible, but the solver has one", number);
        return false;
    }
    if (status != GP_OK) fail_msg("trial %d: the solver found none: %s", number, err.text);
    int64_t found = bottleneck_of(p, layers);
    if (found != least || result != least)
        fail_msg("trial %d: the least bottleneck is %d, the cut's %d, said to be %d", number, (int)least, (int)found,
                 (int)result);
    check_numbers(p, layers);
    return true;
}

static void check_many(int count, bool memory, bool rules, bool shares) {
    int possible = 0;
    trial t;
    for (int i = 0; i < count; i++) {
        draw_trial(&t, memory, rules, shares);
        possible += check(i, &t.problem);
    }
    /* A test in which nothing is possible, or everything, would not say much. */
    assert_true(possible > count / 10);
    assert_true(possible < count || (!memory && !rules));
}

static void test_copies(void **state) {
    (void)state;
    check_many(6000, false, false, false);
}

static void test_memory(void **state) {
    (void)state;
    check_many(10000, true, false, false);
}

static void test_rules(void **state) {
    (void)state;
    check_many(4000, false, true, false);
    check_many(10000, true, true, false);
    check_many(10000, true, true, true);
}

/* The bytes that an error names are the least that help: with them there is a cut, with one fewer there is none. */
static void test_missing_bytes(void **state) {
    (void)state;
    int checked = 0;
    trial t;
    for (int i = 0; i < 20000; i++) {
        draw_trial(&t, true, i % 2, i % 3 == 0);
        int64_t layers[STAGES + 1], room[STAGES + 1];
        int64_t result;
        gp_error err = {0};
        if (gp_cut_solve(&t.problem, layers, &result, &err) == GP_OK) continue;
        const char *says = strstr(err.text, "one does with ");
        if (!says) continue;
        int more = atoi(says + strlen("one does with "));
        if (strncmp(strchr(says + 14, ' '), " B", 2) != 0) continue; /* not said to the byte */
        for (int with = more; with >= more - 1; with--) {
            trial raised = t;
            raised.problem.workers = raised.workers;
            for (int w = 0; w < t.problem.worker_count; w++)
                if (raised.workers[w].memory) raised.workers[w].memory += with;
            int64_t least = least_of(&raised.problem, 0, 0, room);
            if ((least >= 0) != (with == more))
                fail_msg("trial %d: %s; with %d it is %d", i, err.text, with, (int)least);
        }
        checked++;
    }
    assert_true(checked > 100);
}

/* Several stages on a worker: what the definitions say of its stages together. */
static int64_t shared_bottleneck(const gp_cut_problem *p, const int64_t *layers) {
    int64_t cost[STAGES] = {0}, most = 0;
    for (int s = 0, first = 0; s < p->stage_count; first += (int)layers[s++])
        cost[p->stages[s].worker] += cost_of(p, s, first, first + (int)layers[s]);
    for (int w = 0; w < p->worker_count; w++)
        if (cost[w] > most) most = cost[w];
    return most;
}

static int64_t least_shared(const gp_cut_problem *p, int stage, int first, int64_t *layers) {
    if (stage == p->stage_count - 1) {
        layers[stage] = p->layer_count - first;
        return shared_bottleneck(p, layers);
    }
    int64_t least = INT64_MAX;
    for (int count = 1; p->layer_count - first - count >= p->stage_count - stage - 1; count++) {
        layers[stage] = count;
        int64_t found = least_shared(p, stage + 1, first + count, layers);
        if (found < least) least = found;
    }
    return least;
}

/* Not exact: the cut costs what the solver says, and is seldom far from the best. */
static void test_shared_workers(void **state) {
    (void)state;
    int count = 0, best = 0;
    double ratios = 0;
    trial t;
    for (int i = 0; i < 6000; i++) {
        draw_trial(&t, false, false, false);
        if (t.problem.stage_count < 4) continue;
        t.problem.worker_count = 2;
        for (int s = 0; s < t.problem.stage_count; s++)
            t.stages[s].worker = i % 2 ? s % 2 : s < 2 || s >= 4 ? s & 1 : 1 - (s & 1); /* in turn, or back and forth */
        int64_t layers[STAGES + 1], room[STAGES + 1];
        int64_t result;
        gp_error err = {0};
        assert_int_equal(gp_cut_solve(&t.problem, layers, &result, &err), GP_OK);
        int64_t least = least_shared(&t.problem, 0, 0, room), found = shared_bottleneck(&t.problem, layers);
        assert_int_equal(result, found);
        assert_true(least <= found);
        count++;
        best += found == least;
        ratios += least > 0 ? (double)found / (double)least : 1;
    }
    print_message("%d of %d the best, %.4f of it on average\n", best, count, ratios / count);
    assert_true(best > count * 3 / 4 && ratios < 1.04 * count);
}

/* Stages that fit one by one, but not together, are moved until they do. */
static void test_shared_memory(void **state) {
    (void)state;
    static const int64_t costs[] = {1, 1, 1, 1, 1, 1, 1, 1};
    gp_cut_bytes bytes[8] = {{40, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {40, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}};
    gp_cut_kind kind = {costs, NULL, bytes};
    gp_cut_worker workers[2] = {{0, 60, "worker 0"}, {0, 60, "worker 1"}};
    gp_cut_stage stages[4] = {{0, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0}, {0, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0}};
    gp_cut_problem problem = {.layer_count = 8,
                              .kinds = &kind,
                              .kind_count = 1,
                              .workers = workers,
                              .worker_count = 2,
                              .stages = stages,
                              .stage_count = 4};
    int64_t layers[4];
    int64_t result;
    gp_error err = {0};
    assert_int_equal(gp_cut_solve(&problem, layers, &result, &err), GP_OK);
    int64_t second = layers[0] + layers[1]; /* where the second stage of worker 0 begins: behind or before both */
    assert_true(second > 4 || second + layers[2] <= 4);
    workers[0].memory = workers[1].memory = 39;
    assert_int_equal(gp_cut_solve(&problem, layers, &result, &err), GP_CONFIG);
    assert_string_equal(err.text, "balance: layer 0 alone needs at least 40 B, 1 B more than the 39 B of worker 0, "
                                  "which has most room for it");
    workers[0].memory = 45;
    workers[1].memory = 39;
    assert_int_equal(gp_cut_solve(&problem, layers, &result, &err), GP_CONFIG);
    if (!strstr(err.text, "balance: no cut was found in which all stages of worker ")) fail_msg("%s", err.text);
}

typedef struct ordering {
    const gp_cut_problem *given;
    int64_t least; /* −1: no order has a cut */
} ordering;

static void order_from(ordering *o, int place, int *order, bool *taken) {
    int count = o->given->worker_count;
    if (place == count) {
        gp_cut_worker workers[STAGES];
        gp_cut_problem problem = *o->given;
        int64_t room[STAGES + 1];
        for (int w = 0; w < count; w++) workers[w] = o->given->workers[order[w]];
        problem.workers = workers;
        int64_t found = least_of(&problem, 0, 0, room);
        if (found >= 0 && (o->least < 0 || found < o->least)) o->least = found;
        return;
    }
    for (int w = 0; w < count; w++) {
        if (taken[w]) continue;
        taken[w] = true;
        order[place] = w;
        order_from(o, place + 1, order, taken);
        taken[w] = false;
    }
}

static void test_orders(void **state) {
    (void)state;
    int possible = 0, changed = 0;
    trial t;
    for (int i = 0; i < 600; i++) {
        draw_trial(&t, i % 2, false, i % 3 == 0);
        if (t.problem.layer_count > 8) continue;
        int order[STAGES], all[STAGES];
        bool taken[STAGES] = {false};
        int64_t layers[STAGES + 1], count;
        int64_t result;
        gp_error err = {0};
        ordering o = {&t.problem, -1};
        order_from(&o, 0, all, taken);
        gp_status status = gp_device_order_solve(&t.problem, order, layers, &count, &result, &err);
        assert_int_equal(status, o.least < 0 ? GP_CONFIG : GP_OK);
        if (status != GP_OK) continue;
        gp_cut_worker workers[STAGES];
        gp_cut_problem problem = t.problem;
        for (int w = 0; w < problem.worker_count; w++) {
            assert_false(taken[order[w]]);
            taken[order[w]] = true;
            workers[w] = t.workers[order[w]];
            changed += order[w] != w;
        }
        problem.workers = workers;
        assert_int_equal(result, o.least);
        assert_int_equal(bottleneck_of(&problem, layers), o.least);
        possible++;
    }
    assert_true(possible > 100 && changed > 20);
}

/* Devices of 12, 6 and 12 GB: the small one goes where the small layers are; equal ones keep their order. */
static void test_order_of_memories(void **state) {
    (void)state;
    static const int64_t costs[] = {4, 4, 4};
    static const gp_cut_bytes bytes[] = {{5, 0, 0}, {11, 0, 0}, {12, 0, 0}};
    gp_cut_kind kind = {costs, NULL, bytes};
    gp_cut_worker workers[12] = {{0, 12, "cuda:0"}, {0, 6, "cuda:1"}, {0, 12, "cuda:2"}};
    gp_cut_stage stages[12];
    for (int s = 0; s < 12; s++) stages[s] = (gp_cut_stage){s, 1, 1, 1, 1, 0};
    gp_cut_problem problem = {.layer_count = 3,
                              .kinds = &kind,
                              .kind_count = 1,
                              .workers = workers,
                              .worker_count = 3,
                              .stages = stages,
                              .stage_count = 3};
    int order[12];
    int64_t layers[12], count;
    int64_t result;
    gp_error err = {0};
    assert_int_equal(gp_cut_solve(&problem, layers, &result, &err), GP_CONFIG);
    assert_string_equal(err.text,
                        "balance: no cut into 3 stages fits; one does with 5 B more for each limit (cuda:0 has "
                        "12 B, cuda:1 has 6 B, cuda:2 has 12 B)");
    assert_int_equal(gp_device_order_solve(&problem, order, layers, &count, &result, &err), GP_OK);
    assert_true(order[0] == 1 && order[1] == 0 && order[2] == 2);
    assert_int_equal(count, 3);
    /* 12 devices of which no two are equal have 12! orders; 11 equal ones and another have 12. */
    static int64_t many[12];
    kind = (gp_cut_kind){many, NULL, NULL};
    problem.layer_count = problem.worker_count = problem.stage_count = 12;
    for (int w = 0; w < 12; w++) workers[w] = (gp_cut_worker){0, w + 1, "cpu"};
    assert_int_equal(gp_device_order_solve(&problem, order, layers, &count, &result, &err), GP_CONFIG);
    assert_int_equal(count, 479001600);
    assert_string_equal(err.text,
                        "balance: 12 devices of 12 kinds have more orders than the 10000 that --orders can try");
    for (int w = 0; w < 11; w++) workers[w].memory = 1;
    assert_int_equal(gp_device_order_solve(&problem, order, layers, &count, &result, &err), GP_OK);
    assert_int_equal(count, 12);
    for (int w = 0; w < 12; w++) assert_int_equal(order[w], w);
}

/* Two stages share a worker: what single stages lack is said as that, and not as what would be enough. */
static void test_shared_memory_is_explained(void **state) {
    (void)state;
    static const int64_t costs[] = {1, 1, 1, 1};
    static const gp_cut_bytes bytes[] = {{6, 0, 0}, {6, 0, 0}, {6, 0, 0}, {6, 0, 0}};
    const gp_cut_kind kind = {costs, NULL, bytes};
    const gp_cut_worker worker = {0, 10, "cpu"};
    const gp_cut_stage stages[] = {{0, 1, 1, 1, 1, 0}, {0, 1, 1, 1, 1, 0}};
    const gp_cut_problem problem = {.layer_count = 4,
                                    .kinds = &kind,
                                    .kind_count = 1,
                                    .workers = &worker,
                                    .worker_count = 1,
                                    .stages = stages,
                                    .stage_count = 2};
    int64_t layers[2];
    int64_t result;
    gp_error err = {0};
    assert_int_equal(gp_cut_solve(&problem, layers, &result, &err), GP_CONFIG);
    assert_string_equal(err.text,
                        "balance: no cut into 2 stages fits; each limit needs at least 2 B more, for single stages to "
                        "fit alone");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_memory_is_explained),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_missing_bytes),
        cmocka_unit_test(test_shared_workers),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_order_of_memories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
