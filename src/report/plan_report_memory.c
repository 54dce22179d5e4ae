/* The report's table of memory: a row for each kind, a column for each worker. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/memory.h"
#include "report/plan_report_parts.h"

enum { LABEL = 19, COLUMN = 13, PER_BLOCK = (GP_REPORT_COLUMNS - LABEL) / COLUMN };

/* A worker's column, or the sum of all. */
typedef struct column {
    int worker; /* −1: all */
    size_t kinds[GP_MEMORY_KINDS];
    size_t arena;
    gp_memory_peak peak;
} column;

static void add_stage(column *to, const gp_stage_plan *stage) {
    for (int k = 0; k < GP_MEMORY_KINDS; k++) to->kinds[k] += stage->memory[k];
}

/* Fills one column for each worker that has a listed stage, then that of all; *count of them. */
static gp_status gather(const gp_report *report, column *columns, int *count, gp_error *err) {
    const gp_plan *plan = report->plan;
    *count = 0;
    for (int i = 0; i < report->shown_count; i++) {
        int worker = plan->stage[report->shown[i]].worker, c = 0;
        while (c < *count && columns[c].worker != worker) c++;
        if (c == *count) columns[(*count)++].worker = worker;
    }
    column *all = &columns[*count];
    all->worker = -1;
    for (int s = 0; s < plan->stages->count; s++) add_stage(all, &plan->stage[s]);
    for (int w = 0; w < plan->workers; w++) all->arena += plan->arena[w];
    for (int c = 0; c < *count; c++) {
        for (int s = 0; s < plan->stages->count; s++)
            if (plan->stage[s].worker == columns[c].worker) add_stage(&columns[c], &plan->stage[s]);
        columns[c].arena = plan->arena[columns[c].worker];
        GP_RETURN_IF_FAILED(gp_memory_find_peak(plan, columns[c].worker, &columns[c].peak, err));
    }
    *count += plan->workers > 1;
    return GP_OK;
}

/* Writes a cell's text; the buffer is large enough for an instruction's. */
typedef void (*cell_writer)(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]);

static void write_name(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)plan;
    (void)kind;
    if (its->worker < 0)
        strcpy(text, "all");
    else
        snprintf(text, GP_INSTR_TEXT, "worker %d", its->worker);
}

static void write_size(size_t bytes, char text[GP_INSTR_TEXT]) {
    char human[32];
    snprintf(text, GP_INSTR_TEXT, "%s", bytes ? gp_bytes_text(human, bytes) : "-");
}

static void write_kind(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)plan;
    write_size(its->kinds[kind], text);
}

static void write_arena(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)plan;
    (void)kind;
    write_size(its->arena, text);
}

static void write_bytes(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)plan;
    (void)kind;
    snprintf(text, GP_INSTR_TEXT, "%zu", its->arena);
}

static void write_allowed(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)kind;
    write_size(its->worker < 0 ? 0 : plan->devices[its->worker].memory, text);
}

static void write_beside(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    size_t bytes = its->worker < 0 ? 0 : plan->devices[its->worker].kind->beside;
    (void)kind;
    for (int w = 0; w < plan->workers && its->worker < 0; w++) bytes += plan->devices[w].kind->beside;
    write_size(bytes, text);
}

static void write_pinned(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    size_t bytes = its->worker < 0 ? 0 : gp_memory_pinned(plan, its->worker);
    (void)kind;
    for (int w = 0; w < plan->workers && its->worker < 0; w++) bytes += gp_memory_pinned(plan, w);
    write_size(bytes, text);
}

static void write_peak(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)plan;
    (void)kind;
    write_size(its->peak.bytes, text);
}

static const gp_instr *peak_instr(const gp_plan *plan, const column *its) {
    return &plan->minis[its->peak.mini].programs->worker[its->worker].instrs[its->peak.pc];
}

