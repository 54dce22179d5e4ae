/* Optimizers on the CUDA device, on host memory: many parameters in few launches come out as one after another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cuda/host_api.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_call.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

enum { MOST = 2 * GP_KERNEL_UPDATE_ENTRIES, BLOCK_BYTES = 1 << 20 };
_Static_assert((int)GP_RUN_MANY <= (int)GP_KERNEL_UPDATE_ENTRIES, "what comes together goes in one launch");

static int launches;

static gp_status counted_launch(const gp_cuda_launch *launch, gp_cuda_stream *stream, gp_error *err) {
    launches++;
    return gp_host_api.launch(launch, stream, err);
}

/* Parameters in one block of memory, the step's scalars at its beginning. */
typedef struct fixture {
    gp_op_cache *cache;
    gp_device *device;
    gp_stream *stream;
    char *block;
    size_t used;
    gp_device_op op[MOST];
    int count;
} fixture;

static const gp_step_scalars step = {.step = 7, .rate = 0.01, .divisor = 1, .finite = 1, .clip = 0.37};

static void fixture_init(fixture *f) {
    gp_error err = {0};
    void *block;
    gp_device_spec spec = {&gp_cuda_kind, 0, 1, 0};
    *f = (fixture){.used = sizeof step};
    ASSERT_OK(gp_op_cache_create(&f->cache, &err));
    ASSERT_OK(gp_cuda_kind.open(&spec, &f->device, &err));
    ASSERT_OK(gp_cuda_kind.stream_create(f->device, false, &f->stream, &err));
    ASSERT_OK(gp_cuda_kind.reserve(f->device, BLOCK_BYTES, &block, &err));
    f->block = block;
}

static void fixture_fini(fixture *f) {
    gp_cuda_kind.unreserve(f->device, f->block);
    gp_cuda_kind.stream_destroy(f->stream);
    gp_cuda_kind.close(f->device);
    gp_op_cache_destroy(&f->cache);
}

/* Places follow each other without a gap, so that some are aligned to 16 bytes and others are not. */
static void add_param(fixture *f, gp_op_kind kind, int64_t elements, double decay, double momentum) {
    gp_error err = {0};
    gp_op_desc desc;
    gp_device_op *op = &f->op[f->count++];
    gp_op_desc_init(&desc, kind);
    desc.threads = 1;
    desc.operand[0] = gp_tensor_scalars();
    op->operands[0] = f->block;
    for (int i = 1; i < (int)desc.operands; i++) {
        if (kind == GP_OP_SGD && i == GP_SGD_MOMENTUM && momentum == 0) continue;
        desc.operand[i] = gp_tensor_plain(GP_F32, 1, &elements);
        op->operands[i] = f->block + f->used;
        f->used += gp_tensor_bytes(&desc.operand[i]);
    }
    assert_true(f->used <= BLOCK_BYTES);
    if (kind == GP_OP_SGD)
        desc.attributes.sgd = (gp_sgd_attributes){.momentum = momentum, .decay = decay, .nesterov = momentum > 0.5};
    else
        desc.attributes.adam =
            (gp_adam_attributes){.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = decay, .decoupled = decay > 0};
    ASSERT_OK(gp_op_prepare(f->cache, &gp_cuda_kind, &desc, &op->prepared, &err));
}

static void fill(fixture *f, const gp_step_scalars *scalars) {
    memset(f->block, 0xff, BLOCK_BYTES);
    memcpy(f->block, scalars, sizeof *scalars);
    for (size_t at = sizeof *scalars, i = 0; at < f->used; at += sizeof(float), i++) {
        float value = (float)(i * 7919 % 1000) / 500; /* squares have to be positive */
        memcpy(f->block + at, &value, sizeof value);
    }
}

/* One after another, with no more care than that; the caller frees what comes back. */
static char *run_each(fixture *f) {
    gp_error err = {0};
    char *image = malloc(BLOCK_BYTES);
    assert_non_null(image);
    gp_host_api_set_care(GP_HOST_ONCE);
    for (int i = 0; i < f->count; i++)
        ASSERT_OK(gp_device_run(&gp_cuda_kind, f->stream, f->op[i].prepared, f->op[i].operands, NULL, &(gp_op_args){0},
                                &err));
    gp_host_api_set_care(GP_HOST_RANGES);
    memcpy(image, f->block, BLOCK_BYTES);
    return image;
}

