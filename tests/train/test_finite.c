/* Runs that come to numbers that are not finite: what is said, and that nothing good is written over. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/safetensors.h"
#include "session/fixture.h"
#include "session/resume.h"
#include "store/snapshot.h"
#include "train/predict.h"
#include "train/trainer.h"

/* Inputs of 1000 that say nothing of the class: gradients stay large, whatever the weights. */
#define LARGE                                                                                                          \
    "model: {input: {shape: [4]}, layers: [linear: {name: a, out: 3}, linear: {name: b, out: 3}], "                    \
    "loss: cross_entropy}\n"                                                                                           \
    "data: {train: {tensors: large.safetensors}, batch: 6}\n"                                                          \
    "optimizer: {sgd: {lr: 1}, lr_schedule: {multistep: {milestones: [2], gamma: 1e38}}}\n"                            \
    "train: {steps: 3}\n"

#define SMALL                                                                                                          \
    "model: {input: {shape: [4]}, layers: [linear: {name: a, out: 3}, linear: {name: b, out: 3}], "                    \
    "loss: cross_entropy}\n"                                                                                           \
    "data: {train: {tensors: small.safetensors}, eval: {tensors: small.safetensors}, batch: 6}\n"                      \
    "optimizer: {sgd: {lr: 0.1}}\n"                                                                                    \
    "train: {steps: 2}\n"

static void write_inputs(const char *name, int samples, float value, int spoilt) {
    static float x[16][4];
    static int64_t y[16];
    gp_error err = {0};
    for (int n = 0; n < samples; n++) {
        y[n] = n % 3;
        for (int i = 0; i < 4; i++) x[n][i] = n == spoilt ? NAN : value;
    }
    const gp_safetensors_item items[] = {{.name = "x", .dtype = GP_F32, .rank = 2, .dim = {samples, 4}, .data = x},
                                         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {samples}, .data = y}};
    assert_int_equal(gp_safetensors_write(fixture_path(name), items, 2, NULL, &err), GP_OK);
}

/* Weights of these two layers; `spoilt` in b.weight. */
static void write_weights(const char *name, float spoilt) {
    static float first[12], second[12], bias[3];
    gp_error err = {0};
    for (int i = 0; i < 12; i++) first[i] = second[i] = 0.1F;
    second[4] = second[7] = spoilt;
    const gp_safetensors_item items[] = {
        {.name = "a.weight", .dtype = GP_F32, .rank = 2, .dim = {3, 4}, .data = first},
        {.name = "a.bias", .dtype = GP_F32, .rank = 1, .dim = {3}, .data = bias},
        {.name = "b.weight", .dtype = GP_F32, .rank = 2, .dim = {3, 3}, .data = second},
        {.name = "b.bias", .dtype = GP_F32, .rank = 1, .dim = {3}, .data = bias}};
    assert_int_equal(gp_safetensors_write(fixture_path(name), items, 4, NULL, &err), GP_OK);
}

static int make(void **state) {
    int made = fixture_make(state);
    write_inputs("large.safetensors", 6, 1000, -1);
    write_inputs("huge.safetensors", 6, 1e22F, -1);
    write_inputs("small.safetensors", 6, 0.5F, -1);
    write_inputs("hole.safetensors", 6, 0.5F, 4);
    write_weights("good.safetensors", 0.1F);
    write_weights("nan.safetensors", NAN);
    return made;
}

/* ---- a run, and what it says on standard error ------------------------------------------------------------------- */

static char said[4096];

static gp_session *open_session(const char *text, const char *const *changes) {
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(text, changes);
    if (gp_session_open(&config, NULL, &session, &err) != GP_OK) fail_msg("%s", err.text);
    return session;
}

