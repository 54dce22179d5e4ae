/* Whole runs where memory, files, threads and oneDNN are refused: training with snapshots and a timeline, and resuming.
 *
 *   test_failing_runs [TIMES]   of each scenario, at most
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing/each.h"
#include "failing/opened.h"
#include "session/fixture.h"
#include "store/folder.h"
#include "store/saver.h"
#include "train/trainer.h"

static const char *const short_run[] = {"train.epochs=1", "train.save_every=2", "optimizer.clip_norm=5",
                                        "pipeline.devices=[cpu, {cpu: 2}]", NULL};
static const char *const longer_run[] = {"train.epochs=2", "train.save_every=2", "optimizer.clip_norm=5",
                                         "pipeline.devices=[cpu, {cpu: 2}]", NULL};

/* Another batch on resuming, and momentum that begins at a step. */
static const char *const changed_run[] = {"train.epochs=2",
                                          "train.save_every=2",
                                          "data.batch=10",
                                          "optimizer={sgd: {lr: 0.02, momentum: 0.5}, clip_norm: 5}",
                                          "pipeline.devices=[cpu, {cpu: 2}]",
                                          NULL};
static const char *const changing_run[] = {"train.steps=3", "optimizer={sgd: 0.02}", "pipeline.devices=[cpu]",
                                           "changes={3: {optimizer.sgd: {lr: 0.02, momentum: 0.9}, data.batch: 7}}",
                                           NULL};

static gp_status train(gp_session *session, const char *folder, const gp_resume *resume, const char *trace,
                       gp_error *err) {
    const gp_train_options options = {
        .folder = folder, .verbosity = GP_QUIET, .trace = {.path = trace, .first = 1, .last = 2}, .resume = resume};
    return gp_train(session, &options, err);
}

static gp_status train_into(const char *folder, const char *const *changes, const char *trace, gp_error *err) {
    gp_session *session = NULL;
    GP_RETURN_IF_FAILED(opened_session("c.yaml", changes, &session, err));
    gp_status status = gp_folder_make(folder, err);
    if (status == GP_OK) status = train(session, folder, NULL, trace, err);
    gp_session_close(&session);
    return status;
}

/* A file of the fixture's folder with a NUL behind it, to be freed; NULL where it cannot be read. */
static char *read_whole(const char *name, size_t *bytes) {
    FILE *file = fopen(fixture_path(name), "rb");
    char *text = NULL;
    size_t space = 0;
    if (!file) return NULL;
    ssize_t count = getdelim(&text, &space, EOF, file);
    (void)fclose(file);
    *bytes = count > 0 ? (size_t)count : 0;
    return text;
}

/* What took how long is cut out, and from where a run was resumed: an older snapshot will do. */
static void forget_what_varies(char *text) {
    static const char *const keys[] = {",\"seconds\":", ",\"data_seconds\":", ",\"time\":"};
    static const char resumed[] = "{\"event\":\"resume\"";
    for (char *at = text; (at = strstr(at, resumed));) {
        char *end = at + strcspn(at, "\n");
        end += *end != 0;
        memmove(at, end, strlen(end) + 1);
    }
    for (int k = 0; k < 3; k++)
        for (char *at = text; (at = strstr(at, keys[k]));) {
            char *end = at + 1 + strcspn(at + 1, ",}");
            memmove(at, end, strlen(end) + 1);
        }
    /* The last of its line, whose brace stays: a run that cannot add its account up warns and ends well without. */
    for (char *at = text; (at = strstr(at, ",\"account\":"));) {
        char *end = at + strcspn(at, "\n") - 1;
        memmove(at, end, strlen(end) + 1);
    }
}

static bool is_same_file(const char *folder, const char *name, bool timed) {
    char one[64], other[64];
    size_t bytes[2] = {0, 0};
    snprintf(one, sizeof one, "%s/%s", folder, name);
    snprintf(other, sizeof other, "%s-whole/%s", folder, name);
    char *found = read_whole(one, &bytes[0]), *wanted = read_whole(other, &bytes[1]);
    bool same = found && wanted;
    if (same && timed) {
        forget_what_varies(found);
        forget_what_varies(wanted);
        same = strcmp(found, wanted) == 0;
    } else if (same) {
        same = bytes[0] == bytes[1] && memcmp(found, wanted, bytes[0]) == 0;
    }
    free(found);
    free(wanted);
    return same;
}

/* The model and what the metrics say. Snapshots and the best model are not among what a run must write to succeed. */
static bool is_same(const char *folder) {
    return is_same_file(folder, "model.safetensors", false) && is_same_file(folder, "metrics.jsonl", true);
}

/* ---- scenarios --------------------------------------------------------------------------------------------------- */

static gp_status train_shortly(gp_error *err) {
    return train_into(fixture_path("short"), short_run, fixture_path("trace.json"), err);
}

static bool short_is_whole(const char *failed) {
    (void)failed;
    return is_same("short");
}

static gp_status train_from_weights(gp_error *err) {
    char init[600];
    snprintf(init, sizeof init, "train.init={file: %s, skip: [\"7\"]}", fixture_path("short-whole/model.safetensors"));
    const char *const changes[] = {"train.steps=1", "data.threads=2", "optimizer={adam: {}}", init, NULL};
    return train_into(fixture_path("weights"), changes, NULL, err);
}

