/* Going on with a run: the newest snapshot of its folder that is whole, and whether the configuration allows it.
 *
 * Reads files and writes none. The caller owns what it gets, and closes it. One thread. */
#ifndef GP_SESSION_RESUME_H
#define GP_SESSION_RESUME_H

#include <stdbool.h>

#include "session/session.h"
#include "store/snapshot.h"

typedef struct gp_resume {
    gp_path path; /* of the snapshot */
    gp_snapshot snapshot;
    char *passed_over;            /* why newer ones were not taken, one after another; NULL: none were; owned */
    gp_settings changes;          /* what the user changes now; owned */
    bool names_train, names_eval; /* --set names these data: they may be others */
    int64_t step;                 /* whose configuration the run goes on with (gp_session_options.step) */
    bool finished;                /* nothing is left to do */
} gp_resume;

/* Whether the folder has a run to go on with: a snapshot, whole or not. If not, a run may begin there: it loses nothing
 * but what a run has left that was ended before it had anything to keep. GP_USAGE where there is a model, or what no
 * run has left. */
GP_MUST_USE gp_status gp_resume_find(const char *folder, bool *found, gp_error *err);
/* Before the session is opened: *config, of the file and the command line, becomes that of the run with what changes
 * now. GP_CONFIG names a key that may not change; GP_DATA if no snapshot can be used, with each one's reason. *config
 * stays the caller's in any case. */
GP_MUST_USE gp_status gp_resume_open(gp_config **config, const char *folder, gp_resume *out, gp_error *err);
/* For the session of that configuration: whether the snapshot has its tensors, and whether the run is finished. */
GP_MUST_USE gp_status gp_resume_check(gp_resume *resume, const gp_session *session, const char *folder, gp_error *err);
void gp_resume_close(gp_resume *resume);

#endif
