/* Whole runs whose steps begin behind one another, on host memory in a GPU's place: as if each had begun when the one
 * before was over, whatever ends the run. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda/host_api.h"
#include "data/safetensors.h"
#include "plan/memory.h"
#include "report/warnings.h"
#include "session/fixture.h"
#include "session/resume.h"
#include "store/snapshot.h"
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
        {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {SAMPLES}, .data = y},
        {.name = "x", .dtype = GP_F32, .rank = 4, .dim = {SAMPLES, 2, 4, 4}, .data = x}}; /* at the end */
    assert_int_equal(gp_safetensors_write(fixture_path(name), items, 2, NULL, &err), GP_OK);
}

static int make(void **state) {
    int made = fixture_make(state);
    gp_cuda = &gp_host_api;
    gp_host_api_set_care(GP_HOST_ONCE);
    write_data("whole.safetensors", 0);
    write_data("nan.safetensors", NAN);
    write_data("breaks.safetensors", 0);
    write_data("nan-breaks.safetensors", NAN);
    return made;
}

/* ---- a run, and what it looked like from within ------------------------------------------------------------------ */

typedef struct watcher {
    const char *folder;
    bool behind[STEPS + 1]; /* [step] it began when the one before had not been reported */
    int64_t stop_at, fail_at, break_at;
    const char *broken; /* file that ends behind step SPOILT_STEP from step break_at on */
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

static void break_file(const char *name) {
    struct stat about;
    const char *path = fixture_path(name);
    off_t lost = (SAMPLES - SPOILT_STEP * BATCH) * ELEMENTS * (off_t)sizeof(float);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size - lost), 0);
}

static gp_status look(void *context, const gp_site *site, gp_error *err) {
    watcher *it = context;
    if (site->worker != 0 || site->pc != 0 || site->mini != 0) return GP_OK;
    usleep(500); /* so that the loader is ahead */
    it->behind[site->step] = count_steps(it->folder) < (int)site->step - 1;
    if ((int64_t)site->step == it->stop_at) it->stop = 1;
    if ((int64_t)site->step == it->break_at) break_file(it->broken);
    if ((int64_t)site->step == it->fail_at) return gp_fail(err, GP_DEVICE, "made to fail");
    return GP_OK;
}

/* `alone`: all steps are traced, so that each begins when the one before is over. */
static gp_status train(const char *const *changes, bool alone, watcher *it, gp_error *err) {
    char trace[600];
    gp_session *session = fixture_session(changes);
    it->folder = fixture_new_folder();
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
            json_object_del(line, "data_seconds");
            json_object_del(line, "time");
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
    int alone = 0;
    for (int s = 1; s <= STEPS; s++) {
        /* Of the full ones the second to the ninth, and every sixteenth; and who comes then has nothing before it. */
        bool recorded = s <= 10 || s == 16 || s == 17 || s == 33 || s == 34 || s == 49;
        if (!recorded && s % EPOCH > 1) alone += !it.behind[s];
    }
    assert_true(alone < 10); /* of 33: none, but where the loader was not there yet */
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
    static const char sentence[] = "step 20: the loss is not a number: the update was not applied, and the run stops";
    expect_same(CHANGES("data.train={tensors: nan.safetensors}"), GP_NUMERIC, sentence);
    expect_same(CHANGES("data.train={tensors: nan.safetensors}", "pipeline.devices=[cuda:0, cpu]"), GP_NUMERIC,
                sentence);
    expect_same(
        CHANGES("data.train={tensors: nan.safetensors}", "pipeline.devices=[cpu, cuda:0]", "optimizer.clip_norm=1"),
        GP_NUMERIC, sentence);
}

/* What was begun is ended and reported before the run stops; where that fails, it came first. */
static void a_mini_batch_cannot_be_read(void **state) {
    (void)state;
    gp_error err;
    watcher breaks = {.break_at = 12, .broken = "breaks.safetensors"}, reached = {0};
    assert_int_equal(train(CHANGES("data.train={tensors: breaks.safetensors}"), false, &breaks, &err), GP_DATA);
    assert_int_equal(count_steps(breaks.folder), SPOILT_STEP);
    json_t *lines = fixture_metrics(breaks.folder), *end = json_array_get(lines, json_array_size(lines) - 1);
    assert_int_equal(json_integer_value(json_object_get(end, "steps")), SPOILT_STEP);
    json_decref(lines);
    if (train(CHANGES(WHOLE, "train={steps: 20}"), true, &reached, &err) != GP_OK) fail_msg("%s", err.text);
    expect_equal_models(&breaks, &reached);
    breaks = (watcher){.break_at = 12, .broken = "nan-breaks.safetensors"};
    assert_int_equal(train(CHANGES("data.train={tensors: nan-breaks.safetensors}"), false, &breaks, &err), GP_NUMERIC);
    assert_non_null(strstr(err.text, "step 20: the loss is not a number"));
}

