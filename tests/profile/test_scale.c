/* Profiles of other micro-batches: which one is nearest, what its times become, and what people are told of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "profile/cost.h"
#include "profile/profile_kept.h"
#include "profile/profile_words.h"
#include "profile/scale.h"

static const char model[] = "input: {shape: [64]}\n"
                            "layers: [linear: 64, relu, linear: 8]\n"
                            "loss: cross_entropy\n";
enum { LAYERS = 3 };

static const gp_device_spec cpu = {.kind = &gp_cpu_kind, .threads = 1};
static gp_yaml_document *document;
static gp_graph *graph;
static char folder[] = "/tmp/gp-test-scale-XXXXXX";

static int begin(void **state) {
    (void)state;
    gp_error err = {0};
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1) != 0) return -1;
    if (gp_yaml_parse(model, strlen(model), "m.yaml", &document, &err) != GP_OK) return -1;
    return gp_graph_build(gp_yaml_root(document), &graph, &err) == GP_OK ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    char command[80];
    gp_graph_destroy(&graph);
    gp_yaml_destroy(&document);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static gp_profile_identity identify(int64_t samples, int64_t together) {
    const gp_update sgd = {.op = GP_OP_SGD, .states = 1};
    const gp_identity_request request = {
        .graph = graph, .devices = &cpu, .device_count = 1, .update = &sgd, .samples = samples, .together = together};
    gp_profile_identity identity;
    gp_error err = {0};
    if (gp_profile_identify(&request, &identity, &err) != GP_OK) fail_msg("%s", err.text);
    return identity;
}

/* Every time of every layer is so many seconds. */
static gp_profile *make(int64_t samples, int64_t together, double seconds) {
    gp_profile_identity identity = identify(samples, together);
    gp_profile *profile = NULL;
    gp_error err = {0};
    if (gp_profile_create(&identity, graph, &cpu, 1, &profile, &err) != GP_OK) fail_msg("%s", err.text);
    for (int i = 0; i < LAYERS; i++)
        for (int t = 0; t < GP_PROFILE_TIMES; t++) profile->devices[0].layers[i].time[t] = seconds;
    return profile;
}

/* Where the profile of that many samples is kept, owned by the caller. */
static char *path_of(int64_t samples, int64_t together) {
    gp_profile_identity identity = identify(samples, together);
    char *path = NULL;
    gp_error err = {0};
    if (gp_profile_path("profiles", &identity, &cpu, 1, &path, &err) != GP_OK) fail_msg("%s", err.text);
    gp_profile_identity_fini(&identity);
    return path;
}

static void keep(int64_t samples, int64_t together, double seconds) {
    gp_profile *profile = make(samples, together, seconds);
    char *path = path_of(samples, together);
    gp_error err = {0};
    if (gp_profile_keep(profile, path, &err) != GP_OK) fail_msg("%s", err.text);
    free(path);
    gp_profile_destroy(&profile);
}

/* The nearest; NULL: none. */
static gp_profile *find(int64_t samples, int64_t together) {
    gp_profile_identity identity = identify(samples, together);
    gp_profile *found = NULL;
    gp_error err = {0};
    char *path = path_of(samples, together);
    if (gp_profile_find_near(path, &identity, graph, &cpu, 1, &found, &err) != GP_OK) fail_msg("%s", err.text);
    free(path);
    gp_profile_identity_fini(&identity);
    return found;
}

static gp_status count_cost(int64_t samples, int64_t *cost, gp_error *err) {
    const gp_cost_request request = gp_cost_assumed(graph, samples);
    return gp_cost_by_time(&request, cost, err);
}

static void times_change_as_counted_costs_do(void **state) {
    (void)state;
    gp_profile *profile = make(4, 1, 0.25);
    gp_error err = {0};
    int64_t before[LAYERS], after[LAYERS];
    assert_int_equal(count_cost(4, before, &err), GP_OK);
    assert_int_equal(count_cost(12, after, &err), GP_OK);
    assert_int_equal(gp_profile_scale(profile, graph, 12, &err), GP_OK);
    assert_int_equal(profile->scaled, 4);
    assert_int_equal(profile->identity.samples, 12);
    for (int i = 0; i < LAYERS; i++) {
        double ratio = (double)after[i] / (double)before[i];
        assert_true(ratio > 1 && ratio <= 3.001); /* parameters are read once, whatever the micro-batch */
        for (int t = 0; t < GP_PROFILE_TIMES; t++) {
            double is = profile->devices[0].layers[i].time[t] / 0.25;
            assert_true(fabs(is - (t == GP_PROFILE_TIME_UPDATE ? 1 : ratio)) < 1e-9);
        }
    }
    gp_profile_destroy(&profile);
}

static void expect_nearest(int64_t samples, int64_t together, int64_t wanted, int64_t its_together) {
    gp_profile *found = find(samples, together);
    assert_non_null(found);
    assert_int_equal(found->scaled ? found->scaled : found->identity.samples, wanted);
    assert_int_equal(found->identity.samples, samples);
    assert_int_equal(found->identity.together, its_together);
    assert_true(found->other_company == (together != its_together));
    gp_profile_destroy(&found);
}

