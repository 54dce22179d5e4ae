/* The configuration that a run goes on with: its own, as its snapshot has it, and what the user changes now.
 *
 * Three texts are compared: the configuration that held when the snapshot was written, the user's file then, and the
 * file and command line now. What --set names changes. What changed in the file alone may be a key that is free. All
 * else stays as the run had it. One thread; touches no device. */
#ifndef GP_SESSION_RESUME_CHANGES_H
#define GP_SESSION_RESUME_CHANGES_H

#include "base/status.h"
#include "settings/config.h"
#include "store/snapshot.h"

/* `*config`: of the file and the command line; it becomes that of the run, whose `changes` then have an entry for the
 * step after the snapshot where numbers change there. `path` of the snapshot is for messages. `changes` gets every key
 * that changes now, to be freed. GP_CONFIG names a key that may not change; *config stays then. */
GP_MUST_USE gp_status gp_resume_merge(gp_config **config, const gp_snapshot *snapshot, const char *path,
                                      gp_settings *changes, gp_error *err);

#endif
