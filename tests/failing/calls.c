#include "failing/calls.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

const char calls_shrinking[] = "realloc, smaller";

static atomic_bool armed;
static atomic_int_fast64_t calls;
static calls_family chosen;
static int64_t first_failing;
static bool and_all_after;
static _Atomic(const char *) first_failed;

const char *calls_family_name(calls_family family) {
    static const char *const names[CALLS_FAMILIES] = {"memory", "threads", "files", "oneDNN"};
    return names[family];
}

/* Whether this call is one that fails. */
static bool fails(calls_family family, const char *name) {
    if (!atomic_load(&armed) || family != chosen) return false;
    int64_t number = atomic_fetch_add(&calls, 1) + 1;
    if (first_failing == 0 || number < first_failing || (number > first_failing && !and_all_after)) return false;
    const char *none = NULL;
    atomic_compare_exchange_strong(&first_failed, &none, name);
    return true;
}

/* X(family, result, what it returns when it fails, errno, name, parameters, arguments) */
#define CALLS_MAP(X)                                                                                                   \
    X(MEMORY, void *, NULL, ENOMEM, calloc, (size_t count, size_t size), (count, size))                                \
    X(MEMORY, void *, NULL, ENOMEM, aligned_alloc, (size_t unit, size_t size), (unit, size))                           \
    X(MEMORY, int, ENOMEM, 0, posix_memalign, (void **out, size_t unit, size_t size), (out, unit, size))               \
    X(MEMORY, int, -1, ENOMEM, vasprintf, (char **out, const char *format, va_list args), (out, format, args))         \
    X(MEMORY, FILE *, NULL, ENOMEM, open_memstream, (char **out, size_t *size), (out, size))                           \
    X(MEMORY, XXH3_state_t *, NULL, ENOMEM, XXH3_createState, (void), ())                                              \
    X(THREADS, int, EAGAIN, 0, pthread_create,                                                                         \
      (pthread_t * out, const pthread_attr_t *attributes, void *(*main)(void *), void *argument),                      \
      (out, attributes, main, argument))                                                                               \
    X(FILES, int, -1, EIO, open, (const char *path, int flags, mode_t mode), (path, flags, mode))                      \
    X(FILES, ssize_t, -1, EIO, read, (int file, void *to, size_t size), (file, to, size))                              \
    X(FILES, ssize_t, -1, EIO, pread, (int file, void *to, size_t size, off_t at), (file, to, size, at))               \
    X(FILES, ssize_t, -1, ENOSPC, write, (int file, const void *from, size_t size), (file, from, size))                \
    X(FILES, int, -1, EIO, fsync, (int file), (file))                                                                  \
    X(FILES, int, -1, EIO, fstat, (int file, struct stat *out), (file, out))                                           \
    X(FILES, int, -1, EIO, stat, (const char *path, struct stat *out), (path, out))                                    \
    X(FILES, int, -1, EIO, access, (const char *path, int mode), (path, mode))                                         \
    X(FILES, off_t, -1, EIO, lseek, (int file, off_t offset, int from), (file, offset, from))                          \
    X(FILES, int, -1, ENOLCK, flock, (int file, int operation), (file, operation))                                     \
    X(FILES, int, -1, EIO, ftruncate, (int file, off_t size), (file, size))                                            \
    X(FILES, int, -1, EACCES, mkdir, (const char *path, mode_t mode), (path, mode))                                    \
    X(FILES, int, -1, EIO, rename, (const char *from, const char *to), (from, to))                                     \
    X(FILES, int, -1, EIO, unlink, (const char *path), (path))                                                         \
    X(FILES, int, -1, EIO, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))                 \
    X(FILES, char *, NULL, EIO, realpath, (const char *path, char *out), (path, out))                                  \
    X(FILES, DIR *, NULL, EACCES, opendir, (const char *path), (path))                                                 \
    X(FILES, FILE *, NULL, EACCES, fopen, (const char *path, const char *mode), (path, mode))                          \
    X(FILES, int, EOF, ENOSPC, fflush, (FILE * file), (file))                                                          \
    X(FILES, int, EOF, ENOSPC, ferror, (FILE * file), (file))                                                          \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_stream_create,                                                \
      (dnnl_stream_t * out, dnnl_engine_t engine, unsigned flags), (out, engine, flags))                               \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_memory_create,                                                \
      (dnnl_memory_t * out, const_dnnl_memory_desc_t desc, dnnl_engine_t engine, void *address),                       \
      (out, desc, engine, address))                                                                                    \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_memory_desc_clone,                                            \
      (dnnl_memory_desc_t * out, const_dnnl_memory_desc_t from), (out, from))                                          \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_memory_desc_create_with_strides,                              \
      (dnnl_memory_desc_t * out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides),  \
      (out, rank, dims, type, strides))                                                                                \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_memory_desc_create_with_tag,                                  \
      (dnnl_memory_desc_t * out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag),      \
      (out, rank, dims, type, tag))                                                                                    \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_engine_create,                                                \
      (dnnl_engine_t * out, dnnl_engine_kind_t kind, size_t index), (out, kind, index))                                \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_primitive_attr_create, (dnnl_primitive_attr_t * out), (out))  \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_primitive_attr_clone,                                         \
      (dnnl_primitive_attr_t * out, const_dnnl_primitive_attr_t from), (out, from))                                    \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_post_ops_create, (dnnl_post_ops_t * out), (out))              \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_primitive_create,                                             \
      (dnnl_primitive_t * out, const_dnnl_primitive_desc_t desc), (out, desc))                                         \
    X(ONEDNN, dnnl_status_t, dnnl_out_of_memory, 0, dnnl_reorder_primitive_desc_create,                                \
      (dnnl_primitive_desc_t * out, const_dnnl_memory_desc_t from, dnnl_engine_t from_engine,                          \
       const_dnnl_memory_desc_t to, dnnl_engine_t to_engine, const_dnnl_primitive_attr_t attributes),                  \
      (out, from, from_engine, to, to_engine, attributes))                                                             \
    X(ONEDNN, dnnl_status_t, dnnl_runtime_error, 0, dnnl_primitive_execute,                                            \
      (const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count, const dnnl_exec_arg_t *arguments),           \
      (primitive, stream, count, arguments))                                                                           \
    X(ONEDNN, dnnl_status_t, dnnl_runtime_error, 0, dnnl_stream_wait, (dnnl_stream_t stream), (stream))

