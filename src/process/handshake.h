/* The handshake: what the processes of a run tell one another over MPI when they start, and whether it can be.
 *
 * Pure functions of numbers that have come from other processes: none is used before it is checked here. Any thread. */
#ifndef GP_PROCESS_HANDSHAKE_H
#define GP_PROCESS_HANDSHAKE_H

#include "process/guard.h"

/* GP_IO: process 0 cannot listen. GP_INTERNAL: no process 0 says that. */
GP_MUST_USE gp_status gp_handshake_check_door(const gp_guard_door *door, gp_error *err);
/* GP_INTERNAL: no process says that of its network. */
GP_MUST_USE gp_status gp_handshake_check_networks(const gp_guard_network *all, int processes, gp_error *err);
/* machines[process]: the first process on its machine. GP_INTERNAL: that cannot be. */
GP_MUST_USE gp_status gp_handshake_check_machines(const int *machines, int processes, gp_error *err);

#endif
