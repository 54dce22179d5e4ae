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

/* Whether an engine that really does the convolution may do it with these notes. */
static bool will_do(uint32_t flags, unsigned notes) {
    gp_error err = {0};
    gp_cudnn_engine engine;
    gp_cudnn_built built = {0};
    const gp_cudnn_device *device;
    const gp_op_desc desc = convolution(flags);
    gp_cudnn.cudnnBackendGetAttribute = real.cudnnBackendGetAttribute;
    if (gp_cudnn_device_get(&device, &err) != GP_OK ||
        gp_cudnn_engine_choose(&desc, device->properties, &engine, &err) != GP_OK)
        fail_msg("%s", err.text);
    said = notes;
    gp_cudnn.cudnnBackendGetAttribute = say_notes;
    gp_status status = gp_cudnn_engine_build(&desc, device->properties, &engine, &built, &err);
    if (status != GP_OK) assert_int_equal(status, GP_UNSUPPORTED);
    gp_cudnn_built_fini(&built);
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
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (will_do(0, expected[i].notes) != expected[i].f32 ||
            will_do(GP_OP_TF32, expected[i].notes) != expected[i].tf32)
            fail_msg("notes %#x: f32 %d, tf32 %d", expected[i].notes, !expected[i].f32, !expected[i].tf32);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* What was set on a pack. */
typedef struct addresses {
    cudnnBackendDescriptor_t pack;
    void *operand[3], *workspace;
} addresses;

static struct {
    int made, destroyed, executed; /* packs; runs */
    addresses set[2 * GP_CUDNN_MOST_PACKS], ran;
    size_t sets;
} it;

static addresses *set_on(cudnnBackendDescriptor_t pack) {
    size_t i = 0;
    while (i < it.sets && it.set[i].pack != pack) i++;
    assert_true(i < sizeof it.set / sizeof *it.set);
    if (i == it.sets) it.set[it.sets++].pack = pack;
    return &it.set[i];
}

static cudnnStatus_t note_addresses(cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t name,
                                    cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) memcpy(set_on(part)->operand, values, sizeof it.ran.operand);
    if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) memcpy(&set_on(part)->workspace, values, sizeof(void *));
    return real.cudnnBackendSetAttribute(part, name, type, count, values);
}

static cudnnStatus_t count_made(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out) {
    it.made += type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
    return real.cudnnBackendCreateDescriptor(type, out);
}

static cudnnStatus_t count_destroyed(cudnnBackendDescriptor_t part) {
    it.destroyed++;
    return real.cudnnBackendDestroyDescriptor(part);
}

static cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    (void)handle, (void)plan;
    it.executed++;
    it.ran = *set_on(pack);
    return CUDNN_STATUS_SUCCESS;
}

/* A stream of a described device: its handle is never looked into. */
static gp_cuda_library *open_library(void) {
    gp_error err = {0};
    const gp_cudnn_device *device;
    gp_cuda_library *library = calloc(1, sizeof *library);
    assert_non_null(library);
    if (gp_cudnn_device_get(&device, &err) != GP_OK) fail_msg("%s", err.text);
    library->cudnn = (cudnnHandle_t)(void *)library;
    library->device = device->properties;
    return library;
}

static void close_library(gp_cuda_library *library) {
    library->cudnn = NULL;
    gp_cuda_library_close(library);
}

static char memory[4 << 20];

/* Run number `i`: other addresses than those of every other number. */
static void run(gp_cuda_library *library, const gp_prepared *prepared, int i) {
    gp_error err = {0};
    char *at = memory + (size_t) - (uintptr_t)memory % 256 + (size_t)1024 * (size_t)i;
    void *operands[GP_MAX_OPERANDS] = {at, at + 256, NULL, at + 512};
    if (gp_cuda_plan_run(library, prepared, operands, memory, &err) != GP_OK) fail_msg("%s", err.text);
    assert_ptr_equal(it.ran.operand[0], operands[GP_CONV_FORWARD_X]);
    assert_ptr_equal(it.ran.operand[1], operands[GP_CONV_FORWARD_W]);
    assert_ptr_equal(it.ran.operand[2], operands[GP_CONV_FORWARD_Y]);
    assert_ptr_equal(it.ran.workspace, memory + (size_t) - (uintptr_t)memory % 256);
}

