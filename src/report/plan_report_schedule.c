/* The report's schedule: what each stage computes in each clock where that can be seen at a glance, and counts. */
#include <string.h>

#include "report/plan_report_parts.h"

enum { MOST_STAGES = 8, MOST_CLOCKS = 40, LABEL = 10, CELL = 24 };

static const gp_programs *programs_of(const gp_report *report) {
    return report->plan->minis[report->mini].programs;
}

static int64_t count_clocks(const gp_programs *programs) {
    uint32_t last = 0;
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++)
            if (programs->worker[w].instrs[pc].clock > last) last = programs->worker[w].instrs[pc].clock;
    return (int64_t)last + 1;
}

/* What a stage computes in a clock: "F0", or "B3R2" if it computes two things. */
static gp_report_text cell_of(const gp_programs *programs, int stage, int clock) {
    const gp_program *program = &programs->worker[gp_programs_worker(programs, stage)];
    gp_report_text cell = {""};
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (instr->stage != stage || instr->clock != (uint32_t)clock) continue;
        if (!gp_instr_computes(instr) || !gp_instr_has_micro(instr)) continue;
        size_t used = strlen(cell.text);
        snprintf(cell.text + used, CELL - used, "%s%u", gp_instr_op_name(instr->op), instr->micro);
    }
    return cell;
}

static void report_timeline(const gp_report *report, int clocks) {
    const gp_programs *programs = programs_of(report);
    int stages = report->plan->stages->count, width = 3;
    for (int i = 0; i < stages * clocks; i++) {
        int needed = (int)strlen(cell_of(programs, i / clocks, i % clocks).text) + 1;
        if (needed > width) width = needed;
    }
    int per_block = (GP_REPORT_COLUMNS - LABEL) / width;
    for (int first = 0; first < clocks; first += per_block) {
        int end = first + per_block < clocks ? first + per_block : clocks;
        if (first > 0) fputs("\n", report->out);
        fprintf(report->out, "  %-*s", LABEL - 2, "clock");
        for (int k = first; k < end; k++) fprintf(report->out, "%-*d", k + 1 < end ? width : 1, k);
        for (int s = 0; s < stages; s++) {
            fprintf(report->out, "\n  stage %-*d", LABEL - 8, s);
            for (int k = first; k < end; k++) {
                const gp_report_text cell = cell_of(programs, s, k);
                gp_report_cell(report->out, *cell.text ? cell.text : "·", k + 1 < end ? width : 0, false);
            }
        }
        fputs("\n", report->out);
    }
}

static void report_instructions(const gp_report *report) {
    const gp_programs *programs = programs_of(report);
    int64_t of[GP_INSTR_OPS] = {0}, all = 0, most = 0, least = INT64_MAX;
    for (int w = 0; w < programs->workers; w++) {
        int64_t count = (int64_t)programs->worker[w].count;
        for (int64_t pc = 0; pc < count; pc++) of[programs->worker[w].instrs[pc].op]++;
        all += count;
        if (count > most) most = count;
        if (count < least) least = count;
    }
    fprintf(report->out, "  %s; %s", gp_report_count(all, "instruction").text, gp_report_number(least).text);
    if (most > least) fprintf(report->out, " to %s", gp_report_number(most).text);
    fputs(" on each worker\n   ", report->out);
    for (int op = 0; op < GP_INSTR_OPS; op++)
        if (of[op]) fprintf(report->out, " %s %s", gp_instr_op_name(op), gp_report_number(of[op]).text);
    fputs("\n", report->out);
}

static void report_slots(const gp_report *report) {
    const gp_plan *plan = report->plan;
    fputs("  slots of a stage, at most:", report->out);
    for (int f = 0; f < GP_FRAMES; f++) {
        int most = 0;
        for (int s = 0; s < plan->stages->count; s++)
            if (plan->stage[s].slots[f] > most) most = plan->stage[s].slots[f];
        fprintf(report->out, " %s %d", gp_frame_name((gp_frame)f), most);
    }
    fputs("\n", report->out);
}

static bool is_split(const gp_programs *programs) {
    for (size_t pc = 0; pc < programs->worker[0].count; pc++)
        if (programs->worker[0].instrs[pc].op == GP_INSTR_BACKWARD_INPUT) return true;
    return false;
}

void gp_report_schedule(const gp_report *report) {
    const gp_mini_plan *mini = &report->plan->minis[report->mini];
    int64_t clocks = count_clocks(mini->programs);
    fprintf(report->out, "\nschedule of a mini-batch: %d micro-batch%s in %s\n", mini->pieces,
            mini->pieces == 1 ? "" : "es", gp_report_count(clocks, "clock").text);
    if (report->plan->stages->count <= MOST_STAGES && clocks <= MOST_CLOCKS) {
        fputs(!mini->training ? "  F forward of a micro-batch\n"
              : is_split(mini->programs)
                  ? "  F forward, R recompute, B backward of a micro-batch; I for inputs, W for weights\n"
                  : "  F forward, R recompute, B backward of a micro-batch\n",
              report->out);
        report_timeline(report, (int)clocks);
    }
    report_instructions(report);
    report_slots(report);
}
