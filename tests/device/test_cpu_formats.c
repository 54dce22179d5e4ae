/* Formats of weights on the CPU: what is chosen is a number that other ops understand, and nothing is lost between
 * them; and values inside wider ones give the bits that they give alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/device.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

static gp_error err;

typedef struct fixture {
    gp_op_cache *cache;
    gp_device *device;
    gp_stream *stream;
} fixture;

static void open_fixture(fixture *f) {
    memset(&err, 0, sizeof err);
    gp_device_spec spec = {&gp_cpu_kind, 0, 1, 0};
    ASSERT_OK(gp_op_cache_create(&f->cache, &err));
    ASSERT_OK(gp_cpu_kind.open(&spec, &f->device, &err));
    ASSERT_OK(gp_cpu_kind.stream_create(f->device, false, &f->stream, &err));
}

static void close_fixture(fixture *f) {
    gp_cpu_kind.stream_destroy(f->stream);
    gp_cpu_kind.close(f->device);
    gp_op_cache_destroy(&f->cache);
}

static void run(const fixture *f, const gp_prepared *prepared, void *const operands[]) {
    void *workspace = NULL;
    gp_op_args args = {0};
    ASSERT_OK(gp_cpu_kind.reserve(f->device, prepared->workspace, &workspace, &err));
    ASSERT_OK(gp_device_run(&gp_cpu_kind, f->stream, prepared, operands, workspace, &args, &err));
    gp_cpu_kind.unreserve(f->device, workspace);
}

/* 128-aligned host memory stands for the arena: on this device the two are the same. */
static float *values(size_t count, unsigned seed) {
    float *block = aligned_alloc(128, (count * sizeof(float) + 127) / 128 * 128);
    assert_non_null(block);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        block[i] = (float)(seed >> 8) * 0x1p-23F - 1;
    }
    return block;
}

typedef struct conv {
    int64_t n, size, in, out, kernel, stride, groups;
} conv;

static gp_tensor plain(int64_t a, int64_t b, int64_t c, int64_t d) {
    return gp_tensor_plain(GP_F32, 4, (const int64_t[]){a, b, c, d});
}

static gp_tensor conv_weights(conv c, gp_format format) {
    gp_tensor w = plain(c.out, c.in / c.groups, c.kernel, c.kernel);
    w.format = format;
    return w;
}

/* The three kinds in the order of their enumerators; padded so that outputs are ⌈size/stride⌉. */
static gp_op_desc conv_desc(gp_op_kind kind, conv c, gp_format format) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, kind);
    desc.threads = 1;
    int64_t pad = c.kernel / 2, outputs = (c.size + 2 * pad - c.kernel) / c.stride + 1;
    desc.attributes.conv = (gp_conv_attributes){.kernel = {c.kernel, c.kernel},
                                                .stride = {c.stride, c.stride},
                                                .pad = {pad, pad},
                                                .dilation = {1, 1},
                                                .groups = c.groups};
    gp_tensor x = plain(c.n, c.size, c.size, c.in), y = plain(c.n, outputs, outputs, c.out);
    gp_tensor w = conv_weights(c, format);
    if (kind == GP_OP_CONV_FORWARD) {
        desc.operand[GP_CONV_FORWARD_X] = x;
        desc.operand[GP_CONV_FORWARD_W] = w;
        desc.operand[GP_CONV_FORWARD_Y] = y;
    } else if (kind == GP_OP_CONV_BACKWARD_DATA) {
        desc.operand[GP_CONV_BACKWARD_DATA_DY] = y;
        desc.operand[GP_CONV_BACKWARD_DATA_W] = w;
        desc.operand[GP_CONV_BACKWARD_DATA_DX] = x;
    } else {
        desc.operand[GP_CONV_BACKWARD_WEIGHTS_X] = x;
        desc.operand[GP_CONV_BACKWARD_WEIGHTS_DY] = y;
        desc.operand[GP_CONV_BACKWARD_WEIGHTS_DW] = w;
    }
    return desc;
}

static int weights_at(gp_op_kind kind) {
    return kind == GP_OP_CONV_BACKWARD_WEIGHTS ? (int)GP_CONV_BACKWARD_WEIGHTS_DW : (int)GP_CONV_FORWARD_W;
}

static gp_op_desc reorder_desc(conv c, gp_format from, gp_format to) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_REORDER);
    desc.threads = 1;
    desc.operand[GP_COPY_X] = conv_weights(c, from);
    desc.operand[GP_COPY_Y] = conv_weights(c, to);
    return desc;
}

static const gp_prepared *prepare(const fixture *f, gp_op_desc desc) {
    const gp_prepared *prepared = NULL;
    ASSERT_OK(gp_op_prepare(f->cache, &gp_cpu_kind, &desc, &prepared, &err));
    return prepared;
}

