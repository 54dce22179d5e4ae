#include "base/machine_processors.h"

#include <stdint.h>
#include <stdio.h>

#include "base/cgroup.h"

enum { SPIN = 2000 }; /* microseconds: docs/cpu-threads.md */

int gp_machine_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Whole processors of a quota: microseconds in each period of so many microseconds. */
static size_t processors_of(uint64_t quota, uint64_t period) {
    return period > 0 ? (size_t)(quota / period) : SIZE_MAX;
}

static size_t quota_of_v1(const char *folder) {
    uint64_t quota, period;
    bool both = gp_cgroup_number(folder, "cpu.cfs_quota_us", 0, &quota) &&
                gp_cgroup_number(folder, "cpu.cfs_period_us", 0, &period);
    return both ? processors_of(quota, period) : SIZE_MAX;
}

static size_t quota_of_v2(const char *folder) {
    uint64_t quota, period;
    bool both = gp_cgroup_number(folder, "cpu.max", 0, &quota) && gp_cgroup_number(folder, "cpu.max", 1, &period);
    return both ? processors_of(quota, period) : SIZE_MAX;
}

/* The first processor of a core: its list of siblings begins with it ("2,66" or "2-3"). Without the file: its own. */
static int first_of_core(const char *root, int processor) {
    char path[512];
    int first = processor;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root, processor);
    FILE *file = fopen(path, "re");
    if (!file) return first;
    if (fscanf(file, "%d", &first) != 1) first = processor;
    (void)fclose(file);
    return first;
}

/* The allowed processors in the order in which they are given out. */
static int put_in_order(const char *root, const cpu_set_t *allowed, int order[CPU_SETSIZE]) {
    int count = 0;
    cpu_set_t cores, later;
    CPU_ZERO(&cores);
    CPU_ZERO(&later);
    for (int p = 0; p < CPU_SETSIZE; p++) {
        if (!CPU_ISSET((size_t)p, allowed)) continue;
        int core = first_of_core(root, p);
        bool taken = core < 0 || core >= CPU_SETSIZE || CPU_ISSET((size_t)core, &cores);
        if (taken)
            CPU_SET((size_t)p, &later);
        else {
            CPU_SET((size_t)core, &cores);
            order[count++] = p;
        }
    }
    for (int p = 0; p < CPU_SETSIZE; p++)
        if (CPU_ISSET((size_t)p, &later)) order[count++] = p;
    return count;
}

/* No more than the quota. */
static int at_most_quota(const char *root, int processors) {
    size_t quota = gp_cgroup_least(root, "cpu", quota_of_v1, quota_of_v2);
    return quota < (size_t)processors ? (int)quota : processors;
}

bool gp_processors_divide(const char *root, const cpu_set_t *allowed, const int *threads, int count, cpu_set_t *share) {
    int order[CPU_SETSIZE], next = 0;
    int there = at_most_quota(root, put_in_order(root, allowed, order));
    for (int i = 0; i < count; i++) {
        CPU_ZERO(&share[i]);
        if (threads[i] > there - next) return false;
        for (int t = 0; t < threads[i]; t++) CPU_SET((size_t)order[next++], &share[i]);
    }
    return true;
}

uint32_t gp_processors_spin(const char *root, const cpu_set_t *allowed, int threads) {
    return threads <= at_most_quota(root, CPU_COUNT(allowed)) ? SPIN : 0;
}

uint32_t gp_machine_spin(int threads) {
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? gp_processors_spin("", &allowed, threads) : 0;
}
