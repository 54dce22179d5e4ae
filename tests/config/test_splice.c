/* One value of a file changed: what it becomes, byte for byte, and what is refused. */
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

#include "config/splice.h"
#include "config/tree.h"

static void expect_spliced(const char *before, const char *after) {
    char *now = NULL;
    gp_error err = {0};
    if (gp_yaml_splice(before, "c.yaml", "pipeline", "balance", "[4, 8]", &now, &err) != GP_OK)
        fail_msg("%s\n%s", before, err.text);
    assert_string_equal(now, after);
    free(now);
}

static void expect_refused(const char *before, const char *sentence) {
    char *now = NULL;
    gp_error err = {0};
    gp_status status = gp_yaml_splice(before, "c.yaml", "pipeline", "balance", "[4, 8]", &now, &err);
    if (status != GP_CONFIG || strcmp(err.text, sentence) != 0)
        fail_msg("%s\nbecomes %s\n%s", before, now ? now : "nothing", err.text);
}

static void a_value_is_replaced(void **state) {
    (void)state;
    expect_spliced("# é\npipeline:\n  balance: auto  # by time\n  devices: [cpu, cpu]\ntrain: {steps: 1}\n",
                   "# é\npipeline:\n  balance: [4, 8]  # by time\n  devices: [cpu, cpu]\ntrain: {steps: 1}\n");
    expect_spliced("pipeline: {devices: [cpu, cpu], balance: [ 6,6 ], micro_batches: 2} # x",
                   "pipeline: {devices: [cpu, cpu], balance: [4, 8], micro_batches: 2} # x");
    expect_spliced("a: é\n\"pipeline\":\r\n    'balance':   \"size\"\r\nz: 1\r\n",
                   "a: é\n\"pipeline\":\r\n    'balance':   [4, 8]\r\nz: 1\r\n");
    expect_spliced("pipeline:\n  balance:  # one\n    # of\n    - 6\n    - 6  # two\n  # three\n  lockstep: true\n",
                   "pipeline:\n  balance:  # one\n    # of\n    [4, 8]  # two\n  # three\n  lockstep: true\n");
    expect_spliced("pipeline:\r\n  balance:\r\n    - 6\r\n    - 6\r\n  lockstep: true\r\n",
                   "pipeline:\r\n  balance:\r\n    [4, 8]\r\n  lockstep: true\r\n");
    expect_spliced("pipeline: {balance: [\"a # b\", 'it''s # c', d#e], x: 1}\n", "pipeline: {balance: [4, 8], x: 1}\n");
    expect_spliced("pipeline: {balance: [\"\\\" # b\"]}\n", "pipeline: {balance: [4, 8]}\n");
    expect_spliced("pipeline:\n  balance: [6,\n    6]   # ends\ntrain: 1\n",
                   "pipeline:\n  balance: [4, 8]   # ends\ntrain: 1\n");
    expect_spliced("pipeline:\n  balance:\n  devices: [cpu]\n", "pipeline:\n  balance: [4, 8]\n  devices: [cpu]\n");
    expect_spliced("x: &b [1, 2]\npipeline:\n  balance: *b\n", "x: &b [1, 2]\npipeline:\n  balance: [4, 8]\n");
    expect_spliced("\xEF\xBB\xBFpipeline: {balance: auto}\n", "\xEF\xBB\xBFpipeline: {balance: [4, 8]}\n");
    expect_spliced("{\"model\": {\"pipeline\": {\"balance\": 1}}, \"pipeline\": {\"balance\": \"auto\"}}",
                   "{\"model\": {\"pipeline\": {\"balance\": 1}}, \"pipeline\": {\"balance\": [4, 8]}}");
}

/* libyaml has a block scalar end where the next token begins. */
static void what_follows_a_block_scalar_stays(void **state) {
    (void)state;
    expect_spliced("pipeline:\n  balance: |-\n    auto\n\n\n# comment\n",
                   "pipeline:\n  balance: [4, 8]\n\n\n# comment\n");
    expect_spliced("pipeline:\n  balance: >-\n    auto\n  # comment\n  devices: [cpu]\n",
                   "pipeline:\n  balance: [4, 8]\n  # comment\n  devices: [cpu]\n");
    expect_spliced("pipeline:\n  balance: |\n    auto\n \n\n  # comment",
                   "pipeline:\n  balance: [4, 8]\n \n\n  # comment");
    expect_spliced("pipeline:\r\n  balance: |-\r\n    auto\r\n\r\n# comment\r\n",
                   "pipeline:\r\n  balance: [4, 8]\r\n\r\n# comment\r\n");
    expect_spliced("pipeline:\n  balance:\n    - 4\n    - |-\n      6\n\n# comment\n",
                   "pipeline:\n  balance:\n    [4, 8]\n\n# comment\n");
    expect_spliced("pipeline:\n  balance: |-\n    auto\n\n", "pipeline:\n  balance: [4, 8]\n\n");
    expect_spliced("pipeline:\n  balance: >-\n    auto\xE2\x80\xA8# comment",
                   "pipeline:\n  balance: [4, 8]\xE2\x80\xA8# comment");
    expect_spliced("pipeline:\n  balance: |+\n\n\n", "pipeline:\n  balance: [4, 8]\n\n\n");
}

