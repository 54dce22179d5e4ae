/* The memory that this process may take, and the memory that it holds.
 *
 * Three limits bound a process: the machine's physical memory, its control group (cgroup v1 or v2, with all groups
 * above it), and the limit on its address space (RLIMIT_AS, `ulimit -v`). All are read from files of /proc and of the
 * control groups, below a root folder that tests replace. Sizes are bytes. Any thread.
 */
#ifndef GP_BASE_MACHINE_MEMORY_H
#define GP_BASE_MACHINE_MEMORY_H

#include <stddef.h>

typedef enum gp_memory_limit {
    GP_LIMIT_PHYSICAL,
    GP_LIMIT_CGROUP,
    GP_LIMIT_ADDRESS_SPACE,
    GP_MEMORY_LIMITS
} gp_memory_limit;

typedef struct gp_machine_memory {
    size_t limit[GP_MEMORY_LIMITS]; /* SIZE_MAX: there is none, or it is not known */
    size_t taken[GP_MEMORY_LIMITS]; /* by this process, of each: resident memory, or address space */
    size_t available;               /* of the physical memory, beside all programs; SIZE_MAX: it is not known */
    size_t group_left;              /* by the control groups, beside all that they hold; SIZE_MAX: without a limit */
} gp_machine_memory;

/* `root` stands before each path: "" for the machine itself. A file that cannot be read says nothing.
 * Without /proc the machine itself is asked: sysconf for its memory, getrlimit for the address space. What is taken is
 * 0 then. */
void gp_machine_memory_read(const char *root, gp_machine_memory *out);
/* What the limit leaves beside what the process takes of it already; SIZE_MAX: it is no limit. */
size_t gp_machine_memory_left(const gp_machine_memory *memory, gp_memory_limit limit);
/* The limit that leaves least. */
gp_memory_limit gp_machine_memory_least(const gp_machine_memory *memory);
/* What the process may still take under all three; SIZE_MAX: no limit is known. */
size_t gp_machine_memory_free(void);
/* "the machine's memory", "the control group's memory (cgroup)", "the address space (RLIMIT_AS, ulimit -v)" */
const char *gp_memory_limit_name(gp_memory_limit limit);

/* The most memory that this process held at once since it started, or since gp_process_peak_reset; 0: not known. What
 * the program held that started this one does not count, unlike in getrusage's ru_maxrss. */
size_t gp_process_peak(const char *root);
/* From now on gp_process_peak counts from the memory that is held now. Where the system refuses, nothing changes. */
void gp_process_peak_reset(void);

#endif
