/* The CPU device against the reference device, and what it promises beyond right results: bits that depend neither on
 * the number of threads (own loops), nor on who runs beside it, nor on where operands lie; nothing written elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_conv_choice.h"
#include "device/device.h"
#include "device/op_cases.h"
#include "device/op_trial.h"
#include "device/op_whole.h"
#include "device/ref/ref.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

/* ThreadSanitizer does not see libgomp's barriers: no second OpenMP thread where it watches. */
enum { ONEDNN_THREADS = TEST_WATCHES_THREADS ? 1 : 2 };

static bool is_conv(gp_op_kind kind) {
    return kind == GP_OP_CONV_FORWARD || kind == GP_OP_CONV_BACKWARD_DATA || kind == GP_OP_CONV_BACKWARD_WEIGHTS;
}

static bool is_onednn(gp_op_kind kind) {
    return is_conv(kind) || kind == GP_OP_LINEAR_FORWARD || kind == GP_OP_LINEAR_BACKWARD_DATA ||
           kind == GP_OP_LINEAR_BACKWARD_WEIGHTS;
}

static int weights_of(gp_op_kind kind) {
    if (kind == GP_OP_CONV_FORWARD) return GP_CONV_FORWARD_W;
    return kind == GP_OP_CONV_BACKWARD_DATA ? (int)GP_CONV_BACKWARD_DATA_W : (int)GP_CONV_BACKWARD_WEIGHTS_DW;
}

/* What nobody else says: `threads`, and whether the device may choose the weights' format. The CPU cannot add to weight
 * gradients of convolutions, see test_refusals. */
static void make_case(gp_op_kind kind, int number, int threads, bool any, gp_op_case *out) {
    gp_op_case_make(kind, number, GP_F32, out);
    out->desc.threads = (uint32_t)(is_onednn(kind) && threads > ONEDNN_THREADS ? ONEDNN_THREADS : threads);
    if (!is_conv(kind)) return;
    out->desc.flags = 0;
    if (any) out->desc.operand[weights_of(kind)].format = GP_FORMAT_ANY;
}

/* How far from ref, of the largest element; 0: equal bits, but for NaN's. The reference computes in f64. */
static double tolerance_of(gp_op_kind kind) {
    switch ((int)kind) {
    case GP_OP_CONV_FORWARD:
    case GP_OP_CONV_BACKWARD_DATA:
    case GP_OP_CONV_BACKWARD_WEIGHTS:
    case GP_OP_LINEAR_FORWARD:
    case GP_OP_LINEAR_BACKWARD_DATA:
    case GP_OP_LINEAR_BACKWARD_WEIGHTS:
    case GP_OP_NORM_STATISTICS:
    case GP_OP_NORM_APPLY:
    case GP_OP_NORM_BACKWARD_REDUCE:
    case GP_OP_NORM_BACKWARD_DATA:
    case GP_OP_NORM_APPLY_RELU:
    case GP_OP_NORM_RELU_BACKWARD_REDUCE:
    case GP_OP_NORM_RELU_BACKWARD_DATA:
    case GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE:
    case GP_OP_GROUP_NORM_FORWARD:
    case GP_OP_GROUP_NORM_BACKWARD_DATA:
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS:
    case GP_OP_ACTIVATION_FORWARD:
    case GP_OP_ACTIVATION_BACKWARD:
    case GP_OP_MEAN_POOL_FORWARD:
    case GP_OP_MEAN_POOL_BACKWARD:
    case GP_OP_CROSS_ENTROPY_FORWARD:
    case GP_OP_CROSS_ENTROPY_BACKWARD:
    case GP_OP_ELEMENT_LOSS_FORWARD:
    case GP_OP_ELEMENT_LOSS_BACKWARD:
    case GP_OP_NORM_MERGE:
    case GP_OP_NORM_MERGE_SUMS:
    case GP_OP_NORM_COMMIT: return 2e-6;
    /* Both add in f64, in other orders. */
    case GP_OP_SQUARE_SUM:
    case GP_OP_SQUARE_BLOCKS:
    case GP_OP_BLOCKS_TOTAL: return 1e-13;
    /* The order in which overlapping windows add up is ref's, but ref adds in f64. */
    case GP_OP_MAX_POOL_BACKWARD: return 1e-6;
    default: return 0;
    }
}

