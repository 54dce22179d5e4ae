/* Whole runs in the test's own process, on a small data set: what is written, what ends a run, and what is left. */
#include "threads.h"
#include "train/trainer_internal.h"
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/replace.h"
#include "data/safetensors.h"
#include "session/fixture.h"
#include "store/saver.h"

static gp_status train_session(gp_session *session, const char *folder, const gp_hooks *hooks,
                               const volatile sig_atomic_t *stop, gp_error *err) {
    const gp_train_options options = {.folder = folder, .verbosity = GP_QUIET, .stop = stop, .hooks = hooks};
    gp_status status = gp_train(session, &options, err);
    gp_session_close(&session);
    return status;
}

static const char *run(const char *const *changes) {
    gp_error err = {0};
    const char *folder = fixture_new_folder();
    if (train_session(fixture_session(changes), folder, NULL, NULL, &err) != GP_OK) fail_msg("%s", err.text);
    return folder;
}

static const char *in(const char *folder, const char *name) {
    static char texts[8][600];
    static int next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0], "%s/%s", folder, name);
    return text;
}

static bool equal_models(const char *a, const char *b) {
    size_t a_bytes, b_bytes;
    char *a_text = fixture_read(in(a, "model.safetensors"), &a_bytes);
    char *b_text = fixture_read(in(b, "model.safetensors"), &b_bytes);
    bool equal = a_bytes == b_bytes && memcmp(a_text, b_text, a_bytes) == 0;
    free(a_text);
    free(b_text);
    return equal;
}

/* What stands behind the header, which names the step. */
static bool equal_tensors(const char *a, const char *b) {
    size_t bytes[2];
    uint64_t head[2];
    char *texts[2] = {fixture_read(a, &bytes[0]), fixture_read(b, &bytes[1])};
    for (int i = 0; i < 2; i++) {
        memcpy(&head[i], texts[i], sizeof head[i]);
        head[i] += sizeof head[i];
    }
    bool equal = bytes[0] - head[0] == bytes[1] - head[1] &&
                 memcmp(texts[0] + head[0], texts[1] + head[1], bytes[0] - head[0]) == 0;
    free(texts[0]);
    free(texts[1]);
    return equal;
}

static bool equal_weights(const char *a, const char *b) {
    return equal_tensors(in(a, "model.safetensors"), in(b, "model.safetensors"));
}

static const char *text_of(json_t *line, const char *key) {
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "";
}

static int64_t integer_of(json_t *line, const char *key) {
    return json_integer_value(json_object_get(line, key));
}

static double number_of(json_t *line, const char *key) {
    return json_real_value(json_object_get(line, key));
}

/* "start s1 s2 e2 end:done 2": the events in order, with the steps of steps, evaluations and the end. */
static const char *events_of(const char *folder) {
    static char text[2048];
    size_t used = 0, i;
    json_t *lines = fixture_metrics(folder), *line;
    json_array_foreach(lines, i, line) {
        const char *event = text_of(line, "event");
        if (strcmp(event, "step") == 0 || strcmp(event, "eval") == 0)
            used += (size_t)snprintf(text + used, sizeof text - used, " %c%d", event[0], (int)integer_of(line, "step"));
        else if (strcmp(event, "end") == 0)
            used += (size_t)snprintf(text + used, sizeof text - used, " end:%s %d", text_of(line, "status"),
                                     (int)integer_of(line, "steps"));
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", event);
        assert_true(used < sizeof text);
    }
    json_decref(lines);
    return text;
}

/* ---- what is written --------------------------------------------------------------------------------------------- */

static void a_run_writes_its_steps_and_evaluations(void **state) {
    (void)state;
    static const int samples[] = {16, 16, 16, 2};
    const char *folder = run(NULL);
    assert_string_equal(events_of(folder), "start s1 s2 s3 s4 e4 s5 s6 s7 s8 e8 end:done 8");
    assert_int_equal(fixture_count_entries(folder), 6); /* the best model and snapshots too */
    json_t *lines = fixture_metrics(folder), *line;
    size_t i;
    json_array_foreach(lines, i, line) {
        if (strcmp(text_of(line, "event"), "eval") == 0) {
            double right = number_of(line, "accuracy") * 14;
            assert_true(fabs(right - round(right)) < 1e-6 && right >= 0 && right <= 14);
            assert_true(number_of(line, "loss") > 0);
            assert_int_equal(integer_of(line, "epoch"), integer_of(line, "step") / 4);
        }
        if (strcmp(text_of(line, "event"), "step") != 0) continue;
        int64_t step = integer_of(line, "step");
        assert_int_equal(integer_of(line, "epoch"), step <= 4 ? 1 : 2);
        assert_int_equal(integer_of(line, "samples"), samples[(step - 1) % 4]);
        assert_true(number_of(line, "lr") == 0.02);
        assert_true(number_of(line, "loss") > 0 && number_of(line, "loss") < 10);
        assert_true(number_of(line, "seconds") > 0);
    }
    json_decref(lines);
}

static json_t *event_of(json_t *lines, const char *event) {
    json_t *line;
    size_t i;
    json_array_foreach(lines, i, line) {
        if (strcmp(text_of(line, "event"), event) == 0) return line;
    }
    fail_msg("no event %s", event);
    return NULL;
}

/* A step counts correct predictions before its update: as many as an evaluation of the same samples by these weights.
 */
