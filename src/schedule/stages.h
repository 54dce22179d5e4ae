/* Stages, the copies between them, and their collectives: what a partition makes of a graph.
 *
 * A value that is used on another stage than its producer's is copied straight to each using stage, once per stage
 * however many layers use it there (torchgpipe's portals; Caffe's copy layers). Its gradient folds from its last user
 * to its first: each using stage receives the partial sum of the using stage after it, adds its own users' shares last
 * to first, and passes it on; the first using stage sends it to the producer. Input and target are loaded where they
 * are used.
 *
 * A stage may have replicas: each has the stage's layers and its own share of every micro-batch (base/share.h).
 * Here and below, every replica is a stage of its own: it has its own worker, program, memory and edges. Replicas of
 * one stage have the same `number`. Each receives what it needs from the replicas that have its samples; so an edge
 * carries the samples that both ends have in common.
 *
 * A collective carries what a mini-batch has found. Contributors post their parts, collectors copy them. A gather has
 * one collector, its root; a broadcast has one contributor, its root. In the others each member contributes and
 * collects. In an exchange it copies the whole parts of all others. In a scatter it copies one shard out of each of
 * them: its own.
 *
 * An all-reduce of a few numbers is a gather, a fold on the root in the order of the graph (the routines `clip` and
 * `total`), and a broadcast. One of gradients is a scatter, a fold of each shard in the order of the replicas (the
 * routine `reduce`), and an exchange of the sums. If replicas share out the optimizer, each updates the parameters of
 * its shard, and what they exchange are these. The sums of blocks of squares, for the norm, go to the stage's first
 * replica, which adds them up.
 *
 * Gradients go in buckets. Each bucket has a scatter, a reduce and an exchange of its own, so that one can travel while
 * the backward pass still makes others: bucket 0 has those of the last parameters, which are complete first. A
 * replica's shard is an equal part of each bucket. If replicas share out the optimizer, it is one stretch of the
 * stage's gradients instead, and buckets have what lies in them of it. No part is added to another one before all are
 * there, so that a sum depends neither on the cut, nor on the transport, nor on who comes first.
 *
 * Within a forward or backward pass that trains, replicas may exchange statistics of batch norm: each group of them
 * computes the pass together, and none ends it before all have begun it. These exchanges are no collectives: they
 * follow from the passes, and stand in no program.
 *
 * The loss stands on the last stage. A parameter with uses on several stages would contribute one part for each use, in
 * order of use.
 *
 * Built from a graph (borrowed) and layers per stage, or without one as a chain; then read-only, any thread.
 */
#ifndef GP_SCHEDULE_STAGES_H
#define GP_SCHEDULE_STAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "model/graph.h"

typedef enum gp_edge_kind {
    GP_EDGE_ACTIVATION, /* to the next stage */
    GP_EDGE_SKIP,       /* to a later one */
    GP_EDGE_GRADIENT,
} gp_edge_kind;

typedef struct gp_edge {
    gp_edge_kind kind;
    int value;        /* in a chain without a graph the number of the stage that makes it */
    int from, to;     /* stages */
    int64_t elements; /* per sample */
} gp_edge;

/* A list of numbers, owned by what holds it. */
typedef struct gp_indices {
    int *items;
    size_t count, capacity;
} gp_indices;

/* How parts go from one member to another. THREADS: members are threads of one process, and read one another's memory.
 * MPI, NCCL: some members are in other processes, on CPUs or on GPUs. */
typedef enum gp_transport { GP_TRANSPORT_THREADS, GP_TRANSPORT_MPI, GP_TRANSPORT_NCCL } gp_transport;

/* Buckets of gradients (bench/results/2026-11-23-buckets.txt). */
enum { GP_BUCKET_BYTES = 4 << 20, GP_MOST_BUCKETS = 16 };

typedef enum gp_collective_kind {
    GP_COLLECTIVE_GATHER,
    GP_COLLECTIVE_BROADCAST,
    GP_COLLECTIVE_SCATTER,
    GP_COLLECTIVE_EXCHANGE,
} gp_collective_kind;

/* What a collective carries. */
typedef enum gp_part_kind {
    GP_PART_SQUARES,    /* of gradients */
    GP_PART_SCALARS,    /* the loss, whether it is finite, and how much to clip */
    GP_PART_LOSSES,     /* of each micro-batch: of the last stage's replicas, to the first of them */
    GP_PART_STATISTICS, /* of each micro-batch: batch norm's */
    GP_PART_GRADIENTS,
    GP_PART_BLOCKS,     /* sums of blocks of squares: of a stage's replicas, to the first of them */
    GP_PART_PARAMETERS, /* that a replica has updated */
} gp_part_kind;

/* A member posts once in a mini-batch if it contributes, and collects once if it collects. */
typedef struct gp_collective {
    gp_collective_kind kind;
    gp_part_kind part;
    gp_transport transport;
    int bucket, buckets;                 /* of gradients: which one, and how many its stage has; else 0 of 1 */
    int root;                            /* stage; −1: none */
    gp_indices contributors, collectors; /* stages, ascending */
    int lowest;                          /* of both */
    size_t places;                       /* number of that member's place */
} gp_collective;

