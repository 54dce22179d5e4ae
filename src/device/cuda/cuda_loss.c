/* Cross-entropy, losses of single elements, total of the loss. */
#include "device/cuda/cuda_sums.h"

/* ---- cross entropy ----------------------------------------------------------------------------------------------- */

/* Threads that share a row: each has eight classes or so. */
static int64_t team_of(gp_rows x) {
    int64_t team = 1;
    while (team < 32 && 8 * team < x.width) team *= 2;
    return team;
}

static int64_t blocks_of(gp_rows x) {
    int64_t rows = GP_KERNEL_LOSS_THREADS / team_of(x);
    return (x.count + rows - 1) / rows;
}

static void book_cross_entropy_forward(gp_prepared *prepared) {
    gp_cuda_sum_book(prepared, blocks_of(gp_rows_of(&prepared->desc.operand[GP_CROSS_ENTROPY_FORWARD_X])), 2);
}

static gp_kernel_cross_entropy_args cross_entropy_args(const gp_cuda_call *call) {
    const gp_cross_entropy_attributes *attributes = &call->prepared->desc.attributes.cross_entropy;
    gp_rows x = gp_cuda_rows(call, GP_NAME_X);
    return (gp_kernel_cross_entropy_args){.x = gp_cuda_view(call, GP_NAME_X),
                                          .target = gp_cuda_at(call, GP_NAME_TARGET),
                                          .rows = x.count,
                                          .classes = x.width,
                                          .team = team_of(x),
                                          .ignore = attributes->ignore,
                                          .smoothing = attributes->smoothing};
}

static gp_status run_cross_entropy_forward(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_cross_entropy_args args = cross_entropy_args(call);
    int64_t blocks = blocks_of(gp_cuda_rows(call, GP_NAME_X));
    args.partial = gp_cuda_sum_partial(call, blocks, gp_cuda_at(call, GP_NAME_PARTIAL));
    gp_cuda_launch launch =
        gp_cuda_launch_blocks(GP_KERNEL_cross_entropy_forward, blocks, GP_KERNEL_LOSS_THREADS, &args, sizeof args);
    gp_cuda_reads_inputs(&launch, call);
    gp_cuda_writes_bytes(&launch, args.partial, (size_t)(2 * blocks) * sizeof(double));
    GP_RETURN_IF_FAILED(gp_cuda_enqueue(call, &launch, err));
    return gp_cuda_sum_combine(call, blocks, 2, GP_NAME_PARTIAL, err);
}

const gp_cuda_op gp_cuda_cross_entropy_forward = {.book = book_cross_entropy_forward, .run = run_cross_entropy_forward};

static gp_status run_cross_entropy_backward(const gp_cuda_call *call, gp_error *err) {
    const gp_step_scalars *scalars = gp_cuda_at(call, GP_NAME_SCALARS);
    gp_kernel_cross_entropy_args args = cross_entropy_args(call);
    args.divisor = &scalars->divisor;
    args.dx = gp_cuda_view(call, GP_NAME_DX);
    gp_cuda_launch launch =
        gp_cuda_launch_blocks(GP_KERNEL_cross_entropy_backward, blocks_of(gp_cuda_rows(call, GP_NAME_X)),
                              GP_KERNEL_LOSS_THREADS, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_cross_entropy_backward = {.run = run_cross_entropy_backward};

/* ---- losses of single elements ----------------------------------------------------------------------------------- */

static void book_element_loss_forward(gp_prepared *prepared) {
    gp_cuda_sum_book(prepared, gp_cuda_sum_blocks(gp_rows_of(&prepared->desc.operand[GP_ELEMENT_LOSS_FORWARD_X])), 2);
}

static gp_status run_element_loss_forward(const gp_cuda_call *call, gp_error *err) {
    return gp_cuda_sum_elements(call, GP_KERNEL_element_loss_sum, call->prepared->desc.attributes.element_loss.function,
                                2, GP_NAME_PARTIAL, err);
}

const gp_cuda_op gp_cuda_element_loss_forward = {.book = book_element_loss_forward, .run = run_element_loss_forward};

/* ---- the step's loss --------------------------------------------------------------------------------------------- */

static gp_status run_loss_total(const gp_cuda_call *call, gp_error *err) {
    gp_rows pieces = gp_cuda_rows(call, GP_NAME_PARTIAL);
    gp_step_scalars *scalars = gp_cuda_at(call, GP_NAME_SCALARS);
    gp_loss_total_attributes total = call->prepared->desc.attributes.loss_total;
    if (total.replicas == 0) total = (gp_loss_total_attributes){1, 1, 1};
    gp_kernel_loss_total_args args = {.partial = gp_cuda_at(call, GP_NAME_PARTIAL),
                                      .pieces = pieces.count,
                                      .pitch = pieces.pitch,
                                      .replicas = total.replicas,
                                      .full = total.full,
                                      .last = total.last,
                                      .loss = &scalars->loss_sum,
                                      .right = &scalars->right,
                                      .finite = &scalars->finite};
    gp_cuda_launch launch = gp_cuda_launch_blocks(GP_KERNEL_loss_total, 1, 1, &args, sizeof args);
    return gp_cuda_enqueue_op(call, &launch, err);
}

const gp_cuda_op gp_cuda_loss_total = {.run = run_loss_total};
