#include "checkpoint/policy.h"

#include <stdio.h>

const char *const gp_checkpoint_names[] = {"never", "except_last", "always", NULL};

const char *gp_checkpoint_mode_name(gp_checkpoint_mode mode) {
    return gp_checkpoint_names[mode];
}

const char *gp_checkpoint_text(char buffer[GP_CHECKPOINT_TEXT], const gp_checkpoint_mode *modes, int count) {
    enum { SHOWN = 16 };
    int same = 1;
    size_t used = 0;
    while (same < count && modes[same] == modes[0]) same++;
    if (same == count) {
        snprintf(buffer, GP_CHECKPOINT_TEXT, "%s", gp_checkpoint_names[modes[0]]);
        return buffer;
    }
    for (int s = 0; s < count && s < SHOWN; s++)
        used += (size_t)snprintf(buffer + used, GP_CHECKPOINT_TEXT - used, "%s%s", s ? ", " : "[",
                                 gp_checkpoint_names[modes[s]]);
    snprintf(buffer + used, GP_CHECKPOINT_TEXT - used, "%s]", count > SHOWN ? ", …" : "");
    return buffer;
}