static void the_accuracy_of_a_step_is_that_of_its_mini_batch(void **state) {
    (void)state;
    static const char *const devices[] = {"pipeline.devices=[cpu, cpu]", "pipeline.devices=[ref, ref]"};
    for (int i = 0; i < 2; i++) {
        json_t *lines = fixture_metrics(
            run(FIXTURE_CHANGES("model.layers=[flatten, {linear: {out: 3}}]", "data.batch=14",
                                "data.train.take=[50, 64]", "optimizer.sgd.lr=1e-30", "train={steps: 1}", devices[i])));
        json_t *step = event_of(lines, "step"), *eval = event_of(lines, "eval");
        assert_true(number_of(step, "accuracy") > 0);
        assert_true(number_of(step, "accuracy") == number_of(eval, "accuracy"));
        assert_true(fabs(number_of(step, "loss") - number_of(eval, "loss")) < 1e-6);
        json_decref(lines);
    }
}

/* Losses over numbers have none. */
static void a_loss_without_classes_has_no_accuracy(void **state) {
    (void)state;
    json_t *lines = fixture_metrics(run(FIXTURE_CHANGES("model.loss=mse", "data.train={synthetic: {samples: 20}}",
                                                        "data.eval={synthetic: {samples: 20}}", "train={steps: 1}")));
    assert_null(json_object_get(event_of(lines, "step"), "accuracy"));
    assert_null(json_object_get(event_of(lines, "eval"), "accuracy"));
    json_decref(lines);
}

static void the_network_learns(void **state) {
    (void)state;
    json_t *lines = fixture_metrics(run(FIXTURE_CHANGES("train.epochs=20", "train.eval_every=20 epochs")));
    json_t *eval = json_array_get(lines, json_array_size(lines) - 2);
    assert_string_equal(text_of(eval, "event"), "eval");
    assert_true(number_of(eval, "accuracy") > 0.85);
    json_decref(lines);
}

/* The step of the best evaluation by the metrics, the first of equal ones; fails where it is the first or the last. */
static int64_t find_best(const char *folder, const char *figure, double *best) {
    json_t *lines = fixture_metrics(folder), *line;
    int64_t step = 0, last = 0;
    size_t i;
    json_array_foreach(lines, i, line) {
        if (strcmp(text_of(line, "event"), "eval") != 0) continue;
        double value = number_of(line, figure);
        last = integer_of(line, "step");
        if (step > 0 && !(strcmp(figure, "loss") == 0 ? value < *best : value > *best)) continue;
        step = last;
        *best = value;
    }
    json_decref(lines);
    assert_true(step > 1 && step < last);
    return step;
}

static void expect_best(const char *text, const char *figure) {
    gp_error err = {0};
    double best = 0;
    char step[24], number[32], steps[64];
    const char *const whole[] = {"train={steps: 30, eval_every: 1}", NULL}, *const part[] = {steps, NULL};
    const char *folders[2] = {fixture_new_folder(), fixture_new_folder()};
    for (int i = 0; i < 2; i++) {
        gp_session *session = NULL;
        gp_config *config = fixture_config(text, i == 0 ? whole : part);
        if (gp_session_open(&config, NULL, &session, &err) != GP_OK) fail_msg("%s", err.text);
        if (train_session(session, folders[i], NULL, NULL, &err) != GP_OK) fail_msg("%s", err.text);
        if (i > 0) break;
        snprintf(step, sizeof step, "%lld", (long long)find_best(folders[0], figure, &best));
        snprintf(steps, sizeof steps, "train={steps: %s, eval_every: 1}", step);
        snprintf(number, sizeof number, "%.9g", best);
    }
    gp_safetensors *file = NULL;
    if (gp_safetensors_open(in(folders[0], "best.safetensors"), &file, &err) != GP_OK) fail_msg("%s", err.text);
    assert_string_equal(gp_safetensors_metadata(file, "step"), step);
    assert_string_equal(gp_safetensors_metadata(file, figure), number);
    gp_safetensors_close(&file);
    assert_true(equal_tensors(in(folders[0], "best.safetensors"), in(folders[1], "model.safetensors")));
    assert_false(equal_tensors(in(folders[0], "best.safetensors"), in(folders[0], "model.safetensors")));
}

static void the_best_model_is_that_of_the_best_evaluation(void **state) {
    (void)state;
    expect_best(FIXTURE_CONFIG, "accuracy");
    expect_best("model: {input: {shape: [4]}, layers: [linear: {out: 8}, tanh, linear: {out: 2}], loss: mse}\n"
                "data: {train: {synthetic: {samples: 32}}, eval: {synthetic: {samples: 16, seed: 2}}, batch: 8}\n"
                "optimizer: {sgd: {lr: 0.2, momentum: 0.95}}\n"
                "train: {steps: 1}\n",
                "loss");
}

static void evaluations_come_when_they_are_due(void **state) {
    (void)state;
    assert_string_equal(events_of(run(FIXTURE_CHANGES("train.eval_every=3"))),
                        "start s1 s2 s3 e3 s4 s5 s6 e6 s7 s8 e8 end:done 8");
    assert_string_equal(events_of(run(FIXTURE_CHANGES("train.eval_every=100", "train.steps=2"))),
                        "start s1 s2 e2 end:done 2");
    assert_string_equal(events_of(run(FIXTURE_CHANGES("train.steps=5"))), "start s1 s2 s3 s4 e4 s5 e5 end:done 5");
    static const char without[] = FIXTURE_MODEL "data: {train: {tensors: d.safetensors}, batch: 32}\n"
                                                "optimizer: {sgd: 0.02}\n"
                                                "train: {epochs: 1}\n";
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(without, NULL);
    assert_int_equal(gp_session_open(&config, NULL, &session, &err), GP_OK);
    const char *folder = fixture_new_folder();
    assert_int_equal(train_session(session, folder, NULL, NULL, &err), GP_OK);
    assert_string_equal(events_of(folder), "start s1 s2 end:done 2");
}

