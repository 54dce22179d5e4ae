/* Linear layers and reorders on oneDNN. */
#include "device/cpu/cpu_onednn.h"
#include "device/cpu/cpu_onednn_plan.h"
#include "device/cpu/cpu_loops.h"
#include "device/cpu/cpu_ops.h"

/* Linear layers: matmuls of rows. */

enum { MATMUL_SOURCE, MATMUL_WEIGHTS, MATMUL_RESULT, MATMUL_BIAS, MATMUL_ROLES };

/* A matrix of a product: an operand seen as rows, transposed or not. */
typedef struct matmul_role {
    int operand; /* −1: none */
    bool transposed;
} matmul_role;

static const matmul_role matmul_roles[][MATMUL_ROLES] = {
    /* y[N,out] = x[N,in] · (w[out,in])ᵀ + b */
    {{GP_LINEAR_FORWARD_X, false},
     {GP_LINEAR_FORWARD_W, true},
     {GP_LINEAR_FORWARD_Y, false},
     {GP_LINEAR_FORWARD_B, false}},
    /* dx[N,in] = dy[N,out] · w[out,in] */
    {{GP_LINEAR_BACKWARD_DATA_DY, false},
     {GP_LINEAR_BACKWARD_DATA_W, false},
     {GP_LINEAR_BACKWARD_DATA_DX, false},
     {-1, false}},
    /* dw[out,in] = (dy[N,out])ᵀ · x[N,in] */
    {{GP_LINEAR_BACKWARD_WEIGHTS_DY, true},
     {GP_LINEAR_BACKWARD_WEIGHTS_X, false},
     {GP_LINEAR_BACKWARD_WEIGHTS_DW, false},
     {-1, false}},
};

static const int matmul_slot[MATMUL_ROLES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};

/* Products that take longer than the copies of padded factors. */
static const double worth_padding = 16e6; /* operations */

/* A linear layer is a 1x1 convolution on pictures of one place: its gradients take the same factors with longer rows.
 */
static gp_conv_shape as_conv(const gp_op_desc *desc) {
    const int linear = (int)desc->kind - GP_OP_LINEAR_FORWARD;
    const matmul_role *role = matmul_roles[linear];
    gp_rows first = gp_rows_of(&desc->operand[role[MATMUL_SOURCE].operand]);
    gp_rows second = gp_rows_of(&desc->operand[role[MATMUL_WEIGHTS].operand]);
    /* Forward has in from the first and out from the second factor, both others the other way round. */
    bool forward = linear == 0;
    gp_conv_shape shape = {.n = first.count, .in = forward ? first.width : second.width, .groups = 1};
    shape.out = forward ? second.count : first.width;
    for (int d = 0; d < 2; d++)
        shape.size[d] = shape.outputs[d] = shape.kernel[d] = shape.stride[d] = shape.dilation[d] = 1;
    return shape;
}

static gp_op_kind conv_kind(const gp_op_desc *desc) {
    static const gp_op_kind kinds[] = {GP_OP_CONV_FORWARD, GP_OP_CONV_BACKWARD_DATA, GP_OP_CONV_BACKWARD_WEIGHTS};
    return kinds[(int)desc->kind - GP_OP_LINEAR_FORWARD];
}

static gp_conv_pads pads_of(const gp_op_desc *desc, int threads) {
    const gp_conv_shape shape = as_conv(desc);
    if (gp_conv_flops(&shape) < worth_padding) return (gp_conv_pads){0};
    return gp_conv_padded(&shape, conv_kind(desc), GP_CONV_PRODUCT, gp_conv_isa_now(), threads);
}

/* One, if others would save no more than it takes to wake them. */
static int threads_of(const gp_op_desc *desc) {
    const gp_conv_shape shape = as_conv(desc);
    double alone = gp_conv_expected(&shape, conv_kind(desc), GP_CONV_PRODUCT, gp_conv_isa_now(), 1);
    return alone - alone / desc->threads <= GP_CONV_WAKING ? 1 : (int)desc->threads;
}

static gp_status add_matrix(gp_onednn_plan *plan, const gp_op_desc *desc, const matmul_role *role, int slot,
                            int64_t padding, gp_error *err) {
    gp_rows rows = gp_rows_of(&desc->operand[role->operand]);
    if (gp_rows_dense(rows)) rows.pitch = rows.width;
    const int64_t pitch = rows.width + padding;
    const int64_t dims[2][2] = {{rows.count, rows.width}, {rows.width, rows.count}};
    const int64_t lies[2][2] = {{rows.pitch, 1}, {1, rows.pitch}};
    const int64_t dense[2][2] = {{pitch, 1}, {1, pitch}};
    int turned = role->transposed;
    dnnl_status_t status = gp_onednn_add_operand(plan, slot, role->operand, gp_op_writes(desc->kind, role->operand), 2,
                                                 dims[turned], lies[turned], dense[turned]);
    return status == dnnl_success ? GP_OK : gp_onednn_refused(err, desc, "a description of an operand", status);
}

