/* The identity of a plan: a number that two plans share if they are equal.
 *
 * A timeline names the plan of its run by it, so that a reader can tell whether two timelines are of one plan. It is a
 * hash of layers, cuts, workers and all programs, and the same on every machine. Pure; any thread. */
#ifndef GP_PLAN_IDENTITY_H
#define GP_PLAN_IDENTITY_H

#include <stdint.h>

#include "plan/plan.h"
#include "schedule/program.h"

/* Goes on from `hash` (0 to begin) over the placement of stages and every field of every instruction. */
uint64_t gp_identity_programs(uint64_t hash, const gp_programs *programs);
/* Of a whole plan: names, types and stages of layers, bytes of copies, devices, and the programs of every size of
 * mini-batch. Memory and times do not count. */
uint64_t gp_identity_plan(const gp_plan *plan);

/* Numbers of its parts, so that a message can say which of them differ. */
typedef enum gp_identity_part {
    GP_IDENTITY_STAGES,
    GP_IDENTITY_DEVICES,
    GP_IDENTITY_PROCESSES,
    GP_IDENTITY_PROGRAMS,
    GP_IDENTITY_PARTS
} gp_identity_part;
void gp_identity_parts(const gp_plan *plan, uint64_t out[GP_IDENTITY_PARTS]);
/* "the layers of stages" */
const char *gp_identity_part_name(gp_identity_part part);

#endif
