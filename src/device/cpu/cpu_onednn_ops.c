/* Which oneDNN primitive each op needs. */
#include "device/cpu/cpu_onednn.h"

#include <string.h>

#include "device/cpu/cpu_onednn_plan.h"
#include "device/cpu/cpu_loops.h"
#include "device/cpu/cpu_ops.h"

static dnnl_status_t describe(int rank, const int64_t *dim, const int64_t *stride, dnnl_memory_desc_t *out) {
    dnnl_dims_t dims, strides;
    for (int d = 0; d < rank; d++) {
        dims[d] = dim[d];
        strides[d] = stride[d];
    }
    return dnnl_memory_desc_create_with_strides(out, rank, dims, dnnl_f32, strides);
}

static int rank_of(const_dnnl_memory_desc_t layout) {
    int rank = 0;
    return dnnl_memory_desc_query(layout, dnnl_query_ndims_s32, &rank) == dnnl_success ? rank : 0;
}

/* Borrowed from the layout. */
static const dnnl_dim_t *dims_of(const_dnnl_memory_desc_t layout) {
    static const dnnl_dims_t none = {0};
    dnnl_dims_t *dims = NULL;
    return dnnl_memory_desc_query(layout, dnnl_query_dims, (void *)&dims) == dnnl_success ? *dims : none;
}

/* The same dimensions in a layout that oneDNN is to choose. */
static dnnl_status_t describe_any(const_dnnl_memory_desc_t like, dnnl_memory_desc_t *out) {
    return dnnl_memory_desc_create_with_tag(out, rank_of(like), dims_of(like), dnnl_f32, dnnl_format_tag_any);
}

/* Weights of a convolution, plain: [out, in/groups, kh, kw], with the groups as a dimension of their own. */
static dnnl_status_t describe_weights(const gp_tensor *w, int64_t groups, dnnl_memory_desc_t *out) {
    const int64_t *dim = w->dim, *stride = w->stride;
    if (groups == 1) return describe(4, dim, stride, out);
    return describe(5, (const int64_t[]){groups, dim[0] / groups, dim[1], dim[2], dim[3]},
                    (const int64_t[]){dim[0] / groups * stride[0], stride[0], stride[1], stride[2], stride[3]}, out);
}

/* An operand that stands in memory as `lies` and that the primitive is to see as `dense`. */
static dnnl_status_t add_operand(gp_onednn_plan *plan, int slot, int operand, bool written, int rank,
                                 const int64_t *dim, const int64_t *lies, const int64_t *dense) {
    dnnl_memory_desc_t given = NULL, wanted = NULL;
    dnnl_status_t status = describe(rank, dim, lies, &given);
    if (status == dnnl_success) status = describe(rank, dim, dense, &wanted);
    gp_onednn_plan_add(plan, slot, operand, written, given, wanted);
    return status;
}

static gp_status clone_layout(dnnl_memory_desc_t *out, const_dnnl_memory_desc_t layout, gp_error *err) {
    if (dnnl_memory_desc_clone(out, layout) == dnnl_success) return GP_OK;
    return gp_fail(err, GP_MEMORY, "out of memory: a format of weights");
}

/* A copy of the layout that a format's number names, which must be one of weights with the dimensions of `plain`. */
static gp_status copy_numbered(const gp_op_desc *desc, gp_format format, const_dnnl_memory_desc_t plain,
                               dnnl_memory_desc_t *out, gp_error *err) {
    const_dnnl_memory_desc_t layout = NULL;
    GP_RETURN_IF_FAILED(gp_onednn_layout_of(format, &layout, err));
    int rank = rank_of(plain);
    if (rank_of(layout) != rank || memcmp(dims_of(layout), dims_of(plain), (size_t)rank * sizeof(dnnl_dim_t)) != 0) {
        return gp_fail(err, GP_INTERNAL, "cpu: %s: format %u belongs to weights of other dimensions or groups",
                       gp_op_name(desc->kind), format);
    }
    return clone_layout(out, layout, err);
}

/* Fills in the plan of a prepared op, which is released where that fails. */
typedef gp_status planner(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err);

