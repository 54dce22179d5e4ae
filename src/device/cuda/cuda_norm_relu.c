/* Batch norm with the addition and the relu behind it. The blocks of rows are those of the parts, and so are the bits.
 */
#include "device/cuda/cuda_columns.h"
#include "device/cuda/cuda_ops.h"

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static gp_status run_norm_apply_relu(const gp_cuda_call *call, gp_error *err) {
    const float *addend = call->operand[GP_NORM_APPLY_RELU_ADDEND];
    const int rows[] = {GP_NORM_APPLY_RELU_X, GP_NORM_APPLY_RELU_Y, addend ? GP_NORM_APPLY_RELU_ADDEND : -1};
    bool four = gp_cuda_by_four(call, rows, 3);
    gp_kernel_norm_apply_relu_args args = {.apply = {.columns = gp_cuda_columns_over(call, four),
                                                     .by_four = four,
                                                     .x = call->operand[GP_NORM_APPLY_RELU_X],
                                                     .mean = call->operand[GP_NORM_APPLY_RELU_MEAN],
                                                     .variance = call->operand[GP_NORM_APPLY_RELU_VARIANCE],
                                                     .gamma = call->operand[GP_NORM_APPLY_RELU_GAMMA],
                                                     .beta = call->operand[GP_NORM_APPLY_RELU_BETA],
                                                     .y = call->operand[GP_NORM_APPLY_RELU_Y],
                                                     .x_pitch = gp_cuda_rows(call, GP_NORM_APPLY_RELU_X).pitch,
                                                     .y_pitch = gp_cuda_rows(call, GP_NORM_APPLY_RELU_Y).pitch,
                                                     .eps = call->prepared->desc.attributes.norm.eps},
                                           .addend = addend,
                                           .addend_pitch =
                                               addend ? gp_cuda_rows(call, GP_NORM_APPLY_RELU_ADDEND).pitch : 0};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_norm_apply_relu, &args.apply.columns, &args, sizeof args);
    for (int i = GP_NORM_APPLY_RELU_X; i <= GP_NORM_APPLY_RELU_ADDEND; i++) gp_cuda_reads(&launch, call, i);
    gp_cuda_writes(&launch, call, GP_NORM_APPLY_RELU_Y);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_apply_relu = {.run = run_norm_apply_relu};

/* ---- gradients of gamma and beta --------------------------------------------------------------------------------- */

static gp_status run_norm_relu_backward_reduce(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    gp_kernel_norm_relu_products_args args = {
        .products = {.columns = gp_cuda_columns_of(desc),
                     .x = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_X],
                     .dy = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_DY],
                     .mean = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_MEAN],
                     .x_pitch = gp_cuda_rows(call, GP_NORM_RELU_BACKWARD_REDUCE_X).pitch,
                     .dy_pitch = gp_cuda_rows(call, GP_NORM_RELU_BACKWARD_REDUCE_DY).pitch,
                     .partial = call->workspace},
        .variance = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_VARIANCE],
        .gamma = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_GAMMA],
        .beta = call->operand[GP_NORM_RELU_BACKWARD_REDUCE_BETA],
        .eps = desc->attributes.norm.eps};
    const gp_kernel_columns *columns = &args.products.columns;
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_norm_relu_products, columns, &args, sizeof args);
    for (int i = GP_NORM_RELU_BACKWARD_REDUCE_X; i <= GP_NORM_RELU_BACKWARD_REDUCE_BETA; i++)
        gp_cuda_reads(&launch, call, i);
    gp_cuda_writes_bytes(&launch, call->workspace, gp_cuda_columns_bytes(columns));
    GP_RETURN_IF_FAILED(gp_cuda_enqueue(call, &launch, err));
    return gp_cuda_columns_totals(call, columns, GP_NORM_RELU_BACKWARD_REDUCE_VARIANCE,
                                  GP_NORM_RELU_BACKWARD_REDUCE_SUMS, err);
}

const gp_cuda_op gp_cuda_norm_relu_backward_reduce = {.book = gp_cuda_columns_book,
                                                      .run = run_norm_relu_backward_reduce};

