/* The corpus of bad configurations: each NAME.yaml, with the overrides in the lines of NAME.set where there is one, is
 * refused with exactly the message in NAME.txt and exit status 2, and in no time. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "settings/config.h"

enum { MAX_CASES = 1000, MAX_OVERRIDES = 8, LEAST_CASES = 60 };

typedef struct corpus {
    char *names[MAX_CASES]; /* without their endings */
    size_t count;
} corpus;

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_names(corpus *all, const char *ending) {
    DIR *folder = opendir(".");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name), end = strlen(ending);
        if (length <= end || strcmp(entry->d_name + length - end, ending) != 0) continue;
        assert_true(all->count < MAX_CASES);
        all->names[all->count++] = strndup(entry->d_name, length - end);
    }
    closedir(folder);
    qsort(all->names, all->count, sizeof *all->names, compare_names);
}

static void free_names(corpus *all) {
    for (size_t i = 0; i < all->count; i++) free(all->names[i]);
}

/* A small text file; NULL where there is none. */
static char *read_text(const char *name, const char *ending) {
    char path[300];
    snprintf(path, sizeof path, "%s%s", name, ending);
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    char *text = calloc(1, 8192);
    assert_non_null(text);
    size_t got = fread(text, 1, 8191, file);
    text[got] = '\0';
    fclose(file);
    return text;
}

static int split_lines(char *text, const char *lines[MAX_OVERRIDES]) {
    int count = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        assert_true(count < MAX_OVERRIDES);
        lines[count++] = line;
    }
    return count;
}

static bool is_refused_as_written(const char *name) {
    char path[300];
    const char *overrides[MAX_OVERRIDES];
    gp_error err = {0};
    gp_config *config = NULL;
    char *set = read_text(name, ".set"), *expected = read_text(name, ".txt");
    snprintf(path, sizeof path, "%s.yaml", name);
    int count = set ? split_lines(set, overrides) : 0;
    gp_status status = gp_config_load(GP_TO_RUN, path, overrides, count, &config, &err);
    bool same = false;
    if (status == GP_OK || config) {
        print_error("%s: was accepted\n", name);
    } else if (gp_status_exit(status) != 2 || err.status != status) {
        print_error("%s: status %d\n", name, (int)status);
    } else if (!expected) {
        print_error("%s: no expected message; it is\n%s\n", name, err.text);
    } else {
        size_t length = strlen(err.text);
        same = strncmp(err.text, expected, length) == 0 && strcmp(expected + length, "\n") == 0;
        if (!same) print_error("%s: expected\n%sbut it is\n%s\n", name, expected, err.text);
    }
    gp_config_destroy(&config);
    free(set);
    free(expected);
    return same;
}

static void refuses_the_corpus(void **state) {
    (void)state;
    corpus all = {.count = 0};
    size_t wrong = 0;
    list_names(&all, ".yaml");
    assert_true(all.count >= LEAST_CASES);
    for (size_t i = 0; i < all.count; i++) wrong += !is_refused_as_written(all.names[i]);
    free_names(&all);
    assert_int_equal(wrong, 0);
}

static void has_a_configuration_for_each_message(void **state) {
    (void)state;
    static const char *const endings[] = {".txt", ".set"};
    for (size_t e = 0; e < 2; e++) {
        corpus all = {.count = 0};
        list_names(&all, endings[e]);
        for (size_t i = 0; i < all.count; i++) {
            char path[300];
            snprintf(path, sizeof path, "%s.yaml", all.names[i]);
            if (access(path, R_OK) != 0) fail_msg("%s%s has no %s", all.names[i], endings[e], path);
        }
        free_names(&all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_the_corpus),
        cmocka_unit_test(has_a_configuration_for_each_message),
    };
    if (chdir(GP_TEST_SOURCE_DIR "/settings/corpus") != 0) {
        perror(GP_TEST_SOURCE_DIR "/settings/corpus");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
