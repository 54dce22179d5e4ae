/* Instructions, and the slots that each one uses: one row of one table for an instruction.
 *
 * Slots, waits, queues, addresses, lifetimes and the text form of programs derive from the table. The validator has its
 * own reading of the rules, because it checks programs that were derived from these rows.
 *
 * Pure; any thread.
 */
#ifndef GP_SCHEDULE_ACCESS_H
#define GP_SCHEDULE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "schedule/stages.h"

/* Frames that have slots; each stage numbers the slots of each frame from 0. */
typedef enum gp_frame {
    GP_FRAME_STASH,  /* what entered the stage */
    GP_FRAME_SAVED,  /* what the backward pass reads besides */
    GP_FRAME_OUTBOX, /* what other stages take, if nothing is saved */
    GP_FRAME_GRAD,   /* gradients that are received and sent, and those between I and W */
    GP_FRAMES
} gp_frame;
const char *gp_frame_name(gp_frame frame);

enum gp_instr_flags {
    GP_INSTR_KEEP = 1,  /* F: keep for backward; send: from the saved slot, not the outbox */
    GP_INSTR_FIRST = 2, /* B, I, W: the first of the mini-batch on this stage: overwrites gradients */
    GP_INSTR_LAST = 4, /* F: the last of the mini-batch on this stage: the loss's total follows, if no others have parts
                          of it */
};

enum gp_instr_traits {
    GP_HAS_MICRO = 1, /* belongs to a micro-batch */
    GP_HAS_EDGE = 2,  /* belongs to an edge, which decides about the frame of its slot */
    GP_HAS_COLLECTIVE = 4,
    GP_COMPUTES = 8,
    GP_COPIES = 16, /* into the memory of its worker */
};

/* How an instruction uses its slot of a frame. */
enum gp_access_uses {
    GP_BEGINS = 1, /* begins the slot's lifetime, if no instruction before it has begun it for the micro-batch */
    GP_READS = 2,
    GP_WRITES = 4,
    GP_BESIDE = 8,        /* writes beside the values that are still pulled from the slot's previous lifetime */
    GP_SENDS = 16,        /* another worker reads from now on, until it has pulled */
    GP_ENDS = 32,         /* the stage's last use: the lifetime ends after it and after all sends from the slot */
    GP_ENDS_FORWARD = 64, /* likewise, in a program that has forwards only */
};

/* Which slots an instruction uses depends on its flag `keep`, and for copies on the edge. */
typedef enum gp_access_variant {
    GP_ACCESS_PLAIN,
    GP_ACCESS_KEEP,
    GP_ACCESS_GRADIENT, /* a copy of gradients */
    GP_ACCESS_VARIANTS
} gp_access_variant;

/* X(suffix, name in the text form, traits, flags that it can have, slots). The slots: for each variant the frames, and
 * in each frame the field of gp_instr that holds the slot, and its uses. */
