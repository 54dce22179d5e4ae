#include "cuda/accesses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct access {
    gp_cuda_range range;
    bool write;
    int stream;
    uint32_t number;
    const char *name;
} access;

typedef struct block {
    char *at;
    size_t bytes;
    int device;
    access *items;
    size_t count, capacity;
    struct block *next;
} block;

static block *blocks;
static int allowed = -1;

void clock_clear(clock_vector *clock) {
    memset(clock, 0, sizeof *clock);
}

void clock_join(clock_vector *clock, const clock_vector *other) {
    for (int s = 0; s < MOST_STREAMS; s++)
        if (other->of[s] > clock->of[s]) clock->of[s] = other->of[s];
}

void *accesses_reserve(size_t bytes, int device, unsigned char poison) {
    block *b = calloc(1, sizeof *b);
    char *at = aligned_alloc(GP_ALIGNMENT, gp_align_up(bytes ? bytes : 1, GP_ALIGNMENT));
    if (!b || !at) {
        free(b);
        free(at);
        return NULL;
    }
    memset(at, poison, bytes);
    *b = (block){.at = at, .bytes = bytes, .device = device, .next = blocks};
    blocks = b;
    return at;
}

static size_t extent(const gp_cuda_range *range) {
    return (range->rows - 1) * range->pitch + range->width;
}

static block *block_of(const gp_cuda_range *range) {
    const char *at = range->at;
    for (block *b = blocks; b; b = b->next)
        if (at >= b->at && at + extent(range) <= b->at + b->bytes) return b;
    return NULL;
}

/* Rows of equal pitch are compared within the pitch; others row by row. */
static bool overlap(const gp_cuda_range *a, const gp_cuda_range *b) {
    const char *a_at = a->at, *b_at = b->at;
    if (a_at >= b_at + extent(b) || b_at >= a_at + extent(a)) return false;
    if (a->rows == 1 && b->rows == 1) return true;
    for (size_t i = 0; i < a->rows; i++) {
        const char *row = a_at + i * a->pitch;
        if (row + a->width <= b_at || row >= b_at + extent(b)) continue;
        /* The first row of b that ends behind this row's start. */
        size_t j = row <= b_at ? 0 : (size_t)(row - b_at) / b->pitch;
        for (; j < b->rows && b_at + j * b->pitch < row + a->width; j++)
            if (b_at + j * b->pitch + b->width > row) return true;
    }
    return false;
}

bool accesses_note(const moment *when, const gp_cuda_range *range, bool write, char *text, size_t size) {
    if (range->width == 0 || range->rows == 0) return true;
    block *b = block_of(range);
    if (!b) {
        snprintf(text, size, "%s touches memory that is not there", when->name);
        return false;
    }
    if (b->device >= 0 && b->device != when->device && b->device != allowed) {
        snprintf(text, size, "%s touches memory of device %d from device %d", when->name, b->device, when->device);
        return false;
    }
    for (size_t i = 0; i < b->count; i++) {
        const access *old = &b->items[i];
        if ((!write && !old->write) || when->clock.of[old->stream] >= old->number || !overlap(range, &old->range))
            continue;
        snprintf(text, size, "nothing orders %s (stream %d), which %s, and %s (stream %d), which %s the same memory",
                 when->name, when->stream, write ? "writes" : "reads", old->name, old->stream,
                 old->write ? "writes" : "reads");
        return false;
    }
    gp_error err;
    if (GP_GROW(&b->items, &b->capacity, b->count + 1, &err) != GP_OK) abort();
    b->items[b->count++] = (access){*range, write, when->stream, when->clock.of[when->stream], when->name};
    return true;
}

void accesses_allow(int device) {
    allowed = device;
}

static void remove_block(block **at) {
    block *b = *at;
    *at = b->next;
    free(b->items);
    free(b->at);
    free(b);
}

bool accesses_release(void *at, const clock_vector *known, char *text, size_t size) {
    block **place = &blocks;
    while (*place && (*place)->at != (char *)at) place = &(*place)->next;
    if (!*place) {
        snprintf(text, size, "memory is given back that is not there");
        return false;
    }
    bool good = true;
    for (size_t i = 0; i < (*place)->count && good; i++) {
        const access *old = &(*place)->items[i];
        good = known->of[old->stream] >= old->number;
        if (!good)
            snprintf(text, size, "memory is given back that %s (stream %d) may still %s", old->name, old->stream,
                     old->write ? "write" : "read");
    }
    remove_block(place);
    return good;
}

void accesses_forget(const clock_vector *known) {
    for (block *b = blocks; b; b = b->next) {
        size_t left = 0;
        for (size_t i = 0; i < b->count; i++)
            if (known->of[b->items[i].stream] < b->items[i].number) b->items[left++] = b->items[i];
        b->count = left;
    }
}

int accesses_end(void) {
    int left = 0;
    for (; blocks; left++) remove_block(&blocks);
    return left;
}
