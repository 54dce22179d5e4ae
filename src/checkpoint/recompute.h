/* What a stage keeps between forward and backward, and which ops computing it again takes.
 *
 * Works on op lists that name buffers by number (things), so it knows neither layers nor memory. Pure functions; any
 * thread. A thing may be written by several ops (slices of a concatenation), all of them in one list.
 */
#ifndef GP_CHECKPOINT_RECOMPUTE_H
#define GP_CHECKPOINT_RECOMPUTE_H

#include <stdbool.h>
#include <stddef.h>

enum { GP_RECOMPUTE_OPERANDS = 8 };

/* The things that one op reads and writes; `always`: it has an effect that no thing shows (a gradient, a statistic). */
typedef struct gp_op_use {
    int reads[GP_RECOMPUTE_OPERANDS], writes[GP_RECOMPUTE_OPERANDS];
    int read_count, write_count;
    bool always;
} gp_op_use;

/* kept[t] becomes true for each thing that `forward` writes and `backward` reads. kept: one per thing, false at first.
 */
void gp_recompute_kept(const gp_op_use *forward, size_t forward_count, const gp_op_use *backward, size_t backward_count,
                       bool *kept, bool *written_scratch);

/* run[o] becomes true for each op that the wanted things need, directly or through others, and for each `always` op.
 * needed: one per thing, true for what is wanted; more become true on the way. */
void gp_recompute_select(const gp_op_use *ops, size_t count, bool *needed, bool *run);

#endif
