/* Programs: what each worker does in one mini-batch, as data.
 *
 * A schedule is a generator of programs. Validator, slot assignment, memory plan, player (simulation) and executor all
 * read the same arrays of 16-byte instructions. Which events an instruction waits for follows from its edge and
 * micro-batch and from the life of its slots (schedule/waits.h) and is not stored.
 *
 * Plain data owned by its creator; read-only once a plan holds it.
 */
#ifndef GP_SCHEDULE_PROGRAM_H
#define GP_SCHEDULE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "schedule/access.h"

/* One worker's. */
typedef struct gp_program {
    gp_instr *instrs;
    size_t count, capacity;
    uint32_t *lines; /* where each stands in the text that they were read from; NULL: from none */
    size_t lines_capacity;
} gp_program;

/* How a mini-batch is cut into micro-batches. */
typedef struct gp_pieces {
    int count;
    int64_t samples, last; /* of every micro-batch but the last; of the last. 0: each stage has samples of each one */
} gp_pieces;

/* Micro-batches `first` to `end` − 1. A replica whose share of a micro-batch is empty (base/share.h) has no instruction
 * for it. An edge carries a micro-batch if its two ends have a sample of it in common. Since micro-batches are of one
 * size but for the last, what a stage has, or an edge carries, is all of them, all but the last, the last, or none. */
typedef struct gp_micros {
    int first, end;
} gp_micros;

static inline bool gp_micros_have(gp_micros micros, int micro) {
    return micro >= micros.first && micro < micros.end;
}
static inline int gp_micros_count(gp_micros micros) {
    return micros.end - micros.first;
}
gp_micros gp_micros_of_stage(gp_pieces pieces, const gp_stage *stage);
gp_micros gp_micros_of_edge(gp_pieces pieces, const gp_stages *stages, size_t edge);
/* How many of the edges carry a micro-batch. */
size_t gp_edges_carrying(gp_pieces pieces, const gp_stages *stages, const gp_indices *edges, int micro);
/* The first replicas of a stage have samples of some micro-batch, the others of none: how many the first are. */
int gp_replicas_with_samples(gp_pieces pieces, const gp_stage *stage);

/* All workers', for one mini-batch. */
typedef struct gp_programs {
    int workers;
    gp_program *worker;
    int stages;
    int *worker_of_stage; /* [stage] */
    int pieces;           /* micro-batches */
    int64_t piece, last;  /* as in gp_pieces; 0: stages have no replicas, or no share is empty */
    bool training;        /* else forward only */
    bool descending;      /* order in which backward adds micro-batches up, the same on every stage */
    char *source;         /* name of the text that they were read from; NULL: from none */
} gp_programs;

static inline int gp_programs_worker(const gp_programs *programs, int stage) {
    return programs->worker_of_stage[stage];
}

static inline gp_pieces gp_programs_pieces(const gp_programs *programs) {
    return (gp_pieces){programs->pieces, programs->piece, programs->last};
}

/* Empty programs; worker_of_stage is copied. */
GP_MUST_USE gp_status gp_programs_create(int workers, const int *worker_of_stage, int stages, int pieces, bool training,
                                         bool descending, gp_programs **out, gp_error *err);
void gp_programs_destroy(gp_programs **programs);
GP_MUST_USE gp_status gp_programs_copy(const gp_programs *programs, gp_programs **out, gp_error *err);
GP_MUST_USE gp_status gp_program_add(gp_program *program, gp_instr instr, gp_error *err);
/* Gives back the room that adding left over: up to as much as the instructions take. */
void gp_program_trim(gp_program *program);

/* Whether there is an instruction that finds the norm of gradients. */
bool gp_programs_have_norms(const gp_programs *programs);

/* "F", "recv"; "?": no operation. */
const char *gp_instr_op_name(int op);
/* "F s1 m3" for messages; buffer is returned. */
enum { GP_INSTR_TEXT = 96 };
const char *gp_instr_text(char buffer[GP_INSTR_TEXT], const gp_instr *instr);

/* GP_PROGRAM: "worker 0, instruction 12 (F s1 m3): …", behind its place where it was read from a text. */
gp_status gp_programs_refuse(const gp_programs *programs, int worker, size_t pc, gp_error *err, const char *format, ...)
    GP_PRINTF(5, 6);

/* The text form, which reads back to the same bytes; owned by the caller. One header line, then per worker a line
 * "worker 0:" and an instruction a line; # begins a comment. */
GP_MUST_USE gp_status gp_programs_write(const gp_programs *programs, char **out, gp_error *err);
/* GP_CONFIG with name:line:column. */
GP_MUST_USE gp_status gp_programs_read(const char *text, const char *name, gp_programs **out, gp_error *err);

#endif