static gp_status run_norm_add_relu_backward_reduce(const gp_cuda_call *call, gp_error *err) {
    gp_kernel_norm_relu_products_args args = {
        .products = {.columns = gp_cuda_columns_of(&call->prepared->desc),
                     .x = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_X],
                     .dy = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY],
                     .mean = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN],
                     .x_pitch = gp_cuda_rows(call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_X).pitch,
                     .dy_pitch = gp_cuda_rows(call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY).pitch,
                     .partial = call->workspace},
        .y = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y],
        .dz = call->operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ],
        .y_pitch = gp_cuda_rows(call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y).pitch,
        .dz_pitch = gp_cuda_rows(call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ).pitch};
    const gp_kernel_columns *columns = &args.products.columns;
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_norm_relu_products, columns, &args, sizeof args);
    for (int i = GP_NORM_ADD_RELU_BACKWARD_REDUCE_X; i <= GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN; i++)
        gp_cuda_reads(&launch, call, i);
    gp_cuda_writes(&launch, call, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ);
    gp_cuda_writes_bytes(&launch, call->workspace, gp_cuda_columns_bytes(columns));
    GP_RETURN_IF_FAILED(gp_cuda_enqueue(call, &launch, err));
    return gp_cuda_columns_totals(call, columns, GP_NORM_ADD_RELU_BACKWARD_REDUCE_VARIANCE,
                                  GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS, err);
}

const gp_cuda_op gp_cuda_norm_add_relu_backward_reduce = {.book = gp_cuda_columns_book,
                                                          .run = run_norm_add_relu_backward_reduce};

/* ---- gradient of the input --------------------------------------------------------------------------------------- */

static gp_status run_norm_relu_backward_data(const gp_cuda_call *call, gp_error *err) {
    const gp_op_desc *desc = &call->prepared->desc;
    const int rows[] = {GP_NORM_RELU_BACKWARD_DATA_X, GP_NORM_RELU_BACKWARD_DATA_DY, GP_NORM_RELU_BACKWARD_DATA_DX};
    const float *sums = call->operand[GP_NORM_RELU_BACKWARD_DATA_SUMS];
    bool four = gp_cuda_by_four(call, rows, 3);
    gp_kernel_norm_relu_backward_args args = {
        .backward = {.columns = gp_cuda_columns_over(call, four),
                     .by_four = four,
                     .x = call->operand[GP_NORM_RELU_BACKWARD_DATA_X],
                     .dy = call->operand[GP_NORM_RELU_BACKWARD_DATA_DY],
                     .mean = call->operand[GP_NORM_RELU_BACKWARD_DATA_MEAN],
                     .variance = call->operand[GP_NORM_RELU_BACKWARD_DATA_VARIANCE],
                     .gamma = call->operand[GP_NORM_RELU_BACKWARD_DATA_GAMMA],
                     .products = sums,
                     .sums = sums + desc->operand[GP_NORM_RELU_BACKWARD_DATA_SUMS].stride[0],
                     .dx = call->operand[GP_NORM_RELU_BACKWARD_DATA_DX],
                     .x_pitch = gp_cuda_rows(call, GP_NORM_RELU_BACKWARD_DATA_X).pitch,
                     .dy_pitch = gp_cuda_rows(call, GP_NORM_RELU_BACKWARD_DATA_DY).pitch,
                     .dx_pitch = gp_cuda_rows(call, GP_NORM_RELU_BACKWARD_DATA_DX).pitch,
                     .eps = desc->attributes.norm.eps},
        .beta = call->operand[GP_NORM_RELU_BACKWARD_DATA_BETA]};
    gp_cuda_launch launch =
        gp_cuda_columns_launch(GP_KERNEL_norm_relu_backward, &args.backward.columns, &args, sizeof args);
    for (int i = GP_NORM_RELU_BACKWARD_DATA_X; i <= GP_NORM_RELU_BACKWARD_DATA_SUMS; i++)
        gp_cuda_reads(&launch, call, i);
    gp_cuda_writes(&launch, call, GP_NORM_RELU_BACKWARD_DATA_DX);
    return gp_cuda_enqueue(call, &launch, err);
}

const gp_cuda_op gp_cuda_norm_relu_backward_data = {.run = run_norm_relu_backward_data};
