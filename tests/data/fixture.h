/* A temporary folder for the tests of src/data, and files of given bytes in it. Included by one test program each. */
#ifndef GP_TEST_DATA_FIXTURE_H
#define GP_TEST_DATA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/status.h"
#include "data/dataset.h"
#include "size.h"

/* Under sanitizers shadow memory leaves no sense to a limit on address space. */
enum { FIXTURE_SANITIZED = TEST_WATCHES_ADDRESSES || TEST_WATCHES_THREADS };

static char fixture_folder[64];

static inline int fixture_make(void **state) {
    (void)state;
    strcpy(fixture_folder, "/tmp/gp_test_data_XXXXXX");
    return mkdtemp(fixture_folder) ? 0 : -1;
}

/* A path in the folder; each call has a text of its own for the next 64 calls. */
static inline const char *fixture_path(const char *name) {
    static char texts[64][512];
    static int next;
    char *text = texts[next++ % 64];
    snprintf(text, sizeof texts[0], "%s/%s", fixture_folder, name);
    return text;
}

/* Files in the folder, not counting folders. */
static inline int fixture_files(void) {
    int count = 0;
    DIR *folder = opendir(fixture_folder);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static inline int fixture_remove(void **state) {
    (void)state;
    DIR *folder = opendir(fixture_folder);
    if (!folder) return -1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        const char *path = fixture_path(entry->d_name);
        if (unlink(path) != 0) rmdir(path);
    }
    closedir(folder);
    return rmdir(fixture_folder);
}

static inline void fixture_write(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* The file's bytes, to be freed by the caller. */
static inline unsigned char *fixture_read(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *count = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*count + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    fclose(file);
    return bytes;
}

static inline void fixture_gzip(const char *path, const void *bytes, size_t count) {
    gzFile file = gzopen(path, "wb9");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)count), (int)count);
    assert_int_equal(gzclose(file), Z_OK);
}

/* The whole sentence: "<path><rest>". */
static inline void fixture_expect(gp_status status, gp_status wanted, const gp_error *err, const char *path,
                                  const char *rest) {
    char text[GP_ERROR_TEXT];
    snprintf(text, sizeof text, "%s%s", path, rest);
    if (status == GP_OK) fail_msg("no failure where this was expected: %s", text);
    assert_string_equal(err->text, text);
    assert_int_equal(status, wanted);
    assert_int_equal(err->status, wanted);
}

/* `check` in a process of 256 MiB of address space and a second of processor time. */
static inline void fixture_within_limits(bool (*check)(const void *of), const void *of) {
    enum { MEMORY = 256 << 20, SECONDS = 1 };
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit memory = {MEMORY, MEMORY}, time = {SECONDS, SECONDS};
        if (!FIXTURE_SANITIZED && (setrlimit(RLIMIT_AS, &memory) != 0 || setrlimit(RLIMIT_CPU, &time) != 0)) _exit(2);
        _exit(check(of) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) fail_msg("ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* One sample of the first epoch, seed 1. */
static inline gp_status fixture_sample(const gp_dataset *dataset, int64_t index, void *input, void *target,
                                       int64_t *counts, gp_error *err) {
    void *scratch = malloc(gp_dataset_scratch(dataset));
    assert_non_null(scratch);
    gp_sample_key key = {.index = index, .epoch = 1, .seed = 1};
    gp_status status = gp_dataset_read(dataset, key, scratch, input, target, counts, err);
    free(scratch);
    return status;
}

#endif
