/* Lines: what carries messages between workers on GPUs of different processes.
 *
 * A *flow* is what one edge carries, or what one contributor of a collective gives one collector, or what one replica
 * gives another one in exchanges within passes (of statistics of batch norm). A line carries flows
 * from one worker to another, in the order in which the sender's program sends them; so the receiver's program must
 * receive them in that order too. Flows between the same workers share a line if they are received in the same queue,
 * and both programs have all their messages in one order, in every mini-batch. Exchanges have lines of their own.
 *
 * Why no order of launches can deadlock. A receive stands in the queue in which a worker would pull from a worker of
 * its own process; a send stands in a queue of its line. What is posted within a backward (plan/early_posts.h) is sent
 * there, which is earlier than its post. Passes that replicas compute together count as several instructions here, from
 * one exchange to the next; the validator finds a serial execution of these, too (schedule/validate.h). So a send waits
 * for nothing but the sends before it on its line, and for the computation whose result it sends. Take a moment at
 * which nothing moves any more. Order all instructions as a serial execution that the validator finds: there each
 * instruction comes after all that it waits for. Let M be the message whose receive is the first in this order that has
 * not arrived.
 * - Its receive is the first in its queue: all that this waits for comes earlier in the order, so it has arrived.
 * - Its send is the first in its queue: the receiver's program receives the messages before it on the line earlier (one
 *   order), so they have arrived. The computation comes before the receive in the order, and so it is over.
 * So both ends of M run, and M arrives. A call of the driver may make a thread of the host wait for all that its worker
 * has enqueued. That changes nothing, since this comes before what the thread has not enqueued yet. It would not hold
 * for a GPU with several workers, so there lines are not chosen. A message over the wire (plan/staging.h) changes
 * nothing either: its ends stand in the same order, and the host waits for nothing that comes later. Lines are opened
 * and closed by their numbers, one after another in each process, and all processes agree in the numbers: so both ends
 * of the lowest one are always at it.
 *
 * This takes that all messages that wait can be on a GPU at the same time (GP_LINE_ENDS), and that no queue holds up
 * another one of the same worker (CUDA_DEVICE_MAX_CONNECTIONS, docs/gpu.md). Streams that NCCL makes for itself
 * are not counted.
 *
 * Derived from a plan, pure; read-only after it is made, any thread. */
#ifndef GP_PLAN_LINES_H
#define GP_PLAN_LINES_H

#include "plan/plan.h"

typedef struct gp_flow {
    int from, to;   /* stages */
    gp_queue queue; /* of the receiver's worker */
    int blocks;     /* see gp_line_plan */
    int line;
} gp_flow;

typedef struct gp_line_plan {
    int from, to;    /* workers */
    gp_queue queue;  /* in which the receiver receives all its messages */
    uint32_t number; /* of its first flow, among those of all processes */
    int blocks;      /* of the GPU that a message takes at most while it waits; the same at both ends */
} gp_line_plan;

typedef struct gp_lines {
    int *of_edge;  /* [edge] its flow; −1: no line carries it, or none of this process */
    int *first;    /* [collective], one more at the end: flows first[c] … first[c+1]−1 are of collective c */
    int process;   /* whose lines they are */
    int exchanges; /* flows from here on are those of exchanges */
    gp_flow *flows;
    gp_line_plan *lines; /* rising numbers */
    int flow_count, line_count;
    size_t flow_capacity, line_capacity;
} gp_lines;

/* Of the workers of a process. GP_UNSUPPORTED: programs of a file that receive on an edge in another order than they
 * send; a GPU with too many lines. */
GP_MUST_USE gp_status gp_lines_create(const gp_plan *plan, int process, gp_lines **out, gp_error *err);
void gp_lines_destroy(gp_lines **lines);
/* The flow of exchanges from one stage to another; −1: none. */
int gp_lines_exchange(const gp_lines *lines, int from, int to);

/* Numbers of flows are below it; 0: no lines are possible. */
uint32_t gp_lines_numbers(const gp_plan *plan);
/* Whether a line carries what goes from one stage to another: they are on GPUs of different processes, and plan->lines.
 */
bool gp_plan_has_line(const gp_plan *plan, int from, int to);
/* Sets plan->lines, of a plan whose stages are made. A plan for other machines takes it that their programs have what
 * is asked for. GP_UNSUPPORTED: lines are asked for, but not possible. */
GP_MUST_USE gp_status gp_lines_choose(gp_plan *plan, gp_carrier carrier, gp_error *err);
/* What carries messages of GPUs between processes, of the run or of a plan for other machines: "nccl", "mpi", "nccl and
 * mpi"; NULL: there are none. */
const char *gp_plan_gpu_messages(const gp_plan *plan);

#endif