#define GP_INSTR_MAP(X)                                                                                                \
    /* input, target or both of a micro-batch, from the host */                                                        \
    X(LOAD, "load", GP_HAS_MICRO | GP_COPIES, 0, PLAIN(STASH(slot, GP_BEGINS | GP_WRITES)))                            \
    X(FORWARD, "F", GP_HAS_MICRO | GP_COMPUTES, GP_INSTR_KEEP | GP_INSTR_LAST,                                         \
      PLAIN(STASH(slot, GP_READS | GP_WRITES | GP_ENDS_FORWARD), OUTBOX(work, GP_BEGINS | GP_WRITES | GP_ENDS)),       \
      KEEP(STASH(slot, GP_READS | GP_WRITES), SAVED(work, GP_BEGINS | GP_WRITES)))                                     \
    X(RECOMPUTE, "R", GP_HAS_MICRO | GP_COMPUTES, 0, PLAIN(STASH(slot, GP_READS), SAVED(work, GP_BEGINS | GP_WRITES))) \
    /* for inputs and weights */                                                                                       \
    X(BACKWARD, "B", GP_HAS_MICRO | GP_COMPUTES, GP_INSTR_FIRST,                                                       \
      PLAIN(STASH(slot, GP_READS | GP_ENDS), SAVED(work, GP_READS | GP_WRITES | GP_ENDS),                              \
            GRAD(grad, GP_BEGINS | GP_READS | GP_WRITES | GP_ENDS)))                                                   \
    /* for inputs; leaves in the gradient slot what the one for weights needs */                                       \
    X(BACKWARD_INPUT, "I", GP_HAS_MICRO | GP_COMPUTES, GP_INSTR_FIRST,                                                 \
      PLAIN(STASH(slot, GP_READS), SAVED(work, GP_READS | GP_WRITES), GRAD(grad, GP_BEGINS | GP_READS | GP_WRITES)))   \
    /* for weights */                                                                                                  \
    X(BACKWARD_WEIGHT, "W", GP_HAS_MICRO | GP_COMPUTES, GP_INSTR_FIRST,                                                \
      PLAIN(STASH(slot, GP_READS | GP_ENDS), SAVED(work, GP_READS | GP_ENDS), GRAD(grad, GP_READS | GP_ENDS)))         \
    /* says that what an edge carries can be pulled */                                                                 \
    X(SEND, "send", GP_HAS_MICRO | GP_HAS_EDGE, GP_INSTR_KEEP, PLAIN(OUTBOX(slot, GP_SENDS)),                          \
      KEEP(SAVED(slot, GP_SENDS)), GRADIENT(GRAD(slot, GP_SENDS)))                                                     \
    /* pulls it */                                                                                                     \
    X(RECV, "recv", GP_HAS_MICRO | GP_HAS_EDGE | GP_COPIES, 0, PLAIN(STASH(slot, GP_BEGINS | GP_WRITES)),              \
      GRADIENT(GRAD(slot, GP_BEGINS | GP_WRITES | GP_BESIDE)))                                                         \
    /* lockstep: workers meet on the host (plan/meets.h) */                                                            \
    X(BARRIER, "barrier", 0, 0, NO_SLOTS)                                                                              \
    /* squares of the stage's gradients, after its last backward; if the norm is computed */                           \
    X(NORM, "norm", GP_COMPUTES, 0, NO_SLOTS)                                                                          \
    /* last stage: the norm of all gradients, and the factor that clips them */                                        \
    X(CLIP, "clip", GP_COMPUTES, 0, NO_SLOTS)                                                                          \
    /* first replica of the last stage: the loss's total over all replicas */                                          \
    X(TOTAL, "total", GP_COMPUTES, 0, NO_SLOTS)                                                                        \
    /* sum of the replicas' gradients, of the stage's own part of the bucket that it has collected in a scatter */     \
    X(REDUCE, "reduce", GP_HAS_COLLECTIVE | GP_COMPUTES, 0, NO_SLOTS)                                                  \
    /* updates the replica's own shard of the parameters, if replicas share them out */                                \
    X(UPDATE, "update", GP_COMPUTES, 0, NO_SLOTS)                                                                      \
    /* commits statistics; updates the parameters that no backward and no `update` has updated; last */                \
    X(STEP, "step", GP_COMPUTES, 0, NO_SLOTS)                                                                          \
    /* says that the stage's part of a collective can be read */                                                       \
    X(POST, "post", GP_HAS_COLLECTIVE, 0, NO_SLOTS)                                                                    \
    /* copies the parts of all contributors to their places on the stage */                                            \
    X(COLLECT, "collect", GP_HAS_COLLECTIVE | GP_COPIES, 0, NO_SLOTS)

typedef enum gp_instr_op {
#define GP_INSTR_ENUM(suffix, ...) GP_INSTR_##suffix,
    GP_INSTR_MAP(GP_INSTR_ENUM)
#undef GP_INSTR_ENUM
        GP_INSTR_OPS
} gp_instr_op;

