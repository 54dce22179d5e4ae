/* Which outputs a stage that recomputes had best keep all the same, under a budget of bytes.
 *
 * A stage computes a micro-batch again as a whole, right before its backward. What a set of kept outputs leaves to run
 * then follows from who reads what (gp_recompute_select), and no order of it saves memory. So the question is no
 * scheduling problem as in Chen et al. (1604.06174), where a segment at a time is computed again, or in rotor (Beaumont
 * et al., 1911.13214) and Rockmate, which choose persistent and nested recomputations along a chain; it is a knapsack
 * with one bit of state: each output kept costs bytes, and spares its layer if nothing else is wanted of it, and what
 * came before it if nobody else is there to read that. Over a chain it is solved exactly, last layer to first, by the
 * front of those pairs (bytes, time) that no other is better than in both, for each of the two states: somebody behind
 * reads this output when computing again, or nobody does. Where that takes too many pairs, a byte gets a price, the
 * lowest with which the cheapest set of all (time + price × bytes, found in one pass) keeps within the budget; what is
 * left of that goes to layers at one end, as a price that is next to nothing lower would have it (Everett 1963).
 * Elsewhere, and there, it is a heuristic, and says so.
 *
 * Works on numbers, like recompute.h. Pure but for memory; any thread.
 */
#ifndef GP_CHECKPOINT_KEEP_H
#define GP_CHECKPOINT_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct gp_keep_layer {
    int64_t time;      /* of computing it again, in any unit; ≥ 0 */
    int64_t bytes;     /* that keeping its output takes, for all micro-batches that are alive; ≥ 0 */
    bool read;         /* backward reads its output */
    bool more;         /* backward reads something else that it makes, so that it runs in any case */
    bool fixed;        /* its output cannot be kept */
    const int *inputs; /* layers of the stage whose outputs it reads, all before it */
    int input_count;
} gp_keep_layer;

typedef struct gp_keep_result {
    int64_t time, bytes; /* of computing again with the outputs kept; that they take */
    bool exact;          /* no set within the budget has less time, and none of that time fewer bytes */
} gp_keep_result;

/* kept[layer]: the set found for a budget of bytes; below 0 it is 0. Exact where the layers are a chain: none reads
 * another's output than the one's before it; unless a front has more than GP_KEEP_MOST pairs or all of them together
 * more than GP_KEEP_ALL (64 MiB; twice that while they are moved): then by a price. Otherwise outputs are added as long
 * as they fit, those first that spare most time by their bytes. */
enum { GP_KEEP_MOST = 1 << 13, GP_KEEP_ALL = 1 << 21 };
GP_MUST_USE gp_status gp_keep_solve(const gp_keep_layer *layers, int count, int64_t budget, bool *kept,
                                    gp_keep_result *out, gp_error *err);

/* What a set comes to: time of what runs, and bytes. */
gp_keep_result gp_keep_measure(const gp_keep_layer *layers, int count, const bool *kept, bool *runs);

#endif
