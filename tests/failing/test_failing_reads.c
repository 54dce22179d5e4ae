/* What comes before a run (configurations, plans, their reports, data) where memory, files and threads are refused.
 *
 *   test_failing_reads [TIMES]   of each scenario, at most
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zlib.h>

#include "data/loader.h"
#include "device/cpu/cpu.h"
#include "failing/each.h"
#include "failing/opened.h"
#include "profile/rates_measure.h"
#include "report/balance_report.h"
#include "report/balance_write.h"
#include "report/expand.h"
#include "report/plan_report.h"
#include "session/fixture.h"
#include "tune/search.h"

/* Something of everything that a configuration can hold. */
static const char everything[] =
    "model:\n"
    "  input: {shape: [1, 12, 12]}\n"
    "  layers:\n"
    "    - conv: {name: stem, out: 4, kernel: 3, pad: 1, init: {weight: {normal: 0.02}, bias: 0}}\n"
    "    - sequential:\n"
    "        name: block\n"
    "        layers:\n"
    "          - conv: {out: 4, kernel: [3, 1], pad: [1, 0], freeze: true}\n"
    "          - group_norm: {groups: 2}\n"
    "          - add: [-1, input]\n"
    "    - concat: [block, stem]\n"
    "    - max_pool: {kernel: 2, ceil: true}\n"
    "    - leaky_relu: 0.1\n"
    "    - flatten\n"
    "    - dropout: 0.2\n"
    "    - linear: 10\n"
    "  loss: {cross_entropy: {smoothing: 0.1}}\n"
    "data:\n"
    "  train:\n"
    "    idx: {images: images.gz, labels: labels, mean: 0.1, std: 0.5}\n"
    "    take: [2, 40]\n"
    "    transform:\n"
    "      - random_crop: {size: [12, 12], pad: [1, 1, 1, 1], fill: [0.5]}\n"
    "      - random_horizontal_flip\n"
    "      - normalize: {mean: [0.5], std: 0.25}\n"
    "      - random_erasing: {p: 0.5, value: 0.1}\n"
    "  eval: {synthetic: {samples: 7, seed: 3}}\n"
    "  batch: 8\n"
    "  threads: 2\n"
    "pipeline:\n"
    "  devices: [cpu, {cpu: {threads: 2, memory: 1GiB, count: 2}}]\n"
    "  balance: [2, 3, 3]\n"
    "  micro_batches: 3\n"
    "  checkpoint: always\n"
    "optimizer:\n"
    "  adamw: {lr: 1e-3, betas: [0.8, 0.99]}\n"
    "  lr_schedule: {multistep: {milestones: [3, 6]}}\n"
    "  warmup: {length: 2, from: 0.1}\n"
    "  clip_norm: 1\n"
    "  no_decay: norms_and_biases\n"
    "train: {epochs: 2, save_every: 3, seed: 4}\n";

static const char builtin[] =
    "model: {resnet: {depth: 18, classes: 10}, input: {shape: [3, 32, 32]}, loss: cross_entropy}\n"
    "data: {train: {synthetic: {samples: 32}}, batch: 8}\n"
    "pipeline: {devices: [cpu, cpu, cpu], micro_batches: 4}\n"
    "optimizer: {sgd: 0.1}\n"
    "train: {epochs: 1}\n";

static const char balanced[] = "model:\n"
                               "  input: {shape: [6]}\n"
                               "  layers: [linear: 8, relu, linear: 8, relu, linear: 4]\n"
                               "  loss: cross_entropy\n"
                               "data: {train: {synthetic: {samples: 32}}, batch: 8}\n"
                               "pipeline: {devices: [cpu, cpu], micro_batches: 2}\n"
                               "optimizer: {sgd: {lr: 0.1, momentum: 0.9}}\n"
                               "train: {epochs: 1}\n";

