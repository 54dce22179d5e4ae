/* The precision in which GPUs compute when the configuration does not say it.
 *
 * Reads a session and prints; owns nothing. One thread. */
#ifndef GP_REPORT_PRECISION_H
#define GP_REPORT_PRECISION_H

#include <stdbool.h>
#include <stdio.h>

#include "session/session.h"

/* If a stage stands on a GPU, the configuration has no train.precision, and TF32 would change something: prints what it
 * would change and how to ask for it. Else prints nothing. `report`: as a row of the plan's report, else as one line.
 */
void gp_precision_advise(const gp_session *session, bool report, FILE *out);

#endif
