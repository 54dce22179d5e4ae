/* Queues: a worker's device works through several at once, so that copies run beside computations. Which queue each
 * instruction goes to, and what a queue must wait for in another one of the same worker; what it waits for in other
 * workers stands in pipeline/waits.h.
 *
 * What loads and receives write is read by computations, and what computations have read is overwritten when the slot
 * begins its next life: behind the last instruction of one queue stands a mark, an event, that the other one waits for.
 * Waits that follow from others are left out. Between two mini-batches all queues run dry.
 * Derived from the programs, pure; the result is read-only, any thread.
 */
#ifndef GP_PIPELINE_QUEUES_H
#define GP_PIPELINE_QUEUES_H

#include "pipeline/program.h"

typedef enum gp_queue {
    GP_QUEUE_COMPUTE, /* and what is sent: an event behind what made it; flags and norms, between fixed places */
    GP_QUEUE_IN,      /* loads; activations and skips that are received */
    GP_QUEUE_BACK,    /* gradients that are received */
    GP_QUEUES
} gp_queue;

gp_queue gp_instr_queue(const gp_stages *stages, const gp_instr *instr);

typedef struct gp_worker_queues {
    int *mark;     /* [pc] number of the mark behind the instruction; −1: none */
    size_t *first; /* [pc], instructions + 1 entries: instruction pc waits for wait[first[pc]] … wait[first[pc+1]−1] */
    int *wait;     /* marks */
    size_t count, capacity;
    int marks;
} gp_worker_queues;

typedef struct gp_program_queues {
    int workers;
    gp_worker_queues *worker;
} gp_program_queues;

GP_MUST_USE gp_status gp_queues_create(const gp_stages *stages, const gp_programs *programs, gp_program_queues **out,
                                       gp_error *err);
void gp_queues_destroy(gp_program_queues **queues);

#endif