typedef struct gp_stage {
    int number;                 /* of the stage that it is a replica of, in the order of the layers */
    int replica, replicas;      /* which one, and how many that stage has */
    int buckets;                /* that the gradients of replicas go in; 0: it has no replicas */
    size_t scatter;             /* the collective of the first bucket */
    int group;                  /* so many neighbouring replicas compute each pass together; 1: none does */
    int first_node, node_count; /* of the graph; the last stage has the loss too */
    bool loads_input, loads_target;
    gp_indices takes;   /* values used here and made elsewhere, input and target included; ascending */
    gp_indices gives;   /* values made here and used on later stages; ascending */
    gp_indices in, out; /* edges: activations and skips */
    gp_indices grad_in, grad_out;
} gp_stage;

typedef struct gp_stages {
    const gp_graph *graph; /* NULL: a chain without one */
    int count;             /* each replica counts */
    gp_stage *stage;       /* by number, then replica */
    int numbers;           /* each stage counts once, however many replicas it has */
    int *first;            /* [number] its first replica */
    int *stage_of_node;    /* the first replica of the node's stage; NULL: there is no graph */
    bool norms;            /* training finds the norm of the gradients */
    size_t bucket;         /* see gp_stages_request */
    bool shards;           /* replicas of a stage share out its optimizer state, and the updates */
    gp_edge *edges;        /* activations and skips by (to, value); then gradients */
    size_t edge_count, edge_capacity;
    gp_collective *collectives; /* in the order in which each worker takes part in them; a single stage has none */
    size_t collective_count, collective_capacity;
    size_t places; /* of all collectives: each has one for every stage from its lowest member to its highest */
} gp_stages;

typedef struct gp_stages_request {
    const gp_graph *graph;
    const int64_t *layers; /* [numbers] ≥ 1; their sum is the graph's layer_count */
    const int *replicas;   /* [numbers] ≥ 1; NULL: 1 of each */
    int numbers;
    bool shards;            /* see gp_stages */
    size_t bucket;          /* bytes of gradients, about; 0: GP_BUCKET_BYTES. Decides no bit */
    const int64_t *samples; /* sizes of micro-batches: of one of them, both ends of an edge must have a sample */
    int sample_count;
} gp_stages_request;

/* GP_CONFIG without a place where the layers are not those of the graph. */
GP_MUST_USE gp_status gp_stages_create(const gp_stages_request *request, gp_stages **out, gp_error *err);
/* A chain without a graph and replicas, for programs that are only played: from each stage one activation to the next
 * and one gradient back, and the broadcast of the scalars. */
GP_MUST_USE gp_status gp_stages_create_chain(int count, gp_stages **out, gp_error *err);
/* Has training find the norm of all gradients together, before any program is made: with a gather of the squares. */
GP_MUST_USE gp_status gp_stages_add_norms(gp_stages *stages, gp_error *err);
void gp_stages_destroy(gp_stages **stages);
const char *gp_edge_kind_name(gp_edge_kind kind);
const char *gp_collective_kind_name(gp_collective_kind kind);
const char *gp_part_kind_name(gp_part_kind part);
const char *gp_transport_name(gp_transport transport);
enum { GP_STAGE_NAME = 48 };
/* For messages: "stage 1", or "replica 0 of stage 1" if that stage has replicas. `text` is returned. */
char *gp_stage_name(const gp_stages *stages, int stage, char text[GP_STAGE_NAME]);
/* The first replica of the stage of the loss: root of the gathers and broadcasts. */
static inline int gp_stages_root(const gp_stages *stages) {
    return stages->first[stages->numbers - 1];
}
/* Whether the stage updates a part of its parameters, and other replicas the rest. */
static inline bool gp_stage_shards(const gp_stages *stages, int stage) {
    return stages->shards && stages->stage[stage].replicas > 1;
}
/* The first replica of a stage's group. */
static inline int gp_stages_group(const gp_stages *stages, int stage) {
    return stage - stages->stage[stage].replica % stages->stage[stage].group;
}
/* Number of a member's place in a collective, below stages->places: for what is known of each. */
static inline size_t gp_stages_place(const gp_stages *stages, uint32_t collective, int stage) {
    const gp_collective *its = &stages->collectives[collective];
    return its->places + (size_t)(stage - its->lowest);
}
/* The exchange of a bucket's sums, by the collective that scatters the bucket; that one itself: there is none. */
static inline size_t gp_stages_exchange(const gp_stages *stages, size_t scatter) {
    return stages->shards ? scatter : scatter + (size_t)stages->collectives[scatter].buckets;
}
/* The other way round. */
static inline size_t gp_stages_scatter(const gp_stages *stages, size_t exchange) {
    return exchange - (size_t)stages->collectives[exchange].buckets;
}
/* Whether it carries the sums of a bucket. */
static inline bool gp_collective_has_sums(const gp_collective *collective) {
    return collective->kind == GP_COLLECTIVE_EXCHANGE && collective->part == GP_PART_GRADIENTS;
}
/* Whether a collective's member contributes, and collects too. */
static inline bool gp_collective_is_mutual(const gp_collective *collective) {
    return collective->root < 0;
}

GP_MUST_USE gp_status gp_indices_add(gp_indices *indices, int item, gp_error *err);
/* Position of an item; −1 where it is not there. */
int gp_indices_find(const gp_indices *indices, int item);
void gp_indices_fini(gp_indices *indices);

#endif
