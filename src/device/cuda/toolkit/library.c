/* Plans of libraries for the ops that have no kernel of their own. */
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "device/cuda/cuda_workspace.h"
#include "device/cuda/toolkit/choices.h"
#include "device/cuda/toolkit/libraries.h"
#include "device/cuda/toolkit/plan.h"

const char *gp_cuda_libraries(void) {
    static char text[64]; /* the same from each thread */
    gp_error ignored;
    size_t cudnn = gp_cudnn_open(&ignored) == GP_OK ? gp_cudnn.cudnnGetVersion() : 0;
    snprintf(text, sizeof text, "CUDA %d.%d, cuDNN %zu.%zu.%zu", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
             cudnn / 10000, cudnn % 10000 / 100, cudnn % 100);
    return text;
}

static bool is_convolution(gp_op_kind kind) {
    return kind == GP_OP_CONV_FORWARD || kind == GP_OP_CONV_BACKWARD_DATA || kind == GP_OP_CONV_BACKWARD_WEIGHTS;
}

static bool is_product(gp_op_kind kind) {
    return kind == GP_OP_LINEAR_FORWARD || kind == GP_OP_LINEAR_BACKWARD_DATA || kind == GP_OP_LINEAR_BACKWARD_WEIGHTS;
}

/* What this process has planned, and so what a stream's library will need. */
static atomic_bool convolutions, products;

gp_status gp_cuda_plan_create(gp_prepared *prepared, gp_error *err) {
    static atomic_size_t plans;
    gp_op_kind kind = prepared->desc.kind;
    gp_cuda_plan *plan;
    if (!is_convolution(kind) && !is_product(kind))
        return gp_fail(err, GP_UNSUPPORTED, "cuda: %s is not available yet", gp_op_name(kind));
    GP_RETURN_IF_FAILED(GP_NEW(&plan, 1, err));
    plan->number = atomic_fetch_add(&plans, 1);
    plan->desc = prepared->desc;
    gp_status status =
        is_product(kind) ? gp_cublaslt_plan_fill(prepared, plan, err) : gp_cudnn_plan_fill(prepared, plan, err);
    if (status != GP_OK) {
        free(plan);
        return status;
    }
    prepared->workspace = gp_cuda_workspace_booked(plan->workspace);
    prepared->context = plan;
    atomic_store(is_product(kind) ? &products : &convolutions, true);
    return GP_OK;
}

void gp_cuda_plan_destroy(gp_cuda_plan *plan) {
    free(plan);
}

gp_status gp_cuda_library_open(gp_cuda_stream *stream, gp_cuda_library **out, gp_error *err) {
    gp_cuda_library *library;
    GP_RETURN_IF_FAILED(GP_NEW(&library, 1, err));
    library->stream = stream;
    gp_choices_save(); /* what planning has chosen, before any of it is run */
    gp_status status = GP_OK;
    if (atomic_load(&convolutions)) status = gp_cudnn_handle(library, err);
    if (status == GP_OK && atomic_load(&products)) status = gp_cublaslt_handle(library, err);
    if (status != GP_OK) {
        gp_cuda_library_close(library);
        return status;
    }
    *out = library;
    return GP_OK;
}

void gp_cuda_library_close(gp_cuda_library *library) {
    if (!library) return;
    gp_choices_save(); /* algorithms of products are chosen when they are first run */
    for (size_t i = 0; i < library->capacity; i++) {
        if (!library->ready[i]) continue;
        gp_cudnn_built_fini(&library->ready[i]->convolution);
        gp_cublaslt_built_fini(&library->ready[i]->product);
        free(library->ready[i]);
    }
    free(library->ready);
    gp_cudnn_packs_fini(&library->packs);
    gp_cudnn_parts_fini(&library->parts);
    if (library->cudnn) (void)gp_cudnn.cudnnDestroy(library->cudnn);
    if (library->cublaslt) (void)gp_cublaslt.cublasLtDestroy(library->cublaslt);
    free(library);
}

/* What the stream has made of the plan, or is about to. */
static gp_status ready_of(gp_cuda_library *library, const gp_cuda_plan *plan, gp_cuda_ready **out, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&library->ready, &library->capacity, plan->number + 1, err));
    if (!library->ready[plan->number]) GP_RETURN_IF_FAILED(GP_NEW(&library->ready[plan->number], 1, err));
    *out = library->ready[plan->number];
    return GP_OK;
}

/* Plans were made for these alignments (gp_cuda_alignment). */
static gp_status check_addresses(const gp_op_desc *desc, void *const operands[], gp_error *err) {
    for (int i = 0; i < (int)desc->operands; i++)
        if (desc->operand[i].present && (uintptr_t)operands[i] % (uintptr_t)gp_cuda_alignment(&desc->operand[i]))
            return gp_fail(err, GP_INTERNAL, "cuda: %s: the address of operand %s is not a multiple of %lld bytes",
                           gp_op_name(desc->kind), gp_op_operand_name(desc->kind, i),
                           (long long)gp_cuda_alignment(&desc->operand[i]));
    return GP_OK;
}

gp_status gp_cuda_plan_run(gp_cuda_library *library, const gp_prepared *prepared, void *const operands[],
                           void *workspace, gp_error *err) {
    const gp_cuda_plan *plan = prepared->context;
    gp_cuda_ready *ready;
    GP_RETURN_IF_FAILED(check_addresses(&plan->desc, operands, err));
    GP_RETURN_IF_FAILED(ready_of(library, plan, &ready, err));
    char *room = workspace;
    if (room) room += -(uintptr_t)room % GP_CUDA_WORKSPACE_ALIGNMENT;
    return is_product(plan->desc.kind) ? gp_cublaslt_run(library, plan, ready, operands, room, err)
                                       : gp_cudnn_run(library, plan, ready, operands, room, err);
}
