/* Convolutions and products, through a library's plan. Gradients of weights and biases: the weights' through a
 * library's plan, the bias's as sums down the columns of dy. No library's own way does both in one pass over dy that is
 * known to be there while planning, and adds up. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cuda/cuda_columns.h"

/* Positions of dy and db, of convolutions and of products alike. */
enum { DY = GP_CONV_BACKWARD_WEIGHTS_DY, DB = GP_CONV_BACKWARD_WEIGHTS_DB };
_Static_assert((int)DY == (int)GP_LINEAR_BACKWARD_WEIGHTS_DY && (int)DB == (int)GP_LINEAR_BACKWARD_WEIGHTS_DB,
               "the operands of both kinds lie alike");

typedef struct weights {
    gp_prepared product; /* without the bias */
    gp_kernel_columns columns;
    size_t partial; /* offset in the workspace */
} weights;

static size_t partial_bytes(const gp_kernel_columns *columns) {
    return (size_t)(columns->blocks * columns->width) * sizeof(double);
}

static gp_status prepare_bias(gp_prepared *prepared, weights *self, gp_error *err) {
    const gp_tensor *dy = &prepared->desc.operand[DY];
    gp_rows rows;
    if (!gp_rows_find(dy, &rows))
        return gp_fail(err, GP_UNSUPPORTED, "cuda: %s: the rows of operand dy must have equal distances",
                       gp_op_name(prepared->desc.kind));
    self->columns = gp_cuda_columns_summed(1, rows.count, rows.width);
    self->partial = gp_op_book(prepared, partial_bytes(&self->columns));
    prepared->operand[DB].bytes = gp_tensor_bytes(&prepared->desc.operand[DB]);
    return GP_OK;
}

static void release_weights(gp_prepared *prepared) {
    weights *self = prepared->context;
    if (!self) return;
    gp_cuda->plan_destroy(self->product.context);
    free(self);
    prepared->context = NULL;
}

static gp_status prepare_weights(gp_prepared *prepared, gp_error *err) {
    weights *self;
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    gp_prepared *product = &self->product;
    product->desc = prepared->desc;
    memset(&product->desc.operand[DB], 0, sizeof product->desc.operand[DB]);
    gp_status status = gp_cuda->plan_create(product, err);
    if (status != GP_OK) {
        free(self);
        return status;
    }
    prepared->context = self;
    prepared->workspace = product->workspace;
    memcpy(prepared->operand, product->operand, sizeof prepared->operand);
    if (prepared->desc.operand[DB].present) status = prepare_bias(prepared, self, err);
    if (status != GP_OK) release_weights(prepared);
    return status;
}

static gp_status sum_bias(const gp_cuda_call *call, const weights *self, gp_error *err) {
    const gp_kernel_columns *columns = &self->columns;
    double *partial = (double *)(void *)((char *)call->workspace + self->partial);
    gp_kernel_bias_sums_args sums = {.columns = *columns, .x = gp_cuda_view(call, GP_NAME_DY), .partial = partial};
    gp_cuda_launch launch = gp_cuda_columns_launch(GP_KERNEL_bias_sums, columns, &sums, sizeof sums);
    gp_cuda_reads(&launch, call, GP_NAME_DY);
    gp_cuda_writes_bytes(&launch, partial, partial_bytes(columns));
    GP_RETURN_IF_FAILED(gp_cuda_enqueue(call, &launch, err));
    gp_kernel_bias_total_args total = {.columns = *columns,
                                       .partial = partial,
                                       .y = call->operand[DB],
                                       .accumulate = (call->prepared->desc.flags & GP_OP_ACCUMULATE) != 0};
    launch = gp_cuda_columns_combine(GP_KERNEL_bias_total, columns, &total, sizeof total);
    gp_cuda_reads_bytes(&launch, partial, partial_bytes(columns));
    gp_cuda_writes(&launch, call, GP_NAME_DB);
    return gp_cuda_enqueue(call, &launch, err);
}

static gp_status run_weights(const gp_cuda_call *call, gp_error *err) {
    const weights *self = call->prepared->context;
    void *operand[GP_MAX_OPERANDS];
    memcpy(operand, call->operand, (size_t)call->prepared->desc.operands * sizeof *operand);
    operand[DB] = NULL;
    GP_RETURN_IF_FAILED(gp_cuda->plan_run(call->library, &self->product, operand, call->workspace, err));
    return call->operand[DB] ? sum_bias(call, self, err) : GP_OK;
}

const gp_cuda_op gp_cuda_conv_backward_weights = {
    .prepare = prepare_weights, .run = run_weights, .release = release_weights};
const gp_cuda_op gp_cuda_linear_backward_weights = {
    .prepare = prepare_weights, .run = run_weights, .release = release_weights};

/* ---- what a library's plan does alone ---------------------------------------------------------------------------- */

static gp_status prepare_plan(gp_prepared *prepared, gp_error *err) {
    return gp_cuda->plan_create(prepared, err);
}

static gp_status run_plan(const gp_cuda_call *call, gp_error *err) {
    return gp_cuda->plan_run(call->library, call->prepared, call->operand, call->workspace, err);
}

static void release_plan(gp_prepared *prepared) {
    if (prepared->context) gp_cuda->plan_destroy(prepared->context);
}

const gp_cuda_op gp_cuda_conv_forward = {.prepare = prepare_plan, .run = run_plan, .release = release_plan};
const gp_cuda_op gp_cuda_conv_backward_data = {.prepare = prepare_plan, .run = run_plan, .release = release_plan};
const gp_cuda_op gp_cuda_linear_forward = {.prepare = prepare_plan, .run = run_plan, .release = release_plan};
const gp_cuda_op gp_cuda_linear_backward_data = {.prepare = prepare_plan, .run = run_plan, .release = release_plan};
