/* A library to be loaded before a program's own (LD_PRELOAD). It slows one part of the program down, and test_cause.py
 * expects that the comparison of timelines names it. Each of these sleeps for GP_SLOW_MS milliseconds:
 *
 * GP_SLOW_CHANNELS=N: each computation of oneDNN whose weights have N output channels.
 * GP_SLOW_COPY=N: each memcpy of exactly N bytes.
 * GP_SLOW_READ=N: each pread of exactly N bytes.
 * Any thread may call. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <oneapi/dnnl/dnnl.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static struct {
    long milliseconds;
    long channels;
    size_t copy, read; /* bytes; 0: none */
} slow;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
    slow.milliseconds = number("GP_SLOW_MS");
    slow.channels = number("GP_SLOW_CHANNELS");
    slow.copy = (size_t)number("GP_SLOW_COPY");
    slow.read = (size_t)number("GP_SLOW_READ");
}

static void rest(void) {
    struct timespec time = {slow.milliseconds / 1000, slow.milliseconds % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

/* The first dimension of what the query names; 0: there is none. */
static long channels_of(const_dnnl_primitive_desc_t about, dnnl_query_t query) {
    const_dnnl_memory_desc_t layout = dnnl_primitive_desc_query_md(about, query, 0);
    dnnl_dims_t *dim = NULL;
    int rank = 0;
    if (!layout || dnnl_memory_desc_query(layout, dnnl_query_ndims_s32, (void *)&rank) != dnnl_success || rank < 2)
        return 0;
    return dnnl_memory_desc_query(layout, dnnl_query_dims, (void *)&dim) == dnnl_success ? (long)(*dim)[0] : 0;
}

dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int nargs,
                                     const dnnl_exec_arg_t *args) {
    const_dnnl_primitive_desc_t about = NULL;
    if (slow.channels > 0 && dnnl_primitive_get_primitive_desc(primitive, &about) == dnnl_success &&
        (channels_of(about, dnnl_query_weights_md) == slow.channels ||
         channels_of(about, dnnl_query_diff_weights_md) == slow.channels))
        rest();
    return REAL(dnnl_primitive_execute)(primitive, stream, nargs, args);
}

/* Without "restrict", and with -fno-builtin: memmove must not become memcpy here. */
void *memcpy(void *dest, const void *src, size_t n) {
    if (slow.copy > 0 && n == slow.copy) rest();
    return memmove(dest, src, n);
}

ssize_t pread(int fd, void *buf, size_t nbytes, off_t offset) {
    if (slow.read > 0 && nbytes == slow.read) rest();
    return REAL(pread)(fd, buf, nbytes, offset);
}
