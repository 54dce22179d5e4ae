#include "profile/load.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "trace/recorder.h"

static const double displaced = 0.15;

/* "cpu3 user nice system idle iowait irq softirq steal …", in ticks; false for other lines. */
static bool read_line(const char *line, int *processor, uint64_t *ticks) {
    uint64_t user, nice, system, irq, softirq, steal;
    int count = sscanf(line, "cpu%d %" SCNu64 " %" SCNu64 " %" SCNu64 " %*u %*u %" SCNu64 " %" SCNu64 " %" SCNu64,
                       processor, &user, &nice, &system, &irq, &softirq, &steal);
    if (count != 7) return false;
    *ticks = user + nice + system + irq + softirq + steal;
    return true;
}

static double read_busy(void) {
    cpu_set_t set;
    char line[512];
    uint64_t sum = 0;
    int found = 0;
    FILE *file = fopen("/proc/stat", "re");
    bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    while (file && known && fgets(line, sizeof line, file)) {
        int processor;
        uint64_t ticks;
        if (!read_line(line, &processor, &ticks) || processor < 0 || processor >= CPU_SETSIZE ||
            !CPU_ISSET((size_t)processor, &set))
            continue;
        sum += ticks;
        found++;
    }
    if (file) (void)fclose(file);
    return found > 0 ? (double)sum / (double)sysconf(_SC_CLK_TCK) : -1;
}

static double read_own(void) {
    struct timespec own;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) != 0) return 0;
    return (double)own.tv_sec + 1e-9 * (double)own.tv_nsec;
}

void gp_load_begin(gp_load *out) {
    *out = (gp_load){read_busy(), read_own(), gp_clock()};
}

double gp_load_others(const gp_load *since) {
    gp_load now;
    gp_load_begin(&now);
    double seconds = 1e-9 * (double)(now.at - since->at);
    if (since->busy < 0 || now.busy < since->busy || !(seconds > 0)) return -1;
    double others = (now.busy - since->busy - (now.own - since->own)) / seconds;
    return others > 0 ? others : 0;
}

double gp_load_now(void) {
    const struct timespec quarter = {.tv_nsec = 250000000};
    gp_load since;
    gp_load_begin(&since);
    nanosleep(&quarter, NULL);
    return gp_load_others(&since);
}

bool gp_load_is_high(double others, int needed, int processors) {
    if (needed > processors) needed = processors;
    return needed + others > processors + displaced * needed;
}
