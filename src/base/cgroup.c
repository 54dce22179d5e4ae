#include "base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One hierarchy of control groups: v2, or v1's of the controller. */
typedef struct hierarchy {
    const char *controller; /* of v1 */
    char mount[PATH_MAX];   /* where the hierarchy is mounted */
    char top[PATH_MAX];     /* the group that stands there */
    char group[PATH_MAX];   /* the process's own; "": it has none */
} hierarchy;

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
    hierarchy *its = !*controllers ? v2 : is_among(controllers, v1->controller) ? v1 : NULL;
    if (its && strlen(group) < sizeof its->group) strcpy(its->group, group);
}

/* A line of /proc/self/mountinfo: "35 31 0:32 <top> <mount> rw - cgroup cgroup rw,memory" (proc(5)). */
static void take_mount(char *line, hierarchy *v1, hierarchy *v2) {
    char top[PATH_MAX], mount[PATH_MAX], type[32], options[256];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(rest, " - %31s %*s %255s", type, options) != 2) return;
    hierarchy *its = strcmp(type, "cgroup2") == 0                                       ? v2
                     : strcmp(type, "cgroup") == 0 && is_among(options, v1->controller) ? v1
                                                                                        : NULL;
    if (!its || sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) != 2) return;
    strcpy(its->top, top);
    strcpy(its->mount, mount);
}

typedef void line_taker(char *line, hierarchy *v1, hierarchy *v2);

static void take_lines(const char *root, const char *name, line_taker *take, hierarchy *v1, hierarchy *v2) {
    char *line = NULL;
    size_t capacity = 0;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s", root, name);
    FILE *file = fopen(path, "re");
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
static size_t least_of_groups(const char *root, const hierarchy *its, gp_cgroup_limit limit_of) {
    char path[2 * PATH_MAX];
    size_t least = SIZE_MAX;
    if (!its->group[0] || !its->mount[0]) return least;
    int wrote = snprintf(path, sizeof path, "%s%s%s", root, its->mount, below_top(its));
    if (wrote < 0 || (size_t)wrote >= sizeof path) return least;
    size_t length = (size_t)wrote, top = strlen(root) + strlen(its->mount);
    for (;;) {
        while (length > top && path[length - 1] == '/') length--;
        path[length] = '\0';
        size_t limit = limit_of(path);
        if (limit < least) least = limit;
        if (length <= top) return least;
        while (length > top && path[length - 1] != '/') length--;
    }
}

size_t gp_cgroup_least(const char *root, const char *controller, gp_cgroup_limit of_v1, gp_cgroup_limit of_v2) {
    hierarchy v1 = {.controller = controller}, v2 = {0};
    take_lines(root, "/proc/self/cgroup", take_group, &v1, &v2);
    take_lines(root, "/proc/self/mountinfo", take_mount, &v1, &v2);
    size_t first = least_of_groups(root, &v1, of_v1), second = least_of_groups(root, &v2, of_v2);
    return first < second ? first : second;
}

bool gp_cgroup_number(const char *folder, const char *name, int index, uint64_t *out) {
    char path[2 * PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    int64_t number = -1;
    bool found = true;
    for (int i = 0; i <= index && found; i++) found = fscanf(file, "%" SCNd64, &number) == 1 && number >= 0;
    (void)fclose(file);
    *out = (uint64_t)number;
    return found;
}
