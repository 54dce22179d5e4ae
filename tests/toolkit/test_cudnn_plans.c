/* Plans of cuDNN and cuBLASLt, made with no device at hand: every convolution and product of ResNet-50 and of a U-Net,
 * and every case of tests/device, for an H100 and an A100.
 *
 *   test_cudnn_plans           the tests
 *   test_cudnn_plans --table   a line for each layer: engine, workspace and bytes of its ops
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "device/cuda/toolkit/choices.h"
#include "device/cuda/toolkit/cudnn_device.h"
#include "device/cuda/toolkit/plan.h"
#include "device/op_cases.h"
#include "toolkit/lowered_ops.h"

static const char *const devices[] = {"h100", "a100"};
enum { DEVICES = sizeof devices / sizeof devices[0] };
static const uint32_t precisions[] = {0, GP_OP_TF32};
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

static void describe(const char *device) {
    gp_error err = {0};
    if (gp_cudnn_device_describe(device, &err) != GP_OK) fail_msg("%s: %s", device, err.text);
}

static gp_status plan(const gp_op_desc *desc, uint32_t flags, gp_prepared *out, gp_error *err) {
    memset(out, 0, sizeof *out);
    memcpy(&out->desc, desc, sizeof *desc);
    out->desc.flags |= flags;
    GP_RETURN_IF_FAILED(gp_op_desc_check(&out->desc, err));
    GP_RETURN_IF_FAILED(gp_cuda_plan_create(out, err));
    gp_op_count(&out->desc, &out->flops, &out->bytes);
    return GP_OK;
}

static bool is_convolution(const gp_op_desc *desc) {
    return desc->kind <= GP_OP_CONV_BACKWARD_WEIGHTS;
}

/* The plan's engine, built a second time; the caller frees it. */
static gp_cudnn_built rebuild(const gp_cuda_plan *its, const char *what) {
    const gp_cudnn_device *device;
    gp_cudnn_built built = {0};
    gp_error err = {0};
    if (gp_cudnn_device_get(&device, &err) != GP_OK ||
        gp_cudnn_engine_build(&its->desc, device->properties, &its->engine, &built, &err) != GP_OK)
        fail_msg("%s: %s", what, err.text);
    return built;
}

