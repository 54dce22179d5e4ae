#include "compile/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void gp_packing_fini(gp_packing *packing) {
    free(packing->items);
    *packing = (gp_packing){0};
}

gp_status gp_packing_take(gp_packing *packing, gp_packed stretch, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&packing->items, &packing->capacity, packing->count + 1, err));
    size_t place = packing->count;
    while (place > 0 && packing->items[place - 1].offset > stretch.offset) place--;
    memmove(&packing->items[place + 1], &packing->items[place], (packing->count - place) * sizeof *packing->items);
    packing->items[place] = stretch;
    packing->count++;
    if (stretch.offset + stretch.bytes > packing->high) packing->high = stretch.offset + stretch.bytes;
    return GP_OK;
}

static bool meets(const gp_packed *a, const gp_packed *b) {
    return a->first <= b->last && b->first <= a->last;
}

gp_status gp_packing_place(gp_packing *packing, size_t limit, gp_packed *stretch, bool *placed, gp_error *err) {
    size_t best = SIZE_MAX, end = 0; /* of what is taken so far, at that time */
    for (size_t i = 0; i < packing->count; i++) {
        const gp_packed *its = &packing->items[i];
        if (!meets(its, stretch)) continue;
        size_t gap = its->offset > end ? its->offset - end : 0;
        if (gap >= stretch->bytes && gap < best) {
            best = gap;
            stretch->offset = end;
        }
        if (its->offset + its->bytes > end) end = its->offset + its->bytes;
    }
    if (best == SIZE_MAX) stretch->offset = end;
    *placed = stretch->offset <= limit && stretch->bytes <= limit - stretch->offset;
    return *placed ? gp_packing_take(packing, *stretch, err) : GP_OK;
}