static void the_first_of_steps_and_epochs_ends_the_run(void **state) {
    (void)state;
    assert_string_equal(events_of(run(FIXTURE_CHANGES("train={steps: 6, epochs: 1}"))),
                        "start s1 s2 s3 s4 e4 end:done 4");
    assert_string_equal(events_of(run(FIXTURE_CHANGES("train={steps: 3, epochs: 1}"))), "start s1 s2 s3 e3 end:done 3");
}

static void drop_last_leaves_out_the_smaller_batch(void **state) {
    (void)state;
    const char *folder = run(FIXTURE_CHANGES("data.drop_last=true"));
    assert_string_equal(events_of(folder), "start s1 s2 s3 e3 s4 s5 s6 e6 end:done 6");
    json_t *lines = fixture_metrics(folder);
    for (size_t i = 1; i <= 3; i++) assert_int_equal(integer_of(json_array_get(lines, i), "samples"), 16);
    json_decref(lines);
}

static void expect_rates(const char *warmup, const double *rates, int count) {
    json_t *lines = fixture_metrics(run(FIXTURE_CHANGES("optimizer.sgd.lr=0.0625", warmup, "train.eval_every=100")));
    for (int s = 1; s <= count; s++) assert_true(number_of(json_array_get(lines, (size_t)s), "lr") == rates[s - 1]);
    json_decref(lines);
}

static void the_warmup_is_in_the_metrics(void **state) {
    (void)state;
    expect_rates("optimizer.warmup={length: 4, from: 0.5}",
                 (const double[]){0.0390625, 0.046875, 0.0546875, 0.0625, 0.0625, 0.0625}, 6);
    expect_rates("optimizer.warmup=1 epoch", (const double[]){0.015625, 0.03125, 0.046875, 0.0625, 0.0625}, 5);
}

/* At a rate of 0 the losses of an epoch, each by the targets that count in it, are together that of an evaluation of
 * the same samples; uneven micro-batches, a smaller last mini-batch and ignored targets make no difference. */
static const char *still_run(const char *data) {
    static const char text[] =
        "model: {input: {shape: [2, 4, 4]}, layers: [flatten, linear: {out: 3}], loss: cross_entropy}\n"
        "data: {train: {tensors: %s}, eval: {tensors: %s}, batch: 9, shuffle: false}\n"
        "pipeline: {devices: [cpu, cpu], micro_batches: 4}\n"
        "optimizer: {sgd: 0}\n"
        "train: {epochs: 1}\n";
    char config_text[1024];
    gp_error err = {0};
    gp_session *session = NULL;
    snprintf(config_text, sizeof config_text, text, data, data);
    gp_config *config = fixture_config(config_text, NULL);
    if (gp_session_open(&config, NULL, &session, &err) != GP_OK) fail_msg("%s", err.text);
    const char *folder = fixture_new_folder();
    if (train_session(session, folder, NULL, NULL, &err) != GP_OK) fail_msg("%s", err.text);
    return folder;
}

static void losses_are_means_over_the_targets_that_count(void **state) {
    (void)state;
    static const int counts[] = {8, 7, 3}; /* of 9, 9 and 4 samples: every fifth is ignored */
    fixture_write_data("ignored.safetensors", 22, 5);
    const char *folder = still_run("ignored.safetensors");
    assert_string_equal(events_of(folder), "start s1 s2 s3 e3 end:done 3");
    json_t *lines = fixture_metrics(folder);
    double sum = 0;
    for (size_t i = 0; i < 3; i++) sum += counts[i] * number_of(json_array_get(lines, i + 1), "loss");
    double mean = number_of(json_array_get(lines, 4), "loss");
    double right = 18 * number_of(json_array_get(lines, 4), "accuracy");
    if (fabs(sum / 18 - mean) > 1e-6) fail_msg("%.9g is not %.9g", sum / 18, mean);
    assert_true(fabs(right - round(right)) < 1e-6);
    json_decref(lines);
}

static void where_nothing_counts_the_loss_is_0(void **state) {
    (void)state;
    fixture_write_data("nothing.safetensors", 22, 1);
    json_t *lines = fixture_metrics(still_run("nothing.safetensors"));
    for (size_t i = 1; i <= 4; i++) assert_true(number_of(json_array_get(lines, i), "loss") == 0);
    json_decref(lines);
}

static void a_run_can_be_repeated(void **state) {
    (void)state;
    const char *one = run(NULL), *again = run(NULL), *other = run(FIXTURE_CHANGES("train.seed=2"));
    assert_true(equal_models(one, again));
    assert_false(equal_models(one, other));
    json_t *a = fixture_metrics(one), *b = fixture_metrics(again);
    for (size_t i = 1; i + 1 < json_array_size(a); i++)
        assert_true(number_of(json_array_get(a, i), "loss") == number_of(json_array_get(b, i), "loss"));
    json_decref(a);
    json_decref(b);
}

/* ---- train.init and steps: 0 ------------------------------------------------------------------------------------- */

static double eval_number(const char *folder, size_t line, const char *key) {
    json_t *lines = fixture_metrics(folder);
    double value = number_of(json_array_get(lines, line), key);
    assert_string_equal(text_of(json_array_get(lines, line), "event"), "eval");
    json_decref(lines);
    return value;
}

static void init_goes_on_from_a_model(void **state) {
    (void)state;
    char init[700];
    const char *first = run(FIXTURE_CHANGES("train.steps=4"));
    snprintf(init, sizeof init, "train.init=%s", in(first, "model.safetensors"));
    /* Only evaluated it is the same model, with the same loss; trained on, another. */
    const char *evaluated = run(FIXTURE_CHANGES(init, "train.steps=0", "train.seed=9"));
    assert_string_equal(events_of(evaluated), "start e0 end:done 0");
    assert_true(equal_weights(first, evaluated));
    assert_true(eval_number(evaluated, 1, "loss") == eval_number(first, 5, "loss"));
    assert_true(eval_number(evaluated, 1, "accuracy") == eval_number(first, 5, "accuracy"));
    const char *further = run(FIXTURE_CHANGES(init, "train.steps=4"));
    assert_false(equal_weights(first, further));
    assert_false(equal_models(run(FIXTURE_CHANGES("train.steps=4", "train.seed=9")), further));
}

