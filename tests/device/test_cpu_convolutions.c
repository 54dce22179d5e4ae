/* The methods by which the CPU computes convolutions: each against the reference device, on every case that it can
 * compute; the same bits on each run and at each address; gradients of weights added to; and the choice, which is a
 * function of its arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_conv_choice.h"
#include "device/cpu/cpu_conv_gather.h"
#include "device/cpu/cpu_onednn.h"
#include "device/op_cases.h"
#include "device/op_trial.h"
#include "device/ref/ref.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

static const gp_op_kind kinds[] = {GP_OP_CONV_FORWARD, GP_OP_CONV_BACKWARD_DATA, GP_OP_CONV_BACKWARD_WEIGHTS};
enum { KINDS = 3, TOLERANCE_SHARE = 500000 /* 2e-6 */ };

enum { MOST_THREADS = 3 };

static bool is_conv(gp_op_kind kind) {
    return kind == kinds[0] || kind == kinds[1] || kind == kinds[2];
}

/* Device kinds that use one method only. */
#define FORCED(METHOD)                                                                                                 \
    static gp_status prepare_##METHOD(gp_prepared *prepared, gp_error *err) {                                          \
        if (!is_conv(prepared->desc.kind)) return gp_cpu_kind.prepare(prepared, err); /* a reorder */                  \
        return gp_cpu_conv_prepare_as(prepared, GP_CONV_##METHOD, err);                                                \
    }
FORCED(DIRECT)
FORCED(PRODUCT)
FORCED(GATHERED)
FORCED(PLACES)

static gp_device_kind kind_of(gp_conv_method method) {
    gp_status (*const prepare[])(gp_prepared *, gp_error *) = {prepare_DIRECT, prepare_PRODUCT, prepare_GATHERED,
                                                               prepare_PLACES};
    gp_device_kind kind = gp_cpu_kind;
    kind.prepare = prepare[method];
    return kind;
}

static int weights_of(gp_op_kind kind) {
    return kind == GP_OP_CONV_BACKWARD_WEIGHTS ? (int)GP_CONV_BACKWARD_WEIGHTS_DW : (int)GP_CONV_FORWARD_W;
}

typedef struct conv_sizes { /* [0] is height, [1] is width */
    int64_t n, in, out, size[2], kernel[2], stride[2], pad[2], dilation[2];
} conv_sizes;

