/* The buffers that a stage's ops name at one size of micro-batch, before they have a place.
 *
 * Forward's things come first (values taken and made, sides, temporaries), so that backward and recompute name the same
 * numbers. Used while a stage is compiled; one thread.
 */
#ifndef GP_COMPILE_STAGE_THINGS_H
#define GP_COMPILE_STAGE_THINGS_H

#include "compile/stage_internal.h"

typedef struct gp_stage_compiler {
    const gp_stage_plan *plan;
    const gp_stage_request *request;
    const gp_graph *graph;
    const gp_stage *stage;
    int64_t samples;
    gp_stage_lowering lowering;
    gp_thing *things; /* sizes; places are given per routine */
    size_t thing_count, thing_capacity;
    int *value_thing; /* by position: values taken here, then outputs of the stage's nodes; −1: none (the loss) */
    int *first_side;  /* [node of the stage]: thing of its side 0; the others follow */
    gp_staged_list forward, evaluate, backward;
    int *grad_in, *grad_out; /* things, parallel to the stage's lists */
    bool *kept;              /* [thing] saved from forward to backward */
    bool *at_hand; /* [thing] kept in the stash, so that recomputing finds it there; none of them is in `kept` */
    int *copies;   /* [gives] thing that is the stash's of a value that is kept and leaves; −1: none */
    bool *held;    /* [thing] saved or a gradient: read by the backward for weights, if the backward is split */
} gp_stage_compiler;

GP_MUST_USE gp_status gp_stage_compiler_init(gp_stage_compiler *compiler, const gp_stage_plan *plan,
                                             const gp_stage_request *request, int64_t micro_batch, bool trains,
                                             gp_error *err);
void gp_stage_compiler_fini(gp_stage_compiler *compiler);

GP_MUST_USE gp_status gp_compiler_thing(gp_stage_compiler *compiler, size_t bytes, int *out, gp_error *err);
/* Position of a value in value_thing; −1 if the stage neither takes nor makes it. */
int gp_compiler_position(const gp_stage_compiler *compiler, int value);
/* The thing of a value that the stage takes or makes; −1 where it does neither. */
int gp_compiler_value(const gp_stage_compiler *compiler, int value);
/* That of a node of the stage, counted from its first one. */
static inline int gp_compiler_output(const gp_stage_compiler *compiler, int node) {
    return compiler->value_thing[(int)compiler->stage->takes.count + node];
}

/* Whether the stage may keep a node's output although it recomputes. */
bool gp_compiler_keeps(const gp_stage_compiler *compiler, int node);

/* The temporaries of one pass of a node; *first is the thing of temporary 0. */
GP_MUST_USE gp_status gp_compiler_temps(gp_stage_compiler *compiler, int node, int *first, gp_error *err);
/* Gradients of one node while its backward ops are staged. */
typedef struct gp_node_grads {
    int output;  /* thing; −1: none */
    int *inputs; /* [input]: thing of its share; −1: not needed or not made */
} gp_node_grads;

/* Prepares an op, sets its operands, and stages before it the reorders of parameters that are not stored in its format.
 * grads: NULL in a forward pass; shares of inputs that the op writes are made. The op itself is the caller's to add. */
GP_MUST_USE gp_status gp_compiler_resolve(gp_stage_compiler *compiler, int node, int op_index, int first_temp,
                                          gp_node_grads *grads, gp_staged_list *list, gp_staged_op *out, gp_error *err);

/* Stages the ops of FORWARD or EVALUATE. */
GP_MUST_USE gp_status gp_compiler_forward(gp_stage_compiler *compiler, gp_pass pass, gp_staged_list *list,
                                          gp_error *err);
/* Stages the backward pass: gradients of values fold from the last user to the first, shares of parameters add up. */
GP_MUST_USE gp_status gp_compiler_backward(gp_stage_compiler *compiler, gp_error *err);
/* Puts the update of each parameter into the backward pass; after fusing. */
GP_MUST_USE gp_status gp_compiler_consume(gp_stage_compiler *compiler, gp_error *err);
/* Has the device do groups of ops as one where it can, in all three lists: the same bits. */
GP_MUST_USE gp_status gp_compiler_fuse(gp_stage_compiler *compiler, gp_error *err);

#endif