static const conv convs[] = {
    {4, 9, 16, 32, 3, 1, 1},  {2, 9, 3, 16, 3, 1, 1},  {3, 8, 5, 7, 3, 2, 1},   {2, 8, 32, 32, 3, 1, 4},
    {2, 8, 24, 24, 3, 1, 24}, {4, 7, 64, 17, 1, 1, 1}, {4, 8, 32, 64, 1, 2, 1}, {2, 11, 6, 10, 5, 1, 2},
};
enum { CONVS = sizeof convs / sizeof convs[0] };

/* plain → what each of the three kinds has chosen → plain; and from one kind's to another's. */
static void test_round_trip(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f);
    int numbered = 0;
    for (int i = 0; i < CONVS; i++) {
        conv c = convs[i];
        gp_format other = GP_FORMAT_PLAIN;
        gp_tensor w = conv_weights(c, GP_FORMAT_PLAIN);
        size_t bytes = gp_tensor_bytes(&w);
        for (int kind = GP_OP_CONV_FORWARD; kind <= GP_OP_CONV_BACKWARD_WEIGHTS; kind++) {
            const gp_prepared *prepared = prepare(&f, conv_desc((gp_op_kind)kind, c, GP_FORMAT_ANY));
            gp_operand_storage storage = prepared->operand[weights_at((gp_op_kind)kind)];
            assert_true(storage.format != GP_FORMAT_ANY);
            assert_true(storage.bytes >= bytes);
            numbered += storage.format != GP_FORMAT_PLAIN;
            float *from = values(bytes / sizeof(float), 7), *back = values(bytes / sizeof(float), 8);
            float *middle = values(storage.bytes / sizeof(float), 9);
            const gp_prepared *there = prepare(&f, reorder_desc(c, GP_FORMAT_PLAIN, storage.format));
            assert_int_equal(there->operand[GP_COPY_Y].bytes, storage.bytes);
            run(&f, there, (void *const[]){from, middle});
            run(&f, prepare(&f, reorder_desc(c, storage.format, GP_FORMAT_PLAIN)), (void *const[]){middle, back});
            assert_memory_equal(from, back, bytes);
            if (other != GP_FORMAT_PLAIN && storage.format != GP_FORMAT_PLAIN) {
                const gp_prepared *across = prepare(&f, reorder_desc(c, storage.format, other));
                float *elsewhere = values(across->operand[GP_COPY_Y].bytes / sizeof(float), 10);
                memset(back, 0, bytes);
                run(&f, across, (void *const[]){middle, elsewhere});
                run(&f, prepare(&f, reorder_desc(c, other, GP_FORMAT_PLAIN)), (void *const[]){elsewhere, back});
                assert_memory_equal(from, back, bytes);
                free(elsewhere);
            }
            other = storage.format;
            free(from);
            free(middle);
            free(back);
        }
    }
    assert_true(numbered > CONVS); /* else nothing was tested */
    close_fixture(&f);
}

/* An op for fewer samples is prepared in the format of the full one, and takes its weights as they lie. */
static void test_given_number(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f);
    for (int i = 0; i < CONVS; i++) {
        for (int kind = GP_OP_CONV_FORWARD; kind <= GP_OP_CONV_BACKWARD_WEIGHTS; kind++) {
            int at = weights_at((gp_op_kind)kind);
            conv c = convs[i];
            const gp_prepared *full = prepare(&f, conv_desc((gp_op_kind)kind, c, GP_FORMAT_ANY));
            gp_format format = full->operand[at].format;
            const gp_prepared *same = prepare(&f, conv_desc((gp_op_kind)kind, c, format));
            assert_int_equal(same->operand[at].format, format);
            c.n -= 1;
            const gp_prepared *less = prepare(&f, conv_desc((gp_op_kind)kind, c, format));
            assert_int_equal(less->operand[at].format, format);
            assert_int_equal(less->operand[at].bytes, full->operand[at].bytes);
        }
    }
    close_fixture(&f);
}

/* One layout has one number, whichever op chose it. In groups: oneDNN's own convolution computes it at any size. */
static void test_equal_numbers(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f);
    conv c = convs[3];
    gp_format first = prepare(&f, conv_desc(GP_OP_CONV_FORWARD, c, GP_FORMAT_ANY))->operand[GP_CONV_FORWARD_W].format;
    assert_true(first != GP_FORMAT_PLAIN);
    c.n += 5;
    c.size += 3;
    gp_format second = prepare(&f, conv_desc(GP_OP_CONV_FORWARD, c, GP_FORMAT_ANY))->operand[GP_CONV_FORWARD_W].format;
    assert_int_equal(first, second);
    close_fixture(&f);
}

