/* Measuring links: what messages between two processes take, over the wire of the run.
 *
 * Process 0 asks and takes the times, one other process answers. Short messages go there and back: half of the median
 * is the latency. Then long ones do, of up to 4 MiB: only one direction is busy at a time. Process 0 ends it after
 * about half a second; it waits for one round at least, however slow the link is. All sizes are known to both sides
 * beforehand. Blocks; the main thread of each process. */
#ifndef GP_PROFILE_LINK_TIMES_H
#define GP_PROFILE_LINK_TIMES_H

#include "process/wire.h"
#include "profile/profile.h"

/* With which process process 0 measures a kind of link: the first other one on its machine, or the first one on another
 * machine; −1: there is none. machines[process]: the first process on its machine (gp_processes_machines). */
int gp_link_peer(const int *machines, int processes, gp_link_kind kind);

typedef struct gp_link_route {
    gp_wire *wire;
    int peer;     /* the other process */
    uint32_t tag; /* of all these messages */
    const gp_cancel *cancel;
} gp_link_route;

/* `clock`: nanoseconds; NULL: gp_clock. GP_CANCELLED: the run has ended; nothing can be sent over the wire then. */
GP_MUST_USE gp_status gp_link_ask(const gp_link_route *route, uint64_t (*clock)(void), gp_profile_link *out,
                                  gp_error *err);
/* The other process: until process 0 says that it has its times. GP_INTERNAL: no process 0 asks that. */
GP_MUST_USE gp_status gp_link_answer(const gp_link_route *route, gp_error *err);

/* Of seconds there and back, of short messages and of messages with so many bytes. Both lists are sorted; neither is
 * empty. Pure. */
gp_profile_link gp_link_estimate(double *short_rounds, size_t short_count, double *long_rounds, size_t long_count,
                                 double bytes);

#endif