/* More corners: what the methods care about. Samples, side, in, out, kernel, stride, padding, dilation. */
static const int64_t corners[][8] = {
    {5, 1, 17, 33, 3, 1, 1, 1},
    {64, 2, 16, 48, 3, 1, 1, 1},
    {3, 2, 8, 16, 3, 2, 1, 1},
    {7, 4, 5, 3, 1, 2, 0, 1},
    {33, 1, 64, 17, 1, 1, 0, 1},
    {2, 3, 33, 20, 2, 1, 0, 1},
    {4, 4, 8, 8, 3, 1, 1, 1},
    {3, 5, 4, 6, 3, 1, 2, 2},
    {2, 3, 16, 16, 5, 1, 2, 1},
    {40, 2, 3, 40, 2, 1, 0, 1},
    {17, 3, 7, 9, 3, 3, 1, 1},
    {1, 1, 1, 1, 1, 1, 0, 1},
    {12, 2, 128, 24, 3, 1, 1, 1},
    {16, 1, 100, 33, 3, 1, 1, 1},
    {7, 3, 150, 20, 3, 2, 1, 1},
    {1, 2, 192, 7, 3, 1, 1, 1},
    {24, 2, 512, 128, 3, 1, 1, 1},
    {2, 2, 6, 5, 3, 1, 2, 1},
    {6, 4, 3, 70, 1, 1, 0, 1},
    {3, 2, 9, 8, 1, 2, 0, 1},
    /* Padded rows (gp_conv_padded): of x and weights, of y, of gathered rows. */
    {40, 8, 48, 128, 3, 1, 1, 1},
    {24, 2, 512, 96, 1, 1, 0, 1},
    {24, 2, 96, 512, 1, 1, 0, 1},
    {4, 2, 512, 96, 3, 1, 1, 1},
    {4, 3, 32, 512, 3, 1, 1, 1},
    {100, 1, 512, 16, 3, 1, 1, 1},
    {33, 2, 128, 96, 3, 1, 1, 1},
};
/* Height and width differ, so that one taken for the other shows. */
static const conv_sizes lopsided[] = {
    {3, 8, 16, {2, 4}, {1, 3}, {1, 1}, {0, 1}, {1, 1}},
    {3, 8, 16, {4, 2}, {3, 1}, {1, 1}, {1, 0}, {1, 1}},
    {5, 7, 9, {3, 5}, {3, 1}, {2, 1}, {1, 0}, {1, 1}},
    {2, 16, 8, {1, 6}, {1, 5}, {1, 2}, {0, 2}, {1, 1}},
    {4, 5, 6, {5, 3}, {2, 3}, {1, 2}, {0, 1}, {1, 1}},
    {6, 3, 4, {4, 2}, {1, 1}, {2, 1}, {0, 0}, {1, 1}}, /* 1x1, but no product */
    {2, 4, 4, {2, 3}, {1, 1}, {1, 1}, {1, 0}, {1, 1}}, /* some places see padding only */
    {3, 17, 33, {1, 5}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {3, 4, 5, {5, 6}, {3, 2}, {2, 1}, {0, 1}, {2, 1}},
    {3, 4, 5, {6, 5}, {2, 3}, {1, 2}, {1, 0}, {1, 2}},
    {20, 128, 16, {1, 3}, {3, 2}, {1, 1}, {1, 0}, {1, 1}},
    {2, 6, 5, {2, 1}, {4, 3}, {1, 1}, {2, 1}, {1, 1}}, /* a kernel larger than the picture */
    {3, 4, 5, {6, 7}, {2, 2}, {4, 5}, {0, 0}, {1, 1}}, /* parts of the picture that no tap sees */
    {40, 5, 40, {3, 2}, {3, 3}, {3, 2}, {1, 1}, {1, 1}},
};
enum {
    CORNERS = sizeof corners / sizeof *corners,
    LOPSIDED = sizeof lopsided / sizeof *lopsided,
    CASES = GP_OP_CASES + CORNERS + LOPSIDED
};

static conv_sizes square(const int64_t *v) {
    return (conv_sizes){v[0], v[2], v[3], {v[1], v[1]}, {v[4], v[4]}, {v[5], v[5]}, {v[6], v[6]}, {v[7], v[7]}};
}

static void set(gp_op_case *c, int operand, const int64_t dim[4]) {
    int64_t wide[4] = {dim[0], dim[1], dim[2], dim[3] + c->number % 3};
    c->desc.operand[operand] = gp_tensor_channels(gp_tensor_plain(GP_F32, 4, wide), dim[3]);
}

static void make_corner(gp_op_case *c, const conv_sizes *v) {
    int64_t outputs[2];
    for (int d = 0; d < 2; d++)
        outputs[d] = (v->size[d] + 2 * v->pad[d] - v->dilation[d] * (v->kernel[d] - 1) - 1) / v->stride[d] + 1;
    const int64_t x[] = {v->n, v->size[0], v->size[1], v->in}, y[] = {v->n, outputs[0], outputs[1], v->out};
    c->desc.attributes.conv = (gp_conv_attributes){{v->kernel[0], v->kernel[1]},
                                                   {v->stride[0], v->stride[1]},
                                                   {v->pad[0], v->pad[1]},
                                                   {v->dilation[0], v->dilation[1]},
                                                   1};
    for (int i = 0; i < (int)c->desc.operands; i++) {
        switch ((int)gp_op_operand_named(c->desc.kind, i)) {
        case GP_NAME_X:
        case GP_NAME_DX: set(c, i, x); break;
        case GP_NAME_Y:
        case GP_NAME_DY: set(c, i, y); break;
        case GP_NAME_W:
        case GP_NAME_DW:
            c->desc.operand[i] =
                gp_tensor_plain(GP_F32, 4, (const int64_t[]){v->out, v->in, v->kernel[0], v->kernel[1]});
            break;
        default:
            if (c->desc.operand[i].present) c->desc.operand[i] = gp_tensor_plain(GP_F32, 1, &v->out);
            break;
        }
    }
}

/* The gradient of the bias is not the methods' (cpu_weights.c). */
static void make_case(gp_op_kind kind, int number, uint32_t threads, bool adds, gp_op_case *out) {
    gp_op_case_make(kind, number < GP_OP_CASES ? number : number % 4, GP_F32, out);
    out->number = number;
    if (number >= GP_OP_CASES) {
        int corner = number - GP_OP_CASES;
        conv_sizes sizes = corner < CORNERS ? square(corners[corner]) : lopsided[corner - CORNERS];
        make_corner(out, &sizes);
    }
    out->desc.threads = threads;
    out->desc.flags = kind == GP_OP_CONV_BACKWARD_WEIGHTS && adds ? GP_OP_ACCUMULATE : 0;
    out->desc.operand[weights_of(kind)].format = GP_FORMAT_ANY;
    if (kind != GP_OP_CONV_BACKWARD_WEIGHTS) return;
    out->fill[GP_CONV_BACKWARD_WEIGHTS_DW] = GP_CASE_NORMAL;
    out->desc.operand[GP_CONV_BACKWARD_WEIGHTS_DB] = (gp_tensor){0};
}

static gp_op_desc describe(gp_op_kind kind, const int64_t *corner, uint32_t threads) {
    gp_op_case c;
    make_case(kind, GP_OP_CASES, threads, false, &c);
    c.number = 0;
    const conv_sizes sizes = square(corner);
    make_corner(&c, &sizes);
    c.desc.operand[weights_of(kind)].format = GP_FORMAT_ANY;
    return c.desc;
}

static bool is_possible(const gp_op_case *c, gp_conv_method method) {
    gp_conv_shape shape = gp_conv_shape_of(&c->desc);
    return gp_conv_is_possible(&shape, method);
}

static void check_against_ref(gp_op_kind kind, gp_conv_method method, int number, uint32_t threads, bool adds,
                              int *checked) {
    const gp_device_kind device = kind_of(method);
    trial got, want;
    make_case(kind, number, threads, adds, &got.op_case);
    if (!is_possible(&got.op_case, method) || (adds && method == GP_CONV_DIRECT)) return;
    want.op_case = got.op_case;
    want.op_case.desc.threads = 1;
    want.op_case.desc.operand[weights_of(kind)].format = GP_FORMAT_PLAIN;
    trial_fill(&got);
    trial_fill(&want);
    trial_run(&gp_ref_kind, &want);
    trial_run(&device, &got);
    trial_compare(&got, &want, 1.0 / TOLERANCE_SHARE);
    trial_fini(&got);
    trial_fini(&want);
    ++*checked;
}

static void test_against_ref(void **state) {
    (void)state;
    for (int m = 0; m < GP_CONV_METHODS; m++) {
        for (int k = 0; k < KINDS; k++) {
            int checked = 0;
            for (int number = 0; number < CASES; number += GP_OP_CASES_STEP) {
                uint32_t threads = 1 + (uint32_t)number % MOST_THREADS;
                check_against_ref(kinds[k], (gp_conv_method)m, number, threads, false, &checked);
                check_against_ref(kinds[k], (gp_conv_method)m, number, threads, true, &checked);
            }
            if (GP_OP_CASES_STEP == 1) assert_true(checked > 5);
        }
    }
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

/* Runs the op at addresses `shift` floats from the alignment; the written operand, for the caller to free. */
static void *run_at(const gp_prepared *prepared, const trial *t, size_t shift, int fill, size_t *bytes) {
    gp_error err = {0};
    gp_device *device;
    gp_stream *stream;
    void *blocks[GP_MAX_OPERANDS] = {NULL}, *address[GP_MAX_OPERANDS] = {NULL}, *workspace = NULL, *result = NULL;
    const gp_device_spec spec = {&gp_cpu_kind, 0, (int)prepared->desc.threads, 0};
    ASSERT_OK(gp_cpu_kind.open(&spec, &device, &err));
    ASSERT_OK(gp_cpu_kind.stream_create(device, false, &stream, &err));
    ASSERT_OK(gp_cpu_kind.reserve(device, prepared->workspace + 1, &workspace, &err));
    memset(workspace, fill ? 0xff : 0, prepared->workspace); /* NaN: nothing is read before it is written */
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        const gp_tensor *tensor = &prepared->desc.operand[i];
        if (!tensor->present) continue;
        size_t has = gp_tensor_bytes(tensor), wants = prepared->operand[i].bytes;
        ASSERT_OK(
            gp_cpu_kind.reserve(device, (has > wants ? has : wants) + shift * sizeof(float) + 1, &blocks[i], &err));
        address[i] = (float *)blocks[i] + shift;
        memcpy(address[i], t->host[i], has < wants ? has : wants);
    }
    const gp_op_args args = {0};
    ASSERT_OK(gp_device_run(&gp_cpu_kind, stream, prepared, address, workspace, &args, &err));
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        if (!blocks[i]) continue;
        if (gp_op_writes(prepared->desc.kind, i) && !result) {
            *bytes = prepared->operand[i].bytes;
            result = malloc(*bytes);
            assert_non_null(result);
            memcpy(result, address[i], *bytes);
        }
        gp_cpu_kind.unreserve(device, blocks[i]);
    }
    gp_cpu_kind.unreserve(device, workspace);
    gp_cpu_kind.stream_destroy(stream);
    gp_cpu_kind.close(device);
    return result;
}

