/* The processes of a run: how many there are, which one this is, the wire between them, and what ends them all.
 *
 * A launcher (mpirun, srun) starts them. Process 0 reads the configuration, decides, prints and writes; the others
 * follow. The main thread opens and closes them. Only it calls the rest, too, if nothing else is said. */
#ifndef GP_PROCESS_PROCESSES_H
#define GP_PROCESS_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "process/guard.h"
#include "process/wire.h"

typedef struct gp_processes gp_processes;

/* What a process was started to do, as a number: of its command line. */
uint64_t gp_processes_task(int argc, char **argv);
/* Connects them all. GP_UNSUPPORTED: the program was built without MPI, or a launcher's processes see one another not.
 * GP_USAGE, in all of them: their tasks differ. GP_IO. */
GP_MUST_USE gp_status gp_processes_open(uint64_t task, gp_processes **out, gp_error *err);
/* The run is over, and all of it is saved (gp_guard_finish); GP_OK or GP_INTERRUPTED. Main thread. */
void gp_processes_saved(gp_processes *processes, gp_status status);
/* The run has begun: messages go between the processes from now on. If it fails, MPI is left as it is. */
void gp_processes_begin_run(gp_processes *processes);
/* No more messages. `status`, *err: how this process ended. If that is the first cause, all others end with it; else
 * *err becomes the first cause. True: this process tells the user of it, before gp_processes_close. */
bool gp_processes_end(gp_processes *processes, gp_status *status, gp_error *err);
/* Says goodbye. The others have waited for that of process 0: a launcher ends all processes when the first one has
 * ended with a failure. NULL: nothing. */
void gp_processes_close(gp_processes **processes);

gp_wire *gp_processes_wire(gp_processes *processes);
/* [process]: the first process on its machine. Borrowed. */
const int *gp_processes_machines(const gp_processes *processes);
/* Process 0: the name of each process's host, printable. Borrowed. */
const char *gp_processes_host(const gp_processes *processes, int rank);
/* "Open MPI 4.1.4" */
const char *gp_processes_library(void);
bool gp_processes_are_built(void);
/* How many processors the processes on this machine may use, all together; 0: not known. */
int gp_processes_processors(const gp_processes *processes);
/* Seconds without a sign of life after which a process is lost. They also limit messages that MPI loses
 * (process/deliveries.h). Process 0 tells the others, which take it, too. */
void gp_processes_set_timeout(gp_processes *processes, double seconds);
/* This is cancelled when the run ends elsewhere; NULL: nothing. Stands until another one takes its place. */
void gp_processes_watch(gp_processes *processes, gp_cancel *cancel);
/* The same with a cancel for a call that waits for other processes: made and watched, no longer watched and ended. */
GP_MUST_USE gp_status gp_processes_cancel_init(gp_processes *processes, gp_cancel *cancel, gp_error *err);
void gp_processes_cancel_fini(gp_processes *processes, gp_cancel *cancel);
/* Looks after this process's workers from now on (gp_guard_set_look); NULL: no more. */
void gp_processes_set_look(gp_processes *processes, gp_guard_look look, void *context);
/* This process has failed for the reason *err: the others end from now on, and so does this process within some
 * seconds, also if it cannot stop its workers. gp_processes_end follows. Any thread. */
void gp_processes_fail(gp_processes *processes, const gp_error *err);
/* Before a run, and between two: process 0 sends to all others, which receive. Ends when the run ends elsewhere. */
GP_MUST_USE gp_status gp_processes_tell(gp_processes *processes, uint32_t tag, const void *bytes, size_t count,
                                        gp_error *err);
GP_MUST_USE gp_status gp_processes_hear(gp_processes *processes, uint32_t tag, void *bytes, size_t count,
                                        gp_error *err);
/* Asks for the end of the run after its step; whether some process has asked, for process 0. Any thread; a handler of
 * signals may ask, too. */
void gp_processes_ask_stop(gp_processes *processes);
bool gp_processes_are_asked(gp_processes *processes);

#endif
