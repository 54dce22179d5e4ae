/* `balance` and `together` by names, and balances for unequal devices: as sessions find them, against every cut. */
#include "balance/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/memory.h"
#include "profile/cost.h"
#include "session/balancing.h"
#include "session/fixture.h"

enum { LAYERS = 8 };

static const char CONFIG[] = "model:\n"
                             "  input: {shape: [2, 4, 4]}\n"
                             "  layers:\n"
                             "    - flatten: {name: flat}\n"
                             "    - linear: {out: 96, name: b.0}\n"
                             "    - relu: {name: b.1}\n"
                             "    - linear: {out: 96, name: c.0}\n"
                             "    - add: {from: [b.1, -1], name: c.1}\n"
                             "    - linear: {out: 24, name: d}\n"
                             "    - sequential: {layers: [relu, linear: 200, relu], name: s}\n"
                             "    - linear: {out: 3, name: out}\n"
                             "  loss: cross_entropy\n"
                             "data: {train: {tensors: d.safetensors}, batch: 16}\n"
                             "optimizer: {sgd: {lr: 0.1, momentum: 0.9}}\n"
                             "train: {epochs: 1}\n"
                             "pipeline:\n"
                             "  micro_batches: 4\n";

static const char *with(const char *pipeline) {
    static char text[4096];
    snprintf(text, sizeof text, "%s  %s\n", CONFIG, pipeline);
    return text;
}

static gp_session *open_with(const char *pipeline) {
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(with(pipeline), NULL);
    if (gp_session_open(&config, NULL, &session, &err) != GP_OK) fail_msg("%s", err.text);
    return session;
}

