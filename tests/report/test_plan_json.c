#include "report/plan_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/replace.h"
#include "plan/program_json.h"
#include "session/fixture.h"

static json_t *parse(const char *text, size_t bytes) {
    json_error_t why;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!root) fail_msg("%d:%d: %s", why.line, why.column, why.text);
    return root;
}

static json_t *written(const gp_plan_json *json) {
    char *text = NULL;
    size_t bytes = 0;
    gp_error err = {0};
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(gp_plan_json_print(json, out, &err), GP_OK);
    assert_int_equal(fclose(out), 0);
    assert_true(text[bytes - 1] == '\n');
    json_t *root = parse(text, bytes);
    free(text);
    return root;
}

static json_t *only_program(const json_t *root) {
    json_t *programs = json_object_get(root, "programs");
    assert_int_equal(json_array_size(programs), 1);
    return json_array_get(programs, 0);
}

/* ---- long programs ----------------------------------------------------------------------------------------------- */

/* A stage for each of the eight layers, training only; a micro-batch is one sample. */
static gp_session *long_session(int micro_batches) {
    char data[100], micro[64];
    snprintf(data, sizeof data, "data={train: {synthetic: {samples: %d}}, batch: %d}", micro_batches, micro_batches);
    snprintf(micro, sizeof micro, "pipeline.micro_batches=%d", micro_batches);
    return fixture_session(FIXTURE_CHANGES(data, micro, "train={steps: 1}", "pipeline.devices=[{cpu: {count: 8}}]",
                                           "pipeline.checkpoint=always", "pipeline.balance=size"));
}

static size_t count_instructions(const gp_plan *plan) {
    size_t count = 0;
    for (int m = 0; m < plan->mini_count; m++)
        for (int w = 0; w < plan->workers; w++) count += plan->minis[m].programs->worker[w].count;
    return count;
}

static void expect_long(int micro_batches, bool listed) {
    gp_session *session = long_session(micro_batches);
    size_t count = count_instructions(session->plan);
    assert_int_equal(count > GP_PROGRAM_JSON_MOST, !listed);
    gp_plan_json json = gp_plan_json_of(session);
    json_t *file = written(&json);
    json.all = true;
    json_t *all = written(&json);
    assert_null(json_object_get(all, "left_out"));
    if (listed) {
        assert_true(json_equal(file, all));
    } else {
        char wanted[100];
        snprintf(wanted, sizeof wanted, "%zu instructions; gpipe-train --plan --json prints them", count);
        assert_string_equal(json_string_value(json_object_get(file, "left_out")), wanted);
    }
    /* The sums are the same. */
    const json_t *short_one = only_program(file), *long_one = only_program(all);
    assert_true(json_equal(json_object_get(short_one, "step_ms"), json_object_get(long_one, "step_ms")));
    size_t found = 0;
    for (size_t w = 0; w < 8; w++) {
        const json_t *in_file = json_array_get(json_object_get(short_one, "workers"), w);
        const json_t *in_all = json_array_get(json_object_get(long_one, "workers"), w);
        assert_true(json_equal(json_object_get(in_file, "busy_ms"), json_object_get(in_all, "busy_ms")));
        assert_int_equal(json_object_get(in_file, "instructions") != NULL, listed);
        found += json_array_size(json_object_get(in_all, "instructions"));
    }
    assert_int_equal(found, count);
    json_decref(file);
    json_decref(all);
    gp_session_close(&session);
}

static void instructions_of_long_programs_are_left_out_of_files(void **state) {
    (void)state;
    expect_long(4096, false);
    expect_long(1000, true);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void a_file_is_as_long_as_was_said(void **state) {
    (void)state;
    gp_session *session = fixture_session(NULL);
    const gp_plan_json json = gp_plan_json_of(session);
    const char *path = fixture_path("plan.json");
    uint64_t bytes = 0;
    gp_error err = {0};
    assert_int_equal(gp_plan_json_bytes(&json, &bytes, &err), GP_OK);
    assert_int_equal(gp_plan_json_replace(&json, path, &err), GP_OK);
    size_t length = 0;
    char *text = fixture_read(path, &length);
    assert_int_equal(length, bytes);
    json_t *found = parse(text, length), *wanted = written(&json);
    assert_true(json_equal(found, wanted));
    json_decref(found);
    json_decref(wanted);
    free(text);
    gp_session_close(&session);
}

static int writes;

/* Room for what the first two calls write. */
static ssize_t write_some(int fd, const void *data, size_t bytes) {
    if (++writes > 2) {
        errno = ENOSPC;
        return -1;
    }
    return write(fd, data, bytes);
}

static void a_file_that_cannot_be_written_stays_as_it_was(void **state) {
    (void)state;
    const gp_file_calls calls = {write_some, fsync, rename, fstat, fstatfs};
    gp_session *session = fixture_session(NULL);
    const gp_plan_json json = gp_plan_json_of(session);
    const char *folder = fixture_new_folder();
    char path[600];
    gp_error err = {0};
    assert_true(mkdir(folder, 0777) == 0 || errno == EEXIST);
    snprintf(path, sizeof path, "%s/plan.json", folder);
    FILE *old = fopen(path, "w");
    assert_non_null(old);
    fputs("old", old);
    assert_int_equal(fclose(old), 0);
    writes = 0;
    gp_file_set_calls(&calls);
    gp_status status = gp_plan_json_replace(&json, path, &err);
    gp_file_set_calls(NULL);
    assert_int_equal(writes, 3);
    assert_int_equal(status, GP_IO);
    assert_non_null(strstr(err.text, "plan.json"));
    assert_non_null(strstr(err.text, "No space left on device"));
    size_t length = 0;
    char *text = fixture_read(path, &length);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(fixture_count_entries(folder), 1);
    gp_session_close(&session);
}

static void a_stream_that_is_full_is_an_error(void **state) {
    (void)state;
    gp_session *session = fixture_session(NULL);
    const gp_plan_json json = gp_plan_json_of(session);
    gp_error err = {0};
    FILE *full = fopen("/dev/full", "w");
    if (!full) skip();
    assert_int_equal(gp_plan_json_print(&json, full, &err), GP_IO);
    assert_string_equal(err.text, "the plan could not be written");
    fclose(full);
    gp_session_close(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_of_long_programs_are_left_out_of_files),
        cmocka_unit_test(a_file_is_as_long_as_was_said),
        cmocka_unit_test(a_file_that_cannot_be_written_stays_as_it_was),
        cmocka_unit_test(a_stream_that_is_full_is_an_error),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
