/* Packs buffers with lifetimes into few bytes: two buffers may have the same bytes if one ends before the other begins.
 *
 * A lifetime is from one op to another, by their numbers. The caller places one buffer after the other. It takes fewest
 * bytes to place the largest first (greedy by size, Pisarchyk and Lee, 2001.03288). Pure; a packing belongs to one
 * thread. */
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
/* Takes a stretch that has its place already. Such stretches may overlap. */
GP_MUST_USE gp_status gp_packing_take(gp_packing *packing, gp_packed stretch, gp_error *err);
/* Gives `stretch` an offset and takes it: in the smallest gap that is free from `first` to `last`, else after the last
 * stretch of that time. *placed is false, and nothing is taken, if it would end after `limit`. */
GP_MUST_USE gp_status gp_packing_place(gp_packing *packing, size_t limit, gp_packed *stretch, bool *placed,
                                       gp_error *err);

#endif