/* None of its ops is oneDNN's, whose workspaces differ by processor: the memory decides alike on every machine. */
static const char searched[] = "model:\n"
                               "  input: {shape: [16, 16]}\n"
                               "  layers: [layer_norm, gelu, layer_norm, gelu, layer_norm]\n"
                               "  loss: cross_entropy\n"
                               "data: {train: {synthetic: {samples: 32}}, batch: 4}\n"
                               "pipeline: {devices: [{cpu: {memory: 18500}}], micro_batches: 2}\n"
                               "optimizer: {sgd: {lr: 0.1, momentum: 0.9}}\n"
                               "train: {epochs: 1}\n";
static const char searched_times[] =
    "{\"gpipe_profile\": 2, \"micro_batch\": 2, \"devices\": [{\"device\": \"cpu\", \"layers\": ["
    "{\"forward\": 1, \"backward\": 2}, {\"forward\": 1, \"backward\": 2}, {\"forward\": 1, \"backward\": 2}, "
    "{\"forward\": 1, \"backward\": 2}, {\"forward\": 1, \"backward\": 2}]}]}\n";

/* ---- scenarios --------------------------------------------------------------------------------------------------- */

static gp_status expand_configuration(gp_error *err) {
    gp_config *config = NULL;
    char *text = NULL;
    size_t bytes = 0;
    const char *const changes[] = {"train.seed=7", "model.layers.1.sequential.layers.1=batch_norm",
                                   "data.train.transform.0.random_crop.fill=0", NULL};
    GP_RETURN_IF_FAILED(opened_config("everything.yaml", changes, &config, err));
    FILE *out = open_memstream(&text, &bytes);
    if (!out) {
        gp_config_destroy(&config);
        return gp_fail(err, GP_MEMORY, "the scenario's own");
    }
    gp_status status = gp_expand(&config, out, err);
    if (fclose(out) != 0 && status == GP_OK) status = gp_fail(err, GP_IO, "the scenario's own");
    free(text);
    return status;
}

/* A file that was read is closed without asking how that went. */
static bool was_only_closed(const char *failed) {
    return strcmp(failed, "close") == 0;
}

/* A plan is made without what the machine says of its memory, and with arrays that are larger than they need be. */
static bool was_closed_or_unknown_or_large(const char *failed) {
    return was_only_closed(failed) || strcmp(failed, "fopen") == 0 || strcmp(failed, "fclose") == 0 ||
           strcmp(failed, calls_shrinking) == 0;
}

/* Reports what was planned, and its programs as text there and back. */
static gp_status report(const gp_plan *plan, gp_error *err) {
    char *text = NULL;
    gp_programs *programs = NULL;
    FILE *out = fopen("/dev/null", "w");
    if (!out) return gp_fail(err, GP_IO, "the scenario's own");
    gp_status status = gp_plan_report(plan, NULL, NULL, NULL, out, err);
    if (fclose(out) != 0 && status == GP_OK) status = gp_fail(err, GP_IO, "the scenario's own");
    if (status == GP_OK) status = gp_programs_write(plan->minis[0].programs, &text, err);
    if (status == GP_OK) status = gp_programs_read(text, "text", &programs, err);
    gp_programs_destroy(&programs);
    free(text);
    return status;
}

static gp_status plan(gp_error *err) {
    gp_session *session = NULL;
    GP_RETURN_IF_FAILED(opened_session("everything.yaml", NULL, &session, err));
    gp_status status = report(session->plan, err);
    gp_session_close(&session);
    return status;
}

static gp_status plan_builtin(gp_error *err) {
    gp_session *session = NULL;
    GP_RETURN_IF_FAILED(opened_session("builtin.yaml", NULL, &session, err));
    gp_session_close(&session);
    return GP_OK;
}

static gp_status balance_with(const gp_session_options *options, gp_error *err) {
    gp_config *config = NULL;
    gp_session *session = NULL;
    GP_RETURN_IF_FAILED(opened_config("balanced.yaml", NULL, &config, err));
    GP_RETURN_IF_FAILED(gp_session_open(&config, options, &session, err));
    FILE *out = fopen("/dev/null", "w");
    const gp_command command = {.config = fixture_path("balanced.yaml")};
    gp_status status = out ? gp_balance_report(session, &command, out, err) : gp_fail(err, GP_IO, "the scenario's own");
    if (out && fclose(out) != 0 && status == GP_OK) status = gp_fail(err, GP_IO, "the scenario's own");
    if (status == GP_OK) status = gp_balance_write(session, fixture_path("balanced.yaml"), err);
    gp_session_close(&session);
    return status;
}