static void run_both(trial *got, trial *want) {
    trial_run(&gp_ref_kind, want);
    trial_run(&gp_cpu_kind, got);
}

static void check_against_ref(gp_op_kind kind, int number, int threads, bool any) {
    trial got, want;
    make_case(kind, number, threads, any, &got.op_case);
    want.op_case = got.op_case;
    want.op_case.desc.threads = 1;
    trial_fill(&got);
    trial_fill(&want);
    run_both(&got, &want);
    trial_compare(&got, &want, tolerance_of(kind));
    trial_fini(&got);
    trial_fini(&want);
}

static void test_against_ref(void **state) {
    (void)state;
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) {
            check_against_ref((gp_op_kind)kind, number, 1, true);
            check_against_ref((gp_op_kind)kind, number, 2, true);
            if (is_conv((gp_op_kind)kind)) check_against_ref((gp_op_kind)kind, number, 1, false);
        }
    }
}

/* Linear layers whose gradients take a factor with longer rows: weights, inputs, gradients of the outputs. */
static const int64_t padded_linear[][3] = {{160, 512, 500}, {400, 512, 160}, {400, 160, 512}};
enum { PADDED = sizeof padded_linear / sizeof *padded_linear };
/* Bytes of a workspace with a copy of a factor; without one, oneDNN's scratchpad needs less. */
enum { LONGER = 300000 };

static void make_padded(gp_op_kind kind, int which, int number, gp_op_case *out) {
    const int64_t *size = padded_linear[which];
    gp_op_case_make(kind, number, GP_F32, out);
    for (int i = 0; i < (int)out->desc.operands; i++) {
        gp_operand_name name = gp_op_operand_named(kind, i);
        if (!out->desc.operand[i].present) continue;
        if (name == GP_NAME_X || name == GP_NAME_DX)
            out->desc.operand[i] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){size[0], size[1]});
        else if (name == GP_NAME_Y || name == GP_NAME_DY)
            out->desc.operand[i] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){size[0], size[2]});
        else if (name == GP_NAME_W || name == GP_NAME_DW)
            out->desc.operand[i] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){size[2], size[1]});
        else
            out->desc.operand[i] = gp_tensor_plain(GP_F32, 1, &size[2]);
    }
    out->desc.threads = 1;
}

static void check_padded(gp_op_kind kind, int which, int number, int *padded) {
    trial got, want;
    gp_op_cache *cache;
    const gp_prepared *prepared;
    gp_error err = {0};
    make_padded(kind, which, number, &got.op_case);
    want.op_case = got.op_case;
    trial_fill(&got);
    trial_fill(&want);
    run_both(&got, &want);
    trial_compare(&got, &want, tolerance_of(kind));
    assert_int_equal(gp_op_cache_create(&cache, &err), GP_OK);
    assert_int_equal(gp_op_prepare(cache, &gp_cpu_kind, &got.op_case.desc, &prepared, &err), GP_OK);
    *padded += prepared->workspace > LONGER;
    gp_op_cache_destroy(&cache);
    trial_fini(&got);
    trial_fini(&want);
}

/* With AVX2: weights of 512 inputs for the gradient of the inputs, and each of them for that of the weights. */
static void test_padded_linear_layers(void **state) {
    (void)state;
    static const int expected[] = {0, 2, 3};
    for (int k = 0; k < 3; k++) {
        int padded[2] = {0, 0};
        for (int which = 0; which < PADDED; which++)
            for (int number = 1; number <= 3; number += 2) /* the gradient of the weights is added to, and not */
                check_padded((gp_op_kind)(GP_OP_LINEAR_FORWARD + k), which, number, &padded[number / 2]);
        for (int i = 0; i < 2 && gp_conv_isa_now() == GP_CONV_AVX2; i++) assert_int_equal(padded[i], expected[k]);
    }
}

