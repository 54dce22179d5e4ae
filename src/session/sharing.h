/* GPUs that processes share. NCCL connects no two processes on one GPU, so MPI then carries what goes between GPUs.
 *
 * An index does not say which GPU it is: a launcher may show each process another one as cuda:0. So processes tell
 * process 0 the bus addresses of their GPUs. Each process's main thread calls. */
#ifndef GP_SESSION_SHARING_H
#define GP_SESSION_SHARING_H

#include "process/wire.h"
#include "session/devices.h"

/* All processes; process 0 gets all[process], for the others it is not used. The main thread. */
GP_MUST_USE gp_status gp_bus_addresses_gather(gp_wire *wire, uint32_t tag, const gp_bus_addresses *own,
                                              gp_bus_addresses *all, const gp_cancel *cancel, gp_error *err);
/* The first worker whose GPU is also that of a later worker, *other, in another process; −1: there is none.
 * machines[process]: the first process on its machine; NULL: all are on one. Pure. */
int gp_sharing_find(const gp_device_spec *devices, int workers, const int *process, const int *machines,
                    const gp_bus_addresses *all, int *other);

#endif
