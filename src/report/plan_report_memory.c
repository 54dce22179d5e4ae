/* The report's table of memory: a row for each kind, a column for each worker, and one for all of them. */
#include "plan/memory.h"
#include "report/plan_report_parts.h"

enum { LABEL = 19, COLUMN = 13, PER_BLOCK = (GP_REPORT_COLUMNS - LABEL) / COLUMN, ALL = -1 };

enum {
    NAME,
    KINDS,
    ARENA = KINDS + GP_MEMORY_KINDS,
    ARENA_BYTES,
    BESIDE,
    PINNED,
    ALLOWED,
    PEAK,
    PEAK_AT,
    PEAK_INDEX,
    PEAK_OF,
    ROWS
};
static const char *const labels[ROWS] = {[NAME] = "",
                                         [ARENA] = "arena",
                                         [ARENA_BYTES] = "  in bytes",
                                         [BESIDE] = "  libraries, est.",
                                         [PINNED] = "  pinned, est.",
                                         [ALLOWED] = "  allowed",
                                         [PEAK] = "most in use",
                                         [PEAK_AT] = "  at",
                                         [PEAK_INDEX] = "  instruction",
                                         [PEAK_OF] = "  of"};

typedef struct column {
    int worker; /* or ALL */
    gp_report_text cell[ROWS];
} column;

static gp_report_text size_text(size_t bytes) {
    return bytes ? gp_report_bytes(bytes) : (gp_report_text){"-"};
}

static void fill_sizes(const gp_plan *plan, column *its) {
    size_t kinds[GP_MEMORY_KINDS] = {0}, arena = 0, beside = 0, pinned = 0;
    for (int s = 0; s < plan->stages->count; s++)
        for (int k = 0; k < GP_MEMORY_KINDS; k++)
            if (its->worker == ALL || its->worker == plan->stage[s].worker) kinds[k] += plan->stage[s].memory[k];
    for (int w = 0; w < plan->workers; w++) {
        if (its->worker != ALL && its->worker != w) continue;
        arena += plan->arena[w];
        beside += plan->devices[w].kind->beside;
        pinned += gp_memory_pinned(plan, w);
    }
    for (int k = 0; k < GP_MEMORY_KINDS; k++) its->cell[KINDS + k] = size_text(kinds[k]);
    its->cell[ARENA] = size_text(arena);
    its->cell[BESIDE] = size_text(beside);
    its->cell[PINNED] = size_text(pinned);
    its->cell[ALLOWED] = size_text(its->worker == ALL ? 0 : plan->devices[its->worker].memory);
    snprintf(its->cell[ARENA_BYTES].text, sizeof its->cell->text, "%zu", arena);
}

/* The worker is the column's; the stage says something where a worker has several. */
static void fill_instr(const gp_plan *plan, const gp_instr *instr, gp_report_text *cell) {
    const char *name = gp_instr_op_name(instr->op);
    if (!gp_instr_has_micro(instr))
        snprintf(cell->text, sizeof cell->text, "%s", name);
    else if (plan->workers == plan->stages->count)
        snprintf(cell->text, sizeof cell->text, "%s m%u", name, instr->micro);
    else
        snprintf(cell->text, sizeof cell->text, "%s s%u m%u", name, instr->stage, instr->micro);
}

static gp_status fill_peak(const gp_plan *plan, column *its, gp_error *err) {
    gp_memory_peak peak;
    for (int row = PEAK; row < ROWS; row++) its->cell[row] = (gp_report_text){"-"};
    if (its->worker == ALL) return GP_OK;
    GP_RETURN_IF_FAILED(gp_memory_find_peak(plan, its->worker, &peak, err));
    const gp_mini_plan *mini = &plan->minis[peak.mini];
    its->cell[PEAK] = size_text(peak.bytes);
    fill_instr(plan, &mini->programs->worker[its->worker].instrs[peak.pc], &its->cell[PEAK_AT]);
    snprintf(its->cell[PEAK_INDEX].text, sizeof its->cell->text, "%zu", peak.pc);
    snprintf(its->cell[PEAK_OF].text, sizeof its->cell->text, "%s %.50s", mini->training ? "train" : "eval",
             gp_report_number(mini->samples).text);
    return GP_OK;
}

static gp_status add_column(const gp_report *report, int worker, column *columns, int *count, gp_error *err) {
    column *its = &columns[(*count)++];
    *its = (column){.worker = worker, .cell[NAME] = {"all"}};
    if (worker != ALL) snprintf(its->cell[NAME].text, sizeof its->cell->text, "worker %d", worker);
    fill_sizes(report->plan, its);
    return fill_peak(report->plan, its, err);
}

/* One column for each worker that has a listed stage, then that of all. */
static gp_status gather(const gp_report *report, column *columns, int *count, gp_error *err) {
    const gp_plan *plan = report->plan;
    for (int i = 0; i < report->shown_count; i++) {
        int worker = plan->stage[report->shown[i]].worker, c = 0;
        while (c < *count && columns[c].worker != worker) c++;
        if (c == *count) GP_RETURN_IF_FAILED(add_column(report, worker, columns, count, err));
    }
    return plan->workers > 1 ? add_column(report, ALL, columns, count, err) : GP_OK;
}

static bool is_row_shown(const gp_plan *plan, int row) {
    bool beside = false, limited = false;
    for (int w = 0; w < plan->workers; w++) {
        beside = beside || plan->devices[w].kind->beside || plan->devices[w].kind->pinned;
        limited = limited || plan->devices[w].memory;
    }
    return row == BESIDE || row == PINNED ? beside : row != ALLOWED || limited;
}

static void write_row(const gp_report *report, int row, const column *columns, int count) {
    const char *label = labels[row] ? labels[row] : gp_memory_kind_name((gp_memory_kind)(row - KINDS));
    if (!is_row_shown(report->plan, row)) return;
    fputs("  ", report->out);
    gp_report_cell(report->out, label, LABEL - 2, false);
    for (int c = 0; c < count; c++) {
        fputs(" ", report->out);
        gp_report_cell(report->out, columns[c].cell[row].text, COLUMN - 1, true);
    }
    fputs("\n", report->out);
}

static void write_columns(const gp_report *report, const column *columns, int count) {
    for (int first = 0; first < count; first += PER_BLOCK) {
        int here = count - first < PER_BLOCK ? count - first : PER_BLOCK;
        if (first > 0) fputs("\n", report->out);
        for (int row = 0; row < ROWS; row++) write_row(report, row, columns + first, here);
    }
}

gp_status gp_report_memory(const gp_report *report, gp_error *err) {
    const gp_plan *plan = report->plan;
    column columns[GP_REPORT_ALL_STAGES + 1];
    int count = 0;
    size_t working = 0;
    GP_RETURN_IF_FAILED(gather(report, columns, &count, err));
    fputs("\nmemory (one arena per worker, reserved once)\n", report->out);
    write_columns(report, columns, count);
    for (int s = 0; s < plan->stages->count; s++) working += plan->stage[s].memory[GP_MEMORY_WORKING];
    if (working > 0) /* the one kind that no name explains */
        fputs("  (working copies: parameters again, in the formats of their backward passes)\n", report->out);
    if (plan->stage[0].consumes)
        fputs("  (gradients: used by the backward pass as each is complete, within the transients)\n", report->out);
    return GP_OK;
}