static void run_all(gp_cuda_library *library, const gp_prepared *prepared, int count) {
    for (int i = 0; i < count; i++) run(library, prepared, i);
}

/* Packs of addresses are built in the first step and found in the others, up to a bound. Another plan has its own. */
static void test_packs(void **state) {
    (void)state;
    gp_error err = {0};
    gp_prepared prepared = {.desc = convolution(0)};
    if (gp_cuda_plan_create(&prepared, &err) != GP_OK) fail_msg("%s", err.text);
    gp_cuda_library *library = open_library();
    memset(&it, 0, sizeof it);
    gp_cudnn.cudnnBackendCreateDescriptor = count_made;
    gp_cudnn.cudnnBackendSetAttribute = note_addresses;
    gp_cudnn.cudnnBackendExecute = execute;
    for (int step = 0; step < 3; step++) run_all(library, &prepared, 200);
    assert_int_equal(it.executed, 600);
    assert_int_equal(it.made, 200);
    run_all(library, &prepared, GP_CUDNN_MOST_PACKS);
    assert_int_equal(it.made, GP_CUDNN_MOST_PACKS);
    gp_cudnn.cudnnBackendDestroyDescriptor = count_destroyed;
    run(library, &prepared, GP_CUDNN_MOST_PACKS);
    assert_int_equal(it.destroyed, GP_CUDNN_MOST_PACKS);
    run(library, &prepared, 0);
    assert_int_equal(it.made, GP_CUDNN_MOST_PACKS + 2);
    run(library, &prepared, GP_CUDNN_MOST_PACKS);
    assert_int_equal(it.made, GP_CUDNN_MOST_PACKS + 2);
    gp_prepared other = {.desc = convolution(0)};
    if (gp_cuda_plan_create(&other, &err) != GP_OK) fail_msg("%s", err.text);
    run(library, &other, 0);
    assert_int_equal(it.made, GP_CUDNN_MOST_PACKS + 3);
    close_library(library);
    gp_cuda_plan_destroy(other.context);
    gp_cuda_plan_destroy(prepared.context);
}

/* Of convolutions and of products: what no plan was made for is found before a library sees it. */
static void test_addresses(void **state) {
    (void)state;
    static const gp_op_kind kinds[] = {GP_OP_CONV_FORWARD, GP_OP_LINEAR_FORWARD};
    for (int k = 0; k < 2; k++) {
        gp_error err = {0};
        char expected[128];
        gp_prepared prepared = {.desc = convolution(0)};
        if (kinds[k] == GP_OP_LINEAR_FORWARD) {
            gp_op_desc_init(&prepared.desc, kinds[k]);
            prepared.desc.operand[GP_LINEAR_FORWARD_X] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){16, 12});
            prepared.desc.operand[GP_LINEAR_FORWARD_W] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){20, 12});
            prepared.desc.operand[GP_LINEAR_FORWARD_Y] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){16, 20});
        }
        if (gp_cuda_plan_create(&prepared, &err) != GP_OK) fail_msg("%s", err.text);
        gp_cuda_library *library = open_library();
        char *at = memory + (size_t) - (uintptr_t)memory % 256;
        void *operands[GP_MAX_OPERANDS] = {at, at + 260, NULL, at + 512};
        assert_int_equal(gp_cuda_plan_run(library, &prepared, operands, memory, &err), GP_INTERNAL);
        snprintf(expected, sizeof expected, "cuda: %s: the address of operand w is not a multiple of 16 bytes",
                 gp_op_name(kinds[k]));
        assert_string_equal(err.text, expected);
        close_library(library);
        gp_cuda_plan_destroy(prepared.context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_notes, begin, end),
        cmocka_unit_test_setup_teardown(test_packs, begin, end),
        cmocka_unit_test_setup_teardown(test_addresses, begin, end),
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
