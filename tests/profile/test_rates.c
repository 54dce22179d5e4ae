/* Rates: how they make costs of counted work, how they follow from timed ops, and where they are kept. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "balance/expect.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "profile/cost.h"
#include "profile/rates_measure.h"
#include "profile/when.h"

static const gp_device_spec cpu = {.kind = &gp_cpu_kind, .threads = 1};

static void expect_near(double is, double should) {
    if (!(fabs(is - should) <= 1e-5 * fabs(should))) fail_msg("%.17g is not %.17g", is, should);
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

static void an_op_takes_the_slower_of_two_and_the_latency(void **state) {
    (void)state;
    const gp_rates rates = {.flops = 2e9, .bytes = 1e9, .latency = 0.5}, assumed = gp_rates_assumed(3);
    expect_near(gp_rates_seconds(&rates, 4e9, 1e9), 2.5);
    expect_near(gp_rates_seconds(&rates, 2e9, 3e9), 3.5);
    expect_near(gp_rates_seconds(&assumed, 3 * GP_COUNTED_FLOPS_PER_SECOND, 0), 1);
    expect_near(gp_rates_seconds(&assumed, 0, 3 * GP_COUNTED_BYTES_PER_SECOND), 1);
    assert_int_equal(assumed.taken, 0);
    const gp_rates two = gp_rates_of_threads(&rates, 2);
    expect_near(gp_rates_seconds(&two, 8e9, 0), 2.5);
}

static gp_graph *build(const char *text, gp_yaml_document **document) {
    gp_graph *graph = NULL;
    gp_error err = {0};
    gp_status status = gp_yaml_parse(text, strlen(text), "m.yaml", document, &err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(*document), &graph, &err);
    if (status != GP_OK) fail_msg("%s", err.text);
    return graph;
}

static const char model[] = "input: {shape: [64]}\n"
                            "layers: [linear: 64, relu, linear: 8]\n"
                            "loss: cross_entropy\n";

/* Twice as fast a device costs half as much. */
static void layers_cost_what_rates_say(void **state) {
    (void)state;
    gp_yaml_document *document = NULL;
    gp_graph *graph = build(model, &document);
    gp_rates rates = gp_rates_assumed(1);
    int64_t assumed[3], fast[3];
    gp_error err = {0};
    rates.flops *= 2;
    rates.bytes *= 2;
    gp_cost_request request = gp_cost_assumed(graph, 16);
    request.recomputes = 0.5;
    assert_int_equal(gp_cost_by_time(&request, assumed, &err), GP_OK);
    request.rates = rates;
    assert_int_equal(gp_cost_by_time(&request, fast, &err), GP_OK);
    for (int i = 0; i < 3; i++) assert_true(llabs(assumed[i] - 2 * fast[i]) <= 2 && fast[i] > 0);
    gp_graph_destroy(&graph);
    gp_yaml_destroy(&document);
}

static gp_plan *make_plan(const gp_graph *graph) {
    const int64_t layers[] = {1, 2};
    const gp_device_spec devices[] = {cpu, cpu};
    const gp_mini_size size = {32, true};
    const gp_plan_request request = {.graph = graph,
                                     .layers = layers,
                                     .stages = 2,
                                     .devices = devices,
                                     .update = {.op = GP_OP_SGD},
                                     .batch = 32,
                                     .micro_batches = 4,
                                     .checkpoint = GP_CHECKPOINT_ALWAYS,
                                     .sizes = &size,
                                     .size_count = 1};
    gp_plan *plan = NULL;
    gp_error err = {0};
    if (gp_plan_create(&request, &plan, &err) != GP_OK) fail_msg("%s", err.text);
    return plan;
}

static double predict(const gp_plan *plan, const gp_profile *profile) {
    gp_expectation expected;
    gp_error err = {0};
    if (gp_expect(plan, 0, profile, &expected, &err) != GP_OK) fail_msg("%s", err.text);
    free(expected.busy);
    return expected.seconds;
}

