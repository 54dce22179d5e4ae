/* What the programs share of being a process: standard streams, signals, the environment of libraries, the exit
 * status.
 *
 * The main thread only. */
#ifndef GP_CLI_PROCESS_H
#define GP_CLI_PROCESS_H

#include "base/status.h"

/* Before anything else. May start the program again, by execv, with the environment that its libraries want. SIGINT and
 * SIGTERM end the program with exit status 130 from here on. */
void gp_process_begin(char **argv);
/* SIGINT and SIGTERM call the handler, each with both blocked. A signal that the parent process ignores stays ignored
 * (nohup, background jobs of a script). */
void gp_process_on_interrupt(void (*handler)(int number));
/* Last call of main: prints what is buffered, and the error if it has a sentence. Returns the exit status. */
int gp_process_end(const char *program, gp_status status, gp_error *err);

#endif