/* Measures, writes the profile and the balance; then all of it with the profile that was written. */
static gp_status balance(gp_error *err) {
    const char *profile = fixture_path("profile.json");
    const gp_session_options measuring = {
        .balances = true, .profiling = GP_PROFILING_MEASURE, .profile_out = profile, .again = true, .seconds = 0.005};
    const gp_session_options reading = {.balances = true, .profiling = GP_PROFILING_FIND, .profile = profile};
    GP_RETURN_IF_FAILED(balance_with(&measuring, err));
    return balance_with(&reading, err);
}

/* The rates are new, so that they are read and not measured; if a call fails that finds the file, they are measured. */
static void write_balanced(void) {
    const gp_device_spec cpu = {.kind = &gp_cpu_kind, .threads = 1};
    gp_rates rates;
    gp_error err = {0};
    if (gp_rates_measure(&cpu, false, 1e-9, NULL, &rates, &err) != GP_OK) fail_msg("%s", err.text);
    fixture_write_text("balanced.yaml", balanced);
}

/* Some plans fit, some do not, and of one device some layers keep what others recompute. */
static gp_status search(gp_error *err) {
    const gp_search_request request = {.config = fixture_path("searched.yaml"),
                                       .frees_micro_batches = true,
                                       .profile = fixture_path("times.json"),
                                       .seconds = 1};
    gp_search found;
    gp_status status = gp_search_run(&request, &found, err);
    if (status == GP_OK && (found.tried < 12 || found.count == 0 || found.too_large == 0 || found.refused > 0))
        status = gp_fail(err, GP_INTERNAL, "%d of %d plans, %d too large, %d refused", (int)found.count, found.tried,
                         found.too_large, found.refused);
    if (status == GP_OK) status = gp_search_write(&found, request.config, err);
    gp_search_fini(&found);
    return status;
}

static void write_searched(void) {
    fixture_write_text("searched.yaml", searched);
    fixture_write_text("times.json", searched_times);
}

/* What the machine says of itself need not be known, and layers that have no memory together are measured one by one. A
 * temporary file is written without a lock if there are none, or under its next name if it cannot be looked at. */
static bool was_closed_or_unknown(const char *failed) {
    return was_only_closed(failed) || strcmp(failed, "aligned_alloc") == 0 || strcmp(failed, "fopen") == 0 ||
           strcmp(failed, "opendir") == 0 || strcmp(failed, "fclose") == 0 || strcmp(failed, "stat") == 0 ||
           strcmp(failed, "flock") == 0 || strcmp(failed, "fstat") == 0 || strcmp(failed, calls_shrinking) == 0;
}

/* Rates whose file cannot be read are measured. */
static bool was_closed_or_unknown_or_rates(const char *failed) {
    return was_closed_or_unknown(failed) || strcmp(failed, "access") == 0 || strcmp(failed, "open") == 0 ||
           strcmp(failed, "read") == 0;
}

static gp_status take_all(gp_loader *loader, gp_error *err) {
    const gp_batch *batch;
    do GP_RETURN_IF_FAILED(gp_loader_take(loader, &batch, err));
    while (batch);
    return GP_OK;
}

