/* Inside the report of a plan: what its parts share.
 *
 * Made and freed by gp_plan_report, in its thread. */
#ifndef GP_REPORT_PLAN_REPORT_PARTS_H
#define GP_REPORT_PLAN_REPORT_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "balance/expect.h"
#include "base/status.h"
#include "plan/plan.h"
#include "report/plan_report.h"

enum {
    GP_REPORT_COLUMNS = 100,   /* that the report fits */
    GP_REPORT_ALL_STAGES = 16, /* longer pipelines are summarised */
    GP_REPORT_NUMBER = 48,
};

typedef struct gp_report {
    const gp_plan *plan;
    const gp_profile *profile;  /* NULL: times are counted */
    const gp_host_memory *host; /* NULL: no run is planned */
    FILE *out;
    int mini; /* that schedule, copies and expectation are about */
    gp_expectation expected;
    int *shown; /* stages that tables list, ascending */
    int shown_count;
    int largest, busiest; /* stages */
} gp_report;

/* Writes text into `width` columns, to the right of them where `right`; cut with "…" where it is longer, or as it is
 * where width is 0. One character counts as one column. */
void gp_report_cell(FILE *out, const char *text, int width, bool right);
/* "12,345" into buffer, which is returned. */
const char *gp_report_number(char buffer[GP_REPORT_NUMBER], int64_t number);
/* "12.3 ms". */
const char *gp_report_seconds(char buffer[GP_REPORT_NUMBER], double seconds);
/* "1 layer", "12,345 layers": `singular` takes an s. */
const char *gp_report_count(char buffer[GP_REPORT_NUMBER], int64_t number, const char *singular);

void gp_report_copies(const gp_report *report);
GP_MUST_USE gp_status gp_report_memory(const gp_report *report, gp_error *err);
/* The host's memory, a line for each kind. */
void gp_report_host(const gp_report *report);
GP_MUST_USE gp_status gp_report_schedule(const gp_report *report, gp_error *err);

#endif
