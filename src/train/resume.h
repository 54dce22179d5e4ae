/* Going on with a run: the newest snapshot of its folder that is whole, and whether the configuration allows it.
 *
 * Reads files and writes none. The caller owns what it gets, and closes it. One thread. */
#ifndef GP_TRAIN_RESUME_H
#define GP_TRAIN_RESUME_H

#include <stdbool.h>

#include "train/session.h"
#include "train/snapshot.h"

typedef struct gp_resume {
    char *path; /* of the snapshot; owned */
    gp_snapshot snapshot;
    char *passed_over; /* why newer ones were not taken, one after another; NULL: none were; owned */
    bool finished;     /* nothing is left to do */
} gp_resume;

/* Resolves the session's configuration. GP_CONFIG names the key where it says something else than the run's and may
 * not; GP_USAGE where the folder has no snapshot; GP_DATA where none can be used, with each one's reason. */
GP_MUST_USE gp_status gp_resume_open(gp_session *session, const char *folder, gp_resume *out, gp_error *err);
void gp_resume_close(gp_resume *resume);

#endif
