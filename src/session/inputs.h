/* The files that a configuration reads, so that no output of a program is one of them.
 *
 * Files are compared by device and inode: another path, a link, a hard link and a bind mount are the same file. Every
 * output asks before anything is written. One thread. */
#ifndef GP_SESSION_INPUTS_H
#define GP_SESSION_INPUTS_H

#include <stdbool.h>

#include "base/status.h"
#include "settings/config.h"

/* Whether the configuration reads the file that this path leads to. */
bool gp_inputs_has(const gp_config *config, const char *path);
/* GP_USAGE if the file that `option` names is the configuration, a data file, train.init, the schedule's file, or the
 * file that standard output or standard error goes to. The sentence names the option, and the key with its place. */
GP_MUST_USE gp_status gp_inputs_check_output(const gp_config *config, const char *option, const char *path,
                                             gp_error *err);
/* The same for all that a run writes and removes in its folder, which is there; `trace`: the timeline's file, which may
 * be none of these; NULL: there is no timeline. Two exceptions: gp_folder_check_config decides about config.yaml, and
 * train.init may be the folder's model.safetensors, which stays until the new model is whole. */
GP_MUST_USE gp_status gp_inputs_check_folder(const gp_config *config, const char *folder, const char *trace,
                                             gp_error *err);

#endif