static void expect(const char *pipeline, const int64_t *layers, int stages) {
    gp_session *session = open_with(pipeline);
    assert_int_equal(session->plan->stages->count, stages);
    for (int s = 0; s < stages; s++)
        if (session->layers[s] != layers[s])
            fail_msg("%s: stage %d has %d layers, not %d", pipeline, s, (int)session->layers[s], (int)layers[s]);
    gp_session_close(&session);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void names_begin_stages(void **state) {
    (void)state;
    expect("devices: [cpu, cpu, cpu]\n  balance: [b.0, out]", (const int64_t[]){1, 6, 1}, 3);
    expect("devices: [cpu, cpu]\n  balance: [d]", (const int64_t[]){5, 3}, 2);
    /* What a name begins with up to a dot, and a layer of several nodes. */
    expect("devices: [cpu, cpu, cpu]\n  balance: [c, s]", (const int64_t[]){3, 3, 2}, 3);
    expect("devices: [cpu, cpu, cpu]\n  balance: [c, s.0]", (const int64_t[]){3, 3, 2}, 3);
}

static void names_are_kept(void **state) {
    (void)state;
    gp_session *session = open_with("checkpoint: {mode: always, keep: [b, s, c.0]}");
    static const char *const kept[] = {"b.1", "c.0", "s.2"};
    size_t found = 0;
    for (int n = 0; n < session->graph->node_count; n++)
        if (session->keeps[n]) assert_string_equal(session->graph->nodes[n].name, kept[found++]);
    assert_int_equal(found, 3);
    assert_int_equal(session->plan->stage[0].kept, 3);
    gp_session_close(&session);
    /* The layer's own word: of a sequential its last one's. */
    gp_config *config = NULL;
    gp_error err = {0};
    static const char *const sets[] = {"model.layers.2.relu.checkpoint=false",
                                       "model.layers.6.sequential.checkpoint=false", "pipeline.checkpoint=always",
                                       "model.layers.1.linear.checkpoint=true", NULL};
    config = fixture_config(with("devices: [cpu]"), sets);
    if (gp_session_open(&config, NULL, &session, &err) != GP_OK) fail_msg("%s", err.text);
    for (int n = 0; n < session->graph->node_count; n++) {
        const char *name = session->graph->nodes[n].name;
        assert_int_equal(session->keeps[n], strcmp(name, "b.1") == 0 || strcmp(name, "s.2") == 0);
    }
    assert_int_equal(session->plan->stage[0].kept, 2);
    gp_session_close(&session);
}

static void what_is_not_named_is_found(void **state) {
    (void)state;
    gp_session *session = open_with("devices: [cpu, cpu, cpu, cpu]\n  balance: [d]");
    int64_t first = 0;
    bool there = false;
    for (int s = 0; s < 4; first += session->layers[s++]) there |= first == 5;
    assert_true(there);
    assert_int_equal(first, LAYERS);
    gp_session_close(&session);
}

static void together_forbids_cuts(void **state) {
    (void)state;
    /* All but one place is taken. */
    expect("devices: [cpu, cpu]\n  together: [[flat, d], [s, out]]", (const int64_t[]){6, 2}, 2);
    expect("devices: [cpu, cpu]\n  together: [[d, flat], [out, s]]", (const int64_t[]){6, 2}, 2);
    expect("devices: [cpu, cpu]\n  balance: size\n  together: [[flat, b], [c, out]]", (const int64_t[]){3, 5}, 2);
    expect("devices: [cpu, cpu, cpu]\n  balance: [s]\n  together: [[b.0, d], [s, out]]", (const int64_t[]){1, 5, 2}, 3);
}

static void wrong_names_are_refused_at_their_place(void **state) {
    (void)state;
    static const struct {
        const char *pipeline, *says;
    } cases[] = {
        {"devices: [cpu, cpu]\n  balance: [conv]",
         "c.yaml:19:13: pipeline.balance: the model has no layer \"conv\" (--expand lists them)"},
        {"devices: [cpu, cpu]\n  balance: [ouf]",
         "c.yaml:19:13: pipeline.balance: the model has no layer \"ouf\"; did you mean out?"},
        {"devices: [cpu, cpu, cpu]\n  balance: [d, flat]",
         "c.yaml:19:16: pipeline.balance: \"flat\" is part of the first layer; name the first layer of a "
         "later stage"},
        {"devices: [cpu, cpu]\n  balance: [s.1]",
         "c.yaml:19:13: pipeline.balance: \"s.1\" is inside a layer that cannot be cut; that layer begins "
         "with \"s.0\""},
        {"devices: [cpu, cpu, cpu]\n  balance: [d, c]",
         "c.yaml:19:16: pipeline.balance: \"c\" does not come after \"d\"; give the names in the order of the "
         "model"},
        {"devices: [cpu, cpu, cpu]\n  balance: [c, c.0]",
         "c.yaml:19:16: pipeline.balance: \"c.0\" does not come after \"c.0\"; give the names in the order of "
         "the model"},
        {"devices: [cpu, cpu]\n  balance: [c, d, out]", "c.yaml:19:16: pipeline.balance: names the layers that begin 3 "
                                                        "later stages, which takes 4 stages, but there are "
                                                        "2; list a device for each stage in pipeline.devices"},
        {"devices: [cpu]\n  balance: [c]", "c.yaml:19:13: pipeline.balance: names the layers that begin 1 later stage, "
                                           "which takes 2 stages, but there is 1; "
                                           "list a device for each stage in pipeline.devices"},
        {"devices: [cpu, cpu]\n  checkpoint: {keep: [c, bb]}",
         "c.yaml:19:26: pipeline.checkpoint.keep: the model has no layer \"bb\"; did you mean b.0?"},
        {"devices: [cpu, cpu]\n  together: [[c, bb]]",
         "c.yaml:19:18: pipeline.together: the model has no layer \"bb\"; did you mean b.0?"},
        {"devices: [cpu, cpu]\n  balance: [d]\n  together: [[c, s]]",
         "c.yaml:20:15: pipeline.together: layer \"d\" must begin a stage (pipeline.balance), but lies between "
         "layers that stay together"},
        {"devices: [cpu, cpu]\n  balance: [4, 4]\n  together: [[c.0, c.1]]",
         "c.yaml:19:12: pipeline.balance: stage 1 begins with layer \"c.1\", which pipeline.together keeps on one "
         "stage with the layer before it"},
        {"devices: [cpu, cpu]\n  together: [[flat, out]]",
         "c.yaml:19:15: pipeline.together: leaves 0 places to cut, but 2 stages need 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fixture_refused(with(cases[i].pipeline), NULL, GP_CONFIG, cases[i].says);
}

/* The configuration as it ran has numbers, and they give the same stages. */
static void the_resolved_balance_is_numbers(void **state) {
    (void)state;
    gp_error err = {0};
    char *text = NULL;
    gp_session *session = open_with("devices: [cpu, cpu, cpu]\n  balance: [c]\n  together: [[b.0, b.1]]");
    char wanted[64];
    assert_int_equal(gp_config_resolve(session->config, session->layers, 3, &err), GP_OK);
    assert_int_equal(gp_config_text(session->config, &text, &err), GP_OK);
    snprintf(wanted, sizeof wanted, "balance: [%d, %d, %d]", (int)session->layers[0], (int)session->layers[1],
             (int)session->layers[2]);
    assert_non_null(strstr(text, wanted));
    if (!strstr(text, "together:")) fail_msg("%s", text);
    free(text);
    gp_session_close(&session);
}

/* ---- unequal devices --------------------------------------------------------------------------------------------- */

/* The bottleneck of two stages, from the definitions: counted costs over threads; values that cross, and their way
 * back, at the counted rate; input and target where they are used. */
static double bottleneck_of(const gp_session *session, const int64_t *cost, const int64_t *behind, int cut,
                            int threads0, int threads1) {
    double sum[2] = {0};
    const gp_graph *graph = session->graph;
    for (int i = 0; i < LAYERS; i++)
        sum[i >= cut] += (double)(i >= cut ? behind : cost)[i] / (i >= cut ? threads1 : threads0);
    for (int v = 0; v < graph->value_count; v++) {
        const gp_value *value = &graph->values[v];
        int producer = value->producer < 0 ? -1 : graph->nodes[value->producer].unit;
        bool used[2] = {0};
        for (int u = 0; u < value->use_count; u++) used[graph->nodes[value->uses[u].node].unit >= cut] = true;
        gp_tensor tensor = gp_tensor_samples(value->dtype, 4, value->shape);
        double copy = 1e12 * (double)gp_align_up(gp_tensor_bytes(&tensor), GP_ALIGNMENT) / GP_COUNTED_BYTES_PER_SECOND;
        if (producer < 0 && used[0]) sum[0] += copy;
        if (used[1] && producer < cut) sum[1] += value->needs_grad ? 2 * copy : copy;
    }
    return sum[0] > sum[1] ? sum[0] : sum[1];
}

/* What recomputes by which mode counts where the stage stands; a kept output spares what was only needed for it. */
static void each_stage_costs_what_its_mode_asks(void **state) {
    (void)state;
    static const struct {
        const char *checkpoint;
        double recomputes[2];
        int spared; /* layers 1 to this one, or −1 */
    } cases[] = {{"[always, never]", {1, 0}, -1},
                 {"[never, always]", {0, 1}, -1},
                 {"[except_last, never]", {0.75, 0}, -1},
                 {"{mode: [always, never], keep: [b.1, c.1]}", {1, 0}, 4}};
    int cuts[4];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char pipeline[128];
        gp_error err = {0};
        int64_t cost[2][LAYERS], once[LAYERS];
        snprintf(pipeline, sizeof pipeline, "devices: [cpu, cpu]\n  checkpoint: %s", cases[i].checkpoint);
        gp_session *session = open_with(pipeline);
        fixture_count_cost(session, 0, once);
        for (int s = 0; s < 2; s++) fixture_count_cost(session, cases[i].recomputes[s], cost[s]);
        for (int l = 1; l <= cases[i].spared; l++) cost[0][l] = once[l]; /* c.0 and b.0 too: nobody else wants them */
        gp_balancing_costs costs;
        const gp_plan_choice choice = {4, false, GP_BALANCE_AUTO};
        assert_int_equal(gp_balancing_costs_init(&costs, session, &choice, &err), GP_OK);
        for (int s = 0; s < 2; s++)
            for (int l = 0; l < LAYERS; l++) assert_in_range(costs.stage_layers[s][l] - cost[s][l] + 2, 0, 4);
        gp_balancing_costs_fini(&costs);
        cuts[i] = (int)session->layers[0];
        double found = bottleneck_of(session, cost[0], cost[1], cuts[i], 1, 1);
        for (int cut = 1; cut < LAYERS; cut++)
            if (found > bottleneck_of(session, cost[0], cost[1], cut, 1, 1) * (1 + 1e-9))
                fail_msg("%s: %d before the cut, not %d", cases[i].checkpoint, cuts[i], cut);
        gp_session_close(&session);
    }
    assert_true(cuts[0] < cuts[1]);
}

static void expect_least(const char *devices, int threads0, int threads1, int *cut) {
    char pipeline[128];
    int64_t cost[LAYERS];
    snprintf(pipeline, sizeof pipeline, "devices: %s\n  checkpoint: never", devices);
    gp_session *session = open_with(pipeline);
    fixture_count_cost(session, 0, cost);
    *cut = (int)session->layers[0];
    double found = bottleneck_of(session, cost, cost, *cut, threads0, threads1);
    for (int other = 1; other < LAYERS; other++)
        if (bottleneck_of(session, cost, cost, other, threads0, threads1) < found - 4)
            fail_msg("%s: the cut at %d beats that at %d", devices, other, *cut);
    gp_session_close(&session);
}

static void faster_devices_get_more(void **state) {
    (void)state;
    int even, first, second;
    expect_least("[cpu, cpu]", 1, 1, &even);
    expect_least("[cpu: 4, cpu]", 4, 1, &first);
    expect_least("[cpu, cpu: 4]", 1, 4, &second);
    assert_true(first > even && even >= second);
}

static size_t arena_of(const char *pipeline, int worker) {
    gp_session *session = open_with(pipeline);
    size_t bytes = session->plan->arena[worker];
    gp_session_close(&session);
    return bytes;
}

static bool plan_fits(const gp_session *session, const int64_t *layers) {
    gp_error err = {0};
    gp_plan *plan = NULL;
    int worker;
    if (gp_session_plan_cut(session, layers, &plan, &err) != GP_OK) fail_msg("%s", err.text);
    bool fits = gp_memory_check(plan, &worker, &err) == GP_OK;
    gp_plan_destroy(&plan);
    return fits;
}

/* The arenas of all cuts of two stages are between these. */
static void range_of_arenas(size_t *least, size_t *most) {
    *least = SIZE_MAX;
    *most = 0;
    for (int cut = 1; cut < LAYERS; cut++) {
        char pipeline[64];
        snprintf(pipeline, sizeof pipeline, "devices: [cpu, cpu]\n  balance: [%d, %d]", cut, LAYERS - cut);
        for (int worker = 0; worker < 2; worker++) {
            size_t bytes = arena_of(pipeline, worker);
            if (bytes < *least) *least = bytes;
            if (bytes > *most) *most = bytes;
        }
    }
}

/* A limit for one stage or both, from too little to enough: where some cut's plan fits, a session has one that
 * does; where it has none, none fits. */
static void memory_is_kept_where_any_cut_keeps_it(void **state) {
    (void)state;
    int possible = 0, impossible = 0, moved = 0;
    gp_session *free_session = open_with("devices: [cpu, cpu]");
    const int64_t free_cut = free_session->layers[0];
    gp_session_close(&free_session);
    size_t least, most;
    range_of_arenas(&least, &most);
    const size_t first = least / 2, step = (most - first) / 20;
    for (int limited = 0; limited < 3; limited++)
        for (size_t limit = first; limit <= most + step; limit += step) {
            char pipeline[256], roomy[] = "{cpu: {memory: 1GiB}}", tight[64];
            gp_error err = {0};
            gp_session *session = NULL;
            snprintf(tight, sizeof tight, "{cpu: {memory: %zu}}", limit);
            snprintf(pipeline, sizeof pipeline, "devices: [%s, %s]", limited == 1 ? roomy : tight,
                     limited == 0 ? roomy : tight);
            gp_config *config = fixture_config(with(pipeline), NULL);
            gp_status status = gp_session_open(&config, NULL, &session, &err);
            bool some = false;
            for (int cut = 1; cut < LAYERS && !some; cut++) {
                char numbers[300];
                gp_error ignored = {0};
                gp_session *fixed = NULL;
                snprintf(numbers, sizeof numbers, "%s\n  balance: [%d, %d]", pipeline, cut, LAYERS - cut);
                gp_config *of = fixture_config(with(numbers), NULL);
                some = gp_session_open(&of, NULL, &fixed, &ignored) == GP_OK;
                gp_session_close(&fixed);
            }
            if ((status == GP_OK) != some)
                fail_msg("%s: %s", pipeline, some ? err.text : "a plan that none of the cuts has");
            if (status == GP_OK) {
                assert_true(plan_fits(session, session->layers));
                moved += session->layers[0] != free_cut;
                possible++;
            } else {
                assert_int_equal(status, GP_CONFIG);
                impossible++;
            }
            gp_session_close(&session);
        }
    assert_true(possible > 5 && impossible > 5 && moved > 1);
}

/* One with one thread, one with two and little memory: what is even by number is refused with the numbers, what is
 * found fits; more than fits nowhere is said to the byte. */
static void a_small_device_is_spared(void **state) {
    (void)state;
    static const char *const roomy = "devices: [cpu, {cpu: {threads: 2}}]";
    char devices[96], pipeline[160], wanted[200], needed[32], allowed[32];
    gp_error err = {0};
    gp_session *session = NULL;
    snprintf(pipeline, sizeof pipeline, "%s\n  balance: [3, 5]", roomy);
    size_t even = arena_of(pipeline, 1);
    snprintf(pipeline, sizeof pipeline, "%s\n  balance: [7, 1]", roomy);
    size_t limit = (arena_of(pipeline, 1) + even) / 2;
    assert_true(limit < arena_of(roomy, 1)); /* what is found without a limit does not fit either */

    snprintf(devices, sizeof devices, "devices: [cpu, {cpu: {threads: 2, memory: %zu}}]", limit);
    snprintf(pipeline, sizeof pipeline, "%s\n  balance: [3, 5]", devices);
    gp_config *config = fixture_config(with(pipeline), NULL);
    assert_int_equal(gp_session_open(&config, NULL, &session, &err), GP_CONFIG);
    snprintf(wanted, sizeof wanted,
             "c.yaml:18:19: the plan does not fit: worker 1 needs %s (%zu bytes), but its memory is %s (parameters ",
             gp_bytes_text(needed, even), even, gp_bytes_text(allowed, limit));
    if (!strstr(err.text, wanted) || !strstr(err.text, "; it fits with balance: auto"))
        fail_msg("%s, not %s", err.text, wanted);
    assert_int_equal(gp_status_exit(err.status), 2);
    session = open_with(devices);
    assert_true(session->plan->arena[1] <= limit);
    gp_session_close(&session);
    /* The weights of b.0 alone are 12 KiB. */
    config = fixture_config(with("devices: [{cpu: {memory: 6KiB}}, {cpu: {memory: 6KiB}}]"), NULL);
    assert_int_equal(gp_session_open(&config, NULL, &session, &err), GP_CONFIG);
    if (!strstr(err.text, "; by the sizes of single layers: layer \"b.0\" alone needs at least "))
        fail_msg("%s", err.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_begin_stages),
        cmocka_unit_test(names_are_kept),
        cmocka_unit_test(each_stage_costs_what_its_mode_asks),
        cmocka_unit_test(what_is_not_named_is_found),
        cmocka_unit_test(together_forbids_cuts),
        cmocka_unit_test(wrong_names_are_refused_at_their_place),
        cmocka_unit_test(the_resolved_balance_is_numbers),
        cmocka_unit_test(faster_devices_get_more),
        cmocka_unit_test(memory_is_kept_where_any_cut_keeps_it),
        cmocka_unit_test(a_small_device_is_spared),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
