/* Checkpoint policy: for which micro-batches a stage keeps what backward needs, and for which it computes it again
 * (Chen et al., 1604.06174; GPipe, 1811.06965, section 2.3; torchgpipe's three modes). Pure; any thread. */
#ifndef GP_CHECKPOINT_POLICY_H
#define GP_CHECKPOINT_POLICY_H

#include <stdbool.h>

typedef enum gp_checkpoint_mode {
    GP_CHECKPOINT_NEVER,
    GP_CHECKPOINT_EXCEPT_LAST,
    GP_CHECKPOINT_ALWAYS
} gp_checkpoint_mode;
extern const char *const gp_checkpoint_names[]; /* by mode; NULL at the end */
const char *gp_checkpoint_mode_name(gp_checkpoint_mode mode);
enum { GP_CHECKPOINT_TEXT = 256 };
/* "always" where all are; else "[always, never]", cut with "…" where it is long. buffer is returned. */
const char *gp_checkpoint_text(char buffer[GP_CHECKPOINT_TEXT], const gp_checkpoint_mode *modes, int count);

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
