/* Calls of the C library, of POSIX and of oneDNN that fail when a test wants it: the linker puts these wrappers before
 * every such call that our own code makes (--wrap; tests.cmake has the same list), so that it works under sanitizers
 * too. jansson asks for its memory here as well, by json_set_alloc_funcs, but while it reads. Any thread; armed while
 * no other runs. */
#ifndef GP_TESTS_FAILING_CALLS_H
#define GP_TESTS_FAILING_CALLS_H

#include <stdint.h>

typedef enum calls_family {
    CALLS_MEMORY,  /* blocks, texts, streams in memory */
    CALLS_THREADS, /* pthread_create */
    CALLS_FILES,   /* whatever opens, reads, writes, renames */
    CALLS_ONEDNN,
    CALLS_FAMILIES
} calls_family;

/* The name of a realloc that makes a block smaller. */
extern const char calls_shrinking[];

const char *calls_family_name(calls_family family);

/* From now on the `first`-th call of the family (from 1; 0: none) fails, and, where `on` is set, all that follow. */
void calls_arm(calls_family family, int64_t first, int on);
/* Nothing fails any more; how many calls there were since calls_arm, and the name of the first that failed (NULL). */
int64_t calls_disarm(const char **failed);

#endif