/* NaN, infinities and −0, as ref treats them. */
static void check_special_values(gp_op_kind kind, int number) {
    static const float special[] = {NAN, -0.0F, INFINITY, -INFINITY, 0.0F};
    trial got, want;
    make_case(kind, number, 1, true, &got.op_case);
    want.op_case = got.op_case;
    trial_fill(&got);
    float *x = got.host[0];
    size_t count = gp_tensor_bytes(&got.op_case.desc.operand[0]) / sizeof *x;
    for (size_t i = 0; i < count; i += 1 + i % 3)
        if (x[i] == x[i]) x[i] = special[i % 5]; /* NaN: between the rows, or one already */
    trial_fill(&want);
    memcpy(want.host[0], x, count * sizeof *x);
    run_both(&got, &want);
    trial_compare(&got, &want, tolerance_of(kind));
    const gp_tensor *y = &got.op_case.desc.operand[GP_RELU_FORWARD_Y];
    for (size_t i = 0; kind == GP_OP_RELU_FORWARD && i < gp_tensor_bytes(y) / sizeof *x; i++)
        assert_true(((float *)got.host[GP_RELU_FORWARD_Y])[i] != 0 ||
                    !signbit(((float *)got.host[GP_RELU_FORWARD_Y])[i]));
    trial_fini(&got);
    trial_fini(&want);
}

static void check_clip(double square, int number) {
    trial got, want;
    make_case(GP_OP_CLIP_TOTAL, number, 1, true, &got.op_case);
    got.op_case.scalars.finite = 1;
    want.op_case = got.op_case;
    trial_fill(&got);
    trial_fill(&want);
    ((double *)got.host[GP_CLIP_TOTAL_SQUARES])[0] = ((double *)want.host[GP_CLIP_TOTAL_SQUARES])[0] = square;
    run_both(&got, &want);
    const gp_step_scalars *a = got.host[GP_CLIP_TOTAL_SCALARS], *b = want.host[GP_CLIP_TOTAL_SCALARS];
    uint64_t finite = got.op_case.desc.attributes.clip.max_norm > 0 ? 0 : 1;
    assert_true(a->finite == finite && b->finite == finite && !isfinite(a->grad_norm) && !isfinite(b->grad_norm));
    trial_fini(&got);
    trial_fini(&want);
}

/* What does the work of several ops does it bit for bit. */
static void test_wholes(void **state) {
    (void)state;
    op_whole_check(&gp_cpu_kind, GP_F32, 1);
    op_whole_check(&gp_cpu_kind, GP_F32, 2);
}

static void test_special_values(void **state) {
    (void)state;
    static const gp_op_kind kinds[] = {
        GP_OP_RELU_FORWARD,       GP_OP_RELU_BACKWARD,    GP_OP_MAX_POOL_FORWARD, GP_OP_ADD,
        GP_OP_ACTIVATION_FORWARD, GP_OP_AVG_POOL_FORWARD, GP_OP_UPSAMPLE_FORWARD, GP_OP_SQUARE_SUM,
        GP_OP_NORM_APPLY_RELU};
    static const double squares[] = {NAN, INFINITY};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (int number = 0; number < GP_OP_CASES; number += GP_OP_CASES_STEP) check_special_values(kinds[k], number);
    }
    for (int number = 0; number < 12; number++) check_clip(squares[number % 2], number);
}

/* One open device with one block of memory in which everything that an op touches has its place, guards between. */
enum { GUARD = 256, GUARD_BYTE = 0x5a };

typedef struct bench {
    const gp_prepared *prepared;
    gp_device *device;
    gp_stream *stream;
    unsigned char *block;
    size_t bytes, offset[GP_MAX_OPERANDS], workspace;
} bench;

