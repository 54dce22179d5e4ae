/* The report at the end of a run, for people. */
#include "report/account.h"

#include <inttypes.h>
#include <math.h>

#include "base/memory.h"
#include "report/plan_report_parts.h"

enum {
    MOST_WORKERS = 32, /* that the table has */
    LABEL = 20,
    COLUMN = 12,
    PER_WORKER = 11, /* columns of a cell in the table */
};

/* A CPU steal below that is not reported. */
static const double noted_steal = 0.01;

/* How all times of the report are rounded: to whole multiples of one power of ten, so that terms add up as printed. */
typedef struct rounding {
    const char *unit;
    double scale; /* seconds to multiples */
    int decimals; /* of the unit, that a multiple has */
} rounding;

/* At least four significant digits for the longest time. */
static rounding choose_rounding(double longest) {
    static const char *const units[] = {"s", "ms", "µs"};
    rounding its = {.unit = units[0], .scale = 1, .decimals = 3};
    for (int u = 1; u < 3 && longest * its.scale < 1; u++) {
        its.unit = units[u];
        its.scale *= 1000;
    }
    double limit = 10;
    while (its.decimals > 1 && longest * its.scale >= limit) {
        its.decimals--;
        limit *= 10;
    }
    for (int i = 0; i < its.decimals; i++) its.scale *= 10;
    return its;
}

static gp_report_text time_text(const rounding *its, int64_t multiples, bool sign) {
    double value = (double)multiples * pow(10, -its->decimals);
    gp_report_text cell;
    snprintf(cell.text, sizeof cell.text, sign ? "%+.*f %s" : "%.*f %s", its->decimals, value, its->unit);
    return cell;
}

static gp_report_text share_text(double share) {
    gp_report_text cell;
    snprintf(cell.text, sizeof cell.text, "%.0f%%", 100 * share);
    return cell;
}

static void write_row(FILE *out, const char *label, const char *predicted, const char *measured, const char *off) {
    gp_report_cell(out, label, LABEL, false);
    gp_report_cell(out, predicted, COLUMN, true);
    gp_report_cell(out, measured, COLUMN, true);
    if (*off) gp_report_cell(out, off, COLUMN, true);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* Shares of all workers' time in a step. */
static gp_account_share shares_of(const gp_account_side *side, int workers) {
    gp_account_share sum = {0};
    double all = side->seconds > 0 ? side->seconds * workers : 1;
    for (int w = 0; w < workers; w++) {
        sum.busy += side->worker[w].busy / all;
        sum.copying += side->worker[w].copying / all;
        sum.waiting += side->worker[w].waiting / all;
    }
    return sum;
}

static void write_share(FILE *out, const char *label, double predicted, double measured, const char *off) {
    write_row(out, label, share_text(predicted).text, share_text(measured).text, off);
    fputs("\n", out);
}

static void compare(const gp_account_result *result, FILE *out) {
    double measured = result->measured.seconds;
    double percent = measured > 0 ? 100 * (result->expected.seconds / measured - 1) : 0;
    if (fabs(percent) < 0.5)
        fputs("  the prediction is within 1% of the measured time\n", out);
    else
        fprintf(out, "  the prediction is %.0f%% %s the measured time\n", fabs(percent),
                percent < 0 ? "below" : "above");
}

/* Terms are rounded one by one; waiting takes up their rounding errors. */
static void write_step(const gp_account_result *result, FILE *out) {
    double longest = fmax(result->expected.seconds, result->measured.seconds);
    const rounding its = choose_rounding(longest);
    gp_account_share predicted = shares_of(&result->expected, result->workers);
    gp_account_share measured = shares_of(&result->measured, result->workers);
    int64_t before = llround(result->expected.seconds * its.scale),
            after = llround(result->measured.seconds * its.scale);
    int64_t computing = llround(result->off.computing * its.scale), copying = llround(result->off.copying * its.scale);
    write_row(out, "  step", time_text(&its, before, false).text, time_text(&its, after, false).text,
              time_text(&its, after - before, true).text);
    compare(result, out);
    write_share(out, "    computing", predicted.busy, measured.busy, time_text(&its, computing, true).text);
    write_share(out, "    copying", predicted.copying, measured.copying, time_text(&its, copying, true).text);
    write_share(out, "    waiting", predicted.waiting, measured.waiting,
                time_text(&its, after - before - computing - copying, true).text);
    write_share(out, "    bubble", result->expected.bubble, result->measured.bubble, "");
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static void write_data(const gp_account_result *result, FILE *out) {
    double each = result->all_steps > 0 ? result->data_seconds / (double)result->all_steps : 0;
    write_row(out, "  waiting for data", "-", gp_report_seconds(each).text, "");
    fprintf(out, "  before each step, %.0f%% of training; mean of %s\n", 100 * gp_account_data_share(result),
            gp_report_count(result->all_steps, "step").text);
}

static void write_memory(const gp_account_result *result, FILE *out) {
    write_row(out, "  host memory", gp_report_bytes(result->host.planned + result->host.program).text,
              result->resident_bytes ? gp_report_bytes(result->resident_bytes).text : "not known", "");
    fprintf(out, "  the program and its libraries take %s\n", gp_report_bytes(result->host.program).text);
}

void gp_account_report(const gp_account_result *result, FILE *out) {
    fprintf(out, "report: mean of %s; predicted from %s\n", gp_report_count(result->recorded, "recorded step").text,
            result->profiled ? "a profile" : "counted costs");
    write_row(out, "", "predicted", "measured", "difference");
    fputs("\n", out);
    write_step(result, out);
    write_data(result, out);
    write_memory(result, out);
    if (result->stolen < noted_steal) return;
    write_row(out, "  CPU steal", "-", share_text(result->stolen).text, "");
    fputs("  time that the hypervisor gave to other machines\n", out);
}

/* ---- worker by worker -------------------------------------------------------------------------------------------- */

static void write_pair(FILE *out, double predicted, double measured) {
    gp_report_cell(out, gp_report_seconds(predicted).text, PER_WORKER, true);
    gp_report_cell(out, gp_report_seconds(measured).text, PER_WORKER, true);
}

static void write_workers(const gp_account_result *result, FILE *out) {
    for (int w = 0; w < result->workers && w < MOST_WORKERS; w++) {
        const gp_account_share *predicted = &result->expected.worker[w], *measured = &result->measured.worker[w];
        fprintf(out, "  %6d", w);
        write_pair(out, predicted->busy, measured->busy);
        write_pair(out, predicted->copying, measured->copying);
        write_pair(out, predicted->waiting, measured->waiting);
        fputs("\n", out);
    }
    if (result->workers > MOST_WORKERS) fprintf(out, "  and %d more\n", result->workers - MOST_WORKERS);
}

void gp_account_table(const gp_account_result *result, FILE *out) {
    fprintf(out, "\nworkers in a step, mean of the recorded steps\n  %6s%22s%22s%22s\n  %6s", "worker", "computing",
            "copying", "waiting", "");
    for (int i = 0; i < 3; i++) fprintf(out, "%*s%*s", PER_WORKER, "predicted", PER_WORKER, "measured");
    fputs("\n", out);
    write_workers(result, out);
    fprintf(out, "  median of all %s of this size, without the first: %s\n\n",
            gp_report_count(result->steps, "step").text, gp_report_seconds(result->median).text);
}
