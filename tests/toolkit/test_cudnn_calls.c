/* What is asked of cuDNN, with some of its calls answered by the test: which engines will do, by their notes; and runs,
 * which need no device as far as cuDNN's own call to execute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/toolkit/cudnn_device.h"
#include "device/cuda/toolkit/plan.h"

static gp_cudnn_calls real;

static gp_op_desc convolution(uint32_t flags) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_CONV_FORWARD);
    desc.operand[GP_CONV_FORWARD_X] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){4, 8, 8, 16});
    desc.operand[GP_CONV_FORWARD_W] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){32, 16, 3, 3});
    desc.operand[GP_CONV_FORWARD_Y] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){4, 8, 8, 32});
    desc.attributes.conv = (gp_conv_attributes){{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
    desc.flags = flags;
    return desc;
}

static int begin(void **state) {
    (void)state;
    gp_error err = {0};
    real = gp_cudnn;
    if (gp_cudnn_device_describe("h100", &err) != GP_OK) fail_msg("%s", err.text);
    return 0;
}

static int end(void **state) {
    (void)state;
    gp_cudnn = real;
    return 0;
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

static unsigned said; /* bit i: every engine has numerical note i, and no other */

static cudnnStatus_t say_notes(const cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t name,
                               cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count, void *values) {
    if (name != CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
        return real.cudnnBackendGetAttribute(part, name, type, capacity, count, values);
    *count = 0;
    for (int note = 0; note < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; note++)
        if (said >> note & 1) ((cudnnBackendNumericalNote_t *)values)[(*count)++] = (cudnnBackendNumericalNote_t)note;
    return CUDNN_STATUS_SUCCESS;
}

static bool will_do(uint32_t flags, unsigned notes) {
    gp_error err = {0};
    gp_cudnn_engine engine;
    const gp_cudnn_device *device;
    const gp_op_desc desc = convolution(flags);
    if (gp_cudnn_device_get(&device, &err) != GP_OK) fail_msg("%s", err.text);
    said = notes;
    gp_status status = gp_cudnn_engine_choose(&desc, device->properties, &engine, &err);
    if (status != GP_OK) assert_int_equal(status, GP_UNSUPPORTED);
    return status == GP_OK;
}

/* docs/gpu.md derives them. */
static void test_notes(void **state) {
    (void)state;
    enum {
        TENSOR_CORE = 1 << CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
        FFT = 1 << CUDNN_NUMERICAL_NOTE_FFT,
        WINOGRAD = 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD,
        BY_4 = 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
        BY_6 = 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        BY_13 = 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
        NAN_PROP = 1 << CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP
    };
    static const struct {
        unsigned notes;
        bool f32, tf32;
    } expected[] = {
        {0, true, true},
        {NAN_PROP, true, true},
        {TENSOR_CORE, false, true},
        {WINOGRAD | BY_4, true, true},
        {WINOGRAD | BY_4 | TENSOR_CORE, false, false},
        {WINOGRAD, false, false},
        {WINOGRAD | BY_6, false, false},
        {WINOGRAD | BY_13, false, false},
        {FFT, false, false},
        {1 << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, false, false},
        {1 << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, false, false},
        {1 << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, false, false},
    };
    gp_cudnn.cudnnBackendGetAttribute = say_notes;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (will_do(0, expected[i].notes) != expected[i].f32 ||
            will_do(GP_OP_TF32, expected[i].notes) != expected[i].tf32)
            fail_msg("notes %#x: f32 %d, tf32 %d", expected[i].notes, !expected[i].f32, !expected[i].tf32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_notes, begin, end),
    };
    gp_error err = {0};
    setenv("XDG_CACHE_HOME", "nowhere", 1); /* no absolute path: none */
    unsetenv("HOME");
    if (gp_cudnn_open(&err) != GP_OK) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