/* A block list may begin in the column of its key, a list of one line may not. */
static void a_list_in_the_column_of_its_key_is_replaced(void **state) {
    (void)state;
    expect_spliced("pipeline:\n  balance:\n  - 6\n  - 6\n  devices: [cpu]\n",
                   "pipeline:\n  balance:\n    [4, 8]\n  devices: [cpu]\n");
    expect_spliced("pipeline:\n    devices: [cpu]\n    balance:  # one\n    - 6\n    - 6  # two\n",
                   "pipeline:\n    devices: [cpu]\n    balance:  # one\n      [4, 8]  # two\n");
    expect_spliced("pipeline:\n  balance:\n  - 6\n", "pipeline:\n  balance:\n    [4, 8]\n");
}

/* Layout, comments between its entries. */
static void what_is_said_already_stays(void **state) {
    (void)state;
    static const char *const texts[] = {"pipeline:\n  balance:\n    - 4  # stem\n    # between\n    - 8\n",
                                        "pipeline: {balance: [ 4,8 ]}  # end\r\n"};
    for (size_t i = 0; i < 2; i++) expect_spliced(texts[i], texts[i]);
}

static void a_value_is_added(void **state) {
    (void)state;
    expect_spliced(
        "pipeline:  # two\n  # devices\n  devices: [cpu, cpu]  # here\n  lockstep: true\n",
        "pipeline:  # two\n  # devices\n  balance: [4, 8]\n  devices: [cpu, cpu]  # here\n  lockstep: true\n");
    expect_spliced("pipeline: {devices: [cpu, cpu]}\n", "pipeline: {balance: [4, 8], devices: [cpu, cpu]}\n");
    expect_spliced("pipeline: {}\ntrain: 1\n", "pipeline: {balance: [4, 8]}\ntrain: 1\n");
    expect_spliced("pipeline:\ntrain: 1\n", "pipeline: {balance: [4, 8]}\ntrain: 1\n");
    expect_spliced("pipeline:\r\n  devices: [cpu]\r\n", "pipeline:\r\n  balance: [4, 8]\r\n  devices: [cpu]\r\n");
    expect_spliced("{model: 1, pipeline: }", "{model: 1, pipeline:  {balance: [4, 8]}}");
}

static void a_section_is_added(void **state) {
    (void)state;
    expect_spliced("model:\n  layers: [relu]  # no end of line",
                   "model:\n  layers: [relu]  # no end of line\npipeline:\n  balance: [4, 8]\n");
    expect_spliced("model: 1\r\ntrain: 2", "model: 1\r\ntrain: 2\r\npipeline:\r\n  balance: [4, 8]\r\n");
    expect_spliced("  model: 1\n  train: 2\n", "  model: 1\n  train: 2\n  pipeline:\n    balance: [4, 8]\n");
    expect_spliced("{model: 1, train: 2}\n", "{pipeline: {balance: [4, 8]}, model: 1, train: 2}\n");
}

static void what_would_change_more_is_refused(void **state) {
    (void)state;
    expect_refused("x: &p {devices: [cpu]}\npipeline: *p\n",
                   "c.yaml: pipeline comes from an alias: write balance: [4, 8] into what the anchor names");
    expect_refused(
        "pipeline: &p {devices: [cpu]}\nx: *p\n",
        "c.yaml: pipeline.balance cannot be changed in place without changing x.balance too; write it by hand");
    expect_refused("pipeline:\n  balance: &b [1, 2]\nx: *b\n",
                   "c.yaml: pipeline.balance cannot be changed in place; write it by hand");
    expect_refused(
        "pipeline:\n  balance:\n    - 6  # one\n    - 6\n  # two\n",
        "c.yaml:3: a comment stands within pipeline.balance, and would be lost: write balance: [4, 8] by hand");
    expect_refused(
        "pipeline:\r\n  balance: [6,\r\n# between\r\n  6]\r\n",
        "c.yaml:3: a comment stands within pipeline.balance, and would be lost: write balance: [4, 8] by hand");
    expect_refused(
        "pipeline:\n  balance:\n  - 'it''s'\n  # x\n  - 2\n",
        "c.yaml:4: a comment stands within pipeline.balance, and would be lost: write balance: [4, 8] by hand");
    expect_refused("model: 1\n...\n", "c.yaml: pipeline.balance cannot be changed in place; write it by hand");
    expect_refused("pipeline: [1]\n", "c.yaml: pipeline is not a mapping, so balance: [4, 8] cannot be added to it");
    expect_refused("pipeline: {a: }}",
                   "c.yaml:1:16: not valid YAML: did not find expected key while parsing a block mapping");
}