static double first_loss(const char *init, const char *dropout, const char *seed) {
    json_t *lines = fixture_metrics(run(FIXTURE_CHANGES(init, dropout, seed, "data.shuffle=false", "train.steps=1")));
    double loss = number_of(json_array_get(lines, 1), "loss");
    json_decref(lines);
    return loss;
}

/* Same weights, same samples: what is left of the seed is what dropout draws. */
static void dropout_follows_the_seed(void **state) {
    (void)state;
    char init[700];
    snprintf(init, sizeof init, "train.init=%s", in(run(FIXTURE_CHANGES("train.steps=1")), "model.safetensors"));
    assert_true(first_loss(init, "model.layers.5.dropout=0.5", "train.seed=1") !=
                first_loss(init, "model.layers.5.dropout=0.5", "train.seed=2"));
    assert_true(first_loss(init, "model.layers.5.dropout=0", "train.seed=1") ==
                first_loss(init, "model.layers.5.dropout=0", "train.seed=2"));
}

/* The check before the run passed; what lies there by then is not trained on, and not saved as if it were a model. */
static void an_init_that_breaks_before_it_is_read_leaves_the_folder_as_it_was(void **state) {
    (void)state;
    char init[700];
    gp_error err = {0};
    const char *first = run(FIXTURE_CHANGES("train.steps=1")), *folder = fixture_new_folder();
    snprintf(init, sizeof init, "train.init=%s", in(first, "model.safetensors"));
    gp_session *session = fixture_session(FIXTURE_CHANGES(init));
    assert_int_equal(truncate(in(first, "model.safetensors"), 100), 0);
    assert_int_equal(train_session(session, folder, NULL, NULL, &err), GP_DATA);
    assert_int_not_equal(access(in(folder, "model.safetensors"), F_OK), 0);
}

/* ---- what ends a run --------------------------------------------------------------------------------------------- */

static void expect_threads(int wanted) {
    if (!test_threads_become(wanted)) fail_msg("%d threads, not %d", test_threads(), wanted);
}

static gp_status fail_at_once(void *context, const gp_site *site, gp_error *err) {
    (void)context;
    (void)site;
    return gp_fail(err, GP_INJECTED, "injected");
}

/* Of a folder that is written over: the old model is not that of the new configuration. But what a run began with stays
 * until there is something to put in its place. */
static void a_run_that_fails_leaves_no_old_model(void **state) {
    (void)state;
    char init[700];
    gp_error err = {0};
    const gp_hooks hooks = {.before = fail_at_once};
    const char *folder = run(FIXTURE_CHANGES("train.steps=1"));
    snprintf(init, sizeof init, "train.init=%s", in(folder, "model.safetensors"));
    gp_session *session = fixture_session(FIXTURE_CHANGES(init));
    assert_int_equal(train_session(session, folder, &hooks, NULL, &err), GP_INJECTED);
    assert_int_equal(fixture_count_entries(folder), 5); /* with the folder of snapshots, which is empty */
    assert_int_equal(train_session(fixture_session(NULL), folder, &hooks, NULL, &err), GP_INJECTED);
    assert_int_equal(fixture_count_entries(folder), 4);
}

typedef struct fault {
    int worker, mini;
    size_t pc;
} fault;

static gp_status fail_there(void *context, const gp_site *site, gp_error *err) {
    const fault *there = context;
    if (site->worker != there->worker || site->mini != there->mini || site->pc != there->pc) return GP_OK;
    return gp_fail(err, GP_INJECTED, "injected");
}

static void expect_fault(const char *const *changes, fault there, bool after, const char *when, const char *events) {
    gp_error err = {0};
    char wanted[256], instr[GP_INSTR_TEXT];
    gp_session *session = fixture_session(changes);
    const char *folder = fixture_new_folder();
    const gp_hooks hooks = {.context = &there, .before = after ? NULL : fail_there, .after = after ? fail_there : NULL};
    gp_instr_text(instr, &session->plan->minis[there.mini].programs->worker[there.worker].instrs[there.pc]);
    snprintf(wanted, sizeof wanted, "%s: worker %d, %s: injected", when, there.worker, instr);
    assert_int_equal(train_session(session, folder, &hooks, NULL, &err), GP_INJECTED);
    assert_string_equal(err.text, wanted);
    assert_string_equal(events_of(folder), events);
    /* Its configuration, plan and metrics: no model, no part of one. */
    assert_int_equal(fixture_count_entries(folder), 3);
}

static void expect_every_fault(const char *const *changes, bool after) {
    int threads = test_threads();
    gp_session *session = fixture_session(changes);
    size_t counts[8] = {0};
    int workers = session->plan->workers;
    for (int w = 0; w < workers; w++) counts[w] = session->plan->minis[0].programs->worker[w].count;
    gp_session_close(&session);
    for (int w = 0; w < workers; w++) {
        assert_true(counts[w] > 20);
        for (size_t pc = 0; pc < counts[w]; pc++)
            expect_fault(changes, (fault){w, 0, pc}, after, "step 1", "start end:failed 0");
    }
    expect_threads(threads);
}

static void a_fault_anywhere_ends_the_run_with_its_cause(void **state) {
    (void)state;
    expect_every_fault(FIXTURE_CHANGES("train.steps=2"), false);
    expect_every_fault(FIXTURE_CHANGES("train.steps=2", "pipeline.lockstep=false", "pipeline.checkpoint=never"), true);
}

