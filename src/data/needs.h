/* Which samples of a mini-batch are read: all of them, or those that a process needs.
 *
 * A need is a pure function of the mini-batch's size, so that mini-batches of one size have the same positions read.
 * Pure functions; any thread. */
#ifndef GP_DATA_NEEDS_H
#define GP_DATA_NEEDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/share.h"

typedef struct gp_needs {
    /* The first range of positions of a mini-batch of `samples` whose inputs (targets) are needed, without what lies
     * before `from`. count 0: none is left. NULL: all inputs and targets are needed. */
    gp_share (*next)(const void *context, int64_t samples, bool target, int64_t from);
    const void *context;
} gp_needs;

/* A position in a mini-batch, and which of its parts are needed: one or both. */
typedef struct gp_position {
    int64_t at;
    bool input, target;
} gp_position;

/* Whether any input (target) of a mini-batch of `samples` is needed. */
bool gp_needs_any(const gp_needs *needs, int64_t samples, bool target);
/* The first positions, from `from` on, of which something is needed, in order: at most `most` ≥ 1 of them. Returns how
 * many. *end: the next such position after them; `samples`: there is none. */
int gp_needs_list(const gp_needs *needs, int64_t samples, int64_t from, int most, gp_position *out, int64_t *end);

#endif
