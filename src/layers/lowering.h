/* What a layer's passes are made of: ops whose operands are named by their role, not by an address.
 *
 * A layer fills a gp_lowering for micro-batches of one size; rooms above give the roles memory, drop ops whose results
 * no other op needs, and choose what is kept and what is computed again. The creator owns it; plain data; one thread.
 *
 * Passes of a micro-batch: FORWARD (training), EVALUATE (running statistics, no dropout), BACKWARD. Passes of a
 * mini-batch, when all its micro-batches are through: TOTAL (the loss, after the last forward), COMMIT (running
 * statistics, in the update). Ops of a pass run in the order in which they were added.
 */
#ifndef GP_LAYERS_LOWERING_H
#define GP_LAYERS_LOWERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/op.h"

typedef enum gp_pass {
    GP_PASS_FORWARD,
    GP_PASS_EVALUATE,
    GP_PASS_BACKWARD,
    GP_PASS_TOTAL,
    GP_PASS_COMMIT,
    GP_PASSES
} gp_pass;

/* Roles of operands. `index` counts within the layer: inputs in the order of `from`, parameters in that of its list. */
typedef enum gp_role {
    GP_ROLE_NONE,        /* operand absent */
    GP_ROLE_INPUT,       /* value taken (the loss: 0 prediction, 1 target) */
    GP_ROLE_OUTPUT,      /* value made */
    GP_ROLE_GRAD_INPUT,  /* gradient of input `index`: written, once per backward pass, or not at all */
    GP_ROLE_GRAD_OUTPUT, /* gradient of the output: complete when the backward pass begins */
    GP_ROLE_PARAM,       /* parameter or buffer; stored in the format of its forward pass */
    GP_ROLE_GRAD_PARAM,  /* gradient of a parameter: this micro-batch's share; the plan adds them up */
    GP_ROLE_SIDE,        /* made by FORWARD, needed by BACKWARD (pool indices); recomputed with it */
    GP_ROLE_STATS,       /* made once per micro-batch and kept until the step's end (batch statistics, partial losses);
                            EVALUATE may use it for partial losses, BACKWARD for what replicas exchange */
    GP_ROLE_STATS_ALL,   /* in TOTAL and COMMIT: STATS of all micro-batches, index order, contiguous */
    GP_ROLE_STATS_PARTS, /* of an op with an exchange: the parts of its replicas of this micro-batch, contiguous */
    GP_ROLE_TEMP,        /* lives within one pass of this layer */
    GP_ROLE_SCALARS,     /* the step's gp_step_scalars */
} gp_role;

/* STATS of every loss, by index. */
enum {
    GP_LOSS_STATS_PARTIAL,    /* f64 [2]: Σ loss, number right */
    GP_LOSS_STATS_PREDICTION, /* where gp_lowering.predict: the prediction of the micro-batch, in the order of memory */
};

typedef struct gp_ref {
    gp_role role;
    int index;
    int64_t first; /* elements from the start of the whole to this operand's address (a slice of channels) */
} gp_ref;

/* What becomes of STATS if the stage has replicas. */
enum gp_stats_flags {
    GP_STATS_PARTS = 1,  /* each replica has a part of its own, and places for those of the others */
    GP_STATS_MERGED = 2, /* the others' parts are copied at the end of the mini-batch */
};

/* What stands before an op: replicas `first` to `first + count − 1` of the stage copy from one another what each has in
 * its part of a STATS. Only those that have samples of the micro-batch. */
typedef struct gp_exchange {
    int stats;        /* index */
    int first, count; /* count 0: nothing stands there. 1: no other replica has samples */
} gp_exchange;

enum gp_lowered_flags {
    GP_LOWERED_ONCE = 1, /* FORWARD only: not repeated by a recompute (statistics, partial losses) */
};

typedef struct gp_lowered_op {
    gp_pass pass;
    unsigned flags;
    gp_op_desc desc; /* desc.threads is left 0: the planner sets it from the device */
    gp_ref ref[GP_MAX_OPERANDS];
    gp_exchange exchange;
} gp_lowered_op;

/* SIDE, STATS, TEMP of a layer: plain tensors, for one micro-batch. */
typedef struct gp_lowered_tensors {
    gp_tensor *items;
    size_t count, capacity;
} gp_lowered_tensors;

enum { GP_LOWERING_MAX_STATS = 4 };

typedef struct gp_lowering {
    /* What is asked for. */
    gp_types types;     /* values are `storage`, parameters `compute`, statistics and sums `accumulate` */
    int64_t samples;    /* of the micro-batch, or of a replica's share of it (FORWARD, EVALUATE, BACKWARD) */
    int64_t pieces;     /* micro-batches of the mini-batch (TOTAL, COMMIT) */
    int64_t last;       /* samples of the last micro-batch (COMMIT); the others have `samples` */
    int replicas;       /* that share out each micro-batch; in TOTAL and COMMIT, samples are those of all together */
    int replica;        /* which of them has `samples` (FORWARD, BACKWARD) */
    int64_t shared;     /* samples of the micro-batch that all replicas have together (FORWARD, BACKWARD) */
    uint32_t node;      /* index in the expanded graph (dropout) */
    bool evaluate_only; /* only EVALUATE is wanted: what only training forbids is not refused */
    bool predict;       /* the loss's EVALUATE keeps the prediction: STATS GP_LOSS_STATS_PREDICTION of the loss */
    /* What comes back. */
    gp_lowered_op *ops;
    size_t count, capacity;
    gp_lowered_tensors sides, stats, temps;
    unsigned stats_flags[GP_LOWERING_MAX_STATS]; /* gp_stats_flags */
} gp_lowering;

void gp_lowering_init(gp_lowering *lowering, gp_types types, int64_t samples, uint32_t node);
void gp_lowering_fini(gp_lowering *lowering);

/* Appends an op; *out is valid until the next is appended. */
GP_MUST_USE gp_status gp_lowering_op(gp_lowering *lowering, gp_pass pass, unsigned flags, gp_op_kind kind,
                                     gp_lowered_op **out, gp_error *err);
/* Sets operand `position` of an op. */
void gp_lowered_operand(gp_lowered_op *op, int position, gp_tensor tensor, gp_role role, int index);
/* The same for a slice that begins `first` elements into the whole. */
void gp_lowered_slice(gp_lowered_op *op, int position, gp_tensor tensor, gp_role role, int index, int64_t first);
/* Declares storage; *index is what refs name. */
GP_MUST_USE gp_status gp_lowering_side(gp_lowering *lowering, gp_tensor tensor, int *index, gp_error *err);
GP_MUST_USE gp_status gp_lowering_stats(gp_lowering *lowering, gp_tensor tensor, unsigned flags, int *index,
                                        gp_error *err);
GP_MUST_USE gp_status gp_lowering_temp(gp_lowering *lowering, gp_tensor tensor, int *index, gp_error *err);

#endif