static void a_fault_says_in_which_step_or_evaluation(void **state) {
    (void)state;
    gp_session *session = fixture_session(NULL);
    int last = gp_plan_find(session->plan, true, 2), evaluation = gp_plan_find(session->plan, false, 14);
    gp_session_close(&session);
    expect_fault(NULL, (fault){1, last, 3}, false, "step 4", "start s1 s2 s3 end:failed 3");
    expect_fault(NULL, (fault){0, evaluation, 1}, false, "evaluation after step 4", "start s1 s2 s3 s4 end:failed 4");
}

static gp_status truncate_in_step_3(void *context, const gp_site *site, gp_error *err) {
    const char *path = context;
    if (site->worker != 0 || site->pc != 0 || site->step != 3) return GP_OK;
    return truncate(path, 700) == 0 ? GP_OK : gp_fail(err, GP_INTERNAL, "%s cannot be truncated", path);
}

static void a_data_file_that_breaks_leaves_the_model_reached(void **state) {
    (void)state;
    gp_error err = {0};
    char start_of_text[600], steps[64];
    fixture_write_data("breaks.safetensors", FIXTURE_SAMPLES, 0);
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("breaks.safetensors"));
    const gp_hooks hooks = {.context = path, .before = truncate_in_step_3};
    const char *folder = fixture_new_folder();
    gp_session *session =
        fixture_session(FIXTURE_CHANGES("data.train={tensors: breaks.safetensors}", "train={steps: 1000}"));
    assert_int_equal(train_session(session, folder, &hooks, NULL, &err), GP_DATA);
    snprintf(start_of_text, sizeof start_of_text, "%s: ", path);
    if (strstr(err.text, start_of_text) != err.text || !strstr(err.text, "offset")) fail_msg("%s", err.text);
    json_t *lines = fixture_metrics(folder), *end = json_array_get(lines, json_array_size(lines) - 1);
    int64_t reached = integer_of(end, "steps");
    assert_string_equal(text_of(end, "status"), "failed");
    assert_true(reached >= 3 && reached < 1000);
    json_decref(lines);
    /* What was saved is what so many steps on the whole file give. */
    fixture_write_data("breaks.safetensors", FIXTURE_SAMPLES, 0);
    snprintf(steps, sizeof steps, "train={steps: %d}", (int)reached);
    assert_true(equal_models(folder, run(FIXTURE_CHANGES("data.train={tensors: breaks.safetensors}", steps))));
}

static void expect_refused(const char *const *changes, const gp_hooks *hooks, const char *sentence) {
    gp_error err = {0};
    assert_int_equal(train_session(fixture_session(changes), fixture_new_folder(), hooks, NULL, &err), GP_NUMERIC);
    fixture_strip_folder(err.text);
    assert_string_equal(err.text, sentence);
}

#define BY_STAGES(devices, ...) FIXTURE_CHANGES("pipeline.devices=" devices, __VA_ARGS__)

static void where_a_loss_went_wrong_is_named_the_same_for_every_cut(void **state) {
    (void)state;
    static float x[20][2 * 4 * 4];
    static const int64_t y[20] = {0};
    static const char overflow[] =
        "step 2: the loss is not a number: the update was not applied, and the run stops; a lower learning rate or a "
        "warm-up may help; first not finite: micro-batch 1 of 4, batch_norm \"1\": statistics: 8 of 24 elements, the "
        "first is inf";
    static const char data[] =
        "step 2: the loss is not a number: the update was not applied, and the run stops; first not finite: "
        "micro-batch 4 of 4, input: 2 of 32 elements, the first is nan; sample 9 of holes.safetensors: x[9, 0, 0, 3] "
        "is "
        "nan, at byte 1300";
    gp_error err = {0};
    for (int i = 0; i < 20; i++) x[i][i] = 1;
    x[9][3] = NAN; /* the seed puts it into the second mini-batch, which is smaller */
    x[9][7] = NAN;
    const gp_safetensors_item items[] = {{.name = "x", .dtype = GP_F32, .rank = 4, .dim = {20, 2, 4, 4}, .data = x},
                                         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {20}, .data = y}};
    assert_int_equal(gp_safetensors_write(fixture_path("holes.safetensors"), items, 2, NULL, &err), GP_OK);
#define HOLES "data={train: {tensors: holes.safetensors}, batch: 16, shuffle: true}", "train={steps: 2, seed: 4}"
    expect_refused(BY_STAGES("[cpu]", "optimizer.sgd.lr=1e30"), NULL, overflow);
    expect_refused(BY_STAGES("[cpu, cpu]", "optimizer.sgd.lr=1e30"), NULL, overflow);
    expect_refused(BY_STAGES("[cpu, cpu, cpu, cpu]", "optimizer.sgd.lr=1e30", "pipeline.checkpoint=always"), NULL,
                   overflow);
    expect_refused(BY_STAGES("[cpu]", HOLES), NULL, data);
    expect_refused(BY_STAGES("[cpu, cpu]", HOLES, "pipeline.checkpoint=never"), NULL, data);
    expect_refused(BY_STAGES("[cpu, cpu, cpu, cpu]", HOLES), NULL, data);
}

/* The second time that an instruction of step 2 begins. */
static gp_status fail_in_second_pass(void *context, const gp_site *site, gp_error *err) {
    int *begun = context;
    if (site->worker == 0 && site->step == 2 && site->pc == 0 && ++*begun == 2)
        return gp_fail(err, GP_INJECTED, "the fault that was asked for");
    return GP_OK;
}