/* in_place: the read operand whose place the written one shares, or −1. */
static gp_status bench_open(bench *b, const gp_prepared *prepared, int written, int in_place, gp_error *err) {
    *b = (bench){.prepared = prepared, .bytes = GUARD};
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        b->offset[i] = b->bytes;
        b->bytes += gp_align_up(prepared->operand[i].bytes, GP_ALIGNMENT) + GUARD;
    }
    if (in_place >= 0) b->offset[written] = b->offset[in_place];
    b->workspace = b->bytes;
    b->bytes += prepared->workspace + GUARD;
    gp_device_spec spec = {&gp_cpu_kind, 0, (int)prepared->desc.threads, 0};
    GP_RETURN_IF_FAILED(gp_cpu_kind.open(&spec, &b->device, err));
    GP_RETURN_IF_FAILED(gp_cpu_kind.stream_create(b->device, false, &b->stream, err));
    void *block;
    GP_RETURN_IF_FAILED(gp_cpu_kind.reserve(b->device, b->bytes, &block, err));
    b->block = block;
    return GP_OK;
}

static void bench_close(bench *b) {
    gp_cpu_kind.unreserve(b->device, b->block);
    gp_cpu_kind.stream_destroy(b->stream);
    gp_cpu_kind.close(b->device);
}

/* Runs the op on the trial's operands; weights in a format of oneDNN's are the plain bytes, whatever they mean there.
 * *image is what the block holds afterwards, for the caller to free. */
static gp_status bench_run(const bench *b, const trial *t, int skip, unsigned char **image, gp_error *err) {
    const gp_op_desc *desc = &b->prepared->desc;
    void *address[GP_MAX_OPERANDS] = {NULL};
    memset(b->block, GUARD_BYTE, b->bytes);
    for (int i = 0; i < (int)desc->operands; i++) {
        if (!desc->operand[i].present) continue;
        address[i] = b->block + b->offset[i];
        size_t bytes = gp_tensor_bytes(&desc->operand[i]);
        if (i != skip) GP_RETURN_IF_FAILED(gp_cpu_kind.copy_in(b->stream, address[i], t->host[i], bytes, err));
    }
    void *workspace = b->prepared->workspace ? b->block + b->workspace : NULL;
    GP_RETURN_IF_FAILED(gp_device_run(&gp_cpu_kind, b->stream, b->prepared, address, workspace, &t->op_case.args, err));
    unsigned char *copy = malloc(b->bytes);
    if (!copy) return gp_fail(err, GP_MEMORY, "out of memory");
    GP_RETURN_IF_FAILED(gp_cpu_kind.copy_out(b->stream, copy, b->block, b->bytes, err));
    *image = copy;
    return GP_OK;
}

static void assert_same(const trial *t, const char *what, const void *got, const void *want, size_t bytes) {
    char text[GP_CASE_TEXT];
    if (memcmp(got, want, bytes) != 0) fail_msg("%s: %s", gp_op_case_text(text, &t->op_case), what);
}

/* Everything that the op may not write is as it was: what it only reads, and the guards. */
static void assert_untouched(const bench *b, const trial *t, unsigned char *image) {
    const gp_op_desc *desc = &b->prepared->desc;
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
    assert_same(t, "wrote what it may only read, or outside of its operands", image, before, b->bytes);
    free(before);
}

static void assert_written_same(const trial *t, const gp_prepared *prepared, const bench *a, const unsigned char *image,
                                const bench *b, const unsigned char *other, const char *what) {
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        if (!prepared->desc.operand[i].present || !gp_op_writes(prepared->desc.kind, i)) continue;
        assert_same(t, what, image + a->offset[i], other + b->offset[i], prepared->operand[i].bytes);
    }
}

/* The written operand's gaps lie over the read one's: compare elements only, which are what in_place is about. */
static void check_in_place(const gp_prepared *prepared, const trial *t, const bench *apart, const unsigned char *image,
                           int written, int read) {
    gp_error err = {0};
    bench b;
    unsigned char *shared = NULL;
    char difference[GP_DIFFERENCE_TEXT], text[GP_CASE_TEXT];
    ASSERT_OK(bench_open(&b, prepared, written, read, &err));
    ASSERT_OK(bench_run(&b, t, written, &shared, &err));
    if (!gp_op_same_elements(&prepared->desc.operand[written], shared + b.offset[written],
                             image + apart->offset[written], 0, difference))
        fail_msg("%s: in place of operand %d: %s", gp_op_case_text(text, &t->op_case), read, difference);
    free(shared);
    bench_close(&b);
}

