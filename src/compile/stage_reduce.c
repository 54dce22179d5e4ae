/* The sum of the replicas' gradients, of one replica's own shard: from the first replica to the last that has one. A
 * replica without a sample of the mini-batch has no gradient, but a shard that it adds up. And the sums of the shard's
 * blocks of squares, if replicas share out the updates: none of them has all gradients. */
#include <stdlib.h>

#include "compile/stage_internal.h"

/* The part of a replica: the stage's own lies with its gradients, the others behind one another. */
static gp_staged_operand part_of(const gp_stage_plan *plan, const gp_stage *stage, gp_share shard, int replica) {
    if (replica == stage->replica) return gp_stage_fixed(plan->grads + (size_t)shard.first);
    int others = replica - (replica > stage->replica);
    return gp_stage_fixed(plan->parts + (size_t)others * (size_t)shard.count);
}

static gp_staged_op new_op(void) {
    gp_staged_op op = {.node = -1, .always = true};
    for (int i = 0; i < GP_MAX_OPERANDS; i++) op.operand[i].thing = -1;
    return op;
}

/* The only part is another replica's. */
static gp_status stage_copy(const gp_stage_plan *plan, const gp_stage_request *request, gp_staged_list *list,
                            gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    gp_share shard = gp_stage_plan_shard(plan, request->stages, stage->replica);
    gp_staged_op op = new_op();
    op.operand[GP_COPY_X] = part_of(plan, stage, shard, 0);
    op.operand[GP_COPY_Y] = part_of(plan, stage, shard, stage->replica);
    GP_RETURN_IF_FAILED(gp_stage_prepare_flat(plan, request, GP_OP_COPY, (size_t)shard.count, &op.prepared, err));
    return gp_staged_add(list, op, err);
}

/* The sum so far lies over the first part, until the last addition puts it where the own part lies, or would lie. */
static gp_status stage_addition(const gp_stage_plan *plan, const gp_stage_request *request, int replica, int terms,
                                gp_staged_list *list, gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    gp_share shard = gp_stage_plan_shard(plan, request->stages, stage->replica);
    gp_staged_op op = new_op();
    op.operand[GP_ADD_A] = part_of(plan, stage, shard, 0);
    op.operand[GP_ADD_B] = part_of(plan, stage, shard, replica);
    op.operand[GP_ADD_Y] = part_of(plan, stage, shard, replica == terms - 1 ? stage->replica : 0);
    GP_RETURN_IF_FAILED(gp_stage_prepare_flat(plan, request, GP_OP_ADD, (size_t)shard.count, &op.prepared, err));
    return gp_staged_add(list, op, err);
}

gp_status gp_stage_reduce(const gp_stage_plan *plan, const gp_stage_request *request, int terms, gp_routine *out,
                          gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    bool none = gp_stage_plan_shard(plan, request->stages, stage->replica).count == 0;
    gp_staged_list list = {0};
    gp_status status = GP_OK;
    if (terms == 1 && stage->replica > 0 && !none) status = stage_copy(plan, request, &list, err);
    for (int r = 1; r < terms && !none && status == GP_OK; r++)
        status = stage_addition(plan, request, r, terms, &list, err);
    for (int i = 0; i < plan->param_count && plan->shards && request->stages->norms && status == GP_OK; i++)
        if (plan->params[i].trained && plan->params[i].own.count > 0)
            status = gp_stage_square_blocks(plan, request, &plan->params[i], &list, err);
    if (status == GP_OK) status = gp_routine_build(&list, NULL, NULL, 0, request->unshared, NULL, out, err);
    free(list.items);
    return status;
}