/* Computations and copies: a profile that has rates only, and assumed ones, predicts what none does. */
static void a_plan_takes_what_rates_say(void **state) {
    (void)state;
    gp_yaml_document *document = NULL;
    gp_graph *graph = build(model, &document);
    gp_plan *plan = make_plan(graph);
    gp_profile *profile = NULL;
    gp_error err = {0};
    assert_int_equal(gp_profile_create_counted(&cpu, 1, &profile, &err), GP_OK);
    assert_true(gp_profile_is_counted(profile) && gp_profile_is_counted(NULL));
    expect_near(predict(plan, profile), predict(plan, NULL));
    gp_rates *rates = &profile->devices[0].rates;
    rates->flops *= 4;
    rates->bytes *= 4;
    rates->copy_bytes *= 4;
    expect_near(predict(plan, profile), predict(plan, NULL) / 4);
    rates->latency = 1;
    assert_true(predict(plan, profile) > 10);
    rates->latency = 0;
    rates->copy_latency = 1;
    assert_true(predict(plan, profile) > 1);
    gp_profile_destroy(&profile);
    gp_plan_destroy(&plan);
    gp_graph_destroy(&graph);
    gp_yaml_destroy(&document);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* Ops of 3e9 operations and 5e8 bytes a second, each 1 ms beside. */
static void rates_follow_from_times(void **state) {
    (void)state;
    gp_timed_work work[] = {{0, 0, 0, 1},     {6e9, 1e6, 0, 2}, {3e9, 1e8, 0, 1}, {1e9, 1e3, 0, 1},
                            {1e3, 5e8, 0, 3}, {1e6, 2e8, 0, 1}, {1e3, 1e9, 0, 1}, {1e9, 1e9, 0, 0}};
    const size_t count = sizeof work / sizeof *work;
    const gp_rates truth = {.flops = 3e9, .bytes = 5e8, .latency = 1e-3};
    for (size_t i = 0; i < count; i++)
        work[i].seconds = gp_rates_seconds(&truth, work[i].flops, work[i].bytes) + (work[i].ops - 1) * truth.latency;
    gp_rates rates = gp_rates_assumed(1);
    gp_rates_fit(work, count, &rates);
    expect_near(rates.flops, truth.flops);
    expect_near(rates.bytes, truth.bytes);
    expect_near(rates.latency, truth.latency);
    gp_rates none = gp_rates_assumed(1);
    gp_rates_fit(work, 0, &none);
    expect_near(none.flops, GP_COUNTED_FLOPS_PER_SECOND);
    gp_rates_fit(&work[1], 2, &none); /* of ops that compute: the rate of bytes stays */
    expect_near(none.bytes, GP_COUNTED_BYTES_PER_SECOND);
}

static uint64_t now;

static uint64_t fake_clock(void) {
    return now;
}

/* Computes nothing; takes as long as these rates say. */
static const gp_rates fake = {.flops = 1e9, .bytes = 2e8, .latency = 2e-6};
static gp_status run(gp_stream *stream, const gp_device_op *op, const gp_op_args *args, gp_error *err) {
    (void)stream, (void)args, (void)err;
    now += (uint64_t)(1e9 * gp_rates_seconds(&fake, op->prepared->flops, op->prepared->bytes));
    return GP_OK;
}

static char folder[] = "/tmp/gp-test-rates-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[80];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void expect_fake(const gp_rates *rates, double factor) {
    double flops = rates->flops / fake.flops / factor, bytes = rates->bytes / fake.bytes / factor;
    if (!(fabs(flops - 1) < 0.05 && fabs(bytes - 1) < 0.05)) fail_msg("%g %g", flops, bytes);
    assert_true(rates->latency < 1e-4 && rates->copy_bytes > 0 && rates->taken > 0);
}

static bool find(const gp_device_spec *spec, gp_rates *out) {
    bool found = false;
    gp_error err = {0};
    if (gp_rates_find(spec, out, &found, &err) != GP_OK) fail_msg("%s", err.text);
    return found;
}

/* It has any number of threads. */
static gp_status open_any(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    gp_device_spec one = *spec;
    one.threads = 1;
    return gp_ref_kind.open(&one, out, err);
}

/* A device is measured by its ops, and what is kept is found. The rates of three threads follow from those of one,
 * until they are measured. */
static void a_device_is_measured_once(void **state) {
    (void)state;
    gp_device_kind kind = gp_ref_kind;
    kind.run = run;
    kind.open = open_any;
    const gp_device_spec one = {.kind = &kind, .threads = 1}, three = {.kind = &kind, .threads = 3};
    gp_rates rates;
    gp_error err = {0};
    assert_false(find(&one, &rates));
    if (gp_rates_measure(&one, false, 1e-9, fake_clock, &rates, &err) != GP_OK) fail_msg("%s", err.text);
    expect_fake(&rates, 1);
    assert_true(find(&one, &rates));
    expect_fake(&rates, 1);
    assert_false(find(&cpu, &rates)); /* another kind */
    assert_true(find(&three, &rates));
    expect_fake(&rates, 3);
    if (gp_rates_measure(&three, false, 1e-9, fake_clock, &rates, &err) != GP_OK) fail_msg("%s", err.text);
    assert_true(find(&three, &rates));
    expect_fake(&rates, 1);
}

