/* Frames and routines of a stage for one size of micro-batch. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/recompute.h"
#include "compile/stage_things.h"

_Static_assert((int)GP_RECOMPUTE_OPERANDS == (int)GP_MAX_OPERANDS, "an op's uses fit");

/* What the checkpoint room needs to know of staged ops. */
static gp_status list_uses(const gp_staged_list *list, gp_op_use **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(out, list->count, err));
    for (size_t o = 0; o < list->count; o++) {
        const gp_staged_op *op = &list->items[o];
        gp_op_use *use = &(*out)[o];
        use->always = op->always;
        for (int i = 0; i < GP_MAX_OPERANDS; i++) {
            int thing = op->operand[i].thing;
            if (thing < 0) continue;
            if (gp_op_reads(op->prepared->desc.kind, i)) use->reads[use->read_count++] = thing;
            if (gp_op_writes(op->prepared->desc.kind, i)) use->writes[use->write_count++] = thing;
        }
    }
    return GP_OK;
}

/* Which ops of each list run in a training step. */
typedef struct selection {
    bool *backward, *recompute;
    bool *input, *weight; /* of backward, where it is split */
} selection;

/* ---- outputs that a stage keeps although it recomputes ----------------------------------------------------------- */

/* They stand in the stash, from each forward to the micro-batch's backward. A value that also leaves is sent from
 * another place, since a receive may still read it then: `copies`. */
static gp_status find_kept(gp_stage_compiler *c, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&c->copies, c->stage->gives.count, err));
    for (size_t i = 0; i < c->stage->gives.count; i++) {
        int value = c->stage->gives.items[i];
        c->copies[i] = -1;
        if (!gp_compiler_keeps(c, c->graph->values[value].producer)) continue;
        size_t bytes = c->things[gp_compiler_value(c, value)].bytes;
        GP_RETURN_IF_FAILED(gp_compiler_thing(c, bytes, &c->copies[i], err));
    }
    GP_RETURN_IF_FAILED(GP_NEW(&c->at_hand, c->thing_count, err));
    for (int n = 0; n < c->stage->node_count; n++)
        if (gp_compiler_keeps(c, c->stage->first_node + n)) c->at_hand[gp_compiler_output(c, n)] = true;
    return GP_OK;
}

/* After all other ops of the forward pass. */
static gp_status copy_kept(gp_stage_compiler *c, gp_error *err) {
    for (size_t i = 0; i < c->stage->gives.count; i++) {
        int thing = gp_compiler_value(c, c->stage->gives.items[i]);
        if (!c->at_hand[thing]) continue;
        gp_staged_op op = gp_staged_new(-1);
        op.operand[GP_COPY_X].thing = thing;
        op.operand[GP_COPY_Y].thing = c->copies[i];
        GP_RETURN_IF_FAILED(
            gp_stage_prepare_flat(c->plan, c->request, GP_OP_COPY, c->things[thing].bytes, &op.prepared, err));
        GP_RETURN_IF_FAILED(gp_staged_add(&c->forward, op, err));
    }
    return GP_OK;
}

/* ---- which ops run ----------------------------------------------------------------------------------------------- */

/* Leaves in `run` the ops that recompute runs, and in `kept` the outputs that are kept and that no op leaves anyway. */
static void select_recompute(gp_stage_compiler *c, gp_op_use *forward, bool *scratch, bool *run) {
    for (size_t o = 0; o < c->forward.count; o++) {
        forward[o].always = false;
        if (c->forward.items[o].once) forward[o].write_count = 0;
    }
    gp_recompute_keep(forward, c->forward.count, c->kept, c->thing_count, c->at_hand, scratch, run);
    for (size_t t = 0; t < c->thing_count; t++) c->kept[t] = c->kept[t] && !c->at_hand[t];
}

