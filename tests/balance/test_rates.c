/* Rates: how they make costs of counted work, how they follow from timed ops, and the files that keep them. */
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

#include "balance/cost.h"
#include "balance/expect.h"
#include "balance/load.h"
#include "balance/rates_file.h"
#include "balance/rates_measure.h"
#include "balance/when.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"

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
    assert_int_equal(gp_cost_by_time(graph, 16, 0.5, assumed, &err), GP_OK);
    assert_int_equal(gp_cost_at_rates(graph, 16, 0.5, &rates, fast, &err), GP_OK);
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
                                     .real = GP_F32,
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
    gp_rated_op ops[] = {{0, 0, 0},     {6e9, 1e6, 0}, {3e9, 1e8, 0}, {1e9, 1e3, 0},
                         {1e3, 5e8, 0}, {1e6, 2e8, 0}, {1e3, 1e9, 0}};
    const size_t count = sizeof ops / sizeof *ops;
    const gp_rates truth = {.flops = 3e9, .bytes = 5e8, .latency = 1e-3};
    for (size_t i = 0; i < count; i++) ops[i].seconds = gp_rates_seconds(&truth, ops[i].flops, ops[i].bytes);
    gp_rates rates = gp_rates_assumed(1);
    gp_rates_fit(ops, count, &rates);
    expect_near(rates.flops, truth.flops);
    expect_near(rates.bytes, truth.bytes);
    expect_near(rates.latency, truth.latency);
    gp_rates none = gp_rates_assumed(1);
    gp_rates_fit(ops, 0, &none);
    expect_near(none.flops, GP_COUNTED_FLOPS_PER_SECOND);
    gp_rates_fit(&ops[1], 2, &none); /* of ops that compute: the rate of bytes stays */
    expect_near(none.bytes, GP_COUNTED_BYTES_PER_SECOND);
}

static uint64_t now;

static uint64_t fake_clock(void) {
    return now;
}

/* Computes nothing; takes as long as these rates say. */
static const gp_rates fake = {.flops = 1e9, .bytes = 2e8, .latency = 2e-6};
static gp_status run(gp_stream *stream, const gp_prepared *prepared, void *const operands[], void *workspace,
                     const gp_op_args *args, gp_error *err) {
    (void)stream, (void)operands, (void)workspace, (void)args, (void)err;
    now += (uint64_t)(1e9 * gp_rates_seconds(&fake, prepared->flops, prepared->bytes));
    return GP_OK;
}

