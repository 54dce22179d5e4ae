/* A wire between runs of one test process: each has the place of a process. For tests.
 *
 * A thread delivers messages one at a time, in an order that a seed draws, and late. Some senders are free at once, as
 * with MPI's short messages: the message is then copied. A message of another size than the receiver planned fails. */
#ifndef GP_TESTS_PROCESS_LOOP_WIRE_H
#define GP_TESTS_PROCESS_LOOP_WIRE_H

#include "process/wire.h"

typedef struct loop_hub loop_hub;

/* Called by the loop's thread, for the rank that has received what it had not planned. */
typedef void (*loop_failed)(void *context, int rank, const gp_error *cause);

/* `delay`: the most that a message waits, in microseconds. Ends the test if there is no memory. */
loop_hub *loop_open(int processes, uint64_t seed, uint32_t delay, loop_failed failed, void *context);
/* No run uses the wires any more. */
void loop_close(loop_hub **hub);
/* Of the rank; the hub's. */
gp_wire *loop_wire_of(loop_hub *hub, int rank);
/* Messages that were delivered, or are held by it. Any thread. */
uint64_t loop_delivered(loop_hub *hub);
int loop_held(loop_hub *hub);

#endif
