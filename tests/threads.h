/* The threads of the test's process. Any thread; Linux. */
#ifndef GP_TESTS_THREADS_H
#define GP_TESTS_THREADS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static inline int test_threads(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    if (!folder) abort();
    for (const struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* Whether there are so many in the end: a thread that was joined is listed a moment longer. */
static inline bool test_threads_become(int wanted) {
    for (int i = 0; i < 10000 && test_threads() != wanted; i++) usleep(1000);
    return test_threads() == wanted;
}

#endif
