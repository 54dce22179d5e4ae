/* The report's table of the host's memory: a line for each kind, and the sum. */
#include "base/memory.h"
#include "report/plan_report_parts.h"

enum { LABEL = 58, SIZE = 12 };

/* "data, training: 3 mini-batches ahead, 1 in use" */
static void write_label(const gp_report *report, gp_host_kind kind) {
    const gp_host_memory *host = report->host;
    const gp_loader_memory *loader = kind == GP_HOST_TRAINING     ? &host->training
                                     : kind == GP_HOST_EVALUATION ? &host->evaluation
                                                                  : NULL;
    const char *name = gp_host_kind_name(kind);
    if (loader && loader->slots > loader->held)
        gp_report_format_cell(report->out, LABEL, "%s: %d mini-batch%s ahead, %d in use", name,
                              loader->slots - loader->held, loader->slots - loader->held == 1 ? "" : "es",
                              loader->held);
    else if (loader)
        gp_report_format_cell(report->out, LABEL, "%s: %d mini-batch%s", name, loader->slots,
                              loader->slots == 1 ? "" : "es");
    else if (kind == GP_HOST_THREADS)
        gp_report_format_cell(report->out, LABEL, "%s: %d", name, host->threads);
    else
        gp_report_cell(report->out, name, LABEL, false);
}

void gp_report_host(const gp_report *report) {
    const gp_host_memory *host = report->host;
    bool alone = report->plan->processes == 1;
    fprintf(report->out, "\nhost memory of %s (without the program and its libraries)\n",
            alone ? "the run" : "process 0");
    for (int k = 0; k < GP_HOST_KINDS; k++) {
        if (host->bytes[k] == 0) continue;
        fputs("  ", report->out);
        write_label(report, (gp_host_kind)k);
        fprintf(report->out, "%*s\n", SIZE, gp_report_bytes(host->bytes[k]).text);
    }
    fprintf(report->out, "  %-*s%*s\n", LABEL, alone ? "all of the run" : "all of the process", SIZE,
            gp_report_bytes(host->planned).text);
    fprintf(report->out, "  %-*s%*zu\n", LABEL, "  in bytes", SIZE, host->planned);
    if (host->snapshot > 0)
        fprintf(report->out, "  %-*s%*s\n", LABEL, "copy of the run's state for snapshots, if there is room", SIZE,
                gp_report_bytes(host->snapshot).text);
}
