#include "base/machine_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/memory.h"

/* The file `name` below `root`, open to be read; NULL: there is none. */
static FILE *open_below(const char *root, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s", root, name);
    return length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
}

/* The number after a label; SIZE_MAX: none ("unlimited" is none either). */
static size_t read_labelled(const char *root, const char *name, const char *label, size_t unit) {
    char line[256];
    size_t found = SIZE_MAX, length = strlen(label);
    FILE *file = open_below(root, name);
    if (!file) return found;
    while (found == SIZE_MAX && fgets(line, sizeof line, file)) {
        uint64_t number;
        if (strncmp(line, label, length) == 0 && sscanf(line + length, " %" SCNu64, &number) == 1)
            found = gp_size_times(number, unit);
    }
    (void)fclose(file);
    return found;
}

static void read_taken(const char *root, gp_machine_memory *out) {
    uint64_t size = 0, resident = 0;
    long page = sysconf(_SC_PAGESIZE);
    FILE *file = open_below(root, "/proc/self/statm");
    if (!file) return;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &size, &resident) != 2) size = resident = 0;
    (void)fclose(file);
    out->taken[GP_LIMIT_PHYSICAL] = out->taken[GP_LIMIT_CGROUP] = gp_size_times(resident, (size_t)page);
    out->taken[GP_LIMIT_ADDRESS_SPACE] = gp_size_times(size, (size_t)page);
}

static size_t number_or_none(const char *folder, const char *name) {
    uint64_t number;
    return gp_cgroup_number(folder, name, 0, &number) ? (size_t)number : SIZE_MAX;
}

static size_t limit_of_v1(const char *folder) {
    return number_or_none(folder, "memory.limit_in_bytes");
}

static size_t limit_of_v2(const char *folder) {
    return number_or_none(folder, "memory.max");
}

/* What a group's limit leaves beside all that the group holds, but for pages of files that the kernel can drop at once.
 * 0: what it holds is not known. */
static size_t left_of(const char *folder, size_t limit, const char *usage, const char *droppable) {
    if (limit > SIZE_MAX / 4) return SIZE_MAX; /* v1 has a number for no limit */
    size_t used = number_or_none(folder, usage), dropped = read_labelled(folder, "/memory.stat", droppable, 1);
    if (used == SIZE_MAX || dropped == SIZE_MAX) return 0;
    size_t held = used > dropped ? used - dropped : 0;
    return limit > held ? limit - held : 0;
}

static size_t left_of_v1(const char *folder) {
    return left_of(folder, limit_of_v1(folder), "memory.usage_in_bytes", "total_inactive_file ");
}

static size_t left_of_v2(const char *folder) {
    return left_of(folder, limit_of_v2(folder), "memory.current", "inactive_file ");
}

/* Without /proc, as in some containers. */
static void ask_system(gp_machine_memory *out) {
    struct rlimit space;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (out->limit[GP_LIMIT_PHYSICAL] == SIZE_MAX && pages > 0 && page > 0)
        out->limit[GP_LIMIT_PHYSICAL] = gp_size_times((size_t)pages, (size_t)page);
    if (out->limit[GP_LIMIT_ADDRESS_SPACE] == SIZE_MAX && getrlimit(RLIMIT_AS, &space) == 0 &&
        space.rlim_cur != RLIM_INFINITY)
        out->limit[GP_LIMIT_ADDRESS_SPACE] = (size_t)space.rlim_cur;
}

void gp_machine_memory_read(const char *root, gp_machine_memory *out) {
    *out = (gp_machine_memory){0};
    out->available = read_labelled(root, "/proc/meminfo", "MemAvailable:", 1024);
    out->limit[GP_LIMIT_PHYSICAL] = read_labelled(root, "/proc/meminfo", "MemTotal:", 1024);
    out->limit[GP_LIMIT_CGROUP] = gp_cgroup_least(root, "memory", limit_of_v1, limit_of_v2);
    out->group_left = gp_cgroup_least(root, "memory", left_of_v1, left_of_v2);
    out->limit[GP_LIMIT_ADDRESS_SPACE] = read_labelled(root, "/proc/self/limits", "Max address space", 1);
    if (!root[0]) ask_system(out);
    read_taken(root, out);
}

size_t gp_machine_memory_left(const gp_machine_memory *memory, gp_memory_limit limit) {
    size_t all = memory->limit[limit], taken = memory->taken[limit];
    return all == SIZE_MAX ? SIZE_MAX : all > taken ? all - taken : 0;
}

gp_memory_limit gp_machine_memory_least(const gp_machine_memory *memory) {
    int least = 0;
    for (int i = 1; i < GP_MEMORY_LIMITS; i++)
        if (gp_machine_memory_left(memory, (gp_memory_limit)i) < gp_machine_memory_left(memory, (gp_memory_limit)least))
            least = i;
    return (gp_memory_limit)least;
}

size_t gp_machine_memory_free(void) {
    gp_machine_memory memory;
    gp_machine_memory_read("", &memory);
    return gp_machine_memory_left(&memory, gp_machine_memory_least(&memory));
}

const char *gp_memory_limit_name(gp_memory_limit limit) {
    static const char *const names[GP_MEMORY_LIMITS] = {"the machine's memory", "the control group's memory (cgroup)",
                                                        "the address space (RLIMIT_AS, ulimit -v)"};
    return names[limit];
}

size_t gp_process_peak(const char *root) {
    size_t peak = read_labelled(root, "/proc/self/status", "VmHWM:", 1024);
    return peak == SIZE_MAX ? 0 : peak;
}

/* "5" sets the peak to what is held now (proc(5), clear_refs). */
void gp_process_peak_reset(void) {
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (!file) return;
    (void)fputs("5\n", file);
    (void)fclose(file);
}
