/* Routines: what one instruction makes a device do, as prepared ops with planned addresses.
 *
 * An address is an area of the stage and an offset in it. The areas that have slots (stash, saved, outbox, gradient)
 * stand for slot × stride more, statistics for micro-batch × stride more.
 *
 * gp_routine_build turns a list of ops over things (buffers by number) into a routine. It finds from which op to which
 * each thing lives. A result takes the place of an operand that no later op reads, if the op may overwrite it. All
 * other things without a place are packed (pack.h), workspaces too: into free bytes of the saved frame, else into the
 * transient area.
 *
 * Owned by the stage's plan; read-only once built, any thread.
 */
#ifndef GP_COMPILE_ROUTINE_H
#define GP_COMPILE_ROUTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "compile/pack.h"
#include "device/op.h"
#include "layers/lowering.h"
#include "schedule/access.h"

/* GP_AREA_STASH … GP_AREA_GRAD are gp_frame + 1. */
typedef enum gp_area {
    GP_AREA_NONE, /* absent */
    GP_AREA_STASH,
    GP_AREA_SAVED,
    GP_AREA_OUTBOX,
    GP_AREA_GRAD,
    GP_AREA_FIXED,     /* parameters and all else that outlives the step; offsets from the stage's start */
    GP_AREA_TRANSIENT, /* lives within one instruction */
    GP_AREA_EVALUATE, /* the transients of an evaluation. It begins at the saved slots of the worker's last stage, since
                         an evaluation saves nothing, and goes on into the transient area */
    GP_AREAS
} gp_area;

typedef struct gp_address {
    gp_area area;
    size_t offset;    /* bytes */
    size_t per_micro; /* bytes more per micro-batch (statistics) */
} gp_address;

typedef enum gp_when {
    GP_WHEN_ALWAYS,
    GP_WHEN_FIRST, /* in the mini-batch's first backward: overwrites gradients */
    GP_WHEN_REST,  /* in the others: adds */
} gp_when;

/* What an operand is to its op's node, so that it can be named. */
typedef struct gp_operand_role {
    gp_role role; /* NONE: only the planner knows it */
    int index;
} gp_operand_role;

/* One of several ops that, one after another in the place of the result, do what a whole op does, bit for bit: so that
 * what lies between can be looked at. */
typedef struct gp_part {
    const gp_prepared *prepared;
    int node;
    gp_operand_role role;            /* of what it writes */
    int8_t operand[GP_MAX_OPERANDS]; /* of the whole, that stands at each of the part's; −1: absent */
} gp_part;

enum { GP_MAX_PARTS = 3 };

typedef struct gp_exec_op {
    const gp_prepared *prepared;
    int node;   /* of the graph; −1: none (updates) */
    int beyond; /* the last node whose work it does too, less that one: relu's, in the backward of the norm before it */
    int owner;  /* node −1: the parameter that it is for, counted from 1; 0: none */
    gp_when when;
    gp_address operand[GP_MAX_OPERANDS];
    gp_operand_role role[GP_MAX_OPERANDS];
    gp_address workspace;
    gp_exchange exchange; /* stands before the op; `stats`: in the stage's list */
    int part_count;       /* 0: it is one by itself */
    gp_part part[GP_MAX_PARTS];
} gp_exec_op;

typedef struct gp_routine {
    gp_exec_op *ops;
    size_t count;
    size_t exchanges; /* of its ops, how many have one */
    size_t transient; /* bytes of the transient area that things take */
    size_t workspace; /* what workspaces add to that */
    size_t alive;     /* the most that such things and a workspace are at one op, wherever they lie */
} gp_routine;

void gp_routine_fini(gp_routine *routine);

/* A buffer while a routine is built. */
typedef struct gp_thing {
    size_t bytes;
    gp_address at;     /* area NONE: the builder finds a place in the transient area */
    bool overwritable; /* placed, and dead after its last use in this routine */
} gp_thing;

/* Operand of a staged op: a thing (from byte `first` on), or a fixed address. */
typedef struct gp_staged_operand {
    int thing; /* −1: none */
    size_t first;
    gp_address fixed; /* where thing is −1; NONE: operand absent */
    gp_operand_role role;
} gp_staged_operand;

typedef struct gp_staged_op {
    const gp_prepared *prepared;
    int node, beyond, owner; /* as in gp_exec_op */
    gp_when when;
    bool once;   /* not repeated by a recompute */
    bool always; /* has an effect that no thing shows */
    bool weight; /* belongs to the backward for weights, if the backward is split */
    gp_exchange exchange;
    gp_staged_operand operand[GP_MAX_OPERANDS];
    int part_count;
    gp_part part[GP_MAX_PARTS];
} gp_staged_op;

typedef struct gp_staged_list {
    gp_staged_op *items;
    size_t count, capacity;
} gp_staged_list;

/* An op without operands. */
gp_staged_op gp_staged_new(int node);
GP_MUST_USE gp_status gp_staged_add(gp_staged_list *list, gp_staged_op op, gp_error *err);

/* The saved frame, for a routine that may use its bytes for other things and for workspaces: before it writes a saved
 * thing, and after it has read it for the last time. */
typedef struct gp_spare {
    size_t bytes;           /* of the frame */
    bool written;           /* an earlier routine has written its things; false: this routine writes them */
    const gp_packed *taken; /* more stretches of the frame that are not free; borrowed */
    size_t taken_count;
} gp_spare;

/* Ops with run[i] (if run is NULL, all), in order. things are changed: each that is used gets its place. `spare` NULL:
 * all places are in the transient area. `unshared`: each thing and workspace that is packed has bytes of the transient
 * area to itself; spare is not used. */
GP_MUST_USE gp_status gp_routine_build(const gp_staged_list *list, const bool *run, gp_thing *things,
                                       size_t thing_count, bool unshared, const gp_spare *spare, gp_routine *out,
                                       gp_error *err);

#endif
