/* Puts the balance that was found into the configuration file.
 *
 * One thread. */
#ifndef GP_TRAIN_BALANCE_WRITE_H
#define GP_TRAIN_BALANCE_WRITE_H

#include "base/status.h"
#include "train/session.h"

/* Nothing else of the file changes, comments and layout included. GP_CONFIG with a place where it cannot be done. */
/* GP_USAGE where the devices that a balance was found for are not those of the file at `path`. */
GP_MUST_USE gp_status gp_balance_check_devices(const gp_pipeline_config *found, const gp_pipeline_config *file,
                                               const char *path, gp_error *err);
GP_MUST_USE gp_status gp_balance_write(const gp_session *session, const char *path, gp_error *err);

#endif