/* What cuDNN itself says of the engine. */
static void expect_notes(const gp_cuda_plan *its, const char *what) {
    gp_cudnn_built built = rebuild(its, what);
    for (int i = 0; i < built.notes; i++) {
        if (built.note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            fail_msg("%s: engine %lld does not give the same bits each time", what, (long long)its->engine.id);
        if (built.note[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
            (built.note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && !(its->desc.flags & GP_OP_TF32)))
            fail_msg("%s: engine %lld computes in less than f32", what, (long long)its->engine.id);
    }
    assert_int_equal(built.workspace, its->workspace);
    gp_cudnn_built_fini(&built);
}

static void expect_plan(const gp_op_desc *desc, uint32_t flags, const char *what) {
    gp_prepared first, second;
    gp_error err = {0};
    if (plan(desc, flags, &first, &err) != GP_OK) fail_msg("%s: %s", what, err.text);
    gp_choices_forget();
    if (plan(desc, flags, &second, &err) != GP_OK) fail_msg("%s again: %s", what, err.text);
    const gp_cuda_plan *one = first.context, *two = second.context;
    assert_int_equal(first.workspace, second.workspace);
    assert_memory_equal(&one->engine, &two->engine, sizeof one->engine);
    assert_memory_equal(first.operand, second.operand, sizeof first.operand);
    assert_true(one->number != two->number);
    assert_true(first.workspace >= one->workspace && first.workspace % 128 == 0);
    if (is_convolution(desc)) expect_notes(one, what);
    gp_cuda_plan_destroy(first.context);
    gp_cuda_plan_destroy(second.context);
}

/* Every micro-batch after the first adds its gradient: by the same engine, in no more workspace than the gradient takes
 * beside. */
static void expect_adding(const gp_op_desc *desc, uint32_t flags, const char *what) {
    gp_prepared first, adding;
    gp_error err = {0};
    if (plan(desc, flags, &first, &err) != GP_OK || plan(desc, flags | GP_OP_ACCUMULATE, &adding, &err) != GP_OK)
        fail_msg("%s: %s", what, err.text);
    const gp_cuda_plan *one = first.context, *two = adding.context;
    assert_memory_equal(&one->engine, &two->engine, sizeof one->engine);
    assert_memory_equal(first.operand, adding.operand, sizeof first.operand);
    size_t beside = gp_tensor_bytes(&desc->operand[GP_CONV_BACKWARD_WEIGHTS_DW]) + 128; /* and its alignment */
    if (two->workspace > one->workspace + beside)
        fail_msg("%s: %zu bytes of workspace, and %zu to add", what, one->workspace, two->workspace);
    gp_cuda_plan_destroy(first.context);
    gp_cuda_plan_destroy(adding.context);
}

static void expect_network(const network *its, int total) {
    lowered_ops ops;
    char what[256];
    lowered_ops_collect(its, &ops);
    assert_int_equal(ops.total, total);
    for (int d = 0; d < DEVICES; d++) {
        describe(devices[d]);
        for (size_t i = 0; i < ops.count; i++) {
            for (int p = 0; p < PRECISIONS; p++) {
                snprintf(what, sizeof what, "%s, %s, %s%s", devices[d], ops.item[i].layer,
                         gp_op_name(ops.item[i].desc.kind), precisions[p] ? ", tf32" : "");
                expect_plan(&ops.item[i].desc, precisions[p], what);
                if (ops.item[i].desc.kind == GP_OP_CONV_BACKWARD_WEIGHTS && !ops.item[i].desc.flags)
                    expect_adding(&ops.item[i].desc, precisions[p], what);
            }
        }
    }
    lowered_ops_release(&ops);
}

/* 53 convolutions and one product, each forward, backward to its input, and twice to its weights. */
static void test_resnet(void **state) {
    (void)state;
    expect_network(&networks[NETWORK_RESNET], 54 * 4);
}

static void test_unet(void **state) {
    (void)state;
    expect_network(&networks[NETWORK_UNET], 23 * 4);
}

static void erase_bias_gradient(gp_op_desc *desc) {
    if (desc->kind == GP_OP_CONV_BACKWARD_WEIGHTS)
        memset(&desc->operand[GP_CONV_BACKWARD_WEIGHTS_DB], 0, sizeof(gp_tensor));
    if (desc->kind == GP_OP_LINEAR_BACKWARD_WEIGHTS)
        memset(&desc->operand[GP_LINEAR_BACKWARD_WEIGHTS_DB], 0, sizeof(gp_tensor));
}

/* Odd shapes, rectangles, groups, dilations, slices of channels, gradients that add up: in both layouts of weights. */
static void test_cases(void **state) {
    (void)state;
    gp_op_case made;
    char text[GP_CASE_TEXT];
    describe("h100");
    for (int kind = GP_OP_CONV_FORWARD; kind <= GP_OP_LINEAR_BACKWARD_WEIGHTS; kind++) {
        for (int number = 0; number < GP_OP_CASES; number++) {
            gp_op_case_make((gp_op_kind)kind, number, GP_F32, &made);
            erase_bias_gradient(&made.desc);
            gp_op_case_text(text, &made);
            expect_plan(&made.desc, 0, text);
            expect_plan(&made.desc, GP_OP_TF32, text);
        }
    }
}

/* Which layout the weights get: the channels last where tensor cores compute, and where that is another one at all. */
static void test_formats(void **state) {
    (void)state;
    static const struct {
        int64_t in, kernel;
        uint32_t flags;
        gp_format format;
    } expected[] = {{64, 3, 0, GP_FORMAT_PLAIN},
                    {64, 3, GP_OP_TF32, GP_CUDA_FORMAT_CHANNELS_LAST},
                    {64, 1, GP_OP_TF32, GP_FORMAT_PLAIN},
                    {1, 3, GP_OP_TF32, GP_FORMAT_PLAIN}};
    describe("h100");
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        int64_t in = expected[i].in, kernel = expected[i].kernel, pad = kernel / 2;
        gp_op_desc desc;
        gp_prepared prepared;
        gp_error err = {0};
        gp_op_desc_init(&desc, GP_OP_CONV_FORWARD);
        desc.operand[GP_CONV_FORWARD_X] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){4, 8, 8, in});
        desc.operand[GP_CONV_FORWARD_W] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){32, in, kernel, kernel});
        desc.operand[GP_CONV_FORWARD_W].format = GP_FORMAT_ANY;
        desc.operand[GP_CONV_FORWARD_Y] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){4, 8, 8, 32});
        desc.attributes.conv = (gp_conv_attributes){{kernel, kernel}, {1, 1}, {pad, pad}, {1, 1}, 1};
        if (plan(&desc, expected[i].flags, &prepared, &err) != GP_OK) fail_msg("%s", err.text);
        assert_int_equal(prepared.operand[GP_CONV_FORWARD_W].format, expected[i].format);
        assert_int_equal(prepared.operand[GP_CONV_FORWARD_W].bytes, 4 * 32 * in * kernel * kernel);
        assert_int_equal(prepared.operand[GP_CONV_FORWARD_X].bytes, 4 * 4 * 8 * 8 * in);
        gp_cuda_plan_destroy(prepared.context);
    }
}

