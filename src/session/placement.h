/* Which process has which worker.
 *
 * Pure; any thread. */
#ifndef GP_SESSION_PLACEMENT_H
#define GP_SESSION_PLACEMENT_H

#include "base/status.h"
#include "settings/config.h"

/* How many processes the ranks of the devices need: the highest rank, and one more. 1: no device has a rank. */
int gp_placement_processes(const gp_pipeline_config *pipeline);
/* process[worker], of so many processes. A device's rank decides. The workers without a rank are dealt out, in the
 * order in which they stand, so that all processes have about as many. If `replicas` gave each device its replicas, and
 * the processes can be divided among these, each replica has processes of its own. GP_CONFIG with a place: a rank that
 * does not exist; more processes than workers. */
GP_MUST_USE gp_status gp_placement_find(const gp_pipeline_config *pipeline, int processes, int *process, gp_error *err);
/* index[worker] of its device. A GPU without a number is cuda:0; in a run of several processes, the one with its
 * process's number among those of its machine. machines[process]: the first process on its machine; NULL: all are on
 * one. GP_CONFIG with a place: a process has two such entries. */
GP_MUST_USE gp_status gp_placement_number(const gp_pipeline_config *pipeline, int processes, const int *process,
                                          const int *machines, int *index, gp_error *err);

#endif