/* Runs at other addresses, and with other numbers in the workspace, give equal bits. */
static void check_bits(gp_op_kind kind, gp_conv_method method, int number) {
    const gp_device_kind device = kind_of(method);
    gp_error err = {0};
    char text[GP_CASE_TEXT];
    trial t;
    gp_op_cache *cache;
    void *first = NULL;
    make_case(kind, number, 1 + (uint32_t)number % MOST_THREADS, number % 2 && method != GP_CONV_DIRECT, &t.op_case);
    if (!is_possible(&t.op_case, method)) return;
    trial_fill(&t);
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    for (int run = 0; run < 3; run++) {
        const gp_prepared *prepared;
        size_t bytes = 0;
        ASSERT_OK(gp_op_prepare(cache, &device, &t.op_case.desc, &prepared, &err));
        void *result = run_at(prepared, &t, run == 1 ? 5 : 0, run, &bytes);
        if (first && memcmp(first, result, bytes) != 0)
            fail_msg("%s by %s: other bits in run %d", gp_op_case_text(text, &t.op_case), gp_conv_method_name(method),
                     run);
        if (!first)
            first = result;
        else
            free(result);
    }
    free(first);
    gp_op_cache_destroy(&cache);
    trial_fini(&t);
}

static void test_bits(void **state) {
    (void)state;
    for (int m = 0; m < GP_CONV_METHODS; m++)
        for (int k = 0; k < KINDS; k++)
            for (int number = 0; number < CASES; number += GP_OP_CASES_STEP)
                check_bits(kinds[k], (gp_conv_method)m, number);
}

/* What the op writes with so many threads; for the caller to free. */
static void *run_with(gp_op_kind kind, gp_conv_method method, int number, uint32_t threads, size_t *bytes) {
    const gp_device_kind device = kind_of(method);
    gp_error err = {0};
    trial t;
    gp_op_cache *cache;
    const gp_prepared *prepared;
    make_case(kind, number, threads, number % 2, &t.op_case);
    trial_fill(&t);
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    ASSERT_OK(gp_op_prepare(cache, &device, &t.op_case.desc, &prepared, &err));
    void *result = run_at(prepared, &t, 0, 1, bytes);
    gp_op_cache_destroy(&cache);
    trial_fini(&t);
    return result;
}

/* Backward-data of few samples is shared out by input channels; the number of threads changes no bit of it. */
static void check_threads(int number, int *divided) {
    gp_op_case c;
    char text[GP_CASE_TEXT];
    size_t bytes = 0, again = 0;
    make_case(GP_OP_CONV_BACKWARD_DATA, number, 1, false, &c);
    gp_conv_shape shape = gp_conv_shape_of(&c.desc);
    if (!gp_conv_is_possible(&shape, GP_CONV_PLACES) || !gp_conv_by_channels(&shape)) return;
    void *one = run_with(GP_OP_CONV_BACKWARD_DATA, GP_CONV_PLACES, number, 1, &bytes);
    for (uint32_t threads = 2; threads <= MOST_THREADS + 1; threads++) {
        gp_division division = gp_conv_divide(&shape, GP_OP_CONV_BACKWARD_DATA, GP_CONV_PLACES, (int)threads);
        void *several = run_with(GP_OP_CONV_BACKWARD_DATA, GP_CONV_PLACES, number, threads, &again);
        assert_int_equal(bytes, again);
        if (memcmp(one, several, bytes) != 0)
            fail_msg("%s: other bits with %u threads", gp_op_case_text(text, &c), threads);
        *divided += division.parts > 1;
        free(several);
    }
    free(one);
}

static void test_threads(void **state) {
    (void)state;
    int divided = 0;
    for (int number = 0; number < CASES; number++) check_threads(number, &divided);
    assert_true(divided > 5);
}

/* ---- shares of samples ------------------------------------------------------------------------------------------- */

/* A convolution with the weights as it chooses them for several threads, and its operands. */
typedef struct shared_op {
    gp_device_kind device;
    gp_op_cache *cache;
    const gp_prepared *prepared;
    trial t;
} shared_op;

static void prepare_shared(shared_op *its, gp_op_kind kind, const int64_t *corner, uint32_t threads, gp_format format) {
    gp_error err = {0};
    its->device = kind_of(GP_CONV_DIRECT);
    make_case(kind, 0, threads, false, &its->t.op_case);
    its->t.op_case.desc = describe(kind, corner, threads);
    its->t.op_case.desc.operand[weights_of(kind)].format = format;
    ASSERT_OK(gp_op_cache_create(&its->cache, &err));
    ASSERT_OK(gp_op_prepare(its->cache, &its->device, &its->t.op_case.desc, &its->prepared, &err));
    trial_fill(&its->t);
}

static void forget_shared(shared_op *its) {
    trial_fini(&its->t);
    gp_op_cache_destroy(&its->cache);
}

static int picture_of(gp_op_kind kind, gp_operand_name name, gp_operand_name or_name) {
    for (int i = 0; i < gp_op_operand_count(kind); i++) {
        gp_operand_name its = gp_op_operand_named(kind, i);
        if (its == name || its == or_name) return i;
    }
    fail();
    return 0;
}

/* Copies samples [first, first + of `some`) of both pictures, and the weights and the bias. */
static void copy_samples(const shared_op *all, const shared_op *some, int64_t first, int64_t samples) {
    gp_op_kind kind = all->prepared->desc.kind;
    for (int i = 0; i < (int)all->prepared->desc.operands; i++) {
        if (!all->prepared->desc.operand[i].present) continue;
        bool picture = i == picture_of(kind, GP_NAME_X, GP_NAME_DX) || i == picture_of(kind, GP_NAME_Y, GP_NAME_DY);
        size_t bytes = gp_tensor_bytes(&some->prepared->desc.operand[i]);
        size_t skipped = picture ? bytes / (size_t)samples * (size_t)first : 0;
        memcpy(some->t.host[i], (const char *)all->t.host[i] + skipped, bytes);
    }
}

/* What one thread computes of each share alone, put together: the samples one after another, or gradients added up. */
static float *by_hand(const shared_op *all, const int64_t *corner, int threads, size_t bytes) {
    gp_op_kind kind = all->prepared->desc.kind;
    int64_t samples = corner[0], first = 0;
    size_t written = 0;
    float *want = calloc(1, bytes);
    assert_non_null(want);
    for (int share = 0; share < threads; share++) {
        int64_t of_share[8];
        size_t share_bytes = 0;
        shared_op some;
        memcpy(of_share, corner, sizeof of_share);
        of_share[0] = samples / threads + (share < samples % threads);
        prepare_shared(&some, kind, of_share, 1, all->prepared->operand[weights_of(kind)].format);
        copy_samples(all, &some, first, of_share[0]);
        float *result = run_at(some.prepared, &some.t, 0, 1, &share_bytes);
        if (kind == GP_OP_CONV_BACKWARD_WEIGHTS) {
            assert_int_equal(share_bytes, bytes);
            for (size_t i = 0; i < bytes / sizeof(float); i++) want[i] = share ? want[i] + result[i] : result[i];
        } else {
            assert_true(written + share_bytes <= bytes);
            memcpy((char *)want + written, result, share_bytes);
            written += share_bytes;
        }
        free(result);
        forget_shared(&some);
        first += of_share[0];
    }
    return want;
}

/* The most threads of libgomp that an op has asked for; the linker puts this in the place of libgomp's function. */
static atomic_int most_threads;
void __real_omp_set_num_threads(int threads);
void __wrap_omp_set_num_threads(int threads);
void __wrap_omp_set_num_threads(int threads) {
    if (threads > most_threads) most_threads = threads;
    __real_omp_set_num_threads(threads);
}

