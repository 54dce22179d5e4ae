#include "store/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/replace.h"
#include "session/fixture.h"

/* The linker wraps stat: as if there were no right to look at a path. */
static const char *cannot_look_at;
int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);

int __wrap_stat(const char *path, struct stat *out) {
    if (!cannot_look_at || strcmp(path, cannot_look_at) != 0) return __real_stat(path, out);
    errno = EACCES;
    return -1;
}

static void expect_default(const char *config, const char *wanted) {
    assert_string_equal(gp_folder_default(config).text, wanted);
}

static void the_default_is_named_after_the_configuration(void **state) {
    (void)state;
    expect_default("digits.yaml", "runs/digits");
    expect_default("../configs/digits.yml", "runs/digits");
    expect_default("/a/b.c/digits.v2.yaml", "runs/digits.v2");
    expect_default("digits", "runs/digits");
    expect_default("digits.yaml.bak", "runs/digits.yaml.bak");
    expect_default("x/.yaml", "runs/.yaml");
}

static void files_lie_in_the_folder(void **state) {
    (void)state;
    assert_string_equal(gp_folder_file("runs/a", "metrics.jsonl").text, "runs/a/metrics.jsonl");
}

static void prepare_makes_folder_and_parents(void **state) {
    (void)state;
    gp_error err = {0};
    assert_int_equal(gp_folder_make(fixture_path("p/q//r/"), &err), GP_OK);
    assert_int_equal(fixture_count_entries(fixture_path("p/q/r")), 0);
    /* Again: an empty folder is not a used one, nor is one with other files. */
    assert_int_equal(gp_folder_make(fixture_path("p/q/r"), &err), GP_OK);
    fixture_write_text("p/q/r/notes.txt", "mine");
    assert_int_equal(gp_folder_check_unused(fixture_path("p/q/r"), &err), GP_OK);
    assert_int_equal(gp_folder_make("/", &err), GP_OK);
}

static char synced[4][600];
static int syncs;

static int note_fsync(int fd) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    assert_in_range(syncs, 0, 3);
    ssize_t length = readlink(link, synced[syncs], sizeof synced[0] - 1);
    assert_true(length > 0);
    synced[syncs++][length] = 0;
    return 0;
}

/* Each folder that was made has its entry on the disk; those that were there are left alone. */
static void what_is_made_is_synced(void **state) {
    (void)state;
    const gp_file_calls calls = {write, note_fsync, rename, fstat, fstatfs};
    gp_error err = {0};
    gp_file_set_calls(&calls);
    assert_int_equal(gp_folder_make(fixture_path("synced/a/b"), &err), GP_OK);
    assert_int_equal(gp_folder_make(fixture_path("synced/a"), &err), GP_OK);
    gp_file_set_calls(NULL);
    assert_int_equal(syncs, 3);
    assert_string_equal(strrchr(synced[1], '/'), "/synced");
    assert_string_equal(strrchr(synced[2], '/'), "/a");
}

static void a_used_folder_needs_force(void **state) {
    (void)state;
    static const char *const files[] = {"metrics.jsonl",    "model.safetensors", "config.yaml",
                                        "best.safetensors", "plan.json",         "snapshots"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        gp_error err = {0};
        char name[64], wanted[700];
        snprintf(name, sizeof name, "used%zu", i);
        const char *folder = fixture_path(name);
        assert_int_equal(gp_folder_make(folder, &err), GP_OK);
        snprintf(name, sizeof name, "used%zu/%s", i, files[i]);
        fixture_write_text(name, "");
        assert_int_equal(gp_folder_check_unused(folder, &err), GP_USAGE);
        snprintf(wanted, sizeof wanted,
                 "%s already holds a run (%s): choose another folder with -o, continue that run with --resume, or "
                 "replace it with --force",
                 folder, files[i]);
        assert_string_equal(err.text, wanted);
        assert_int_equal(gp_folder_make(folder, &err), GP_OK);
        assert_int_equal(access(fixture_path(name), F_OK), 0);
    }
}