static bool weights_are_whole(const char *failed) {
    (void)failed;
    return is_same("weights");
}

static void copy(const char *from, const char *to) {
    char command[1400];
    snprintf(command, sizeof command, "rm -rf %s && cp -r %s %s", fixture_path(to), fixture_path(from),
             fixture_path(to));
    assert_int_equal(system(command), 0);
}

/* The folder of a run that was to end earlier, as it was. */
static void copy_short(void) {
    copy("short-whole", "resumed");
}

static gp_status resume_with(const char *const *changes, gp_error *err) {
    gp_config *config = NULL;
    gp_session *session = NULL;
    gp_resume resume = {0};
    const char *folder = fixture_path("resumed");
    GP_RETURN_IF_FAILED(opened_config("c.yaml", changes, &config, err));
    gp_status status = gp_resume_open(&config, folder, &resume, err);
    const gp_session_options options = {.resumes = true, .step = resume.step};
    if (status == GP_OK) status = gp_session_open(&config, &options, &session, err);
    if (status == GP_OK) status = gp_resume_check(&resume, session, folder, err);
    if (status == GP_OK) status = train(session, folder, &resume, NULL, err);
    gp_resume_close(&resume);
    gp_session_close(&session);
    gp_config_destroy(&config);
    return status;
}

static gp_status resume(gp_error *err) {
    return resume_with(longer_run, err);
}

static bool resumed_is_whole(const char *failed) {
    (void)failed;
    return is_same("resumed");
}

static gp_status resume_changed(gp_error *err) {
    return resume_with(changed_run, err);
}

static void copy_short_changed(void) {
    copy("short-whole", "resumed");
}

static bool changed_is_whole(const char *failed) {
    (void)failed;
    copy("resumed", "changed");
    return is_same("changed");
}

static gp_status train_changing(gp_error *err) {
    return train_into(fixture_path("changing"), changing_run, NULL, err);
}

static bool changing_is_whole(const char *failed) {
    (void)failed;
    return is_same("changing");
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static const each_scenario training = {"train", NULL, train_shortly, short_is_whole, 100};
static const each_scenario initialising = {"init", NULL, train_from_weights, weights_are_whole, 40};
static const each_scenario resuming = {"resume", copy_short, resume, resumed_is_whole, 60};
static const each_scenario resuming_changed = {"resume with changes", copy_short_changed, resume_changed,
                                               changed_is_whole, 20};
static const each_scenario changing = {"changes", NULL, train_changing, changing_is_whole, 20};

static void memory_is_refused(void **state) {
    (void)state;
    each_call_fails(&training, CALLS_MEMORY);
    each_call_fails(&initialising, CALLS_MEMORY);
    each_call_fails(&resuming, CALLS_MEMORY);
    each_call_fails(&resuming_changed, CALLS_MEMORY);
    each_call_fails(&changing, CALLS_MEMORY);
}

static void files_fail(void **state) {
    (void)state;
    each_call_fails(&training, CALLS_FILES);
    each_call_fails(&initialising, CALLS_FILES);
    each_call_fails(&resuming, CALLS_FILES);
    each_call_fails(&resuming_changed, CALLS_FILES);
    each_call_fails(&changing, CALLS_FILES);
}

static void threads_are_refused(void **state) {
    (void)state;
    each_call_fails(&training, CALLS_THREADS);
    each_call_fails(&resuming, CALLS_THREADS);
}

static void onednn_fails(void **state) {
    (void)state;
    each_call_fails(&training, CALLS_ONEDNN);
}

/* A run that ends short of memory saves where its folder was moved to. */
static void a_moved_folder_needs_no_memory(void **state) {
    gp_session *session = NULL;
    gp_saver *saver = NULL;
    gp_error err = {0};
    (void)state;
    assert_int_equal(opened_session("c.yaml", short_run, &session, &err), GP_OK);
    assert_int_equal(gp_saver_create(session->plan, fixture_path("short"), "", 1, &saver, &err), GP_OK);
    const gp_path moved = gp_folder_file(fixture_path(""), "moved");
    calls_arm(CALLS_MEMORY, 1, 1);
    gp_saver_move(saver, &moved);
    assert_int_equal(calls_disarm(NULL), 0);
    gp_saver_destroy(&saver);
    gp_session_close(&session);
}

static int make(void **state) {
    if (fixture_make(state) != 0) return -1;
    fixture_write_text("c.yaml", FIXTURE_CONFIG);
    each_once(&training);
    copy("short", "short-whole");
    each_once(&initialising);
    copy("weights", "weights-whole");
    each_once(&resuming);
    copy("resumed", "resumed-whole");
    each_once(&resuming_changed);
    copy("resumed", "changed-whole");
    each_once(&changing);
    copy("changing", "changing-whole");
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_refused), cmocka_unit_test(files_fail),
                                       cmocka_unit_test(threads_are_refused), cmocka_unit_test(onednn_fails),
                                       cmocka_unit_test(a_moved_folder_needs_no_memory)};
    if (argc > 1) each_most = atoi(argv[1]);
    return cmocka_run_group_tests(tests, make, fixture_remove);
}
