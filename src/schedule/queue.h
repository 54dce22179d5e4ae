/* What the queues of a device wait for in one another: derived in plan/queues.h, simulated in schedule/play.h.
 *
 * Plain data, owned by its creator; any thread. */
#ifndef GP_SCHEDULE_QUEUE_H
#define GP_SCHEDULE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gp_queue_waits {
    uint32_t
        *first; /* [pc], instructions + 1 entries: instruction pc waits for wait[first[pc]] … wait[first[pc+1]−1] */
    int *wait;  /* marks */
    size_t count, capacity;
    bool *known; /* [as the items of gp_worker_waits]: the queue need not wait for that event, only the host */
} gp_queue_waits;

typedef struct gp_worker_queues {
    int *mark; /* [pc] number of the mark behind the instruction; −1: none */
    int marks;
    gp_queue_waits within; /* the mini-batch */
    gp_queue_waits behind; /* besides, where it begins behind another: of that one's marks and events */
} gp_worker_queues;

typedef struct gp_program_queues {
    int workers;
    gp_worker_queues *worker;
} gp_program_queues;

#endif
