/* One stage's plan: where its parameters and buffers lie, and a routine for each of its instructions.
 *
 * Made in three steps from the graph, the stage's nodes and its device: the formats that the device wants for weights
 * (found at the full micro-batch's size, and the same for every other size); what outlives the step (parameters in the
 * format of their forward pass, working copies, gradients, optimizer state, statistics) at fixed offsets, and what is
 * received at those of a slot; then for each size of micro-batch the frames and routines. Touches no device. Owned by
 * the plan; read-only once it is made, any thread.
 */
#ifndef GP_COMPILE_STAGE_PLAN_H
#define GP_COMPILE_STAGE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "compile/routine.h"
#include "device/device.h"
#include "schedule/slots.h"
#include "base/share.h"
#include "schedule/stages.h"

/* The optimizer as a descriptor: an op that updates one parameter, and how many states it has. Operands of the op:
 * scalars, gradient, states, parameter. Handed down by the training room. */
typedef struct gp_update {
    gp_op_kind op; /* GP_OP_SGD, GP_OP_ADAM */
    int states;    /* 0 … 2 tensors like the parameter, zero at first */
    union {        /* of that op; the decay is that of a parameter which decays */
        gp_sgd_attributes sgd;
        gp_adam_attributes adam;
    };
    bool no_decay; /* parameters with norm_or_bias do not decay */
} gp_update;

enum { GP_UPDATE_MAX_STATES = 2 };

/* What the bytes of a stage are for. X(suffix, name) */
#define GP_MEMORY_MAP(X)                                                                                               \
    X(PARAMETERS, "parameters")                                                                                        \
    X(WORKING, "working copies")                                                                                       \
    X(GRADIENTS, "gradients")                                                                                          \
    X(OPTIMIZER, "optimizer state")                                                                                    \
    X(STATISTICS, "statistics")                                                                                        \
    X(STASH, "stashes")                                                                                                \
    X(SAVED, "saved values")                                                                                           \
    X(COPIES, "copy buffers")                                                                                          \
    X(TRANSIENT, "transients")                                                                                         \
    X(WORKSPACE, "workspaces")

typedef enum gp_memory_kind {
#define GP_MEMORY_ENUM(suffix, name) GP_MEMORY_##suffix,
    GP_MEMORY_MAP(GP_MEMORY_ENUM)
#undef GP_MEMORY_ENUM
        GP_MEMORY_KINDS
} gp_memory_kind;
const char *gp_memory_kind_name(gp_memory_kind kind);

/* A format that a device chose for an operand; the n-th free choice of the stage's ops in order of node and op. */
typedef struct gp_format_choice {
    int node, op, operand; /* op: index in the node's lowering */
    gp_role role;          /* PARAM or GRAD_PARAM */
    int param;             /* of the graph */
    gp_format format;
    size_t bytes;
    double work; /* operations of the op for each byte of the operand */
} gp_format_choice;

typedef struct gp_working_copy {
    gp_format format;
    size_t bytes, offset;
} gp_working_copy;

/* The offset of what has no place. 0 is the offset of something else. */
#define GP_NO_OFFSET SIZE_MAX

/* The master and the optimizer's states lie in one format: that of the forward pass. */
typedef struct gp_param_plan {
    int param;    /* of the graph */
    size_t bytes; /* in PyTorch's order, as files and the host have it */
    gp_format format;
    size_t stored; /* bytes of the master and of each state; padding is zero */
    size_t master; /* offsets from the stage's start */
    size_t state[GP_UPDATE_MAX_STATES];
    const gp_prepared *load, *save; /* reorders from PyTorch's order to the format, and back; NULL: they are the same */
    bool trained;                   /* in this plan */
    gp_format grad_format;
    size_t grad; /* GP_NO_OFFSET: it has no gradient, or one that does not stay (gp_stage_plan.consumes) */
    size_t grad_bytes;
    gp_share own;         /* bytes of the master that this replica updates; its states are of these */
    size_t block;         /* if the stage shards: which of its blocks is the gradient's first */
    size_t square;        /* where norms are found: which of the stage's squares its gradient's is */
    gp_working_copy copy; /* bytes 0: none */
} gp_param_plan;