/* One epoch of each of two sources. */
static gp_status load_data(gp_error *err) {
    gp_config *config = NULL;
    GP_RETURN_IF_FAILED(opened_config("everything.yaml", NULL, &config, err));
    const gp_sample_spec spec = {
        .input = {3, {1, 12, 12}}, .input_dtype = GP_F32, .target_dtype = GP_I64, .classes = 10, .ignore = -100};
    const gp_loader_options options = {
        .batch = 8, .shuffle = true, .seed = 1, .first_epoch = 1, .epochs = 1, .depth = 2, .threads = 3};
    gp_status status = GP_OK;
    for (int i = 0; i < 2 && status == GP_OK; i++) {
        gp_dataset *dataset = NULL;
        gp_loader *loader = NULL;
        status = gp_dataset_open(i == 0 ? &config->data.train : &config->data.eval, &spec, &dataset, err);
        if (status == GP_OK) status = gp_loader_create(dataset, &spec, &options, &loader, err);
        if (status == GP_OK) status = take_all(loader, err);
        gp_loader_destroy(&loader);
        gp_dataset_close(&dataset);
    }
    gp_config_destroy(&config);
    return status;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static const each_scenario expanding = {"expand", NULL, expand_configuration, was_only_closed, 500};
static const each_scenario planning = {"plan", NULL, plan, was_closed_or_unknown_or_large, 500};
static const each_scenario planning_builtin = {"plan resnet18", NULL, plan_builtin, was_closed_or_unknown_or_large,
                                               100};
static const each_scenario loading = {"data", NULL, load_data, was_only_closed, 400};

static const each_scenario balancing = {"balance", write_balanced, balance, was_closed_or_unknown_or_rates, 160};

static const each_scenario searching = {"search", write_searched, search, was_closed_or_unknown, 200};

static void memory_is_refused(void **state) {
    (void)state;
    each_call_fails(&expanding, CALLS_MEMORY);
    each_call_fails(&planning, CALLS_MEMORY);
    each_call_fails(&planning_builtin, CALLS_MEMORY);
    each_call_fails(&loading, CALLS_MEMORY);
    each_call_fails(&balancing, CALLS_MEMORY);
    each_call_fails(&searching, CALLS_MEMORY);
}

static void files_fail(void **state) {
    (void)state;
    each_call_fails(&expanding, CALLS_FILES);
    each_call_fails(&planning, CALLS_FILES);
    each_call_fails(&loading, CALLS_FILES);
    each_call_fails(&balancing, CALLS_FILES);
    each_call_fails(&searching, CALLS_FILES);
}

static void threads_are_refused(void **state) {
    (void)state;
    each_call_fails(&loading, CALLS_THREADS);
    each_call_fails(&balancing, CALLS_THREADS);
}

static void onednn_fails(void **state) {
    (void)state;
    each_call_fails(&planning, CALLS_ONEDNN);
    each_call_fails(&planning_builtin, CALLS_ONEDNN);
    each_call_fails(&balancing, CALLS_ONEDNN);
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

enum { PICTURES = 48, SIDE = 12 };

static void write_bytes(const char *name, const unsigned char *bytes, size_t count) {
    FILE *file = fopen(fixture_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void write_gzipped(const char *name, const unsigned char *bytes, size_t count) {
    gzFile file = gzopen(fixture_path(name), "wb9");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)count), (int)count);
    assert_int_equal(gzclose(file), Z_OK);
}

static int make(void **state) {
    static unsigned char images[16 + PICTURES * SIDE * SIDE] = {0, 0, 8, 3,    0, 0, 0, PICTURES,
                                                                0, 0, 0, SIDE, 0, 0, 0, SIDE};
    static unsigned char labels[8 + PICTURES] = {0, 0, 8, 1, 0, 0, 0, PICTURES};
    if (fixture_make(state) != 0) return -1;
    for (size_t i = 16; i < sizeof images; i++) images[i] = (unsigned char)(i * 7);
    for (size_t i = 8; i < sizeof labels; i++) labels[i] = (unsigned char)(i % 10);
    write_gzipped("images.gz", images, sizeof images);
    write_bytes("labels", labels, sizeof labels);
    fixture_write_text("everything.yaml", everything);
    fixture_write_text("builtin.yaml", builtin);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_refused), cmocka_unit_test(files_fail),
                                       cmocka_unit_test(threads_are_refused), cmocka_unit_test(onednn_fails)};
    if (argc > 1) each_most = atoi(argv[1]);
    return cmocka_run_group_tests(tests, make, fixture_remove);
}
