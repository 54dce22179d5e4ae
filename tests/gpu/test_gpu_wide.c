/* Kernels that count in 64 bits, each on a tensor of more than 2³¹ elements: its first samples, those about element
 * 2³¹, and its last ones come out as the same samples do alone. Takes 17 GiB of the GPU's memory, and is skipped where
 * they are not free. On host memory the tensors are small, and the kernels those of 32 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/kernels.h"
#include "gpu/gpu.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

enum { CHANNELS = 12, WINDOW = 3 /* samples that are looked at */, POISON = 0x5a };
/* Floats of the pattern that inputs repeat: a prime, so that no wrong multiple of 2³¹ hits the same number. */
enum { PATTERN = 1048583 };

static int64_t side, samples, middle; /* of a picture; of a large tensor; the sample before element 2³¹ */

/* ---- which kernels were launched ------------------------------------------------------------------------------------
 */

static gp_cuda_api watched; /* the machine's table, but for this */
static const gp_cuda_api *machine;
static bool launched[GP_CUDA_KERNEL_COUNT];

static const char *const names[] = {
#define NAME(name, args) #name,
    GP_CUDA_KERNELS(NAME)
#undef NAME
};

static gp_status watch_launch(const gp_cuda_launch *launch, gp_cuda_stream *stream, gp_error *err) {
    launched[launch->kernel] = true;
    return machine->launch(launch, stream, err);
}

static bool is_wide(int kernel) {
    size_t length = strlen(names[kernel]);
    return length > 5 && strcmp(names[kernel] + length - 5, "_wide") == 0;
}

/* ---- one device, and its memory
 * --------------------------------------------------------------------------------------
 */

static struct memory {
    gp_device *device;
    gp_stream *stream;
    gp_op_cache *cache;
    unsigned char *in, *out, *index, *few, *few_index, *scalars; /* few: what the samples of a window give alone */
} memory;

static size_t sample_floats(void) {
    return (size_t)(side * side * CHANNELS);
}

/* Of the largest tensor, and some more for inputs that begin further on. */
static size_t large_bytes(void) {
    return gp_align_up((size_t)samples * sample_floats() * sizeof(float) + 256, GP_ALIGNMENT);
}

static size_t index_bytes(void) {
    return large_bytes() / 16;
}

static size_t few_bytes(void) {
    return gp_align_up(WINDOW * sample_floats() * sizeof(float), GP_ALIGNMENT);
}

static size_t bytes_needed(void) {
    return 2 * large_bytes() + index_bytes() + 2 * few_bytes() + GP_ALIGNMENT;
}

/* Numbers of both signs, and zeros, by a linear congruence. */
static void fill_pattern(void) {
    gp_error err = {0};
    float *pattern = malloc(PATTERN * sizeof *pattern);
    assert_non_null(pattern);
    uint32_t x = 1;
    for (int i = 0; i < PATTERN; i++) {
        x = x * 1664525U + 1013904223U;
        pattern[i] = x >> 28 ? (float)(int32_t)x * 0x1p-30F : 0;
    }
    for (size_t at = 0, all = large_bytes(), part = PATTERN * sizeof *pattern; at < all; at += part)
        ASSERT_OK(
            gp_cuda_kind.copy_in(memory.stream, memory.in + at, pattern, all - at < part ? all - at : part, &err));
    free(pattern);
}

static void fill_scalars(void) {
    gp_error err = {0};
    const gp_step_scalars scalars = {.seed = 7, .step = 3, .divisor = 1, .finite = 1, .clip = 1};
    ASSERT_OK(gp_cuda_kind.copy_in(memory.stream, memory.scalars, &scalars, sizeof scalars, &err));
}

static int set_up(void **state) {
    (void)state;
    gp_error err = {0};
    const gp_device_spec spec = {&gp_cuda_kind, 0, 1, 0};
    void *block;
    ASSERT_OK(gp_op_cache_create(&memory.cache, &err));
    ASSERT_OK(gp_cuda_kind.open(&spec, &memory.device, &err));
    ASSERT_OK(gp_cuda_kind.stream_create(memory.device, false, &memory.stream, &err));
    ASSERT_OK(gp_cuda_kind.reserve(memory.device, bytes_needed(), &block, &err));
    memory.in = block;
    memory.out = memory.in + large_bytes();
    memory.index = memory.out + large_bytes();
    memory.few = memory.index + index_bytes();
    memory.few_index = memory.few + few_bytes();
    memory.scalars = memory.few_index + few_bytes();
    fill_pattern();
    fill_scalars();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    gp_cuda_kind.unreserve(memory.device, memory.in);
    gp_cuda_kind.stream_destroy(memory.stream);
    gp_cuda_kind.close(memory.device);
    gp_op_cache_destroy(&memory.cache);
    return 0;
}

/* ---- ops
 * --------------------------------------------------------------------------------------------------------------
 */

/* Operands in order, one letter each: L large pictures, Q of half their height and width, M their means, F flattened
 * ones, T their places as rows, I numbers in the windows of a pool, s the step's scalars. */
