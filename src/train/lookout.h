/* The lookout of a process in a run of several: what it compares with (pipeline/lookout.h).
 *
 * Process 0 has the profile. It tells the others how long instructions should take, before each run. The main thread of
 * each process. */
#ifndef GP_TRAIN_LOOKOUT_H
#define GP_TRAIN_LOOKOUT_H

#include "pipeline/lookout.h"
#include "process/processes.h"
#include "session/session.h"

/* Zero at first. */
typedef struct gp_train_lookout {
    gp_processes *processes; /* NULL: the run has one process, and no lookout */
    gp_lookout *lookout;
    double *expected;
} gp_train_lookout;

/* Before the run is created, in all processes: what instructions of the session's plan should take. Nothing where
 * `processes` is NULL. */
GP_MUST_USE gp_status gp_train_lookout_share(gp_train_lookout *its, gp_processes *processes, const gp_session *session,
                                             gp_error *err);
/* The guard's thread looks after the run's workers until gp_train_lookout_end, which comes before the run's end. Their
 * GPUs write progress notes. The timeout is the guard's, too. */
GP_MUST_USE gp_status gp_train_lookout_begin(gp_train_lookout *its, gp_run *run, double timeout, gp_error *err);
void gp_train_lookout_end(gp_train_lookout *its);

#endif
