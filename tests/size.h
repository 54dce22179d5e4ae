/* How much of a long test is run.
 *
 * A test is small unless GPIPE_TEST_SIZE=large stands in the environment. CI runs small tests; scripts/test-long.sh
 * runs large ones. Sanitizers and counters of lines make a test many times slower, so under them a test has a third
 * size. What a smaller size leaves out is chosen by GPIPE_TEST_SEED (a number, 0 unless said): another seed, another
 * choice. Any thread, but the environment must not change.
 */
#ifndef GP_TESTS_SIZE_H
#define GP_TESTS_SIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_WATCHES_THREADS 1
#endif
#if __has_feature(address_sanitizer)
#define TEST_WATCHES_ADDRESSES 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(TEST_WATCHES_THREADS)
#define TEST_WATCHES_THREADS 1
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(TEST_WATCHES_ADDRESSES)
#define TEST_WATCHES_ADDRESSES 1
#endif
#ifndef TEST_WATCHES_THREADS
#define TEST_WATCHES_THREADS 0
#endif
#ifndef TEST_WATCHES_ADDRESSES
#define TEST_WATCHES_ADDRESSES 0
#endif
#ifdef GP_COVERAGE
#define TEST_COUNTS_LINES 1
#else
#define TEST_COUNTS_LINES 0
#endif
/* A sanitizer or a counter of lines is part of this build. */
enum { TEST_WATCHED = TEST_WATCHES_THREADS || TEST_WATCHES_ADDRESSES || TEST_COUNTS_LINES };

static inline bool test_is_large(void) {
    const char *size = getenv("GPIPE_TEST_SIZE");
    return size && strcmp(size, "large") == 0;
}

/* The number for this build and this size. A large test of a watched build is as long as a small one of another. */
static inline int test_pick(int watched, int small, int large) {
    if (TEST_WATCHED) return test_is_large() ? small : watched;
    return test_is_large() ? large : small;
}

static inline uint64_t test_seed(void) {
    const char *seed = getenv("GPIPE_TEST_SEED");
    return seed ? strtoull(seed, NULL, 10) : 0;
}

/* The first of the numbers 0, stride, 2·stride … to take, so that every number is taken with some seed. */
static inline int test_first(int stride) {
    return stride > 1 ? (int)(test_seed() % (uint64_t)stride) : 0;
}

#endif