/* Each thread computes its share of the samples as one thread does that has no others, and gradients of weights are
 * added in the order of the shares: the same bits. */
static void test_shares(void **state) {
    (void)state;
    static const int64_t shapes[][8] = {{4, 6, 16, 32, 3, 1, 1, 1}, {5, 6, 16, 32, 3, 1, 1, 1},
                                        {9, 7, 3, 16, 5, 2, 2, 1},  {3, 4, 20, 24, 1, 1, 0, 1},
                                        {6, 5, 7, 9, 3, 1, 2, 2},   {12, 1, 64, 64, 3, 1, 1, 1}};
    /* tests/machine/other_machine.c lets oneDNN have no fast code for some formats; then it divides these itself. */
    bool other_machine = getenv("GP_MACHINE_WEIGHTS") != NULL;
    int compared = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (uint32_t threads = 2; threads <= MOST_THREADS; threads++) {
            for (int k = 0; k < KINDS; k++) {
                shared_op all;
                size_t bytes = 0;
                prepare_shared(&all, kinds[k], shapes[i], threads, GP_FORMAT_ANY);
                gp_conv_shape shape = gp_conv_shape_of(&all.prepared->desc);
                assert_true(gp_conv_is_shared(&shape, kinds[k], gp_conv_isa_now(), threads));
                most_threads = 0;
                float *got = run_at(all.prepared, &all.t, 0, 1, &bytes);
                bool divided = most_threads <= 1;
                float *want = divided ? by_hand(&all, shapes[i], (int)threads, bytes) : NULL;
                if (divided && memcmp(got, want, bytes) != 0)
                    fail_msg("shape %zu, op %d, %u threads: not what the shares are alone", i, k, threads);
                compared += divided;
                assert_true(divided || other_machine);
                free(got);
                free(want);
                forget_shared(&all);
            }
        }
    }
    assert_true(compared > 0);
}

