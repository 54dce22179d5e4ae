/* The report's table of the host's memory: a line for each kind, and the sum. */
#include "base/memory.h"
#include "report/plan_report_parts.h"

enum { LABEL = 58, SIZE = 12 };

/* "data, training: 3 mini-batches ahead, 1 in use" */
static void describe(const gp_host_memory *host, gp_host_kind kind, char *text, size_t size) {
    const gp_loader_memory *loader = kind == GP_HOST_TRAINING     ? &host->training
                                     : kind == GP_HOST_EVALUATION ? &host->evaluation
                                                                  : NULL;
    const char *name = gp_host_kind_name(kind);
    if (loader && loader->slots > loader->held)
        snprintf(text, size, "%s: %d mini-batch%s ahead, %d in use", name, loader->slots - loader->held,
                 loader->slots - loader->held == 1 ? "" : "es", loader->held);
    else if (loader)
        snprintf(text, size, "%s: %d mini-batch%s", name, loader->slots, loader->slots == 1 ? "" : "es");
    else if (kind == GP_HOST_THREADS)
        snprintf(text, size, "%s: %d", name, host->threads);
    else
        snprintf(text, size, "%s", name);
}

static void write_line(const gp_report *report, const char *label, const char *value) {
    fputs("  ", report->out);
    gp_report_cell(report->out, label, LABEL, false);
    gp_report_cell(report->out, value, SIZE, true);
    fputs("\n", report->out);
}

void gp_report_host(const gp_report *report) {
    const gp_host_memory *host = report->host;
    char label[128], bytes[32];
    fputs("\nhost memory of the run (without the program and its libraries)\n", report->out);
    for (int k = 0; k < GP_HOST_KINDS; k++) {
        if (host->bytes[k] == 0) continue;
        describe(host, (gp_host_kind)k, label, sizeof label);
        write_line(report, label, gp_report_bytes(host->bytes[k]).text);
    }
    write_line(report, "all of the run", gp_report_bytes(host->planned).text);
    snprintf(bytes, sizeof bytes, "%zu", host->planned);
    write_line(report, "  in bytes", bytes);
}