static void check_promises(gp_op_cache *cache, gp_op_kind kind, int number) {
    gp_error err = {0};
    trial t;
    const gp_prepared *prepared;
    bench b;
    unsigned char *first = NULL, *second = NULL;
    make_case(kind, number, 1, true, &t.op_case);
    trial_fill(&t);
    ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &t.op_case.desc, &prepared, &err));
    ASSERT_OK(bench_open(&b, prepared, -1, -1, &err));
    ASSERT_OK(bench_run(&b, &t, -1, &first, &err));
    ASSERT_OK(bench_run(&b, &t, -1, &second, &err));
    assert_untouched(&b, &t, first);
    assert_written_same(&t, prepared, &b, first, &b, second, "a second run gave other bits");
    for (int written = 0; written < (int)prepared->desc.operands; written++) {
        for (int read = 0; read < (int)prepared->desc.operands; read++) {
            if (prepared->in_place[written] >> read & 1) check_in_place(prepared, &t, &b, first, written, read);
        }
    }
    free(first);
    free(second);
    bench_close(&b);
    trial_fini(&t);
}

static void test_promises(void **state) {
    (void)state;
    gp_error err = {0};
    gp_op_cache *cache;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        for (int number = 0; number < GP_OP_CASES; number++) check_promises(cache, (gp_op_kind)kind, number);
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
        {GP_OP_RELU_FORWARD, GP_RELU_FORWARD_Y, 1 << GP_RELU_FORWARD_X},
        {GP_OP_RELU_BACKWARD, GP_RELU_BACKWARD_DX, 1 << GP_RELU_BACKWARD_Y | 1 << GP_RELU_BACKWARD_DY},
        {GP_OP_ACTIVATION_FORWARD, GP_ACTIVATION_FORWARD_Y, 1 << GP_ACTIVATION_FORWARD_X},
        {GP_OP_ACTIVATION_BACKWARD, GP_ACTIVATION_BACKWARD_DX,
         1 << GP_ACTIVATION_BACKWARD_A | 1 << GP_ACTIVATION_BACKWARD_DY},
        {GP_OP_GROUP_NORM_FORWARD, GP_GROUP_NORM_FORWARD_Y, 1 << GP_GROUP_NORM_FORWARD_X},
        {GP_OP_GROUP_NORM_BACKWARD_DATA, GP_GROUP_NORM_BACKWARD_DATA_DX,
         1 << GP_GROUP_NORM_BACKWARD_DATA_X | 1 << GP_GROUP_NORM_BACKWARD_DATA_DY},
        {GP_OP_ADD, GP_ADD_Y, 1 << GP_ADD_A | 1 << GP_ADD_B},
        {GP_OP_COPY, GP_COPY_Y, 1 << GP_COPY_X},
        {GP_OP_DROPOUT, GP_DROPOUT_Y, 1 << GP_DROPOUT_X},
        {GP_OP_NORM_APPLY, GP_NORM_APPLY_Y, 1 << GP_NORM_APPLY_X},
        {GP_OP_NORM_BACKWARD_DATA, GP_NORM_BACKWARD_DATA_DX,
         1 << GP_NORM_BACKWARD_DATA_X | 1 << GP_NORM_BACKWARD_DATA_DY},
        {GP_OP_NORM_APPLY_RELU, GP_NORM_APPLY_RELU_Y, 1 << GP_NORM_APPLY_RELU_X},
        {GP_OP_NORM_RELU_BACKWARD_DATA, GP_NORM_RELU_BACKWARD_DATA_DX,
         1 << GP_NORM_RELU_BACKWARD_DATA_X | 1 << GP_NORM_RELU_BACKWARD_DATA_DY},
        {GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ,
         1 << GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY},
        {GP_OP_CROSS_ENTROPY_BACKWARD, GP_CROSS_ENTROPY_BACKWARD_DX, 1 << GP_CROSS_ENTROPY_BACKWARD_X},
        {GP_OP_ELEMENT_LOSS_BACKWARD, GP_ELEMENT_LOSS_BACKWARD_DX, 1 << GP_ELEMENT_LOSS_BACKWARD_X},
    };
    gp_error err = {0};
    gp_op_cache *cache;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    for (size_t e = 0; e < sizeof expected / sizeof expected[0]; e++) {
        gp_op_case c;
        const gp_prepared *prepared;
        make_case(expected[e].kind, 6, 1, true, &c); /* every third case has dense operands */
        ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &c.desc, &prepared, &err));
        assert_int_equal(prepared->in_place[expected[e].written], expected[e].reads);
        /* The same values in rows that lie further apart: not the same memory. */
        int64_t wide[GP_TENSOR_MAX_RANK];
        gp_tensor *tensor = &c.desc.operand[expected[e].written];
        memcpy(wide, tensor->dim, sizeof wide);
        wide[tensor->rank - 1] += 3;
        *tensor = gp_tensor_channels(gp_tensor_plain(tensor->dtype, tensor->rank, wide), tensor->dim[tensor->rank - 1]);
        ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &c.desc, &prepared, &err));
        assert_int_equal(prepared->in_place[expected[e].written], 0);
    }
    gp_op_cache_destroy(&cache);
}