/* What is printed between the two goes into `said`. */
static int begin_listening(void) {
    fflush(NULL);
    int before = dup(STDERR_FILENO), file = open(fixture_path("said"), O_CREAT | O_TRUNC | O_WRONLY, 0666);
    assert_true(before >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    close(file);
    return before;
}

static void end_listening(int before) {
    size_t bytes;
    fflush(NULL);
    dup2(before, STDERR_FILENO);
    close(before);
    char *text = fixture_read(fixture_path("said"), &bytes);
    fixture_strip_folder(text);
    snprintf(said, sizeof said, "%s", text);
    free(text);
}

static gp_status train_in(const char *folder, const char *text, const char *const *changes, bool resumes,
                          gp_error *err) {
    gp_resume resume = {0};
    gp_session *session = resumes ? fixture_resume(text, changes, folder, &resume) : open_session(text, changes);
    const gp_train_options options = {.folder = folder, .verbosity = GP_QUIET, .resume = resumes ? &resume : NULL};
    int before = begin_listening();
    gp_status status = gp_train(session, &options, err);
    end_listening(before);
    gp_resume_close(&resume);
    gp_session_close(&session);
    return status;
}

/* The sentence of a run that fails. */
static const char *expect_failure(const char *text, const char *const *changes, const char *sentence) {
    gp_error err = {0};
    const char *folder = fixture_new_folder();
    assert_int_equal(train_in(folder, text, changes, false, &err), GP_NUMERIC);
    fixture_strip_folder(err.text);
    assert_string_equal(err.text, sentence);
    assert_int_equal(gp_status_exit(err.status), 1);
    return folder;
}

static const char *expect_success(const char *text, const char *const *changes, const char *warning) {
    gp_error err = {0};
    const char *folder = fixture_new_folder();
    if (train_in(folder, text, changes, false, &err) != GP_OK) fail_msg("%s", err.text);
    assert_string_equal(said, warning);
    return folder;
}

static const char *in(const char *folder, const char *name) {
    static char texts[8][600];
    static int next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0], "%s/%s", folder, name);
    return text;
}

static bool is_there(const char *folder, const char *name) {
    return access(in(folder, name), F_OK) == 0;
}

static void expect_end(const char *folder, const char *status, int steps) {
    json_t *lines = fixture_metrics(folder), *end = json_array_get(lines, json_array_size(lines) - 1);
    assert_string_equal(json_string_value(json_object_get(end, "status")), status);
    assert_int_equal(json_integer_value(json_object_get(end, "steps")), steps);
    json_decref(lines);
}

