#include "pipeline/allocations.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/networks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GP_OTHER_MALLOC
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define GP_OTHER_MALLOC
#endif
#endif

enum { MOST = 1 << 20 };

static const void *callers[MOST];
static atomic_long count;
static atomic_bool counting;
static _Thread_local bool is_excused;

#ifndef GP_OTHER_MALLOC

/* glibc's own, under the names that it exports for this. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t number, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *block);

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)

static void take_down(const void *caller) {
    if (!atomic_load_explicit(&counting, memory_order_relaxed) || is_excused) return;
    long at = atomic_fetch_add(&count, 1);
    if (at < MOST) callers[at] = caller;
}

void *malloc(size_t bytes) {
    take_down(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    take_down(__builtin_return_address(0));
    return __libc_calloc(number, bytes);
}

void *realloc(void *block, size_t bytes) {
    take_down(__builtin_return_address(0));
    return __libc_realloc(block, bytes);
}

void free(void *block) {
    if (block) take_down(__builtin_return_address(0));
    __libc_free(block);
}

void *memalign(size_t alignment, size_t bytes) {
    take_down(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    take_down(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    take_down(__builtin_return_address(0));
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

bool allocations_are_counted(void) {
    return true;
}

#else

bool allocations_are_counted(void) {
    return false;
}

#endif

void allocations_begin(void) {
    atomic_store(&count, 0);
    atomic_store(&counting, true);
}

void allocations_end(void) {
    atomic_store(&counting, false);
}

void allocations_excuse(bool excused) {
    is_excused = excused;
}

static long counted(void) {
    long all = atomic_load(&count);
    return all < MOST ? all : MOST;
}

/* The file that holds the address, without folders; "?" if none does. */
static const char *file_of(const void *address) {
    Dl_info info;
    if (!address || dladdr(address, &info) == 0 || !info.dli_fname) return "?";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

static const char *program(void) {
    static const char mark;
    return file_of(&mark);
}

long allocations_of(const char *name) {
    long found = 0;
    for (long i = 0; i < counted(); i++) found += strncmp(file_of(callers[i]), name, strlen(name)) == 0;
    return found;
}

long allocations_of_program(void) {
    return allocations_of(program());
}

long allocations_of_all(void) {
    return atomic_load(&count);
}

static long first_of_file(long i) {
    const char *file = file_of(callers[i]);
    long first = 0;
    while (strcmp(file_of(callers[first]), file) != 0) first++;
    return first;
}

void allocations_print(void) {
    for (long i = 0; i < counted(); i++) {
        const char *file = file_of(callers[i]);
        if (first_of_file(i) == i) printf("%s: %ld calls\n", file, allocations_of(file));
        long same = 0;
        while (callers[same] != callers[i]) same++;
        if (same < i || strcmp(file, program()) != 0) continue;
        Dl_info info;
        dladdr(callers[i], &info);
        printf("    %s+%#tx\n", file, (const char *)callers[i] - (const char *)info.dli_fbase);
    }
}

harness_options allocations_way(int way, const gp_device_kind *kind) {
    static const int64_t one[] = {NETWORK_SKIPS_LAYERS}, two[] = {8, 9};
    bool split = way % 2;
    return (harness_options){.model = network_skips,
                             .layers = split ? two : one,
                             .stages = split ? 2 : 1,
                             .kind = kind,
                             .real = GP_F32,
                             .checkpoint = (gp_checkpoint_mode)(way / 2 % 3),
                             .lockstep = way < 6,
                             .micro_batches = 3,
                             .batch = BATCH,
                             .last = LAST,
                             .evaluation = EVALUATED,
                             .norms = true,
                             .clip_norm = 0.5};
}
