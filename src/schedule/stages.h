/* Stages, the copies between them, and their collectives: what a partition makes of a graph.
 *
 * A value that is used on another stage than its producer's is copied straight to each using stage, once per stage
 * however many layers use it there (torchgpipe's portals; Caffe's copy layers). Its gradient folds from its last user
 * to its first: each using stage receives the partial sum of the using stage after it, adds its own users' shares last
 * to first, and passes it on; the first using stage sends it to the producer. Input and target are loaded where they
 * are used.
 *
 * A collective carries a few numbers of each mini-batch that trains. Contributors post their parts, collectors copy
 * them: a gather has one collector, its root, a broadcast has one contributor. An all-reduce is a gather, a fold on the
 * root in the order of the graph (the routines `clip` and `total`), and a broadcast. No part is added to another one
 * before all are there, so that a sum depends neither on the cut, nor on the transport, nor on who comes first. One
 * member folds, so that the others need no memory for the parts of all.
 *
 * The loss stands on the last stage, so its total needs no gather. Losses on several stages would each contribute to
 * one. A parameter with uses on several stages would contribute one part for each use, in order of use.
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

/* How parts go from one member to another: members are threads of this process, and read one another's memory. */
typedef enum gp_transport { GP_TRANSPORT_THREADS } gp_transport;

/* Stages that take part in collectives. */
typedef struct gp_group {
    gp_indices stages; /* in the order of the graph */
    gp_transport transport;
} gp_group;

typedef enum gp_collective_kind { GP_COLLECTIVE_GATHER, GP_COLLECTIVE_BROADCAST } gp_collective_kind;

/* What a collective carries: squares of gradients; or the loss, whether it is finite, and how much to clip. */
typedef enum gp_part_kind { GP_PART_SQUARES, GP_PART_SCALARS } gp_part_kind;

/* A member posts or collects, and does so once in a mini-batch. */
typedef struct gp_collective {
    gp_collective_kind kind;
    gp_part_kind part;
    const gp_group *group;
    int root; /* stage: of a gather the only collector, of a broadcast the only contributor */
    gp_indices contributors, collectors; /* stages, in the order of the group */
} gp_collective;

typedef struct gp_stage {
    int first_node, node_count; /* of the graph; the last stage has the loss too */
    bool loads_input, loads_target;
    gp_indices takes;   /* values used here and made elsewhere, input and target included; ascending */
    gp_indices gives;   /* values made here and used on later stages; ascending */
    gp_indices in, out; /* edges: activations and skips */
    gp_indices grad_in, grad_out;
} gp_stage;

typedef struct gp_stages {
    const gp_graph *graph; /* NULL: a chain without one */
    int count;
    gp_stage *stage;
    int *stage_of_node; /* NULL likewise */
    bool norms;         /* training finds the norm of the gradients */
    gp_edge *edges;     /* activations and skips by (to, value); then gradients */
    size_t edge_count, edge_capacity;
    gp_group all;
    gp_collective *collectives; /* in the order in which each worker takes part in them; a single stage has none */
    size_t collective_count, collective_capacity;
} gp_stages;

/* layers[i] ≥ 1 layers on stage i; their sum is the graph's layer_count (GP_CONFIG without a place where not). */
GP_MUST_USE gp_status gp_stages_create(const gp_graph *graph, const int64_t *layers, int count, gp_stages **out,
                                       gp_error *err);
/* A chain without a graph, for programs that are only played: from each stage one activation to the next and one
 * gradient back, and the broadcast of the scalars. */
GP_MUST_USE gp_status gp_stages_create_chain(int count, gp_stages **out, gp_error *err);
/* Has training find the norm of all gradients together, before any program is made: adds the gather of the squares. */
GP_MUST_USE gp_status gp_stages_add_norms(gp_stages *stages, gp_error *err);
void gp_stages_destroy(gp_stages **stages);
const char *gp_edge_kind_name(gp_edge_kind kind);
const char *gp_collective_kind_name(gp_collective_kind kind);
const char *gp_part_kind_name(gp_part_kind part);
const char *gp_transport_name(gp_transport transport);
/* The stage of the loss: root of the collectives. */
static inline int gp_stages_root(const gp_stages *stages) {
    return stages->count - 1;
}

GP_MUST_USE gp_status gp_indices_add(gp_indices *indices, int item, gp_error *err);
/* Position of an item; −1 where it is not there. */
int gp_indices_find(const gp_indices *indices, int item);
void gp_indices_fini(gp_indices *indices);

#endif
