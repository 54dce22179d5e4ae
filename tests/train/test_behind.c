/* Whole runs whose steps begin behind one another, on host memory in a GPU's place: as if each had begun when the one
 * before was over, whatever ends the run. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/host_api.h"
#include "data/safetensors.h"
#include "train/fixture.h"
#include "train/folder.h"
#include "train/snapshot.h"
#include "train/trainer.h"

enum { BATCH = 4, SAMPLES = 98, EPOCH = 25, STEPS = 50, ELEMENTS = 32, SPOILT_STEP = 20 };

/* 24 mini-batches of 4 and one of 2 an epoch. */
#define CHANGES(...)                                                                                                   \
    FIXTURE_CHANGES("data.batch=4", "data.shuffle=false", "pipeline.micro_batches=2",                                  \
                    "pipeline.devices=[cuda:0, cuda:0]", "train={steps: 50}", __VA_ARGS__)
#define WHOLE "data.train={tensors: whole.safetensors}"

/* `number`: what is added in one of the samples of step SPOILT_STEP. */
static void write_data(const char *name, float number) {
    static float x[SAMPLES][ELEMENTS];
    int64_t y[SAMPLES];
    gp_error err = {0};
    for (int n = 0; n < SAMPLES; n++) {
        y[n] = n % FIXTURE_CLASSES;
        for (int i = 0; i < ELEMENTS; i++)
            x[n][i] = (float)((n * 7 + i * 13) % 11) / 11 + (i % FIXTURE_CLASSES == y[n] ? 1.0F : 0.0F);
    }
    x[(SPOILT_STEP - 1) * BATCH + 2][5] += number;
    const gp_safetensors_item items[] = {
        {.name = "x", .dtype = GP_F32, .rank = 4, .dim = {SAMPLES, 2, 4, 4}, .data = x},
        {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {SAMPLES}, .data = y}};
    assert_int_equal(gp_safetensors_write(fixture_path(name), items, 2, NULL, &err), GP_OK);
}

static int make(void **state) {
    int made = fixture_make(state);
    gp_cuda = &gp_host_api;
    gp_host_api_set_care(GP_HOST_ONCE);
    write_data("whole.safetensors", 0);
    write_data("nan.safetensors", NAN);
    write_data("breaks.safetensors", 0);
    return made;
}

/* ---- a run, and what it looked like from within ------------------------------------------------------------------ */

typedef struct watcher {
    const char *folder;
    bool behind[STEPS + 1]; /* [step] it began when the one before had not been reported */
    int64_t stop_at, fail_at, break_at;
    volatile sig_atomic_t stop;
} watcher;

static int count_steps(const char *folder) {
    json_t *lines = fixture_metrics(folder);
    int count = 0;
    for (size_t i = 0; i < json_array_size(lines); i++)
        count += !strcmp(json_string_value(json_object_get(json_array_get(lines, i), "event")), "step");
    json_decref(lines);
    return count;
}

static gp_status look(void *context, const gp_site *site, gp_error *err) {
    watcher *it = context;
    if (site->worker != 0 || site->pc != 0 || site->mini != 0) return GP_OK;
    it->behind[site->step] = count_steps(it->folder) < (int)site->step - 1;
    if ((int64_t)site->step == it->stop_at) it->stop = 1;
    if ((int64_t)site->step == it->break_at) (void)!truncate(fixture_path("breaks.safetensors"), 700);
    if ((int64_t)site->step == it->fail_at) return gp_fail(err, GP_DEVICE, "made to fail");
    return GP_OK;
}

static const char *new_folder(void) {
    static int runs;
    gp_error err = {0};
    char name[32];
    snprintf(name, sizeof name, "run%d", runs++);
    const char *folder = fixture_path(name);
    assert_int_equal(gp_folder_make(folder, &err), GP_OK);
    return folder;
}

