/* Profiles as files: what is written reads back, what is damaged is refused with its place, and what a profile is of
 * decides whether it is used. */
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

#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "profile/profile_file.h"
#include "profile/profile_kept.h"

#define MODEL                                                                                                          \
    "input: {shape: [6]}\n"                                                                                            \
    "layers:\n"                                                                                                        \
    "  - linear: {name: a, out: 4}\n"                                                                                  \
    "  - relu: {name: b}\n"                                                                                            \
    "loss: cross_entropy\n"

typedef struct built {
    gp_yaml_document *document;
    gp_graph *graph;
} built;

static built build(const char *text) {
    built model = {0};
    gp_error err = {0};
    gp_status status = gp_yaml_parse(text, strlen(text), "m.yaml", &model.document, &err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(model.document), &model.graph, &err);
    if (status != GP_OK) fail_msg("%s", err.text);
    return model;
}

static void release(built *model) {
    gp_graph_destroy(&model->graph);
    gp_yaml_destroy(&model->document);
}

static const gp_device_spec cpu = {&gp_cpu_kind, 0, 1, 0};

static gp_profile *parse(const char *text) {
    gp_profile *profile = NULL;
    gp_error err = {0};
    if (gp_profile_parse(text, strlen(text), "p.json", &profile, &err) != GP_OK) fail_msg("%s", err.text);
    return profile;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *text, *sentence;
} bad[] = {
#include "profile/bad_profiles.inc"
};