/* The metadata `key` of a model. */
static void expect_of_model(const char *path, const char *key, const char *value) {
    gp_error err = {0};
    gp_safetensors *file = NULL;
    if (gp_safetensors_open(path, &file, &err) != GP_OK) fail_msg("%s", err.text);
    assert_string_equal(gp_safetensors_metadata(file, key), value);
    gp_safetensors_close(&file);
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

#define NOT_SAVED "; such values are not saved, and the run stops; a lower learning rate or a warm-up may help"
#define OVERFLOWN "after step 3: linear \"a\": weight is not finite: 12 of 12 elements, the first is -inf" NOT_SAVED

static void parameters_that_overflow_in_the_last_step_are_no_model(void **state) {
    (void)state;
    static const char *const devices[] = {"pipeline.devices=[cpu]", "pipeline.devices=[cpu, cpu]"};
    for (int i = 0; i < 2; i++) {
        const char *folder = expect_failure(LARGE, FIXTURE_CHANGES(devices[i]), OVERFLOWN);
        assert_string_equal(said, "");
        assert_false(is_there(folder, "model.safetensors"));
        expect_end(folder, "failed", 3);
    }
}

/* The tensors of a snapshot, which follow its header. */
static const char *tensors_of(const char *file, size_t *bytes) {
    uint64_t header;
    memcpy(&header, file, sizeof header);
    assert_true(header < *bytes - sizeof header);
    *bytes -= sizeof header + (size_t)header;
    return file + sizeof header + header;
}

/* What was saved before stays, and can be resumed from. If --resume changes the length, the header has the new
 * configuration; the tensors stay to the byte, and without a change the whole file does. */
static void no_snapshot_is_made_of_them(void **state) {
    (void)state;
    gp_error err = {0};
    size_t bytes[2];
    const char *const *changes = FIXTURE_CHANGES("train={steps: 4, save_every: 1, keep: 9}");
    const char *folder = expect_failure(LARGE, changes, OVERFLOWN);
    int64_t *steps = NULL;
    int count = 0;
    assert_int_equal(gp_snapshot_list(folder, &steps, &count, &err), GP_OK);
    assert_true(count == 2 && steps[0] == 2 && steps[1] == 1);
    free(steps);
    assert_false(is_there(folder, "model.safetensors"));
    expect_end(folder, "failed", 3);
    char *before = fixture_read(in(folder, "snapshots/step-00000002.safetensors"), &bytes[0]);
    assert_int_equal(train_in(folder, LARGE, FIXTURE_CHANGES("train={steps: 2, save_every: 1, keep: 9}"), true, &err),
                     GP_OK);
    expect_of_model(in(folder, "model.safetensors"), "step", "2");
    assert_int_equal(train_in(folder, LARGE, changes, true, &err), GP_NUMERIC);
    assert_string_equal(err.text, OVERFLOWN);
    expect_of_model(in(folder, "model.safetensors"), "step", "2");
    char *after = fixture_read(in(folder, "snapshots/step-00000002.safetensors"), &bytes[1]);
    size_t whole = bytes[1];
    const char *tensors[2] = {tensors_of(before, &bytes[0]), tensors_of(after, &bytes[1])};
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(tensors[0], tensors[1], bytes[0]);
    assert_int_equal(train_in(folder, LARGE, changes, true, &err), GP_NUMERIC);
    char *again = fixture_read(in(folder, "snapshots/step-00000002.safetensors"), &bytes[1]);
    assert_int_equal(whole, bytes[1]);
    assert_memory_equal(after, again, whole);
    free(before);
    free(after);
    free(again);
}

/* The loss of the next step shows it; what that step would go back to is not finite either. */
static void the_next_step_saves_no_model_of_them(void **state) {
    (void)state;
    const char *folder =
        expect_failure(LARGE, FIXTURE_CHANGES("train.steps=5"),
                       "step 4: the loss is not a number: the update was not applied, and the run stops; a lower "
                       "learning rate or a warm-up may help; first not finite: linear \"a\": weight, before the step: "
                       "12 of 12 elements, the first is -inf");
    assert_string_equal(said, "gpipe-train: warning: " OVERFLOWN "\n");
    assert_false(is_there(folder, "model.safetensors"));
    expect_end(folder, "failed", 3);
    expect_failure(LARGE, FIXTURE_CHANGES("data.eval={tensors: small.safetensors}", "train.eval_every=3"), OVERFLOWN);
    assert_string_equal(said,
                        "gpipe-train: warning: the evaluation after step 3 is not finite: its loss is nan, and it "
                        "is never the best; first not finite: linear \"a\": weight, before the evaluation: 12 of "
                        "12 elements, the first is -inf\n");
}

/* A variance of 1e40 is infinite in f32: what it normalises becomes 0, and every loss stays finite. */
static void running_statistics_are_looked_at(void **state) {
    (void)state;
    static const char text[] =
        "model: {input: {shape: [4]}, layers: [linear: {name: a, out: 3, init: {weight: 1e20}}, batch_norm: {name: n}, "
        "linear: {name: b, out: 3}], loss: cross_entropy}\n"
        "data: {train: {synthetic: {samples: 8}}, eval: {synthetic: {samples: 8, seed: 2}}, batch: 8}\n"
        "optimizer: {sgd: {lr: 0.1}}\n"
        "train: {steps: 2}\n";
    const char *folder = expect_failure(
        text, FIXTURE_CHANGES("train.eval_every=1"),
        "after step 1: batch_norm \"n\": running_var is not finite: 3 of 3 elements, the first is inf" NOT_SAVED);
    assert_false(is_there(folder, "model.safetensors") || is_there(folder, "best.safetensors"));
    expect_end(folder, "failed", 1);
}

/* With an infinite second moment Adam no longer moves a parameter. Its values are finite: they are saved. */
static void states_of_the_optimizer_are_looked_at(void **state) {
    (void)state;
    static const char sentence[] =
        "after step 2: linear \"a\": exp_avg_sq of weight is not finite: 12 of 12 elements, the first is inf" NOT_SAVED;
    const char *folder = expect_failure(LARGE,
                                        FIXTURE_CHANGES("optimizer={adam: {lr: 0.001}}", "train.steps=2",
                                                        "data.train.tensors=huge.safetensors",
                                                        "model.layers=[{linear: {name: a, out: 3}}]"),
                                        sentence);
    assert_string_equal(said, "");
    expect_of_model(in(folder, "model.safetensors"), "step", "2");
    expect_end(folder, "failed", 2);
}

/* ---- weights that a run begins with ------------------------------------------------------------------------------ */

static void weights_that_are_not_finite_are_refused(void **state) {
    (void)state;
    static const char *const lengths[] = {"train={steps: 0, init: nan.safetensors}",
                                          "train={steps: 2, init: nan.safetensors}"};
    char sentence[600];
    gp_error err = {0};
    snprintf(sentence, sizeof sentence, "%s: tensor \"b.weight\" is not finite: 2 of 9 elements, the first is nan",
             fixture_path("nan.safetensors"));
    for (int i = 0; i < 2; i++) {
        const char *folder = fixture_new_folder();
        assert_int_equal(train_in(folder, SMALL, FIXTURE_CHANGES(lengths[i]), false, &err), GP_DATA);
        assert_string_equal(err.text, sentence);
        assert_int_equal(fixture_count_entries(folder), 0);
    }
    expect_success(SMALL, FIXTURE_CHANGES("train={steps: 2, init: {file: nan.safetensors, skip: [b]}}"), "");
}

static gp_status predict(const char *weights, const char *eval, gp_error *err) {
    gp_session *session = NULL;
    char data[100];
    snprintf(data, sizeof data, "data.eval.tensors=%s", eval);
    gp_config *config = fixture_config(SMALL, FIXTURE_CHANGES("train.steps=0", data));
    const gp_session_options options = {.weights = fixture_path(weights)};
    if (gp_session_open(&config, &options, &session, err) != GP_OK) fail_msg("%s", err->text);
    int before = begin_listening();
    gp_status status = gp_predict(session, &(gp_predict_options){fixture_path("y.safetensors"), GP_QUIET, NULL}, err);
    end_listening(before);
    gp_session_close(&session);
    return status;
}

static void predictions_that_are_not_finite_are_said(void **state) {
    (void)state;
    gp_error err = {0};
    char sentence[600];
    snprintf(sentence, sizeof sentence, "%s: tensor \"b.weight\" is not finite: 2 of 9 elements, the first is nan",
             fixture_path("nan.safetensors"));
    assert_int_equal(predict("nan.safetensors", "small.safetensors", &err), GP_DATA);
    assert_string_equal(err.text, sentence);
    assert_int_equal(predict("good.safetensors", "small.safetensors", &err), GP_OK);
    assert_string_equal(said, "");
    assert_int_equal(predict("good.safetensors", "hole.safetensors", &err), GP_OK);
    assert_string_equal(said, "gpipe-train: warning: 3 of 18 predicted values are not finite; the first is nan, in "
                              "sample 4 (counted from 0)\n");
}

/* ---- evaluations ------------------------------------------------------------------------------------------------- */

#define HOLE_IN(file)                                                                                                  \
    "first not finite: micro-batch 1 of 1, input: 4 of 24 elements, the first is nan; sample 4 of " file               \
    ": x[4, 0] is nan, at byte 192"
#define NOT_BEST(step, file)                                                                                           \
    "gpipe-train: warning: the evaluation after step " step                                                            \
    " is not finite: its loss is nan, and it is never the best; " HOLE_IN(file) "\n"

static void an_evaluation_that_is_not_finite_is_said_and_never_the_best(void **state) {
    (void)state;
    const char *folder =
        expect_success(SMALL, FIXTURE_CHANGES("data.eval.tensors=hole.safetensors", "train.eval_every=1"),
                       NOT_BEST("1", "hole.safetensors") NOT_BEST("2", "hole.safetensors"));
    assert_true(is_there(folder, "model.safetensors"));
    assert_false(is_there(folder, "best.safetensors"));
    expect_end(folder, "done", 2);
    expect_success(
        SMALL,
        FIXTURE_CHANGES("data.eval.tensors=hole.safetensors", "pipeline.devices=[cpu, cpu]", "train.eval_every=2"),
        NOT_BEST("2", "hole.safetensors"));
}

/* The file of the evaluation changes between a run and its continuation. */
static void the_best_is_among_those_that_are_finite(void **state) {
    (void)state;
    static const char *const files[] = {"hole.safetensors", "small.safetensors"};
    for (int first = 0; first < 2; first++) {
        gp_error err = {0};
        const char *folder = fixture_new_folder();
        for (int part = 0; part < 2; part++) {
            const char *steps = part ? "train={steps: 2, save_every: 1}" : "train={steps: 1, save_every: 1}";
            unlink(fixture_path("changes.safetensors"));
            assert_int_equal(symlink(fixture_path(files[(first + part) % 2]), fixture_path("changes.safetensors")), 0);
            const char *const *changes = FIXTURE_CHANGES("data.eval.tensors=changes.safetensors", steps);
            if (train_in(folder, SMALL, changes, part > 0, &err) != GP_OK) fail_msg("%s", err.text);
            assert_string_equal(said, (first + part) % 2 ? ""
                                      : part             ? NOT_BEST("2", "changes.safetensors")
                                                         : NOT_BEST("1", "changes.safetensors"));
        }
        expect_of_model(in(folder, "best.safetensors"), "step", first ? "1" : "2");
    }
}

/* A run of no steps has nothing else to say. */
static void a_run_that_only_evaluates_fails(void **state) {
    (void)state;
    const char *folder = expect_failure(SMALL, FIXTURE_CHANGES("data.eval.tensors=hole.safetensors", "train.steps=0"),
                                        "the evaluation is not finite: its loss is nan; " HOLE_IN("hole.safetensors"));
    assert_string_equal(said, "");
    json_t *lines = fixture_metrics(folder);
    assert_true(json_is_null(json_object_get(json_array_get(lines, 1), "loss")));
    json_decref(lines);
    expect_end(folder, "failed", 0);
}

/* ---- learning rates ---------------------------------------------------------------------------------------------- */

static void a_rate_that_f32_cannot_hold_is_refused(void **state) {
    (void)state;
    const char *folder = expect_failure(
        SMALL,
        FIXTURE_CHANGES("optimizer={sgd: {lr: 0.1}, lr_schedule: {step: {every: 1, gamma: 1e30}}}", "train.steps=5"),
        "step 3: the learning rate is 1e+59, but the largest f32 number is 3.4e+38: the step was not run, and the run "
        "stops; lower "
        "the optimizer's lr, or lr_schedule's gamma");
    expect_of_model(in(folder, "model.safetensors"), "step", "2");
    expect_end(folder, "failed", 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_that_overflow_in_the_last_step_are_no_model),
        cmocka_unit_test(no_snapshot_is_made_of_them),
        cmocka_unit_test(the_next_step_saves_no_model_of_them),
        cmocka_unit_test(running_statistics_are_looked_at),
        cmocka_unit_test(states_of_the_optimizer_are_looked_at),
        cmocka_unit_test(weights_that_are_not_finite_are_refused),
        cmocka_unit_test(predictions_that_are_not_finite_are_said),
        cmocka_unit_test(an_evaluation_that_is_not_finite_is_said_and_never_the_best),
        cmocka_unit_test(the_best_is_among_those_that_are_finite),
        cmocka_unit_test(a_run_that_only_evaluates_fails),
        cmocka_unit_test(a_rate_that_f32_cannot_hold_is_refused),
    };
    return cmocka_run_group_tests_name("finite", tests, make, fixture_remove);
}
