/* What a stage that recomputes keeps: against all sets of outputs of random chains, and against the ops that are left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/philox.h"
#include "checkpoint/keep.h"
#include "checkpoint/recompute.h"

enum { MOST = 9, CHAINS = 6000, GRAPHS = 2000 };

typedef struct model {
    gp_keep_layer layers[MOST];
    int inputs[MOST][2];
    int count;
    int64_t budget;
} model;

static uint32_t draw(uint32_t number, uint32_t place, uint32_t below) {
    return gp_philox_draw(5, (gp_philox){{number, place, 0, 0}}).word[0] % below;
}

/* Sizes and times out of few, so that there are ties; out of many in every third. */
static model make(uint32_t number, bool chain) {
    model m = {.count = 1 + (int)draw(number, 0, MOST)};
    uint32_t range = number % 3 ? 5 : 1000;
    int64_t all = 0;
    for (int i = 0; i < m.count; i++) {
        uint32_t at = 8 * (uint32_t)i + 1;
        gp_keep_layer *layer = &m.layers[i];
        *layer = (gp_keep_layer){.time = draw(number, at, range),
                                 .bytes = draw(number, at + 1, range),
                                 .read = draw(number, at + 2, 3) > 0,
                                 .more = draw(number, at + 3, 5) == 0,
                                 .fixed = draw(number, at + 4, 7) == 0};
        all += layer->bytes;
        if (i == 0 || draw(number, at + 5, 8) == 0) continue;
        m.inputs[i][0] = i - 1;
        layer->input_count = 1;
        if (chain || draw(number, at + 6, 2)) continue;
        m.inputs[i][layer->input_count++] = (int)draw(number, at + 7, (uint32_t)i);
    }
    m.budget = (int64_t)draw(number, 99, (uint32_t)all + 1);
    return m;
}

static void point(model *m) {
    for (int i = 0; i < m->count; i++) m->layers[i].inputs = m->inputs[i];
}

static bool may(const model *m, const bool *kept) {
    for (int i = 0; i < m->count; i++)
        if (kept[i] && m->layers[i].fixed) return false;
    return true;
}

/* Of all sets the one with least time, and of those the one with fewest bytes. */
static gp_keep_result best_of_all(const model *m) {
    gp_keep_result best = {INT64_MAX, INT64_MAX};
    for (unsigned set = 0; set < 1U << m->count; set++) {
        bool kept[MOST], runs[MOST];
        for (int i = 0; i < m->count; i++) kept[i] = set >> i & 1;
        gp_keep_result now = gp_keep_measure(m->layers, m->count, kept, runs);
        if (!may(m, kept) || now.bytes > m->budget) continue;
        if (now.time < best.time || (now.time == best.time && now.bytes < best.bytes)) best = now;
    }
    return best;
}

static void the_best_of_all_sets_is_found(uint32_t number, bool chain) {
    model m = make(number, chain);
    bool kept[MOST], runs[MOST];
    gp_keep_result found = {0};
    gp_error err = {0};
    point(&m);
    assert_int_equal(gp_keep_solve(m.layers, m.count, m.budget, kept, &found, &err), GP_OK);
    gp_keep_result best = best_of_all(&m), is = gp_keep_measure(m.layers, m.count, kept, runs);
    if (!may(&m, kept) || is.time != found.time || is.bytes != found.bytes || found.time != best.time ||
        found.bytes != best.bytes)
        fail_msg("%s %u: %lld in %lld bytes, not %lld in %lld", chain ? "chain" : "graph", number,
                 (long long)found.time, (long long)found.bytes, (long long)best.time, (long long)best.bytes);
}

static void chains_are_solved_exactly(void **state) {
    (void)state;
    for (uint32_t n = 0; n < CHAINS; n++) the_best_of_all_sets_is_found(n, true);
}

static void other_graphs_are_solved_exactly(void **state) {
    (void)state;
    for (uint32_t n = 0; n < GRAPHS; n++) the_best_of_all_sets_is_found(n, false);
}

/* What gp_keep_measure says runs is what the ops come to: each layer makes its output and, where backward reads `more`,
 * something beside it. */
