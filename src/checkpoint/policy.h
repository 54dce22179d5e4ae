/* Checkpoint policy: for which micro-batches a stage keeps what backward needs, and for which it computes it again
 * (Chen et al., 1604.06174; GPipe, 1811.06965, section 2.3; torchgpipe's three modes). Pure; any thread. */
#ifndef GP_CHECKPOINT_POLICY_H
#define GP_CHECKPOINT_POLICY_H

#include <stdbool.h>

#include "config/config.h"

/* `except_last` keeps the last of `pieces` micro-batches, whose backward follows at once; `never` recomputes none and
 * so keeps all. */
static inline bool gp_checkpoint_keeps(gp_checkpoint_mode mode, int micro, int pieces) {
    switch (mode) {
    case GP_CHECKPOINT_NEVER: return true;
    case GP_CHECKPOINT_EXCEPT_LAST: return micro == pieces - 1;
    case GP_CHECKPOINT_ALWAYS: return false;
    }
    return false;
}

#endif
