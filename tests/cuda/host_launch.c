#include "cuda/host_launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cuda/host_memory.h"
#include "cuda/host_ranges.h"
#include "size.h"

#if TEST_WATCHES_ADDRESSES
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

static const gp_host_order orders[] = {
    {GP_FIBERS_ASCENDING, 0, 0xff},
    {GP_FIBERS_DESCENDING, 0, 0x3f},
    {GP_FIBERS_RANDOM, 1, 0xff},
    {GP_FIBERS_RANDOM, 2, 0xc0},
};

static gp_status check_ranges(const gp_cuda_launch *launch, const gp_cuda_range *ranges, int count, const char *what,
                              gp_error *err) {
    for (int i = 0; i < count; i++) {
        gp_host_block block;
        size_t bytes = (size_t)((const char *)gp_range_end(&ranges[i]) - (const char *)ranges[i].at);
        if (!gp_host_memory_find(ranges[i].at, bytes, &block))
            return gp_fail(err, GP_INTERNAL,
                           "kernel %s declares to %s memory that is not the device's: %s %d, %zu bytes",
                           gp_host_kernel_name(launch->kernel), what, what, i, bytes);
    }
    return GP_OK;
}

gp_status gp_host_launch_check(const gp_cuda_launch *launch, gp_error *err) {
    GP_RETURN_IF_FAILED(check_ranges(launch, launch->read, launch->reads, "read", err));
    return check_ranges(launch, launch->write, launch->writes, "write", err);
}

static gp_status expect_written(const gp_cuda_launch *launch, const void *image, const char *what, gp_error *err) {
    int range;
    size_t byte;
    if (gp_ranges_same(launch->write, launch->writes, image, &range, &byte)) return GP_OK;
    return gp_fail(err, GP_INTERNAL, "kernel %s: %s gives other bits: write %d, byte %zu",
                   gp_host_kernel_name(launch->kernel), what, range, byte);
}

/* A kernel that is there for large tensors too (GP_CUDA_BOTH) does the same to small ones. */
static gp_status run_wide(const gp_cuda_launch *launch, const char *before, const char *after, gp_error *err) {
    gp_cuda_launch wide = *launch;
    if (!gp_host_kernel_has_wide(launch->kernel)) return GP_OK;
    wide.kernel = (gp_cuda_kernel)(launch->kernel + 1);
    gp_ranges_restore(launch->write, launch->writes, before);
    GP_RETURN_IF_FAILED(gp_host_kernel_run(&wide, orders[0], err));
    return expect_written(&wide, after, "that for large tensors", err);
}

static gp_status run_orders(const gp_cuda_launch *launch, char *before, char *after, gp_error *err) {
    gp_ranges_save(launch->write, launch->writes, before);
    GP_RETURN_IF_FAILED(gp_host_kernel_run(launch, orders[0], err));
    gp_ranges_save(launch->write, launch->writes, after);
    for (size_t i = 1; i < sizeof orders / sizeof orders[0]; i++) {
        gp_ranges_restore(launch->write, launch->writes, before);
        GP_RETURN_IF_FAILED(gp_host_kernel_run(launch, orders[i], err));
        GP_RETURN_IF_FAILED(expect_written(launch, after, "another order of threads", err));
    }
    return run_wide(launch, before, after, err);
}

gp_status gp_host_launch_orders(const gp_cuda_launch *launch, gp_error *err) {
    size_t bytes = gp_ranges_bytes(launch->write, launch->writes);
    char *images;
    GP_RETURN_IF_FAILED(GP_NEW(&images, 2 * bytes, err));
    gp_status status = gp_host_launch_check(launch, err);
    if (status == GP_OK) status = run_orders(launch, images, images + bytes, err);
    free(images);
    return status;
}

/* ---- undeclared memory ---------------------------------------------------------------------------------------------
 */

enum { UNDECLARED = 0, READ = 1, WRITE = 2, POISON = 0xff };

/* A block of memory while a launch runs. */
typedef struct watched {
    gp_host_block block;
    unsigned char *mask; /* UNDECLARED, READ or WRITE, by byte */
    char *kept;
} watched;

