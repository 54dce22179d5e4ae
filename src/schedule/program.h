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
#include "schedule/stages.h"

/* X(suffix, name in the text form) */
#define GP_INSTR_MAP(X)                                                                                                \
    X(LOAD, "load")         /* input, target or both of a micro-batch, from the host into the stash */                 \
    X(FORWARD, "F")         /* flag KEEP: leaves in a saved slot what backward needs; else only what others take */    \
    X(RECOMPUTE, "R")       /* from the stash, into a saved slot */                                                    \
    X(BACKWARD, "B")        /* for inputs and weights */                                                               \
    X(BACKWARD_INPUT, "I")  /* for inputs; leaves in the gradient slot what the one for weights needs */               \
    X(BACKWARD_WEIGHT, "W") /* for weights; ends the lives of stash and saved slot */                                  \
    X(SEND, "send")         /* says that what an edge carries can be pulled */                                         \
    X(RECV, "recv")         /* pulls it */                                                                             \
    X(BARRIER, "barrier")   /* lockstep: workers meet on the host (pipeline/meets.h) */                                \
    X(NORM, "norm")         /* squares of the stage's gradients, after its last backward; where norms are asked for */ \
    X(CLIP, "clip")         /* last stage: the norm of them all, and what gradients are clipped by */                  \
    X(STEP, "step")         /* commits statistics, updates parameters; last */

typedef enum gp_instr_op {
#define GP_INSTR_ENUM(suffix, name) GP_INSTR_##suffix,
    GP_INSTR_MAP(GP_INSTR_ENUM)
#undef GP_INSTR_ENUM
        GP_INSTR_OPS
} gp_instr_op;

enum gp_instr_flags {
    GP_INSTR_KEEP = 1,  /* F: keep for backward; send: from the saved slot, not the outbox */
    GP_INSTR_FIRST = 2, /* B, I, W: the first of the mini-batch on this stage: overwrites gradients */
    GP_INSTR_LAST = 4,  /* F: the last of the mini-batch on this stage: the loss's total follows */
};

/* Slots are instances of a stage's frames, one number space each:
 *   slot   stash: what entered the stage; F, R, B, I, W, load, recv of activations and skips
 *          send of activations and skips: outbox slot, or saved slot where KEEP
 *          send, recv of gradients: gradient slot
 *   work   F with KEEP, R, B, I, W: saved slot; F without: outbox slot
 *   grad   B, I, W: gradient slot (received and leaving gradients of one micro-batch, and those between I and W) */
typedef struct gp_instr {
    uint8_t op;    /* gp_instr_op */
    uint8_t flags; /* gp_instr_flags */
    uint16_t stage;
    uint16_t micro; /* micro-batch */
    uint16_t slot;
    union {
        uint32_t edge; /* send, recv */
        struct {
            uint16_t work, grad; /* F, R, B, I, W */
        };
    };
    uint32_t clock; /* of the schedule; for people and for lockstep */
} gp_instr;

_Static_assert(sizeof(gp_instr) == 16, "an instruction is 16 bytes");

enum { GP_SLOT_MAX = UINT16_MAX };

/* One worker's. */
typedef struct gp_program {
    gp_instr *instrs;
    size_t count, capacity;
    uint32_t *lines; /* where each stands in the text that they were read from; NULL: from none */
    size_t lines_capacity;
} gp_program;

/* All workers', for one mini-batch. */
typedef struct gp_programs {
    int workers;
    gp_program *worker;
    int stages;
    int *worker_of_stage;
    int pieces;      /* micro-batches */
    bool training;   /* else forward only */
    bool descending; /* order in which backward adds micro-batches up, the same on every stage */
    char *source;    /* name of the text that they were read from; NULL: from none */
} gp_programs;

/* Empty programs; worker_of_stage is copied. */
GP_MUST_USE gp_status gp_programs_create(int workers, const int *worker_of_stage, int stages, int pieces, bool training,
                                         bool descending, gp_programs **out, gp_error *err);
void gp_programs_destroy(gp_programs **programs);
GP_MUST_USE gp_status gp_programs_copy(const gp_programs *programs, gp_programs **out, gp_error *err);
GP_MUST_USE gp_status gp_program_add(gp_program *program, gp_instr instr, gp_error *err);
/* Gives back the room that adding left over: up to as much as the instructions take. */
void gp_program_trim(gp_program *program);

/* B and I: what stages before wait for. */
static inline bool gp_instr_begins_backward(const gp_instr *instr) {
    return instr->op == GP_INSTR_BACKWARD || instr->op == GP_INSTR_BACKWARD_INPUT;
}
/* B and W: the last use of what the micro-batch has kept. */
static inline bool gp_instr_ends_backward(const gp_instr *instr) {
    return instr->op == GP_INSTR_BACKWARD || instr->op == GP_INSTR_BACKWARD_WEIGHT;
}
static inline bool gp_instr_is_backward(const gp_instr *instr) {
    return gp_instr_begins_backward(instr) || gp_instr_ends_backward(instr);
}

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