static void a_device_is_measured_by_its_ops(void **state) {
    (void)state;
    gp_device_kind kind = gp_ref_kind;
    gp_rates rates;
    gp_error err = {0};
    kind.run = run;
    if (gp_rates_measure(&(gp_device_spec){.kind = &kind, .threads = 1}, 1e-9, fake_clock, &rates, &err) != GP_OK)
        fail_msg("%s", err.text);
    assert_true(fabs(rates.flops / fake.flops - 1) < 0.05 && fabs(rates.bytes / fake.bytes - 1) < 0.05);
    assert_true(rates.latency < 1e-4 && rates.copy_bytes > 0 && rates.taken > 0);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/gp-test-rates-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[80];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static const gp_rates some = {.flops = 55e9, .bytes = 8e9, .latency = 4e-7, .copy_bytes = 2e10, .taken = 1763838164};

static bool find(const gp_device_spec *spec, gp_rates *out, char **warning) {
    bool found = false;
    gp_error err = {0};
    if (gp_rates_find(spec, out, &found, warning, &err) != GP_OK) fail_msg("%s", err.text);
    return found;
}

static void keep(const gp_device_spec *spec) {
    gp_error err = {0};
    if (gp_rates_keep(spec, &some, &err) != GP_OK) fail_msg("%s", err.text);
}

static char *path_of(const gp_device_spec *spec) {
    char *path = NULL;
    gp_error err = {0};
    if (gp_rates_path(spec, &path, &err) != GP_OK) fail_msg("%s", err.text);
    return path;
}

static void what_is_kept_is_found(void **state) {
    (void)state;
    gp_device_spec three = cpu;
    const gp_device_spec other = {.kind = &gp_ref_kind, .threads = 1};
    gp_rates rates;
    char *warning = NULL;
    assert_false(find(&cpu, &rates, &warning));
    assert_null(warning);
    keep(&cpu);
    assert_true(find(&cpu, &rates, &warning));
    expect_near(rates.flops, some.flops);
    expect_near(rates.bytes, some.bytes);
    expect_near(rates.latency, some.latency);
    expect_near(rates.copy_bytes, some.copy_bytes);
    assert_int_equal(rates.taken, some.taken);
    assert_false(find(&other, &rates, &warning)); /* another kind */
    three.threads = 3;
    assert_true(find(&three, &rates, &warning));
    expect_near(rates.flops, 3 * some.flops);
    keep(&three);
    assert_true(find(&three, &rates, &warning)); /* its own come first */
    expect_near(rates.flops, some.flops);
    assert_null(warning);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_damaged(const char *path, const char *text, const char *why) {
    gp_rates rates;
    char *warning = NULL, wanted[400];
    write_file(path, text);
    assert_false(find(&cpu, &rates, &warning));
    snprintf(wanted, sizeof wanted, "%s:%s; the file is ignored, gpipe-balance replaces it", path, why);
    assert_non_null(warning);
    assert_string_equal(warning, wanted);
    free(warning);
}

/* The kept text with one part in it replaced. */
static const char *with(const char *text, const char *old, const char *new) {
    static char changed[1000];
    const char *at = strstr(text, old);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return changed;
}

static void a_damaged_file_is_ignored_with_a_warning(void **state) {
    (void)state;
    char *path = path_of(&cpu), text[1000] = "", *warning = NULL;
    gp_rates rates;
    keep(&cpu);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 100);
    fclose(file);
    expect_damaged(path, "", "1:1: \"gpipe_rates\" is missing: the file holds no rates");
    expect_damaged(path, "{}", "1:1: \"gpipe_rates\" is missing: the file holds no rates");
    expect_damaged(path, with(text, "55.0", "0"), "8:13: gflops: 0 is too small; it must be at least 0.001");
    expect_damaged(path, with(text, "\"gb_per_s\"", "\"gb\""), "1:1: \"gb_per_s\" is missing");
    expect_damaged(path, with(text, "2025-", "2025/"),
                   "6:12: \"taken\" must be a time such as \"2026-11-22T19:02:44Z\"");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(find(&cpu, &rates, &warning));
    assert_non_null(warning);
    free(warning);
    warning = NULL;
    rmdir(path);
    write_file(path, with(text, "\"gpipe_rates\": 1", "\"gpipe_rates\": 2")); /* of a later version */
    assert_false(find(&cpu, &rates, &warning));
    assert_null(warning);
    write_file(path, with(text, "\"machine\": \"", "\"machine\": \"not ")); /* of another machine */
    assert_false(find(&cpu, &rates, &warning));
    assert_null(warning);
    write_file(path, text);
    assert_true(find(&cpu, &rates, &warning));
    free(path);
}

/* ---- time and load ----------------------------------------------------------------------------------------------- */

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

static void load_is_what_others_leave_too_little_for(void **state) {
    (void)state;
    assert_false(gp_load_is_high(0, 2, 2));
    assert_true(gp_load_is_high(0.5, 2, 2));
    assert_false(gp_load_is_high(0.2, 2, 2));
    assert_false(gp_load_is_high(10, 2, 64));
    assert_true(gp_load_is_high(63, 2, 64));
    assert_true(gp_load_is_high(1, 8, 2));   /* more threads than processors: they need all */
    assert_false(gp_load_is_high(-1, 2, 2)); /* not known */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_takes_the_slower_of_two_and_the_latency),
        cmocka_unit_test(layers_cost_what_rates_say),
        cmocka_unit_test(a_plan_takes_what_rates_say),
        cmocka_unit_test(rates_follow_from_times),
        cmocka_unit_test(a_device_is_measured_by_its_ops),
        cmocka_unit_test(what_is_kept_is_found),
        cmocka_unit_test(a_damaged_file_is_ignored_with_a_warning),
        cmocka_unit_test(times_are_texts),
        cmocka_unit_test(load_is_what_others_leave_too_little_for),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