static void it_is_stopped(void **state) {
    (void)state;
    gp_error err;
    watcher whole = {0}, stopped = {.stop_at = 22};
    if (train(CHANGES(WHOLE), false, &stopped, &err) != GP_INTERRUPTED) fail_msg("%s", err.text);
    assert_int_equal(count_steps(stopped.folder), 22);
    gp_resume resume = {0};
    gp_session *session = fixture_resume(FIXTURE_CONFIG, CHANGES(WHOLE), stopped.folder, &resume);
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
    assert_non_null(strstr(err.text, it.behind[22] ? "step 21 or 22: worker 0, " : "step 22: worker 0, "));
    it = (watcher){.fail_at = 5};
    assert_int_equal(train(CHANGES(WHOLE), false, &it, &err), GP_DEVICE);
    assert_non_null(strstr(err.text, "step 5: worker 0, "));
}

static int64_t recorded_of(const watcher *it) {
    json_t *lines = fixture_metrics(it->folder), *end = json_array_get(lines, json_array_size(lines) - 1);
    int64_t count = json_integer_value(json_object_get(json_object_get(end, "account"), "recorded"));
    json_decref(lines);
    return count;
}

/* One full mini-batch an epoch, and a smaller one, which the account does not count. */
static void the_account_counts_the_same(void **state) {
    (void)state;
    gp_error err;
    watcher it[2] = {{0}, {0}};
    const char *devices[2] = {"pipeline.devices=[cuda:0, cuda:0]", "pipeline.devices=[cpu, cpu]"};
    for (int i = 0; i < 2; i++)
        if (train(CHANGES("data.train={tensors: whole.safetensors, take: [0, 6]}", "train.eval_every=1000", devices[i]),
                  false, &it[i], &err) != GP_OK)
            fail_msg("%s", err.text);
    assert_int_equal(recorded_of(&it[0]), 8 + 1);
    assert_int_equal(recorded_of(&it[1]), 8 + 1);
}

