/* The report's table of processes: which workers each has, and what it takes of its host's memory. */
#include <stdlib.h>

#include "base/memory.h"
#include "plan/lines.h"
#include "report/plan_report_parts.h"
#include "report/workers_text.h"

enum { ALL_SHOWN = 16, WORKERS = 40, SIZE = 14 };

/* Bytes of each process's arenas. */
static gp_status add_arenas(const gp_plan *plan, size_t **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(out, gp_plan_processes(plan), err));
    for (int w = 0; w < plan->workers; w++) (*out)[gp_plan_process_of(plan, w)] += plan->arena[w];
    return GP_OK;
}

static int find_largest(const size_t *bytes, int count) {
    int largest = 0;
    for (int p = 1; p < count; p++)
        if (bytes[p] > bytes[largest]) largest = p;
    return largest;
}

static void write_row(const gp_report *report, int process, const size_t *arenas) {
    fprintf(report->out, "  %7d  ", process);
    gp_report_cell(report->out, gp_workers_text(report->plan, process).text, WORKERS, false);
    gp_report_cell(report->out, gp_report_bytes(arenas[process]).text, SIZE, true);
    if (report->memory) gp_report_cell(report->out, gp_report_bytes(report->memory[process]).text, SIZE, true);
    fputs("\n", report->out);
}

gp_status gp_report_processes(const gp_report *report, gp_error *err) {
    const gp_plan *plan = report->plan;
    int count = gp_plan_processes(plan), before = -1;
    size_t *arenas = NULL;
    if (count == 1) return GP_OK;
    GP_RETURN_IF_FAILED(add_arenas(plan, &arenas, err));
    int largest = find_largest(report->memory ? report->memory : arenas, count);
    fprintf(report->out, "\nprocesses\n  %7s  %-*s%*s%s\n", "process", WORKERS, "workers", SIZE, "arenas",
            report->memory ? "   host memory" : "");
    for (int p = 0; p < count; p++) {
        if (count > ALL_SHOWN && p > 1 && p < count - 1 && p != largest) continue;
        if (p > before + 1) fputs("        …\n", report->out);
        write_row(report, p, arenas);
        before = p;
    }
    free(arenas);
    const char *gpus = gp_plan_gpu_messages(plan);
    if (gpus) fprintf(report->out, "  messages of GPUs to and from other processes: over %s\n", gpus);
    return GP_OK;
}
