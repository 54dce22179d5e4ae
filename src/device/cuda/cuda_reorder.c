/* Weights of convolutions from one format into another. */
#include "device/cuda/cuda_move.h"
#include "device/cuda/cuda_ops.h"

static bool is_weights(const gp_tensor *t) {
    bool known = t->format == GP_FORMAT_PLAIN || t->format == GP_CUDA_FORMAT_CHANNELS_LAST;
    return known && t->rank == 4 && t->dtype == GP_F32 && gp_tensor_contiguous(t);
}

static gp_status prepare_reorder(gp_prepared *prepared, gp_error *err) {
    const gp_tensor *x = &prepared->desc.operand[GP_REORDER_X], *y = &prepared->desc.operand[GP_REORDER_Y];
    if (x->format == GP_FORMAT_PLAIN && y->format == GP_FORMAT_PLAIN) return gp_op_prepare_plain(prepared, "cuda", err);
    if (!is_weights(x) || !is_weights(y))
        return gp_fail(err, GP_UNSUPPORTED,
                       "cuda: reorder takes contiguous F32 weights of four dimensions in formats 0 and %d",
                       GP_CUDA_FORMAT_CHANNELS_LAST);
    for (int i = 0; i < 2; i++) {
        prepared->operand[i].format = prepared->desc.operand[i].format;
        prepared->operand[i].bytes = gp_tensor_bytes(&prepared->desc.operand[i]);
    }
    return GP_OK;
}

static gp_status run_reorder(const gp_cuda_call *call, gp_error *err) {
    const gp_tensor *x = &call->prepared->desc.operand[GP_REORDER_X], *y = &call->prepared->desc.operand[GP_REORDER_Y];
    if (x->format == y->format) return gp_cuda_copy_plain(call, GP_REORDER_Y, GP_REORDER_X, err);
    int64_t channels = x->dim[1], places = x->dim[2] * x->dim[3];
    int64_t rows = x->format == GP_FORMAT_PLAIN ? channels : places, columns = channels * places / rows;
    return gp_cuda_transpose(call, GP_REORDER_Y, GP_REORDER_X,
                             (gp_kernel_transpose_args){.outer = x->dim[0],
                                                        .rows = rows,
                                                        .columns = columns,
                                                        .y_outer = rows * columns,
                                                        .y_pitch = rows,
                                                        .x_outer = rows * columns,
                                                        .x_pitch = columns},
                             err);
}

const gp_cuda_op gp_cuda_reorder = {.prepare = prepare_reorder, .run = run_reorder};
