/* The lookout of a run: what it compares with, and the thread that looks (pipeline/lookout.h).
 *
 * In a run of several processes the guard's thread looks. Process 0 has the profile. It tells the others how long
 * instructions should take, before each run. A process that is alone has a thread of its own for it, if it has a device
 * that works on its own. The main thread of each process. */
#ifndef GP_TRAIN_LOOKOUT_H
#define GP_TRAIN_LOOKOUT_H

#include "pipeline/lookout.h"
#include "process/processes.h"
#include "session/session.h"

typedef struct gp_watch gp_watch;

/* Zero at first. */
typedef struct gp_train_lookout {
    gp_processes *processes; /* NULL: the run has one process */
    gp_lookout *lookout;     /* NULL: nobody looks */
    double *expected;
    gp_watch *watch; /* of a process that is alone */
} gp_train_lookout;

/* Before the run is created, in all processes: what instructions of the session's plan should take. `processes` NULL:
 * the run has one. */
GP_MUST_USE gp_status gp_train_lookout_share(gp_train_lookout *its, gp_processes *processes, const gp_session *session,
                                             gp_error *err);
/* A thread looks after the run's workers until gp_train_lookout_end, which comes before the run's end. The timeout is
 * the guard's, too. With several processes GPUs write progress notes. A worker of a process that is alone hangs: the
 * run is cancelled with the sentence. If its workers, or the closing of their devices, do not end within another
 * timeout, the thread says what failed first and ends the process. A snapshot that is being written ends before. */
GP_MUST_USE gp_status gp_train_lookout_begin(gp_train_lookout *its, gp_run *run, const gp_plan *plan, double timeout,
                                             gp_error *err);
void gp_train_lookout_end(gp_train_lookout *its);

#endif
