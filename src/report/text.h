/* Numbers, times, sizes and table cells in the reports for people.
 *
 * A text is a value: it lives until the end of the expression that asks for it, as in gp_report_count(3, "step").text.
 * Any thread. */
#ifndef GP_REPORT_TEXT_H
#define GP_REPORT_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "device/device.h"
#include "profile/profile.h"

typedef struct gp_report_text {
    char text[64];
} gp_report_text;

/* "12,345" */
gp_report_text gp_report_number(int64_t number);
/* "12.3 ms" */
gp_report_text gp_report_seconds(double seconds);
/* With the digits that a relative spread allows, two at least: 148 of ±3 % → 148, of ±10 % → 150. value ≥ 0; 0: all
 * digits. */
double gp_report_keep_within(double value, double spread);
/* The same of a predicted time (gp_profile_spread), "150 ms". */
gp_report_text gp_report_predicted(double seconds, double spread);
/* "1 layer", "12,345 layers": `singular` takes an s. */
gp_report_text gp_report_count(int64_t number, const char *singular);
/* "1.5 MiB" */
gp_report_text gp_report_bytes(size_t bytes);
/* "125 MB/s": as the configuration says it. */
gp_report_text gp_report_rate(double bytes);
/* As profiles name devices: "cpu, 2 threads", "cuda:1". */
gp_report_text gp_report_device(const gp_device_spec *spec);
gp_report_text gp_report_profiled(const gp_profile_device *device);

/* Writes text into `width` columns, to the right of them where `right`; cut with "…" where it is longer, or as it is
 * where width is 0. One character counts as one column. */
void gp_report_cell(FILE *out, const char *text, int width, bool right);
/* The same of a formatted text, to the left; width above 0. */
void gp_report_format_cell(FILE *out, int width, const char *format, ...) GP_PRINTF(3, 4);

/* The end of what `what` names: GP_IO if the stream did not take all of it. */
GP_MUST_USE gp_status gp_report_end(FILE *out, const char *what, gp_error *err);
/* An object, which is taken over, and the end. NULL: it could not be made. */
GP_MUST_USE gp_status gp_report_json(json_t *root, FILE *out, const char *what, gp_error *err);

#endif
