#include "device/cuda/cuda_ops.h"
#include "device/cuda/cuda_sums.h"

static void book_square_sum(gp_prepared *prepared) {
    gp_cuda_sum_book(prepared, gp_cuda_sum_blocks(gp_rows_of(&prepared->desc.operand[GP_SQUARE_SUM_X])), 1);
}

static gp_status run_square_sum(const gp_cuda_call *call, gp_error *err) {
    return gp_cuda_sum_elements(call, GP_KERNEL_square_sum, GP_SQUARE_SUM_X, -1, 0, 1, GP_SQUARE_SUM_SUM, err);
}

const gp_cuda_op gp_cuda_square_sum = {.book = book_square_sum, .run = run_square_sum};

static gp_status run_clip_total(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_step_scalars *scalars = call->operand[GP_CLIP_TOTAL_SCALARS];
    gp_kernel_clip_total_args args = {.squares = call->operand[GP_CLIP_TOTAL_SQUARES],
                                      .count = desc->operand[GP_CLIP_TOTAL_SQUARES].dim[0],
                                      .limit = desc->attributes.clip.max_norm,
                                      .norm = &scalars->grad_norm,
                                      .clip = &scalars->clip,
                                      .finite = &scalars->finite};
    gp_cuda_launch launch = gp_cuda_launch_blocks(GP_KERNEL_clip_total, 1, 1, &args, sizeof args);
    gp_cuda_reads(&launch, call, GP_CLIP_TOTAL_SQUARES);
    gp_cuda_writes(&launch, call, GP_CLIP_TOTAL_SCALARS);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_clip_total = {.run = run_clip_total};
