/* The launch: what the environment says of the launcher that started this process (mpirun, srun), before MPI starts.
 *
 * The environment is another program's: no number in it is trusted. The main thread. */
#ifndef GP_PROCESS_LAUNCH_H
#define GP_PROCESS_LAUNCH_H

#include <stdbool.h>

#include "base/status.h"

/* How many processes a launcher has started, and which one this is; 1 and 0: no launcher. */
void gp_launch_find(int *count, int *rank);
/* machines[process] as gp_processes_machines has it, as far as the launcher's environment says it. Slurm says how many
 * processes each host has. Of others: the processes of this host, and as many on each of the others, in their order.
 * *out is NULL if it says nothing; the caller frees it. */
GP_MUST_USE gp_status gp_launch_machines(int count, int **out, gp_error *err);
/* How many processors the processes on the machine of process 0 may use, all together, before they have met: as many
 * for each as for the calling process (process 0), but not more than the launcher may use, which is taken to be its
 * parent. 0: not known. */
int gp_launch_processors(const int *machines, int count);
/* `text`, as Slurm writes it: "2(x3),1" are three hosts with two processes each and one with one. Fills out[process],
 * `count` of them, each host's processes after one another. False: it says something else. */
bool gp_launch_read_tasks(const char *text, int count, int *out);
/* GP_UNSUPPORTED: Slurm started several processes, and offers them no way to find one another that Open MPI knows. Open
 * MPI would end them, with many lines of its own. Other MPIs may know Slurm without it. `library`: gp_mpi_library. */
GP_MUST_USE gp_status gp_launch_check(const char *library, gp_error *err);

#endif
