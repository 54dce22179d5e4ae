/* Weights of convolutions from one format into another. */
#include "device/cuda/cuda_ops.h"

static bool is_weights(const gp_tensor *t) {
    bool known = t->format == GP_FORMAT_PLAIN || t->format == GP_CUDA_FORMAT_CHANNELS_LAST;
    return known && t->rank == 4 && t->dtype == GP_F32 && gp_tensor_contiguous(t);
}

gp_status gp_cuda_reorder_prepare(gp_prepared *prepared, gp_error *err) {
    const gp_tensor *x = &prepared->desc.operand[GP_COPY_X], *y = &prepared->desc.operand[GP_COPY_Y];
    if (x->format == GP_FORMAT_PLAIN && y->format == GP_FORMAT_PLAIN)
        return gp_fail(err, GP_UNSUPPORTED, "cuda: reorder from plain to plain is not available yet");
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

gp_status gp_cuda_reorder_run(const gp_cuda_call *call, gp_error *err) {
    const gp_tensor *x = &call->prepared->desc.operand[GP_COPY_X], *y = &call->prepared->desc.operand[GP_COPY_Y];
    int64_t channels = x->dim[1], places = x->dim[2] * x->dim[3];
    gp_kernel_transpose_args args = {.y = call->operand[GP_COPY_Y],
                                     .x = call->operand[GP_COPY_X],
                                     .outer = x->dim[0],
                                     .rows = x->format == GP_FORMAT_PLAIN ? channels : places,
                                     .columns = x->format == GP_FORMAT_PLAIN ? places : channels};
    if (x->format == y->format) { /* nothing to turn: one row */
        args.rows *= args.outer * args.columns;
        args.outer = args.columns = 1;
    }
    gp_cuda_launch launch = gp_cuda_launch_items(GP_KERNEL_transpose, gp_tensor_elements(x), &args, sizeof args);
    gp_cuda_writes(&launch, call, GP_COPY_Y);
    gp_cuda_reads(&launch, call, GP_COPY_X);
    return gp_cuda_enqueue(call, &launch, err);
}