typedef struct wide_op {
    gp_op_kind kind;
    gp_cuda_kernel kernel;
    const char *operands;
    bool channels; /* dropout's */
} wide_op;

static const wide_op ops[] = {
    {GP_OP_RELU_FORWARD, GP_KERNEL_relu_forward, "LL", false},
    {GP_OP_RELU_BACKWARD, GP_KERNEL_relu_backward, "LLL", false},
    {GP_OP_ADD, GP_KERNEL_add, "LLL", false},
    {GP_OP_ACTIVATION_FORWARD, GP_KERNEL_activation_forward, "LL", false},
    {GP_OP_ACTIVATION_BACKWARD, GP_KERNEL_activation_backward, "LLL", false},
    {GP_OP_DROPOUT, GP_KERNEL_dropout_rows, "TsT", false},
    {GP_OP_DROPOUT, GP_KERNEL_dropout_pictures, "LsL", false},
    {GP_OP_DROPOUT, GP_KERNEL_dropout_channels, "LsL", true},
    {GP_OP_MAX_POOL_FORWARD, GP_KERNEL_max_pool_forward, "LQI", false},
    {GP_OP_MAX_POOL_BACKWARD, GP_KERNEL_max_pool_backward, "IQL", false}, /* with the index that forward has left */
    {GP_OP_AVG_POOL_FORWARD, GP_KERNEL_avg_pool_forward, "LQ", false},
    {GP_OP_AVG_POOL_BACKWARD, GP_KERNEL_avg_pool_backward, "QL", false},
    {GP_OP_UPSAMPLE_FORWARD, GP_KERNEL_upsample_forward, "QL", false},
    {GP_OP_UPSAMPLE_BACKWARD, GP_KERNEL_upsample_backward, "LQ", false},
    {GP_OP_MEAN_POOL_FORWARD, GP_KERNEL_mean_pool_forward, "LM", false},
    {GP_OP_MEAN_POOL_BACKWARD, GP_KERNEL_mean_pool_backward, "ML", false},
    {GP_OP_COPY, GP_KERNEL_copy, "LL", false},
    {GP_OP_FLATTEN, GP_KERNEL_transpose, "LF", false},
    {GP_OP_UNFLATTEN, GP_KERNEL_transpose, "FL", false},
};

static gp_tensor tensor_of(char letter, int64_t n) {
    const int64_t large[] = {n, side, side, CHANNELS}, half[] = {n, side / 2, side / 2, CHANNELS};
    const int64_t mean[] = {n, 1, 1, CHANNELS}, flat[] = {n, side * side * CHANNELS},
                  rows[] = {n, side * side, CHANNELS};
    switch (letter) {
    case 'L': return gp_tensor_plain(GP_F32, 4, large);
    case 'Q': return gp_tensor_plain(GP_F32, 4, half);
    case 'I': return gp_tensor_plain(GP_U8, 4, half);
    case 'M': return gp_tensor_plain(GP_F32, 4, mean);
    case 'F': return gp_tensor_plain(GP_F32, 2, flat);
    case 'T': return gp_tensor_plain(GP_F32, 3, rows);
    default: return gp_tensor_scalars();
    }
}

static const gp_prepared *prepare(const wide_op *op, int64_t n) {
    gp_error err = {0};
    gp_op_desc desc;
    const gp_prepared *prepared;
    gp_op_desc_init(&desc, op->kind);
    desc.threads = 1;
    for (int i = 0; i < (int)desc.operands; i++) desc.operand[i] = tensor_of(op->operands[i], n);
    if (strchr(op->operands, 'Q') && op->kind != GP_OP_UPSAMPLE_FORWARD && op->kind != GP_OP_UPSAMPLE_BACKWARD)
        desc.attributes.pool = (gp_pool_attributes){.kernel = {2, 2}, .stride = {2, 2}};
    if (op->kind == GP_OP_ACTIVATION_FORWARD || op->kind == GP_OP_ACTIVATION_BACKWARD)
        desc.attributes.activation.function = GP_SILU;
    if (op->kind == GP_OP_DROPOUT)
        desc.attributes.dropout =
            (gp_dropout_attributes){.p = 0.5, .node = 4, .purpose = GP_RANDOM_DROPOUT, .channels = op->channels};
    ASSERT_OK(gp_op_prepare(memory.cache, &gp_cuda_kind, &desc, &prepared, &err));
    return prepared;
}

static size_t sample_bytes(const wide_op *op, int operand) {
    gp_tensor one = tensor_of(op->operands[operand], 1);
    return gp_tensor_bytes(&one);
}

/* Where operand i of samples from `first` on lies: what is written at `out` and `index`. The inputs of one op begin 16
 * bytes apart in the same memory. */
static void *address_of(const wide_op *op, int i, int64_t first, unsigned char *out, unsigned char *index) {
    size_t by = (size_t)first * sample_bytes(op, i);
    if (op->operands[i] == 's') return memory.scalars;
    if (gp_op_writes(op->kind, i)) return op->operands[i] == 'I' ? index : out;
    return op->operands[i] == 'I' ? memory.index + by : memory.in + by + 16 * (size_t)i;
}

