/* The report's schedule: what each stage computes in each clock where that can be seen at a glance, and counts. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
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

/* What is computed: "F0", or "B3R2" where two things are. */
typedef struct timeline {
    int stages, clocks;
    char (*cells)[CELL]; /* [stage·clocks + clock] */
} timeline;

static void fill_timeline(timeline *t, const gp_programs *programs) {
    for (int w = 0; w < programs->workers; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            if (!gp_instr_computes(instr) || !gp_instr_has_micro(instr)) continue;
            char *cell = t->cells[instr->stage * t->clocks + (int)instr->clock];
            size_t used = strlen(cell);
            snprintf(cell + used, CELL - used, "%s%u", gp_instr_op_name(instr->op), instr->micro);
        }
}

static void write_timeline(const gp_report *report, const timeline *t) {
    int width = 3;
    for (int i = 0; i < t->stages * t->clocks; i++)
        if ((int)strlen(t->cells[i]) + 1 > width) width = (int)strlen(t->cells[i]) + 1;
    int per_block = (GP_REPORT_COLUMNS - LABEL) / width;
    for (int first = 0; first < t->clocks; first += per_block) {
        int end = first + per_block < t->clocks ? first + per_block : t->clocks;
        if (first > 0) fputs("\n", report->out);
        fprintf(report->out, "  %-*s", LABEL - 2, "clock");
        for (int k = first; k < end; k++) fprintf(report->out, "%-*d", k + 1 < end ? width : 1, k);
        for (int s = 0; s < t->stages; s++) {
            fprintf(report->out, "\n  stage %-*d", LABEL - 8, s);
            for (int k = first; k < end; k++) {
                const char *cell = t->cells[s * t->clocks + k];
                gp_report_cell(report->out, *cell ? cell : "·", k + 1 < end ? width : 0, false);
            }
        }
        fputs("\n", report->out);
    }
}

static gp_status report_timeline(const gp_report *report, int clocks, gp_error *err) {
    timeline t = {report->plan->stages->count, clocks, NULL};
    GP_RETURN_IF_FAILED(GP_NEW(&t.cells, (size_t)t.stages * (size_t)clocks, err));
    fill_timeline(&t, programs_of(report));
    write_timeline(report, &t);
    free(t.cells);
    return GP_OK;
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

gp_status gp_report_schedule(const gp_report *report, gp_error *err) {
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
        GP_RETURN_IF_FAILED(report_timeline(report, (int)clocks, err));
    }
    report_instructions(report);
    report_slots(report);
    return GP_OK;
}
