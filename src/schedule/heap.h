/* What comes next in simulated time: a heap, the first on top.
 *
 * Plain data, owned by its creator, who frees `items`; zero at first. One thread. */
#ifndef GP_SCHEDULE_HEAP_H
#define GP_SCHEDULE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

typedef struct gp_heap_item {
    double time;
    uint64_t rank;  /* of equal times the least comes first; no two items have both equal */
    double seconds; /* that it takes */
    uint32_t who, what;
} gp_heap_item;

typedef struct gp_heap {
    gp_heap_item *items;
    size_t count, capacity;
} gp_heap;

static inline bool gp_heap_before(const gp_heap_item *a, const gp_heap_item *b) {
    return a->time < b->time || (a->time == b->time && a->rank < b->rank);
}

/* Into a gap, or above it. */
static inline void gp_heap_rise(gp_heap *heap, size_t at, gp_heap_item item) {
    for (; at > 0 && gp_heap_before(&item, &heap->items[(at - 1) / 2]); at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = item;
}

GP_MUST_USE static inline gp_status gp_heap_push(gp_heap *heap, gp_heap_item item, gp_error *err) {
    if (heap->count == heap->capacity)
        GP_RETURN_IF_FAILED(GP_GROW(&heap->items, &heap->capacity, heap->count + 1, err));
    gp_heap_rise(heap, heap->count++, item);
    return GP_OK;
}

/* The gap goes down to a leaf without a look at the last item, which most often belongs there. */
static inline gp_heap_item gp_heap_pop(gp_heap *heap) {
    gp_heap_item first = heap->items[0], last = heap->items[--heap->count];
    size_t at = 0;
    for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
        child += child + 1 < heap->count && gp_heap_before(&heap->items[child + 1], &heap->items[child]);
        heap->items[at] = heap->items[child];
        at = child;
    }
    gp_heap_rise(heap, at, last);
    return first;
}

#endif