/* Where a shard begins. */
typedef struct gp_shard_cut {
    int param;    /* which of the stage's; their number: behind the last one */
    size_t first; /* byte of its gradient, and of its master */
    size_t grad;  /* likewise, from where the stage's gradients begin */
} gp_shard_cut;

/* STATS of one node: one after another for each micro-batch, and if replicas have parts of them, for each replica. */
typedef struct gp_stats_plan {
    int node, index;
    unsigned flags; /* gp_stats_flags */
    size_t bytes;   /* of a micro-batch on one replica */
    size_t offset;  /* of the first micro-batch on the first replica */
    size_t stride;  /* from one micro-batch to the next */
} gp_stats_plan;

typedef enum gp_routine_kind {
    GP_ROUTINE_KEEP,    /* forward that leaves what backward needs in the saved frame */
    GP_ROUTINE_DISCARD, /* forward that leaves only what other stages take, in the outbox */
    GP_ROUTINE_RECOMPUTE,
    GP_ROUTINE_BACKWARD,
    GP_ROUTINE_BACKWARD_INPUT,
    GP_ROUTINE_BACKWARD_WEIGHT, /* only what makes gradients of parameters and of nothing else */
    GP_ROUTINE_EVALUATE,
    GP_ROUTINES
} gp_routine_kind;

/* Frames and routines for one size of micro-batch. Offsets are within a slot; lists are parallel to the stage's. */
typedef struct gp_sized {
    int64_t micro_batch;       /* its samples */
    int64_t samples;           /* of them, the stage's */
    bool training, evaluation; /* which routines there are */
    size_t *gives_outbox;
    size_t *gives_saved;     /* of forwards that keep */
    size_t frame[GP_FRAMES]; /* bytes of a slot */
    /* Which routines touch what is received: of takes, of grad_in; bits 1 << gp_routine_kind. */
    uint8_t *take_users, *grad_users;
    gp_routine routine[GP_ROUTINES];
} gp_sized;

typedef struct gp_stage_plan {
    int stage, worker;
    gp_device_spec spec;
    gp_format_choice *choices;
    size_t choice_count, choice_capacity;
    gp_param_plan *params;
    int param_count;
    gp_stats_plan *stats;
    size_t stats_count, stats_capacity;
    size_t scalars; /* offset of the gp_step_scalars */
    /* Squares of the gradients of trained parameters, f64, where norms are found: the stage's own, `square_count`; on
     * the last stage those of all stages, in the order of the graph, its own last. `squares`: offset of the first. */
    size_t squares, square_count, squares_before;
    /* What it receives, and the gradients that it sends: offsets within a slot, the same for every size; lists are
     * parallel to the stage's, each with one entry more: where its values end. */
    size_t *takes;              /* stash */
    size_t *grad_in, *grad_out; /* gradient frame; edges of one value have one place */
    gp_sized *sized;
    int sized_count;
    bool consumes;      /* the backward has the updates, each as soon as its gradient is complete; no gradient stays */
    int kept;           /* outputs of layers that it keeps although it recomputes, and that spare something */
    gp_routine refresh; /* masters → working copies */
    gp_routine norm, clip; /* empty where no norms are found; clip, but on the last stage */
    /* If it has replicas: where its gradients begin, how many bytes they are in all, and where the others' parts of its
     * own shard lie: bucket by bucket, and in each replica by replica. */
    size_t grads, grads_bytes, parts;
    size_t scatter; /* likewise: the collective of the first bucket */
    /* If its replicas share out the updates (gp_stage_shards): where each shard begins, and the last one ends; the
     * update of its own shard; the end of the masters of trained parameters. Where norms are found, besides: the sums
     * of all blocks of squares of its gradients, of `square_block` bytes each. */
    bool shards;
    gp_shard_cut *cuts; /* [replicas + 1] */
    gp_routine update;
    size_t trained_end;
    size_t square_block, blocks, block_count;

    /* The stage's part of its worker's arena. */
    size_t base;                                           /* from the arena's start */
    size_t fixed;                                          /* bytes of what outlives the step */
    size_t frame_base[GP_FRAMES], frame_stride[GP_FRAMES]; /* from the stage's start */
    int slots[GP_FRAMES];
    size_t bytes;                /* of all but the transient area, which the worker's stages share */
    size_t transient, workspace; /* of the routine that takes most of both together, but for evaluations */
    size_t evaluation;           /* transients and workspaces of the evaluation that takes most */
    size_t alive;                /* of gp_routine, of the routine that has most */
    size_t memory[GP_MEMORY_KINDS];
} gp_stage_plan;

