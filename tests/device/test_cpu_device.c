/* The CPU device's memory, events, refusals and pool, and sums that need care. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sync.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_pool.h"
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

static void open_fixture(fixture *f, int threads, size_t memory) {
    memset(&err, 0, sizeof err);
    gp_device_spec spec = {&gp_cpu_kind, 0, threads, memory};
    ASSERT_OK(gp_op_cache_create(&f->cache, &err));
    ASSERT_OK(gp_cpu_kind.open(&spec, &f->device, &err));
    ASSERT_OK(gp_cpu_kind.stream_create(f->device, false, &f->stream, &err));
}

static void close_fixture(fixture *f) {
    gp_cpu_kind.stream_destroy(f->stream);
    gp_cpu_kind.close(f->device);
    gp_op_cache_destroy(&f->cache);
}

static void test_memory(void **state) {
    (void)state;
    fixture f, other;
    open_fixture(&f, 1, 1000);
    open_fixture(&other, 1, 0);
    void *a, *b, *c;
    ASSERT_OK(gp_cpu_kind.reserve(f.device, 600, &a, &err));
    assert_int_equal((uintptr_t)a % GP_ALIGNMENT, 0);
    assert_int_equal(gp_cpu_kind.reserve(f.device, 401, &b, &err), GP_MEMORY);
    assert_string_equal(err.text, "cpu: needs 401 more bytes, but 600 of its 1000 bytes are in use");
    ASSERT_OK(gp_cpu_kind.reserve(f.device, 400, &b, &err));
    gp_cpu_kind.unreserve(f.device, b);
    ASSERT_OK(gp_cpu_kind.reserve(f.device, 400, &b, &err));
    assert_int_equal(gp_cpu_kind.reserve(other.device, SIZE_MAX - 8, &c, &err), GP_MEMORY);

    ASSERT_OK(gp_cpu_kind.reserve(other.device, 600, &c, &err));
    char host[600], back[600];
    for (int i = 0; i < 600; i++) host[i] = (char)(i * 7);
    ASSERT_OK(gp_cpu_kind.copy_in(f.stream, a, host, sizeof host, &err));
    ASSERT_OK(gp_cpu_kind.pull(other.stream, c, f.device, a, sizeof host, &err));
    ASSERT_OK(gp_cpu_kind.copy_out(other.stream, back, c, sizeof back, &err));
    assert_memory_equal(host, back, sizeof host);
    gp_cpu_kind.unreserve(f.device, a);
    gp_cpu_kind.unreserve(f.device, b);
    gp_cpu_kind.unreserve(other.device, c);
    close_fixture(&f);
    close_fixture(&other);
}

static void test_events(void **state) {
    (void)state;
    fixture f;
    gp_event *event;
    open_fixture(&f, 1, 0);
    ASSERT_OK(gp_cpu_kind.event_create(f.device, false, &event, &err));
    assert_int_equal(gp_cpu_kind.stream_wait(f.stream, event, &err), GP_INTERNAL);
    ASSERT_OK(gp_cpu_kind.event_record(event, f.stream, &err));
    ASSERT_OK(gp_cpu_kind.stream_wait(f.stream, event, &err));
    ASSERT_OK(gp_cpu_kind.stream_finish(f.stream, NULL, &err));
    gp_cpu_kind.event_destroy(event);
    close_fixture(&f);
}

static void test_open(void **state) {
    (void)state;
    gp_device *device;
    gp_device_spec spec = {&gp_cpu_kind, 1, 1, 0};
    assert_int_equal(gp_cpu_kind.open(&spec, &device, &err), GP_DEVICE);
    assert_string_equal(err.text, "cpu:1: there is only one device of this kind");
    spec = (gp_device_spec){&gp_cpu_kind, 0, 0, 0};
    assert_int_equal(gp_cpu_kind.open(&spec, &device, &err), GP_DEVICE);
}

static gp_op_desc relu_desc(gp_dtype dtype) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_RELU_FORWARD);
    desc.threads = 1;
    for (int i = 0; i < 2; i++) desc.operand[i] = gp_tensor_plain(dtype, 2, (const int64_t[]){3, 4});
    return desc;
}

/* In groups: oneDNN's own convolution computes it, which overwrites. */
static gp_op_desc conv_weights_desc(uint32_t flags, gp_dtype dtype) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_CONV_BACKWARD_WEIGHTS);
    desc.threads = 1;
    desc.flags = flags;
    for (int i = 0; i < 2; i++) desc.operand[i] = gp_tensor_plain(dtype, 4, (const int64_t[]){1, 4, 4, 8});
    desc.operand[2] = gp_tensor_plain(dtype, 4, (const int64_t[]){8, 4, 1, 1});
    desc.attributes.conv = (gp_conv_attributes){{1, 1}, {1, 1}, {0, 0}, {1, 1}, 2};
    return desc;
}