static void the_same_ops_are_left(void **state) {
    (void)state;
    int spared = 0;
    for (uint32_t n = 0; n < GRAPHS; n++) {
        model m = make(n, n % 2 == 0);
        gp_op_use ops[MOST];
        bool kept[MOST], runs[MOST], run[MOST] = {false}, wanted[2 * MOST] = {false}, at_hand[2 * MOST] = {false},
                                     needed[2 * MOST];
        gp_keep_result found = {0};
        gp_error err = {0};
        point(&m);
        assert_int_equal(gp_keep_solve(m.layers, m.count, m.budget, kept, &found, &err), GP_OK);
        gp_keep_measure(m.layers, m.count, kept, runs);
        for (int i = 0; i < m.count; i++) {
            const gp_keep_layer *layer = &m.layers[i];
            ops[i] = (gp_op_use){.writes = {i, MOST + i}, .write_count = 2, .read_count = layer->input_count};
            for (int j = 0; j < layer->input_count; j++) ops[i].reads[j] = layer->inputs[j];
            wanted[i] = layer->read;
            wanted[MOST + i] = layer->more;
            at_hand[i] = kept[i];
        }
        gp_recompute_keep(ops, (size_t)m.count, wanted, 2 * MOST, at_hand, needed, run);
        for (int i = 0; i < m.count; i++) {
            assert_int_equal(run[i], runs[i]);
            assert_int_equal(at_hand[i], kept[i]); /* and what was chosen is of use */
            spared += kept[i];
        }
        memset(at_hand, true, MOST);
        gp_recompute_keep(ops, (size_t)m.count, wanted, 2 * MOST, at_hand, needed, run);
        for (int i = 0; i < m.count; i++) {
            bool reader = false;
            for (int r = i + 1; r < m.count; r++)
                for (int j = 0; j < m.layers[r].input_count; j++)
                    reader = reader || (run[r] && m.layers[r].inputs[j] == i);
            assert_int_equal(run[i], m.layers[i].more);
            assert_int_equal(at_hand[i], !run[i] && (m.layers[i].read || reader));
        }
    }
    assert_true(spared > GRAPHS);
}

static int by_density(const void *a, const void *b) {
    const gp_keep_layer *x = a, *y = b;
    double left = (double)x->time * (double)y->bytes, right = (double)y->time * (double)x->bytes;
    return left > right ? -1 : left < right;
}

/* What no set within the budget can be better than: layers by their gain, of the last one a part. */
static double fractional_best(const gp_keep_layer *layers, int count, int64_t budget) {
    gp_keep_layer *sorted = malloc((size_t)count * sizeof *sorted);
    double time = 0, room = (double)budget;
    assert_non_null(sorted);
    memcpy(sorted, layers, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_density);
    for (int i = 0; i < count; i++) {
        double part = room >= (double)sorted[i].bytes ? 1 : room / (double)sorted[i].bytes;
        time += (1 - part) * (double)sorted[i].time;
        room -= part * (double)sorted[i].bytes;
    }
    free(sorted);
    return time;
}

/* Sums of bytes of which hardly two are equal: more choices than are looked at. */
static void too_many_choices_end_close_to_the_best(void **state) {
    (void)state;
    enum { LONG = 60 };
    static gp_keep_layer layers[LONG];
    static bool kept[LONG];
    gp_keep_result found = {0};
    gp_error err = {0};
    int64_t all = 0;
    for (int i = 0; i < LONG; i++) {
        layers[i] =
            (gp_keep_layer){.time = 1000 + draw(7, (uint32_t)i, 1000), .bytes = INT64_C(1) << i % 30, .read = true};
        layers[i].time += layers[i].bytes;
        all += layers[i].bytes;
    }
    assert_int_equal(gp_keep_solve(layers, LONG, all / 2, kept, &found, &err), GP_OK);
    assert_true(found.bytes <= all / 2);
    assert_true((double)found.time <= 1.0001 * fractional_best(layers, LONG, all / 2));
}

/* One layer reads a hundred outputs: more than a state has bits. All of them run for it, unless it is kept. */
static void a_layer_may_read_more_outputs_than_a_state_has_bits(void **state) {
    (void)state;
    enum { WIDE = 100 };
    static gp_keep_layer layers[WIDE + 1];
    static int inputs[WIDE];
    bool kept[WIDE + 1];
    gp_keep_result found = {0};
    gp_error err = {0};
    for (int i = 0; i < WIDE; i++) {
        inputs[i] = i;
        layers[i] = (gp_keep_layer){.time = 1 + i % 3, .bytes = 1};
    }
    layers[WIDE] = (gp_keep_layer){.time = 1, .bytes = 1, .read = true, .inputs = inputs, .input_count = WIDE};
    assert_int_equal(gp_keep_solve(layers, WIDE + 1, 1, kept, &found, &err), GP_OK);
    assert_true(kept[WIDE] && found.time == 0 && found.bytes == 1);
    layers[WIDE].fixed = true; /* times 34 × 1, 33 × 2, 33 × 3 */
    assert_int_equal(gp_keep_solve(layers, WIDE + 1, 33, kept, &found, &err), GP_OK);
    assert_true(found.bytes == 33 && found.time == 1 + 34 * 1 + 33 * 2);
}

