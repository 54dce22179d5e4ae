/* The norm of all gradients together: each parameter's square on its own stage, their sum on the last one. A parameter
 * stands whole on one stage, and the squares add up in the order of the graph, so that no cut changes a bit. A square
 * is a sum of blocks. If replicas share out the gradients, each finds the sums of its own blocks, and the first one
 * adds all of them up. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/stage_internal.h"

static gp_staged_op new_op(void) {
    gp_staged_op op = {.node = -1, .always = true};
    for (int i = 0; i < GP_MAX_OPERANDS; i++) op.operand[i].thing = -1;
    return op;
}

/* In the gradient's own format, whose padding is zero and adds nothing. */
static gp_status stage_square(const gp_stage_plan *plan, const gp_stage_request *request, const gp_param_plan *param,
                              gp_staged_list *list, gp_error *err) {
    gp_staged_op op = new_op();
    op.owner = param->param + 1;
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_SQUARE_SUM);
    desc.operand[GP_SQUARE_SUM_X] = gp_stage_flat_tensor(request, param->grad_bytes);
    op.operand[GP_SQUARE_SUM_X].fixed = (gp_address){GP_AREA_FIXED, param->grad, 0};
    desc.operand[GP_SQUARE_SUM_SUM] = gp_tensor_plain(GP_F64, 1, (const int64_t[]){1});
    op.operand[GP_SQUARE_SUM_SUM].fixed = gp_stage_square_address(plan, request->stages, param);
    GP_RETURN_IF_FAILED(gp_stage_prepare_own(plan, request, &desc, &op.prepared, err));
    return gp_staged_add(list, op, err);
}

gp_status gp_stage_square_blocks(const gp_stage_plan *plan, const gp_stage_request *request, const gp_param_plan *param,
                                 gp_staged_list *list, gp_error *err) {
    bool whole = param->own.count == (int64_t)param->stored;
    size_t first = (size_t)param->own.first, bytes = whole ? param->grad_bytes : (size_t)param->own.count;
    int64_t count = (int64_t)((bytes + plan->square_block - 1) / plan->square_block);
    gp_staged_op op = new_op();
    op.owner = param->param + 1;
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_SQUARE_BLOCKS);
    desc.attributes.blocks.elements = plan->spec.kind->square_block;
    desc.operand[GP_SQUARE_BLOCKS_X] = gp_stage_flat_tensor(request, bytes);
    op.operand[GP_SQUARE_BLOCKS_X] = gp_stage_fixed(param->grad + first);
    desc.operand[GP_SQUARE_BLOCKS_SUMS] = gp_tensor_plain(GP_F64, 1, &count);
    op.operand[GP_SQUARE_BLOCKS_SUMS] =
        gp_stage_fixed(plan->blocks + (param->block + first / plan->square_block) * sizeof(double));
    GP_RETURN_IF_FAILED(gp_stage_prepare_own(plan, request, &desc, &op.prepared, err));
    return gp_staged_add(list, op, err);
}

/* Of sums that all replicas have found. */
static gp_status stage_total(const gp_stage_plan *plan, const gp_stage_request *request, const gp_param_plan *param,
                             gp_staged_list *list, gp_error *err) {
    int64_t count = (int64_t)((param->grad_bytes + plan->square_block - 1) / plan->square_block);
    gp_staged_op op = new_op();
    op.owner = param->param + 1;
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_BLOCKS_TOTAL);
    desc.operand[GP_BLOCKS_TOTAL_SUMS] = gp_tensor_plain(GP_F64, 1, &count);
    op.operand[GP_BLOCKS_TOTAL_SUMS] = gp_stage_fixed(plan->blocks + param->block * sizeof(double));
    desc.operand[GP_BLOCKS_TOTAL_SUM] = gp_tensor_plain(GP_F64, 1, (const int64_t[]){1});
    op.operand[GP_BLOCKS_TOTAL_SUM].fixed = gp_stage_square_address(plan, request->stages, param);
    GP_RETURN_IF_FAILED(gp_stage_prepare_own(plan, request, &desc, &op.prepared, err));
    return gp_staged_add(list, op, err);
}

static gp_status compile_squares(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    gp_staged_list list = {0};
    gp_status status = GP_OK;
    bool finds = gp_stage_of(plan, request)->replica == 0;
    for (int i = 0; i < plan->param_count && finds && status == GP_OK; i++)
        if (plan->params[i].trained)
            status = (plan->shards ? stage_total : stage_square)(plan, request, &plan->params[i], &list, err);
    if (status == GP_OK) status = gp_routine_build(&list, NULL, NULL, 0, request->unshared, NULL, &plan->norm, err);
    free(list.items);
    return status;
}

static gp_status compile_clip(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    int64_t count = (int64_t)(plan->squares_before + plan->square_count);
    if (plan->stage != gp_stages_root(request->stages) || count == 0) return GP_OK;
    gp_staged_list list = {0};
    gp_staged_op op = new_op();
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_CLIP_TOTAL);
    desc.attributes.clip.max_norm = request->clip_norm;
    desc.operand[GP_CLIP_TOTAL_SQUARES] = gp_tensor_plain(GP_F64, 1, &count);
    desc.operand[GP_CLIP_TOTAL_SCALARS] = gp_tensor_scalars();
    op.operand[GP_CLIP_TOTAL_SQUARES] = gp_stage_fixed(plan->squares);
    op.operand[GP_CLIP_TOTAL_SCALARS].fixed = gp_stage_scalars_address(plan);
    gp_status status = gp_stage_prepare_own(plan, request, &desc, &op.prepared, err);
    if (status == GP_OK) status = gp_staged_add(&list, op, err);
    if (status == GP_OK) status = gp_routine_build(&list, NULL, NULL, 0, request->unshared, NULL, &plan->clip, err);
    free(list.items);
    return status;
}

gp_status gp_stage_compile_norm(gp_stage_plan *plan, const gp_stage_request *request, gp_error *err) {
    GP_RETURN_IF_FAILED(compile_squares(plan, request, err));
    return compile_clip(plan, request, err);
}
