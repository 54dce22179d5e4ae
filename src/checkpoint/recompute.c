#include "checkpoint/recompute.h"

#include <string.h>

void gp_recompute_kept(const gp_op_use *forward, size_t forward_count, const gp_op_use *backward, size_t backward_count,
                       const bool *runs, bool *kept, bool *written_scratch) {
    for (size_t o = 0; o < forward_count; o++)
        for (int i = 0; i < forward[o].write_count; i++) written_scratch[forward[o].writes[i]] = true;
    for (size_t o = 0; o < backward_count; o++)
        for (int i = 0; i < backward[o].read_count && runs[o]; i++)
            if (written_scratch[backward[o].reads[i]]) kept[backward[o].reads[i]] = true;
}

bool gp_recompute_read(bool runs, const int *reads, int read_count, const bool *at_hand, bool *needed) {
    for (int i = 0; i < read_count && runs; i++)
        if (!at_hand || !at_hand[reads[i]]) needed[reads[i]] = true;
    return runs;
}

void gp_recompute_select(const gp_op_use *ops, size_t count, const bool *at_hand, bool *needed, bool *run) {
    for (size_t o = count; o-- > 0;) {
        run[o] = ops[o].always;
        for (int i = 0; i < ops[o].write_count && !run[o]; i++) run[o] = needed[ops[o].writes[i]];
        gp_recompute_read(run[o], ops[o].reads, ops[o].read_count, at_hand, needed);
    }
}

static void select_without(const gp_op_use *ops, size_t count, const bool *wanted, size_t things, const bool *at_hand,
                           bool *needed, bool *run) {
    for (size_t t = 0; t < things; t++) needed[t] = wanted[t] && !(at_hand && at_hand[t]);
    gp_recompute_select(ops, count, at_hand, needed, run);
}

/* Whether some of them was given up: what an op writes that runs all the same need not be kept. */
static bool give_up_written(const gp_op_use *ops, size_t count, const bool *run, bool *at_hand) {
    bool any = false;
    for (size_t o = 0; o < count; o++)
        for (int i = 0; i < ops[o].write_count && run[o]; i++) {
            any = any || at_hand[ops[o].writes[i]];
            at_hand[ops[o].writes[i]] = false;
        }
    return any;
}

void gp_recompute_keep(const gp_op_use *ops, size_t count, const bool *wanted, size_t things, bool *at_hand,
                       bool *needed, bool *run) {
    select_without(ops, count, wanted, things, NULL, needed, run);
    for (size_t t = 0; t < things; t++) at_hand[t] = at_hand[t] && needed[t];
    do {
        select_without(ops, count, wanted, things, at_hand, needed, run);
    } while (give_up_written(ops, count, run, at_hand));
    memcpy(needed, wanted, things * sizeof *needed);
    for (size_t o = 0; o < count; o++)
        for (int i = 0; i < ops[o].read_count && run[o]; i++) needed[ops[o].reads[i]] = true;
    for (size_t t = 0; t < things; t++) at_hand[t] = at_hand[t] && needed[t];
}