static gp_status make_plan(gp_prepared *prepared, planner *fill_in, gp_error *err) {
    gp_onednn_plan *plan = NULL;
    GP_RETURN_IF_FAILED(gp_onednn_plan_start(prepared, &plan, err));
    gp_status status = fill_in(prepared, plan, err);
    if (status != GP_OK) gp_cpu_onednn_release(prepared);
    return status;
}

static void destroy_layout(dnnl_memory_desc_t *layout) {
    if (*layout) dnnl_memory_desc_destroy(*layout);
    *layout = NULL;
}

/* Convolutions. */

/* What oneDNN calls an operand of a convolution. The gradient of the bias is not oneDNN's (cpu_weights.c). */
typedef struct conv_role {
    int operand; /* −1: the op has none of that name */
    int slot;
    bool written;
} conv_role;

static conv_role role_of(gp_op_kind kind, gp_operand_name name, gp_operand_name or_name) {
    static const int slots[GP_NAMES] = {
        [GP_NAME_X] = DNNL_ARG_SRC,       [GP_NAME_Y] = DNNL_ARG_DST,       [GP_NAME_W] = DNNL_ARG_WEIGHTS,
        [GP_NAME_DX] = DNNL_ARG_DIFF_SRC, [GP_NAME_DY] = DNNL_ARG_DIFF_DST, [GP_NAME_DW] = DNNL_ARG_DIFF_WEIGHTS,
        [GP_NAME_B] = DNNL_ARG_BIAS,
    };
    for (int i = 0; i < gp_op_operand_count(kind); i++) {
        gp_operand_name its = gp_op_operand_named(kind, i);
        if (its == name || its == or_name) return (conv_role){i, slots[its], gp_op_writes(kind, i)};
    }
    return (conv_role){-1, 0, false};
}

/* The plan's arguments, in order. Weights are the last, so that the others' descriptions are there when oneDNN is asked
 * for theirs. */
enum { CONV_INPUT, CONV_OUTPUT, CONV_BIAS };

/* What a convolution is asked for with: layouts, borrowed (the bias may be NULL), and attributes in oneDNN's terms. */
typedef struct conv_request {
    gp_op_kind kind;
    const_dnnl_memory_desc_t input, weights, bias, output;
    dnnl_dims_t stride, dilation, pad;
} conv_request;

static dnnl_status_t ask_forward(const conv_request *r, const_dnnl_memory_desc_t weights, dnnl_primitive_desc_t *out) {
    return dnnl_convolution_forward_primitive_desc_create(
        out, gp_onednn_engine(), dnnl_forward_training, dnnl_convolution_direct, r->input, weights, r->bias, r->output,
        r->stride, r->dilation, r->pad, r->pad, gp_onednn_attributes());
}

static dnnl_status_t ask_backward(const conv_request *r, const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
    if (r->kind == GP_OP_CONV_BACKWARD_DATA) {
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, gp_onednn_engine(), dnnl_convolution_direct, r->input, r->weights, r->output, r->stride, r->dilation,
            r->pad, r->pad, hint, gp_onednn_attributes());
    }
    return dnnl_convolution_backward_weights_primitive_desc_create(
        out, gp_onednn_engine(), dnnl_convolution_direct, r->input, r->weights, r->bias, r->output, r->stride,
        r->dilation, r->pad, r->pad, hint, gp_onednn_attributes());
}

static bool named(const_dnnl_primitive_desc_t desc, const char *beginning) {
    const char *name = NULL;
    dnnl_status_t status = dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return status == dnnl_success && name && strncmp(name, beginning, strlen(beginning)) == 0;
}

/* oneDNN's 1x1 kernels for weight gradients write past their scratchpad where the stride is above 1 and a group has
 * fewer input channels than a register (8, or 16 with AVX-512): 3.2 to 3.12,
 * https://github.com/uxlfoundation/oneDNN/issues/6035. Moves on to the next implementation. */
static dnnl_status_t avoid_overrun(const conv_request *r, dnnl_primitive_desc_t desc) {
    int64_t inputs = dims_of(r->weights)[rank_of(r->weights) - 3];
    dnnl_status_t status = dnnl_success;
    if (inputs >= 16 || (r->stride[0] == 1 && r->stride[1] == 1)) return status;
    while (status == dnnl_success && named(desc, "jit_1x1")) status = dnnl_primitive_desc_next_impl(desc);
    return status;
}