/* The device itself adds the bias's gradient to what the library does. */
static void test_bias_gradients(void **state) {
    (void)state;
    static const gp_op_kind kinds[] = {GP_OP_CONV_BACKWARD_WEIGHTS, GP_OP_LINEAR_BACKWARD_WEIGHTS};
    gp_error err = {0};
    gp_op_cache *cache;
    describe("h100");
    assert_int_equal(gp_op_cache_create(&cache, &err), GP_OK);
    for (int number = 0; number < GP_OP_CASES; number++) {
        for (int k = 0; k < 2; k++) {
            gp_op_case made;
            const gp_prepared *whole, *product;
            gp_op_case_make(kinds[k], number, GP_F32, &made);
            if (gp_op_prepare(cache, &gp_cuda_kind, &made.desc, &whole, &err) != GP_OK) fail_msg("%s", err.text);
            size_t bias = gp_tensor_bytes(&made.desc.operand[GP_CONV_BACKWARD_WEIGHTS_DB]);
            erase_bias_gradient(&made.desc);
            if (gp_op_prepare(cache, &gp_cuda_kind, &made.desc, &product, &err) != GP_OK) fail_msg("%s", err.text);
            assert_int_equal(whole->operand[GP_CONV_BACKWARD_WEIGHTS_DB].bytes, bias);
            assert_int_equal(whole->workspace > product->workspace, bias > 0);
            assert_memory_equal(whole->operand, product->operand, 3 * sizeof whole->operand[0]);
        }
    }
    gp_op_cache_destroy(&cache);
}

