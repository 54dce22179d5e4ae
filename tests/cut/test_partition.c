/* The partition against every partition there is, torchgpipe's published cases, and the corners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "cut/cut.h"

enum { MOST = 14 };

static uint32_t draw(uint32_t *counter, uint32_t bound) {
    gp_philox out = gp_philox_draw(7, (gp_philox){{(*counter)++, 0, 0, 0}});
    return (uint32_t)((uint64_t)out.word[0] * bound >> 32);
}

static int64_t dearest(const int64_t *cost, const int64_t *layers, int stages) {
    int64_t most = 0;
    for (int s = 0; s < stages; s++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < layers[s]; i++) sum += *cost++;
        if (sum > most) most = sum;
    }
    return most;
}

/* The documented rule, said anew: less is better, stage by stage. */
static int compare(const int64_t *cost, int count, int stages, const int64_t *a, const int64_t *b) {
    int64_t rest = 0, layers = count;
    for (int i = 0; i < count; i++) rest += cost[i];
    for (int s = 0; s < stages; s++) {
        if (a[s] != b[s]) {
            int64_t of_a = 0, of_b = 0, left = stages - s;
            for (int64_t i = 0; i < a[s]; i++) of_a += cost[i];
            for (int64_t i = 0; i < b[s]; i++) of_b += cost[i];
            int64_t cost_a = llabs(of_a - rest / left), cost_b = llabs(of_b - rest / left);
            if (cost_a != cost_b) return cost_a < cost_b ? -1 : 1;
            int64_t layers_a = llabs(a[s] - layers / left), layers_b = llabs(b[s] - layers / left);
            if (layers_a != layers_b) return layers_a < layers_b ? -1 : 1;
            return a[s] < b[s] ? -1 : 1;
        }
        for (int64_t i = 0; i < a[s]; i++) rest -= *cost++;
        layers -= a[s];
    }
    return 0;
}

typedef struct search {
    const int64_t *cost;
    int count, stages;
    int64_t least, best[MOST], now[MOST];
} search;

static void try_all(search *s, int stage, int first) {
    if (stage == s->stages - 1) {
        s->now[stage] = s->count - first;
        int64_t most = dearest(s->cost, s->now, s->stages);
        if (s->least >= 0 &&
            (most > s->least || (most == s->least && compare(s->cost, s->count, s->stages, s->now, s->best) >= 0)))
            return;
        s->least = most;
        memcpy(s->best, s->now, sizeof s->best);
        return;
    }
    for (int layers = 1; s->count - first - layers >= s->stages - stage - 1; layers++) {
        s->now[stage] = layers;
        try_all(s, stage + 1, first + layers);
    }
}

static void partition(const int64_t *cost, int count, int stages, int64_t *layers) {
    gp_error err = {0};
    if (gp_cut_list(cost, count, stages, layers, &err) != GP_OK) fail_msg("%s", err.text);
    int64_t sum = 0;
    for (int s = 0; s < stages; s++) {
        assert_true(layers[s] >= 1);
        sum += layers[s];
    }
    assert_int_equal(sum, count);
}

static void check_against_all(const int64_t *cost, int count, int stages) {
    search s = {.cost = cost, .count = count, .stages = stages, .least = -1};
    int64_t layers[MOST];
    partition(cost, count, stages, layers);
    try_all(&s, 0, 0);
    assert_int_equal(dearest(cost, layers, stages), s.least);
    for (int i = 0; i < stages; i++)
        if (layers[i] != s.best[i])
            fail_msg("%d layers in %d stages: stage %d has %d layers, the rule says %d", count, stages, i,
                     (int)layers[i], (int)s.best[i]);
}

static void test_brute_force(void **state) {
    (void)state;
    static const uint32_t bounds[] = {1, 2, 4, 100, 1000000};
    uint32_t counter = 0;
    for (int trial = 0; trial < 20000; trial++) {
        int64_t cost[MOST];
        int count = 1 + (int)draw(&counter, trial % 20 ? 9 : MOST);
        int stages = 1 + (int)draw(&counter, (uint32_t)count);
        uint32_t bound = bounds[trial % 5];
        for (int i = 0; i < count; i++) cost[i] = draw(&counter, 3) ? draw(&counter, bound) : draw(&counter, 3);
        check_against_all(cost, count, stages);
    }
}

