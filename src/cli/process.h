/* What the programs share of being a process: standard streams, signals, the environment of libraries, the exit
 * status.
 *
 * The main thread only. */
#ifndef GP_CLI_PROCESS_H
#define GP_CLI_PROCESS_H

#include "base/status.h"

/* Before anything else. May start the program again, by execv, with the environment that its libraries want. */
void gp_process_begin(char **argv);
/* After all else: what is left to print, the error where there is one; returns the exit status. */
int gp_process_end(const char *program, gp_status status, gp_error *err);

#endif