/* Samples are divided if each thread has one, no second gradient is large, and none waits long for a larger share. */
static void test_what_is_shared(void **state) {
    (void)state;
    static const struct {
        int64_t shape[8];
        uint32_t threads;
        bool shared[KINDS];
    } cases[] = {
        {{8, 48, 32, 32, 3, 1, 1, 1}, 1, {false, false, false}},
        {{8, 48, 32, 32, 3, 1, 1, 1}, 2, {true, true, true}},
        {{1, 7, 512, 512, 3, 1, 1, 1}, 2, {false, false, false}},
        {{2, 7, 16, 16, 3, 1, 1, 1}, 3, {false, false, false}},
        {{3, 7, 16, 16, 3, 1, 1, 1}, 3, {true, true, true}},
        {{8, 7, 256, 1024, 1, 1, 0, 1}, 2, {true, true, true}}, /* 1 MiB */
        {{9, 2, 256, 1024, 1, 1, 0, 1}, 3, {true, true, false}},
        {{8, 7, 256, 1025, 1, 1, 0, 1}, 2, {true, true, false}},
        {{3, 8, 16, 16, 3, 1, 1, 1}, 2, {true, true, true}}, /* 2 + 1, but little work */
        {{7, 112, 64, 64, 3, 1, 1, 1}, 2, {false, false, false}},
        {{8, 112, 64, 64, 3, 1, 1, 1}, 2, {true, true, true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int isa = 0; isa < GP_CONV_ISAS; isa++) {
            for (int k = 0; k < KINDS; k++) {
                gp_op_desc desc = describe(kinds[k], cases[i].shape, cases[i].threads);
                gp_conv_shape s = gp_conv_shape_of(&desc);
                bool is = gp_conv_is_shared(&s, kinds[k], (gp_conv_isa)isa, cases[i].threads);
                if (is != cases[i].shared[k])
                    fail_msg("case %zu, %s, op %d: %d", i, gp_conv_isa_name((gp_conv_isa)isa), k, is);
            }
        }
    }
}

/* Runs an op, with weights in the device's format or plain ones. */
static int threads_of_libgomp(gp_op_kind kind, const int64_t *corner, uint32_t threads) {
    shared_op its;
    size_t bytes;
    prepare_shared(&its, kind, corner, threads, GP_FORMAT_ANY);
    most_threads = 0;
    free(run_at(its.prepared, &its.t, 0, 1, &bytes));
    forget_shared(&its);
    return most_threads;
}

static int threads_of_linear(int64_t rows, int64_t in, int64_t out) {
    gp_error err = {0};
    shared_op its;
    size_t bytes;
    const int64_t x[] = {rows, in}, w[] = {out, in}, y[] = {rows, out};
    gp_op_case_make(GP_OP_LINEAR_FORWARD, 0, GP_F32, &its.t.op_case);
    gp_op_desc *desc = &its.t.op_case.desc;
    desc->threads = MOST_THREADS;
    desc->operand[GP_LINEAR_FORWARD_X] = gp_tensor_plain(GP_F32, 2, x);
    desc->operand[GP_LINEAR_FORWARD_W] = gp_tensor_plain(GP_F32, 2, w);
    desc->operand[GP_LINEAR_FORWARD_Y] = gp_tensor_plain(GP_F32, 2, y);
    desc->operand[GP_LINEAR_FORWARD_B] = (gp_tensor){0};
    ASSERT_OK(gp_op_cache_create(&its.cache, &err));
    ASSERT_OK(gp_op_prepare(its.cache, &gp_cpu_kind, desc, &its.prepared, &err));
    trial_fill(&its.t);
    most_threads = 0;
    free(run_at(its.prepared, &its.t, 0, 1, &bytes));
    forget_shared(&its);
    return most_threads;
}

/* Reorders weights from plain to the device's format. */
static int threads_of_reorder(const int64_t *corner) {
    gp_error err = {0};
    shared_op conv, its;
    size_t bytes;
    prepare_shared(&conv, GP_OP_CONV_FORWARD, corner, MOST_THREADS, GP_FORMAT_ANY);
    gp_op_case_make(GP_OP_REORDER, 0, GP_F32, &its.t.op_case);
    gp_op_desc *desc = &its.t.op_case.desc;
    desc->threads = MOST_THREADS;
    desc->operand[GP_REORDER_X] = desc->operand[GP_REORDER_Y] = conv.t.op_case.desc.operand[GP_CONV_FORWARD_W];
    desc->operand[GP_REORDER_X].format = GP_FORMAT_PLAIN;
    desc->operand[GP_REORDER_Y].format = conv.prepared->operand[GP_CONV_FORWARD_W].format;
    ASSERT_OK(gp_op_cache_create(&its.cache, &err));
    ASSERT_OK(gp_op_prepare(its.cache, &gp_cpu_kind, desc, &its.prepared, &err));
    trial_fill(&its.t);
    most_threads = 0;
    free(run_at(its.prepared, &its.t, 0, 1, &bytes));
    forget_shared(&its);
    forget_shared(&conv);
    return most_threads;
}

/* libgomp's other threads sleep through what is shared, and through what one thread does sooner than they wake. */
static void test_who_wakes(void **state) {
    (void)state;
    static const int64_t shared[] = {7, 8, 16, 32, 3, 1, 1, 1}, one[] = {1, 8, 16, 32, 3, 1, 1, 1};
    static const int64_t small[] = {4, 4, 64, 96, 3, 1, 1, 1}, large[] = {4, 4, 96, 96, 3, 1, 1, 1};
    for (int k = 0; k < KINDS; k++) {
        for (uint32_t threads = 2; threads <= MOST_THREADS; threads++)
            assert_int_equal(threads_of_libgomp(kinds[k], shared, threads), 1);
        assert_int_equal(threads_of_libgomp(kinds[k], one, MOST_THREADS), MOST_THREADS);
    }
    assert_int_equal(threads_of_linear(16, 64, 10), 1);
    assert_int_equal(threads_of_linear(512, 1024, 1024), MOST_THREADS);
    assert_int_equal(threads_of_reorder(small), 1);
    assert_int_equal(threads_of_reorder(large), MOST_THREADS);
}

/* The workspace has the second gradients, and no more than these and scratchpads if one thread has none. */
static void test_partial_gradients(void **state) {
    (void)state;
    static const int64_t small[] = {6, 6, 64, 96, 3, 1, 1, 1}, large[] = {4, 4, 512, 513, 1, 1, 0, 1};
    const size_t bytes = 64 * 96 * 9 * sizeof(float);
    for (uint32_t threads = 2; threads <= MOST_THREADS; threads++) {
        shared_op one, several;
        prepare_shared(&one, GP_OP_CONV_BACKWARD_WEIGHTS, small, 1, GP_FORMAT_ANY);
        prepare_shared(&several, GP_OP_CONV_BACKWARD_WEIGHTS, small, threads, GP_FORMAT_ANY);
        assert_true(several.prepared->workspace >= (threads - 1) * bytes);
        assert_true(several.prepared->workspace <= (threads - 1) * bytes + threads * one.prepared->workspace);
        forget_shared(&one);
        forget_shared(&several);
    }
    /* Of large weights there is no second gradient, and the op costs the time that libgomp takes to wake. */
    gp_op_desc desc = describe(GP_OP_CONV_BACKWARD_WEIGHTS, large, 2);
    gp_conv_shape s = gp_conv_shape_of(&desc), less = s;
    less.out = 512;
    double step = gp_conv_expected(&s, desc.kind, GP_CONV_DIRECT, GP_CONV_AVX2, 2) -
                  gp_conv_expected(&less, desc.kind, GP_CONV_DIRECT, GP_CONV_AVX2, 2);
    assert_true(step >= GP_CONV_WAKING && step < 1.1 * GP_CONV_WAKING);
}

/* Every thread has its part of products that are large enough, and a product for fewer threads costs as one. */
static void test_division(void **state) {
    (void)state;
    static const int64_t shapes[][8] = {{1, 2, 512, 512, 3, 1, 1, 1},  {8, 2, 256, 256, 3, 1, 1, 1},
                                        {16, 4, 128, 128, 3, 1, 1, 1}, {24, 1, 512, 512, 3, 1, 1, 1},
                                        {64, 2, 256, 256, 3, 1, 1, 1}, {33, 8, 64, 64, 3, 1, 1, 1},
                                        {65, 3, 512, 512, 3, 1, 1, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int k = 0; k < KINDS; k++) {
            gp_op_desc desc = describe(kinds[k], shapes[i], 2);
            gp_conv_shape shape = gp_conv_shape_of(&desc);
            for (int m = GP_CONV_GATHERED; m < GP_CONV_METHODS; m++)
                if (gp_conv_is_possible(&shape, (gp_conv_method)m))
                    assert_int_equal(gp_conv_divide(&shape, kinds[k], (gp_conv_method)m, 2).parts, 2);
        }
    }
    static const int64_t small[] = {3, 1, 16, 16, 1, 1, 0, 1};
    for (int k = 0; k < KINDS; k++) {
        gp_op_desc desc = describe(kinds[k], small, 2);
        gp_conv_shape shape = gp_conv_shape_of(&desc);
        assert_int_equal(gp_conv_divide(&shape, kinds[k], GP_CONV_PRODUCT, 2).parts, 1);
        double one = gp_conv_expected(&shape, kinds[k], GP_CONV_PRODUCT, GP_CONV_AVX2, 1);
        assert_true(gp_conv_expected(&shape, kinds[k], GP_CONV_PRODUCT, GP_CONV_AVX2, 2) == one);
    }
}

static void count_pads(const gp_conv_pads *pads, int counts[4]) {
    counts[0] += pads->x;
    counts[1] += pads->y;
    counts[2] += pads->weights;
    counts[3] += pads->gathered;
}

/* The cases above have all of them where the processor has AVX2. Other instruction sets have none. */
static void test_padded_rows(void **state) {
    (void)state;
    static const bool expected[GP_CONV_METHODS][4] = {[GP_CONV_PRODUCT] = {true, true, true, false},
                                                      [GP_CONV_GATHERED] = {false, true, true, true},
                                                      [GP_CONV_PLACES] = {true, true, true, false}};
    for (int m = 0; m < GP_CONV_METHODS; m++) {
        int counts[4] = {0}, others[4] = {0};
        for (int k = 0; k < KINDS; k++) {
            for (int number = 0; number < CASES; number++) {
                gp_op_case c;
                make_case(kinds[k], number, 1 + (uint32_t)number % MOST_THREADS, false, &c);
                gp_conv_shape s = gp_conv_shape_of(&c.desc);
                if (!gp_conv_is_possible(&s, (gp_conv_method)m)) continue;
                for (int isa = 0; isa < GP_CONV_ISAS; isa++) {
                    gp_conv_pads pads =
                        gp_conv_padded(&s, kinds[k], (gp_conv_method)m, (gp_conv_isa)isa, (int)c.desc.threads);
                    count_pads(&pads, isa == GP_CONV_AVX2 ? counts : others);
                }
            }
        }
        for (int i = 0; i < 4; i++) {
            if ((counts[i] > 0) != expected[m][i])
                fail_msg("%s: pad %d in %d cases", gp_conv_method_name((gp_conv_method)m), i, counts[i]);
            assert_int_equal(others[i], 0);
        }
    }
}

/* Of named shapes: samples, side, in, out, kernel, stride, padding, dilation. */
static void test_which_rows_are_padded(void **state) {
    (void)state;
    static const struct {
        int64_t shape[8];
        gp_op_kind kind;
        gp_conv_method method;
        gp_conv_pads pads;
    } cases[] = {
        {{64, 2, 1024, 256, 1, 1, 0, 1}, GP_OP_CONV_FORWARD, GP_CONV_PRODUCT, {0}},
        {{64, 2, 1024, 256, 1, 1, 0, 1}, GP_OP_CONV_BACKWARD_DATA, GP_CONV_PRODUCT, {.weights = true}},
        {{64, 2, 1024, 256, 1, 1, 0, 1}, GP_OP_CONV_BACKWARD_WEIGHTS, GP_CONV_PRODUCT, {.x = true, .y = true}},
        {{64, 2, 1000, 250, 1, 1, 0, 1}, GP_OP_CONV_BACKWARD_WEIGHTS, GP_CONV_PRODUCT, {0}},
        {{64, 8, 1024, 256, 1, 1, 0, 1}, GP_OP_CONV_BACKWARD_DATA, GP_CONV_PRODUCT, {0}},     /* not narrow */
        {{64, 2, 2048, 1024, 1, 1, 0, 1}, GP_OP_CONV_BACKWARD_WEIGHTS, GP_CONV_PRODUCT, {0}}, /* not narrow */
        {{16, 1, 2048, 512, 1, 1, 0, 1}, GP_OP_CONV_BACKWARD_DATA, GP_CONV_PRODUCT, {0}},     /* few rows meet it */
        {{64, 1, 512, 512, 3, 1, 1, 1}, GP_OP_CONV_BACKWARD_WEIGHTS, GP_CONV_PLACES, {.x = true, .y = true}},
        {{64, 2, 512, 256, 3, 1, 1, 1}, GP_OP_CONV_BACKWARD_WEIGHTS, GP_CONV_GATHERED, {.y = true, .gathered = true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_op_desc desc = describe(cases[i].kind, cases[i].shape, 1);
        gp_conv_shape s = gp_conv_shape_of(&desc);
        gp_conv_pads is = gp_conv_padded(&s, cases[i].kind, cases[i].method, GP_CONV_AVX2, 1);
        const gp_conv_pads *should = &cases[i].pads;
        if (is.x != should->x || is.y != should->y || is.weights != should->weights || is.gathered != should->gathered)
            fail_msg("case %zu: x %d, y %d, weights %d, gathered %d", i, is.x, is.y, is.weights, is.gathered);
    }
}

/* Longer rows have the same floats; what lies between them is not touched. */
static void test_longer_rows(void **state) {
    (void)state;
    gp_error err = {0};
    gp_cpu_pool *pool;
    const gp_conv_shape s = {5, 3, 4, 1, {6, 4}, {3, 4}, {3, 3}, {2, 1}, {1, 1}, {1, 1}};
    enum { X = 5 * 6 * 4 * 3, ROWS = 5 * 3 * 4, DEPTH = 27, PITCH = DEPTH + GP_CONV_PAD };
    static float x[X], dense[ROWS * DEPTH], longer[ROWS * PITCH], copied[ROWS * PITCH];
    for (int i = 0; i < X; i++) x[i] = (float)i;
    for (int i = 0; i < ROWS * PITCH; i++) longer[i] = copied[i] = -1;
    ASSERT_OK(gp_cpu_pool_create(3, &pool, &err));
    gp_conv_gather(pool, &s, x, dense, DEPTH);
    gp_conv_gather(pool, &s, x, longer, PITCH);
    gp_conv_spread(pool, dense, ROWS, DEPTH, copied, PITCH);
    gp_cpu_pool_destroy(&pool);
    for (int row = 0; row < ROWS; row++) {
        assert_memory_equal(longer + row * PITCH, dense + row * DEPTH, DEPTH * sizeof(float));
        for (int i = DEPTH; i < PITCH; i++) assert_true(longer[row * PITCH + i] == -1);
    }
    assert_memory_equal(copied, longer, sizeof copied);
}

/* The loops around the products: other threads, the same bits. */
static void test_loops(void **state) {
    (void)state;
    gp_error err = {0};
    gp_cpu_pool *pool[2];
    for (int i = 0; i < 2; i++) ASSERT_OK(gp_cpu_pool_create(i ? 3 : 1, &pool[i], &err));
    for (int number = 0; number < CASES; number++) {
        gp_op_case c;
        make_case(GP_OP_CONV_FORWARD, number, 1, false, &c);
        gp_conv_shape shape = gp_conv_shape_of(&c.desc);
        if (shape.groups != 1) continue;
        shape.n = 64; /* enough for several threads */
        size_t count = (size_t)(shape.n * shape.size[0] * shape.size[1] * shape.in);
        size_t rows = gp_conv_gathered_bytes(&shape, shape.n) / sizeof(float);
        float *x = calloc(count, sizeof *x), *gathered[2], *sum[2];
        assert_non_null(x);
        for (size_t i = 0; i < count; i++) x[i] = (float)(i * 7919 % 2003) / 1000 - 1;
        for (int i = 0; i < 2; i++) {
            gathered[i] = malloc(rows * sizeof(float));
            sum[i] = malloc(count * sizeof(float));
            assert_true(gathered[i] && sum[i]);
            memset(gathered[i], 0xff, rows * sizeof(float));
            memset(sum[i], 0xff, count * sizeof(float));
            gp_conv_gather(pool[i], &shape, x, gathered[i], gp_conv_depth(&shape));
            gp_conv_scatter(pool[i], &shape, gathered[i], sum[i]);
        }
        assert_memory_equal(gathered[0], gathered[1], rows * sizeof(float));
        assert_memory_equal(sum[0], sum[1], count * sizeof(float));
        for (int i = 0; i < 2; i++) {
            free(gathered[i]);
            free(sum[i]);
        }
        free(x);
    }
    for (int i = 0; i < 2; i++) gp_cpu_pool_destroy(&pool[i]);
}

/* Work without padding: as many pairs of a tap and a place as there are. */
static void test_visible_work(void **state) {
    (void)state;
    for (int number = 0; number < CASES; number++) {
        gp_op_case c;
        int64_t pairs[2] = {0, 0};
        make_case(GP_OP_CONV_FORWARD, number, 1, false, &c);
        gp_conv_shape s = gp_conv_shape_of(&c.desc);
        for (int d = 0; d < 2; d++) {
            for (int64_t place = 0; place < s.outputs[d]; place++) {
                for (int64_t tap = 0; tap < s.kernel[d]; tap++) {
                    int64_t at = place * s.stride[d] - s.pad[d] + tap * s.dilation[d];
                    pairs[d] += at >= 0 && at < s.size[d];
                }
            }
        }
        int64_t channels = s.in / s.groups, products = pairs[0] * pairs[1] * s.n * channels * s.out;
        assert_true(gp_conv_visible_flops(&s) == 2.0 * (double)products);
    }
}

/* Samples whose rows are gathered at once differ by one at most: no product has too few for all threads. */
static void test_even_samples(void **state) {
    (void)state;
    for (int64_t n = 1; n < 200; n++) {
        for (int64_t size = 1; size < 9; size++) {
            const int64_t corner[] = {n, size, 512, 64, 3, 1, 1, 1};
            gp_op_desc desc = describe(GP_OP_CONV_FORWARD, corner, 2);
            gp_conv_shape shape = gp_conv_shape_of(&desc);
            int64_t products = gp_conv_gathered_products(&shape), most = gp_conv_gathered_samples(&shape);
            assert_true(products >= 1 && products <= n && products <= GP_CONV_MOST_PRODUCTS);
            assert_true(most * products >= n && (most - 1) * products < n);
        }
    }
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* The three ops of a convolution agree on one format of the weights. */
static void test_one_format(void **state) {
    (void)state;
    static const int64_t shapes[][8] = {
        {64, 1, 512, 2048, 1, 1, 0, 1}, {64, 2, 256, 256, 3, 1, 1, 1}, {64, 8, 64, 64, 3, 1, 1, 1},
        {64, 1, 512, 512, 3, 1, 1, 1},  {4, 56, 64, 256, 1, 1, 0, 1},  {64, 4, 128, 128, 3, 1, 1, 1},
    };
    gp_error err = {0};
    gp_op_cache *cache;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    int by_taps = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        gp_format format[KINDS];
        gp_conv_choice choice[KINDS];
        for (int k = 0; k < KINDS; k++) {
            const gp_prepared *prepared, *again;
            gp_op_desc desc = describe(kinds[k], shapes[i], 1);
            choice[k] = gp_conv_choose(&desc, GP_CONV_WEIGHTS_ANY, gp_conv_isa_now());
            ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &desc, &prepared, &err));
            format[k] = prepared->operand[weights_of(kinds[k])].format;
            assert_int_equal(gp_cpu_conv_method(prepared), choice[k].method);
            /* As the stage prepares it then: in the format that was chosen. */
            desc.operand[weights_of(kinds[k])].format = format[k];
            ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &desc, &again, &err));
            assert_int_equal(gp_cpu_conv_method(again), choice[k].method);
        }
        assert_int_equal(choice[0].by_taps, choice[1].by_taps);
        if (choice[0].by_taps) assert_int_equal(format[0], format[1]);
        if (choice[0].by_taps && choice[2].by_taps) assert_int_equal(format[0], format[2]);
        by_taps += choice[0].by_taps;
    }
    assert_true(by_taps > 0);
    gp_op_cache_destroy(&cache);
}