/* *kept: how many outputs of layers are kept although the stage recomputes. */
static gp_status select_ops(gp_stage_compiler *c, selection *out, int *kept, gp_error *err) {
    gp_op_use *forward = NULL, *backward = NULL;
    bool *needed = NULL, *scratch = NULL;
    gp_status status = list_uses(&c->forward, &forward, err);
    if (status == GP_OK) status = list_uses(&c->backward, &backward, err);
    if (status == GP_OK) status = GP_NEW(&needed, c->thing_count, err);
    if (status == GP_OK) status = GP_NEW(&scratch, c->thing_count, err);
    if (status == GP_OK) status = GP_NEW(&c->kept, c->thing_count, err);
    if (status == GP_OK) status = GP_NEW(&out->backward, c->backward.count, err);
    if (status == GP_OK) status = GP_NEW(&out->recompute, c->forward.count + c->stage->gives.count, err);
    if (status == GP_OK) {
        for (size_t i = 0; i < c->stage->grad_out.count; i++) needed[c->grad_out[i]] = true;
        gp_recompute_select(backward, c->backward.count, NULL, needed, out->backward);
        gp_recompute_kept(forward, c->forward.count, backward, c->backward.count, out->backward, c->kept, scratch);
        select_recompute(c, forward, scratch, out->recompute);
        *kept = 0;
        for (size_t t = 0; t < c->thing_count; t++) *kept += c->at_hand[t];
        status = copy_kept(c, err);
    }
    free(forward);
    free(backward);
    free(needed);
    free(scratch);
    return status;
}

/* Which ops each half of a backward that is split runs, and what lives from the one to the other. */
static gp_status split_backward(gp_stage_compiler *c, selection *run, gp_error *err) {
    size_t count = c->backward.count;
    GP_RETURN_IF_FAILED(GP_NEW(&c->held, c->thing_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&run->input, count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&run->weight, count, err));
    bool *made = NULL; /* [thing] by the half for weights itself */
    GP_RETURN_IF_FAILED(GP_NEW(&made, c->thing_count, err));
    for (size_t o = 0; o < count; o++) {
        const gp_staged_op *op = &c->backward.items[o];
        run->input[o] = run->backward[o] && !op->weight;
        run->weight[o] = run->backward[o] && op->weight;
        for (int i = 0; i < GP_MAX_OPERANDS && run->weight[o]; i++) {
            int thing = op->operand[i].thing;
            if (thing < 0) continue;
            if (gp_op_writes(op->prepared->desc.kind, i))
                made[thing] = true;
            else if (!made[thing])
                c->held[thing] = true;
        }
    }
    free(made);
    for (size_t i = 0; i < c->stage->takes.count; i++) c->held[c->value_thing[i]] = false; /* stashed */
    return GP_OK;
}

static gp_address extend(size_t *frame, gp_area area, size_t bytes) {
    size_t offset = *frame;
    *frame += gp_align_up(bytes, GP_ALIGNMENT);
    return (gp_address){area, offset, 0};
}

/* at[thing]: its place in a slot, from the op that makes it to the last that reads it: what comes in and kept outputs
 * in the stash, what backward reads in the saved frame. Gradients that come or go stand in the gradient frame, and
 * after them what one half of a backward leaves to the other. */
static void place_in_slots(const gp_stage_compiler *c, gp_sized *sized, gp_address *at) {
    const gp_stage *stage = c->stage;
    for (size_t t = 0; t < c->thing_count; t++) {
        if (c->kept[t]) at[t] = extend(&sized->frame[GP_FRAME_SAVED], GP_AREA_SAVED, c->things[t].bytes);
        if (c->at_hand[t]) at[t] = extend(&sized->frame[GP_FRAME_STASH], GP_AREA_STASH, c->things[t].bytes);
    }
    for (size_t i = 0; i < stage->grad_in.count; i++)
        at[c->grad_in[i]] = (gp_address){GP_AREA_GRAD, c->plan->grad_in[i], 0};
    for (size_t i = 0; i < stage->grad_out.count; i++)
        at[c->grad_out[i]] = (gp_address){GP_AREA_GRAD, c->plan->grad_out[i], 0};
    sized->frame[GP_FRAME_GRAD] = c->plan->grad_out[stage->grad_out.count];
    for (size_t t = 0; c->held && t < c->thing_count; t++)
        if (c->held[t] && at[t].area == GP_AREA_NONE)
            at[t] = extend(&sized->frame[GP_FRAME_GRAD], GP_AREA_GRAD, c->things[t].bytes);
}