typedef struct gp_instr {
    uint8_t op;    /* gp_instr_op */
    uint8_t flags; /* gp_instr_flags */
    uint16_t stage;
    uint16_t micro; /* micro-batch */
    uint16_t slot;
    union {
        uint32_t edge;       /* send, recv */
        uint32_t collective; /* post, collect; reduce: the scatter */
        struct {
            uint16_t work, grad; /* F, R, B, I, W */
        };
    };
    uint32_t clock; /* of the schedule; for people and for lockstep */
} gp_instr;

_Static_assert(sizeof(gp_instr) == 16, "an instruction is 16 bytes");

enum { GP_SLOT_MAX = UINT16_MAX };

typedef struct gp_access {
    uint8_t at;   /* offset in gp_instr of the field that holds the slot; 0: the frame is not used */
    uint8_t uses; /* gp_access_uses */
} gp_access;

typedef struct gp_accesses {
    gp_access frame[GP_FRAMES];
} gp_accesses;

/* A row of the table. */
typedef struct gp_instr_row {
    const char *name;
    uint8_t traits, flags;
    gp_accesses slots[GP_ACCESS_VARIANTS];
} gp_instr_row;
extern const gp_instr_row gp_instr_rows[GP_INSTR_OPS];

/* The slots that an instruction uses. */
gp_accesses gp_instr_accesses(const gp_stages *stages, const gp_instr *instr);
/* The slot of a frame that it uses. */
static inline uint16_t gp_instr_get_slot(const gp_instr *instr, gp_access access) {
    uint16_t slot;
    memcpy(&slot, (const char *)instr + access.at, sizeof slot);
    return slot;
}
static inline void gp_instr_set_slot(gp_instr *instr, gp_access access, uint16_t slot) {
    memcpy((char *)instr + access.at, &slot, sizeof slot);
}

static inline bool gp_instr_computes(const gp_instr *instr) {
    return gp_instr_rows[instr->op].traits & GP_COMPUTES;
}
static inline bool gp_instr_copies(const gp_instr *instr) {
    return gp_instr_rows[instr->op].traits & GP_COPIES;
}
static inline bool gp_instr_has_micro(const gp_instr *instr) {
    return gp_instr_rows[instr->op].traits & GP_HAS_MICRO;
}
static inline bool gp_instr_has_edge(const gp_instr *instr) {
    return gp_instr_rows[instr->op].traits & GP_HAS_EDGE;
}
static inline bool gp_instr_has_collective(const gp_instr *instr) {
    return gp_instr_rows[instr->op].traits & GP_HAS_COLLECTIVE;
}
/* Whether a stage takes part in its collective with it. */
static inline bool gp_instr_joins(const gp_instr *instr) {
    return instr->op == GP_INSTR_POST || instr->op == GP_INSTR_COLLECT;
}
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

/* Whether an instruction of a program that trains is a pass that a group of replicas computes together
 * (gp_stage.group).
 */
static inline bool gp_instr_is_joint(const gp_stages *stages, const gp_instr *instr) {
    return stages->stage[instr->stage].group > 1 && (instr->op == GP_INSTR_FORWARD || gp_instr_begins_backward(instr));
}

/* The queues of a device: copies run in queues of their own, beside computations. */
typedef enum gp_queue {
    GP_QUEUE_COMPUTE, /* and what is sent: an event behind what made it; collectives, but for those of GP_QUEUE_SUMS */
    GP_QUEUE_IN,      /* loads; activations and skips that are received */
    GP_QUEUE_BACK,    /* gradients that are received */
    GP_QUEUE_SUMS,    /* parts of other replicas' gradients, and their sums, that are collected */
    GP_QUEUES
} gp_queue;
/* What a copy or collective carries: "gradient", "squares"; NULL: another instruction. */
const char *gp_instr_carries(const gp_stages *stages, const gp_instr *instr);
/* An instruction always goes to the same queue. */
gp_queue gp_instr_queue(const gp_stages *stages, const gp_instr *instr);

#endif