/* Small pictures are products on every instruction set; from AVX2 on,
 * large ones are not gathered, but for gradients of weights. */
static void test_choice(void **state) {
    (void)state;
    static const int64_t tiny[] = {64, 1, 512, 2048, 1, 1, 0, 1}, large[] = {16, 56, 64, 64, 3, 1, 1, 1};
    static const int64_t centre[] = {64, 1, 512, 512, 3, 1, 1, 1};
    for (int isa = 0; isa < GP_CONV_ISAS; isa++) {
        for (uint32_t threads = 1; threads <= 4; threads++) {
            for (int k = 0; k < KINDS; k++) {
                gp_op_desc a = describe(kinds[k], tiny, threads), b = describe(kinds[k], large, threads);
                gp_op_desc c = describe(kinds[k], centre, threads);
                for (int again = 0; again < 2; again++) {
                    assert_int_equal(gp_conv_choose(&a, GP_CONV_WEIGHTS_ANY, (gp_conv_isa)isa).method, GP_CONV_PRODUCT);
                    if (k < 2 && isa != GP_CONV_SSE41)
                        assert_int_equal(gp_conv_choose(&b, GP_CONV_WEIGHTS_ANY, (gp_conv_isa)isa).method,
                                         GP_CONV_DIRECT);
                    assert_int_equal(gp_conv_choose(&c, GP_CONV_WEIGHTS_ANY, (gp_conv_isa)isa).method, GP_CONV_PLACES);
                }
            }
        }
    }
}

