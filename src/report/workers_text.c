#include "report/workers_text.h"

#include <stdio.h>

enum { ROOM = 48, RANGE = 32 };

/* The last of the workers from this one on that are the process's without a gap. */
static int run_end(const gp_plan *plan, int process, int worker) {
    while (worker + 1 < plan->workers && gp_plan_process_of(plan, worker + 1) == process) worker++;
    return worker;
}

int gp_workers_count(const gp_plan *plan, int process) {
    int count = 0;
    for (int w = 0; w < plan->workers; w++) count += gp_plan_process_of(plan, w) == process;
    return count;
}

gp_report_text gp_workers_text(const gp_plan *plan, int process) {
    gp_report_text its = {"none"};
    size_t used = 0;
    for (int w = 0; w < plan->workers; w++) {
        if (gp_plan_process_of(plan, w) != process) continue;
        int last = run_end(plan, process, w);
        char range[RANGE] = "";
        if (last > w) snprintf(range, sizeof range, "%s%d", last == w + 1 ? ", " : " … ", last);
        if (used > ROOM - RANGE) {
            snprintf(its.text + used, sizeof its.text - used, ", …");
            break;
        }
        used += (size_t)snprintf(its.text + used, sizeof its.text - used, "%s%d%s", used ? ", " : "", w, range);
        w = last;
    }
    return its;
}