/* `alone`: all steps are traced, so that each begins when the one before is over. */
static gp_status train(const char *const *changes, bool alone, watcher *it, gp_error *err) {
    char trace[600];
    gp_session *session = fixture_session(changes);
    it->folder = new_folder();
    const gp_hooks hooks = {.context = it, .before = look};
    snprintf(trace, sizeof trace, "%s.json", it->folder);
    const gp_train_options options = {.folder = it->folder,
                                      .verbosity = GP_QUIET,
                                      .stop = &it->stop,
                                      .hooks = &hooks,
                                      .trace = {.path = alone ? trace : NULL, .first = 1, .last = STEPS}};
    *err = (gp_error){0};
    gp_status status = gp_train(session, &options, err);
    gp_session_close(&session);
    return status;
}

static int count_behind(const watcher *it) {
    int count = 0;
    for (int s = 0; s <= STEPS; s++) count += it->behind[s];
    return count;
}

static void expect_equal_models(const watcher *a, const watcher *b) {
    size_t bytes[2];
    char path[600];
    snprintf(path, sizeof path, "%s/model.safetensors", a->folder);
    char *first = fixture_read(path, &bytes[0]);
    snprintf(path, sizeof path, "%s/model.safetensors", b->folder);
    char *second = fixture_read(path, &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(first, second, bytes[0]);
    free(first);
    free(second);
}

/* But for what was measured. */
static void expect_equal_metrics(const watcher *a, const watcher *b) {
    json_t *lines[2] = {fixture_metrics(a->folder), fixture_metrics(b->folder)};
    assert_int_equal(json_array_size(lines[0]), json_array_size(lines[1]));
    for (size_t i = 1; i < json_array_size(lines[0]); i++) {
        char *text[2];
        for (int k = 0; k < 2; k++) {
            json_t *line = json_array_get(lines[k], i);
            json_object_del(line, "seconds");
            json_object_del(line, "account");
            text[k] = json_dumps(line, JSON_SORT_KEYS);
        }
        assert_string_equal(text[0], text[1]);
        free(text[0]);
        free(text[1]);
    }
    json_decref(lines[0]);
    json_decref(lines[1]);
}

static void expect_equal_snapshots(const watcher *a, const watcher *b) {
    int64_t *steps[2];
    int count[2];
    gp_error err;
    assert_int_equal(gp_snapshot_list(a->folder, &steps[0], &count[0], &err), GP_OK);
    assert_int_equal(gp_snapshot_list(b->folder, &steps[1], &count[1], &err), GP_OK);
    assert_int_equal(count[0], count[1]);
    for (int i = 0; i < count[0]; i++) assert_int_equal(steps[0][i], steps[1][i]);
    free(steps[0]);
    free(steps[1]);
}

/* Both ways: the same end, the same model, the same lines. */
static void expect_same(const char *const *changes, gp_status wanted, const char *sentence) {
    gp_error err[2];
    watcher alone = {0}, behind = {0};
    assert_int_equal(train(changes, true, &alone, &err[0]), wanted);
    assert_int_equal(train(changes, false, &behind, &err[1]), wanted);
    assert_int_equal(count_behind(&alone), 0);
    assert_true(count_behind(&behind) > 0);
    if (sentence) assert_non_null(strstr(err[0].text, sentence));
    if (sentence) assert_string_equal(err[0].text, err[1].text);
    expect_equal_models(&alone, &behind);
    expect_equal_metrics(&alone, &behind);
    expect_equal_snapshots(&alone, &behind);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* All but those that are recorded, of another size than the one before, or behind one that something waits for. */
static void which_steps_begin_behind(void **state) {
    (void)state;
    gp_error err;
    watcher it = {0};
    if (train(CHANGES(WHOLE), false, &it, &err) != GP_OK) fail_msg("%s", err.text);
    for (int s = 1; s <= STEPS; s++) {
        /* Of the full ones the second to the ninth, and every sixteenth; and who comes then has nothing before it. */
        bool recorded = s <= 10 || s == 16 || s == 17 || s == 33 || s == 34 || s == 49;
        if (recorded || s % EPOCH <= 1) continue;
        if (!it.behind[s]) fail_msg("step %d began alone", s);
    }
    for (int s = 1; s < 10; s++) assert_false(it.behind[s]);
    for (int s = EPOCH; s <= STEPS; s += EPOCH) assert_false(it.behind[s] || it.behind[(s + 1) % STEPS]);
    assert_int_equal(count_steps(it.folder), STEPS);
    memset(it.behind, 0, sizeof it.behind);
    if (train(CHANGES(WHOLE, "pipeline.devices=[cpu, cpu]"), false, &it, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(count_behind(&it), 0);
}

static void they_come_to_the_same(void **state) {
    (void)state;
    expect_same(CHANGES(WHOLE), GP_OK, NULL);
    expect_same(CHANGES(WHOLE, "pipeline.devices=[cuda:0, cpu, cuda:1]"), GP_OK, NULL);
    expect_same(CHANGES(WHOLE, "optimizer.clip_norm=0.1", "train.eval_every=7", "train.save_every=5", "train.keep=20"),
                GP_OK, NULL);
}

/* The step behind it changes nothing, and where it began is found as ever. */
static void one_is_not_finite(void **state) {
    (void)state;
    expect_same(CHANGES("data.train={tensors: nan.safetensors}"), GP_NUMERIC,
                "step 20: the loss is not a number: the update was not applied, and the run stops");
}

/* What was begun is ended and reported before the run stops. */
static void a_mini_batch_cannot_be_read(void **state) {
    (void)state;
    gp_error err;
    char steps[64];
    watcher breaks = {.break_at = 12}, reached = {0};
    assert_int_equal(train(CHANGES("data.train={tensors: breaks.safetensors}"), false, &breaks, &err), GP_DATA);
    assert_true(breaks.behind[12]);
    json_t *lines = fixture_metrics(breaks.folder), *end = json_array_get(lines, json_array_size(lines) - 1);
    int count = count_steps(breaks.folder);
    assert_int_equal(json_integer_value(json_object_get(end, "steps")), count);
    assert_true(count >= 12 && count < EPOCH);
    json_decref(lines);
    snprintf(steps, sizeof steps, "train={steps: %d}", count);
    if (train(CHANGES(WHOLE, steps), true, &reached, &err) != GP_OK) fail_msg("%s", err.text);
    expect_equal_models(&breaks, &reached);
}

static void it_is_stopped(void **state) {
    (void)state;
    gp_error err;
    watcher whole = {0}, stopped = {.stop_at = 22};
    if (train(CHANGES(WHOLE), false, &stopped, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(count_steps(stopped.folder), 22);
    gp_session *session = fixture_session(CHANGES(WHOLE));
    gp_resume resume = {0};
    if (gp_resume_open(session, stopped.folder, &resume, &err) != GP_OK) fail_msg("%s", err.text);
    const gp_train_options options = {.folder = stopped.folder, .verbosity = GP_QUIET, .resume = &resume};
    if (gp_train(session, &options, &err) != GP_OK) fail_msg("%s", err.text);
    gp_resume_close(&resume);
    gp_session_close(&session);
    if (train(CHANGES(WHOLE), false, &whole, &err) != GP_OK) fail_msg("%s", err.text);
    expect_equal_models(&whole, &stopped);
}

static void a_worker_fails(void **state) {
    (void)state;
    gp_error err;
    watcher it = {.fail_at = 22};
    assert_int_equal(train(CHANGES(WHOLE), false, &it, &err), GP_DEVICE);
    assert_non_null(strstr(err.text, "step 21 or 22: worker 0, "));
    it = (watcher){.fail_at = 5};
    assert_int_equal(train(CHANGES(WHOLE), false, &it, &err), GP_DEVICE);
    assert_non_null(strstr(err.text, "step 5: worker 0, "));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(which_steps_begin_behind),
                                       cmocka_unit_test(they_come_to_the_same),
                                       cmocka_unit_test(one_is_not_finite),
                                       cmocka_unit_test(a_mini_batch_cannot_be_read),
                                       cmocka_unit_test(it_is_stopped),
                                       cmocka_unit_test(a_worker_fails)};
    return cmocka_run_group_tests(tests, make, fixture_remove);
}