static void a_second_pass_that_fails_hides_no_cause(void **state) {
    (void)state;
    int begun = 0;
    const gp_hooks hooks = {.context = &begun, .before = fail_in_second_pass};
    expect_refused(FIXTURE_CHANGES("optimizer.sgd.lr=1e30"), &hooks,
                   "step 2: the loss is not a number: the update was not applied, and the run stops; a lower learning "
                   "rate or a warm-up may help; a second pass, to find where it began, failed: worker 0, load s0 m0: "
                   "the fault that was asked for");
    assert_int_equal(begun, 2);
}

static void a_loss_that_is_not_finite_is_not_trained_on(void **state) {
    (void)state;
    gp_error err = {0};
    const char *folder = fixture_new_folder();
    gp_session *session = fixture_session(FIXTURE_CHANGES("optimizer.sgd.lr=1e30"));
    assert_int_equal(train_session(session, folder, NULL, NULL, &err), GP_NUMERIC);
    assert_string_equal(err.text, "step 2: the loss is not a number: the update was not applied, and the run stops; a "
                                  "lower learning rate or a warm-up may help; first not finite: micro-batch 1 of 4, "
                                  "batch_norm \"1\": statistics: 8 of 24 elements, the first is inf");
    assert_string_equal(events_of(folder), "start s1 s2 end:failed 1");
    json_t *lines = fixture_metrics(folder);
    assert_true(json_is_null(json_object_get(json_array_get(lines, 2), "loss")));
    json_decref(lines);
    assert_true(equal_models(folder, run(FIXTURE_CHANGES("optimizer.sgd.lr=1e30", "train.steps=1"))));
}

/* As a kill between the two files: plan.json is not put in place. */
static int refuse_plan(const char *from, const char *to) {
    if (!strstr(to, "plan.json")) return rename(from, to);
    errno = EIO;
    return -1;
}

/* With --force, and when it goes on. */
static void no_run_leaves_the_plan_of_another_configuration(void **state) {
    (void)state;
    const gp_file_calls calls = {write, fsync, refuse_plan, fstat, fstatfs};
    const char *const saving[] = {"train.steps=2", "train.save_every=1", NULL};
    const char *const other[] = {"train.steps=3", "pipeline={devices: [cpu]}", NULL};
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        const char *folder = run(saving);
        assert_int_equal(access(in(folder, "plan.json"), F_OK), 0);
        gp_resume resume;
        gp_error err = {0};
        gp_session *session = goes_on ? fixture_resume(FIXTURE_CONFIG, other, folder, &resume) : fixture_session(other);
        const gp_train_options options = {.folder = folder, .verbosity = GP_QUIET, .resume = goes_on ? &resume : NULL};
        gp_file_set_calls(&calls);
        gp_status status = gp_train(session, &options, &err);
        gp_file_set_calls(NULL);
        assert_int_equal(status, GP_IO);
        assert_non_null(strstr(err.text, "plan.json"));
        assert_int_equal(access(in(folder, "plan.json"), F_OK), -1);
        gp_session_close(&session);
        if (goes_on) gp_resume_close(&resume);
    }
}

/* ---- being asked to stop ----------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop;
static atomic_bool handled;

static void ask_to_stop(int number) {
    (void)number;
    stop = 1;
    atomic_store(&handled, true);
}

typedef struct asker {
    pthread_t main_thread;
    int mini;
    uint64_t step;
} asker;

/* A signal to the main thread while a worker is in the mini-batch, and surely handled before it goes on. */
static gp_status ask_there(void *context, const gp_site *site, gp_error *err) {
    const asker *a = context;
    (void)err;
    if (site->worker != 1 || site->pc != 2 || site->mini != a->mini || site->step != a->step) return GP_OK;
    pthread_kill(a->main_thread, SIGUSR1);
    while (!atomic_load(&handled)) sched_yield();
    return GP_OK;
}

static const char *stopped_run(const char *const *changes, bool training, int64_t samples, uint64_t step) {
    gp_error err = {0};
    const struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    stop = 0;
    atomic_store(&handled, false);
    gp_session *session = fixture_session(changes);
    asker a = {pthread_self(), gp_plan_find(session->plan, training, samples), step};
    const gp_hooks hooks = {.context = &a, .before = ask_there};
    const char *folder = fixture_new_folder();
    gp_status status = train_session(session, folder, &hooks, &stop, &err);
    bool done = strstr(events_of(folder), "end:done") != NULL;
    if (status != (done ? GP_OK : GP_INTERRUPTED)) fail_msg("%s", err.text);
    assert_string_equal(err.text, "");
    assert_true(handled);
    return folder;
}

static void a_run_ends_after_the_step_in_which_it_is_asked(void **state) {
    (void)state;
    const char *folder = stopped_run(NULL, true, 16, 3);
    assert_string_equal(events_of(folder), "start s1 s2 s3 end:interrupted 3");
    assert_true(equal_models(folder, run(FIXTURE_CHANGES("train.steps=3"))));
    /* Before an evaluation that is due, and after the last step. */
    assert_string_equal(events_of(stopped_run(NULL, true, 2, 4)), "start s1 s2 s3 s4 end:interrupted 4");
    assert_string_equal(events_of(stopped_run(NULL, true, 2, 8)), "start s1 s2 s3 s4 e4 s5 s6 s7 s8 end:interrupted 8");
}

static void an_evaluation_is_given_up_without_an_event(void **state) {
    (void)state;
    const char *smaller[] = {"data.batch=10", NULL};
    const char *folder = stopped_run(smaller, false, 10, 5);
    assert_string_equal(events_of(folder), "start s1 s2 s3 s4 s5 end:interrupted 5");
    assert_true(equal_models(folder, run(FIXTURE_CHANGES("data.batch=10", "train.steps=5"))));
    assert_string_equal(events_of(stopped_run(smaller, false, 10, 10)),
                        "start s1 s2 s3 s4 s5 e5 s6 s7 s8 s9 s10 end:interrupted 10");
}