static void assert_refused(const fixture *f, gp_op_desc desc, const char *text) {
    const gp_prepared *prepared;
    assert_int_equal(gp_op_prepare(f->cache, &gp_cpu_kind, &desc, &prepared, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, text);
}

static void test_refusals(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, 1, 0);
    assert_refused(&f, relu_desc(GP_F64), "cpu: relu_forward does not take F64 as its operand x");
    assert_refused(&f, relu_desc(GP_BF16), "cpu: relu_forward does not take BF16 as its operand x");
    assert_refused(&f, conv_weights_desc(0, GP_F16), "cpu: conv_backward_weights computes in F32 only, not in F16");
    assert_refused(&f, conv_weights_desc(0, GP_F64), "cpu: conv_backward_weights computes in F32 only, not in F64");
    assert_refused(&f, conv_weights_desc(GP_OP_ACCUMULATE, GP_F32),
                   "cpu: conv_backward_weights cannot add to its output: oneDNN overwrites it");
    gp_op_desc desc = relu_desc(GP_F32);
    for (int i = 0; i < 2; i++) {
        desc.operand[i] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){2, 3, 4, 5});
        desc.operand[i].stride[0] += 7;
    }
    assert_refused(&f, desc, "cpu: relu_forward: the rows of operand x must have equal distances");
    close_fixture(&f);
}

static void test_wrong_addresses(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, 1, 0);
    const gp_prepared *prepared;
    gp_op_desc desc = relu_desc(GP_F32);
    float x[12] = {0};
    gp_op_args args = {0};
    ASSERT_OK(gp_op_prepare(f.cache, &gp_cpu_kind, &desc, &prepared, &err));
    assert_int_equal(gp_device_run(&gp_cpu_kind, f.stream, prepared, (void *const[]){x, NULL}, NULL, &args, &err),
                     GP_INTERNAL);
    assert_string_equal(err.text, "relu_forward: operand y has no address");
    close_fixture(&f);
}

static void test_wrong_target(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, 1, 0);
    const gp_prepared *prepared;
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_CROSS_ENTROPY_FORWARD);
    desc.threads = 1;
    desc.attributes.cross_entropy.ignore = -100;
    desc.operand[0] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){2, 3});
    desc.operand[1] = gp_tensor_plain(GP_I64, 1, (const int64_t[]){2});
    desc.operand[2] = gp_tensor_plain(GP_F64, 1, (const int64_t[]){2});
    ASSERT_OK(gp_op_prepare(f.cache, &gp_cpu_kind, &desc, &prepared, &err));
    float x[6] = {0};
    int64_t target[2] = {-100, 3};
    double partial[2], workspace[64];
    gp_op_args args = {0};
    assert_true(prepared->workspace <= sizeof workspace);
    assert_int_equal(
        gp_device_run(&gp_cpu_kind, f.stream, prepared, (void *const[]){x, target, partial}, workspace, &args, &err),
        GP_DATA);
    assert_string_equal(
        err.text, "cross_entropy_forward: target 3 of row 1 is not a class: classes are 0 to 2, and -100 is ignored");
    close_fixture(&f);
}