/* What lies in one of so many buckets, as bytes from where the stage's gradients begin; bucket 0 is the last part. */
gp_share gp_stage_plan_bucket(const gp_stage_plan *plan, int bucket, int buckets);
/* The part of a bucket that a replica adds up, likewise: what the bucket has of its shard. Parts begin where everything
 * is aligned. */
gp_share gp_stage_plan_part(const gp_stage_plan *plan, const gp_stages *stages, int bucket, int replica);
/* Where another replica's gradients of that part lie, from the stage's start. */
size_t gp_stage_plan_others(const gp_stage_plan *plan, const gp_stages *stages, int bucket, int replica, int other);
/* If the stage shards: the gradients of a replica's shard, as bytes from where the gradients begin; the masters that it
 * updates, and the sums of blocks that it finds, as bytes from the stage's start. */
gp_share gp_stage_plan_shard(const gp_stage_plan *plan, int replica);
gp_share gp_stage_plan_masters(const gp_stage_plan *plan, int replica);
gp_share gp_stage_plan_blocks(const gp_stage_plan *plan, int replica);

/* A size of micro-batch, and which programs meet it. */
typedef struct gp_micro_size {
    int64_t samples;
    bool training, evaluation;
} gp_micro_size;

/* What all stages are planned with. */
typedef struct gp_stage_request {
    const gp_stages *stages;
    gp_op_cache *cache;
    gp_types types;
    gp_update update;
    double clip_norm;
    bool predict;
    bool unfused, unshared;
    size_t squares_before; /* of the stages before this one */
    int max_pieces;        /* micro-batches of the longest program: statistics */
    int64_t full_samples;  /* of the full micro-batch; replicas share it out */
    bool trains;           /* some program does; else there are neither gradients nor optimizer state */
    const bool *keeps;     /* [node] see gp_plan_request; NULL: none */
    bool any_keep;         /* some of the stage's forwards keep */
    bool any_discard;      /* some in training do not */
    bool any_whole;        /* some program's backwards are for inputs and weights together */
    bool any_split;        /* some program splits its backwards into halves */
    bool repeats;          /* some mini-batch that trains has several micro-batches */
    bool consumes;         /* see gp_stage_plan */
    const gp_micro_size *sizes;
    int size_count;
} gp_stage_request;

/* Fills a zeroed plan whose stage, worker and spec are set; slots and base are the memory plan's (plan/memory.h).
 * GP_CONFIG with the layer's place for what a layer refuses, GP_UNSUPPORTED for what the device cannot do. On failure
 * the caller still calls gp_stage_plan_fini. */
GP_MUST_USE gp_status gp_stage_plan_init(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err);
void gp_stage_plan_fini(gp_stage_plan *plan);

/* Of a value for so many samples. */
size_t gp_value_bytes(const gp_graph *graph, int value, int64_t samples);
/* Makes the stage's transient area large enough for a routine. */
void gp_stage_plan_fit(gp_stage_plan *plan, const gp_routine *routine);

const gp_param_plan *gp_stage_plan_param(const gp_stage_plan *plan, int param); /* NULL: another stage's */

/* A backward op that only makes gradients that no op needs: of inputs with nothing trained before them, of parameters
 * that are not trained. */
bool gp_lowered_is_dead(const gp_graph *graph, int node, const gp_lowered_op *op);

/* The routines of a mini-batch: the loss's total (empty but on the last stage) and the step (commits and updates).
 * `samples`: of each micro-batch but the last. */
GP_MUST_USE gp_status gp_stage_mini_batch(const gp_stage_plan *plan, const gp_stage_request *request, int pieces,
                                          int64_t samples, int64_t last, bool training, gp_routine *total,
                                          gp_routine *step, gp_error *err);

/* The sum of the replicas' gradients in a bucket, of a mini-batch of which the first `terms` replicas have samples. */
GP_MUST_USE gp_status gp_stage_reduce(const gp_stage_plan *plan, const gp_stage_request *request, int bucket, int terms,
                                      gp_routine *out, gp_error *err);

#endif