#define CALLS_WRAPPER(family, result, failure, error, name, parameters, arguments)                                     \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters {                                                                                  \
        if (!fails(CALLS_##family, #name)) return __real_##name arguments;                                             \
        if (error) errno = (error);                                                                                    \
        return failure;                                                                                                \
    }
CALLS_MAP(CALLS_WRAPPER)
#undef CALLS_WRAPPER

/* A block that is made smaller has a name of its own: who keeps the larger one instead does no harm. */
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size) {
    if (!fails(CALLS_MEMORY, size <= malloc_usable_size(block) ? calls_shrinking : "realloc"))
        return __real_realloc(block, size);
    errno = ENOMEM;
    return NULL;
}

/* What cannot be closed is closed nevertheless. */
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file) {
    int result = __real_fclose(file);
    if (!fails(CALLS_FILES, "fclose")) return result;
    errno = ENOSPC;
    return EOF;
}

int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file) {
    int result = __real_close(file);
    if (!fails(CALLS_FILES, "close")) return result;
    errno = EIO;
    return -1;
}

/* A text is refused as a whole: jansson 2.14 itself does not survive it everywhere when one of the small blocks of its
 * reader is refused (akheron/jansson, #362 and #735: a byte that is not saved ends in an assertion or in free()). */
static _Thread_local bool reads_json;

json_t *__real_json_loadb(const char *text, size_t bytes, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *text, size_t bytes, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *text, size_t bytes, size_t flags, json_error_t *error) {
    if (fails(CALLS_MEMORY, "json_loadb")) {
        errno = ENOMEM;
        return NULL;
    }
    reads_json = true;
    json_t *read = __real_json_loadb(text, bytes, flags, error);
    reads_json = false;
    return read;
}

static void *allocate_for_jansson(size_t size) {
    if (reads_json || !fails(CALLS_MEMORY, "json_malloc")) return malloc(size);
    errno = ENOMEM;
    return NULL;
}

void calls_arm(calls_family family, int64_t first, int on) {
    json_set_alloc_funcs(allocate_for_jansson, free);
    chosen = family;
    first_failing = first;
    and_all_after = on;
    atomic_store(&calls, 0);
    atomic_store(&first_failed, NULL);
    atomic_store(&armed, true);
}

int64_t calls_disarm(const char **failed) {
    atomic_store(&armed, false);
    if (failed) *failed = atomic_load(&first_failed);
    return atomic_load(&calls);
}
