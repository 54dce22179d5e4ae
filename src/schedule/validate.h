/* Proves that programs are right before anything runs them, generated ones and the user's.
 *
 * Every forward has one backward and, where it does not keep, one recompute between them; every send its receive; no
 * slot has two lives at once; nothing is read before it was written; backward accumulates in the declared order on
 * every stage; replicas that synchronise batch norm have their passes in the same order; barriers are equal; one step,
 * last; no cycle and no deadlock; a replica with an empty share computes and copies nothing. Pure; one thread.
 */
#ifndef GP_SCHEDULE_VALIDATE_H
#define GP_SCHEDULE_VALIDATE_H

#include "base/status.h"
#include "schedule/program.h"

/* GP_PROGRAM with "worker 2, instruction 17 (F s1 m3): <what is wrong>". */
GP_MUST_USE gp_status gp_programs_validate(const gp_stages *stages, const gp_programs *programs, gp_error *err);
/* Only that every number in them is one of the model's stages, micro-batches and edges, that they are not far too
 * short, and that every copy has two ends: what may then be played and given slots. */
GP_MUST_USE gp_status gp_programs_check_parts(const gp_stages *stages, const gp_programs *programs, gp_error *err);

#endif