/* By the clock: one is due after each step. */
static void snapshots_by_minutes(void **state) {
    (void)state;
    gp_error err;
    watcher it = {0};
    int64_t *steps;
    int count;
    const char *const *changes = CHANGES(WHOLE, "train.save_every=0.000001 minutes", "train.keep=60");
    if (train(changes, false, &it, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(gp_snapshot_list(it.folder, &steps, &count, &err), GP_OK);
    assert_int_equal(count, STEPS);
    free(steps);
}

/* Norms are those of the parameters that the step left. */
static void norms_are_printed(void **state) {
    (void)state;
    gp_error err;
    static const char text[] = FIXTURE_MODEL "data: {train: {tensors: whole.safetensors}}\n"
                                             "optimizer: {sgd: {lr: 0.02}}\n";
    gp_config *config = fixture_config(text, CHANGES("train.eval_every=3"));
    gp_session *session;
    if (gp_session_open(&config, &(gp_session_options){.norms = true}, &session, &err) != GP_OK)
        fail_msg("%s", err.text);
    const gp_train_options options = {.folder = fixture_new_folder(), .verbosity = GP_VERBOSE};
    if (gp_train(session, &options, &err) != GP_OK) fail_msg("%s", err.text);
    gp_session_close(&session);
}

/* ---- what is pinned ---------------------------------------------------------------------------------------------- */

static size_t pinned;

static gp_status count_pinned(size_t bytes, void **out, gp_error *err) {
    __atomic_fetch_add(&pinned, bytes, __ATOMIC_RELAXED);
    return gp_host_api.host_allocate(bytes, out, err);
}

/* Parameters are read in any turn, through the same memory. */
static void no_more_is_pinned_than_planned(void **state) {
    (void)state;
    gp_error err;
    gp_cuda_api counting = gp_host_api;
    counting.host_allocate = count_pinned;
    gp_cuda = &counting;
    gp_session *session = fixture_session(CHANGES(
        WHOLE, "train={steps: 20, save_every: 13}",
        "model={input: {shape: [2, 4, 4]}, loss: cross_entropy, layers: [flatten, {linear: 256}, relu, {linear: "
        "1024}, relu, {linear: 3}]}"));
    size_t planned = 0;
    for (int w = 0; w < session->plan->workers; w++) planned += gp_memory_pinned(session->plan, w);
    const gp_train_options options = {.folder = fixture_new_folder(), .verbosity = GP_QUIET};
    pinned = 0;
    if (gp_train(session, &options, &err) != GP_OK) fail_msg("%s", err.text);
    gp_session_close(&session);
    gp_cuda = &gp_host_api;
    print_message("planned %zu, pinned %zu\n", planned, pinned);
    assert_true(pinned <= planned + planned / 4 && planned <= 2 * pinned);
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

static void expect_advice(const char *const *changes, bool report, const char *wanted) {
    char text[400] = "";
    gp_session *session = fixture_session(changes);
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    gp_precision_advise(session, report, out);
    fclose(out);
    gp_session_close(&session);
    assert_string_equal(text, wanted);
}

/* To all who did not choose f32, and have something to gain. */
static void what_tf32_would_change_is_said(void **state) {
    (void)state;
    static const char line[] =
        "precision f32: TF32 would make convolutions and products on GPUs about 2x faster, but with 10 bits of "
        "mantissa instead of 23; set train.precision: tf32 to use it\n";
    static const char row[] =
        "precision    f32: TF32 would make convolutions and products on GPUs about 2x faster,\n"
        "             but with 10 bits of mantissa instead of 23; set train.precision: tf32 to use it\n";
    expect_advice(CHANGES(WHOLE), false, line);
    expect_advice(CHANGES(WHOLE), true, row);
    expect_advice(CHANGES(WHOLE, "pipeline.devices=[cpu, cuda:0]"), false, line);
    expect_advice(CHANGES(WHOLE, "pipeline.devices=[cpu, cpu]"), false, "");
    expect_advice(CHANGES(WHOLE, "train.precision=f32"), false, "");
    expect_advice(CHANGES(WHOLE, "train.precision=tf32"), true, "");
    expect_advice(CHANGES(WHOLE, "model.layers=[batch_norm, flatten]"), false, "");
}

/* From a step on no work of the GPU ends. */
static atomic_bool hangs;

static gp_status event_done(gp_cuda_event *event, bool *out, gp_error *err) {
    gp_status status = gp_host_api.event_done(event, out, err);
    if (atomic_load(&hangs)) *out = false;
    return status;
}

static gp_status hang(void *context, const gp_site *site, gp_error *err) {
    (void)context;
    (void)err;
    if (site->step == 5) atomic_store(&hangs, true);
    return GP_OK;
}

/* Ends as the program would; stderr is the caller's. */
static void train_with_a_hung_gpu(void) {
    gp_error err = {0};
    gp_cuda_api api = gp_host_api;
    const gp_hooks hooks = {.before = hang};
    api.event_done = event_done;
    gp_cuda = &api;
    gp_session *session = fixture_session(CHANGES(WHOLE, "pipeline.timeout=1"));
    const gp_train_options options = {.folder = fixture_new_folder(), .verbosity = GP_QUIET, .hooks = &hooks};
    gp_status status = gp_train(session, &options, &err);
    _exit(100 + (int)status); /* it cannot get here: closing waits for the GPU's queues */
}

/* What `run` says in a process of its own, and how that ends, as of waitpid. */
static int run_alone(void (*run)(void), char said[1024]) {
    size_t used = 0;
    int ends[2], status;
    memset(said, 0, 1024);
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        run();
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], said + used, 1023 - used)) > 0;) used += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Nothing can stop the GPU, nor what waits for it. */
static void a_gpu_hangs(void **state) {
    char said[1024];
    (void)state;
    int status = run_alone(train_with_a_hung_gpu, said);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) fail_msg("status %x: %s", (unsigned)status, said);
    const char *begin = "gpipe-train: no worker has gone on for ";
    const char *end = " s, longer than pipeline.timeout (1 s): a device hangs (-v finds out in which instruction)\n";
    if (strncmp(said, begin, strlen(begin)) != 0 || !strstr(said, end)) fail_msg("%s", said);
}

/* Of snapshots, on a slow disk. */
static atomic_bool disk_is_slow;

