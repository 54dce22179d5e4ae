/* The sum of the replicas' gradients, of one replica's own part of a bucket: from the first replica to the last that
 * has one. A replica without a sample of the mini-batch has no gradient, but a part that it adds up. And after the last
 * bucket, if replicas share out the updates, the sums of the shard's blocks of squares: no replica has all gradients.
 */
#include <stdlib.h>

#include "compile/stage_internal.h"

/* The sum of one bucket. */
typedef struct adder {
    const gp_stage_plan *plan;
    const gp_stage_request *request;
    int bucket, replica;
    gp_share part;
    gp_staged_list list;
} adder;

/* Where a replica's gradients of the part lie: the own ones with all gradients, the others' apart. */
static gp_staged_operand part_of(const adder *a, int replica) {
    if (replica == a->replica) return gp_stage_fixed(a->plan->grads + (size_t)a->part.first);
    return gp_stage_fixed(gp_stage_plan_others(a->plan, a->request->stages, a->bucket, a->replica, replica));
}

static gp_staged_op new_op(void) {
    gp_staged_op op = {.node = -1, .always = true};
    for (int i = 0; i < GP_MAX_OPERANDS; i++) op.operand[i].thing = -1;
    return op;
}

/* The only part is another replica's. */
static gp_status stage_copy(adder *a, gp_error *err) {
    gp_staged_op op = new_op();
    op.operand[GP_COPY_X] = part_of(a, 0);
    op.operand[GP_COPY_Y] = part_of(a, a->replica);
    GP_RETURN_IF_FAILED(
        gp_stage_prepare_flat(a->plan, a->request, GP_OP_COPY, (size_t)a->part.count, &op.prepared, err));
    return gp_staged_add(&a->list, op, err);
}

/* The sum so far lies over the first part, until the last addition puts it where the own part lies, or would lie. */
static gp_status stage_addition(adder *a, int replica, int terms, gp_error *err) {
    gp_staged_op op = new_op();
    op.operand[GP_ADD_A] = part_of(a, 0);
    op.operand[GP_ADD_B] = part_of(a, replica);
    op.operand[GP_ADD_Y] = part_of(a, replica == terms - 1 ? a->replica : 0);
    GP_RETURN_IF_FAILED(
        gp_stage_prepare_flat(a->plan, a->request, GP_OP_ADD, (size_t)a->part.count, &op.prepared, err));
    return gp_staged_add(&a->list, op, err);
}

static gp_status stage_sum(adder *a, int terms, gp_error *err) {
    if (a->part.count == 0) return GP_OK;
    if (terms == 1 && a->replica > 0) return stage_copy(a, err);
    for (int r = 1; r < terms; r++) GP_RETURN_IF_FAILED(stage_addition(a, r, terms, err));
    return GP_OK;
}

static gp_status stage_blocks(adder *a, gp_error *err) {
    const gp_stage_plan *plan = a->plan;
    for (int i = 0; i < plan->param_count; i++)
        if (plan->params[i].trained && plan->params[i].own.count > 0)
            GP_RETURN_IF_FAILED(gp_stage_square_blocks(plan, a->request, &plan->params[i], &a->list, err));
    return GP_OK;
}

gp_status gp_stage_reduce(const gp_stage_plan *plan, const gp_stage_request *request, int bucket, int terms,
                          gp_routine *out, gp_error *err) {
    const gp_stage *stage = gp_stage_of(plan, request);
    adder a = {.plan = plan, .request = request, .bucket = bucket, .replica = stage->replica};
    a.part = gp_stage_plan_part(plan, request->stages, bucket, stage->replica);
    bool squares = plan->shards && request->stages->norms && bucket == stage->buckets - 1;
    gp_status status = stage_sum(&a, terms, err);
    if (status == GP_OK && squares) status = stage_blocks(&a, err);
    if (status == GP_OK) status = gp_routine_build(&a.list, NULL, NULL, 0, request->unshared, NULL, out, err);
    free(a.list.items);
    return status;
}
