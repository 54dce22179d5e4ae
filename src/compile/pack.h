/* Packs buffers that live for a while into as few bytes as it can: buffers whose lifetimes meet get stretches apart.
 *
 * Lifetimes are in numbers of ops. Buffers may come in any order; from large to small packs best (greedy by size,
 * Pisarchyk and Lee, 2001.03288). Pure; a packing belongs to one thread. */
#ifndef GP_COMPILE_PACK_H
#define GP_COMPILE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A stretch of bytes that is taken from op `first` to op `last`. */
typedef struct gp_packed {
    size_t offset, bytes;
    int64_t first, last;
} gp_packed;

/* Zeroed: an empty one. */
typedef struct gp_packing {
    gp_packed *items; /* by offset; owned */
    size_t count, capacity;
    size_t high; /* end of the last stretch */
} gp_packing;

void gp_packing_fini(gp_packing *packing);
/* Takes a stretch that has its place already; such ones may lie over one another. */
GP_MUST_USE gp_status gp_packing_take(gp_packing *packing, gp_packed stretch, gp_error *err);
/* Gives `stretch` an offset: the smallest gap that is free from `first` to `last`, and that ends before `limit`. Then
 * takes it. *placed is false, and nothing is taken, if there is no such gap. */
GP_MUST_USE gp_status gp_packing_place(gp_packing *packing, size_t limit, gp_packed *stretch, bool *placed,
                                       gp_error *err);

#endif