static void test_refuses(void **state) {
    (void)state;
    gp_op_case made;
    gp_prepared prepared;
    gp_error err = {0};
    gp_op_case_make(GP_OP_CONV_FORWARD, 1, GP_F64, &made);
    assert_int_equal(plan(&made.desc, 0, &prepared, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, "cuda: conv_forward does not take F64 as its operand x");
    gp_op_case_make(GP_OP_CONV_FORWARD, 1, GP_F32, &made);
    made.desc.operand[GP_CONV_FORWARD_W].format = 7;
    assert_int_equal(plan(&made.desc, 0, &prepared, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, "cuda: conv_forward does not know format 7 of its operand w");
    gp_op_case_make(GP_OP_FLATTEN, 1, GP_F32, &made);
    assert_int_equal(plan(&made.desc, 0, &prepared, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, "cuda: flatten is not available yet");
    assert_int_equal(gp_cudnn_device_describe("h101", &err), GP_USAGE);
    assert_string_equal(err.text, "cuda: no device is described as \"h101\"");
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void shape_text(char text[64], const gp_op_desc *desc) {
    const gp_tensor *x = &desc->operand[0];
    const gp_conv_attributes *a = &desc->attributes.conv;
    int at = 0;
    for (int d = 0; d < x->rank; d++)
        at += snprintf(text + at, (size_t)(64 - at), "%s%lld", d ? "x" : "", (long long)x->dim[d]);
    if (is_convolution(desc))
        snprintf(text + at, (size_t)(64 - at), " k%lld s%lld", (long long)a->kernel[0], (long long)a->stride[0]);
}

/* By a letter: t computes on tensor cores, w by Winograd's algorithm. */
static const char *note_letters(const gp_cuda_plan *its) {
    gp_cudnn_built built = rebuild(its, "note");
    bool tensor_core = false, winograd = false;
    for (int i = 0; i < built.notes; i++) {
        tensor_core |= built.note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        winograd |= built.note[i] == CUDNN_NUMERICAL_NOTE_WINOGRAD;
    }
    gp_cudnn_built_fini(&built);
    return winograd ? "w" : tensor_core ? "t" : " ";
}

/* Engine, its notes, workspace, bytes read and written once. */
static size_t print_op(const gp_op_desc *desc, uint32_t flags) {
    gp_prepared prepared;
    gp_error err = {0};
    if (plan(desc, flags, &prepared, &err) != GP_OK) {
        printf(" | %s", err.text);
        return 0;
    }
    const gp_cuda_plan *its = prepared.context;
    size_t workspace = its->workspace;
    if (is_convolution(desc))
        printf(" | %3lld%s", (long long)its->engine.id, note_letters(its));
    else
        printf(" |  Lt ");
    printf(" %7.2f %6.1f", (double)workspace / 0x1p20, prepared.bytes / 0x1p20);
    gp_cuda_plan_destroy(prepared.context);
    return workspace;
}

/* One line for each layer that is not like one before it: its four ops come one after another. */
static void print_layers(const lowered_ops *ops, const char *device, uint32_t flags) {
    size_t most = 0;
    char shape[64];
    for (size_t i = 0; i + 3 < ops->count; i += 4) {
        const lowered_op *forward = &ops->item[i];
        shape_text(shape, &forward->desc);
        printf("%s %-4s %-21s %2d %-22s", device, flags ? "tf32" : "f32", forward->layer, forward->uses, shape);
        for (size_t k = i; k < i + 4; k++) {
            size_t workspace = print_op(&ops->item[k].desc, flags);
            if (workspace > most) most = workspace;
        }
        printf("\n");
    }
    printf("%s %-4s largest workspace: %.1f MiB\n\n", device, flags ? "tf32" : "f32", (double)most / 0x1p20);
}

static int print_table(void) {
    gp_error err = {0};
    printf("cuDNN %zu; engine (t: tensor cores, w: Winograd), workspace and bytes (MiB) of each op\n",
           gp_cudnn.cudnnGetVersion());
    for (int n = 0; n < NETWORKS; n++) {
        lowered_ops ops;
        lowered_ops_collect(&networks[n], &ops);
        printf("\n%s: %d ops, %zu of them different\n", networks[n].name, ops.total, ops.count);
        printf("%-9s %-24s %-22s | %-19s | %-19s | %-19s | %s\n", "", "layer, and how many", "input", "forward",
               "backward, weights", "the same, adding", "backward, data");
        for (int d = 0; d < DEVICES; d++) {
            if (gp_cudnn_device_describe(devices[d], &err) != GP_OK) {
                fprintf(stderr, "%s\n", err.text);
                return 1;
            }
            for (int p = 0; p < PRECISIONS; p++) print_layers(&ops, devices[d], precisions[p]);
        }
        lowered_ops_release(&ops);
    }
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resnet),  cmocka_unit_test(test_unet),           cmocka_unit_test(test_cases),
        cmocka_unit_test(test_formats), cmocka_unit_test(test_bias_gradients), cmocka_unit_test(test_refuses),
    };
    gp_error err = {0};
    setenv("XDG_CACHE_HOME", "nowhere", 1); /* no absolute path: none */
    unsetenv("HOME");
    if (gp_cudnn_open(&err) != GP_OK) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    if (argc > 1 && strcmp(argv[1], "--table") == 0) return print_table();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