/* If the device may choose the format: the forward op and backward-data agree on it, products have their weights by
 * taps, and each op has the same method when it is given the format that was chosen. */
static void check_agreement(const int64_t *corner, gp_conv_isa isa, uint32_t threads) {
    gp_conv_choice choice[KINDS];
    for (int k = 0; k < KINDS; k++) {
        gp_op_desc desc = describe(kinds[k], corner, threads);
        choice[k] = gp_conv_choose(&desc, GP_CONV_WEIGHTS_ANY, isa);
        gp_conv_weights then = choice[k].by_taps ? GP_CONV_WEIGHTS_BY_TAPS : GP_CONV_WEIGHTS_OTHER;
        assert_int_equal(gp_conv_choose(&desc, then, isa).method, choice[k].method);
    }
    bool agree = choice[0].by_taps == choice[1].by_taps;
    for (int k = 0; k < KINDS; k++) agree = agree && (choice[k].by_taps || choice[k].method == GP_CONV_DIRECT);
    if (!agree)
        fail_msg("%s: %d samples, size %d, %d -> %d, kernel %d, stride %d, %u threads: %s%s, %s%s, %s%s",
                 gp_conv_isa_name(isa), (int)corner[0], (int)corner[1], (int)corner[2], (int)corner[3], (int)corner[4],
                 (int)corner[5], threads, gp_conv_method_name(choice[0].method), choice[0].by_taps ? " by taps" : "",
                 gp_conv_method_name(choice[1].method), choice[1].by_taps ? " by taps" : "",
                 gp_conv_method_name(choice[2].method), choice[2].by_taps ? " by taps" : "");
}

static void test_agreement(void **state) {
    (void)state;
    static const int64_t samples[] = {1, 4, 16, 64, 256}, sizes[] = {1, 2, 4, 7, 8, 14, 28, 56};
    static const int64_t channels[] = {3, 16, 64, 256, 1024, 2048};
    enum { SAMPLES = 5, SIZES = 8, CHANNELS = 6 };
    for (int i = 0; i < SAMPLES * SIZES * CHANNELS * CHANNELS; i++) {
        int64_t n = samples[i % SAMPLES], size = sizes[i / SAMPLES % SIZES];
        int64_t in = channels[i / SAMPLES / SIZES % CHANNELS], out = channels[i / SAMPLES / SIZES / CHANNELS];
        for (int64_t kernel = 1; kernel <= 3; kernel += 2) {
            for (int64_t stride = 1; stride <= 2; stride++) {
                const int64_t corner[] = {n, size, in, out, kernel, stride, kernel / 2, 1};
                for (int isa = 0; isa < GP_CONV_ISAS; isa++)
                    for (uint32_t threads = 1; threads <= 2; threads++)
                        check_agreement(corner, (gp_conv_isa)isa, threads);
            }
        }
    }
}

/* More of anything never takes less time: a row of the table with a rate below 0 would. */
static void test_monotone(void **state) {
    (void)state;
    for (int isa = 0; isa < GP_CONV_ISAS; isa++) {
        for (int m = 0; m < GP_CONV_METHODS; m++) {
            for (int k = 0; k < KINDS; k++) {
                for (int64_t channels = 16; channels < 2048; channels *= 2) {
                    gp_conv_shape s = {.n = 8,
                                       .in = channels,
                                       .out = channels,
                                       .groups = 1,
                                       .size = {2, 2},
                                       .outputs = {2, 2},
                                       .kernel = {3, 3},
                                       .stride = {1, 1},
                                       .pad = {1, 1},
                                       .dilation = {1, 1}};
                    if (m == GP_CONV_PRODUCT) s.kernel[0] = s.kernel[1] = 1, s.pad[0] = s.pad[1] = 0;
                    double less = gp_conv_expected(&s, kinds[k], (gp_conv_method)m, (gp_conv_isa)isa, 1);
                    s.out *= 2;
                    double more = gp_conv_expected(&s, kinds[k], (gp_conv_method)m, (gp_conv_isa)isa, 1);
                    assert_true(less > 0 && more > less);
                    s.n *= 2;
                    assert_true(gp_conv_expected(&s, kinds[k], (gp_conv_method)m, (gp_conv_isa)isa, 1) > more);
                    assert_true(gp_conv_expected(&s, kinds[k], (gp_conv_method)m, (gp_conv_isa)isa, 2) > 0);
                }
            }
        }
    }
}

