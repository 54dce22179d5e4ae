/* Convolutions: the method, and what oneDNN's own convolutions ask of it. */
#include <string.h>

#include "device/cpu/cpu_conv_products.h"
#include "device/cpu/cpu_conv_shares.h"
#include "device/cpu/cpu_onednn.h"
#include "device/cpu/cpu_onednn_plan.h"
#include "device/cpu/cpu_ops.h"

/* libgomp's; clang has no omp.h for it. */
extern void omp_set_num_threads(int threads);

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

/* oneDNN's 1x1 kernels for weight gradients write past their scratchpad where the stride is above 1 and a group has
 * fewer input channels than a register (8, or 16 with AVX-512): 3.2 to 3.12,
 * https://github.com/uxlfoundation/oneDNN/issues/6035. Moves on to the next implementation. */
static dnnl_status_t avoid_overrun(const conv_request *r, dnnl_primitive_desc_t desc) {
    int64_t inputs = gp_onednn_dims(r->weights)[gp_onednn_rank(r->weights) - 3];
    dnnl_status_t status = dnnl_success;
    if (inputs >= 16 || (r->stride[0] == 1 && r->stride[1] == 1)) return status;
    while (status == dnnl_success && gp_onednn_is_named(desc, "jit_1x1")) status = dnnl_primitive_desc_next_impl(desc);
    return status;
}

static dnnl_status_t ask(const conv_request *r, dnnl_primitive_desc_t *out) {
    if (r->kind == GP_OP_CONV_FORWARD) return ask_forward(r, r->weights, out);
    /* oneDNN's backward passes want a forward one to look at; its weights need not lie as theirs do. */
    dnnl_memory_desc_t any = NULL;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status = gp_onednn_describe_any(r->weights, &any);
    if (status == dnnl_success) status = ask_forward(r, any, &hint);
    dnnl_primitive_desc_t desc = NULL;
    if (status == dnnl_success) status = ask_backward(r, hint, &desc);
    if (status == dnnl_success && r->kind == GP_OP_CONV_BACKWARD_WEIGHTS) status = avoid_overrun(r, desc);
    if (status == dnnl_success)
        *out = desc;
    else if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (hint) dnnl_primitive_desc_destroy(hint);
    gp_onednn_destroy_layout(&any);
    return status;
}

/* With weights as oneDNN wants them. */
static dnnl_status_t ask_any(conv_request r, dnnl_primitive_desc_t *out) {
    dnnl_memory_desc_t any = NULL;
    dnnl_status_t status = gp_onednn_describe_any(r.weights, &any);
    r.weights = any;
    if (status == dnnl_success) status = ask(&r, out);
    gp_onednn_destroy_layout(&any);
    return status;
}

/* With the weights as they are given; or, where oneDNN has nothing but its reference code for that (100 times slower),
 * with weights that it chooses: these are then reordered in the workspace at every run. */
