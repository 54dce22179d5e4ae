/* The workers of a process in words, for people.
 *
 * A value, as those of report/text.h. Any thread. */
#ifndef GP_REPORT_WORKERS_TEXT_H
#define GP_REPORT_WORKERS_TEXT_H

#include "plan/plan.h"
#include "report/text.h"

/* "0", "0, 1", "0 … 7, 12"; "none"; what is too long ends with "…". */
gp_report_text gp_workers_text(const gp_plan *plan, int process);
int gp_workers_count(const gp_plan *plan, int process);

#endif
