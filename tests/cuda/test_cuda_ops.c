/* The CUDA device against the reference device, on host memory: every op over odd shapes, each launch in several orders
 * of its threads and with everything poisoned that it does not declare; wherever operands lie, and in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cuda/host_api.h"
#include "cuda/tolerance.h"
#include "device/cuda/cuda.h"
#include "device/dropout_mask.h"
#include "device/op_cases.h"
#include "device/op_trial.h"
#include "device/op_whole.h"
#include "device/ref/ref.h"
#include "device/rows.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

static void trial_init(trial *t, gp_op_kind kind, int number) {
    gp_op_case_make(kind, number, GP_F32, &t->op_case);
    trial_fill(t);
}

/* Ops that are the libraries' are done by ref here; gradients of weights are so but for the bias's. */
static bool is_library(gp_op_kind kind) {
    return kind <= GP_OP_LINEAR_BACKWARD_WEIGHTS && kind != GP_OP_CONV_BACKWARD_WEIGHTS &&
           kind != GP_OP_LINEAR_BACKWARD_WEIGHTS;
}

/* Libraries' gradients of weights are ref's here. */
static double tolerance_of(gp_op_kind kind) {
    bool weights = kind == GP_OP_CONV_BACKWARD_WEIGHTS || kind == GP_OP_LINEAR_BACKWARD_WEIGHTS;
    return weights ? 2e-6 : kernel_tolerance(kind);
}

static void run_both(trial *got, trial *want) {
    trial_run(&gp_ref_kind, want);
    trial_run(&gp_cuda_kind, got);
    trial_compare(got, want, tolerance_of(want->op_case.desc.kind));
}

static void check_against_ref(gp_op_kind kind, int number) {
    trial got, want;
    trial_init(&got, kind, number);
    trial_init(&want, kind, number);
    run_both(&got, &want);
    trial_fini(&got);
    trial_fini(&want);
}

static void test_against_ref(void **state) {
    (void)state;
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        for (int number = 0; number < GP_OP_CASES && !is_library((gp_op_kind)kind); number += GP_OP_CASES_STEP)
            check_against_ref((gp_op_kind)kind, number);
    }
}

/* NaN, infinities and −0, as ref treats them. */
static void check_special_values(gp_op_kind kind, int number) {
    static const float special[] = {NAN, -0.0F, INFINITY, -INFINITY, 0.0F};
    trial got, want;
    trial_init(&got, kind, number);
    trial_init(&want, kind, number);
    float *x = got.host[0];
    size_t count = gp_tensor_bytes(&got.op_case.desc.operand[0]) / sizeof *x;
    for (size_t i = 0; i < count; i += 1 + i % 3)
        if (x[i] == x[i]) x[i] = special[i % 5]; /* NaN: between the rows, or one already */
    memcpy(want.host[0], x, count * sizeof *x);
    run_both(&got, &want);
    const gp_tensor *y = &got.op_case.desc.operand[GP_RELU_FORWARD_Y];
    for (size_t i = 0; kind == GP_OP_RELU_FORWARD && i < gp_tensor_bytes(y) / sizeof *x; i++)
        assert_true(((float *)got.host[GP_RELU_FORWARD_Y])[i] != 0 ||
                    !signbit(((float *)got.host[GP_RELU_FORWARD_Y])[i]));
    trial_fini(&got);
    trial_fini(&want);
}

/* What does the work of several ops does it bit for bit. */
static void test_wholes(void **state) {
    (void)state;
    op_whole_check(&gp_cuda_kind, GP_F32, 1);
}

static void test_special_values(void **state) {
    (void)state;
    static const gp_op_kind kinds[] = {
        GP_OP_RELU_FORWARD,       GP_OP_RELU_BACKWARD,    GP_OP_MAX_POOL_FORWARD, GP_OP_ADD,
        GP_OP_ACTIVATION_FORWARD, GP_OP_AVG_POOL_FORWARD, GP_OP_UPSAMPLE_FORWARD, GP_OP_SQUARE_SUM,
        GP_OP_NORM_APPLY_RELU};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) check_special_values(kinds[k], number);
    }
}