static void run(const wide_op *op, int64_t first, int64_t count, unsigned char *out, unsigned char *index) {
    gp_error err = {0};
    const gp_prepared *prepared = prepare(op, count);
    const gp_op_args args = {.first_sample = first};
    void *address[GP_MAX_OPERANDS] = {NULL};
    assert_int_equal(prepared->workspace, 0);
    for (int i = 0; i < (int)prepared->desc.operands; i++) address[i] = address_of(op, i, first, out, index);
    ASSERT_OK(gp_device_run(&gp_cuda_kind, memory.stream, prepared, address, NULL, &args, &err));
}

static void poison(unsigned char *at, size_t bytes) {
    gp_error err = {0};
    unsigned char *poisoned = malloc(bytes);
    assert_non_null(poisoned);
    memset(poisoned, POISON, bytes);
    ASSERT_OK(gp_cuda_kind.copy_in(memory.stream, at, poisoned, bytes, &err));
    free(poisoned);
}

static void compare(const wide_op *op, const unsigned char *large, const unsigned char *few, size_t bytes,
                    int64_t first) {
    gp_error err = {0};
    unsigned char *mine = malloc(2 * bytes), *yours = mine + bytes;
    assert_non_null(mine);
    ASSERT_OK(gp_cuda_kind.copy_out(memory.stream, mine, large, bytes, &err));
    ASSERT_OK(gp_cuda_kind.copy_out(memory.stream, yours, few, bytes, &err));
    ASSERT_OK(gp_cuda_kind.stream_finish(memory.stream, NULL, &err));
    if (memcmp(mine, yours, bytes) != 0)
        fail_msg("%s: samples %lld to %lld of %lld have other bits than alone", names[op->kernel], (long long)first,
                 (long long)first + WINDOW - 1, (long long)samples);
    free(mine);
}

static bool is_written(const wide_op *op, int i) {
    return op->operands[i] != 's' && gp_op_writes(op->kind, i);
}

/* Where samples from `first` on of what the op writes to the large tensor lie. */
static unsigned char *written_at(const wide_op *op, int i, int64_t first) {
    return (op->operands[i] == 'I' ? memory.index : memory.out) + (size_t)first * sample_bytes(op, i);
}

static void poison_window(const wide_op *op, int64_t first) {
    for (int i = 0; op->operands[i]; i++)
        if (is_written(op, i)) poison(written_at(op, i, first), WINDOW * sample_bytes(op, i));
}

static void compare_window(const wide_op *op, int64_t first) {
    run(op, first, WINDOW, memory.few, memory.few_index);
    for (int i = 0; op->operands[i]; i++)
        if (is_written(op, i))
            compare(op, written_at(op, i, first), op->operands[i] == 'I' ? memory.few_index : memory.few,
                    WINDOW * sample_bytes(op, i), first);
}

static void check_op(const wide_op *op) {
    const int64_t windows[] = {0, middle, samples - WINDOW};
    const gp_cuda_kernel kernel = (gp_cuda_kernel)(op->kernel + (gpu_is_real() ? 1 : 0));
    for (int w = 0; w < 3; w++) poison_window(op, windows[w]);
    launched[kernel] = false;
    run(op, 0, samples, memory.out, memory.index);
    if (!launched[kernel]) fail_msg("kernel %s was not launched", names[kernel]);
    for (int w = 0; w < 3; w++) compare_window(op, windows[w]);
}

static void test_each(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) check_op(&ops[i]);
}

/* One that is new is missing above. */
static void test_all(void **state) {
    (void)state;
    for (int kernel = 0; kernel < GP_CUDA_KERNEL_COUNT; kernel++)
        if (is_wide(kernel) && !launched[gpu_is_real() ? kernel : kernel - 1])
            fail_msg("kernel %s: no op of this test launches it", names[kernel]);
}

static bool memory_is_free(void) {
    gp_error err = {0};
    gp_cuda_memory there;
    const size_t beside = (size_t)1 << 30;
    if (!gpu_is_real()) return true;
    if (gp_cuda->use(0, &err) != GP_OK || gp_cuda->memory(&there, &err) != GP_OK) {
        printf("skipped: %s\n", err.text);
        return false;
    }
    if (there.free >= bytes_needed() + beside) return true;
    printf("skipped: tensors of 2^31 elements take %zu MiB, and %zu MiB of the GPU's memory are free\n",
           (bytes_needed() + beside) >> 20, there.free >> 20);
    return false;
}

int main(void) {
    if (!gpu_is_there()) return GPU_SKIPPED;
    side = gpu_is_real() ? 64 : 8;
    middle = gpu_is_real() ? (INT64_C(1) << 31) / (int64_t)sample_floats() - 1 : 4;
    samples = middle + INT64_C(3) * WINDOW;
    if (!memory_is_free()) return GPU_SKIPPED;
    machine = gp_cuda;
    watched = *gp_cuda;
    watched.launch = watch_launch;
    gp_cuda = &watched;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