static void what_is_damaged_is_refused_with_its_place(void **state) {
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gp_profile *profile = NULL;
        gp_error err = {0};
        gp_status status = gp_profile_parse(bad[i].text, strlen(bad[i].text), "p.json", &profile, &err);
        if (status == GP_DATA && strcmp(err.text, bad[i].sentence) == 0 && !profile) continue;
        print_error("%s\n  expected %s\n  but it is %s\n", bad[i].text, bad[i].sentence,
                    status == GP_OK ? "accepted" : err.text);
        gp_profile_destroy(&profile);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* Every prefix of a whole file is a sentence with a place. */
static void what_is_cut_off_is_refused(void **state) {
    (void)state;
    static const char text[] =
        "{\"gpipe_profile\": 2, \"micro_batch\": 8, \"devices\": [{\"device\": \"cpu\", \"threads\": 2,\n"
        "\"layers\": [{\"name\": \"a\", \"forward\": 1.5, \"backward\": 3}]}],\n"
        "\"copies\": [{\"from\": \"host\", \"to\": \"cpu\", \"latency\": 0.001, \"per_mib\": 0.1}],\n"
        "\"links\": {\"host\": {\"latency\": 0.02, \"per_mib\": 0.3}}}";
    for (size_t bytes = 0; bytes + 1 < sizeof text; bytes++) {
        gp_profile *profile = NULL;
        gp_error err = {0};
        assert_int_equal(gp_profile_parse(text, bytes, "p.json", &profile, &err), GP_DATA);
        if (strncmp(err.text, "p.json:", 7) != 0) fail_msg("%s", err.text);
    }
    gp_profile *profile = parse(text);
    gp_profile_destroy(&profile);
}

static void what_is_left_out_has_its_usual_value(void **state) {
    (void)state;
    gp_profile *profile =
        parse("{\"gpipe_profile\": 2, \"micro_batch\": 8, \"devices\": [{\"device\": \"cpu\", "
              "\"layers\": [{\"forward\": 3, \"backward\": 4}, {\"forward\": 1, "
              "\"backward_input\": 2, \"backward_weight\": 3, \"recompute\": 0.5, \"update\": 7}]}]}");
    const double *first = profile->devices[0].layers[0].time, *second = profile->devices[0].layers[1].time;
    assert_true(first[GP_PROFILE_TIME_FORWARD] == 3 * 1e-3);
    assert_true(first[GP_PROFILE_TIME_BACKWARD_INPUT] == 2 * 1e-3);
    assert_true(first[GP_PROFILE_TIME_BACKWARD_WEIGHT] == 2 * 1e-3);
    assert_true(first[GP_PROFILE_TIME_RECOMPUTE] == 3 * 1e-3);
    assert_true(first[GP_PROFILE_TIME_UPDATE] == 0 * 1e-3);
    assert_true(second[GP_PROFILE_TIME_BACKWARD_WEIGHT] == 3 * 1e-3);
    assert_true(second[GP_PROFILE_TIME_RECOMPUTE] == 0.5 * 1e-3);
    assert_true(second[GP_PROFILE_TIME_UPDATE] == 7 * 1e-3);
    assert_int_equal(profile->layer_count, 2);
    assert_null(profile->names[0]);
    assert_null(profile->identity.text[GP_PROFILE_TEXT_MACHINE]);
    assert_int_equal(profile->identity.samples, 8);
    assert_int_equal(profile->copy_count, 0);
    assert_false(gp_profile_has_links(profile));
    gp_profile_destroy(&profile);
    profile = parse("{\"gpipe_profile\": 2, \"micro_batch\": 8, \"devices\": [{\"device\": \"cpu\", "
                    "\"layers\": [{\"forward\": 3, \"backward\": 4}]}], \"links\": {\"network\": {\"per_mib\": 8}}}");
    assert_true(gp_profile_has_links(profile) && !profile->links[GP_LINK_HOST].known);
    assert_true(profile->links[GP_LINK_NETWORK].known && profile->links[GP_LINK_NETWORK].latency == 0);
    assert_true(profile->links[GP_LINK_NETWORK].per_byte == 8e-3 * 0x1p-20);
    gp_profile_destroy(&profile);
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    static const char text[] = "{\n"
                               "  \"gpipe_profile\": 2,\n"
                               "  \"machine\": \"a \\\"b\\\" é\",\n"
                               "  \"libraries\": \"\",\n"
                               "  \"program\": \"0.1.0\",\n"
                               "  \"model\": \"00000000000000ff\",\n"
                               "  \"micro_batch\": 16,\n"
                               "  \"devices\": [\n"
                               "    {\"device\": \"cuda:3\", \"threads\": 1, \"slowdown\": 1.25, \"spread\": 0.042, "
                               "\"layers\": [\n"
                               "      {\"name\": \"a\", \"forward\": 1.5, \"backward_input\": 0, "
                               "\"backward_weight\": 2, \"recompute\": 1.25, \"update\": 0.001}\n"
                               "    ]},\n"
                               "    {\"device\": \"cpu\", \"threads\": 2, \"slowdown\": 1, \"layers\": [\n"
                               "      {\"name\": \"a\", \"forward\": 1, \"backward_input\": 0, \"backward_weight\": 2, "
                               "\"recompute\": 1, \"update\": 3e-05}\n"
                               "    ]}\n"
                               "  ],\n"
                               "  \"copies\": [\n"
                               "    {\"from\": \"cpu\", \"to\": \"cuda\", \"latency\": 0.02, \"per_mib\": 0.0125}\n"
                               "  ],\n"
                               "  \"links\": {\n"
                               "    \"host\": {\"latency\": 0.03, \"per_mib\": 0.25},\n"
                               "    \"network\": {\"latency\": 0, \"per_mib\": 8.5}\n"
                               "  }\n"
                               "}\n";
    gp_profile *profile = parse(text);
    gp_error err = {0};
    char *written = NULL;
    assert_int_equal(gp_profile_text(profile, &written, &err), GP_OK);
    assert_string_equal(written, text);
    free(written);
    gp_profile_destroy(&profile);
}

/* ---- using ------------------------------------------------------------------------------------------------------- */

#define TIMES        "{\"forward\": 1, \"backward\": 2}"
#define NAMED(name)  "{\"name\": \"" name "\", \"forward\": 1, \"backward\": 2}"
#define FILE_OF(...) "{\"gpipe_profile\": 2, \"micro_batch\": 4, \"devices\": [" __VA_ARGS__ "]}"

static void check_use(const char *text, const gp_device_spec *spec, const char *sentence) {
    built model = build(MODEL);
    gp_profile *profile = parse(text);
    const gp_profile_identity now = {.model = 5, .samples = 4};
    gp_error err = {0};
    gp_status status = gp_profile_check(profile, model.graph, &now, spec, 1, &err);
    if (status != (sentence ? GP_DATA : GP_OK)) fail_msg("%d: %s", (int)status, err.text);
    if (sentence) assert_string_equal(err.text, sentence);
    gp_profile_destroy(&profile);
    release(&model);
}

static void another_models_or_devices_are_refused(void **state) {
    (void)state;
    const gp_device_spec two = {&gp_cpu_kind, 0, 2, 0};
    check_use(FILE_OF("{\"device\": \"cpu\", \"layers\": [" TIMES ", " TIMES "]}"), &cpu, NULL);
    check_use(FILE_OF("{\"device\": \"cpu\", \"layers\": [" NAMED("a") ", " NAMED("b") "]}"), &cpu, NULL);
    check_use(FILE_OF("{\"device\": \"cpu\", \"layers\": [" TIMES "]}"), &cpu,
              "p.json: the profile has 1 layer, but the model has 2");
    check_use(FILE_OF("{\"device\": \"cpu\", \"layers\": [" NAMED("a") ", " NAMED("c") "]}"), &cpu,
              "p.json: the profile is of another model: its layer 1 is \"c\", but the model\'s is \"b\"");
    check_use(FILE_OF("{\"device\": \"cpu\", \"layers\": [" TIMES ", " TIMES "]}"), &two,
              "p.json: the profile has no times for device cpu, 2 threads, only for cpu");
    check_use(FILE_OF("{\"device\": \"cuda:1\", \"layers\": [" TIMES ", " TIMES "]}, {\"device\": \"cpu\", "
                      "\"threads\": 4, \"layers\": [" TIMES ", " TIMES "]}"),
              &cpu, "p.json: the profile has no times for device cpu, only for cuda:1 and others");
    check_use("{\"gpipe_profile\": 2, \"model\": \"0000000000000006\", \"micro_batch\": 4, \"devices\": "
              "[{\"device\": \"cpu\", \"layers\": [" TIMES ", " TIMES "]}]}",
              &cpu,
              "p.json: the profile is of another model: its layers have the same names, but other options or shapes");
}

static gp_profile_identity identify(const char *model_text, int64_t samples, gp_update update) {
    built model = build(model_text);
    gp_profile_identity identity = {0};
    gp_error err = {0};
    const gp_identity_request request = {
        .graph = model.graph, .devices = &cpu, .device_count = 1, .update = &update, .samples = samples};
    if (gp_profile_identify(&request, &identity, &err) != GP_OK) fail_msg("%s", err.text);
    release(&model);
    return identity;
}

static const gp_update sgd = {.op = GP_OP_SGD, .states = 1};

/* Whether the identity is that of MODEL with 4 samples and sgd. */
static bool is_same(const char *model, int64_t samples, gp_update update) {
    gp_profile_identity one = identify(MODEL, 4, sgd), other = identify(model, samples, update);
    bool same = gp_profile_identity_equal(&one, &other);
    char *path = NULL, *other_path = NULL;
    gp_error err = {0};
    setenv("XDG_CACHE_HOME", "/nowhere", 1);
    assert_int_equal(gp_profile_path("profiles", &one, &cpu, 1, &path, &err), GP_OK);
    assert_int_equal(gp_profile_path("profiles", &other, &cpu, 1, &other_path, &err), GP_OK);
    assert_int_equal(strncmp(path, "/nowhere/gpipe/profiles/", 24), 0);
    assert_true((strcmp(path, other_path) == 0) == same);
    free(path);
    free(other_path);
    gp_profile_identity_fini(&one);
    gp_profile_identity_fini(&other);
    return same;
}

static void an_identity_is_of_all_that_matters(void **state) {
    (void)state;
    const gp_update plain = {.op = GP_OP_SGD}, adam = {.op = GP_OP_ADAM, .states = 2};
    assert_true(is_same(MODEL, 4, sgd));
    assert_true(is_same("input: {shape: [6]}\nlayers:\n  - linear: {name: x, out: 4}\n  - relu: {name: y}\n"
                        "loss: cross_entropy\n",
                        4, sgd)); /* names take no time */
    assert_false(is_same(MODEL, 5, sgd));
    assert_false(is_same(MODEL, 4, plain));
    assert_false(is_same(MODEL, 4, adam));
    static const char *const others[] = {
        "input: {shape: [7]}\nlayers:\n  - linear: {name: a, out: 4}\n  - relu: {name: b}\nloss: cross_entropy\n",
        "input: {shape: [6]}\nlayers:\n  - linear: {name: a, out: 5}\n  - relu: {name: b}\nloss: cross_entropy\n",
        "input: {shape: [6]}\nlayers:\n  - linear: {name: a, out: 4, bias: false}\n  - relu: {name: b}\n"
        "loss: cross_entropy\n",
        "input: {shape: [6]}\nlayers:\n  - linear: {name: a, out: 4}\n  - tanh: {name: b}\nloss: cross_entropy\n",
        "input: {shape: [6]}\nlayers:\n  - linear: {name: a, out: 4, freeze: true}\n  - relu: {name: b}\n"
        "loss: cross_entropy\n",
        "input: {shape: [6]}\nlayers:\n  - linear: {name: a, out: 4}\n  - relu: {name: b}\nloss: mse\n",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_same(others[i], 4, sgd)) fail_msg("case %zu is the same", i);
    gp_profile_identity one = identify(MODEL, 4, sgd), other = one;
    char *path = NULL, *other_path = NULL;
    gp_error err = {0};
    other.together = 2;
    assert_false(gp_profile_identity_equal(&one, &other));
    assert_int_equal(gp_profile_path("profiles", &one, &cpu, 1, &path, &err), GP_OK);
    assert_int_equal(gp_profile_path("profiles", &other, &cpu, 1, &other_path, &err), GP_OK);
    assert_string_not_equal(path, other_path);
    free(path);
    free(other_path);
    gp_profile_identity_fini(&one);
}

static void the_difference_is_told(void **state) {
    (void)state;
    gp_profile_identity one = identify(MODEL, 4, sgd);
    gp_profile_identity then = one;
    char *text = NULL;
    gp_error err = {0};
    assert_int_equal(gp_profile_describe_difference(&then, &one, &text, &err), GP_OK);
    assert_string_equal(text, "");
    free(text);
    then.together = 1;
    one.together = 2;
    assert_int_equal(gp_profile_describe_difference(&then, &one, &text, &err), GP_OK);
    assert_string_equal(text, "with 1 of the host's devices at work, not 2");
    free(text);
    then.together = 0; /* not said */
    char machine[] = "a phone, 8 CPUs", libraries[] = "oneDNN 9.9.9";
    then.text[GP_PROFILE_TEXT_MACHINE] = machine;
    then.text[GP_PROFILE_TEXT_LIBRARIES] = libraries;
    then.text[GP_PROFILE_TEXT_PROGRAM] = NULL; /* not said */
    then.samples = 32;
    assert_int_equal(gp_profile_describe_difference(&then, &one, &text, &err), GP_OK);
    assert_string_equal(text, "on another machine (a phone, 8 CPUs), with other libraries (oneDNN 9.9.9), with "
                              "micro-batches of 32");
    free(text);
    gp_profile_identity_fini(&one);
}

/* A profile as it would be measured, with made-up times. */
static gp_profile *make(const built *model) {
    gp_profile_identity identity = identify(MODEL, 4, sgd);
    gp_profile *profile = NULL;
    gp_error err = {0};
    assert_int_equal(gp_profile_create(&identity, model->graph, &cpu, 1, &profile, &err), GP_OK);
    for (int i = 0; i < 2; i++)
        for (int t = 0; t < GP_PROFILE_TIMES; t++) profile->devices[0].layers[i].time[t] = 1e-3 * i + t;
    return profile;
}

static gp_profile *find_kept(const char *path, const built *model, const gp_profile_identity *identity) {
    gp_profile *found = NULL;
    gp_error err = {0};
    assert_int_equal(gp_profile_find_kept(path, identity, model->graph, &cpu, 1, &found, &err), GP_OK);
    return found;
}

static void a_kept_profile_is_found_where_it_fits(void **state) {
    (void)state;
    char folder[] = "/tmp/gp-test-profile-XXXXXX", command[80];
    gp_error err = {0};
    char *path = NULL;
    built model = build(MODEL);
    gp_profile_identity identity = identify(MODEL, 4, sgd), other = identify(MODEL, 8, sgd);
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_int_equal(gp_profile_path("profiles", &identity, &cpu, 1, &path, &err), GP_OK);
    assert_null(find_kept(path, &model, &identity));
    gp_profile *profile = make(&model);
    profile->taken = 1763838164;
    assert_int_equal(gp_profile_keep(profile, path, &err), GP_OK);
    gp_profile *found = find_kept(path, &model, &identity);
    assert_non_null(found);
    assert_string_equal(found->path, path);
    assert_int_equal(found->taken, profile->taken);
    char *before = NULL, *after = NULL;
    assert_int_equal(gp_profile_text(profile, &before, &err), GP_OK);
    assert_int_equal(gp_profile_text(found, &after, &err), GP_OK);
    assert_string_equal(before, after);
    free(before);
    free(after);
    gp_profile_destroy(&found);
    assert_null(find_kept(path, &model, &other)); /* somebody copied it there */
    FILE *file = fopen(path, "w");
    fputs("{\"gpipe_profile\": 2", file);
    fclose(file);
    assert_null(find_kept(path, &model, &identity)); /* damaged: measured anew */
    gp_profile_destroy(&profile);
    gp_profile_identity_fini(&identity);
    gp_profile_identity_fini(&other);
    release(&model);
    free(path);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void without_a_folder_nothing_is_kept(void **state) {
    (void)state;
    gp_profile_identity identity = identify(MODEL, 4, sgd);
    gp_error err = {0};
    char *path = NULL;
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/home/x", 1);
    assert_int_equal(gp_profile_path("profiles", &identity, &cpu, 1, &path, &err), GP_OK);
    assert_int_equal(strncmp(path, "/home/x/.cache/gpipe/profiles/", 30), 0);
    free(path);
    unsetenv("HOME");
    assert_int_equal(gp_profile_path("profiles", &identity, &cpu, 1, &path, &err), GP_OK);
    assert_null(path);
    gp_profile_identity_fini(&identity);
}

/* The row of the device itself before that of its kind. */
static void rows_are_found_by_device(void **state) {
    (void)state;
    gp_profile *profile = parse(FILE_OF("{\"device\": \"cuda\", \"layers\": [" TIMES "]}, {\"device\": \"cuda:1\", "
                                        "\"layers\": [" TIMES "]}, {\"device\": \"cpu\", \"threads\": 2, \"layers\": "
                                        "[" TIMES "]}"));
    gp_device_kind kind = {.name = "cuda"};
    assert_ptr_equal(gp_profile_find(profile, &(gp_device_spec){&kind, 0, 1, 0}), &profile->devices[0]);
    assert_ptr_equal(gp_profile_find(profile, &(gp_device_spec){&kind, 1, 1, 0}), &profile->devices[1]);
    assert_ptr_equal(gp_profile_find(profile, &(gp_device_spec){&gp_cpu_kind, 0, 2, 0}), &profile->devices[2]);
    assert_null(gp_profile_find(profile, &cpu));
    gp_profile_destroy(&profile);
    const gp_device_spec all[] = {
        cpu, {&gp_cpu_kind, 0, 2, 100}, cpu, {&gp_cpu_kind, 0, 1, 70}, {&gp_cpu_kind, 0, 2, 0}};
    gp_device_spec distinct[5];
    assert_int_equal(gp_profile_distinct(all, 5, distinct), 2);
    assert_int_equal(distinct[0].threads, 1);
    assert_int_equal(distinct[1].threads, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_damaged_is_refused_with_its_place),
        cmocka_unit_test(what_is_cut_off_is_refused),
        cmocka_unit_test(what_is_left_out_has_its_usual_value),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(another_models_or_devices_are_refused),
        cmocka_unit_test(an_identity_is_of_all_that_matters),
        cmocka_unit_test(the_difference_is_told),
        cmocka_unit_test(a_kept_profile_is_found_where_it_fits),
        cmocka_unit_test(without_a_folder_nothing_is_kept),
        cmocka_unit_test(rows_are_found_by_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