/* Nothing is left to give up. */
static void an_evaluation_asked_in_its_last_mini_batch_is_whole(void **state) {
    (void)state;
    const char *smaller[] = {"data.batch=10", NULL};
    assert_string_equal(events_of(stopped_run(smaller, false, 4, 5)), "start s1 s2 s3 s4 s5 e5 end:interrupted 5");
    assert_string_equal(events_of(stopped_run(smaller, false, 4, 10)),
                        "start s1 s2 s3 s4 s5 e5 s6 s7 s8 s9 s10 e10 end:done 10");
}

static void a_run_asked_before_its_first_step_saves_what_it_began_with(void **state) {
    (void)state;
    gp_error err = {0};
    const volatile sig_atomic_t stopped = 1;
    const char *folder = fixture_new_folder();
    assert_int_equal(train_session(fixture_session(NULL), folder, NULL, &stopped, &err), GP_INTERRUPTED);
    assert_string_equal(events_of(folder), "start end:interrupted 0");
    assert_true(equal_models(folder, run(FIXTURE_CHANGES("train.steps=0"))));
}

/* The snapshot of a step whose evaluation was given up is written again with it: afterwards nothing is left to do. */
static void an_evaluation_given_up_is_made_up_for(void **state) {
    (void)state;
    const char *smaller[] = {"data.batch=10", NULL};
    const char *folder = stopped_run(smaller, false, 10, 10);
    const struct {
        bool finished;
        const char *events;
    } wanted[] = {{false, "start s1 s2 s3 s4 s5 e5 s6 s7 s8 s9 s10 end:interrupted 10"},
                  {true, "start s1 s2 s3 s4 s5 e5 s6 s7 s8 s9 s10 resume e10 end:done 10"}};
    for (int i = 0; i < 2; i++) {
        gp_error err = {0};
        gp_resume resume = {0};
        gp_session *session =
            fixture_resume(FIXTURE_CONFIG, FIXTURE_CHANGES("data.batch=10", "train.save_every=5"), folder, &resume);
        assert_string_equal(events_of(folder), wanted[i].events);
        assert_int_equal(resume.finished, wanted[i].finished);
        const gp_train_options options = {.folder = folder, .verbosity = GP_QUIET, .resume = &resume};
        if (!resume.finished && gp_train(session, &options, &err) != GP_OK) fail_msg("%s", err.text);
        gp_resume_close(&resume);
        gp_session_close(&session);
    }
    assert_true(equal_models(folder, run(smaller)));
}

static gp_status go_on(const char *const *changes, const char *folder, gp_error *err) {
    gp_resume resume = {0};
    gp_session *session = fixture_resume(FIXTURE_CONFIG, changes, folder, &resume);
    const gp_train_options options = {.folder = folder, .verbosity = GP_QUIET, .resume = &resume};
    gp_status status = gp_train(session, &options, err);
    gp_resume_close(&resume);
    gp_session_close(&session);
    return status;
}

/* The evaluation that was given up is that of the mini-batches before the change. Run from its start, the changed
 * configuration does the same. */
static void an_evaluation_given_up_comes_before_a_change(void **state) {
    (void)state;
    gp_error err = {0};
    const char *smaller[] = {"data.batch=10", NULL};
    const char *folder = stopped_run(smaller, false, 10, 5);
    if (go_on(FIXTURE_CHANGES("data.batch=13"), folder, &err) != GP_OK) fail_msg("%s", err.text);
    assert_string_equal(events_of(folder), "start s1 s2 s3 s4 s5 resume e5 change s6 s7 s8 s9 e9 end:done 9");
    const char *again = run(FIXTURE_CHANGES("data.batch=10", "changes={6: {data.batch: 13}}"));
    assert_string_equal(events_of(again), "start s1 s2 s3 s4 s5 e5 change s6 s7 s8 s9 e9 end:done 9");
    assert_true(equal_models(folder, again));
}

/* What version 1 of the format lacks is taken away. */
static void make_version_1(const char *folder, int64_t step) {
    static const char *const keys[] = {"config",   "step",      "epoch", "evaluated",    "loss",
                                       "accuracy", "best_step", "best",  "metrics_bytes"};
    enum { KEYS = sizeof keys / sizeof *keys };
    const char *metadata[2 * (KEYS + 1) + 1] = {"snapshot", "1"};
    gp_error err = {0};
    gp_snapshot snapshot;
    gp_state_layout layout;
    const gp_path path = gp_snapshot_path(folder, step);
    gp_session *session = fixture_session(NULL);
    assert_int_equal(gp_snapshot_open(path.text, &snapshot, &err), GP_OK);
    for (int i = 0; i < KEYS; i++) {
        metadata[2 * i + 2] = keys[i];
        metadata[2 * i + 3] = gp_safetensors_metadata(snapshot.file, keys[i]);
    }
    assert_int_equal(gp_state_layout_init(&layout, session->plan, &err), GP_OK);
    char *block = calloc(1, layout.bytes);
    gp_state_layout_place(&layout, block);
    for (int i = 0; i < layout.count; i++) {
        const gp_safetensor *tensor = gp_safetensors_find(snapshot.file, layout.items[i].name);
        size_t bytes = (size_t)(tensor->end - tensor->begin);
        assert_int_equal(gp_tensor_read(snapshot.file, tensor->name, layout.copies[i].host, bytes, &err), GP_OK);
    }
    assert_int_equal(gp_safetensors_write_summed(path.text, layout.items, (size_t)layout.count, metadata, &err), GP_OK);
    free(block);
    gp_state_layout_fini(&layout);
    gp_snapshot_close(&snapshot);
    gp_session_close(&session);
}

