/* Which outputs a stage that recomputes keeps all the same, within a budget of bytes.
 *
 * A stage recomputes a micro-batch as a whole, right before its backward pass. Which layers run then follows from the
 * kept outputs (gp_recompute_runs), and no order of the layers saves memory. So this is no scheduling problem as in
 * Chen et al. (1604.06174) or rotor (Beaumont et al., 1911.13214), which recompute segments one after another. It is a
 * knapsack with states: a kept output costs bytes, and spares its layer, and the layers before it that nothing else
 * needs.
 *
 * The method is that of Nemhauser and Ullmann (1969). It decides the layers from the last to the first. A choice for
 * the layers decided so far has a state: the outputs of earlier layers that its running layers read. Of the choices
 * with equal states, it keeps those for which no other has fewer bytes and less time. If that leaves more than
 * GP_KEEP_CHOICES, it divides the bytes into cells and keeps one choice of each cell and state, the one with the least
 * time. The result is the best set as long as this bound is not met, and close to it otherwise.
 *
 * Works on numbers, like recompute.h. Any thread.
 */
#ifndef GP_CHECKPOINT_KEEP_H
#define GP_CHECKPOINT_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct gp_keep_layer {
    int64_t time;      /* of recomputing it, in any unit; ≥ 0 */
    int64_t bytes;     /* that keeping its output takes, for all micro-batches in flight; ≥ 0 */
    bool read;         /* the backward pass reads its output */
    bool more;         /* the backward pass reads something else that it makes, so that it always runs */
    bool fixed;        /* its output cannot be kept */
    const int *inputs; /* layers of the stage whose outputs it reads, all before it */
    int input_count;
} gp_keep_layer;

typedef struct gp_keep_result {
    int64_t time, bytes; /* of recomputing with the outputs kept; that they take */
} gp_keep_result;

enum {
    GP_KEEP_CHOICES = 2048, /* at most, after each layer; fewer if there are many layers: */
    GP_KEEP_STEPS = 1 << 22 /* at most, in all (32 MiB) */
};

/* kept[layer]: the set found for a budget of bytes; below 0 it is 0. Of sets with equal times, one with fewest bytes.
 */
GP_MUST_USE gp_status gp_keep_solve(const gp_keep_layer *layers, int count, int64_t budget, bool *kept,
                                    gp_keep_result *out, gp_error *err);

/* What a set comes to: time of the layers that run, and bytes. */
gp_keep_result gp_keep_measure(const gp_keep_layer *layers, int count, const bool *kept, bool *runs);

#endif
