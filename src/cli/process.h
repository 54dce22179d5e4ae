/* What the programs share of being a process: standard streams, signals, the environment of libraries, the exit
 * status.
 *
 * The main thread only. */
#ifndef GP_CLI_PROCESS_H
#define GP_CLI_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "process/processes.h"

/* Before anything else. May start the program again, by execv, with the environment that its libraries want. SIGINT and
 * SIGTERM end the program with exit status 130 from here on. */
void gp_process_begin(char **argv);
/* Standard output is for a program to read: no library writes to it what its variables ask for (ONEDNN_VERBOSE, logs of
 * cuDNN and cuBLAS). Before they start. */
void gp_process_keep_output(void);
/* SIGINT and SIGTERM call the handler, each with both blocked. A signal that the parent process ignores stays ignored
 * (nohup, background jobs of a script). */
void gp_process_on_interrupt(void (*handler)(int number));
/* Under a launcher, when the processes could not meet: whether this one tells the user. Process 0 does, and the others
 * give it a moment: a launcher ends all processes when the first one has ended with a failure. Process 1
 * does some seconds later if it was built without MPI and the launcher leaves it alone: then process 0 may have been
 * built with MPI, and wait for it. */
bool gp_process_says_alone(int rank);
/* Under a launcher, for a process whose command line is wrong: those of the others may be right, and they would wait
 * for it. Sets *says, and *together if the processes met; returns the status, and has *err, that the user is told. */
gp_status gp_process_refuse_together(uint64_t task, gp_status status, gp_processes **together, bool *says,
                                     gp_error *err);
/* Last call of main: prints what is buffered, and the error if it has a sentence; then closes the processes that met,
 * if any. Returns the exit status. */
int gp_process_end(const char *program, gp_processes **together, gp_status status, gp_error *err);

#endif
