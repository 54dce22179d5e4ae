/* Weights between the formats of the CUDA device: every element where it belongs, and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cuda/host_api.h"
#include "device/cuda/cuda.h"

enum { PLAIN = GP_FORMAT_PLAIN, LAST = GP_CUDA_FORMAT_CHANNELS_LAST };

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

static gp_op_desc reorder(const int64_t dim[4], gp_format from, gp_format to) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_REORDER);
    desc.threads = 1;
    desc.operand[GP_COPY_X] = desc.operand[GP_COPY_Y] = gp_tensor_plain(GP_F32, 4, dim);
    desc.operand[GP_COPY_X].format = from;
    desc.operand[GP_COPY_Y].format = to;
    return desc;
}

/* y from x, both in host memory. */
static void run(const gp_op_desc *desc, const float *x, float *y) {
    gp_error err = {0};
    gp_op_cache *cache;
    const gp_prepared *prepared;
    gp_device *device;
    gp_stream *stream;
    char *block;
    gp_device_spec spec = {&gp_cuda_kind, 0, 1, 0};
    gp_op_args args = {0};
    size_t bytes = gp_tensor_bytes(&desc->operand[GP_COPY_X]), second = gp_align_up(bytes, GP_ALIGNMENT);
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    ASSERT_OK(gp_op_prepare(cache, &gp_cuda_kind, desc, &prepared, &err));
    assert_int_equal(prepared->workspace, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(prepared->operand[i].format, desc->operand[i].format);
        assert_int_equal(prepared->operand[i].bytes, bytes);
    }
    ASSERT_OK(gp_cuda_kind.open(&spec, &device, &err));
    ASSERT_OK(gp_cuda_kind.stream_create(device, false, &stream, &err));
    ASSERT_OK(gp_cuda_kind.reserve(device, 2 * second, (void **)&block, &err));
    memcpy(block, x, bytes);
    ASSERT_OK(
        gp_device_run(&gp_cuda_kind, stream, prepared, (void *const[]){block, block + second}, NULL, &args, &err));
    ASSERT_OK(gp_cuda_kind.stream_finish(stream, NULL, &err));
    memcpy(y, block + second, bytes);
    gp_cuda_kind.unreserve(device, block);
    gp_cuda_kind.stream_destroy(stream);
    gp_cuda_kind.close(device);
    gp_op_cache_destroy(&cache);
}

static void check(const int64_t dim[4]) {
    gp_op_desc to = reorder(dim, PLAIN, LAST), back = reorder(dim, LAST, PLAIN), same = reorder(dim, LAST, LAST);
    size_t count = (size_t)gp_tensor_elements(&to.operand[0]), at = 0;
    float *plain = malloc(count * sizeof *plain), *last = malloc(count * sizeof *last);
    float *again = malloc(count * sizeof *again);
    assert_true(plain && last && again);
    for (size_t i = 0; i < count; i++) plain[i] = (float)i;
    run(&to, plain, last);
    for (int64_t o = 0; o < dim[0]; o++)
        for (int64_t h = 0; h < dim[2]; h++)
            for (int64_t w = 0; w < dim[3]; w++)
                for (int64_t c = 0; c < dim[1]; c++)
                    assert_true(last[at++] == plain[((o * dim[1] + c) * dim[2] + h) * dim[3] + w]);
    run(&back, last, again);
    assert_memory_equal(again, plain, count * sizeof *plain);
    run(&same, last, again);
    assert_memory_equal(again, last, count * sizeof *last);
    free(plain);
    free(last);
    free(again);
}

static void test_moves(void **state) {
    (void)state;
    static const int64_t dims[][4] = {{1, 1, 1, 1}, {2, 3, 1, 1},  {3, 1, 5, 5},   {5, 7, 3, 2},
                                      {1, 4, 3, 3}, {64, 3, 7, 7}, {17, 33, 1, 3}, {32, 16, 3, 3}};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) check(dims[i]);
}

static void expect_refused(gp_op_desc desc, const char *message) {
    gp_error err = {0};
    gp_op_cache *cache;
    const gp_prepared *prepared;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    assert_int_equal(gp_op_prepare(cache, &gp_cuda_kind, &desc, &prepared, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, message);
    gp_op_cache_destroy(&cache);
}

static void test_refuses(void **state) {
    (void)state;
    static const char rule[] = "cuda: reorder takes contiguous F32 weights of four dimensions in formats 0 and 1";
    const int64_t dim[] = {2, 3, 4, 5};
    expect_refused(reorder(dim, PLAIN, 2), rule);
    gp_op_desc desc = reorder(dim, PLAIN, LAST);
    for (int i = 0; i < 2; i++) desc.operand[i].dtype = GP_F64;
    expect_refused(desc, rule);
    desc = reorder(dim, PLAIN, LAST);
    for (int i = 0; i < 2; i++) {
        gp_format format = desc.operand[i].format;
        desc.operand[i] = gp_tensor_plain(GP_F32, 3, dim);
        desc.operand[i].format = format;
    }
    expect_refused(desc, rule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_refuses),
    };
    gp_cuda = &gp_host_api;
    gp_host_api_set_care(GP_HOST_RANGES);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
