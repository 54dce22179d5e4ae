/* Staging: buffers of the host through which messages between processes go from and to the memory of a GPU. The wire
 * reads and writes the host's memory only.
 *
 * An edge has a ring of them, which its copies take one after another. A contributor and a collector of a collective
 * have one. The sums of a bucket come where the own part for that replica was sent from, as they do in an arena, and
 * leave from where that replica's part has arrived. Replicas that exchange within a pass have three.
 *
 * Derived from a plan, pure; any thread. */
#ifndef GP_PLAN_STAGING_H
#define GP_PLAN_STAGING_H

#include "plan/copy_order.h"
#include "plan/plan.h"

/* The buffers of one end of an edge. */
typedef struct gp_staging_ring {
    size_t bytes; /* of each */
    size_t count;
} gp_staging_ring;

/* Of each other replica of the stage's group in another process: two to send from, one to receive into. */
enum { GP_PEER_BUFFERS = 3 };

/* How a message goes from one stage to another: not at all, or by one of these. */
typedef enum gp_route { GP_ROUTE_WITHIN, GP_ROUTE_WIRE, GP_ROUTE_LINE } gp_route;
gp_route gp_plan_route(const gp_plan *plan, int from, int to);
/* Whether the wire carries what goes from one stage to another, one of them of this process. */
bool gp_plan_has_wire(const gp_plan *plan, int from, int to);
/* Whether messages of the stage over the wire go through staging. */
bool gp_plan_is_staged(const gp_plan *plan, int stage);

/* The ring of the worker of the edge's sender, or receiver. A sender has as many buffers as copies are in flight. So
 * it waits for no more than slots would make it wait for in one process. */
gp_staging_ring gp_staging_of_edge(const gp_plan *plan, const gp_copy_orders *orders, uint32_t edge, bool receives);
/* Bytes of the buffer of this process for a contributor and a collector, one of them in another process; 0: they need
 * none. On the host a message needs one if it has several ranges. */
size_t gp_staging_of_pair(const gp_plan *plan, uint32_t collective, int from, int to);
/* Whether the pair's buffer is that of the pair that scatters the same bucket the other way. */
bool gp_staging_is_shared(const gp_plan *plan, uint32_t collective, int from);
/* Bytes of each of the GP_PEER_BUFFERS for a replica of the stage's group in another process; 0: it needs none. */
size_t gp_staging_of_peer(const gp_plan *plan, int stage);

/* The sum over all stages of this process. GP_MEMORY. */
GP_MUST_USE gp_status gp_staging_bytes(const gp_plan *plan, size_t *out, gp_error *err);

#endif