/* Where terms of a derivative would be infinite times 0, and tails end. */
static void test_far_values(void **state) {
    (void)state;
    static const float far[] = {1e20F, -1e20F, 30, -30, 16.5F, -16.5F, 90, -90};
    for (int number = 0; number < 2 * GP_ACTIVATIONS; number++) {
        trial got, want;
        trial_init(&got, GP_OP_ACTIVATION_BACKWARD, number);
        trial_init(&want, GP_OP_ACTIVATION_BACKWARD, number);
        gp_activation function = (gp_activation)got.op_case.desc.attributes.activation.function;
        float *a = got.host[GP_ACTIVATION_BACKWARD_A];
        size_t bytes = gp_tensor_bytes(&got.op_case.desc.operand[GP_ACTIVATION_BACKWARD_A]);
        for (size_t i = 0; i < bytes / sizeof *a && !gp_activation_takes_output(function); i++)
            if (a[i] == a[i]) a[i] = far[i % (sizeof far / sizeof far[0])];
        memcpy(want.host[GP_ACTIVATION_BACKWARD_A], a, bytes);
        run_both(&got, &want);
        trial_fini(&got);
        trial_fini(&want);
    }
}

/* An element whose number is p itself is kept; one that is less by the last bit is not. */
static void test_dropout_threshold(void **state) {
    (void)state;
    for (int number = 0; number < 12; number++) {
        for (int more = 0; more < 2; more++) {
            trial got, want;
            trial_init(&got, GP_OP_DROPOUT, number);
            trial_init(&want, GP_OP_DROPOUT, number);
            gp_dropout_attributes *dropout = &got.op_case.desc.attributes.dropout;
            uint32_t word = gp_dropout_draw(dropout, &got.op_case.scalars, got.op_case.args.first_sample, 0)
                                .word[0]; /* the first */
            dropout->p = gp_philox_uniform(word) + more * 0x1p-24;
            want.op_case = got.op_case;
            run_both(&got, &want);
            assert_true((*(float *)got.host[GP_DROPOUT_Y] == 0) == (more || *(float *)got.host[GP_DROPOUT_X] == 0));
            trial_fini(&got);
            trial_fini(&want);
        }
    }
}

/* ---- wherever operands lie -----------------------------------------------------------------------------------------
 */

/* One open device with one block of memory in which everything that an op touches has its place, guards between. */
enum { GUARD = 256, GUARD_BYTE = 0x5a };

typedef struct bench {
    const gp_prepared *prepared;
    gp_device *device;
    gp_stream *stream;
    unsigned char *block;
    size_t bytes, offset[GP_MAX_OPERANDS], workspace;
} bench;

/* Where operands lie. */
typedef struct places {
    int shift;         /* > 0: operand i lies (shift + i)·element behind an aligned address */
    int alone;         /* this operand lies an element behind an aligned address; −1: none */
    int written, read; /* `written` shares the place of `read`; −1: none does */
} places;

static const places apart = {0, -1, -1, -1};

/* Scalars keep their alignment: bytes, to an op; the index of a pool is bytes as well, and has none. */
static size_t shift_of(const gp_op_desc *desc, const places *p, int i) {
    gp_dtype dtype = desc->operand[i].dtype;
    bool pool = desc->kind == GP_OP_MAX_POOL_FORWARD || desc->kind == GP_OP_MAX_POOL_BACKWARD;
    if (dtype == GP_U8 && !(pool && p->alone == i)) return 0;
    int elements = p->shift > 0 ? (p->shift + i) % 4 : p->alone == i;
    return (size_t)elements * gp_dtype_size(dtype);
}

static void bench_open(bench *b, const gp_prepared *prepared, places p) {
    gp_error err = {0};
    *b = (bench){.prepared = prepared, .bytes = GUARD};
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        size_t by = shift_of(&prepared->desc, &p, i);
        b->offset[i] = b->bytes + by;
        b->bytes += gp_align_up(prepared->operand[i].bytes + by, GP_ALIGNMENT) + GUARD;
    }
    if (p.written >= 0) b->offset[p.written] = b->offset[p.read];
    b->workspace = b->bytes;
    b->bytes += prepared->workspace + GUARD;
    gp_device_spec spec = {&gp_cuda_kind, 0, 1, 0};
    void *block;
    ASSERT_OK(gp_cuda_kind.open(&spec, &b->device, &err));
    ASSERT_OK(gp_cuda_kind.stream_create(b->device, false, &b->stream, &err));
    ASSERT_OK(gp_cuda_kind.reserve(b->device, b->bytes, &block, &err));
    b->block = block;
}

