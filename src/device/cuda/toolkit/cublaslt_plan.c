/* Products of matrices through cuBLASLt, which is column-major: a matrix of ours [rows,width] is its [width,rows].
 *
 * Its heuristics want a device. So a plan is the descriptor and a workspace that follows from it; the algorithm is
 * chosen when a stream first runs the plan, from the descriptor, the device and that workspace alone, and kept with the
 * engines of convolutions (choices.h). */
#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda_workspace.h"
#include "device/cuda/toolkit/choices.h"
#include "device/cuda/toolkit/plan.h"
#include "device/rows.h"

/* d = op(a)·op(b), in cuBLASLt's sense. */
typedef struct roles {
    int a, b, d, bias; /* operands; −1: none */
    bool a_turned, b_turned;
} roles;

static roles roles_of(gp_op_kind kind) {
    switch (kind) {
    case GP_OP_LINEAR_FORWARD:
        return (roles){GP_LINEAR_FORWARD_W, GP_LINEAR_FORWARD_X, GP_LINEAR_FORWARD_Y, GP_LINEAR_FORWARD_B, true, false};
    case GP_OP_LINEAR_BACKWARD_DATA:
        return (roles){
            GP_LINEAR_BACKWARD_DATA_W, GP_LINEAR_BACKWARD_DATA_DY, GP_LINEAR_BACKWARD_DATA_DX, -1, false, false};
    default:
        return (roles){GP_LINEAR_BACKWARD_WEIGHTS_X,
                       GP_LINEAR_BACKWARD_WEIGHTS_DY,
                       GP_LINEAR_BACKWARD_WEIGHTS_DW,
                       -1,
                       false,
                       true};
    }
}

gp_status gp_cublaslt_plan_fill(gp_prepared *prepared, gp_cuda_plan *plan, gp_error *err) {
    if (plan->desc.kind == GP_OP_LINEAR_BACKWARD_WEIGHTS && plan->desc.operand[GP_LINEAR_BACKWARD_WEIGHTS_DB].present)
        return gp_fail(err, GP_UNSUPPORTED, "cuda: a product sums no gradient of a bias");
    GP_RETURN_IF_FAILED(gp_op_prepare_plain(prepared, "cuda", err));
    for (int i = 0; i < (int)plan->desc.operands; i++) plan->desc.operand[i].format = GP_FORMAT_PLAIN;
    plan->workspace = gp_cuda_product_workspace(&plan->desc.operand[roles_of(plan->desc.kind).d]);
    return GP_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static gp_status name_model(gp_cuda_library *library, gp_error *err) {
    struct cudaDeviceProp properties;
    int index = 0;
    cudaError_t code = cudaGetDevice(&index);
    if (code == cudaSuccess) code = cudaGetDeviceProperties(&properties, index);
    if (code != cudaSuccess) return gp_fail(err, GP_DEVICE, "cudaGetDeviceProperties: %s", cudaGetErrorString(code));
    snprintf(library->model, sizeof library->model, "%s, %d multiprocessors", properties.name,
             properties.multiProcessorCount);
    return GP_OK;
}

gp_status gp_cublaslt_handle(gp_cuda_library *library, gp_error *err) {
    if (library->cublaslt) return GP_OK;
    GP_RETURN_IF_FAILED(gp_cublaslt_open(err));
    GP_RETURN_IF_FAILED(name_model(library, err));
    return gp_cublaslt_check(gp_cublaslt.cublasLtCreate(&library->cublaslt), "cublasLtCreate", err);
}

static gp_status set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes,
                     gp_error *err) {
    return gp_cublaslt_check(gp_cublaslt.cublasLtMatmulDescSetAttribute(product, name, value, bytes),
                             "cublasLtMatmulDescSetAttribute", err);
}

static gp_status make_product(const gp_op_desc *desc, cublasLtMatmulDesc_t *out, gp_error *err) {
    roles r = roles_of(desc->kind);
    const cublasComputeType_t compute = desc->flags & GP_OP_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cublasOperation_t turned = CUBLAS_OP_T;
    const cublasLtEpilogue_t adds_bias = CUBLASLT_EPILOGUE_BIAS;
    GP_RETURN_IF_FAILED(gp_cublaslt_check(gp_cublaslt.cublasLtMatmulDescCreate(out, compute, CUDA_R_32F),
                                          "cublasLtMatmulDescCreate", err));
    if (r.a_turned) GP_RETURN_IF_FAILED(set(*out, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned, err));
    if (r.b_turned) GP_RETURN_IF_FAILED(set(*out, CUBLASLT_MATMUL_DESC_TRANSB, &turned, sizeof turned, err));
    if (r.bias >= 0 && desc->operand[r.bias].present)
        GP_RETURN_IF_FAILED(set(*out, CUBLASLT_MATMUL_DESC_EPILOGUE, &adds_bias, sizeof adds_bias, err));
    return GP_OK;
}

