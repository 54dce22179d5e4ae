/* The report's table of links: what they take, and what a mini-batch sends over them. */
#include "plan/link_use.h"
#include "report/plan_report_parts.h"

static void write_given(const gp_report *report, gp_link_kind kind, const gp_link *link) {
    if (!link->given) {
        gp_report_cell(report->out, "as devices copy", 30, false);
        gp_report_cell(report->out, kind == GP_LINK_PROCESS ? "" : "not known", 11, false);
        return;
    }
    gp_report_format_cell(report->out, 30, "%s, %s%s", gp_report_seconds(link->latency).text,
                          gp_report_rate(link->bandwidth).text, link->shared ? ", shared" : "");
    gp_report_cell(report->out, link->measured ? "profile" : "by hand", 11, false);
}

/* "out of host 3: 1.5 MiB, 12 ms" */
static void write_busiest(const gp_report *report, gp_link_kind kind, const gp_link *link, const gp_link_use *use) {
    fprintf(report->out, "  %s %s %d: %s", use->enters ? "into" : "out of",
            kind == GP_LINK_NETWORK ? "host" : "process", use->busiest,
            gp_report_bytes((size_t)use->busiest_bytes).text);
    if (link->given) fprintf(report->out, ", %s", gp_report_seconds((double)use->busiest_bytes / link->bandwidth).text);
    fputs("\n", report->out);
}

gp_status gp_report_links(const gp_report *report, gp_error *err) {
    const gp_links *links = report->plan->links;
    gp_link_use use[GP_LINK_KINDS];
    if (!links) return GP_OK;
    GP_RETURN_IF_FAILED(gp_plan_link_use(report->plan, report->mini, use, err));
    fprintf(report->out, "\nlinks, of a mini-batch: %s in %d process%s on %s\n",
            gp_report_count(report->plan->workers, "worker").text, links->processes, links->processes == 1 ? "" : "es",
            gp_report_count(links->hosts, "host").text);
    fprintf(report->out, "  %-28s%-30s%-11s%12s%12s  %s\n", "link", "takes", "from", "copies", "in all", "the busiest");
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        if (use[k].copies == 0 && (!links->of[k].given || links->of[k].measured)) continue;
        fputs("  ", report->out);
        gp_report_cell(report->out, gp_link_kind_text((gp_link_kind)k), 28, false);
        write_given(report, (gp_link_kind)k, &links->of[k]);
        gp_report_cell(report->out, gp_report_number((int64_t)use[k].copies).text, 12, true);
        gp_report_cell(report->out, gp_report_bytes((size_t)use[k].bytes).text, 12, true);
        if (use[k].bytes > 0)
            write_busiest(report, (gp_link_kind)k, &links->of[k], &use[k]);
        else
            fputs("\n", report->out);
    }
    return GP_OK;
}