/* Statistics of each sample, which other ops' are not. */
static bool is_group_stats(gp_op_kind kind, int operand) {
    return kind == GP_OP_GROUP_NORM_FORWARD && operand == GP_GROUP_NORM_FORWARD_STATS;
}

/* A case with `factor` times as many samples, so that there is something to share out. */
static void enlarge(gp_op_case *c, int64_t factor) {
    static const char *const batched[] = {"x",    "y",        "dx", "dy", "a",     "index",  "target",
                                          "grad", "momentum", "m",  "v",  "param", "addend", "dz"};
    for (int i = 0; i < (int)c->desc.operands; i++) {
        if (!c->desc.operand[i].present) continue;
        const char *name = gp_op_operand_name(c->desc.kind, i);
        bool found = c->desc.kind == GP_OP_ADD; /* its b is no bias */
        found = found || c->fill[i] == GP_CASE_PAIRS || is_group_stats(c->desc.kind, i);
        for (size_t n = 0; n < sizeof batched / sizeof batched[0]; n++) found = found || !strcmp(name, batched[n]);
        if (found) c->desc.operand[i].dim[0] *= factor;
    }
    if (c->desc.kind != GP_OP_SQUARE_BLOCKS) return;
    int64_t elements = gp_tensor_elements(&c->desc.operand[GP_SQUARE_BLOCKS_X]);
    int64_t block = c->desc.attributes.blocks.elements;
    c->desc.operand[GP_SQUARE_BLOCKS_SUMS].dim[0] = (elements + block - 1) / block;
}

/* Of own loops the bits do not depend on the number of threads. */
static void check_threads(gp_op_cache *cache, gp_op_kind kind, int number) {
    gp_error err = {0};
    trial t;
    const gp_prepared *prepared[2];
    bench b[2];
    unsigned char *image[2] = {NULL, NULL};
    make_case(kind, number, 1, true, &t.op_case);
    enlarge(&t.op_case, 200);
    trial_fill(&t);
    for (int i = 0; i < 2; i++) {
        t.op_case.desc.threads = i ? 3 : 1;
        ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &t.op_case.desc, &prepared[i], &err));
        ASSERT_OK(bench_open(&b[i], prepared[i], -1, -1, &err));
        ASSERT_OK(bench_run(&b[i], &t, -1, &image[i], &err));
        assert_untouched(&b[i], &t, image[i]);
    }
    assert_written_same(&t, prepared[0], &b[0], image[0], &b[1], image[1], "three threads gave other bits than one");
    for (int i = 0; i < 2; i++) {
        free(image[i]);
        bench_close(&b[i]);
    }
    trial_fini(&t);
}