static gp_status lay_frames(const gp_stage_compiler *c, gp_sized *sized, gp_address *at, gp_error *err) {
    const gp_stage *stage = c->stage;
    GP_RETURN_IF_FAILED(GP_NEW(&sized->gives_outbox, stage->gives.count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&sized->gives_saved, stage->gives.count, err));
    sized->frame[GP_FRAME_STASH] = c->plan->takes[stage->takes.count];
    for (size_t i = 0; i < stage->takes.count; i++)
        at[c->value_thing[i]] = (gp_address){GP_AREA_STASH, c->plan->takes[i], 0};
    for (size_t i = 0; i < stage->gives.count; i++) {
        size_t bytes = c->things[gp_compiler_value(c, stage->gives.items[i])].bytes;
        sized->gives_outbox[i] = extend(&sized->frame[GP_FRAME_OUTBOX], GP_AREA_OUTBOX, bytes).offset;
    }
    if (!sized->training) return GP_OK;
    place_in_slots(c, sized, at);
    for (size_t i = 0; i < stage->gives.count; i++) {
        int thing = gp_compiler_value(c, stage->gives.items[i]);
        sized->gives_saved[i] = at[thing].offset;
        if (!c->kept[thing] && c->request->any_keep)
            sized->gives_saved[i] = extend(&sized->frame[GP_FRAME_SAVED], GP_AREA_SAVED, c->things[thing].bytes).offset;
    }
    return GP_OK;
}

static bool is_backward(gp_routine_kind kind) {
    return kind == GP_ROUTINE_BACKWARD || kind == GP_ROUTINE_BACKWARD_INPUT || kind == GP_ROUTINE_BACKWARD_WEIGHT;
}

/* Whether a routine finds a thing at its place in a slot. A whole backward leaves nothing to another half. */
static bool is_in_slot(const gp_stage_compiler *c, gp_routine_kind kind, size_t thing, const gp_address *at) {
    switch (at->area) {
    case GP_AREA_STASH: return kind != GP_ROUTINE_EVALUATE || !c->at_hand || !c->at_hand[thing];
    case GP_AREA_SAVED: return kind == GP_ROUTINE_KEEP || kind == GP_ROUTINE_RECOMPUTE || is_backward(kind);
    case GP_AREA_GRAD:
        return is_backward(kind) &&
               (kind != GP_ROUTINE_BACKWARD || at->offset < c->plan->grad_out[c->stage->grad_out.count]);
    default: return false;
    }
}

/* Places for the things of one routine; all others are the builder's. What lives only until this routine ends can be
 * overwritten in it. */
static void place_things(const gp_stage_compiler *c, const gp_sized *sized, const gp_address *at, gp_routine_kind kind,
                         gp_thing *things) {
    const gp_stage *stage = c->stage;
    memcpy(things, c->things, c->thing_count * sizeof *things);
    for (size_t t = 0; t < c->thing_count; t++) {
        if (!is_in_slot(c, kind, t, &at[t])) continue;
        things[t].at = at[t];
        things[t].overwritable =
            is_backward(kind) && at[t].area != GP_AREA_STASH && !(kind == GP_ROUTINE_BACKWARD_INPUT && c->held[t]);
    }
    for (size_t i = 0; i < stage->gives.count; i++) {
        gp_thing *thing = &things[gp_compiler_value(c, stage->gives.items[i])];
        if (kind != GP_ROUTINE_EVALUATE && sized->training && c->copies[i] >= 0 && thing->at.area == GP_AREA_STASH)
            things[c->copies[i]].at = thing->at;
        if (kind == GP_ROUTINE_KEEP) thing->at = (gp_address){GP_AREA_SAVED, sized->gives_saved[i], 0};
        if (kind == GP_ROUTINE_DISCARD || kind == GP_ROUTINE_EVALUATE)
            thing->at = (gp_address){GP_AREA_OUTBOX, sized->gives_outbox[i], 0};
        thing->overwritable = false; /* others may still be pulling it */
    }
    for (size_t i = 0; i < stage->grad_out.count && is_backward(kind); i++) things[c->grad_out[i]].overwritable = false;
}

/* The values that may still be pulled from the saved frame, where the routine does not make them. */
static gp_status find_pulled(const gp_stage_compiler *c, const gp_sized *sized, gp_packed **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(out, c->stage->gives.count, err));
    for (size_t i = 0; i < c->stage->gives.count; i++) {
        size_t bytes = c->things[gp_compiler_value(c, c->stage->gives.items[i])].bytes;
        (*out)[i] = (gp_packed){sized->gives_saved[i], gp_align_up(bytes, GP_ALIGNMENT), INT64_MIN, INT64_MAX};
    }
    return GP_OK;
}

/* The half of a backward for weights leaves the saved frame as it is. */
static bool has_spare(gp_routine_kind kind) {
    return kind == GP_ROUTINE_KEEP || kind == GP_ROUTINE_RECOMPUTE || kind == GP_ROUTINE_BACKWARD ||
           kind == GP_ROUTINE_BACKWARD_INPUT;
}

