/* Limits of the process's control group (cgroup v1 or v2), and of all groups above it.
 *
 * Read from /proc/self and from the files of the groups, below a root folder that tests replace. Any thread.
 */
#ifndef GP_BASE_CGROUP_H
#define GP_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limit of one group, from the files of its folder; SIZE_MAX: it has none. */
typedef size_t (*gp_cgroup_limit)(const char *folder);

/* The least limit; SIZE_MAX: there is none. `controller`: v1's name of it ("memory"). `root`: "" for the machine. */
size_t gp_cgroup_least(const char *root, const char *controller, gp_cgroup_limit of_v1, gp_cgroup_limit of_v2);

/* Number `index` of a group's file; false: the file is not there, or says "max" or -1 in its place. */
bool gp_cgroup_number(const char *folder, const char *name, int index, uint64_t *out);

#endif
