/* gpipe-train --check: the certificate of a plan (check/check.h), of a configuration or of a file with a plan as JSON.
 *
 * Any thread; one at a time per stream. */
#ifndef GP_REPORT_PLAN_CHECK_H
#define GP_REPORT_PLAN_CHECK_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"
#include "session/session.h"

/* Of the session's plan. GP_PROGRAM: a claim does not hold. */
GP_MUST_USE gp_status gp_plan_check(const gp_session *session, FILE *out, gp_error *err);
/* Whether a file has a plan as JSON, by the word for its format. */
bool gp_is_plan_file(const char *path);
/* Of such a file. GP_DATA with a place for what is no plan. */
GP_MUST_USE gp_status gp_plan_file_check(const char *path, FILE *out, gp_error *err);

#endif
