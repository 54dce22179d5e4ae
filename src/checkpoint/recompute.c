#include "checkpoint/recompute.h"

void gp_recompute_kept(const gp_op_use *forward, size_t forward_count, const gp_op_use *backward, size_t backward_count,
                       bool *kept, bool *written_scratch) {
    for (size_t o = 0; o < forward_count; o++)
        for (int i = 0; i < forward[o].write_count; i++) written_scratch[forward[o].writes[i]] = true;
    for (size_t o = 0; o < backward_count; o++)
        for (int i = 0; i < backward[o].read_count; i++)
            if (written_scratch[backward[o].reads[i]]) kept[backward[o].reads[i]] = true;
}

void gp_recompute_select(const gp_op_use *ops, size_t count, bool *needed, bool *run) {
    for (size_t o = count; o-- > 0;) {
        run[o] = ops[o].always;
        for (int i = 0; i < ops[o].write_count && !run[o]; i++) run[o] = needed[ops[o].writes[i]];
        if (!run[o]) continue;
        for (int i = 0; i < ops[o].read_count; i++) needed[ops[o].reads[i]] = true;
    }
}
