/* Cells and numbers of the plan's report. */
#include <inttypes.h>
#include <string.h>

#include "base/printable.h"
#include "report/plan_report_parts.h"

/* Of a text as it is printed: each character that is not printed is a '?'. */
static int columns_of(const char *text) {
    int columns = 0;
    bool printable;
    for (; *text; text += gp_printable_next(text, &printable)) columns++;
    return columns;
}

static void write_columns(FILE *out, const char *text, int columns) {
    for (; *text && columns > 0; columns--) {
        bool printable;
        size_t bytes = gp_printable_next(text, &printable);
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

const char *gp_report_number(char buffer[GP_REPORT_NUMBER], int64_t number) {
    char digits[GP_REPORT_NUMBER];
    int length = snprintf(digits, sizeof digits, "%" PRId64, number);
    char *to = buffer;
    for (int i = 0; i < length; i++) {
        *to++ = digits[i];
        if ((length - i) % 3 == 1 && i + 1 < length && digits[i] != '-') *to++ = ',';
    }
    *to = '\0';
    return buffer;
}

const char *gp_report_seconds(char buffer[GP_REPORT_NUMBER], double seconds) {
    static const char *const units[] = {"s", "ms", "µs"};
    size_t unit = 0;
    for (; seconds < 1 && unit + 1 < sizeof units / sizeof *units; unit++) seconds *= 1000;
    snprintf(buffer, GP_REPORT_NUMBER, "%.3g %s", seconds, units[unit]);
    if (seconds >= 1000) snprintf(buffer, GP_REPORT_NUMBER, "%.0f %s", seconds, units[unit]);
    return buffer;
}

const char *gp_report_count(char buffer[GP_REPORT_NUMBER], int64_t number, const char *singular) {
    char text[GP_REPORT_NUMBER];
    snprintf(buffer, GP_REPORT_NUMBER, "%.30s %s%s", gp_report_number(text, number), singular, number == 1 ? "" : "s");
    return buffer;
}
