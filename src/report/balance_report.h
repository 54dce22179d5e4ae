/* What gpipe-balance prints of a session that looks for a balance: layers, the balance, what it predicts.
 *
 * Borrows the session; one thread per stream. */
#ifndef GP_REPORT_BALANCE_REPORT_H
#define GP_REPORT_BALANCE_REPORT_H

#include <stdio.h>

#include "base/status.h"
#include "report/command_text.h"
#include "session/session.h"

/* For people: a line for each layer with bars of time and memory, stages, the expected step beside that of the even cut
 * and of the configured one, what to type instead of the command that this is the answer to. */
GP_MUST_USE gp_status gp_balance_report(const gp_session *session, const gp_command *command, FILE *out, gp_error *err);
/* The same as one JSON object; times in milliseconds. */
GP_MUST_USE gp_status gp_balance_report_json(const gp_session *session, FILE *out, gp_error *err);

#endif