int fsync(int file) {
    char link[64], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (atomic_load(&disk_is_slow) && readlink(link, path, sizeof path - 1) > 0 && strstr(path, "snapshots")) sleep(3);
    return (int)syscall(SYS_fsync, file);
}

static gp_status fail_behind_a_snapshot(void *context, const gp_site *site, gp_error *err) {
    (void)context;
    if (site->step == 6) atomic_store(&disk_is_slow, true);
    return site->step == 7 ? gp_fail(err, GP_DEVICE, "the first cause") : GP_OK;
}

static void train_with_a_slow_disk(void) {
    gp_error err = {0};
    const gp_hooks hooks = {.before = fail_behind_a_snapshot};
    gp_session *session = fixture_session(CHANGES(WHOLE, "pipeline.timeout=1", "train={steps: 50, save_every: 6}"));
    const gp_train_options options = {.folder = fixture_new_folder(), .verbosity = GP_QUIET, .hooks = &hooks};
    gp_status status = gp_train(session, &options, &err);
    bool found = false;
    if (gp_resume_find(options.folder, &found, &(gp_error){0}) != GP_OK) found = false;
    fprintf(stderr, "%s%s", err.text, found ? "; the snapshot is whole" : "");
    _exit(100 + (int)status);
}

/* Workers that have ended do not hang, however long the snapshot takes that is being written. */
static void a_run_fails_while_a_snapshot_is_written(void **state) {
    char said[1024];
    (void)state;
    int status = run_alone(train_with_a_slow_disk, said);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 100 + GP_DEVICE) fail_msg("status %x: %s", (unsigned)status, said);
    if (!strstr(said, "the first cause; the snapshot is whole")) fail_msg("%s", said);
}

/* Out of the device the tensors of a snapshot take long each, and all together longer than the timeout. */
enum { SLOW_COPIES = 8 };
static atomic_int slow_copies; /* that are left */

static gp_status slow_copies_down(void *context, const gp_site *site, gp_error *err) {
    (void)context;
    (void)err;
    if (site->step == 3 && site->worker == 0 && site->pc == 0) atomic_store(&slow_copies, SLOW_COPIES);
    return GP_OK;
}

static gp_status copy_slowly(void *to, const void *from, size_t bytes, gp_cuda_direction direction,
                             gp_cuda_stream *stream, gp_error *err) {
    const struct timespec pause = {0, 400000000};
    if (direction == GP_CUDA_OUT && atomic_fetch_sub(&slow_copies, 1) > 0) nanosleep(&pause, NULL);
    return gp_host_api.copy(to, from, bytes, direction, stream, err);
}

static void train_with_slow_copies(void) {
    gp_error err = {0};
    gp_cuda_api api = gp_host_api;
    const gp_hooks hooks = {.before = slow_copies_down};
    api.copy = copy_slowly;
    gp_cuda = &api;
    gp_session *session = fixture_session(CHANGES(WHOLE, "pipeline.timeout=1", "train={steps: 3, save_every: 3}"));
    const gp_train_options options = {.folder = fixture_new_folder(), .verbosity = GP_QUIET, .hooks = &hooks};
    gp_status status = gp_train(session, &options, &err);
    fprintf(stderr, "%s", err.text);
    _exit(100 + (int)status);
}

static void what_takes_long_to_copy_does_not_hang(void **state) {
    char said[1024];
    (void)state;
    int status = run_alone(train_with_slow_copies, said);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 100) fail_msg("status %x: %s", (unsigned)status, said);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(which_steps_begin_behind),
                                       cmocka_unit_test(they_come_to_the_same),
                                       cmocka_unit_test(one_is_not_finite),
                                       cmocka_unit_test(a_mini_batch_cannot_be_read),
                                       cmocka_unit_test(it_is_stopped),
                                       cmocka_unit_test(a_worker_fails),
                                       cmocka_unit_test(the_account_counts_the_same),
                                       cmocka_unit_test(snapshots_by_minutes),
                                       cmocka_unit_test(norms_are_printed),
                                       cmocka_unit_test(what_tf32_would_change_is_said),
                                       cmocka_unit_test(no_more_is_pinned_than_planned),
                                       cmocka_unit_test(a_gpu_hangs),
                                       cmocka_unit_test(a_run_fails_while_a_snapshot_is_written),
                                       cmocka_unit_test(what_takes_long_to_copy_does_not_hang)};
    return cmocka_run_group_tests(tests, make, fixture_remove);
}
