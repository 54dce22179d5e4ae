/* Algorithms of products that were chosen before, with no device at hand: cuBLASLt's own calls make products and
 * layouts; those that want a device are told here what to say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda/toolkit/choices.h"
#include "device/cuda/toolkit/libraries.h"
#include "device/cuda/toolkit/plan.h"

static char folder[64], path[128];

static struct {
    int proposed, checked;
    cublasStatus_t check;
    size_t workspace, version;
    cublasLtMatmulAlgo_t ran;
} it;

static size_t version(void) {
    return it.version;
}

/* Another one each time. */
static cublasStatus_t propose(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                              cublasLtMatmulPreference_t preference, int wanted,
                              cublasLtMatmulHeuristicResult_t results[], int *count) {
    (void)handle, (void)product, (void)a, (void)b, (void)c, (void)d, (void)preference, (void)wanted;
    it.proposed++;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 8; i++) results[0].algo.data[i] = UINT64_MAX - (uint64_t)(it.proposed * 100 + i);
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                            const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulHeuristicResult_t *result) {
    (void)handle, (void)product, (void)a, (void)b, (void)c, (void)d, (void)algorithm;
    it.checked++;
    result->workspaceSize = it.workspace;
    return it.check;
}

static cublasStatus_t multiply(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha, const void *a,
                               cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                               const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                               cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                               size_t workspace_bytes, cudaStream_t stream) {
    (void)handle, (void)product, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c;
    (void)c_layout, (void)d, (void)d_layout, (void)workspace, (void)workspace_bytes, (void)stream;
    it.ran = *algorithm;
    return CUBLAS_STATUS_SUCCESS;
}

static int begin(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_products.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/gpipe/cudnn-engines", folder);
    setenv("XDG_CACHE_HOME", folder, 1);
    gp_choices_forget();
    memset(&it, 0, sizeof it);
    it.version = 130000;
    gp_cublaslt.cublasLtGetVersion = version;
    gp_cublaslt.cublasLtMatmulAlgoGetHeuristic = propose;
    gp_cublaslt.cublasLtMatmulAlgoCheck = check;
    gp_cublaslt.cublasLtMatmul = multiply;
    return 0;
}

static int end(void **state) {
    (void)state;
    char inner[160];
    unlink(path);
    snprintf(inner, sizeof inner, "%s/gpipe", folder);
    rmdir(inner);
    rmdir(folder);
    return 0;
}

static gp_op_desc product(int64_t rows) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_LINEAR_FORWARD);
    desc.operand[GP_LINEAR_FORWARD_X] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){rows, 12});
    desc.operand[GP_LINEAR_FORWARD_W] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){20, 12});
    desc.operand[GP_LINEAR_FORWARD_Y] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){rows, 20});
    return desc;
}

/* What a process does: knows no more than the file, runs the product on a stream of that model, and closes it. */
static cublasLtMatmulAlgo_t run(const gp_op_desc *desc, const char *model) {
    gp_error err = {0};
    gp_prepared prepared = {.desc = *desc};
    gp_cuda_library library = {0};
    gp_cuda_ready ready = {0};
    float memory[1] = {0};
    void *operands[GP_MAX_OPERANDS] = {memory, memory, NULL, memory};
    gp_choices_forget();
    if (gp_cuda_plan_create(&prepared, &err) != GP_OK) fail_msg("%s", err.text);
    library.cublaslt = (cublasLtHandle_t)(void *)memory; /* never looked into */
    snprintf(library.model, sizeof library.model, "%s", model);
    if (gp_cublaslt_run(&library, prepared.context, &ready, operands, NULL, &err) != GP_OK) fail_msg("%s", err.text);
    gp_cublaslt_built_fini(&ready.product);
    gp_cuda_plan_destroy(prepared.context);
    gp_choices_save();
    return it.ran;
}

static void expect_same(cublasLtMatmulAlgo_t a, cublasLtMatmulAlgo_t b, bool same) {
    assert_int_equal(memcmp(&a, &b, sizeof a) == 0, same);
}

static void test_chosen_once(void **state) {
    (void)state;
    const gp_op_desc desc = product(16);
    cublasLtMatmulAlgo_t first = run(&desc, "a");
    assert_int_equal(it.proposed, 1);
    assert_int_equal(it.checked, 0);
    expect_same(run(&desc, "a"), first, true);
    assert_int_equal(it.proposed, 1);
    assert_int_equal(it.checked, 1);
}

/* Whatever it was chosen by makes another choice, and the first one stays. */
static void test_keys(void **state) {
    (void)state;
    const gp_op_desc desc = product(16), more = product(17);
    gp_op_desc tf32 = desc;
    tf32.flags = GP_OP_TF32;
    cublasLtMatmulAlgo_t first = run(&desc, "a");
    expect_same(run(&more, "a"), first, false);
    expect_same(run(&tf32, "a"), first, false);
    expect_same(run(&desc, "b"), first, false);
    it.version++;
    expect_same(run(&desc, "a"), first, false);
    assert_int_equal(it.proposed, 5);
    it.version--;
    expect_same(run(&desc, "a"), first, true);
    assert_int_equal(it.proposed, 5);
}

/* What cuBLASLt refuses, or what wants more workspace than was planned, is chosen anew. */
static void test_refused(void **state) {
    (void)state;
    const gp_op_desc desc = product(16);
    cublasLtMatmulAlgo_t first = run(&desc, "a");
    it.check = CUBLAS_STATUS_NOT_SUPPORTED;
    cublasLtMatmulAlgo_t second = run(&desc, "a");
    expect_same(second, first, false);
    it.check = CUBLAS_STATUS_SUCCESS;
    expect_same(run(&desc, "a"), second, true);
    it.workspace = (size_t)64 << 20;
    expect_same(run(&desc, "a"), second, false);
    assert_int_equal(it.proposed, 3);
}

static void test_damaged_or_foreign(void **state) {
    (void)state;
    const gp_op_desc desc = product(16);
    cublasLtMatmulAlgo_t first = run(&desc, "a");
    char text[4096];
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    long at = (long)(strstr(text, " 0=") - text) + 3;
    fseek(file, at, SEEK_SET);
    fputc(text[at] == '1' ? '2' : '1', file);
    fclose(file);
    cublasLtMatmulAlgo_t second = run(&desc, "a");
    expect_same(second, first, false);
    assert_int_equal(it.checked, 0);
    /* Engines of cuDNN, as some other program may have written: nothing that is asked about. */
    static const gp_cudnn_engine foreign[] = {
        {.id = 7},
        {.id = 7, .knobs = 8, .knob = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}}},
        {.id = -1, .knobs = 7},
        {.id = -1, .knobs = 8}};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        gp_choice_add(gp_choice_key(&desc, "a", it.version), &foreign[i]);
        gp_choices_save();
        expect_same(run(&desc, "a"), second, false);
    }
    assert_int_equal(it.checked, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_chosen_once, begin, end),
        cmocka_unit_test_setup_teardown(test_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_damaged_or_foreign, begin, end),
    };
    gp_error err = {0};
    if (gp_cublaslt_open(&err) != GP_OK) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
