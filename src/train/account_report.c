/* The account for people. */
#include "train/account.h"

#include <inttypes.h>
#include <math.h>

#include "base/memory.h"
#include "train/plan_report_parts.h"

enum { MOST_WORKERS = 32 }; /* a table has */

static const char *source_of(const gp_account_result *result) {
    return result->profiled ? "profile" : "counted";
}

/* Shares of the time of the steps that were recorded, as the bubble is; `seconds` is the median of all. */
static void write_side(const gp_account_result *result, const gp_account_side *side, FILE *out) {
    char seconds[GP_REPORT_NUMBER];
    double copying = 0, waiting = 0, all = 0;
    for (int w = 0; w < result->workers; w++) {
        copying += side->worker[w].copying;
        waiting += side->worker[w].waiting;
        all += side->worker[w].busy + side->worker[w].copying + side->worker[w].waiting;
    }
    fprintf(out, "%s, bubble %.0f%% (copying %.0f%%, waiting %.0f%%)", gp_report_seconds(seconds, side->seconds),
            100 * side->bubble, all > 0 ? 100 * copying / all : 0, all > 0 ? 100 * waiting / all : 0);
}

/* What is more than expected, and what less. */
static void write_off(FILE *out, const char *term, double seconds) {
    char text[GP_REPORT_NUMBER];
    fprintf(out, "%s %s%s", term, seconds < 0 ? "-" : "+", gp_report_seconds(text, fabs(seconds)));
}

/* Less than that is no news. */
static const double noted_theft = 0.01;

static void write_offs(const gp_account_result *result, FILE *out) {
    write_off(out, " computing", result->off.computing);
    write_off(out, ", copying", result->off.copying);
    write_off(out, ", waiting", result->off.waiting);
    if (result->stolen >= noted_theft)
        fprintf(out, "; %.0f%% of the processors' time went to other machines", 100 * result->stolen);
}

void gp_account_line(const gp_account_result *result, FILE *out) {
    char planned[32], program[32], resident[32];
    fputs("account: a step took ", out);
    write_side(result, &result->measured, out);
    fprintf(out, "; expected (%s) ", source_of(result));
    write_side(result, &result->expected, out);
    fputs(", off by", out);
    write_offs(result, out);
    fprintf(out, "; memory planned %s (program and libraries %s), resident %s",
            gp_bytes_text(planned, result->host.planned + result->host.program),
            gp_bytes_text(program, result->host.program),
            result->resident_bytes ? gp_bytes_text(resident, result->resident_bytes) : "not known");
}

static void write_pair(FILE *out, double expected, double measured) {
    char text[GP_REPORT_NUMBER];
    gp_report_cell(out, gp_report_seconds(text, expected), 11, true);
    gp_report_cell(out, gp_report_seconds(text, measured), 11, true);
}

static void write_workers(const gp_account_result *result, FILE *out) {
    for (int w = 0; w < result->workers && w < MOST_WORKERS; w++) {
        const gp_account_share *expected = &result->expected.worker[w], *measured = &result->measured.worker[w];
        fprintf(out, "  %6d", w);
        write_pair(out, expected->busy, measured->busy);
        write_pair(out, expected->copying, measured->copying);
        write_pair(out, expected->waiting, measured->waiting);
        fputs("\n", out);
    }
    if (result->workers > MOST_WORKERS) fprintf(out, "  and %d more\n", result->workers - MOST_WORKERS);
}

void gp_account_table(const gp_account_result *result, FILE *out) {
    char steps[GP_REPORT_NUMBER], recorded[GP_REPORT_NUMBER], samples[GP_REPORT_NUMBER];
    fprintf(out, "\naccount of %s, %s instruction by instruction; expected (%s) and measured\n",
            gp_report_count(steps, result->steps, "step"), gp_report_number(recorded, result->recorded),
            source_of(result));
    fprintf(out, "  %6s%22s%22s%22s\n", "worker", "computing", "copying", "waiting");
    write_workers(result, out);
    fprintf(out, "  %6s", "step");
    write_pair(out, result->expected.seconds, result->measured.seconds);
    double off = result->measured.seconds > 0 ? result->expected.seconds / result->measured.seconds - 1 : 0;
    snprintf(samples, sizeof samples, "%+.0f%%", 100 * off);
    fprintf(out, "  expected %s of what was measured; bubble %.0f%% and %.0f%%\n", samples,
            100 * result->expected.bubble, 100 * result->measured.bubble);
    fprintf(out, "  longer than expected, of the steps recorded:");
    write_offs(result, out);
    fputs("\n\n", out);
}
