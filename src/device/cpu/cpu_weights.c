/* Gradients of weights and biases. oneDNN finds those of the weights. What is one long sum per channel is added up
 * here, in f64: the gradient of a bias, and the weights of a 1x1 convolution whose channels are convolved each by
 * itself. oneDNN adds both up in f32, from element to element. */
#include "base/memory.h"
#include "device/cpu/cpu_loops.h"
#include "device/cpu/cpu_onednn.h"
#include "device/cpu/cpu_ops.h"

/* Positions of dy and db, of convolutions and of linear layers alike. */
enum { DY = GP_CONV_BACKWARD_WEIGHTS_DY, DB = GP_CONV_BACKWARD_WEIGHTS_DB };
_Static_assert((int)DY == (int)GP_LINEAR_BACKWARD_WEIGHTS_DY && (int)DB == (int)GP_LINEAR_BACKWARD_WEIGHTS_DB,
               "the operands of both kinds lie alike");

/* The bias's sums use the workspace once the weights' are done with it. */
static gp_status prepare_bias(gp_prepared *prepared, gp_error *err) {
    const gp_tensor *dy = &prepared->desc.operand[DY];
    gp_rows rows;
    if (!prepared->desc.operand[DB].present) return GP_OK;
    if (!gp_rows_find(dy, &rows)) {
        return gp_fail(err, GP_UNSUPPORTED, "cpu: %s: the rows of operand dy must have equal distances",
                       gp_op_name(prepared->desc.kind));
    }
    size_t bytes = gp_align_up(gp_cpu_column_sum_bytes(rows), GP_ALIGNMENT);
    if (prepared->workspace < bytes) prepared->workspace = bytes;
    return GP_OK;
}

static void run_bias(const gp_cpu_call *call) {
    if (!call->operand[DB]) return;
    gp_rows dy = gp_cpu_rows(call, DY);
    call->loops->column_sum(call->pool, (gp_column_sum){.x = call->operand[DY],
                                                        .x_pitch = dy.pitch,
                                                        .rows = dy.count,
                                                        .width = dy.width,
                                                        .partial = call->workspace,
                                                        .out = call->operand[DB],
                                                        .out_stride = 1,
                                                        .accumulate = call->prepared->desc.flags & GP_OP_ACCUMULATE});
}

static gp_status with_bias(gp_prepared *prepared, gp_status status, gp_error *err) {
    if (status == GP_OK) status = prepare_bias(prepared, err);
    if (status != GP_OK) gp_cpu_onednn_release(prepared);
    return status;
}

/* dw[c] = Σ x[r,c]·dy[r,c]: one factor for each channel, at places of x that follow one another. */
static bool is_product_of_columns(const gp_op_desc *desc) {
    const gp_conv_attributes *conv = &desc->attributes.conv;
    const gp_tensor *dw = &desc->operand[GP_CONV_BACKWARD_WEIGHTS_DW];
    gp_rows rows;
    for (int d = 0; d < 2; d++)
        if (conv->kernel[d] != 1 || conv->stride[d] != 1 || conv->pad[d] != 0) return false;
    return conv->groups == dw->dim[0] && dw->dim[1] == 1 &&
           (dw->format == GP_FORMAT_PLAIN || dw->format == GP_FORMAT_ANY) && !(desc->flags & GP_OP_ACCUMULATE) &&
           gp_rows_find(&desc->operand[GP_CONV_BACKWARD_WEIGHTS_X], &rows) && gp_rows_find(&desc->operand[DY], &rows);
}

static gp_status prepare_conv(gp_prepared *prepared, gp_error *err) {
    if (!is_product_of_columns(&prepared->desc)) return with_bias(prepared, gp_cpu_conv_prepare(prepared, err), err);
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cpu", err));
    gp_op_book(prepared, gp_cpu_column_sum_bytes(gp_rows_of(&prepared->desc.operand[DY])));
    return GP_OK;
}

static void run_product_of_columns(const gp_cpu_call *call) {
    gp_cpu_views at;
    gp_cpu_find_views(call, &at);
    call->loops->column_sum(call->pool, (gp_column_sum){.x = at.x.at,
                                                        .y = at.dy.at,
                                                        .x_pitch = at.x.rows.pitch,
                                                        .y_pitch = at.dy.rows.pitch,
                                                        .rows = at.dy.rows.count,
                                                        .width = at.dy.rows.width,
                                                        .partial = call->workspace,
                                                        .out = at.dw.at,
                                                        .out_stride = at.dw.tensor->stride[0]});
}

static gp_status run(const gp_cpu_call *call, gp_error *err) {
    if (call->prepared->context)
        GP_RETURN_IF_FAILED(gp_cpu_onednn_run(call, err));
    else
        run_product_of_columns(call);
    run_bias(call);
    return GP_OK;
}

static gp_status prepare_linear(gp_prepared *prepared, gp_error *err) {
    return with_bias(prepared, gp_cpu_linear_prepare(prepared, err), err);
}

const gp_cpu_op gp_cpu_conv_backward_weights = {.prepare = prepare_conv, .run = run, .release = gp_cpu_onednn_release};
const gp_cpu_op gp_cpu_linear_backward_weights = {
    .prepare = prepare_linear, .run = run, .release = gp_cpu_onednn_release};
