/* A process of a run that follows process 0: it opens what process 0 tells it to, and carries out its calls.
 *
 * It prints nothing and writes no file. The main thread. */
#ifndef GP_TRAIN_FOLLOW_H
#define GP_TRAIN_FOLLOW_H

#include "base/status.h"
#include "process/processes.h"

/* Until the run ends. GP_CANCELLED, or the first cause: process 0 or another process has ended it. */
GP_MUST_USE gp_status gp_follow(gp_processes *processes, gp_error *err);

#endif