static gp_status build(const gp_stage_compiler *c, gp_sized *sized, const gp_address *at, gp_routine_kind kind,
                       const gp_staged_list *list, const bool *run, gp_error *err) {
    gp_thing *things = NULL;
    gp_packed *pulled = NULL;
    gp_status status = GP_NEW(&things, c->thing_count, err);
    if (status == GP_OK && has_spare(kind)) status = find_pulled(c, sized, &pulled, err);
    if (status == GP_OK) {
        const gp_spare spare = {.bytes = sized->frame[GP_FRAME_SAVED],
                                .written = is_backward(kind),
                                .taken = pulled,
                                .taken_count =
                                    c->request->any_keep && kind != GP_ROUTINE_KEEP ? c->stage->gives.count : 0};
        place_things(c, sized, at, kind, things);
        status = gp_routine_build(list, run, things, c->thing_count, c->request->unshared,
                                  has_spare(kind) ? &spare : NULL, &sized->routine[kind], err);
    }
    free(pulled);
    free(things);
    return status;
}

/* An evaluation's transients have an area of their own. */
static void move_to_evaluation(gp_routine *routine) {
    for (size_t o = 0; o < routine->count; o++) {
        gp_exec_op *op = &routine->ops[o];
        for (int i = 0; i < GP_MAX_OPERANDS; i++)
            if (op->operand[i].area == GP_AREA_TRANSIENT) op->operand[i].area = GP_AREA_EVALUATE;
        if (op->workspace.area == GP_AREA_TRANSIENT) op->workspace.area = GP_AREA_EVALUATE;
    }
}

static gp_status compile_training(gp_stage_compiler *c, gp_sized *sized, const gp_address *at, const selection *run,
                                  gp_error *err) {
    if (c->request->any_keep) GP_RETURN_IF_FAILED(build(c, sized, at, GP_ROUTINE_KEEP, &c->forward, NULL, err));
    if (c->request->any_discard) {
        GP_RETURN_IF_FAILED(build(c, sized, at, GP_ROUTINE_DISCARD, &c->forward, NULL, err));
        GP_RETURN_IF_FAILED(build(c, sized, at, GP_ROUTINE_RECOMPUTE, &c->forward, run->recompute, err));
    }
    if (c->request->any_split) {
        GP_RETURN_IF_FAILED(build(c, sized, at, GP_ROUTINE_BACKWARD_INPUT, &c->backward, run->input, err));
        GP_RETURN_IF_FAILED(build(c, sized, at, GP_ROUTINE_BACKWARD_WEIGHT, &c->backward, run->weight, err));
    }
    if (!c->request->any_whole) return GP_OK;
    return build(c, sized, at, GP_ROUTINE_BACKWARD, &c->backward, run->backward, err);
}

gp_status gp_stage_compile(gp_stage_plan *plan, const gp_stage_request *request, gp_sized *sized, gp_error *err) {
    gp_stage_compiler c;
    selection run = {0};
    gp_address *at = NULL;
    gp_status status = gp_stage_compiler_init(&c, plan, request, sized->micro_batch, sized->training, err);
    if (status == GP_OK && sized->training) status = gp_compiler_forward(&c, GP_PASS_FORWARD, &c.forward, err);
    if (status == GP_OK && sized->training) status = gp_compiler_backward(&c, err);
    if (status == GP_OK && sized->evaluation) status = gp_compiler_forward(&c, GP_PASS_EVALUATE, &c.evaluate, err);
    if (status == GP_OK && !request->unfused) status = gp_compiler_fuse(&c, err);
    if (status == GP_OK && sized->training && plan->consumes) status = gp_compiler_consume(&c, err);
    if (status == GP_OK && sized->training) status = find_kept(&c, err);
    if (status == GP_OK && sized->training) status = select_ops(&c, &run, &plan->kept, err);
    if (status == GP_OK && sized->training && request->any_split) status = split_backward(&c, &run, err);
    if (status == GP_OK) status = GP_NEW(&at, c.thing_count, err);
    if (status == GP_OK) status = lay_frames(&c, sized, at, err);
    if (status == GP_OK && sized->training) status = compile_training(&c, sized, at, &run, err);
    if (status == GP_OK && sized->evaluation)
        status = build(&c, sized, at, GP_ROUTINE_EVALUATE, &c.evaluate, NULL, err);
    if (status == GP_OK && sized->evaluation) move_to_evaluation(&sized->routine[GP_ROUTINE_EVALUATE]);
    free(at);
    free(run.input);
    free(run.weight);
    free(run.backward);
    free(run.recompute);
    gp_stage_compiler_fini(&c);
    return status;
}