/* The worker is the column's; the stage says something where a worker has several. */
static void write_instr(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)kind;
    strcpy(text, "-");
    if (its->worker < 0) return;
    const gp_instr *instr = peak_instr(plan, its);
    if (!gp_instr_has_micro(instr))
        snprintf(text, GP_INSTR_TEXT, "%s", gp_instr_op_name(instr->op));
    else if (plan->workers == plan->stages->count)
        snprintf(text, GP_INSTR_TEXT, "%s m%u", gp_instr_op_name(instr->op), instr->micro);
    else
        snprintf(text, GP_INSTR_TEXT, "%s s%u m%u", gp_instr_op_name(instr->op), instr->stage, instr->micro);
}

static void write_index(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)plan;
    (void)kind;
    strcpy(text, "-");
    if (its->worker >= 0) snprintf(text, GP_INSTR_TEXT, "%zu", its->peak.pc);
}

static void write_mini(const gp_plan *plan, const column *its, int kind, char text[GP_INSTR_TEXT]) {
    (void)kind;
    char samples[GP_REPORT_NUMBER];
    const gp_mini_plan *mini = &plan->minis[its->peak.mini];
    strcpy(text, "-");
    if (its->worker < 0) return;
    snprintf(text, GP_INSTR_TEXT, "%s %s", mini->training ? "train" : "eval", gp_report_number(samples, mini->samples));
}

static void write_row(const gp_report *report, const char *label, const column *columns, int count, cell_writer write,
                      int kind) {
    char text[GP_INSTR_TEXT];
    fputs("  ", report->out);
    gp_report_cell(report->out, label, LABEL - 2, false);
    for (int c = 0; c < count; c++) {
        write(report->plan, &columns[c], kind, text);
        fputs(" ", report->out);
        gp_report_cell(report->out, text, COLUMN - 1, true);
    }
    fputs("\n", report->out);
}

static bool is_limited(const gp_plan *plan) {
    for (int w = 0; w < plan->workers; w++)
        if (plan->devices[w].memory) return true;
    return false;
}

/* Some device takes memory beside its arena. */
static bool is_beside(const gp_plan *plan) {
    for (int w = 0; w < plan->workers; w++)
        if (plan->devices[w].kind->beside || plan->devices[w].kind->pinned) return true;
    return false;
}

static void write_block(const gp_report *report, const column *columns, int count) {
    write_row(report, "", columns, count, write_name, 0);
    for (int k = 0; k < GP_MEMORY_KINDS; k++)
        write_row(report, gp_memory_kind_name((gp_memory_kind)k), columns, count, write_kind, k);
    write_row(report, "arena", columns, count, write_arena, 0);
    write_row(report, "  in bytes", columns, count, write_bytes, 0);
    if (is_beside(report->plan)) {
        write_row(report, "  libraries, est.", columns, count, write_beside, 0);
        write_row(report, "  pinned, est.", columns, count, write_pinned, 0);
    }
    if (is_limited(report->plan)) write_row(report, "  allowed", columns, count, write_allowed, 0);
    write_row(report, "most in use", columns, count, write_peak, 0);
    write_row(report, "  at", columns, count, write_instr, 0);
    write_row(report, "  instruction", columns, count, write_index, 0);
    write_row(report, "  of", columns, count, write_mini, 0);
}

/* The one kind that no name explains. */
static void explain_working_copies(const gp_report *report) {
    for (int s = 0; s < report->plan->stages->count; s++) {
        if (report->plan->stage[s].memory[GP_MEMORY_WORKING] == 0) continue;
        fputs("  (working copies: parameters again, in the formats of their backward passes)\n", report->out);
        return;
    }
}

gp_status gp_report_memory(const gp_report *report, gp_error *err) {
    column *columns = NULL;
    int count = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&columns, report->shown_count + 1, err));
    gp_status status = gather(report, columns, &count, err);
    if (status == GP_OK) fputs("\nmemory (one arena per worker, reserved once)\n", report->out);
    for (int first = 0; first < count && status == GP_OK; first += PER_BLOCK) {
        if (first > 0) fputs("\n", report->out);
        write_block(report, columns + first, count - first < PER_BLOCK ? count - first : PER_BLOCK);
    }
    if (status == GP_OK) explain_working_copies(report);
    free(columns);
    return status;
}
