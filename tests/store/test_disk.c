/* Disk space of a run: sizes, advice, and what old files give back. */
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

#include "session/fixture.h"
#include "store/disk.h"

static const gp_disk_use usual = {.model = 1000,
                                  .snapshot = 3000,
                                  .config = 10,
                                  .plan = 7,
                                  .best = true,
                                  .keep = 3,
                                  .snapshots = 8,
                                  .saves_by_time = true};

static void all_that_stands_at_one_time_is_needed(void **state) {
    (void)state;
    gp_disk_use use = usual;
    assert_int_equal(gp_disk_needed(&use), 2 * 1000 + 17 + 4 * 3000);
    use.best = false;
    assert_int_equal(gp_disk_needed(&use), 1000 + 17 + 4 * 3000);
    use.snapshots = 2; /* a short run */
    assert_int_equal(gp_disk_needed(&use), 1000 + 17 + 2 * 3000);
    use.snapshots = 0; /* one that only evaluates */
    assert_int_equal(gp_disk_needed(&use), 1000 + 17);
    use.snapshots = use.keep = INT64_MAX;
    assert_true(gp_disk_needed(&use) == UINT64_MAX);
}

static void expect_advice(gp_disk_use use, uint64_t room, const char *advice) {
    gp_error err = {0};
    char end[200];
    assert_int_equal(gp_disk_check(&use, "run", room, 0, &err), GP_IO);
    snprintf(end, sizeof end, "choose a folder on another file system with -o%s", advice);
    assert_string_equal(strstr(err.text, "choose"), end);
}

static void the_setting_that_helps_is_named(void **state) {
    (void)state;
    gp_disk_use use = usual;
    gp_error err = {0};
    const uint64_t fixed = 2 * 1000 + 17;
    assert_int_equal(gp_disk_check(&use, "run", fixed + 4 * 3000, 0, &err), GP_OK);
    expect_advice(use, fixed + 4 * 3000 - 1, ", or set train.keep to 2");
    expect_advice(use, fixed + 2 * 3000, ", or set train.keep to 1");
    expect_advice(use, fixed + 2 * 3000 - 1, ", or set train.save_every to never (Ctrl-C still writes a snapshot)");
    expect_advice(use, fixed + 3000 - 1, "");
    use.snapshots = 2;
    expect_advice(use, fixed + 3000, ", or set train.save_every to never (Ctrl-C still writes a snapshot)");
    use.snapshots = 1;
    use.saves_by_time = false;
    expect_advice(use, fixed + 3000 - 1, "");
    use.keep = use.snapshots = INT64_MAX;
    expect_advice(use, fixed + 7 * 3000, ", or set train.keep to 6");
}

static void the_message_has_the_sizes(void **state) {
    (void)state;
    gp_disk_use use = {
        .model = 10 << 20, .snapshot = 30 << 20, .config = 1 << 20, .best = true, .keep = 1, .snapshots = 9};
    gp_error err = {0};
    assert_int_equal(gp_disk_check(&use, "run", 20 << 20, 1 << 20, &err), GP_IO);
    assert_string_equal(
        err.text, "run: the run needs up to 81.0 MiB of disk space, but its file system has 20.0 MiB free, and the "
                  "run's old files there take 1.00 MiB (model.safetensors 10.0 MiB, best.safetensors 10.0 MiB, 2 "
                  "snapshots of 30.0 MiB (train.keep: 1)): free 60.0 MiB, choose a folder on another file system "
                  "with -o");
    assert_int_equal(gp_disk_check(&use, "run", 20 << 20, 61 << 20, &err), GP_OK);
    assert_int_equal(gp_disk_check(&use, "run", UINT64_MAX, 0, &err), GP_OK);
    use.best = false;
    use.snapshots = 1;
    assert_int_equal(gp_disk_check(&use, "run", 1 << 20, 0, &err), GP_IO);
    assert_non_null(strstr(err.text, "free (model.safetensors 10.0 MiB, one snapshot 30.0 MiB): free 40.0 MiB,"));
}

static uint64_t fill(const char *folder, const char *name) {
    char path[600];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 20000; i++) fputc('x', file);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(fsync(fileno(file)), 0);
    fclose(file);
    assert_int_equal(stat(path, &about), 0);
    return (uint64_t)about.st_blocks * 512;
}

static void only_files_that_go_give_space_back(void **state) {
    (void)state;
    const char *folder = fixture_new_folder();
    char path[600], other[600];
    assert_int_equal(gp_disk_held(folder, NULL), 0);
    uint64_t model = fill(folder, "model.safetensors"), best = fill(folder, "best.safetensors");
    uint64_t plan = fill(folder, "plan.json");
    fill(folder, "somebody's");
    assert_int_equal(gp_disk_held(folder, NULL), model + best + plan);
    snprintf(path, sizeof path, "%s/snapshots", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    uint64_t snapshot = fill(path, "step-00000007.safetensors");
    fill(path, "thesis.safetensors");
    assert_int_equal(gp_disk_held(folder, NULL), model + best + plan + snapshot);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(gp_disk_held(folder, path), best + plan + snapshot);
    snprintf(other, sizeof other, "%s/another name", folder);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(gp_disk_held(folder, NULL), best + plan + snapshot);
}

static void free_space_is_found_where_there_is_a_folder(void **state) {
    (void)state;
    assert_true(gp_disk_free("/nowhere/at all") == UINT64_MAX);
    assert_true(gp_disk_free("/proc") == UINT64_MAX); /* 0 blocks */
    assert_true(gp_disk_free(fixture_new_folder()) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_stands_at_one_time_is_needed),
        cmocka_unit_test(the_setting_that_helps_is_named),
        cmocka_unit_test(the_message_has_the_sizes),
        cmocka_unit_test(only_files_that_go_give_space_back),
        cmocka_unit_test(free_space_is_found_where_there_is_a_folder),
    };
    return cmocka_run_group_tests_name("disk", tests, fixture_make, fixture_remove);
}