static gp_status make_layout(const gp_op_desc *desc, int operand, cublasLtMatrixLayout_t *out, gp_error *err) {
    gp_rows rows = gp_rows_of(&desc->operand[operand]);
    int64_t pitch = gp_rows_dense(rows) ? rows.width : rows.pitch;
    return gp_cublaslt_check(
        gp_cublaslt.cublasLtMatrixLayoutCreate(out, CUDA_R_32F, (uint64_t)rows.width, (uint64_t)rows.count, pitch),
        "cublasLtMatrixLayoutCreate", err);
}

static gp_status prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
                        const void *value, size_t bytes, gp_error *err) {
    return gp_cublaslt_check(gp_cublaslt.cublasLtMatmulPreferenceSetAttribute(preference, name, value, bytes),
                             "cublasLtMatmulPreferenceSetAttribute", err);
}

static gp_status set_preference(const gp_cuda_plan *plan, cublasLtMatmulPreference_t preference, gp_error *err) {
    const gp_op_desc *desc = &plan->desc;
    roles r = roles_of(desc->kind);
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        int operand;
    } aligned[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, r.a},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, r.b},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, r.d},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, r.d}};
    GP_RETURN_IF_FAILED(
        prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &plan->workspace, sizeof plan->workspace, err));
    for (size_t i = 0; i < sizeof aligned / sizeof aligned[0]; i++) {
        uint32_t bytes = (uint32_t)gp_cuda_alignment(&desc->operand[aligned[i].operand]);
        GP_RETURN_IF_FAILED(prefer(preference, aligned[i].name, &bytes, sizeof bytes, err));
    }
    return GP_OK;
}

static gp_status propose(const gp_cuda_library *library, const gp_cuda_plan *plan, gp_cublaslt_built *built,
                         gp_error *err) {
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found = {0};
    int count = 0;
    GP_RETURN_IF_FAILED(gp_cublaslt_check(gp_cublaslt.cublasLtMatmulPreferenceCreate(&preference),
                                          "cublasLtMatmulPreferenceCreate", err));
    gp_status status = set_preference(plan, preference, err);
    if (status == GP_OK)
        status = gp_cublaslt_check(gp_cublaslt.cublasLtMatmulAlgoGetHeuristic(library->cublaslt, built->product,
                                                                              built->a, built->b, built->d, built->d,
                                                                              preference, 1, &found, &count),
                                   "cublasLtMatmulAlgoGetHeuristic", err);
    gp_cublaslt.cublasLtMatmulPreferenceDestroy(preference);
    if (status == GP_OK && (count < 1 || found.state != CUBLAS_STATUS_SUCCESS))
        return gp_fail(err, GP_UNSUPPORTED, "cuda: cuBLASLt has no algorithm for this %s", gp_op_name(plan->desc.kind));
    built->algorithm = found.algo;
    return status;
}

/* ---- what was chosen before -------------------------------------------------------------------------------------- */

/* An algorithm is a few words that may be stored (cublasLt.h); as an engine that cuDNN has none of. */
enum { STORED_ID = -1, WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t) };
_Static_assert((int)WORDS <= (int)GP_CUDNN_MAX_KNOBS, "an algorithm's words are kept as knobs");

static gp_cudnn_engine store(const cublasLtMatmulAlgo_t *algorithm) {
    gp_cudnn_engine as = {.id = STORED_ID, .knobs = WORDS};
    for (int i = 0; i < WORDS; i++) {
        as.knob[i].type = i;
        memcpy(&as.knob[i].value, &algorithm->data[i], sizeof algorithm->data[i]);
    }
    return as;
}

static bool restore(const gp_cudnn_engine *stored, cublasLtMatmulAlgo_t *out) {
    if (stored->id != STORED_ID || stored->knobs != WORDS) return false;
    for (int i = 0; i < WORDS; i++) {
        if (stored->knob[i].type != i) return false;
        memcpy(&out->data[i], &stored->knob[i].value, sizeof out->data[i]);
    }
    return true;
}