/* Mean 1000, variance 1, first row far away: right to 1e-4 of the variance, for whatever number of rows. */
static void check_statistics(const fixture *f, int64_t rows, int64_t width) {
    const gp_prepared *prepared;
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_NORM_STATISTICS);
    desc.threads = 1;
    desc.attributes.norm.eps = 1e-5;
    desc.operand[0] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){rows, width});
    desc.operand[1] = gp_tensor_plain(GP_F32, 2, (const int64_t[]){3, width});
    ASSERT_OK(gp_op_prepare(f->cache, &gp_cpu_kind, &desc, &prepared, &err));
    float *x = malloc((size_t)(rows * width) * sizeof *x), *stats = malloc((size_t)(3 * width) * sizeof *stats);
    void *workspace;
    ASSERT_OK(gp_cpu_kind.reserve(f->device, prepared->workspace, &workspace, &err));
    assert_true(x && stats);
    unsigned seed = 5;
    for (int64_t i = 0; i < rows * width; i++) {
        double sum = 0;
        for (int k = 0; k < 12; k++) {
            seed = seed * 1664525U + 1013904223U;
            sum += (double)(seed >> 8) * 0x1p-24;
        }
        x[i] = (float)(1000 + sum - 6);
    }
    gp_op_args args = {0};
    ASSERT_OK(gp_device_run(&gp_cpu_kind, f->stream, prepared, (void *const[]){x, stats}, workspace, &args, &err));
    for (int64_t c = 0; c < width; c++) {
        double mean = 0, squares = 0;
        for (int64_t r = 0; r < rows; r++) mean += (double)x[r * width + c] / (double)rows;
        for (int64_t r = 0; r < rows; r++) squares += pow((double)x[r * width + c] - mean, 2) / (double)rows;
        assert_true(fabs((double)stats[c] - mean) <= 1e-7 * mean);
        assert_true(fabs((double)stats[width + c] - squares) <= 1e-4 * squares);
    }
    gp_cpu_kind.unreserve(f->device, workspace);
    free(x);
    free(stats);
}

static void test_statistics(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, 1, 0);
    check_statistics(&f, 100, 3);
    check_statistics(&f, 128, 65);
    check_statistics(&f, 200003, 2);
    check_statistics(&f, 5000, 33);
    close_fixture(&f);
}

/* Every item is done once, and by the thread that the division names. */
enum { ITEMS = 103 };

typedef struct tally {
    atomic_int done[ITEMS];
    atomic_int ranges;
} tally;

static void count_items(void *context, int64_t begin, int64_t end) {
    tally *t = context;
    atomic_fetch_add(&t->ranges, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&t->done[i], 1);
}

static void test_pool(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        gp_cpu_pool *pool = NULL;
        ASSERT_OK(gp_cpu_pool_create(threads, &pool, &err));
        for (int count = 0; count <= ITEMS; count++) {
            int grain = 1 + count % 7;
            tally t = {0};
            gp_cpu_pool_for(pool, count, grain, count_items, &t);
            for (int i = 0; i < ITEMS; i++) assert_int_equal(atomic_load(&t.done[i]), i < count);
            int parts = count / grain < threads ? count / grain : threads;
            assert_int_equal(atomic_load(&t.ranges), count == 0 ? 0 : parts < 1 ? 1 : parts);
        }
        gp_cpu_pool_destroy(&pool);
        assert_null(pool);
        gp_cpu_pool_destroy(&pool);
    }
}

/* Each thread's time of spinning, in one item each. */
static void note_spin(void *context, int64_t begin, int64_t end) {
    uint32_t *spins = context;
    for (int64_t i = begin; i < end; i++) spins[i] = gp_wait_spins();
}

/* Helpers spin for a shorter time than the worker that creates the pool, and not at all if it does not. */
static void test_spin_of_helpers(void **state) {
    (void)state;
    enum { THREADS = 3 };
    static const struct { uint32_t worker, helpers; } cases[] = {{0, 0}, {40, 40}, {2000, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gp_cpu_pool *pool = NULL;
        uint32_t spins[THREADS];
        gp_wait_spin(cases[i].worker);
        ASSERT_OK(gp_cpu_pool_create(THREADS, &pool, &err));
        gp_cpu_pool_for(pool, THREADS, 1, note_spin, spins);
        gp_cpu_pool_destroy(&pool);
        gp_wait_spin(0);
        assert_int_equal(spins[0], cases[i].worker);
        for (int t = 1; t < THREADS; t++) assert_int_equal(spins[t], cases[i].helpers);
    }
}

/* ONEDNN_DEFAULT_FPMATH_MODE would let oneDNN compute f32 in bf16. */
static void test_the_environment_does_not_change_the_arithmetic(void **state) {
    (void)state;
    fixture f;
    dnnl_fpmath_mode_t mode;
    open_fixture(&f, 1, 0);
    assert_int_equal(dnnl_get_default_fpmath_mode(&mode), dnnl_success);
    assert_int_equal(mode, dnnl_fpmath_mode_strict);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_environment_does_not_change_the_arithmetic), /* first: oneDNN reads it once */
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_wrong_addresses),
        cmocka_unit_test(test_wrong_target),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_spin_of_helpers),
    };
    (void)setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
