/* What a plan claims: stages, copies, collectives, the programs with their waits and slots, and where memory lies.
 *
 * The checker's own structs, filled from the JSON of a plan (docs/timelines.md, "The plan as JSON"): so a plan that
 * another version of the program has made can be checked, too. Nothing here is shared with the code that plans.
 *
 * Owned by its creator; read-only once it is read; any thread. */
#ifndef GP_CHECK_CLAIM_H
#define GP_CHECK_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum gp_claim_op {
    GP_CLAIM_LOAD,
    GP_CLAIM_F,
    GP_CLAIM_R,
    GP_CLAIM_B,
    GP_CLAIM_I,
    GP_CLAIM_W,
    GP_CLAIM_SEND,
    GP_CLAIM_RECV,
    GP_CLAIM_BARRIER,
    GP_CLAIM_NORM,
    GP_CLAIM_CLIP,
    GP_CLAIM_TOTAL,
    GP_CLAIM_REDUCE,
    GP_CLAIM_UPDATE,
    GP_CLAIM_STEP,
    GP_CLAIM_POST,
    GP_CLAIM_COLLECT,
    GP_CLAIM_OPS
} gp_claim_op;

/* What has slots: the stage's input, what the backward pass reads besides, what others take, and gradients. */
typedef enum gp_claim_frame {
    GP_CLAIM_STASH,
    GP_CLAIM_SAVED,
    GP_CLAIM_OUTBOX,
    GP_CLAIM_GRADIENT,
    GP_CLAIM_FRAMES
} gp_claim_frame;
extern const char *const gp_claim_frames[GP_CLAIM_FRAMES];

typedef enum gp_claim_edge_kind {
    GP_CLAIM_ACTIVATION,
    GP_CLAIM_SKIP,
    GP_CLAIM_GRADIENTS,
    GP_CLAIM_EDGE_KINDS
} gp_claim_edge_kind;

typedef enum gp_claim_collective_kind {
    GP_CLAIM_GATHER,
    GP_CLAIM_BROADCAST,
    GP_CLAIM_SCATTER,
    GP_CLAIM_EXCHANGE,
    GP_CLAIM_COLLECTIVE_KINDS
} gp_claim_collective_kind;

typedef enum gp_claim_part {
    GP_CLAIM_PART_SQUARES,
    GP_CLAIM_PART_SCALARS,
    GP_CLAIM_PART_LOSSES,
    GP_CLAIM_PART_STATISTICS,
    GP_CLAIM_PART_GRADIENTS,
    GP_CLAIM_PART_BLOCKS,
    GP_CLAIM_PART_PARAMETERS,
    GP_CLAIM_PARTS
} gp_claim_part;

/* An instruction of another one of the same mini-batch. */
typedef struct gp_claim_wait {
    int worker;
    size_t pc;
} gp_claim_wait;

typedef struct gp_claim_instr {
    gp_claim_op op;
    bool keep, first; /* F: for the backward pass; send: from what is saved. B, I, W: overwrites gradients */
    int stage, micro; /* micro −1: it has none */
    int edge, collective;
    int queue;
    int slot[GP_CLAIM_FRAMES]; /* −1: it uses none */
    int64_t bytes, alive;      /* −1: not said */
    size_t waits, wait_count;  /* in gp_claim_program.waits: what must have ended before it begins */
    size_t host, host_count;   /* what the thread that fills the queues waits for */
    char name[48];             /* of the op, stage and micro-batch, for messages */
} gp_claim_instr;

typedef struct gp_claim_worker_program {
    gp_claim_instr *instrs;
    size_t count;
} gp_claim_worker_program;

typedef struct gp_claim_program {
    bool training, descending;    /* descending: the order in which micro-batches are added up */
    int64_t samples, piece, last; /* of the mini-batch, of each micro-batch but the last, of the last */
    int micro_batches;
    gp_claim_worker_program *worker; /* [workers] */
    gp_claim_wait *waits;
    size_t wait_count, wait_capacity;
} gp_claim_program;

typedef struct gp_claim_buffer {
    char *name;
    int64_t offset, bytes; /* from the start of the worker's arena */
} gp_claim_buffer;

typedef struct gp_claim_slots {
    int64_t offset, bytes; /* of the first slot, from the start of the worker's arena; of each */
    int64_t count;
} gp_claim_slots;

typedef struct gp_claim_stage {
    int worker, number, replica, replicas, group; /* as in the plan's stages */
    int first_layer, layers;
    int64_t parameters;       /* elements; 0: none, or not said */
    bool loads;               /* input, target or both */
    unsigned readers;         /* passes that touch what it loads, as bits 1 << gp_claim_op */
    gp_claim_buffer *buffers; /* what outlives the step */
    size_t buffer_count;
    gp_claim_slots slots[GP_CLAIM_FRAMES];
} gp_claim_stage;

typedef struct gp_claim_worker {
    char *name;
    bool queues; /* its device goes on by itself: what it is given is ordered by queue, else one after another */
    int64_t arena;
    gp_claim_buffer transient, evaluation; /* of passes that train; of those that evaluate */
} gp_claim_worker;

typedef struct gp_claim_edge {
    gp_claim_edge_kind kind;
    int from, to;     /* stages */
    unsigned readers; /* passes of `to` that touch what it brings, as bits 1 << gp_claim_op */
} gp_claim_edge;

typedef struct gp_claim_collective {
    gp_claim_collective_kind kind;
    gp_claim_part part;
    int root;                       /* stage; −1: none */
    int bucket, buckets;            /* of gradients; else 0 of 1 */
    int *contributors, *collectors; /* stages */
    size_t contributor_count, collector_count;
} gp_claim_collective;

/* A layer or the loss, in the order of the graph. */
typedef struct gp_claim_layer {
    char *name;
    int stage, layer;
} gp_claim_layer;

typedef struct gp_claim {
    char *path, *name; /* of the file that it was read from; of the configuration */
    gp_claim_layer *layers;
    gp_claim_stage *stages;
    gp_claim_worker *workers;
    gp_claim_edge *edges;
    gp_claim_collective *collectives;
    gp_claim_program *programs;
    size_t layer_count, stage_count, worker_count, edge_count, collective_count, program_count;
    bool norms, shards; /* training finds the norm of all gradients; replicas share out the updates */
    bool slots,
        members; /* the file says slots and where memory lies, and who takes part in collectives: since version 0.2 */
} gp_claim;

/* GP_DATA with path:line:column for what is no plan, and for numbers that point nowhere. `text` is borrowed for the
 * call; `path` names it in messages. */
GP_MUST_USE gp_status gp_claim_read(const char *text, size_t bytes, const char *path, gp_claim **out, gp_error *err);
void gp_claim_destroy(gp_claim **claim);

/* The first replica of the last stage, where the loss is. */
static inline int gp_claim_root(const gp_claim *claim) {
    int last = (int)claim->stage_count - 1;
    return last - claim->stages[last].replica;
}
/* Micro-batches of which a stage has samples, and which an edge carries: whether this one is among them. */
bool gp_claim_stage_has(const gp_claim *claim, const gp_claim_program *program, int stage, int micro);
bool gp_claim_edge_carries(const gp_claim *claim, const gp_claim_program *program, int edge, int micro);

#endif