static void test_wrong_numbers(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f);
    const gp_prepared *prepared = NULL;
    gp_format format = prepare(&f, conv_desc(GP_OP_CONV_FORWARD, convs[0], GP_FORMAT_ANY))->operand[1].format;
    gp_op_desc desc = conv_desc(GP_OP_CONV_FORWARD, convs[0], 4000000);
    assert_int_equal(gp_op_prepare(f.cache, &gp_cpu_kind, &desc, &prepared, &err), GP_INTERNAL);
    assert_string_equal(err.text, "cpu: there is no format 4000000 of weights");
    desc = conv_desc(GP_OP_CONV_FORWARD, convs[3], format);
    assert_int_equal(gp_op_prepare(f.cache, &gp_cpu_kind, &desc, &prepared, &err), GP_INTERNAL);
    assert_non_null(strstr(err.text, "belongs to weights of other dimensions or groups"));
    desc = reorder_desc(convs[0], format, GP_FORMAT_PLAIN);
    desc.operand[0].dim[0] = desc.operand[1].dim[0] = 8;
    assert_int_equal(gp_op_prepare(f.cache, &gp_cpu_kind, &desc, &prepared, &err), GP_INTERNAL);
    close_fixture(&f);
}

/* Copies `rows` rows of `width` elements from one pitch to another. */
static void copy_rows(float *to, int64_t to_pitch, const float *from, int64_t from_pitch, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_pitch, from + r * from_pitch, (size_t)width * sizeof(float));
}

/* The op on dense operands, and on the same values as slices of channels of wider ones: the same bits. */
static void check_slices(const fixture *f, gp_op_desc desc) {
    gp_op_desc wide = desc;
    float *dense[GP_MAX_OPERANDS] = {NULL}, *sliced[GP_MAX_OPERANDS] = {NULL};
    for (int i = 0; i < (int)desc.operands; i++) {
        gp_tensor *tensor = &wide.operand[i];
        if (!tensor->present) continue;
        const char *name = gp_op_operand_name(desc.kind, i);
        int64_t width = tensor->dim[tensor->rank - 1], rows = gp_tensor_rows(tensor);
        int64_t pitch = strcmp(name, "w") && strcmp(name, "dw") ? width + 5 : width;
        for (int d = 0; d < tensor->rank - 1; d++) tensor->stride[d] = tensor->stride[d] / width * pitch;
        dense[i] = values((size_t)(rows * width), (unsigned)i);
        sliced[i] = values((size_t)(rows * pitch), (unsigned)i + 100);
        copy_rows(sliced[i], pitch, dense[i], width, rows, width);
    }
    run(f, prepare(f, desc), (void *const *)dense);
    run(f, prepare(f, wide), (void *const *)sliced);
    for (int i = 0; i < (int)desc.operands; i++) {
        if (!desc.operand[i].present) continue;
        const gp_tensor *tensor = &wide.operand[i];
        int64_t width = tensor->dim[tensor->rank - 1], rows = gp_tensor_rows(tensor);
        float *gathered = values((size_t)(rows * width), 1);
        copy_rows(gathered, width, sliced[i], tensor->rank > 1 ? tensor->stride[tensor->rank - 2] : width, rows, width);
        assert_memory_equal(gathered, dense[i], (size_t)(rows * width) * sizeof(float));
        free(gathered);
        free(dense[i]);
        free(sliced[i]);
    }
}

static gp_op_desc linear_desc(gp_op_kind kind, int64_t rows, int64_t in, int64_t out) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, kind);
    desc.threads = 1;
    gp_tensor x = gp_tensor_plain(GP_F32, 2, (const int64_t[]){rows, in});
    gp_tensor y = gp_tensor_plain(GP_F32, 2, (const int64_t[]){rows, out});
    gp_tensor w = gp_tensor_plain(GP_F32, 2, (const int64_t[]){out, in});
    bool backward = kind == GP_OP_LINEAR_BACKWARD_DATA;
    desc.operand[0] = backward ? y : x;
    desc.operand[1] = kind == GP_OP_LINEAR_BACKWARD_WEIGHTS ? y : w;
    int third = kind == GP_OP_LINEAR_FORWARD ? (int)GP_LINEAR_FORWARD_Y : 2;
    desc.operand[third] = kind == GP_OP_LINEAR_FORWARD ? y : backward ? x : w;
    return desc;
}

static void test_slices(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f);
    for (int i = 0; i < CONVS; i++) {
        for (int kind = GP_OP_CONV_FORWARD; kind <= GP_OP_CONV_BACKWARD_WEIGHTS; kind++)
            check_slices(&f, conv_desc((gp_op_kind)kind, convs[i], GP_FORMAT_PLAIN));
    }
    for (int kind = GP_OP_LINEAR_FORWARD; kind <= GP_OP_LINEAR_BACKWARD_WEIGHTS; kind++) {
        check_slices(&f, linear_desc((gp_op_kind)kind, 37, 65, 33));
        check_slices(&f, linear_desc((gp_op_kind)kind, 256, 64, 10));
    }
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_given_number), cmocka_unit_test(test_equal_numbers),
        cmocka_unit_test(test_wrong_numbers), cmocka_unit_test(test_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