/* Twenty pairs: the second layer of each reads the first, and all first layers come before. So there are a million
 * states. To keep the output of a second layer spares both. */
static void a_million_states_do_not_matter(void **state) {
    (void)state;
    enum { PAIRS = 20, KEPT = 7 };
    gp_keep_layer layers[2 * PAIRS];
    int inputs[PAIRS];
    bool kept[2 * PAIRS];
    gp_keep_result found = {0};
    gp_error err = {0};
    for (int i = 0; i < PAIRS; i++) {
        inputs[i] = i;
        layers[i] = (gp_keep_layer){.time = 3, .bytes = 4};
        layers[PAIRS + i] =
            (gp_keep_layer){.time = 1, .bytes = 4, .read = true, .inputs = &inputs[i], .input_count = 1};
    }
    assert_int_equal(gp_keep_solve(layers, 2 * PAIRS, 4 * KEPT, kept, &found, &err), GP_OK);
    assert_true(found.bytes == 4 * KEPT && found.time == 4 * (PAIRS - KEPT));
}

/* Layers that read nothing of one another, then the same as a chain: next to the best, in a moment and little memory.
 */
static void thousands_of_layers_take_little(void **state) {
    (void)state;
    enum { LAYERS = 4000, LARGEST = 1000000 };
    static gp_keep_layer layers[LAYERS];
    static int inputs[LAYERS];
    static bool kept[LAYERS], runs[LAYERS];
    gp_keep_result alone = {0}, chained = {0};
    gp_error err = {0};
    int64_t all = 0;
    struct rusage before, after;
    for (int i = 0; i < LAYERS; i++) {
        inputs[i] = i - 1;
        layers[i] = (gp_keep_layer){.time = 1 + draw(9, 2 * (uint32_t)i, LARGEST),
                                    .bytes = 1 + draw(9, 2 * (uint32_t)i + 1, LARGEST),
                                    .read = true};
        all += layers[i].bytes;
    }
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(gp_keep_solve(layers, LAYERS, all / 3, kept, &alone, &err), GP_OK);
    double least = fractional_best(layers, LAYERS, all / 3);
    assert_true(alone.bytes <= all / 3);
    assert_true((double)alone.time >= least - 1 && (double)alone.time <= least + 2 * LARGEST);
    for (int i = 1; i < LAYERS; i++) {
        layers[i].inputs = &inputs[i];
        layers[i].input_count = 1;
    }
    /* Each is read by backward too, so that nothing more is spared than above. */
    assert_int_equal(gp_keep_solve(layers, LAYERS, all / 3, kept, &chained, &err), GP_OK);
    assert_true(chained.bytes <= all / 3 && chained.time <= alone.time + 2 * LARGEST);
    assert_int_equal(gp_keep_measure(layers, LAYERS, kept, runs).time, chained.time);
    getrusage(RUSAGE_SELF, &after);
    assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 400 * 1024); /* KiB */
}

static void no_budget_keeps_what_takes_nothing(void **state) {
    (void)state;
    static const gp_keep_layer layers[] = {{.time = 3, .bytes = 0, .read = true},
                                           {.time = 4, .bytes = 1, .read = true}};
    bool kept[2];
    gp_keep_result found = {0};
    gp_error err = {0};
    assert_int_equal(gp_keep_solve(layers, 2, -5, kept, &found, &err), GP_OK);
    assert_true(kept[0] && !kept[1] && found.time == 4 && found.bytes == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_solved_exactly),
        cmocka_unit_test(other_graphs_are_solved_exactly),
        cmocka_unit_test(the_same_ops_are_left),
        cmocka_unit_test(too_many_choices_end_close_to_the_best),
        cmocka_unit_test(a_layer_may_read_more_outputs_than_a_state_has_bits),
        cmocka_unit_test(a_million_states_do_not_matter),
        cmocka_unit_test(thousands_of_layers_take_little),
        cmocka_unit_test(no_budget_keeps_what_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
