/* Snapshots as files: their names, and what is said of one whose checksum is right but whose content is not a run's. */
#include "store/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session/fixture.h"
#include "store/saver.h"
#include "store/weights.h"

static gp_session *session;
static gp_state_layout layout;
static char *block;
static gp_safetensors_item items[64];

static int make(void **state) {
    gp_error err = {0};
    if (fixture_make(state) != 0) return -1;
    session = fixture_session(FIXTURE_CHANGES("optimizer={adam: {}}"));
    if (gp_state_layout_init(&layout, session->plan, &err) != GP_OK) fail_msg("%s", err.text);
    assert_true(layout.count > 0 && layout.count < 63);
    block = calloc(1, layout.bytes);
    assert_non_null(block);
    gp_state_layout_place(&layout, block);
    memcpy(items, layout.items, (size_t)layout.count * sizeof *items);
    return 0;
}

static int remove_all(void **state) {
    free(block);
    gp_state_layout_fini(&layout);
    gp_session_close(&session);
    return fixture_remove(state);
}

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

enum { PAIRS = 10 };
static const char *const good[PAIRS][2] = {
    {"snapshot", "1"}, {"config", "a: 1\n"}, {"step", "12"},      {"epoch", "2"},   {"evaluated", "8"},
    {"loss", "0.5"},   {"accuracy", "nan"},  {"best_step", "-1"}, {"best", "-inf"}, {"metrics_bytes", "4000"}};

/* The good metadata with another value for a key; NULL: without it. */
static gp_status open_changed(const char *key, const char *value, gp_snapshot *out, gp_error *err) {
    const char *metadata[2 * PAIRS + 1] = {0}, *path = fixture_path("changed.safetensors");
    size_t used = 0;
    for (int i = 0; i < PAIRS; i++) {
        bool its = strcmp(good[i][0], key) == 0;
        if (its && !value) continue;
        metadata[used++] = good[i][0];
        metadata[used++] = its ? value : good[i][1];
    }
    GP_RETURN_IF_FAILED(gp_safetensors_write_summed(path, items, (size_t)layout.count, metadata, err));
    return gp_snapshot_open(path, out, err);
}

static void what_was_reached_is_read_as_it_stands(void **state) {
    (void)state;
    gp_error err = {0};
    gp_snapshot snapshot = {0};
    if (open_changed("", "", &snapshot, &err) != GP_OK) fail_msg("%s", err.text);
    const gp_reached *reached = &snapshot.reached;
    assert_string_equal(snapshot.config, "a: 1\n");
    assert_int_equal(reached->step, 12);
    assert_int_equal(reached->epoch, 2);
    assert_int_equal(reached->evaluated, 8);
    assert_true(reached->loss == 0.5);
    assert_true(reached->accuracy != reached->accuracy);
    assert_int_equal(reached->best_step, -1);
    assert_true(reached->best < -1e308);
    assert_int_equal(reached->metrics_bytes, 4000);
    assert_null(reached->libraries); /* files from before this text */
    if (gp_snapshot_check(&snapshot, session->plan, false, &err) != GP_OK) fail_msg("%s", err.text);
    gp_snapshot_close(&snapshot);
}

static void what_is_written_comes_back(void **state) {
    (void)state;
    gp_error err = {0};
    gp_snapshot snapshot = {0};
    const gp_reached reached = {.step = UINT32_MAX,
                                .epoch = 3,
                                .evaluated = -1,
                                .loss = 0.1,
                                .accuracy = 2.0 / 3,
                                .best_step = 7,
                                .best = 1e-300,
                                .metrics_bytes = INT64_C(1) << 60,
                                .samples = 50,
                                .steps = INT64_C(1) << 40,
                                .due = 1,
                                .file_text = "train: {epochs: 2}\n",
                                .libraries = "oneDNN 9.9.9 with AVX2, convolutions 7"};
    const char *path = fixture_path("written.safetensors");
    if (gp_snapshot_write(path, items, (size_t)layout.count, NULL, &reached, "", &err) != GP_OK)
        fail_msg("%s", err.text);
    if (gp_snapshot_open(path, &snapshot, &err) != GP_OK) fail_msg("%s", err.text);
    const gp_reached *read = &snapshot.reached;
    assert_true(read->step == reached.step && read->epoch == reached.epoch && read->evaluated == reached.evaluated);
    assert_true(read->loss == reached.loss && read->accuracy == reached.accuracy && read->best == reached.best);
    assert_true(read->best_step == reached.best_step && read->metrics_bytes == reached.metrics_bytes);
    assert_true(read->samples == reached.samples && read->steps == reached.steps && read->due == reached.due);
    assert_string_equal(read->file_text, reached.file_text);
    assert_non_null(read->libraries);
    assert_string_equal(read->libraries, reached.libraries);
    gp_snapshot_close(&snapshot);
}

