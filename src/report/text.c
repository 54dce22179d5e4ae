#include "report/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/printable.h"

/* Of a text as it is printed: each character that is not printed is a '?'. */
static int columns_of(const char *text) {
    int columns = 0;
    bool printable;
    for (; *text; text += gp_visible_next(text, &printable)) columns++;
    return columns;
}

static void write_columns(FILE *out, const char *text, int columns) {
    for (; *text && columns > 0; columns--) {
        bool printable;
        size_t bytes = gp_visible_next(text, &printable);
        fwrite(printable ? text : "?", 1, printable ? bytes : 1, out);
        text += bytes;
    }
}

void gp_report_cell(FILE *out, const char *text, int width, bool right) {
    int columns = columns_of(text);
    if (width > 0 && columns > width) {
        write_columns(out, text, width - 1);
        fputs("…", out);
        return;
    }
    int padding = width > columns ? width - columns : 0;
    if (right) fprintf(out, "%*s", padding, "");
    write_columns(out, text, columns);
    if (!right) fprintf(out, "%*s", padding, "");
}

void gp_report_format_cell(FILE *out, int width, const char *format, ...) {
    char text[512]; /* more than any cell shows */
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    gp_report_cell(out, text, width, false);
}

gp_report_text gp_report_rate(double bytes) {
    gp_report_text its;
    char number[GP_NUMBER_TEXT];
    const char *unit = bytes >= 1e9 ? "GB/s" : bytes >= 1e6 ? "MB/s" : bytes >= 1e3 ? "KB/s" : "B/s";
    double of = bytes >= 1e9 ? 1e9 : bytes >= 1e6 ? 1e6 : bytes >= 1e3 ? 1e3 : 1;
    snprintf(its.text, sizeof its.text, "%s %s", gp_rounded_text(number, bytes / of, 4), unit);
    return its;
}

gp_report_text gp_report_number(int64_t number) {
    gp_report_text its;
    char digits[24], *to = its.text;
    int length = snprintf(digits, sizeof digits, "%" PRId64, number);
    for (int i = 0; i < length; i++) {
        *to++ = digits[i];
        if ((length - i) % 3 == 1 && i + 1 < length && digits[i] != '-') *to++ = ',';
    }
    *to = '\0';
    return its;
}

gp_report_text gp_report_seconds(double seconds) {
    static const char *const units[] = {"s", "ms", "µs"};
    gp_report_text its;
    char number[GP_NUMBER_TEXT];
    size_t unit = 0;
    for (; seconds < 1 && unit + 1 < sizeof units / sizeof *units; unit++) seconds *= 1000;
    snprintf(its.text, sizeof its.text, "%s %s", gp_rounded_text(number, seconds, 3), units[unit]);
    return its;
}

double gp_report_keep_within(double value, double spread) {
    if (!(spread > 0 && value > 0)) return value;
    double unit = pow(10, floor(log10(value * spread))), two_digits = pow(10, floor(log10(value)) - 1);
    if (unit > two_digits) unit = two_digits;
    return unit * round(value / unit);
}

gp_report_text gp_report_predicted(double seconds, double spread) {
    return gp_report_seconds(gp_report_keep_within(seconds, spread));
}

gp_report_text gp_report_count(int64_t number, const char *singular) {
    gp_report_text its;
    snprintf(its.text, sizeof its.text, "%.30s %s%s", gp_report_number(number).text, singular, number == 1 ? "" : "s");
    return its;
}

gp_report_text gp_report_bytes(size_t bytes) {
    gp_report_text its;
    gp_bytes_text(its.text, bytes);
    return its;
}

gp_report_text gp_report_device(const gp_device_spec *spec) {
    gp_report_text its;
    gp_device_text(its.text, spec->kind->name, spec->index, spec->threads);
    return its;
}

gp_report_text gp_report_profiled(const gp_profile_device *device) {
    gp_report_text its;
    gp_device_text(its.text, device->kind, device->index, device->threads);
    return its;
}

gp_status gp_report_end(FILE *out, const char *what, gp_error *err) {
    if (fflush(out) != 0 || ferror(out)) return gp_fail(err, GP_IO, "%s could not be written", what);
    return GP_OK;
}

gp_status gp_report_json(json_t *root, FILE *out, const char *what, gp_error *err) {
    int failed = !root || json_dumpf(root, out, JSON_ENSURE_ASCII | JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0;
    json_decref(root);
    fputs("\n", out);
    return failed ? gp_fail(err, GP_IO, "%s could not be written", what) : gp_report_end(out, what, err);
}
