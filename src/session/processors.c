#include "session/processors.h"

#include <inttypes.h>
#include <stdio.h>

void gp_processor_times_read(gp_processor_times *out) {
    uint64_t user, nice, system, idle, iowait, irq, softirq, steal;
    FILE *file = fopen("/proc/stat", "re");
    *out = (gp_processor_times){0};
    if (!file) return;
    int count =
        fscanf(file, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal);
    (void)fclose(file);
    if (count == 8) *out = (gp_processor_times){user + nice + system + irq + softirq, steal};
}

double gp_processor_times_stolen(const gp_processor_times *since) {
    gp_processor_times now;
    gp_processor_times_read(&now);
    if (since->worked == 0 || now.worked < since->worked || now.stolen < since->stolen) return 0;
    double stolen = (double)(now.stolen - since->stolen), worked = (double)(now.worked - since->worked);
    return stolen + worked > 0 ? stolen / (stolen + worked) : 0;
}