static void bench_close(bench *b) {
    gp_cuda_kind.unreserve(b->device, b->block);
    gp_cuda_kind.stream_destroy(b->stream);
    gp_cuda_kind.close(b->device);
}

/* Runs the op on the trial's operands, but for `skip`, which is left as it is. Returns what the block holds afterwards,
 * for the caller to free. */
static unsigned char *bench_run(const bench *b, const trial *t, int skip) {
    gp_error err = {0};
    char text[GP_CASE_TEXT];
    const gp_op_desc *desc = &b->prepared->desc;
    void *address[GP_MAX_OPERANDS] = {NULL};
    unsigned char *image = malloc(b->bytes);
    assert_non_null(image);
    memset(b->block, GUARD_BYTE, b->bytes);
    for (int i = 0; i < (int)desc->operands; i++) {
        if (!desc->operand[i].present) continue;
        address[i] = b->block + b->offset[i];
        if (i != skip) memcpy(address[i], t->host[i], gp_tensor_bytes(&desc->operand[i]));
    }
    void *workspace = b->prepared->workspace ? b->block + b->workspace : NULL;
    if (gp_device_run(&gp_cuda_kind, b->stream, b->prepared, address, workspace, &t->op_case.args, &err) != GP_OK ||
        gp_cuda_kind.stream_finish(b->stream, NULL, &err) != GP_OK)
        fail_msg("%s: %s", gp_op_case_text(text, &t->op_case), err.text);
    memcpy(image, b->block, b->bytes);
    return image;
}

/* Everything that the op may not write is as it was: what it only reads, and the guards. */
static void assert_untouched(const bench *b, const trial *t, const unsigned char *image) {
    const gp_op_desc *desc = &b->prepared->desc;
    char text[GP_CASE_TEXT];
    unsigned char *before = malloc(b->bytes);
    assert_non_null(before);
    memset(before, GUARD_BYTE, b->bytes);
    for (int i = 0; i < (int)desc->operands; i++) {
        if (!desc->operand[i].present) continue;
        memcpy(before + b->offset[i], t->host[i], gp_tensor_bytes(&desc->operand[i]));
        if (gp_op_writes(desc->kind, i))
            memcpy(before + b->offset[i], image + b->offset[i], b->prepared->operand[i].bytes);
    }
    memcpy(before + b->workspace, image + b->workspace, b->prepared->workspace);
    if (memcmp(image, before, b->bytes) != 0)
        fail_msg("%s: wrote what it may only read, or outside of its operands", gp_op_case_text(text, &t->op_case));
    free(before);
}

/* Elements that the op wrote have the same bits; gaps may lie over another operand. */
static void assert_same(const trial *t, const bench *a, const unsigned char *image, const bench *b,
                        const unsigned char *other, const char *what) {
    const gp_op_desc *desc = &a->prepared->desc;
    char difference[GP_DIFFERENCE_TEXT], text[GP_CASE_TEXT];
    for (int i = 0; i < (int)desc->operands; i++) {
        if (!desc->operand[i].present || !gp_op_writes(desc->kind, i)) continue;
        unsigned char *mine = malloc(gp_tensor_bytes(&desc->operand[i])); /* at an address that has no offset */
        unsigned char *yours = malloc(gp_tensor_bytes(&desc->operand[i]));
        assert_true(mine && yours);
        memcpy(mine, image + a->offset[i], gp_tensor_bytes(&desc->operand[i]));
        memcpy(yours, other + b->offset[i], gp_tensor_bytes(&desc->operand[i]));
        if (!gp_op_same_elements(&desc->operand[i], mine, yours, 0, difference))
            fail_msg("%s, operand %s %s: %s", gp_op_case_text(text, &t->op_case), gp_op_operand_name(desc->kind, i),
                     what, difference);
        free(mine);
        free(yours);
    }
}