static dnnl_status_t ask_given(const conv_request *r, dnnl_primitive_desc_t *out) {
    dnnl_primitive_desc_t given = NULL;
    dnnl_status_t status = ask(r, &given);
    if (status == dnnl_out_of_memory || (status == dnnl_success && !gp_onednn_is_named(given, "ref"))) {
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

static dnnl_status_t ask_in(const conv_request *r, gp_format format, dnnl_primitive_desc_t *out) {
    return format == GP_FORMAT_ANY ? ask_any(*r, out) : ask_given(r, out);
}

/* Like `picture`, with other samples. */
static dnnl_status_t some_samples(const_dnnl_memory_desc_t picture, int64_t samples, dnnl_memory_desc_t *out) {
    const dnnl_dims_t none = {0};
    dnnl_dims_t dims;
    memcpy(dims, gp_onednn_dims(picture), sizeof dims);
    dims[0] = samples;
    return dnnl_memory_desc_create_submemory(out, picture, dims, none);
}

/* For a share of the samples. `first`: for a larger share; the weights lie the same. */
static dnnl_status_t ask_share(conv_request r, gp_format format, int64_t samples, const_dnnl_primitive_desc_t first,
                               dnnl_primitive_desc_t *out) {
    dnnl_memory_desc_t input = NULL, output = NULL;
    dnnl_query_t query = r.kind == GP_OP_CONV_BACKWARD_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    dnnl_status_t status = some_samples(r.input, samples, &input);
    if (status == dnnl_success) status = some_samples(r.output, samples, &output);
    r.input = input;
    r.output = output;
    if (first) r.weights = dnnl_primitive_desc_query_md(first, query, 0);
    if (status == dnnl_success) status = first ? ask(&r, out) : ask_in(&r, format, out);
    if (status == dnnl_success && gp_onednn_is_named(*out, "ref")) status = dnnl_unimplemented;
    gp_onednn_destroy_layout(&input);
    gp_onednn_destroy_layout(&output);
    return status;
}

static void forget_both(dnnl_primitive_desc_t desc[2]) {
    for (int i = 0; i < 2; i++) {
        if (desc[i]) dnnl_primitive_desc_destroy(desc[i]);
        desc[i] = NULL;
    }
}

/* Convolutions of shares for one thread each: for the larger ones, and for those with a sample less, if there are any.
 * Not shared: a division by samples does not pay, or oneDNN has no fast code for a share. */
static dnnl_status_t ask_shares(const gp_op_desc *desc, const conv_request *r, gp_format format,
                                dnnl_primitive_desc_t out[2], bool *shared) {
    const gp_conv_shape shape = gp_conv_shape_of(desc);
    const int threads = (int)desc->threads;
    if (!gp_conv_is_shared(&shape, desc->kind, gp_conv_isa_now(), desc->threads)) return dnnl_success;
    const int64_t most = gp_conv_share(shape.n, threads, 0), least = gp_conv_share(shape.n, threads, threads - 1);
    omp_set_num_threads(1);
    dnnl_status_t status = ask_share(*r, format, most, NULL, &out[0]);
    if (status == dnnl_success && least < most) status = ask_share(*r, format, least, out[0], &out[1]);
    omp_set_num_threads(threads);
    *shared = status == dnnl_success;
    if (*shared) return status;
    forget_both(out);
    return status == dnnl_out_of_memory ? status : dnnl_success;
}

/* A picture [n,h,w,c], which oneDNN calls nchw with the strides of nhwc. */
static dnnl_status_t add_picture(gp_onednn_plan *plan, const gp_tensor *t, const conv_role *role) {
    const int64_t *dim = t->dim, *stride = t->stride;
    const int64_t dims[] = {dim[0], dim[3], dim[1], dim[2]};
    const int64_t dense[] = {dim[1] * dim[2] * dim[3], 1, dim[2] * dim[3], dim[3]};
    const int64_t lies[] = {stride[0], 1, stride[1], stride[2]};
    return gp_onednn_add_operand(plan, role->slot, role->operand, role->written, 4, dims,
                                 gp_tensor_contiguous(t) ? dense : lies, dense);
}

static dnnl_status_t add_vector(gp_onednn_plan *plan, const gp_tensor *t, const conv_role *role) {
    const int64_t one[] = {1};
    return gp_onednn_add_operand(plan, role->slot, role->operand, role->written, 1, t->dim, one, one);
}

/* Where the device may choose: the weights lie as the primitive wants them. `given` is plain on entry. */
static gp_status choose_weights(const_dnnl_memory_desc_t wanted, dnnl_memory_desc_t *given, gp_format *format,
                                gp_error *err) {
    *format = GP_FORMAT_PLAIN;
    if (dnnl_memory_desc_equal(*given, wanted)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_onednn_format_of(wanted, format, err));
    gp_onednn_destroy_layout(given);
    return gp_onednn_clone_layout(given, wanted, err);
}

/* Adds the weights to the plan, as they are given in `format` and as oneDNN has chosen in `chosen`. */
static gp_status add_weights(gp_prepared *prepared, const conv_role *role, gp_format format, dnnl_memory_desc_t given,
                             const_dnnl_primitive_desc_t chosen, gp_error *err) {
    gp_operand_storage *storage = &prepared->operand[role->operand];
    dnnl_query_t query = role->written ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    const_dnnl_memory_desc_t layout = dnnl_primitive_desc_query_md(chosen, query, 0);
    dnnl_memory_desc_t wanted = NULL;
    gp_status status = GP_OK;
    storage->format = format;
    if (storage->format == GP_FORMAT_ANY) status = choose_weights(layout, &given, &storage->format, err);
    if (status == GP_OK) status = gp_onednn_clone_layout(&wanted, layout, err);
    if (status == GP_OK) storage->bytes = dnnl_memory_desc_get_size(given);
    gp_onednn_plan_add(prepared->context, role->slot, role->operand, role->written, given, wanted);
    return status;
}

static gp_status direct_plan(gp_prepared *prepared, gp_onednn_plan *plan, const conv_role *weight, gp_format format,
                             gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const gp_conv_attributes *a = &desc->attributes.conv;
    dnnl_memory_desc_t weights = NULL;
    if (desc->flags & GP_OP_ACCUMULATE) {
        return gp_fail(err, GP_UNSUPPORTED, "cpu: %s cannot add to its output: oneDNN overwrites it",
                       gp_op_name(desc->kind));
    }
    GP_RETURN_IF_FAILED(
        gp_onednn_given_weights(desc, &desc->operand[weight->operand], a->groups, format, &weights, err));
    conv_request request = {desc->kind,
                            plan->argument[CONV_INPUT].wanted,
                            weights,
                            plan->arguments > CONV_BIAS ? plan->argument[CONV_BIAS].wanted : NULL,
                            plan->argument[CONV_OUTPUT].wanted,
                            {a->stride[0], a->stride[1]},
                            {a->dilation[0] - 1, a->dilation[1] - 1},
                            {a->pad[0], a->pad[1]}};
    dnnl_primitive_desc_t chosen[2] = {NULL, NULL};
    bool shared = false;
    dnnl_status_t status = ask_shares(desc, &request, format, chosen, &shared);
    if (status == dnnl_success && !shared) status = ask_in(&request, format, &chosen[0]);
    if (status != dnnl_success) {
        gp_onednn_destroy_layout(&weights);
        return gp_onednn_refused(err, desc, "the primitive", status);
    }
    gp_status result = add_weights(prepared, weight, format, weights, chosen[0], err);
    if (result == GP_OK) result = gp_onednn_plan_finish(prepared, shared ? NULL : chosen[0], err);
    if (result == GP_OK && shared)
        result = gp_conv_shares_plan(prepared, plan, (const_dnnl_primitive_desc_t[]){chosen[0], chosen[1]}, err);
    forget_both(chosen);
    return result;
}

/* The number of the format by taps; plain, if that is the same. */
static gp_status number_by_taps(const gp_op_desc *desc, const gp_tensor *w, gp_format *out, gp_error *err) {
    dnnl_memory_desc_t layout = NULL;
    *out = GP_FORMAT_PLAIN;
    if (w->dim[2] == 1 && w->dim[3] == 1) return GP_OK;
    dnnl_status_t status = gp_conv_describe_by_taps(w, &layout);
    if (status != dnnl_success) return gp_onednn_refused(err, desc, "a description of the weights", status);
    gp_status result = gp_onednn_format_of(layout, out, err);
    gp_onednn_destroy_layout(&layout);
    return result;
}

static gp_status products_plan(gp_prepared *prepared, gp_onednn_plan *plan, const conv_role *weight, gp_format format,
                               gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const gp_tensor *w = &desc->operand[weight->operand];
    dnnl_memory_desc_t given = NULL, wanted = NULL;
    GP_RETURN_IF_FAILED(gp_onednn_given_weights(desc, w, 1, format, &given, err));
    dnnl_status_t status = gp_conv_describe_by_taps(w, &wanted);
    gp_onednn_plan_add(plan, weight->slot, weight->operand, weight->written, given, wanted);
    if (status != dnnl_success) return gp_onednn_refused(err, desc, "a description of the weights", status);
    if ((desc->flags & GP_OP_ACCUMULATE) && !dnnl_memory_desc_equal(given, wanted)) {
        return gp_fail(err, GP_UNSUPPORTED, "cpu: %s cannot add to weights in this format", gp_op_name(desc->kind));
    }
    prepared->operand[weight->operand] = (gp_operand_storage){format, dnnl_memory_desc_get_size(given)};
    GP_RETURN_IF_FAILED(gp_onednn_plan_finish(prepared, NULL, err));
    return gp_conv_products_plan(prepared, plan, err);
}

static gp_status add_values(gp_prepared *prepared, gp_onednn_plan *plan, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const conv_role input = role_of(desc->kind, GP_NAME_X, GP_NAME_DX);
    const conv_role output = role_of(desc->kind, GP_NAME_Y, GP_NAME_DY);
    const conv_role bias = role_of(desc->kind, GP_NAME_B, GP_NAME_B);
    dnnl_status_t status = add_picture(plan, &desc->operand[input.operand], &input);
    if (status == dnnl_success) status = add_picture(plan, &desc->operand[output.operand], &output);
    bool has_bias = bias.operand >= 0 && desc->operand[bias.operand].present;
    if (status == dnnl_success && has_bias) status = add_vector(plan, &desc->operand[bias.operand], &bias);
    return status == dnnl_success ? GP_OK : gp_onednn_refused(err, desc, "a description of an operand", status);
}

/* The weights' format as the choice sees it. */
static gp_status classify(const gp_op_desc *desc, const gp_tensor *w, gp_conv_weights *out, gp_error *err) {
    gp_format by_taps;
    *out = GP_CONV_WEIGHTS_ANY;
    if (w->format == GP_FORMAT_ANY) return GP_OK;
    GP_RETURN_IF_FAILED(number_by_taps(desc, w, &by_taps, err));
    *out = w->format == by_taps ? GP_CONV_WEIGHTS_BY_TAPS : GP_CONV_WEIGHTS_OTHER;
    return GP_OK;
}

static gp_status conv_plan(gp_prepared *prepared, gp_onednn_plan *plan, gp_conv_choice choice, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const conv_role weight = role_of(desc->kind, GP_NAME_W, GP_NAME_DW);
    const gp_tensor *w = &desc->operand[weight.operand];
    gp_format format = w->format;
    plan->method = choice.method;
    GP_RETURN_IF_FAILED(add_values(prepared, plan, err));
    if (format == GP_FORMAT_ANY && (choice.by_taps || choice.method != GP_CONV_DIRECT))
        GP_RETURN_IF_FAILED(number_by_taps(desc, w, &format, err));
    if (choice.method == GP_CONV_DIRECT) return direct_plan(prepared, plan, &weight, format, err);
    return products_plan(prepared, plan, &weight, format, err);
}

/* Where it fails, `prepared` is as it was. */
static gp_status conv_make(gp_prepared *prepared, gp_conv_choice choice, gp_error *err) {
    gp_onednn_plan *plan = NULL;
    size_t workspace = prepared->workspace;
    GP_RETURN_IF_FAILED(gp_onednn_plan_start(prepared, &plan, err));
    gp_status status = conv_plan(prepared, plan, choice, err);
    if (status == GP_OK) return GP_OK;
    gp_cpu_onednn_release(prepared);
    prepared->workspace = workspace;
    return status;
}

/* If oneDNN refuses the products, its own convolution takes their place. The weights lie where the other ops want them.
 */
gp_status gp_cpu_conv_prepare(gp_prepared *prepared, gp_error *err) {
    const gp_op_desc *desc = &prepared->desc;
    const gp_tensor *w = &desc->operand[role_of(desc->kind, GP_NAME_W, GP_NAME_DW).operand];
    gp_conv_weights weights;
    gp_error refused = {0};
    GP_RETURN_IF_FAILED(classify(desc, w, &weights, err));
    gp_conv_choice choice = gp_conv_choose(desc, weights, gp_conv_isa_now());
    if (choice.method == GP_CONV_DIRECT) return conv_make(prepared, choice, err);
    gp_status status = conv_make(prepared, choice, &refused);
    if (status == GP_OK) return GP_OK;
    if (status != GP_UNSUPPORTED) return gp_fail(err, status, "%s", refused.text);
    choice.method = GP_CONV_DIRECT;
    if (desc->kind == GP_OP_CONV_BACKWARD_WEIGHTS) choice.by_taps = false; /* the gradient lies as oneDNN writes it */
    return conv_make(prepared, choice, err);
}

gp_status gp_cpu_conv_prepare_as(gp_prepared *prepared, gp_conv_method method, gp_error *err) {
    gp_conv_shape shape = gp_conv_shape_of(&prepared->desc);
    if (!gp_conv_is_possible(&shape, method))
        return gp_fail(err, GP_UNSUPPORTED, "cpu: %s: not by method %s", gp_op_name(prepared->desc.kind),
                       gp_conv_method_name(method));
    return conv_make(prepared, (gp_conv_choice){method, method != GP_CONV_DIRECT}, err);
}

gp_conv_method gp_cpu_conv_method(const gp_prepared *prepared) {
    const gp_onednn_plan *plan = prepared->context;
    return plan ? plan->method : GP_CONV_DIRECT;
}

const gp_cpu_op gp_cpu_conv_forward = {
    .prepare = gp_cpu_conv_prepare, .run = gp_cpu_onednn_run, .release = gp_cpu_onednn_release};
const gp_cpu_op gp_cpu_conv_backward_data = {
    .prepare = gp_cpu_conv_prepare, .run = gp_cpu_onednn_run, .release = gp_cpu_onednn_release};