static void a_file_keeps_its_mode_and_its_links(void **state) {
    (void)state;
    char folder[] = "/tmp/gp-test-splice-XXXXXX", path[64], link[64], text[64] = {0};
    const gp_yaml_setting settings[] = {{"balance", "[4, 8]"}, {"schedule", "1f1b"}};
    struct stat info;
    gp_error err = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.yaml", folder);
    snprintf(link, sizeof link, "%s/link.yaml", folder);
    FILE *file = fopen(path, "w");
    fputs("pipeline: {balance: auto}\n", file);
    fclose(file);
    assert_int_equal(chmod(path, S_IRUSR | S_IWUSR | S_IXUSR | S_IROTH), 0);
    assert_int_equal(symlink("c.yaml", link), 0);
    assert_int_equal(gp_yaml_splice_file(link, "pipeline", settings, 2, &err), GP_OK);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, S_IRUSR | S_IWUSR | S_IXUSR | S_IROTH);
    file = fopen(path, "r");
    assert_int_equal(fread(text, 1, sizeof text - 1, file), 44);
    fclose(file);
    assert_string_equal(text, "pipeline: {schedule: 1f1b, balance: [4, 8]}\n");
    assert_int_equal(gp_yaml_splice_file(folder, "pipeline", settings, 2, &err), GP_CONFIG);
    unlink(link);
    assert_int_equal(gp_yaml_splice_file(link, "pipeline", settings, 2, &err), GP_CONFIG);
    unlink(path);
    rmdir(folder);
}

static void expect_file_refused(const char *path, const char *why) {
    const gp_yaml_setting settings[] = {{"balance", "[4, 8]"}};
    char text[64] = {0}, sentence[200];
    gp_error err = {0};
    assert_int_equal(gp_yaml_splice_file(path, "pipeline", settings, 1, &err), GP_IO);
    snprintf(sentence, sizeof sentence, "%s: %s", path, why);
    assert_string_equal(err.text, sentence);
    FILE *file = fopen(path, "r");
    assert_int_equal(fread(text, 1, sizeof text - 1, file), 26);
    fclose(file);
    assert_string_equal(text, "pipeline: {balance: auto}\n");
}

/* Also for root. A file that says it already needs no change. */
static void a_read_only_or_linked_file_is_refused(void **state) {
    (void)state;
    char folder[] = "/tmp/gp-test-splice-XXXXXX", path[64], link_path[64];
    const gp_yaml_setting same[] = {{"balance", "auto"}};
    struct stat info;
    gp_error err = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.yaml", folder);
    snprintf(link_path, sizeof link_path, "%s/second.yaml", folder);
    FILE *file = fopen(path, "w");
    fputs("pipeline: {balance: auto}\n", file);
    fclose(file);
    assert_int_equal(chmod(path, S_IRUSR | S_IRGRP), 0);
    expect_file_refused(path, "is read-only, and is not changed: make it writable, or change it by hand");
    assert_int_equal(gp_yaml_splice_file(path, "pipeline", same, 1, &err), GP_OK);
    assert_int_equal(chmod(path, S_IRUSR | S_IWUSR), 0);
    assert_int_equal(link(path, link_path), 0);
    expect_file_refused(path, "has 2 hard links, which replacing the file would split: change it by hand, or change a "
                              "copy");
    assert_int_equal(stat(link_path, &info), 0);
    assert_int_equal(info.st_nlink, 2);
    unlink(link_path);
    unlink(path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_replaced),
        cmocka_unit_test(what_is_said_already_stays),
        cmocka_unit_test(a_value_is_added),
        cmocka_unit_test(a_section_is_added),
        cmocka_unit_test(what_would_change_more_is_refused),
        cmocka_unit_test(a_file_keeps_its_mode_and_its_links),
        cmocka_unit_test(a_read_only_or_linked_file_is_refused),
        cmocka_unit_test(what_follows_a_block_scalar_stays),
        cmocka_unit_test(a_list_in_the_column_of_its_key_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