/* Orders of threads are tried at one shift, and where an operand shares its place. The other places compare one order
 * with the first run: each of its launches was tried in all orders and with undeclared memory poisoned. */
static gp_host_care care_of(places p) {
    return p.shift == 1 ? GP_HOST_RANGES : p.written >= 0 ? GP_HOST_ORDERS : GP_HOST_ONCE;
}

static void check_elsewhere(const gp_prepared *prepared, const trial *t, const bench *first, const unsigned char *image,
                            places p) {
    bench b;
    gp_host_api_set_care(care_of(p));
    bench_open(&b, prepared, p);
    unsigned char *other = bench_run(&b, t, p.written);
    if (p.written < 0) assert_untouched(&b, t, other);
    assert_same(t, first, image, &b, other, p.written < 0 ? "at odd addresses" : "in place");
    free(other);
    bench_close(&b);
    gp_host_api_set_care(GP_HOST_RANGES);
}

/* Whether a kernel may take four elements of each operand at a time. */
static bool by_four(const gp_op_desc *desc) {
    for (int i = 0; i < (int)desc->operands; i++) {
        gp_rows rows;
        if (!desc->operand[i].present || desc->operand[i].rank == 1 || !gp_rows_find(&desc->operand[i], &rows))
            continue;
        if (rows.width % 4 || rows.pitch % 4) return false;
    }
    return true;
}

/* One operand after another alone lies an element behind an aligned address. One that a launch does not ask about would
 * be read or written across. */
static void check_alone(const gp_prepared *prepared, const trial *t, const bench *first, const unsigned char *image) {
    for (int i = 0; i < (int)prepared->desc.operands; i++)
        if (prepared->desc.operand[i].present) check_elsewhere(prepared, t, first, image, (places){0, i, -1, -1});
}

/* alone: cases of the kind that check_alone is still to have. */
static void check_places(gp_op_cache *cache, gp_op_kind kind, int number, int *alone) {
    gp_error err = {0};
    trial t;
    const gp_prepared *prepared;
    bench b;
    trial_init(&t, kind, number);
    ASSERT_OK(gp_op_prepare(cache, &gp_cuda_kind, &t.op_case.desc, &prepared, &err));
    bench_open(&b, prepared, apart);
    unsigned char *image = bench_run(&b, &t, -1);
    assert_untouched(&b, &t, image);
    for (int shift = 1; shift < 4; shift++) check_elsewhere(prepared, &t, &b, image, (places){shift, -1, -1, -1});
    if (*alone > 0 && by_four(&prepared->desc)) {
        check_alone(prepared, &t, &b, image);
        --*alone;
    }
    for (int written = 0; written < (int)prepared->desc.operands; written++) {
        for (int read = 0; read < (int)prepared->desc.operands; read++) {
            if (prepared->in_place[written] >> read & 1)
                check_elsewhere(prepared, &t, &b, image, (places){0, -1, written, read});
        }
    }
    free(image);
    bench_close(&b);
    trial_fini(&t);
}

static void test_places(void **state) {
    (void)state;
    gp_error err = {0};
    gp_op_cache *cache;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        int alone = 2;
        for (int number = 0; number < GP_OP_CASES && !is_library((gp_op_kind)kind); number += GP_OP_CASES_STEP)
            check_places(cache, (gp_op_kind)kind, number, &alone);
    }
    gp_op_cache_destroy(&cache);
}

