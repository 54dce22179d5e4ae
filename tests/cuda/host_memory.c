#include "cuda/host_memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { RED_ZONE = 256, RED = 0xa5, POISON = 0xff };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gp_host_block *blocks;
static size_t count, capacity;

gp_status gp_host_memory_allocate(size_t bytes, void **out, gp_error *err) {
    char *whole = aligned_alloc(RED_ZONE, 2 * RED_ZONE + gp_align_up(bytes, RED_ZONE));
    if (!whole) return gp_fail(err, GP_MEMORY, "out of memory: %zu bytes", bytes);
    memset(whole, RED, 2 * RED_ZONE + gp_align_up(bytes, RED_ZONE));
    memset(whole + RED_ZONE, POISON, bytes);
    pthread_mutex_lock(&lock);
    gp_status status = GP_GROW(&blocks, &capacity, count + 1, err);
    if (status == GP_OK) blocks[count++] = (gp_host_block){whole + RED_ZONE, bytes};
    pthread_mutex_unlock(&lock);
    if (status != GP_OK) {
        free(whole);
        return status;
    }
    *out = whole + RED_ZONE;
    return GP_OK;
}

static void stop(const char *what, const void *block) {
    fprintf(stderr, "host memory: %s: %p\n", what, block);
    abort();
}

static void check_zones(const gp_host_block *block) {
    size_t behind = gp_align_up(block->bytes, RED_ZONE) - block->bytes + RED_ZONE;
    for (size_t i = 0; i < RED_ZONE; i++)
        if ((unsigned char)block->at[(ptrdiff_t)i - RED_ZONE] != RED) stop("written before a block", block->at);
    for (size_t i = 0; i < behind; i++)
        if ((unsigned char)block->at[block->bytes + i] != RED) stop("written behind a block", block->at);
}

void gp_host_memory_release(void *block) {
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < count && blocks[i].at != block) i++;
    if (i == count) stop("released, and never allocated", block);
    check_zones(&blocks[i]);
    blocks[i] = blocks[--count];
    if (count == 0) { /* so that nothing is left at the end */
        free(blocks);
        blocks = NULL;
        capacity = 0;
    }
    pthread_mutex_unlock(&lock);
    free((char *)block - RED_ZONE);
}

bool gp_host_memory_find(const void *at, size_t bytes, gp_host_block *out) {
    uintptr_t from = (uintptr_t)at;
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count && !found; i++) {
        uintptr_t first = (uintptr_t)blocks[i].at;
        found = from >= first && from - first <= blocks[i].bytes && bytes <= blocks[i].bytes - (from - first);
        if (found) *out = blocks[i];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

size_t gp_host_memory_list(gp_host_block *out, size_t most) {
    pthread_mutex_lock(&lock);
    size_t found = count;
    for (size_t i = 0; i < count && i < most; i++) out[i] = blocks[i];
    pthread_mutex_unlock(&lock);
    return found;
}