static void metadata_that_no_run_writes_are_named(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *rest;
    } cases[] = {
        {"snapshot", "3", "is of version 3 of this format; this program reads versions 1 and 2"},
        {"snapshot", "2", "its metadata have no number \"samples\""},
        {"snapshot", NULL, "is of version none of this format; this program reads versions 1 and 2"},
        {"config", NULL, "its metadata have no configuration"},
        {"step", NULL, "its metadata have no number \"step\""},
        {"step", "", "its metadata have no number \"step\""},
        {"step", "12.5", "its metadata have no number \"step\""},
        {"loss", NULL, "its metadata have no number \"loss\""},
        {"loss", "low", "its metadata have no number \"loss\""},
        {"loss", "0.5 ", "its metadata have no number \"loss\""},
        {"best_step", "x", "its metadata have no number \"best_step\""},
        {"step", "-1", "its metadata have impossible numbers"},
        {"step", "4294967296", "its metadata have impossible numbers"},
        {"step", "99999999999999999999", "its metadata have impossible numbers"},
        {"epoch", "-1", "its metadata have impossible numbers"},
        {"metrics_bytes", "-1", "its metadata have impossible numbers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_error err = {0};
        gp_snapshot snapshot = {0};
        char wanted[800];
        snprintf(wanted, sizeof wanted, "%s: %s", fixture_path("changed.safetensors"), cases[i].rest);
        assert_int_equal(open_changed(cases[i].key, cases[i].value, &snapshot, &err), GP_DATA);
        assert_string_equal(err.text, wanted);
        assert_null(snapshot.file);
    }
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static void expect_refused(size_t count, const char *wanted) {
    gp_error err = {0};
    gp_snapshot snapshot = {0};
    const gp_reached reached = {.step = 1};
    const char *path = fixture_path("tensors.safetensors");
    if (gp_snapshot_write(path, items, count, NULL, &reached, "", &err) != GP_OK) fail_msg("%s", err.text);
    if (gp_snapshot_open(path, &snapshot, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(gp_snapshot_check(&snapshot, session->plan, false, &err), GP_DATA);
    assert_string_equal(err.text, wanted);
    gp_snapshot_close(&snapshot);
}

/* The last of them is a state of the optimizer. */
static void other_tensors_than_the_runs_are_refused(void **state) {
    (void)state;
    char wanted[128];
    size_t count = (size_t)layout.count;
    gp_safetensors_item *last = &items[count - 1], was = *last;
    assert_string_equal(last->name, "optimizer/7.bias/exp_avg_sq");
    expect_refused(count - 1, "tensor \"optimizer/7.bias/exp_avg_sq\" is missing");
    last->dim[0] = 2;
    expect_refused(count, "tensor \"optimizer/7.bias/exp_avg_sq\" has shape [2], but the model's is [3]");
    *last = was;
    last->dtype = GP_I64;
    last->data = block; /* large enough for wider elements */
    expect_refused(count, "tensor \"optimizer/7.bias/exp_avg_sq\" is of type I64, but weights are F32");
    *last = was;
    items[count] = was;
    items[count].name = "optimizer/7.bias/max_exp_avg_sq";
    snprintf(wanted, sizeof wanted, "it has %zu tensors, but the run has %zu", count + 1, count);
    expect_refused(count + 1, wanted);
}

/* Such as a version of this program left that did not look. */
static void values_that_are_not_finite_are_refused(void **state) {
    (void)state;
    gp_error err = {0};
    gp_snapshot snapshot = {0};
    gp_run *run = NULL;
    char wanted[400];
    const char *path = fixture_path("infinite.safetensors");
    const gp_reached reached = {.step = 1};
    float *last = layout.copies[layout.count - 1].host;
    if (gp_run_create(session->plan, NULL, &run, &err) != GP_OK) fail_msg("%s", err.text);
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        last[1] = spoilt ? INFINITY : 1;
        if (gp_snapshot_write(path, items, (size_t)layout.count, NULL, &reached, "", &err) != GP_OK)
            fail_msg("%s", err.text);
        if (gp_snapshot_open(path, &snapshot, &err) != GP_OK) fail_msg("%s", err.text);
        assert_int_equal(gp_snapshot_load(&snapshot, run, session->plan, &err), spoilt ? GP_DATA : GP_OK);
        gp_snapshot_close(&snapshot);
    }
    snprintf(wanted, sizeof wanted,
             "%s: tensor \"optimizer/7.bias/exp_avg_sq\" is not finite: 1 of 3 elements, the first is inf", path);
    assert_string_equal(err.text, wanted);
    last[1] = 0;
    gp_run_destroy(&run);
}

/* Not once for each of its tensors; and loading goes through a buffer, a group of tensors at a time. */
static void a_snapshot_wakes_each_worker_once(void **state) {
    (void)state;
    gp_error err = {0};
    gp_run *run = NULL;
    gp_saver *saver = NULL;
    const gp_reached reached = {.step = 1};
    int workers = session->plan->workers;
    assert_int_equal(workers, 2);
    if (gp_run_create(session->plan, NULL, &run, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(gp_run_wakes(run), workers); /* zeros */
    if (gp_weights_initialise(run, session->plan, 1, &err) != GP_OK) fail_msg("%s", err.text);
    uint64_t before = gp_run_wakes(run);
    assert_in_range(before, 3 * workers, (unsigned)(workers + session->graph->param_count));
    if (gp_saver_create(session->plan, fixture_new_folder(), "", 1, &saver, &err) != GP_OK) fail_msg("%s", err.text);
    if (gp_saver_snapshot(saver, run, &reached, true, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(gp_run_wakes(run) - before, workers);
    gp_saver_destroy(&saver);
    gp_run_destroy(&run);
}

static char *read_snapshot(const char *folder, size_t *bytes) {
    const gp_path path = gp_snapshot_path(folder, 1);
    FILE *file = fopen(path.text, "rb");
    if (!file) fail_msg("%s is missing", path.text);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*bytes);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *bytes, file), *bytes);
    fclose(file);
    return text;
}

/* From a copy of the state, or parameter by parameter: the same bytes, with the same checksum. Parameter by parameter
 * nothing is read ahead, so that no more than the buffer is needed. */
static void a_snapshot_without_a_copy_is_the_same(void **state) {
    (void)state;
    gp_error err = {0};
    gp_run *run = NULL;
    gp_snapshot snapshot;
    char *text[2];
    size_t bytes[2];
    const gp_reached reached = {.step = 1};
    if (gp_run_create(session->plan, NULL, &run, &err) != GP_OK) fail_msg("%s", err.text);
    if (gp_weights_initialise(run, session->plan, 1, &err) != GP_OK) fail_msg("%s", err.text);
    for (int beside = 0; beside < 2; beside++) {
        const char *folder = fixture_path(beside ? "beside" : "now");
        gp_saver *saver = NULL;
        assert_int_equal(mkdir(folder, 0777), 0);
        if (gp_saver_create(session->plan, folder, "", 1, &saver, &err) != GP_OK) fail_msg("%s", err.text);
        if (gp_saver_snapshot(saver, run, &reached, beside, &err) != GP_OK) fail_msg("%s", err.text);
        if (gp_saver_wait(saver, &err) != GP_OK) fail_msg("%s", err.text);
        text[beside] = read_snapshot(folder, &bytes[beside]);
        if (gp_snapshot_open(gp_snapshot_path(folder, 1).text, &snapshot, &err) != GP_OK) fail_msg("%s", err.text);
        gp_snapshot_close(&snapshot);
        gp_saver_destroy(&saver);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(text[0], text[1], bytes[0]);
    free(text[0]);
    free(text[1]);
    gp_run_destroy(&run);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void only_snapshots_are_listed(void **state) {
    (void)state;
    static const char *const names[] = {
        "step-00000010.safetensors",         "step-00000100.safetensors",
        "step-123456789.safetensors",        "step-0000011.safetensors",
        "step-000000012.safetensors",        "step-1234567890123456789.safetensors",
        "step-00000013.safetensors.tmp-1-0", "step-0000x014.safetensors",
        "other-00000015.safetensors",        "step-00000016",
    };
    gp_error err = {0};
    char name[80];
    int64_t *steps = NULL;
    int count = -1;
    assert_int_equal(gp_snapshot_list(fixture_path("run"), &steps, &count, &err), GP_OK);
    assert_int_equal(count, 0);
    assert_int_equal(mkdir(fixture_path("run"), 0777), 0);
    assert_int_equal(mkdir(fixture_path("run/snapshots"), 0777), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "run/snapshots/%s", names[i]);
        fixture_write_text(name, "");
    }
    assert_int_equal(gp_snapshot_list(fixture_path("run"), &steps, &count, &err), GP_OK);
    assert_int_equal(count, 3);
    assert_int_equal(steps[0], 123456789);
    assert_int_equal(steps[1], 100);
    assert_int_equal(steps[2], 10);
    free(steps);
}

static bool stands(const char *name) {
    struct stat about;
    return lstat(fixture_path(name), &about) == 0;
}

/* Parts that a killed run left go, with their folder; all else stays. */
static void only_parts_are_removed(void **state) {
    (void)state;
    static const char *const gone[] = {
        "step-00000020/part-00000-of-00002.safetensors",      "step-00000020/part-00001-of-00002.safetensors.tmp-77-0",
        "step-00000020/model.safetensors.index.json.tmp-7-1", "step-00000020",
        "step-00000021/part-00001-of-00002.safetensors",
    };
    static const char *const kept[] = {
        "step-00000021/part-of-a-book.txt",
        "step-00000021/part-00000-of-00002.safetensors.bak",
        "step-00000021/model.safetensors",
        "step-00000022/model.safetensors.index.json",
        "step-00000022/part-00000-of-00001.safetensors",
        "elsewhere/part-00000-of-00002.safetensors",
        "step-00000023",
    };
    char name[120];
    if (!stands("run")) assert_int_equal(mkdir(fixture_path("run"), 0777), 0);
    if (!stands("run/snapshots")) assert_int_equal(mkdir(fixture_path("run/snapshots"), 0777), 0);
    static const char *const folders[] = {"step-00000020", "step-00000021", "step-00000022", "elsewhere"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(name, sizeof name, "run/snapshots/%s", folders[i]);
        assert_int_equal(mkdir(fixture_path(name), 0777), 0);
    }
    assert_int_equal(symlink("elsewhere", fixture_path("run/snapshots/step-00000023")), 0);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        snprintf(name, sizeof name, "run/snapshots/%s", gone[i]);
        if (!stands(name)) fixture_write_text(name, "");
    }
    for (size_t i = 0; i + 1 < sizeof kept / sizeof *kept; i++) {
        snprintf(name, sizeof name, "run/snapshots/%s", kept[i]);
        fixture_write_text(name, "");
    }
    gp_snapshot_remove_incomplete(fixture_path("run"));
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        snprintf(name, sizeof name, "run/snapshots/%s", gone[i]);
        if (stands(name)) fail_msg("%s is still there", name);
    }
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        snprintf(name, sizeof name, "run/snapshots/%s", kept[i]);
        if (!stands(name)) fail_msg("%s is gone", name);
    }
    gp_snapshot_remove(fixture_path("run"), 23); /* the link, and nothing behind it */
    assert_false(stands("run/snapshots/step-00000023"));
    assert_true(stands("run/snapshots/elsewhere/part-00000-of-00002.safetensors"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_reached_is_read_as_it_stands),
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(metadata_that_no_run_writes_are_named),
        cmocka_unit_test(other_tensors_than_the_runs_are_refused),
        cmocka_unit_test(values_that_are_not_finite_are_refused),
        cmocka_unit_test(a_snapshot_wakes_each_worker_once),
        cmocka_unit_test(a_snapshot_without_a_copy_is_the_same),
        cmocka_unit_test(only_snapshots_are_listed),
        cmocka_unit_test(only_parts_are_removed),
    };
    return cmocka_run_group_tests(tests, make, remove_all);
}
