/* Inside the report of a plan: what its parts share.
 *
 * Made and freed by gp_plan_report, in its thread. */
#ifndef GP_REPORT_PLAN_REPORT_PARTS_H
#define GP_REPORT_PLAN_REPORT_PARTS_H

#include <stdio.h>

#include "balance/expect.h"
#include "base/status.h"
#include "plan/plan.h"
#include "report/plan_report.h"
#include "report/text.h"

enum {
    GP_REPORT_COLUMNS = 100,   /* that the report fits */
    GP_REPORT_ALL_STAGES = 16, /* longer pipelines are summarised */
};

typedef struct gp_report {
    const gp_plan *plan;
    const gp_profile *profile;  /* NULL: times are counted */
    const gp_host_memory *host; /* NULL: no run is planned */
    const size_t *memory;       /* [process] of its host; NULL: not known */
    FILE *out;
    int mini; /* that schedule, copies and expectation are about */
    gp_expectation expected;
    int shown[GP_REPORT_ALL_STAGES]; /* stages that tables list, ascending */
    int shown_count;
    int largest, busiest; /* stages */
} gp_report;

/* Which process has which worker; nothing if there is one process. */
GP_MUST_USE gp_status gp_report_processes(const gp_report *report, gp_error *err);
void gp_report_copies(const gp_report *report);
/* Nothing without links. */
GP_MUST_USE gp_status gp_report_links(const gp_report *report, gp_error *err);
GP_MUST_USE gp_status gp_report_memory(const gp_report *report, gp_error *err);
/* The host's memory, a line for each kind. */
void gp_report_host(const gp_report *report);
void gp_report_schedule(const gp_report *report);

#endif