static void test_published(void **state) {
    (void)state;
    static const struct {
        int count, stages;
        int64_t cost[20], theirs[4];
    } cases[] = {{6, 2, {1, 2, 3, 4, 5, 6}, {4, 2}},
                 {6, 2, {6, 5, 4, 3, 2, 1}, {2, 4}},
                 {20, 4, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, {10, 4, 3, 3}},
                 {8, 3, {10, 1, 1, 1, 1, 1, 1, 10}, {2, 2, 4}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t layers[4];
        partition(cases[c].cost, cases[c].count, cases[c].stages, layers);
        assert_true(dearest(cases[c].cost, layers, cases[c].stages) <=
                    dearest(cases[c].cost, cases[c].theirs, cases[c].stages));
    }
    int64_t layers[4];
    partition(cases[0].cost, 6, 2, layers);
    assert_true(layers[0] == 4 && layers[1] == 2);
    partition(cases[1].cost, 6, 2, layers);
    assert_true(layers[0] == 2 && layers[1] == 4);
    partition(cases[3].cost, 8, 3, layers);
    assert_true(layers[0] == 1 && layers[1] == 6 && layers[2] == 1);
}

static void test_corners(void **state) {
    (void)state;
    static const int64_t zeros[8] = {0}, one[] = {5}, rising[] = {1, 2, 3};
    int64_t layers[8];
    partition(zeros, 8, 3, layers);
    assert_true(layers[0] == 2 && layers[1] == 3 && layers[2] == 3);
    partition(zeros, 8, 8, layers);
    partition(one, 1, 1, layers);
    assert_int_equal(layers[0], 1);
    partition(rising, 3, 3, layers);
    assert_true(layers[0] == 1 && layers[1] == 1 && layers[2] == 1);
}

static void test_large_costs(void **state) {
    (void)state;
    int64_t layers[3];
    static const int64_t just_fits[] = {INT64_MAX - 2, 1, 1};
    partition(just_fits, 3, 1, layers);
    partition(just_fits, 3, 2, layers);
    assert_true(layers[0] == 1 && layers[1] == 2);
    static const int64_t too_much[] = {INT64_MAX - 2, 2, 1};
    gp_error err = {0};
    assert_int_equal(gp_cut_list(too_much, 3, 2, layers, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, "balance: the costs of the layers and copies exceed the range of 64-bit integers");
}

static void test_too_many_stages(void **state) {
    (void)state;
    static const int64_t cost[] = {1, 1};
    int64_t layers[3] = {9, 9, 9};
    gp_error err = {0};
    assert_int_equal(gp_cut_list(cost, 2, 3, layers, &err), GP_CONFIG);
    assert_string_equal(err.text, "balance: 2 layers cannot be cut into 3 stages of at least one layer each");
    assert_int_equal(gp_cut_list(cost, 2, 0, layers, &err), GP_CONFIG);
    assert_int_equal(layers[0], 9);
}

/* One stage fewer, or one unit less, and the bottleneck could not be reached: known here from how the costs are made.
 */
static void test_long_pipelines(void **state) {
    (void)state;
    enum { LAYERS = 5000, STAGES = 1024 };
    static int64_t cost[LAYERS], layers[STAGES];
    for (int i = 0; i < LAYERS; i++) cost[i] = 1000000007;
    partition(cost, LAYERS, STAGES, layers);
    assert_int_equal(dearest(cost, layers, STAGES), 5 * INT64_C(1000000007));
    for (int i = 0; i < LAYERS; i++) cost[i] = 0;
    partition(cost, LAYERS, STAGES, layers);
    for (int s = 0; s < STAGES; s++) assert_true(layers[s] == 4 || layers[s] == 5);
    uint32_t counter = 0;
    for (int i = 0; i < LAYERS; i++) cost[i] = draw(&counter, 1000);
    cost[LAYERS / 2] = INT64_MAX / 2;
    partition(cost, LAYERS, STAGES, layers);
    assert_int_equal(dearest(cost, layers, STAGES), INT64_MAX / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force),     cmocka_unit_test(test_published),
        cmocka_unit_test(test_corners),         cmocka_unit_test(test_large_costs),
        cmocka_unit_test(test_too_many_stages), cmocka_unit_test(test_long_pipelines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
