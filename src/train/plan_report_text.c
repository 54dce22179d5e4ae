/* Cells and numbers of the plan's report. */
#include <inttypes.h>
#include <string.h>

#include "train/plan_report_parts.h"

const char *gp_report_op(int op) {
    static const char *const names[GP_INSTR_OPS] = {
#define OP_NAME(suffix, name) [GP_INSTR_##suffix] = name,
        GP_INSTR_MAP(OP_NAME)
#undef OP_NAME
    };
    return names[op];
}

static bool begins_character(char byte) {
    return ((unsigned char)byte & 0xC0U) != 0x80U;
}

static int columns_of(const char *text) {
    int columns = 0;
    for (; *text; text++) columns += begins_character(*text);
    return columns;
}

/* Bytes of the first `columns` characters. */
static size_t bytes_of(const char *text, int columns) {
    size_t bytes = 0;
    while (text[bytes] && (columns > 0 || !begins_character(text[bytes])))
        if (begins_character(text[bytes++])) columns--;
    return bytes;
}

void gp_report_cell(FILE *out, const char *text, int width, bool right) {
    int columns = columns_of(text);
    if (width > 0 && columns > width) {
        fprintf(out, "%.*s…", (int)bytes_of(text, width - 1), text);
        return;
    }
    int padding = width > columns ? width - columns : 0;
    if (right) fprintf(out, "%*s", padding, "");
    fputs(text, out);
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
