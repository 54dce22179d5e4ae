#include "base/machine_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"

/* The file `name` below `root`, open to be read; NULL: there is none. */
static FILE *open_below(const char *root, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s", root, name);
    return length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
}

/* ---- files with a line "label: 123 kB" --------------------------------------------------------------------------- */

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

/* ---- control groups ---------------------------------------------------------------------------------------------- */

/* One hierarchy of control groups: v2, or v1's of the memory controller. */
typedef struct hierarchy {
    const char *file;     /* in each group's folder: the limit */
    char mount[PATH_MAX]; /* where the hierarchy is mounted */
    char top[PATH_MAX];   /* the group that stands there */
    char group[PATH_MAX]; /* the process's own; "": it has none */
} hierarchy;

/* A file's only number; SIZE_MAX: none, as "max". */
static size_t read_number(const char *path) {
    uint64_t number;
    FILE *file = fopen(path, "re");
    if (!file) return SIZE_MAX;
    bool any = fscanf(file, "%" SCNu64, &number) == 1;
    (void)fclose(file);
    return any ? (size_t)number : SIZE_MAX;
}

/* Whether `word` is among words with commas between them. */
static bool is_among(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at++)
        if ((at == words || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return true;
    return false;
}

/* A line of /proc/self/cgroup: "4:memory:/group", v2 "0::/group". */
static void take_group(char *line, hierarchy *v1, hierarchy *v2) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return;
    *group++ = '\0';
    controllers++;
    hierarchy *its = !*controllers ? v2 : is_among(controllers, "memory") ? v1 : NULL;
    if (its && strlen(group) < sizeof its->group) strcpy(its->group, group);
}

/* A line of /proc/self/mountinfo: "35 31 0:32 <top> <mount> rw - cgroup cgroup rw,memory" (proc(5)). */
static void take_mount(char *line, hierarchy *v1, hierarchy *v2) {
    char top[PATH_MAX], mount[PATH_MAX], type[32], options[256];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(rest, " - %31s %*s %255s", type, options) != 2) return;
    hierarchy *its = strcmp(type, "cgroup2") == 0                                 ? v2
                     : strcmp(type, "cgroup") == 0 && is_among(options, "memory") ? v1
                                                                                  : NULL;
    if (!its || sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) != 2) return;
    strcpy(its->top, top);
    strcpy(its->mount, mount);
}

typedef void line_taker(char *line, hierarchy *v1, hierarchy *v2);

static void take_lines(const char *root, const char *name, line_taker *take, hierarchy *v1, hierarchy *v2) {
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = open_below(root, name);
    while (file && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        take(line, v1, v2);
    }
    if (file) (void)fclose(file);
    free(line);
}

/* The group's path below the mount. In a container the mount may show only a part of the hierarchy. */
static const char *below_top(const hierarchy *its) {
    size_t length = strcmp(its->top, "/") == 0 ? 0 : strlen(its->top);
    bool below = strncmp(its->group, its->top, length) == 0 && (its->group[length] == '/' || !its->group[length]);
    return below ? its->group + length : "";
}

/* The least limit of the process's group and of all groups above it. */
static size_t least_of_groups(const char *root, const hierarchy *its) {
    char path[2 * PATH_MAX], file[sizeof path + 64];
    size_t least = SIZE_MAX;
    if (!its->group[0] || !its->mount[0]) return least;
    int wrote = snprintf(path, sizeof path, "%s%s%s", root, its->mount, below_top(its));
    if (wrote < 0 || (size_t)wrote >= sizeof path) return least;
    size_t length = (size_t)wrote, top = strlen(root) + strlen(its->mount);
    for (;;) {
        while (length > top && path[length - 1] == '/') length--;
        path[length] = '\0';
        snprintf(file, sizeof file, "%s/%s", path, its->file);
        size_t limit = read_number(file);
        if (limit < least) least = limit;
        if (length <= top) return least;
        while (length > top && path[length - 1] != '/') length--;
    }
}

static size_t read_cgroup(const char *root) {
    hierarchy v1 = {.file = "memory.limit_in_bytes"}, v2 = {.file = "memory.max"};
    take_lines(root, "/proc/self/cgroup", take_group, &v1, &v2);
    take_lines(root, "/proc/self/mountinfo", take_mount, &v1, &v2);
    size_t first = least_of_groups(root, &v1), second = least_of_groups(root, &v2);
    return first < second ? first : second;
}

/* ---- all limits -------------------------------------------------------------------------------------------------- */

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
    out->limit[GP_LIMIT_PHYSICAL] = read_labelled(root, "/proc/meminfo", "MemTotal:", 1024);
    out->limit[GP_LIMIT_CGROUP] = read_cgroup(root);
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

/* ---- this process ------------------------------------------------------------------------------------------------ */

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