static gp_status matmul_finish(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const_dnnl_memory_desc_t bias = plan->arguments > MATMUL_BIAS ? plan->argument[MATMUL_BIAS].wanted : NULL;
    dnnl_primitive_attr_t adding = NULL;
    dnnl_primitive_desc_t product = NULL;
    dnnl_status_t status = desc->flags & GP_OP_ACCUMULATE ? gp_onednn_adding_attributes(&adding) : dnnl_success;
    if (status == dnnl_success) {
        status = dnnl_matmul_primitive_desc_create(
            &product, gp_onednn_engine(), plan->argument[MATMUL_SOURCE].wanted, plan->argument[MATMUL_WEIGHTS].wanted,
            bias, plan->argument[MATMUL_RESULT].wanted, adding ? adding : gp_onednn_attributes());
    }
    gp_status result = status == dnnl_success ? gp_onednn_plan_finish(prepared, product, err)
                                              : gp_onednn_refused(err, desc, "the product", status);
    if (product) dnnl_primitive_desc_destroy(product);
    if (adding) dnnl_primitive_attr_destroy(adding);
    return result;
}

static gp_status linear_plan(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const matmul_role *role = matmul_roles[desc->kind - GP_OP_LINEAR_FORWARD];
    const int threads = threads_of(desc);
    const gp_conv_pads pads = pads_of(desc, threads);
    const bool padded[MATMUL_BIAS] = {pads.y, pads.x || pads.weights, false};
    for (int i = 0; i < MATMUL_BIAS; i++)
        GP_RETURN_IF_FAILED(add_matrix(plan, desc, &role[i], matmul_slot[i], padded[i] ? GP_CONV_PAD : 0, err));
    if (role[MATMUL_BIAS].operand >= 0 && desc->operand[role[MATMUL_BIAS].operand].present)
        GP_RETURN_IF_FAILED(add_matrix(plan, desc, &role[MATMUL_BIAS], matmul_slot[MATMUL_BIAS], 0, err));
    gp_onednn_plan_threads(plan, threads);
    return matmul_finish(prepared, plan, err);
}

gp_status gp_cpu_linear_prepare(gp_prepared *prepared, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cpu", err));
    return gp_onednn_plan_make(prepared, linear_plan, err);
}

/* Reorders. */

static int64_t groups_of(const gp_tensor *t) {
    const_dnnl_memory_desc_t layout = NULL;
    if (t->format == GP_FORMAT_PLAIN || gp_onednn_layout_of(t->format, &layout, NULL) != GP_OK) return 1;
    return gp_onednn_rank(layout) == 5 ? gp_onednn_dims(layout)[0] : 1;
}

static gp_status reorder_add(gp_prepared *prepared, gp_onednn_plan *plan, int operand, int64_t groups, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    bool written = operand == GP_REORDER_Y;
    dnnl_memory_desc_t given = NULL, wanted = NULL;
    GP_RETURN_IF_FAILED(
        gp_onednn_given_weights(desc, &desc->operand[operand], groups, desc->operand[operand].format, &given, err));
    gp_status status = gp_onednn_clone_layout(&wanted, given, err);
    gp_onednn_plan_add(plan, written ? DNNL_ARG_TO : DNNL_ARG_FROM, operand, written, given, wanted);
    if (status != GP_OK) return status;
    prepared->operand[operand].format = desc->operand[operand].format;
    prepared->operand[operand].bytes = dnnl_memory_desc_get_size(given);
    return GP_OK;
}

static gp_status reorder_plan(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    int64_t groups = groups_of(&desc->operand[GP_REORDER_X]);
    if (groups == 1) groups = groups_of(&desc->operand[GP_REORDER_Y]);
    GP_RETURN_IF_FAILED(reorder_add(prepared, plan, GP_REORDER_X, groups, err));
    GP_RETURN_IF_FAILED(reorder_add(prepared, plan, GP_REORDER_Y, groups, err));
    gp_onednn_plan_threads(plan, gp_onednn_reorder_threads(desc, prepared->operand[GP_REORDER_X].bytes));
    dnnl_primitive_desc_t reorder;
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&reorder, plan->argument[0].given, gp_onednn_engine(),
                                           plan->argument[1].given, gp_onednn_engine(), gp_onednn_attributes());
    if (status != dnnl_success) return gp_onednn_refused(err, desc, "the reorder", status);
    gp_status result = gp_onednn_plan_finish(prepared, reorder, err);
    dnnl_primitive_desc_destroy(reorder);
    return result;
}

static gp_status prepare_reorder(gp_prepared *prepared, gp_error *err) {
    const gp_tensor *operand = prepared->desc.operand;
    if (operand[GP_REORDER_X].format == GP_FORMAT_PLAIN && operand[GP_REORDER_Y].format == GP_FORMAT_PLAIN)
        return gp_op_prepare_plain(prepared, "cpu", err);
    for (int i = 0; i < 2; i++) {
        if (operand[i].format == GP_FORMAT_ANY || operand[i].rank != 4) {
            return gp_fail(err, GP_UNSUPPORTED,
                           "cpu: reorder takes weights of four dimensions in formats that are known");
        }
    }
    return gp_onednn_plan_make(prepared, reorder_plan, err);
}

/* From plain to plain is a copy, of any dtype and rank. */
static gp_status run_reorder(const gp_cpu_call *call, gp_error *err) {
    if (call->prepared->context) return gp_cpu_onednn_run(call, err);
    call->loops->loop[GP_OP_COPY]->compute(call);
    return GP_OK;
}

const gp_cpu_op gp_cpu_reorder = {.prepare = prepare_reorder, .run = run_reorder, .release = gp_cpu_onednn_release};
const gp_cpu_op gp_cpu_linear_forward = {
    .prepare = gp_cpu_linear_prepare, .run = gp_cpu_onednn_run, .release = gp_cpu_onednn_release};
const gp_cpu_op gp_cpu_linear_backward_data = {
    .prepare = gp_cpu_linear_prepare, .run = gp_cpu_onednn_run, .release = gp_cpu_onednn_release};