static dnnl_status_t ask(const conv_request *r, dnnl_primitive_desc_t *out) {
    if (r->kind == GP_OP_CONV_FORWARD) return ask_forward(r, r->weights, out);
    /* oneDNN's backward passes want a forward one to look at; its weights need not lie as theirs do. */
    dnnl_memory_desc_t any = NULL;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status = describe_any(r->weights, &any);
    if (status == dnnl_success) status = ask_forward(r, any, &hint);
    dnnl_primitive_desc_t desc = NULL;
    if (status == dnnl_success) status = ask_backward(r, hint, &desc);
    if (status == dnnl_success && r->kind == GP_OP_CONV_BACKWARD_WEIGHTS) status = avoid_overrun(r, desc);
    if (status == dnnl_success)
        *out = desc;
    else if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (hint) dnnl_primitive_desc_destroy(hint);
    destroy_layout(&any);
    return status;
}

/* With weights as oneDNN wants them. */
static dnnl_status_t ask_any(conv_request r, dnnl_primitive_desc_t *out) {
    dnnl_memory_desc_t any = NULL;
    dnnl_status_t status = describe_any(r.weights, &any);
    r.weights = any;
    if (status == dnnl_success) status = ask(&r, out);
    destroy_layout(&any);
    return status;
}

/* With the weights as they are given; or, where oneDNN has nothing but its reference code for that (100 times slower),
 * with weights that it chooses: these are then reordered in the workspace at every run. */
static dnnl_status_t ask_given(const conv_request *r, dnnl_primitive_desc_t *out) {
    dnnl_primitive_desc_t given = NULL;
    dnnl_status_t status = ask(r, &given);
    if (status == dnnl_out_of_memory || (status == dnnl_success && !named(given, "ref"))) {
        *out = given;
        return status;
    }
    dnnl_status_t any = ask_any(*r, out);
    if (any == dnnl_success || any == dnnl_out_of_memory) {
        if (given) dnnl_primitive_desc_destroy(given);
        return any;
    }
    *out = given;
    return status;
}

/* A picture [n,h,w,c], which oneDNN calls nchw with the strides of nhwc. */
static dnnl_status_t add_picture(gp_onednn_plan *plan, const gp_tensor *t, const conv_role *role) {
    const int64_t *dim = t->dim, *stride = t->stride;
    const int64_t dims[] = {dim[0], dim[3], dim[1], dim[2]};
    const int64_t dense[] = {dim[1] * dim[2] * dim[3], 1, dim[2] * dim[3], dim[3]};
    const int64_t lies[] = {stride[0], 1, stride[1], stride[2]};
    return add_operand(plan, role->slot, role->operand, role->written, 4, dims, gp_tensor_contiguous(t) ? dense : lies,
                       dense);
}

static dnnl_status_t add_vector(gp_onednn_plan *plan, const gp_tensor *t, const conv_role *role) {
    const int64_t one[] = {1};
    return add_operand(plan, role->slot, role->operand, role->written, 1, t->dim, one, one);
}

/* The layout of weights as the descriptor gives it: by number, or plain (ANY has only dimensions). */
static gp_status given_weights(const gp_op_desc *desc, const gp_tensor *w, int64_t groups, dnnl_memory_desc_t *out,
                               gp_error *err) {
    dnnl_memory_desc_t plain = NULL;
    dnnl_status_t status = describe_weights(w, groups, &plain);
    if (status != dnnl_success) return gp_onednn_refused(err, desc, "a description of the weights", status);
    if (w->format == GP_FORMAT_PLAIN || w->format == GP_FORMAT_ANY) {
        *out = plain;
        return GP_OK;
    }
    gp_status result = copy_numbered(desc, w->format, plain, out, err);
    destroy_layout(&plain);
    return result;
}

/* Where the device may choose: the weights lie as the primitive wants them. `given` is plain on entry. */
static gp_status choose_weights(const_dnnl_memory_desc_t wanted, dnnl_memory_desc_t *given, gp_format *format,
                                gp_error *err) {
    *format = GP_FORMAT_PLAIN;
    if (dnnl_memory_desc_equal(*given, wanted)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_onednn_format_of(wanted, format, err));
    destroy_layout(given);
    return clone_layout(given, wanted, err);
}