/* Only a run's own configuration says that the other files are a run's. */
static void what_a_run_has_left_is_told_from_other_files(void **state) {
    (void)state;
    static const struct {
        const char *config, *metrics;
        bool ours;
    } cases[] = {{NULL, NULL, true},
                 {"# gpipe-train 0.1.0: x\n", NULL, true},
                 {"# gpipe-train 0.1.0: x\n", "", true},
                 {"# gpipe-train 0.1.0: x\n", "{\"eve", true},
                 {"# gpipe-train 0.1.0: x\n", "{\"event\":\"start\"}\n", true},
                 {"# gpipe-train 0.1.0: x\n", "{\"events\":1}\n", false},
                 {"# gpipe", NULL, false},
                 {"", NULL, false},
                 {NULL, "{\"event\":\"start\"}\n", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_error err = {0};
        char name[64];
        snprintf(name, sizeof name, "left%zu", i);
        const char *folder = fixture_path(name);
        assert_int_equal(gp_folder_make(folder, &err), GP_OK);
        snprintf(name, sizeof name, "left%zu/config.yaml", i);
        if (cases[i].config) fixture_write_text(name, cases[i].config);
        snprintf(name, sizeof name, "left%zu/metrics.jsonl", i);
        if (cases[i].metrics) fixture_write_text(name, cases[i].metrics);
        assert_int_equal(gp_folder_check_remains(folder, &err), cases[i].ours ? GP_OK : GP_USAGE);
    }
}

static void a_file_in_the_way_is_named(void **state) {
    (void)state;
    gp_error err = {0};
    char wanted[1300];
    fixture_write_text("file", "");
    assert_int_equal(gp_folder_make(fixture_path("file/a/b"), &err), GP_IO);
    snprintf(wanted, sizeof wanted, "the run folder %s cannot be made: %s: Not a directory", fixture_path("file/a/b"),
             fixture_path("file"));
    assert_string_equal(err.text, wanted);
    assert_int_equal(gp_folder_make(fixture_path("file"), &err), GP_IO);
    snprintf(wanted, sizeof wanted, "the run folder %s cannot be made: %s: Not a directory", fixture_path("file"),
             fixture_path("file"));
    assert_string_equal(err.text, wanted);
}

/* Two open descriptors of one process lock against each other as those of two processes do. */
static void a_locked_folder_is_in_use(void **state) {
    (void)state;
    gp_error err = {0};
    char wanted[700];
    const char *folder = fixture_path("locked");
    bool there = true;
    assert_int_equal(gp_folder_lock(folder, &there, &err), GP_OK);
    assert_false(there);
    assert_int_equal(gp_folder_make(folder, &err), GP_OK);
    assert_int_equal(gp_folder_lock(folder, &there, &err), GP_OK);
    assert_true(there);
    assert_int_equal(gp_folder_lock(folder, &there, &err), GP_USAGE);
    snprintf(wanted, sizeof wanted,
             "%s is in use by another gpipe-train: wait until it ends, or choose another folder with -o", folder);
    assert_string_equal(err.text, wanted);
}

/* Also where another folder of that name is there meanwhile. */
static void a_held_folder_is_found_where_it_is(void **state) {
    (void)state;
    gp_error err = {0};
    gp_folder_held held;
    bool moved = true;
    char *folder = strdup(fixture_path("held")), *other = strdup(fixture_path("moved"));
    assert_true(folder && other);
    gp_folder_hold(folder, &held); /* it is not there */
    assert_int_equal(gp_folder_find(&held, &moved, &err), GP_OK);
    assert_false(moved);
    assert_int_equal(gp_folder_make(folder, &err), GP_OK);
    gp_folder_hold(folder, &held);
    assert_int_equal(gp_folder_find(&held, &moved, &err), GP_OK);
    assert_false(moved);
    assert_int_equal(rename(folder, other), 0);
    assert_int_equal(gp_folder_make(folder, &err), GP_OK);
    assert_int_equal(gp_folder_find(&held, &moved, &err), GP_OK);
    assert_true(moved && gp_file_is(held.path.text, other));
    assert_int_equal(gp_folder_find(&held, &moved, &err), GP_OK);
    assert_false(moved);
    assert_int_equal(rmdir(other), 0);
    assert_int_equal(gp_folder_find(&held, &moved, &err), GP_IO);
    assert_non_null(strstr(err.text, "moved: the run folder was removed while the run went on"));
    gp_folder_release(&held);
    free(folder);
    free(other);
}

/* A folder that cannot be looked at is not gone: the write itself says what is wrong. */
static void a_folder_out_of_reach_is_not_gone(void **state) {
    (void)state;
    gp_error err = {0};
    gp_folder_held held;
    bool moved = true;
    char *folder = strdup(fixture_path("behind/held")), *other = strdup(fixture_path("behind/moved"));
    assert_true(folder && other);
    assert_int_equal(gp_folder_make(folder, &err), GP_OK);
    gp_folder_hold(folder, &held);
    for (int i = 0; i < 2; i++) {
        cannot_look_at = i == 0 ? folder : other;
        assert_int_equal(gp_folder_find(&held, &moved, &err), GP_OK);
        assert_int_equal(moved, i == 1);
        cannot_look_at = NULL;
        if (i == 0) assert_int_equal(rename(folder, other), 0);
    }
    assert_string_equal(held.path.text, other);
    assert_int_equal(rmdir(other), 0);
    cannot_look_at = other;
    assert_int_equal(gp_folder_find(&held, &moved, &err), GP_OK);
    cannot_look_at = NULL;
    assert_int_equal(gp_folder_find(&held, &moved, &err), GP_IO);
    gp_folder_release(&held);
    free(folder);
    free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_named_after_the_configuration),
        cmocka_unit_test(files_lie_in_the_folder),
        cmocka_unit_test(prepare_makes_folder_and_parents),
        cmocka_unit_test(what_is_made_is_synced),
        cmocka_unit_test(a_used_folder_needs_force),
        cmocka_unit_test(what_a_run_has_left_is_told_from_other_files),
        cmocka_unit_test(a_file_in_the_way_is_named),
        cmocka_unit_test(a_locked_folder_is_in_use),
        cmocka_unit_test(a_held_folder_is_found_where_it_is),
        cmocka_unit_test(a_folder_out_of_reach_is_not_gone),
    };
    return cmocka_run_group_tests_name("folder", tests, fixture_make, fixture_remove);
}
