/* The plan of a prepared op in the making: operands as they lie and as the primitive takes them, primitives, workspace.
 */
#include "device/cpu/cpu_onednn_plan.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/cpu_conv_products.h"
#include "device/cpu/cpu_conv_shares.h"
#include "device/cpu/cpu_onednn.h"

/* libgomp's; clang has no omp.h for it. */
extern void omp_set_num_threads(int threads);

static void step_fini(gp_onednn_step *step) {
    if (step->primitive) dnnl_primitive_destroy(step->primitive);
    if (step->scratchpad) dnnl_memory_desc_destroy(step->scratchpad);
}

void gp_cpu_onednn_release(gp_prepared *prepared) {
    gp_onednn_plan *plan = prepared->context;
    if (!plan) return;
    for (int i = 0; i < plan->arguments; i++) {
        gp_onednn_argument *argument = &plan->argument[i];
        step_fini(&argument->move);
        if (argument->given) dnnl_memory_desc_destroy(argument->given);
        if (argument->wanted) dnnl_memory_desc_destroy(argument->wanted);
    }
    step_fini(&plan->main);
    gp_conv_products_destroy(&plan->products);
    gp_conv_shares_destroy(&plan->shares);
    free(plan);
    prepared->context = NULL;
}

gp_status gp_onednn_plan_start(gp_prepared *prepared, gp_onednn_plan **out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_onednn_start(err));
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        const gp_tensor *tensor = &prepared->desc.operand[i];
        if (tensor->present && tensor->dtype != GP_F32) {
            return gp_fail(err, GP_UNSUPPORTED, "cpu: %s computes in F32 only, not in %s",
                           gp_op_name(prepared->desc.kind), gp_dtype_name(tensor->dtype));
        }
        prepared->operand[i].bytes = gp_tensor_bytes(tensor);
    }
    /* oneDNN bakes the number of threads in when it creates a primitive. */
    omp_set_num_threads((int)prepared->desc.threads);
    gp_onednn_plan *plan;
    GP_RETURN_IF_FAILED(GP_NEW(&plan, 1, err));
    prepared->context = plan;
    plan->main.threads = (int)prepared->desc.threads;
    *out = plan;
    return GP_OK;
}

gp_status gp_onednn_plan_make(gp_prepared *prepared, gp_onednn_planner *fill_in, gp_error *err) {
    gp_onednn_plan *plan = NULL;
    GP_RETURN_IF_FAILED(gp_onednn_plan_start(prepared, &plan, err));
    gp_status status = fill_in(prepared, plan, err);
    if (status != GP_OK) gp_cpu_onednn_release(prepared);
    return status;
}

void gp_onednn_plan_add(gp_onednn_plan *plan, int slot, int operand, bool written, dnnl_memory_desc_t given,
                        dnnl_memory_desc_t wanted) {
    assert(plan->arguments < GP_ONEDNN_ARGUMENTS);
    plan->argument[plan->arguments++] = (gp_onednn_argument){slot, operand, written, given, wanted, {NULL, NULL, 0}, 0};
}

dnnl_status_t gp_onednn_add_operand(gp_onednn_plan *plan, int slot, int operand, bool written, int rank,
                                    const int64_t *dim, const int64_t *lies, const int64_t *dense) {
    dnnl_memory_desc_t given = NULL, wanted = NULL;
    dnnl_status_t status = gp_onednn_describe(rank, dim, lies, &given);
    if (status == dnnl_success) status = gp_onednn_describe(rank, dim, dense, &wanted);
    gp_onednn_plan_add(plan, slot, operand, written, given, wanted);
    return status;
}

/* Makes the primitive of `desc`, and room for its scratchpad. */
static dnnl_status_t step_init(gp_onednn_step *step, const_dnnl_primitive_desc_t desc, size_t *scratchpad) {
    const_dnnl_memory_desc_t needs = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    size_t bytes = dnnl_memory_desc_get_size(needs);
    if (bytes > *scratchpad) *scratchpad = bytes;
    dnnl_status_t status = dnnl_memory_desc_clone(&step->scratchpad, needs);
    if (status != dnnl_success) return status;
    return dnnl_primitive_create(&step->primitive, desc);
}

void gp_onednn_plan_threads(gp_onednn_plan *plan, int threads) {
    plan->main.threads = threads;
    omp_set_num_threads(threads);
}

int gp_onednn_reorder_threads(const gp_op_desc *desc, size_t bytes) {
    enum { FEW = 256 << 10 };
    return bytes <= FEW ? 1 : (int)desc->threads;
}

static dnnl_status_t make_move(const gp_op_desc *op, gp_onednn_argument *argument, size_t *scratchpad) {
    const_dnnl_memory_desc_t from = argument->written ? argument->wanted : argument->given;
    const_dnnl_memory_desc_t to = argument->written ? argument->given : argument->wanted;
    dnnl_primitive_desc_t desc;
    argument->move.threads = gp_onednn_reorder_threads(op, dnnl_memory_desc_get_size(argument->wanted));
    omp_set_num_threads(argument->move.threads);
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&desc, from, gp_onednn_engine(), to, gp_onednn_engine(),
                                                              gp_onednn_attributes());
    if (status != dnnl_success) return status;
    status = step_init(&argument->move, desc, scratchpad);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

gp_status gp_onednn_plan_finish(gp_prepared *prepared, const_dnnl_primitive_desc_t desc, gp_error *err) {
    gp_onednn_plan *plan = prepared->context;
    size_t scratchpad = 0;
    dnnl_status_t status = desc ? step_init(&plan->main, desc, &scratchpad) : dnnl_success;
    if (status != dnnl_success) return gp_onednn_refused(err, &prepared->desc, "the primitive", status);
    for (int i = 0; i < plan->arguments; i++) {
        gp_onednn_argument *argument = &plan->argument[i];
        if (dnnl_memory_desc_equal(argument->given, argument->wanted)) continue;
        status = make_move(&prepared->desc, argument, &scratchpad);
        if (status != dnnl_success) return gp_onednn_refused(err, &prepared->desc, "a reorder of an operand", status);
    }
    gp_op_book(prepared, scratchpad); /* one for all steps, which run one after another */
    for (int i = 0; i < plan->arguments; i++) {
        gp_onednn_argument *argument = &plan->argument[i];
        if (argument->move.primitive)
            argument->stage = gp_op_book(prepared, dnnl_memory_desc_get_size(argument->wanted));
    }
    return GP_OK;
}