/* From a network of its own; a whole measurement comes first, whichever was the last. */
static void brief_rates_are_the_last_choice(void **state) {
    (void)state;
    gp_device_kind kind = gp_ref_kind;
    kind.run = run;
    kind.name = "brief";
    kind.open = open_any;
    const gp_device_spec one = {.kind = &kind, .threads = 1}, two = {.kind = &kind, .threads = 2};
    gp_rates rates;
    gp_error err = {0};
    if (gp_rates_measure(&one, true, 1e-9, fake_clock, &rates, &err) != GP_OK) fail_msg("%s", err.text);
    expect_fake(&rates, 1);
    assert_true(rates.brief);
    assert_true(find(&one, &rates) && rates.brief);
    expect_fake(&rates, 1);
    assert_false(find(&two, &rates)); /* those of as many threads */
    if (gp_rates_measure(&one, false, 1e-9, fake_clock, &rates, &err) != GP_OK) fail_msg("%s", err.text);
    assert_true(find(&one, &rates) && !rates.brief);
    if (gp_rates_measure(&two, true, 1e-9, fake_clock, &rates, &err) != GP_OK) fail_msg("%s", err.text);
    assert_true(find(&two, &rates) && !rates.brief);
    expect_fake(&rates, 2);
}

/* Predictions take brief rates, choices take assumed ones. */
static void brief_rates_choose_nothing(void **state) {
    (void)state;
    gp_profile *profile = NULL;
    gp_error err = {0};
    assert_int_equal(gp_profile_create_counted(&cpu, 1, &profile, &err), GP_OK);
    gp_rates *rates = &profile->devices[0].rates;
    rates->flops = 123;
    assert_true(gp_profile_choosing_rates(profile, &cpu).flops == 123);
    rates->brief = true;
    assert_true(gp_profile_rates(profile, &cpu).flops == 123);
    assert_true(gp_profile_choosing_rates(profile, &cpu).flops == GP_COUNTED_FLOPS_PER_SECOND);
    assert_true(gp_profile_choosing_rates(NULL, &cpu).flops == GP_COUNTED_FLOPS_PER_SECOND);
    gp_profile_destroy(&profile);
}

/* It is measured again. */
static void a_damaged_file_is_not_found(void **state) {
    (void)state;
    char command[200];
    gp_device_kind kind = gp_ref_kind;
    kind.run = run;
    const gp_device_spec spec = {.kind = &kind, .threads = 1};
    gp_rates rates;
    assert_true(find(&spec, &rates));
    snprintf(command, sizeof command, "for f in %s/gpipe/rates/*; do echo '{' > $f; done", folder);
    assert_int_equal(system(command), 0);
    assert_false(find(&spec, &rates));
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void times_are_texts(void **state) {
    (void)state;
    char text[GP_WHEN_TEXT];
    int64_t when = 0;
    assert_string_equal(gp_when_text(text, 1763838164), "2025-11-22T19:02:44Z");
    assert_string_equal(gp_when_date(text, 1763838164), "2025-11-22");
    assert_true(gp_when_parse("2025-11-22T19:02:44Z", &when));
    assert_int_equal(when, 1763838164);
    static const char *const wrong[] = {"",
                                        "2025-11-22",
                                        "2025-11-22T19:02:44",
                                        "2025-11-22T19:02:44Z ",
                                        "2025-13-22T19:02:44Z",
                                        "2025-11-22T25:02:44Z",
                                        "1969-11-22T19:02:44Z"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(gp_when_parse(wrong[i], &when));
    assert_string_equal(gp_when_age(text, 1000, 1030), "just now");
    assert_string_equal(gp_when_age(text, 1000, 1060), "1 minute ago");
    assert_string_equal(gp_when_age(text, 1000, 1000 + 7300), "2 hours ago");
    assert_string_equal(gp_when_age(text, 1000, 1000 + 86400 * 40), "40 days ago");
    assert_string_equal(gp_when_age(text, 1000, 999), "in the future");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_takes_the_slower_of_two_and_the_latency),
        cmocka_unit_test(layers_cost_what_rates_say),
        cmocka_unit_test(a_plan_takes_what_rates_say),
        cmocka_unit_test(rates_follow_from_times),
        cmocka_unit_test(a_device_is_measured_once),
        cmocka_unit_test(brief_rates_are_the_last_choice),
        cmocka_unit_test(brief_rates_choose_nothing),
        cmocka_unit_test(a_damaged_file_is_not_found),
        cmocka_unit_test(times_are_texts),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