static void test_threads(void **state) {
    (void)state;
    gp_error err = {0};
    gp_op_cache *cache;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        if (is_onednn((gp_op_kind)kind) || kind == GP_OP_NORM_MERGE || kind == GP_OP_NORM_MERGE_SUMS ||
            kind == GP_OP_NORM_COMMIT || kind == GP_OP_LOSS_TOTAL || kind == GP_OP_CLIP_TOTAL)
            continue;
        for (int number = 0; number < 12; number++) check_threads(cache, (gp_op_kind)kind, number);
    }
    gp_op_cache_destroy(&cache);
}

/* Two workers run one prepared op at once, each on its own numbers. */
typedef struct neighbour {
    const gp_prepared *prepared;
    trial trial;
    unsigned char *expected;
    pthread_t thread;
    atomic_int *ready;
    gp_status status;
    gp_error err;
} neighbour;

enum { NEIGHBOURS = 2, TURNS = 8 };

static gp_status run_turns(neighbour *self) {
    bench b;
    gp_status status = bench_open(&b, self->prepared, -1, -1, &self->err);
    atomic_fetch_add(self->ready, 1);
    GP_RETURN_IF_FAILED(status);
    const gp_op_desc *desc = &self->prepared->desc;
    while (atomic_load(self->ready) < NEIGHBOURS) sched_yield();
    for (int turn = 0; turn < TURNS && status == GP_OK; turn++) {
        unsigned char *image = NULL;
        status = bench_run(&b, &self->trial, -1, &image, &self->err);
        for (int i = 0; i < (int)desc->operands && status == GP_OK; i++) {
            if (!desc->operand[i].present || !gp_op_writes(desc->kind, i)) continue;
            if (memcmp(image + b.offset[i], self->expected + b.offset[i], self->prepared->operand[i].bytes) != 0)
                status = gp_fail(&self->err, GP_INTERNAL, "%s: other bits beside a neighbour", gp_op_name(desc->kind));
        }
        free(image);
    }
    bench_close(&b);
    return status;
}

static void *neighbour_main(void *argument) {
    neighbour *self = argument;
    self->status = run_turns(self);
    return NULL;
}

static void check_neighbours(gp_op_cache *cache, gp_op_kind kind, int number, int threads) {
    gp_error err = {0};
    atomic_int ready = 0;
    neighbour n[NEIGHBOURS];
    for (int i = 0; i < NEIGHBOURS; i++) {
        bench b;
        n[i] = (neighbour){.ready = &ready};
        make_case(kind, number, threads, true, &n[i].trial.op_case);
        enlarge(&n[i].trial.op_case, 20);
        n[i].trial.op_case.number += i * GP_OP_CASES; /* other numbers in the same places */
        trial_fill(&n[i].trial);
        ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &n[i].trial.op_case.desc, &n[i].prepared, &err));
        ASSERT_OK(bench_open(&b, n[i].prepared, -1, -1, &err));
        ASSERT_OK(bench_run(&b, &n[i].trial, -1, &n[i].expected, &err));
        bench_close(&b);
    }
    assert_ptr_equal(n[0].prepared, n[1].prepared);
    for (int i = 0; i < NEIGHBOURS; i++) assert_int_equal(pthread_create(&n[i].thread, NULL, neighbour_main, &n[i]), 0);
    for (int i = 0; i < NEIGHBOURS; i++) assert_int_equal(pthread_join(n[i].thread, NULL), 0);
    for (int i = 0; i < NEIGHBOURS; i++) {
        if (n[i].status != GP_OK) fail_msg("%s", n[i].err.text);
        free(n[i].expected);
        trial_fini(&n[i].trial);
    }
}

static void test_neighbours(void **state) {
    (void)state;
    gp_error err = {0};
    gp_op_cache *cache;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        for (int number = 4; number < GP_OP_CASES; number += 9)
            check_neighbours(cache, (gp_op_kind)kind, number, 1 + number % 2);
    }
    gp_op_cache_destroy(&cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_ref),    cmocka_unit_test(test_padded_linear_layers),
        cmocka_unit_test(test_special_values), cmocka_unit_test(test_wholes),
        cmocka_unit_test(test_promises),       cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