static void a_snapshot_of_version_1_goes_on(void **state) {
    (void)state;
    gp_error err = {0};
    for (int changed = 0; changed < 2; changed++) {
        const char *folder = run(FIXTURE_CHANGES("train={steps: 6, save_every: 6}"));
        make_version_1(folder, 6);
        const char *const *same = FIXTURE_CHANGES("train.steps=9"), *const *other = FIXTURE_CHANGES("train.steps=9",
                                                                                                    "data.batch=5");
        if (go_on(changed ? other : same, folder, &err) != GP_OK) fail_msg("%s", err.text);
        const char *whole =
            run(changed ? FIXTURE_CHANGES("train.steps=6", "changes={7: {data.batch: 5, train.steps: 9}}")
                        : FIXTURE_CHANGES("train.steps=9"));
        assert_true(equal_models(folder, whole));
    }
}

/* The handler runs in the thread that called: those of the run leave signals alone. */
static gp_status block_check(void *context, const gp_site *site, gp_error *err) {
    sigset_t mask;
    (void)site;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    if (sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM)) return GP_OK;
    atomic_store((atomic_bool *)context, true);
    return gp_fail(err, GP_INTERNAL, "a worker takes signals");
}

/* Before the first step: nobody waits for hours for a file that cannot be. */
static void a_snapshot_that_cannot_be_is_refused_at_once(void **state) {
    (void)state;
    enum { BYTES = GP_SAFETENSORS_MAX_HEADER - 1000 };
    gp_error err = {0};
    gp_saver *saver = NULL;
    gp_session *session = fixture_session(NULL);
    char *config = calloc(BYTES + 1, 1);
    assert_non_null(config);
    memset(config, 'x', BYTES);
    assert_int_equal(gp_saver_create(session->plan, "run", config, 3, &saver, &err), GP_IO);
    assert_non_null(
        strstr(err.text, "no snapshot of this run could be written: run/snapshots: the header would have "));
    config[BYTES / 2] = 0;
    if (gp_saver_create(session->plan, "run", config, 3, &saver, &err) != GP_OK) fail_msg("%s", err.text);
    gp_saver_destroy(&saver);
    free(config);
    gp_session_close(&session);
}

static void workers_take_no_signals(void **state) {
    (void)state;
    gp_error err = {0};
    sigset_t mask;
    atomic_bool open = false;
    const gp_hooks hooks = {.context = &open, .before = block_check};
    if (train_session(fixture_session(NULL), fixture_new_folder(), &hooks, NULL, &err) != GP_OK)
        fail_msg("%s", err.text);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGINT));
}

/* A hundred times as long as the last one held the run up, if that is more than the time. */
static void snapshots_at_about_a_time_cost_little(void **state) {
    (void)state;
    const gp_every about = {.minutes = 10, .about = true}, minutes = {.minutes = 0.5};
    assert_true(gp_save_interval(&about, 0) == 600);
    assert_true(gp_save_interval(&about, 6) == 600);
    assert_true(gp_save_interval(&about, 60) == 6000);
    assert_true(gp_save_interval(&minutes, 60) == 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshots_at_about_a_time_cost_little),
        cmocka_unit_test(a_run_writes_its_steps_and_evaluations),
        cmocka_unit_test(the_network_learns),
        cmocka_unit_test(the_accuracy_of_a_step_is_that_of_its_mini_batch),
        cmocka_unit_test(a_loss_without_classes_has_no_accuracy),
        cmocka_unit_test(the_best_model_is_that_of_the_best_evaluation),
        cmocka_unit_test(evaluations_come_when_they_are_due),
        cmocka_unit_test(the_first_of_steps_and_epochs_ends_the_run),
        cmocka_unit_test(drop_last_leaves_out_the_smaller_batch),
        cmocka_unit_test(the_warmup_is_in_the_metrics),
        cmocka_unit_test(losses_are_means_over_the_targets_that_count),
        cmocka_unit_test(where_nothing_counts_the_loss_is_0),
        cmocka_unit_test(a_run_can_be_repeated),
        cmocka_unit_test(init_goes_on_from_a_model),
        cmocka_unit_test(dropout_follows_the_seed),
        cmocka_unit_test(an_init_that_breaks_before_it_is_read_leaves_the_folder_as_it_was),
        cmocka_unit_test(a_run_that_fails_leaves_no_old_model),
        cmocka_unit_test(a_fault_anywhere_ends_the_run_with_its_cause),
        cmocka_unit_test(a_fault_says_in_which_step_or_evaluation),
        cmocka_unit_test(a_data_file_that_breaks_leaves_the_model_reached),
        cmocka_unit_test(a_loss_that_is_not_finite_is_not_trained_on),
        cmocka_unit_test(where_a_loss_went_wrong_is_named_the_same_for_every_cut),
        cmocka_unit_test(a_second_pass_that_fails_hides_no_cause),
        cmocka_unit_test(no_run_leaves_the_plan_of_another_configuration),
        cmocka_unit_test(a_run_ends_after_the_step_in_which_it_is_asked),
        cmocka_unit_test(an_evaluation_is_given_up_without_an_event),
        cmocka_unit_test(an_evaluation_asked_in_its_last_mini_batch_is_whole),
        cmocka_unit_test(a_run_asked_before_its_first_step_saves_what_it_began_with),
        cmocka_unit_test(an_evaluation_given_up_is_made_up_for),
        cmocka_unit_test(an_evaluation_given_up_comes_before_a_change),
        cmocka_unit_test(a_snapshot_of_version_1_goes_on),
        cmocka_unit_test(a_snapshot_that_cannot_be_is_refused_at_once),
        cmocka_unit_test(workers_take_no_signals),
    };
    return cmocka_run_group_tests_name("trainer", tests, fixture_make, fixture_remove);
}
