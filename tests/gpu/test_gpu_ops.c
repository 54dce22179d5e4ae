/* Every op on a GPU against the reference device, over odd shapes; each case twice, with equal bits; convolutions and
 * products with factors rounded to TF32 too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/tolerance.h"
#include "device/cuda/cuda.h"
#include "device/op_cases.h"
#include "device/op_trial.h"
#include "device/ref/ref.h"
#include "gpu/gpu.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

static int cases = GP_OP_CASES;

/* ---- one device for all cases: to make streams and libraries' handles takes longer than to run a case ---------------
 */

static gp_device_kind lasting; /* gp_cuda_kind, but for these four */
static gp_device *the_device;
static gp_stream *the_stream;

static gp_status open_lasting(const gp_device_spec *spec, gp_device **out, gp_error *err) {
    if (!the_device) GP_RETURN_IF_FAILED(gp_cuda_kind.open(spec, &the_device, err));
    *out = the_device;
    return GP_OK;
}

static void close_lasting(gp_device *device) {
    (void)device;
}

static gp_status create_lasting(gp_device *device, bool copies, gp_stream **out, gp_error *err) {
    if (!the_stream) GP_RETURN_IF_FAILED(gp_cuda_kind.stream_create(device, copies, &the_stream, err));
    *out = the_stream;
    return GP_OK;
}

static void destroy_lasting(gp_stream *stream) {
    gp_error ignored;
    (void)gp_cuda_kind.stream_finish(stream, NULL, &ignored);
}

static int set_up(void **state) {
    (void)state;
    lasting = gp_cuda_kind;
    lasting.open = open_lasting;
    lasting.close = close_lasting;
    lasting.stream_create = create_lasting;
    lasting.stream_destroy = destroy_lasting;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (the_stream) gp_cuda_kind.stream_destroy(the_stream);
    if (the_device) gp_cuda_kind.close(the_device);
    return 0;
}

/* ---- cases ---------------------------------------------------------------------------------------------------------
 */

static bool is_conv(gp_op_kind kind) {
    return kind == GP_OP_CONV_FORWARD || kind == GP_OP_CONV_BACKWARD_DATA || kind == GP_OP_CONV_BACKWARD_WEIGHTS;
}

static bool is_library(gp_op_kind kind) {
    return kind <= GP_OP_LINEAR_BACKWARD_WEIGHTS;
}

static int weights_of(gp_op_kind kind) {
    if (kind == GP_OP_CONV_FORWARD) return GP_CONV_FORWARD_W;
    return kind == GP_OP_CONV_BACKWARD_DATA ? (int)GP_CONV_BACKWARD_DATA_W : (int)GP_CONV_BACKWARD_WEIGHTS_DW;
}

static gp_status try_prepare(const gp_op_case *op_case, gp_error *err) {
    gp_op_cache *cache;
    const gp_prepared *prepared;
    GP_RETURN_IF_FAILED(gp_op_cache_create(&cache, err));
    gp_status status = gp_op_prepare(cache, &gp_cuda_kind, &op_case->desc, &prepared, err);
    gp_op_cache_destroy(&cache);
    return status;
}

/* Weights lie as the device chooses. What the device refuses to add to is overwritten, as the planner has it then. */
static void make_case(gp_op_kind kind, int number, uint32_t flags, gp_op_case *out) {
    gp_error err = {0};
    gp_op_case_make(kind, number, GP_F32, out);
    out->desc.flags |= flags;
    if (is_conv(kind)) out->desc.operand[weights_of(kind)].format = GP_FORMAT_ANY;
    if (out->desc.flags & GP_OP_ACCUMULATE && try_prepare(out, &err) == GP_UNSUPPORTED)
        out->desc.flags &= ~(uint32_t)GP_OP_ACCUMULATE;
}

/* How far from ref, of the largest element; 0: equal bits, but for NaN's. The reference computes in f64. */
static double tolerance_of(const gp_op_desc *desc) {
    if (is_library(desc->kind)) return 3e-6;
    return kernel_tolerance(desc->kind);
}

/* ---- comparisons ---------------------------------------------------------------------------------------------------
 */

static void compare_bits(const trial *got, const trial *again) {
    const gp_op_desc *desc = &got->op_case.desc;
    char text[GP_CASE_TEXT];
    for (int i = 0; i < (int)desc->operands; i++)
        if (desc->operand[i].present && gp_op_writes(desc->kind, i) &&
            memcmp(got->host[i], again->host[i], gp_tensor_bytes(&desc->operand[i])) != 0)
            fail_msg("%s, operand %s: other bits when it ran again", gp_op_case_text(text, &got->op_case),
                     gp_op_operand_name(desc->kind, i));
}