static void check(fixture *f, const gp_step_scalars *scalars, int expected) {
    gp_error err = {0};
    gp_cuda_call call[MOST];
    fill(f, scalars);
    char *image = run_each(f);
    fill(f, scalars);
    for (int i = 0; i < f->count; i++)
        call[i] = (gp_cuda_call){.prepared = f->op[i].prepared, .operand = f->op[i].operands};
    launches = 0;
    ASSERT_OK(gp_cuda_update_many(call, f->count, &err));
    assert_int_equal(launches, expected);
    assert_memory_equal(f->block, image, BLOCK_BYTES);
    free(image);
}

static const gp_op_kind kinds[] = {GP_OP_SGD, GP_OP_ADAM};

/* As a model has them: many sizes, the smaller without decay. */
static void test_attributes(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 64, 4095, 4096, 4097, 5001};
    fixture f;
    for (int k = 0; k < 2; k++) {
        fixture_init(&f);
        for (int i = 0; i < 30; i++) add_param(&f, kinds[k], sizes[i % 10], i % 10 < 6 ? 0 : 1e-2, 0.9);
        check(&f, &step, 2);
        fixture_fini(&f);
    }
}

/* Without momentum there is no state; both kinds may come together. */
static void test_kinds(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f);
    for (int i = 0; i < 12; i++) add_param(&f, kinds[i % 2], 100 + i, 0, i % 4 ? 0.25 : 0);
    check(&f, &step, 3);
    fixture_fini(&f);
}

static void test_more_than_a_launch_takes(void **state) {
    (void)state;
    fixture f;
    for (int k = 0; k < 2; k++) {
        for (int more = 0; more < 2; more++) {
            fixture_init(&f);
            for (int i = 0; i < GP_KERNEL_UPDATE_ENTRIES + more; i++) add_param(&f, kinds[k], 1 + i % 7, 0, 0.9);
            check(&f, &step, 1 + more);
            fixture_fini(&f);
        }
    }
}

static void test_not_finite(void **state) {
    (void)state;
    gp_step_scalars stopped = step;
    fixture f;
    stopped.finite = 0;
    fixture_init(&f);
    for (int i = 0; i < 4; i++) add_param(&f, kinds[i % 2], 5000, 1e-2, 0.9);
    check(&f, &stopped, 2);
    char *after = malloc(BLOCK_BYTES);
    assert_non_null(after);
    memcpy(after, f.block, BLOCK_BYTES);
    fill(&f, &stopped);
    assert_memory_equal(after, f.block, BLOCK_BYTES);
    free(after);
    fixture_fini(&f);
}

/* What the executor calls. */
static void test_run_many(void **state) {
    (void)state;
    gp_error err = {0};
    fixture f;
    fixture_init(&f);
    for (int i = 0; i < GP_RUN_MANY; i++) add_param(&f, GP_OP_ADAM, 1 + 17 * (i % 20), 1e-2, 0);
    fill(&f, &step);
    char *image = run_each(&f);
    fill(&f, &step);
    launches = 0;
    ASSERT_OK(gp_cuda_kind.run_many(f.stream, f.op, f.count, &(gp_op_args){0}, &err));
    assert_int_equal(launches, 1);
    assert_memory_equal(f.block, image, BLOCK_BYTES);
    f.op[3].operands[GP_ADAM_M] = NULL;
    assert_int_equal(gp_cuda_kind.run_many(f.stream, f.op, f.count, &(gp_op_args){0}, &err), GP_INTERNAL);
    assert_string_equal(err.text, "adam: operand m has no address");
    free(image);
    fixture_fini(&f);
}

int main(void) {
    gp_cuda_api table = gp_host_api;
    table.launch = counted_launch;
    gp_cuda = &table;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_more_than_a_launch_takes),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_run_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