/* Adds the weights to the plan, as they are given and as oneDNN has chosen in `chosen`. */
static gp_status add_weights(gp_prepared *prepared, const conv_role *role, dnnl_memory_desc_t given,
                             const_dnnl_primitive_desc_t chosen, gp_error *err) {
    gp_operand_storage *storage = &prepared->operand[role->operand];
    dnnl_query_t query = role->written ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    const_dnnl_memory_desc_t layout = dnnl_primitive_desc_query_md(chosen, query, 0);
    dnnl_memory_desc_t wanted = NULL;
    gp_status status = GP_OK;
    storage->format = prepared->desc.operand[role->operand].format;
    if (storage->format == GP_FORMAT_ANY) status = choose_weights(layout, &given, &storage->format, err);
    if (status == GP_OK) status = clone_layout(&wanted, layout, err);
    if (status == GP_OK) storage->bytes = dnnl_memory_desc_get_size(given);
    gp_onednn_plan_add(prepared->context, role->slot, role->operand, role->written, given, wanted);
    return status;
}

static gp_status conv_plan(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const conv_role input = role_of(desc->kind, GP_NAME_X, GP_NAME_DX);
    const conv_role output = role_of(desc->kind, GP_NAME_Y, GP_NAME_DY);
    const conv_role weight = role_of(desc->kind, GP_NAME_W, GP_NAME_DW),
                    bias = role_of(desc->kind, GP_NAME_B, GP_NAME_B);
    dnnl_status_t status = add_picture(plan, &desc->operand[input.operand], &input);
    if (status == dnnl_success) status = add_picture(plan, &desc->operand[output.operand], &output);
    bool has_bias = bias.operand >= 0 && desc->operand[bias.operand].present;
    if (status == dnnl_success && has_bias) status = add_vector(plan, &desc->operand[bias.operand], &bias);
    if (status != dnnl_success) return gp_onednn_refused(err, desc, "a description of an operand", status);

    dnnl_memory_desc_t weights = NULL;
    const gp_tensor *w = &desc->operand[weight.operand];
    GP_RETURN_IF_FAILED(given_weights(desc, w, desc->attributes.conv.groups, &weights, err));
    const gp_conv_attributes *a = &desc->attributes.conv;
    conv_request request = {desc->kind,
                            plan->argument[CONV_INPUT].wanted,
                            weights,
                            has_bias ? plan->argument[CONV_BIAS].wanted : NULL,
                            plan->argument[CONV_OUTPUT].wanted,
                            {a->stride[0], a->stride[1]},
                            {a->dilation[0] - 1, a->dilation[1] - 1},
                            {a->pad[0], a->pad[1]}};
    dnnl_primitive_desc_t chosen = NULL;
    status = w->format == GP_FORMAT_ANY ? ask_any(request, &chosen) : ask_given(&request, &chosen);
    if (status != dnnl_success) {
        destroy_layout(&weights);
        return gp_onednn_refused(err, desc, "the primitive", status);
    }
    gp_status result = add_weights(prepared, &weight, weights, chosen, err);
    if (result == GP_OK) result = gp_onednn_plan_finish(prepared, chosen, err);
    dnnl_primitive_desc_destroy(chosen);
    return result;
}

gp_status gp_cpu_conv_prepare(gp_prepared *prepared, gp_error *err) {
    if (prepared->desc.flags & GP_OP_ACCUMULATE) {
        return gp_fail(err, GP_UNSUPPORTED, "cpu: %s cannot add to its output: oneDNN overwrites it",
                       gp_op_name(prepared->desc.kind));
    }
    return make_plan(prepared, conv_plan, err);
}

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