/* Where rows cannot be counted, or have more bytes than memory has, they are not gathered. The choice ends soon. */
static void test_huge_shapes(void **state) {
    (void)state;
    static const struct {
        int64_t n, size[2], in, out, kernel[2], pad[2];
    } cases[] = {
        {1, {1 << 16, 1 << 15}, 4, 1, {1 << 14, 1 << 15}, {1 << 13, 1 << 14}}, /* 2^64 bytes for a sample, about */
        {1, {1, 1}, 1 << 28, 1, {1 << 16, 1 << 16}, {1 << 17, 1 << 17}},
        {INT64_C(1) << 56, {1, 1}, 1, 1, {3, 3}, {1, 1}},
        {INT64_C(1) << 40, {2, 2}, 4, 4, {1, 3}, {0, 1}},
        {1, {INT64_C(1) << 40, 1}, 1, 1, {3, 1}, {1, 0}},
        {1, {1, 1}, 1, 1, {INT32_MAX, 1}, {1 << 30, 0}},
        {1, {INT64_C(1) << 32, INT64_C(1) << 26}, 1, 1, {1, 1}, {0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_op_desc desc;
        gp_op_desc_init(&desc, GP_OP_CONV_FORWARD);
        int64_t outputs[2];
        for (int d = 0; d < 2; d++) outputs[d] = cases[i].size[d] + 2 * cases[i].pad[d] - cases[i].kernel[d] + 1;
        desc.operand[GP_CONV_FORWARD_X] =
            gp_tensor_plain(GP_F32, 4, (const int64_t[]){cases[i].n, cases[i].size[0], cases[i].size[1], cases[i].in});
        desc.operand[GP_CONV_FORWARD_Y] =
            gp_tensor_plain(GP_F32, 4, (const int64_t[]){cases[i].n, outputs[0], outputs[1], cases[i].out});
        desc.operand[GP_CONV_FORWARD_W] = gp_tensor_plain(
            GP_F32, 4, (const int64_t[]){cases[i].out, cases[i].in, cases[i].kernel[0], cases[i].kernel[1]});
        desc.attributes.conv = (gp_conv_attributes){
            {cases[i].kernel[0], cases[i].kernel[1]}, {1, 1}, {cases[i].pad[0], cases[i].pad[1]}, {1, 1}, 1};
        desc.threads = 1;
        gp_conv_shape shape = gp_conv_shape_of(&desc);
        if (gp_conv_is_possible(&shape, GP_CONV_GATHERED)) fail_msg("case %zu is gathered", i);
        gp_conv_choice choice = gp_conv_choose(&desc, GP_CONV_WEIGHTS_ANY, GP_CONV_AVX2);
        assert_true(gp_conv_is_possible(&shape, choice.method));
    }
}

/* ---- what oneDNN refuses ----------------------------------------------------------------------------------------- */

/* The linker puts it in the place of oneDNN's own function (tests.cmake). */
static dnnl_status_t refusal = dnnl_success;
__typeof__(dnnl_matmul_primitive_desc_create) __real_dnnl_matmul_primitive_desc_create;
__typeof__(dnnl_matmul_primitive_desc_create) __wrap_dnnl_matmul_primitive_desc_create;
dnnl_status_t __wrap_dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                       const_dnnl_memory_desc_t a, const_dnnl_memory_desc_t b,
                                                       const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t c,
                                                       const_dnnl_primitive_attr_t attributes) {
    if (refusal != dnnl_success) return refusal;
    return __real_dnnl_matmul_primitive_desc_create(out, engine, a, b, bias, c, attributes);
}

/* The op as it is prepared if oneDNN refuses its products: with the numbers of the reference device. */
static void check_refused(gp_op_kind kind, const int64_t *corner, gp_format *format) {
    gp_error err = {0};
    gp_op_cache *cache;
    const gp_prepared *prepared;
    trial got, want;
    make_case(kind, GP_OP_CASES, 1, false, &got.op_case);
    got.op_case.desc = describe(kind, corner, 1);
    want.op_case = got.op_case;
    want.op_case.desc.operand[weights_of(kind)].format = GP_FORMAT_PLAIN;
    assert_int_not_equal(gp_conv_choose(&got.op_case.desc, GP_CONV_WEIGHTS_ANY, gp_conv_isa_now()).method,
                         GP_CONV_DIRECT);
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    refusal = dnnl_out_of_memory; /* of no kind */
    assert_int_equal(gp_op_prepare(cache, &gp_cpu_kind, &got.op_case.desc, &prepared, &err), GP_MEMORY);
    refusal = dnnl_unimplemented;
    ASSERT_OK(gp_op_prepare(cache, &gp_cpu_kind, &got.op_case.desc, &prepared, &err));
    assert_int_equal(gp_cpu_conv_method(prepared), GP_CONV_DIRECT);
    *format = prepared->operand[weights_of(kind)].format;
    if (kind == GP_OP_CONV_BACKWARD_WEIGHTS) {
        gp_op_desc adding = got.op_case.desc;
        adding.flags = GP_OP_ACCUMULATE;
        assert_int_equal(gp_op_prepare(cache, &gp_cpu_kind, &adding, &prepared, &err), GP_UNSUPPORTED);
        assert_non_null(strstr(err.text, "cannot add to its output"));
    }
    trial_fill(&got);
    trial_fill(&want);
    trial_run(&gp_ref_kind, &want);
    trial_run(&gp_cpu_kind, &got);
    trial_compare(&got, &want, 1.0 / TOLERANCE_SHARE);
    trial_fini(&got);
    trial_fini(&want);
    gp_op_cache_destroy(&cache);
    refusal = dnnl_success;
}

/* oneDNN's convolution takes the place of products that it refuses, with the weights where the other ops want them. */
static void test_refused_products(void **state) {
    (void)state;
    static const int64_t shapes[][8] = {{64, 1, 512, 2048, 1, 1, 0, 1}, {64, 1, 128, 128, 3, 1, 1, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        gp_format format[KINDS];
        for (int k = 0; k < KINDS; k++) check_refused(kinds[k], shapes[i], &format[k]);
        assert_int_equal(format[0], format[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_ref),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_one_format),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_huge_shapes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_padded_rows),
        cmocka_unit_test(test_longer_rows),
        cmocka_unit_test(test_which_rows_are_padded),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_visible_work),
        cmocka_unit_test(test_division),
        cmocka_unit_test(test_even_samples),
        cmocka_unit_test(test_agreement),
        cmocka_unit_test(test_refused_products),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_what_is_shared),
        cmocka_unit_test(test_partial_gradients),
        cmocka_unit_test(test_who_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