/* Which operands may share their place is part of the contract with the planner. */
static void test_in_place(void **state) {
    (void)state;
    static const struct {
        gp_op_kind kind;
        int written;
        uint8_t reads;
    } expected[] = {
        {GP_OP_NORM_APPLY, GP_NORM_APPLY_Y, 1 << GP_NORM_APPLY_X},
        {GP_OP_NORM_BACKWARD_DATA, GP_NORM_BACKWARD_DATA_DX,
         1 << GP_NORM_BACKWARD_DATA_X | 1 << GP_NORM_BACKWARD_DATA_DY},
        {GP_OP_NORM_APPLY_RELU, GP_NORM_APPLY_RELU_Y, 1 << GP_NORM_APPLY_RELU_X},
        {GP_OP_NORM_RELU_BACKWARD_DATA, GP_NORM_RELU_BACKWARD_DATA_DX,
         1 << GP_NORM_RELU_BACKWARD_DATA_X | 1 << GP_NORM_RELU_BACKWARD_DATA_DY},
        {GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ,
         1 << GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY},
        {GP_OP_GROUP_NORM_FORWARD, GP_GROUP_NORM_FORWARD_Y, 1 << GP_GROUP_NORM_FORWARD_X},
        {GP_OP_GROUP_NORM_BACKWARD_DATA, GP_GROUP_NORM_BACKWARD_DATA_DX,
         1 << GP_GROUP_NORM_BACKWARD_DATA_X | 1 << GP_GROUP_NORM_BACKWARD_DATA_DY},
        {GP_OP_CROSS_ENTROPY_BACKWARD, GP_CROSS_ENTROPY_BACKWARD_DX, 1 << GP_CROSS_ENTROPY_BACKWARD_X},
        {GP_OP_ELEMENT_LOSS_BACKWARD, GP_ELEMENT_LOSS_BACKWARD_DX, 1 << GP_ELEMENT_LOSS_BACKWARD_X},
        {GP_OP_RELU_FORWARD, GP_RELU_FORWARD_Y, 1 << GP_RELU_FORWARD_X},
        {GP_OP_RELU_BACKWARD, GP_RELU_BACKWARD_DX, 1 << GP_RELU_BACKWARD_Y | 1 << GP_RELU_BACKWARD_DY},
        {GP_OP_ACTIVATION_FORWARD, GP_ACTIVATION_FORWARD_Y, 1 << GP_ACTIVATION_FORWARD_X},
        {GP_OP_ACTIVATION_BACKWARD, GP_ACTIVATION_BACKWARD_DX,
         1 << GP_ACTIVATION_BACKWARD_A | 1 << GP_ACTIVATION_BACKWARD_DY},
        {GP_OP_ADD, GP_ADD_Y, 1 << GP_ADD_A | 1 << GP_ADD_B},
        {GP_OP_COPY, GP_COPY_Y, 1 << GP_COPY_X},
        {GP_OP_DROPOUT, GP_DROPOUT_Y, 1 << GP_DROPOUT_X},
    };
    gp_error err = {0};
    gp_op_cache *cache;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    for (size_t e = 0; e < sizeof expected / sizeof expected[0]; e++) {
        gp_op_case c;
        const gp_prepared *prepared;
        gp_op_case_make(expected[e].kind, 6, GP_F32, &c); /* every third case has dense operands */
        ASSERT_OK(gp_op_prepare(cache, &gp_cuda_kind, &c.desc, &prepared, &err));
        assert_int_equal(prepared->in_place[expected[e].written], expected[e].reads);
        /* The same values in rows that lie further apart: not the same memory. */
        int64_t wide[GP_TENSOR_MAX_RANK];
        gp_tensor *tensor = &c.desc.operand[expected[e].written];
        memcpy(wide, tensor->dim, sizeof wide);
        wide[tensor->rank - 1] += 3;
        *tensor = gp_tensor_channels(gp_tensor_plain(tensor->dtype, tensor->rank, wide), tensor->dim[tensor->rank - 1]);
        ASSERT_OK(gp_op_prepare(cache, &gp_cuda_kind, &c.desc, &prepared, &err));
        assert_int_equal(prepared->in_place[expected[e].written], 0);
    }
    gp_op_cache_destroy(&cache);
}

/* test_cuda_ops [TEST]: one alone. */
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    gp_cuda = &gp_host_api;
    gp_host_api_set_care(GP_HOST_RANGES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_ref), cmocka_unit_test(test_special_values),    cmocka_unit_test(test_wholes),
        cmocka_unit_test(test_far_values),  cmocka_unit_test(test_dropout_threshold), cmocka_unit_test(test_places),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