/* Whether cuBLASLt can do it so on this device, in the workspace that was planned. */
static bool will_do(const gp_cuda_library *library, const gp_cuda_plan *plan, const gp_cublaslt_built *built,
                    const cublasLtMatmulAlgo_t *algorithm) {
    cublasLtMatmulHeuristicResult_t found = {0};
    return gp_cublaslt.cublasLtMatmulAlgoCheck(library->cublaslt, built->product, built->a, built->b, built->d,
                                               built->d, algorithm, &found) == CUBLAS_STATUS_SUCCESS &&
           found.workspaceSize <= plan->workspace;
}

/* What was chosen before, as far as it still does; else what cuBLASLt proposes now. */
static gp_status choose_algorithm(const gp_cuda_library *library, const gp_cuda_plan *plan, gp_cublaslt_built *built,
                                  gp_error *err) {
    gp_cudnn_engine stored;
    cublasLtMatmulAlgo_t before;
    uint64_t key = gp_choice_key(&plan->desc, library->model, gp_cublaslt.cublasLtGetVersion());
    if (gp_choice_find(key, &stored) && restore(&stored, &before) && will_do(library, plan, built, &before)) {
        built->algorithm = before;
        return GP_OK;
    }
    GP_RETURN_IF_FAILED(propose(library, plan, built, err));
    stored = store(&built->algorithm);
    gp_choice_add(key, &stored);
    return GP_OK;
}

/* ---- products made ready ----------------------------------------------------------------------------------------- */

/* Each run sets the address of the bias; the heuristics need any address. */
static gp_status set_bias(const gp_cuda_plan *plan, const gp_cublaslt_built *built, void *const operands[],
                          gp_error *err) {
    int bias = roles_of(plan->desc.kind).bias;
    if (bias < 0 || !operands[bias]) return GP_OK;
    return set(built->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, (const void *)&operands[bias], sizeof operands[bias],
               err);
}

static gp_status build(gp_cuda_library *library, const gp_cuda_plan *plan, void *const operands[],
                       gp_cublaslt_built *out, gp_error *err) {
    const gp_op_desc *desc = &plan->desc;
    roles r = roles_of(desc->kind);
    gp_cublaslt_built built = {0};
    GP_RETURN_IF_FAILED(gp_cublaslt_handle(library, err));
    gp_status status = make_product(desc, &built.product, err);
    if (status == GP_OK) status = make_layout(desc, r.a, &built.a, err);
    if (status == GP_OK) status = make_layout(desc, r.b, &built.b, err);
    if (status == GP_OK) status = make_layout(desc, r.d, &built.d, err);
    if (status == GP_OK) status = set_bias(plan, &built, operands, err);
    if (status == GP_OK) status = choose_algorithm(library, plan, &built, err);
    if (status == GP_OK)
        *out = built;
    else
        gp_cublaslt_built_fini(&built);
    return status;
}

void gp_cublaslt_built_fini(gp_cublaslt_built *built) {
    if (built->d) gp_cublaslt.cublasLtMatrixLayoutDestroy(built->d);
    if (built->b) gp_cublaslt.cublasLtMatrixLayoutDestroy(built->b);
    if (built->a) gp_cublaslt.cublasLtMatrixLayoutDestroy(built->a);
    if (built->product) gp_cublaslt.cublasLtMatmulDescDestroy(built->product);
    *built = (gp_cublaslt_built){0};
}

gp_status gp_cublaslt_run(gp_cuda_library *library, const gp_cuda_plan *plan, gp_cuda_ready *ready,
                          void *const operands[], void *workspace, gp_error *err) {
    const float one = 1, zero = 0;
    const float *beta = plan->desc.flags & GP_OP_ACCUMULATE ? &one : &zero;
    roles r = roles_of(plan->desc.kind);
    gp_cublaslt_built *built = &ready->product;
    if (!built->product) GP_RETURN_IF_FAILED(build(library, plan, operands, built, err));
    /* The product belongs to this stream alone: no other thread sets its bias in between. */
    GP_RETURN_IF_FAILED(set_bias(plan, built, operands, err));
    return gp_cublaslt_check(gp_cublaslt.cublasLtMatmul(library->cublaslt, built->product, &one, operands[r.a],
                                                        built->a, operands[r.b], built->b, beta, operands[r.d],
                                                        built->d, operands[r.d], built->d, &built->algorithm, workspace,
                                                        plan->workspace, library->stream),
                             "cublasLtMatmul", err);
}
