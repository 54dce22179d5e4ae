/* Outputs of layers that a stage keeps from the forward pass although it recomputes: they stand in the stash, beside
 * what came in, from each forward to the micro-batch's backward. */
#include "base/memory.h"
#include "compile/stage_things.h"

bool gp_compiler_keeps(const gp_stage_compiler *compiler, int node) {
    const gp_stage_request *request = compiler->request;
    return request->any_discard && request->keeps && request->keeps[node] && compiler->graph->nodes[node].output >= 0;
}

/* What is sent is sent from where all that leaves lies, and may still be pulled when the stash's is read: that is
 * another one. */
static gp_status make_copies(gp_stage_compiler *c, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_NEW(&c->copies, c->stage->gives.count, err));
    for (size_t i = 0; i < c->stage->gives.count; i++) {
        int value = c->stage->gives.items[i];
        c->copies[i] = -1;
        if (!gp_compiler_keeps(c, c->graph->values[value].producer)) continue;
        size_t bytes = c->things[gp_compiler_value(c, value)].bytes;
        GP_RETURN_IF_FAILED(gp_compiler_thing(c, bytes, &c->copies[i], err));
    }
    return GP_OK;
}

gp_status gp_compiler_find_kept(gp_stage_compiler *c, gp_error *err) {
    GP_RETURN_IF_FAILED(make_copies(c, err));
    GP_RETURN_IF_FAILED(GP_NEW(&c->at_hand, c->thing_count, err));
    for (int n = 0; n < c->stage->node_count; n++)
        if (gp_compiler_keeps(c, c->stage->first_node + n)) c->at_hand[gp_compiler_output(c, n)] = true;
    return GP_OK;
}

gp_status gp_compiler_copy_kept(gp_stage_compiler *c, gp_error *err) {
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
