/* Stages and the copies between them: what a partition makes of a graph.
 *
 * A value that is used on another stage than its producer's is copied straight to each using stage, once per stage
 * however many layers use it there (torchgpipe's portals; Caffe's copy layers). Its gradient folds from its last user
 * to its first: each using stage receives the partial sum of the using stage after it, adds its own users' shares last
 * to first, and passes it on; the first using stage sends it to the producer. Input and target are loaded where they
 * are used.
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
    GP_EDGE_FLAG, /* the loss and whether it is finite: from the last stage to each other one, once per mini-batch */
    GP_EDGE_NORM, /* squares of a stage's gradients: from each other stage to the last one, once per mini-batch */
} gp_edge_kind;

typedef struct gp_edge {
    gp_edge_kind kind;
    int value;        /* −1: flag, norm; in a chain without a graph the number of the stage that makes it */
    int from, to;     /* stages */
    int64_t elements; /* per sample; 0: flag, norm */
} gp_edge;

/* A list of numbers, owned by what holds it. */
typedef struct gp_indices {
    int *items;
    size_t count, capacity;
} gp_indices;

typedef struct gp_stage {
    int first_node, node_count; /* of the graph; the last stage has the loss too */
    bool loads_input, loads_target;
    gp_indices takes;   /* values used here and made elsewhere, input and target included; ascending */
    gp_indices gives;   /* values made here and used on later stages; ascending */
    gp_indices in, out; /* edges: activations and skips */
    gp_indices grad_in, grad_out;
    int flag_in; /* edge; −1: none (the last stage) */
    gp_indices flag_out;
    int norm_out; /* edge; −1: none (the last stage, or nobody asks for norms) */
    gp_indices norm_in;
} gp_stage;

typedef struct gp_stages {
    const gp_graph *graph; /* NULL: a chain without one */
    int count;
    gp_stage *stage;
    int *stage_of_node; /* NULL likewise */
    bool norms;         /* training finds the norm of the gradients */
    gp_edge *edges;     /* activations and skips by (to, value); then gradients; then flags; then norms */
    size_t edge_count, edge_capacity;
} gp_stages;

/* layers[i] ≥ 1 layers on stage i; their sum is the graph's layer_count (GP_CONFIG without a place where not). */
GP_MUST_USE gp_status gp_stages_create(const gp_graph *graph, const int64_t *layers, int count, gp_stages **out,
                                       gp_error *err);
/* A chain without a graph, for programs that are only played: from each stage one activation to the next and one
 * gradient back, and flags. */
GP_MUST_USE gp_status gp_stages_create_chain(int count, gp_stages **out, gp_error *err);
/* Has training find the norm of all gradients together, before any program is made: adds the edges. */
GP_MUST_USE gp_status gp_stages_add_norms(gp_stages *stages, gp_error *err);
void gp_stages_destroy(gp_stages **stages);
const char *gp_edge_kind_name(gp_edge_kind kind);
/* Flags and norms: go with the last micro-batch of a mini-batch that trains, between fixed places, not slots. */
static inline bool gp_edge_is_fixed(const gp_edge *edge) {
    return edge->value < 0;
}

GP_MUST_USE gp_status gp_indices_add(gp_indices *indices, int item, gp_error *err);
/* Position of an item; −1 where it is not there. */
int gp_indices_find(const gp_indices *indices, int item);
void gp_indices_fini(gp_indices *indices);

#endif
