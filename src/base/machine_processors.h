/* The processors that this process may use, and their division among threads.
 *
 * Two limits bound a process: its affinity mask (sched_setaffinity, taskset, cpusets, mpirun's binding) and the quota
 * of its control group (cpu.max; `docker run --cpus`). A processor is a hardware thread; a core may have several.
 * Files are read below a root folder that tests replace. Any thread.
 */
#ifndef GP_BASE_MACHINE_PROCESSORS_H
#define GP_BASE_MACHINE_PROCESSORS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Those of the affinity mask; at least 1. */
int gp_machine_processors(void);

/* Gives each of `count` groups of threads processors of its own, as many as the group has threads: share[i] for
 * threads[i] ≥ 0. First one of each core, in ascending order of their numbers, then the others of the cores.
 * false: there are too few in `allowed`, or the quota is less than the threads; then `share` is not defined. */
bool gp_processors_divide(const char *root, const cpu_set_t *allowed, const int *threads, int count, cpu_set_t *share);

/* Microseconds for gp_wait_spin of threads that wait for one another. `threads`: those that may be busy, or spin, at
 * the same time. 0: there are fewer processors in `allowed`, or the quota is less: a thread that spins would then take
 * the processor from a thread that it waits for. */
uint32_t gp_processors_spin(const char *root, const cpu_set_t *allowed, int threads);
/* The same for the calling thread's affinity mask on this machine. */
uint32_t gp_machine_spin(int threads);

#endif