static gp_status watch(watched *w, const gp_cuda_launch *launch, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&w->mask, w->block.bytes, err));
    GP_RETURN_IF_FAILED(GP_NEW(&w->kept, w->block.bytes, err));
    for (int i = 0; i < launch->reads; i++) gp_range_mark(&launch->read[i], w->block.at, w->block.bytes, w->mask, READ);
    for (int i = 0; i < launch->writes; i++)
        gp_range_mark(&launch->write[i], w->block.at, w->block.bytes, w->mask, WRITE);
    memcpy(w->kept, w->block.at, w->block.bytes);
    return GP_OK;
}

/* The end of the run of equal marks that begins at `from`. */
static size_t run_end(const watched *w, size_t from) {
    size_t to = from + 1;
    while (to < w->block.bytes && w->mask[to] == w->mask[from]) to++;
    return to;
}

static void poison(const watched *w) {
    for (size_t from = 0, to; from < w->block.bytes; from = to) {
        to = run_end(w, from);
        if (w->mask[from] != UNDECLARED) continue;
        memset(w->block.at + from, POISON, to - from);
        ASAN_POISON_MEMORY_REGION(w->block.at + from, to - from);
    }
}

/* Puts undeclared memory back; false where it, or what is only read, has changed. */
static bool mend(const watched *w, size_t *byte) {
    bool kept = true;
    ASAN_UNPOISON_MEMORY_REGION(w->block.at, w->block.bytes);
    for (size_t i = 0; i < w->block.bytes; i++) {
        if (w->mask[i] == WRITE) continue;
        char expected = w->mask[i] == READ ? w->kept[i] : (char)POISON;
        if (kept && w->block.at[i] != expected) {
            kept = false;
            *byte = i;
        }
        w->block.at[i] = w->kept[i];
    }
    return kept;
}

static gp_status run_watched(const gp_cuda_launch *launch, watched *all, size_t count, gp_error *err) {
    for (size_t i = 0; i < count; i++) GP_RETURN_IF_FAILED(watch(&all[i], launch, err));
    for (size_t i = 0; i < count; i++) poison(&all[i]);
    gp_status status = gp_host_kernel_run(launch, orders[0], err);
    for (size_t i = 0; i < count; i++) {
        size_t byte = 0;
        if (!mend(&all[i], &byte) && status == GP_OK)
            status = gp_fail(err, GP_INTERNAL, "kernel %s writes what it does not declare: byte %zu of a block of %zu",
                             gp_host_kernel_name(launch->kernel), byte, all[i].block.bytes);
    }
    return status;
}

static gp_status run_among_poison(const gp_cuda_launch *launch, gp_error *err) {
    size_t count = gp_host_memory_list(NULL, 0);
    gp_host_block *blocks;
    watched *all;
    GP_RETURN_IF_FAILED(GP_NEW(&blocks, count, err));
    gp_status status = GP_NEW(&all, count, err);
    if (status == GP_OK) {
        gp_host_memory_list(blocks, count);
        for (size_t i = 0; i < count; i++) all[i].block = blocks[i];
        status = run_watched(launch, all, count, err);
        for (size_t i = 0; i < count; i++) {
            free(all[i].mask);
            free(all[i].kept);
        }
        free(all);
    }
    free(blocks);
    return status;
}

/* First among poison, so that writes are seen that come out the same every time. */
static gp_status run_both(const gp_cuda_launch *launch, char *before, char *after, char *among_poison, gp_error *err) {
    gp_ranges_save(launch->write, launch->writes, before);
    GP_RETURN_IF_FAILED(run_among_poison(launch, err));
    gp_ranges_save(launch->write, launch->writes, among_poison);
    gp_ranges_restore(launch->write, launch->writes, before);
    GP_RETURN_IF_FAILED(run_orders(launch, before, after, err));
    return expect_written(launch, among_poison, "poison where it declares to read nothing", err);
}

gp_status gp_host_launch_ranges(const gp_cuda_launch *launch, gp_error *err) {
    size_t bytes = gp_ranges_bytes(launch->write, launch->writes);
    char *images;
    GP_RETURN_IF_FAILED(GP_NEW(&images, 3 * bytes, err));
    gp_status status = gp_host_launch_check(launch, err);
    if (status == GP_OK) status = run_both(launch, images, images + bytes, images + 2 * bytes, err);
    free(images);
    return status;
}
