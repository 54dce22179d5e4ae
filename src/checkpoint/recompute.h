/* What a stage keeps between forward and backward, and which ops computing it again takes.
 *
 * Works on op lists that name buffers by number (things), so it knows neither layers nor memory. Pure functions; any
 * thread. A thing may be written by several ops (slices of a concatenation), all of them in one list.
 */
#ifndef GP_CHECKPOINT_RECOMPUTE_H
#define GP_CHECKPOINT_RECOMPUTE_H

#include <stdbool.h>
#include <stddef.h>

enum { GP_RECOMPUTE_OPERANDS = 16 };

/* The things that one op reads and writes; `always`: it has an effect that no thing shows (a gradient, a statistic). */
typedef struct gp_op_use {
    int reads[GP_RECOMPUTE_OPERANDS], writes[GP_RECOMPUTE_OPERANDS];
    int read_count, write_count;
    bool always;
} gp_op_use;

/* kept[t] becomes true for each thing that `forward` writes and an op of `backward` reads that runs. kept: one per
 * thing, false at first, like the scratch. */
void gp_recompute_kept(const gp_op_use *forward, size_t forward_count, const gp_op_use *backward, size_t backward_count,
                       const bool *runs, bool *kept, bool *written_scratch);

/* The rule that all functions here and keep.h follow, from the last op to the first: an op `runs` if it has to, or if
 * what it writes is needed; then what it reads and is not at_hand (NULL: nothing is) becomes needed too. Gives `runs`.
 */
bool gp_recompute_read(bool runs, const int *reads, int read_count, const bool *at_hand, bool *needed);

/* run[o] becomes true for each op that the wanted things need, directly or through others, and for each `always` op.
 * needed: one per thing, true for what is wanted; more become true on the way, but none of those at_hand (NULL: none),
 * which are there already. */
void gp_recompute_select(const gp_op_use *ops, size_t count, const bool *at_hand, bool *needed, bool *run);

/* What a forward can keep, beside what comes in, so that less is computed again. at_hand: one per thing, true for what
 * may be kept; it stays true where that spares something: an op writes it that would run otherwise and now does not,
 * and something still needs it. run[o]: the ops that are left, for what is `wanted` (one per thing). needed: scratch,
 * one per thing; `things` of them. */
void gp_recompute_keep(const gp_op_use *ops, size_t count, const bool *wanted, size_t things, bool *at_hand,
                       bool *needed, bool *run);

#endif