static void the_nearest_micro_batch_is_taken(void **state) {
    (void)state;
    assert_null(find(4, 1));
    keep(2, 1, 0.25);
    keep(16, 1, 0.25);
    keep(7, 2, 0.25);
    for (int together = 20; together < 36; together++) keep(7, together, 0.25); /* whatever the folder's order */
    expect_nearest(3, 1, 2, 1);
    expect_nearest(9, 1, 16, 1);
    expect_nearest(100, 1, 16, 1);
    expect_nearest(7, 1, 16, 1); /* of as many devices at work, though another is nearer */
    expect_nearest(7, 2, 7, 2);
    char *path = path_of(16, 1);
    FILE *file = fopen(path, "w"); /* damaged: none */
    assert_non_null(file);
    fputs("{\"model\": ", file);
    fclose(file);
    free(path);
    expect_nearest(9, 1, 2, 1);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void expect_words(const gp_profile *profile, const char *source, const char *taking) {
    char *text = NULL;
    gp_error err = {0};
    assert_int_equal(gp_profile_source(profile, &text, &err), GP_OK);
    assert_string_equal(text, source);
    free(text);
    char age[GP_TAKING_TEXT];
    assert_string_equal(gp_profile_taking(age, profile, 1000000), taking);
}

static void sources_have_words(void **state) {
    (void)state;
    expect_words(NULL, "counted, with assumed rates; no profile fits; gpipe-balance measures one", "");
    gp_profile *counted = NULL;
    gp_error err = {0};
    const gp_device_spec two[] = {cpu, {.kind = &gp_cpu_kind, .threads = 2}};
    assert_int_equal(gp_profile_create_counted(two, 2, &counted, &err), GP_OK);
    expect_words(counted, "counted, with assumed rates; no profile fits; gpipe-balance measures one", "");
    counted->devices[1].rates.taken = 86400;
    expect_words(counted,
                 "counted, with this machine's measured rates of 1970-01-02, and assumed ones of some devices; no "
                 "profile fits",
                 "");
    counted->devices[0].rates.taken = 3 * 86400;
    expect_words(counted, "counted, with this machine's measured rates of 1970-01-02; no profile fits", "");
    counted->devices[0].rates.brief = true;
    expect_words(counted,
                 "counted, with this machine's briefly measured rates of 1970-01-02; no profile fits; gpipe-balance "
                 "measures one",
                 "");
    gp_profile_destroy(&counted);
    gp_profile *profile = make(1, 2, 0.25);
    expect_words(profile, "from the profile taken now", "slowdown 1.00");
    profile->taken = 1000000 - 7200;
    profile->devices[0].slowdown = 1.15;
    expect_words(profile, "from the profile taken now",
                 "taken 2 hours ago, slowdown 1.15: disturbed by other programs");
    profile->scaled = 1;
    profile->other_company = true;
    expect_words(profile,
                 "scaled from the profile taken now, of micro-batches of 1 sample, taken with 2 of the host's "
                 "devices at work",
                 "taken 2 hours ago, slowdown 1.15: disturbed by other programs");
    profile->devices[0].slowdown = 1.05;
    profile->devices[0].spread = 0.14;
    expect_words(profile,
                 "scaled from the profile taken now, of micro-batches of 1 sample, taken with 2 of the host's "
                 "devices at work",
                 "taken 2 hours ago, spread 14%: disturbed by other programs");
    gp_profile_destroy(&profile);
}

/* ---- spreads ----------------------------------------------------------------------------------------------------- */

static void expect_spread(const gp_profile *profile, double spread, bool disturbed) {
    assert_true(fabs(gp_profile_spread(profile) - spread) < 1e-9);
    assert_int_equal(gp_profile_is_disturbed(profile), disturbed);
}

/* Both slowdown and spread count, of the device that is worst; a profile by hand is exact. */
static void spreads_say_what_can_be_told_apart(void **state) {
    (void)state;
    expect_spread(NULL, GP_SPREAD_COUNTED, false);
    gp_profile *profile = make(4, 1, 0.25);
    profile->taken = 0;
    expect_spread(profile, 0, false);
    profile->taken = 1000000;
    expect_spread(profile, GP_SPREAD_LEAST, false);
    profile->devices[0].spread = 0.04;
    expect_spread(profile, 0.04, false);
    profile->devices[0].slowdown = 1.12;
    expect_spread(profile, 0.16, false);
    profile->devices[0].slowdown = 1.16;
    expect_spread(profile, 0.20, true);
    profile->devices[0].slowdown = 0.9;
    profile->devices[0].spread = 0.1;
    expect_spread(profile, 0.1, true);
    profile->devices[0].spread = 0;
    profile->scaled = 2;
    expect_spread(profile, GP_SPREAD_LEAST + GP_SPREAD_SCALED, false);
    gp_profile_destroy(&profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_change_as_counted_costs_do),
        cmocka_unit_test(the_nearest_micro_batch_is_taken),
        cmocka_unit_test(sources_have_words),
        cmocka_unit_test(spreads_say_what_can_be_told_apart),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
