/* A limit for the time in which the processes of a launch meet. MPI waits for all of them when it starts, and the guard
 * is not yet at work: a process that is stopped, or never comes, would hold up the others for ever.
 *
 * When the time is over, the process says so and ends with status 1: process 0 first, so that it is said once, since
 * launchers then end the others. If process 0 is the one that is stopped, process 1 says it. Time for which this
 * process itself was stopped does not count. The main thread. */
#ifndef GP_PROCESS_START_LIMIT_H
#define GP_PROCESS_START_LIMIT_H

typedef struct gp_start_limit gp_start_limit;

enum { GP_START_SECONDS = 120 };

/* NULL: there is no limit, since no thread could be made. */
gp_start_limit *gp_start_limit_begin(int rank, double seconds);
/* Seconds that are left until process 0 says it. */
double gp_start_limit_left(gp_start_limit *limit);
/* The processes have met, or this one gives up. */
void gp_start_limit_end(gp_start_limit **limit);

#endif