/* TF32 has 10 bits behind the point. A factor that is rounded to nearest is off by at most 2^-11 of itself; one that is
 * cut off by less than 2^-10. The hardware may do either. So a product of two factors is off by less than 2·2^-10 of
 * itself. It has 22 bits, which f32 holds. K terms are added in f32; if each addition cuts off too, it loses less than
 * 2^-23 of the terms' magnitudes. The result is rounded once, and so is the reference. Together, of the sum of the
 * magnitudes of one result's own terms: 2^-9 + (K + 2)·2^-23. */
static double tf32_bound(double terms) {
    return 0x1p-9 + (terms + 2) * 0x1p-23;
}

/* What ref makes of the case with other numbers: the terms' magnitudes, or 1 each, which counts them. */
static void run_with(const trial *want, bool ones, trial *out) {
    const gp_op_desc *desc = &want->op_case.desc;
    out->op_case = want->op_case;
    trial_fill(out);
    for (int i = 0; i < (int)desc->operands; i++) {
        float *at = out->host[i];
        if (!desc->operand[i].present || desc->operand[i].dtype != GP_F32) continue;
        for (size_t e = 0; e < gp_tensor_bytes(&desc->operand[i]) / sizeof *at; e++) at[e] = ones ? 1 : fabsf(at[e]);
    }
    trial_run(&gp_ref_kind, out);
}

static size_t offset_of(const gp_tensor *tensor, int64_t element) {
    int64_t offset = 0;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        offset += element % tensor->dim[d] * tensor->stride[d];
        element /= tensor->dim[d];
    }
    return (size_t)offset;
}

/* Each element by its own terms: stricter than by the largest, where terms cancel in no other. */
static void compare_tf32(const trial *got, const trial *want) {
    const gp_op_desc *desc = &want->op_case.desc;
    trial sizes, counts;
    char text[GP_CASE_TEXT];
    run_with(want, false, &sizes);
    run_with(want, true, &counts);
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        const float *a = got->host[i], *b = want->host[i], *size = sizes.host[i], *count = counts.host[i];
        if (!tensor->present || !gp_op_writes(desc->kind, i)) continue;
        for (int64_t e = 0; e < gp_tensor_elements(tensor); e++) {
            size_t at = offset_of(tensor, e);
            double off = fabs((double)a[at] - (double)b[at]), may = tf32_bound((double)count[at]) * (double)size[at];
            if (!(off <= may))
                fail_msg("%s, operand %s: element %lld is %.9g, which should be %.9g, by %.3g",
                         gp_op_case_text(text, &want->op_case), gp_op_operand_name(desc->kind, i), (long long)e,
                         (double)a[at], (double)b[at], may);
        }
        assert_true(gp_op_gaps_kept(tensor, got->host[i]));
    }
    trial_fini(&sizes);
    trial_fini(&counts);
}

static void check_case(gp_op_kind kind, int number, uint32_t flags) {
    trial got, again, want;
    make_case(kind, number, flags, &got.op_case);
    again.op_case = want.op_case = got.op_case;
    trial_fill(&got);
    trial_fill(&again);
    trial_fill(&want);
    trial_run(&gp_ref_kind, &want);
    trial_run(&lasting, &got);
    trial_run(&lasting, &again);
    if (flags & GP_OP_TF32)
        compare_tf32(&got, &want);
    else
        trial_compare(&got, &want, tolerance_of(&want.op_case.desc));
    compare_bits(&got, &again);
    trial_fini(&got);
    trial_fini(&again);
    trial_fini(&want);
}

static void check_kinds(bool library, uint32_t flags) {
    for (int kind = 0; kind < GP_OP_KINDS; kind++)
        for (int number = 0; number < cases && is_library((gp_op_kind)kind) == library; number++)
            check_case((gp_op_kind)kind, number, flags);
}

static void test_own_kernels(void **state) {
    (void)state;
    check_kinds(false, 0);
}

static void test_libraries(void **state) {
    (void)state;
    check_kinds(true, 0);
}

static void test_libraries_in_tf32(void **state) {
    (void)state;
    check_kinds(true, GP_OP_TF32);
}

/* test_gpu_ops [CASES [TEST]]: so many of each op; one test alone. */
int main(int argc, char **argv) {
    if (!gpu_is_there()) return GPU_SKIPPED;
    if (argc > 1) cases = atoi(argv[1]);
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_kernels),
        cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_libraries_in_tf32),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
