/* What --plan prints: a plan for people.
 *
 * Borrows the plan for the call, writes to a stream of the caller, touches no device. One thread per stream. */
#ifndef GP_REPORT_PLAN_REPORT_H
#define GP_REPORT_PLAN_REPORT_H

#include <stdio.h>

#include "base/status.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "session/host_memory.h"

/* Stages (layers, parameters, device), copies, memory kind by kind with each worker's arena and peak (the instruction
 * where it is), schedule (a timeline of the clocks where it fits the width), expected time and what it was counted
 * from: `profile`, or operations and bytes where it is NULL. Long pipelines are summarised: the first, the last and the
 * largest stages. `host`: what this process takes of the host's memory; NULL: no run is planned. memory[process]: what
 * each takes of its host's (gp_host_memory_processes); NULL: not known. */
GP_MUST_USE gp_status gp_plan_report(const gp_plan *plan, const gp_profile *profile, const gp_host_memory *host,
                                     const size_t *memory, FILE *out, gp_error *err);

/* Elements of the parameters of stage `s`, buffers not counted. */
int64_t gp_plan_stage_parameters(const gp_plan *plan, int s);

#endif
