/* Where copies and barriers stand in the programs of a mini-batch: found once, then looked up by edge and micro-batch.
 *
 * Plain data, owned by its creator; read-only after it is made, any thread. */
#ifndef GP_SCHEDULE_PROGRAM_INDEX_H
#define GP_SCHEDULE_PROGRAM_INDEX_H

#include <stddef.h>

#include "base/status.h"
#include "schedule/program.h"

typedef struct gp_program_index {
    size_t *sends, *receives; /* [gp_program_index_copy] pc + 1, on the workers of the edge's stages; 0: none */
    size_t **barriers;        /* [worker][number] pc, rising */
    size_t *barrier_count;    /* [worker] */
    int workers, pieces;
} gp_program_index;

/* GP_MEMORY. `out` may be passed to gp_program_index_fini after a failure too. */
GP_MUST_USE gp_status gp_program_index_init(const gp_stages *stages, const gp_programs *programs, gp_program_index *out,
                                            gp_error *err);
void gp_program_index_fini(gp_program_index *index);

/* How many of its instructions have that operation. */
size_t gp_program_count(const gp_program *program, gp_instr_op op);

/* The number of what an edge carries of a micro-batch. */
static inline size_t gp_program_index_copy(const gp_program_index *index, uint32_t edge, uint16_t micro) {
    return (size_t)edge * (size_t)index->pieces + micro;
}

#endif
