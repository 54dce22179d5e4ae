/* Puts the balance that was found into the configuration file.
 *
 * One thread. */
#ifndef GP_REPORT_BALANCE_WRITE_H
#define GP_REPORT_BALANCE_WRITE_H

#include <stdio.h>

#include "base/status.h"
#include "session/session.h"

/* GP_USAGE where devices or model that a balance was found for are not those of the file at `path`. order[d] is the
 * device of the file that stands in place d; NULL: as they are. */
GP_MUST_USE gp_status gp_balance_check_file(const gp_config *found, const int *order, const gp_config *file,
                                            const char *path, gp_error *err);
/* "[4, 8]" */
void gp_balance_write_layers(FILE *out, const int64_t *layers, int stages);
/* The same as a text, owned by the caller. */
GP_MUST_USE gp_status gp_balance_text(const int64_t *layers, int stages, char **out, gp_error *err);
/* GP_USAGE where what --set says is not in the file at `path`, so that the balance would not fit it. */
GP_MUST_USE gp_status gp_balance_check_written(const gp_session *session, const char *path, gp_error *err);
/* The balance, and the order of the devices where that was found too. Nothing else of the file changes, comments and
 * layout included. GP_CONFIG with a place where it cannot be done. */
GP_MUST_USE gp_status gp_balance_write(const gp_session *session, const char *path, gp_error *err);

#endif
