/* Where copies, collectives and barriers stand in the programs of a mini-batch: found once, then looked up by event.
 *
 * Plain data, owned by its creator; read-only after it is made, any thread. */
#ifndef GP_PLAN_PROGRAM_INDEX_H
#define GP_PLAN_PROGRAM_INDEX_H

#include <stddef.h>

#include "base/status.h"
#include "schedule/waits.h"

typedef struct gp_program_index {
    const gp_stages *stages; /* borrowed */
    size_t *places;          /* [number of the event] pc + 1; 0: none */
    size_t **barriers;       /* [worker][number] pc, rising */
    size_t *barrier_count;   /* [worker] */
    int workers, pieces;
} gp_program_index;

/* GP_MEMORY. `out` may be passed to gp_program_index_fini after a failure too. */
GP_MUST_USE gp_status gp_program_index_init(const gp_stages *stages, const gp_programs *programs, gp_program_index *out,
                                            gp_error *err);
void gp_program_index_fini(gp_program_index *index);

/* How many of its instructions have that operation. */
size_t gp_program_count(const gp_program *program, gp_instr_op op);

/* pc + 1 of the instruction that makes the event happen, on the worker of gp_event_stage; 0: none. */
static inline size_t gp_program_index_place(const gp_program_index *index, const gp_wait *event) {
    return index->places[gp_event_number(index->stages, index->pieces, event)];
}

#endif