static gp_status add_matrix(gp_onednn_plan *plan, const gp_op_desc *desc, const matmul_role *role, int slot,
                            gp_error *err) {
    gp_rows rows = gp_rows_of(&desc->operand[role->operand]);
    if (gp_rows_dense(rows)) rows.pitch = rows.width;
    const int64_t dims[2][2] = {{rows.count, rows.width}, {rows.width, rows.count}};
    const int64_t lies[2][2] = {{rows.pitch, 1}, {1, rows.pitch}};
    const int64_t dense[2][2] = {{rows.width, 1}, {1, rows.width}};
    int turned = role->transposed;
    dnnl_status_t status = add_operand(plan, slot, role->operand, gp_op_writes(desc->kind, role->operand), 2,
                                       dims[turned], lies[turned], dense[turned]);
    return status == dnnl_success ? GP_OK : gp_onednn_refused(err, desc, "a description of an operand", status);
}

/* Attributes of a product that adds to its result. */
static dnnl_status_t adding_attributes(dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t adds = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t status = dnnl_post_ops_create(&adds);
    if (status == dnnl_success) status = dnnl_post_ops_append_sum(adds, 1.0F, 0, dnnl_f32);
    if (status == dnnl_success) status = dnnl_primitive_attr_clone(&attributes, gp_onednn_attributes());
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, adds);
    if (adds) dnnl_post_ops_destroy(adds);
    if (status == dnnl_success)
        *out = attributes;
    else if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

static gp_status matmul_finish(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const_dnnl_memory_desc_t bias = plan->arguments > MATMUL_BIAS ? plan->argument[MATMUL_BIAS].wanted : NULL;
    dnnl_primitive_attr_t adding = NULL;
    dnnl_primitive_desc_t product = NULL;
    dnnl_status_t status = desc->flags & GP_OP_ACCUMULATE ? adding_attributes(&adding) : dnnl_success;
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
    for (int i = 0; i < MATMUL_BIAS; i++) GP_RETURN_IF_FAILED(add_matrix(plan, desc, &role[i], matmul_slot[i], err));
    if (role[MATMUL_BIAS].operand >= 0 && desc->operand[role[MATMUL_BIAS].operand].present)
        GP_RETURN_IF_FAILED(add_matrix(plan, desc, &role[MATMUL_BIAS], matmul_slot[MATMUL_BIAS], err));
    return matmul_finish(prepared, plan, err);
}

gp_status gp_cpu_linear_prepare(gp_prepared *prepared, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cpu", err));
    return make_plan(prepared, linear_plan, err);
}

/* Reorders. */

static int64_t groups_of(const gp_tensor *t) {
    const_dnnl_memory_desc_t layout = NULL;
    if (t->format == GP_FORMAT_PLAIN || gp_onednn_layout_of(t->format, &layout, NULL) != GP_OK) return 1;
    return rank_of(layout) == 5 ? dims_of(layout)[0] : 1;
}

static gp_status reorder_add(gp_prepared *prepared, gp_onednn_plan *plan, int operand, int64_t groups, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    bool written = operand == GP_REORDER_Y;
    dnnl_memory_desc_t given = NULL, wanted = NULL;
    GP_RETURN_IF_FAILED(given_weights(desc, &desc->operand[operand], groups, &given, err));
    gp_status status = clone_layout(&wanted, given, err);
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
    return make_plan(prepared, reorder_plan, err);
}

/* From plain to plain is a copy, of any dtype and rank. */
static gp_status run_reorder(const gp_cpu_call *call, gp_error *err) {
    if (call->prepared->context) return gp_cpu_onednn_run(call, err);
    call->loops->loop[GP_OP_COPY]->compute(call);
    return GP_OK;
}

const gp_cpu_op gp_cpu_reorder = {.prepare = prepare_reorder, .run = run_reorder, .release = gp_cpu_onednn_release};
const gp_cpu_op gp_cpu_conv_forward = {
    .prepare = gp_cpu_conv_prepare, .run = gp_cpu_onednn_run, .release = gp_cpu_onednn_release};
const gp_cpu_op gp_cpu_conv_backward_data = {
    .prepare = gp_cpu_conv_prepare, .run = gp_cpu_onednn_run, .release = gp_cpu_onednn_release};
const gp_cpu_op gp_cpu_linear_forward = {
    .prepare = gp_cpu_linear_prepare, .run = gp_cpu_onednn_run, .release = gp_cpu_onednn_release};
const gp_cpu_op gp_cpu_linear_backward_data = {
    .prepare = gp_cpu_linear_prepare, .run = gp_cpu_onednn_run, .release = gp_cpu_onednn_release};
