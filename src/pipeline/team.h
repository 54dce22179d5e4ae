/* A run of several processes: process 0 calls, the others follow.
 *
 * Each gp_run_* function of process 0 first sends the others a call: a step with its numbers, a read or write of
 * parameters. They do the same with their own workers. What process 0 asks for comes back in messages whose sizes both
 * know from the plan. Nothing here is done by a run that is alone. The trainer's thread of each process. */
#ifndef GP_PIPELINE_TEAM_H
#define GP_PIPELINE_TEAM_H

#include "pipeline/diagnose.h"
#include "pipeline/run_internal.h"
#include "pipeline/team_messages.h"

/* GP_MEMORY; GP_UNSUPPORTED: the wire has too few tags. */
GP_MUST_USE gp_status gp_team_open(gp_run *run, gp_error *err);
void gp_team_close(gp_run *run);

/* Process 0 sends a call. `input`: of COUNT, STEP, DIAGNOSE and ASK. `copies`: of READ and WRITE, `count` of them. */
GP_MUST_USE gp_status gp_team_call(gp_run *run, gp_call_kind kind, int mini, const gp_step_input *input,
                                   const gp_tensor_copy *copies, int count, gp_error *err);
/* After a call, process 0 and the others must do the same: a failure ends the run. Returns the status. */
gp_status gp_team_settle(gp_run *run, gp_status status, const gp_error *err);
/* What a command does with blocks of all processes: process `home` has the host's memory of the blocks, the others have
 * none. All processes call it. */
GP_MUST_USE gp_status gp_team_copy(gp_run *run, bool in, const gp_block *blocks, size_t count, int home, gp_error *err);
/* After a step: what it came to, from the process that knows it, to process 0. */
GP_MUST_USE gp_status gp_team_report(gp_run *run, gp_step_scalars *report, gp_error *err);
/* After a step that was recorded: the spans of all workers get to process 0, by its clock. */
GP_MUST_USE gp_status gp_team_gather_spans(gp_run *run, int mini, gp_error *err);
/* The first of all processes' findings gets to process 0. */
GP_MUST_USE gp_status gp_team_gather_finding(gp_run *run, gp_finding *finding, gp_error *err);

#endif
