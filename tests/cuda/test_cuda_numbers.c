/* Numbers that the cases of every op (op_cases.h) leave out, on the CUDA device on host memory: means that are large
 * beside what they are the mean of, logits that are not finite, targets that are no class. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "cuda/host_api.h"
#include "device/cuda/cuda.h"
#include "device/op_commit.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

enum { GAP = 64 };

/* Runs `desc`; host[i]: the plain contiguous operand i, read and written. Every operand ends where its memory ends. */
static void run(const gp_op_desc *desc, void *const host[]) {
    gp_error err = {0};
    gp_op_cache *cache;
    gp_device *device;
    gp_stream *stream;
    const gp_prepared *prepared;
    gp_device_spec spec = {&gp_cuda_kind, 0, 1, 0};
    void *address[GP_MAX_OPERANDS] = {NULL}, *block[GP_MAX_OPERANDS] = {NULL}, *workspace = NULL;
    ASSERT_OK(gp_op_cache_create(&cache, &err));
    ASSERT_OK(gp_op_prepare(cache, &gp_cuda_kind, desc, &prepared, &err));
    ASSERT_OK(gp_cuda_kind.open(&spec, &device, &err));
    ASSERT_OK(gp_cuda_kind.stream_create(device, false, &stream, &err));
    for (int i = 0; i < (int)desc->operands; i++) {
        size_t bytes = gp_tensor_bytes(&desc->operand[i]);
        if (!desc->operand[i].present) continue;
        ASSERT_OK(gp_cuda_kind.reserve(device, GAP + bytes, &block[i], &err));
        address[i] = (char *)block[i] + GAP;
        memcpy(address[i], host[i], bytes);
    }
    if (prepared->workspace) ASSERT_OK(gp_cuda_kind.reserve(device, prepared->workspace, &workspace, &err));
    ASSERT_OK(gp_device_run(&gp_cuda_kind, stream, prepared, address, workspace, &(gp_op_args){0}, &err));
    ASSERT_OK(gp_cuda_kind.stream_finish(stream, NULL, &err));
    for (int i = 0; i < (int)desc->operands; i++) {
        if (host[i]) memcpy(host[i], address[i], gp_tensor_bytes(&desc->operand[i]));
        gp_cuda_kind.unreserve(device, block[i]);
    }
    gp_cuda_kind.unreserve(device, workspace);
    gp_cuda_kind.stream_destroy(stream);
    gp_cuda_kind.close(device);
    gp_op_cache_destroy(&cache);
}

static gp_op_desc desc_of(gp_op_kind kind) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, kind);
    desc.threads = 1;
    return desc;
}

static gp_tensor matrix(gp_dtype dtype, int64_t rows, int64_t columns) {
    return gp_tensor_plain(dtype, 2, (const int64_t[]){rows, columns});
}

static gp_tensor vector(gp_dtype dtype, int64_t count) {
    return gp_tensor_plain(dtype, 1, &count);
}

/* x is 4096 and a little: the little ones have mean 0.5 and variance 0.25, in every column and every block. The first
 * row of column 1 is 0, far from all others. */
enum { ROWS = 700, COLUMNS = 3 };
static float x[ROWS * COLUMNS];

static void fill_large(void) {
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < COLUMNS; c++) x[row * COLUMNS + c] = 4096 + (float)((row + c) % 2);
}

static void test_large_mean(void **state) {
    (void)state;
    float stats[3 * COLUMNS];
    fill_large();
    gp_op_desc desc = desc_of(GP_OP_NORM_STATISTICS);
    desc.attributes.norm.eps = 1e-5;
    desc.operand[GP_NORM_STATISTICS_X] = matrix(GP_F32, ROWS, COLUMNS);
    desc.operand[GP_NORM_STATISTICS_STATS] = matrix(GP_F32, 3, COLUMNS);
    run(&desc, (void *const[]){x, stats});
    for (int c = 0; c < COLUMNS; c++) {
        assert_true(stats[c] == 4096.5F);
        assert_true(fabsf(stats[COLUMNS + c] - 0.25F) < 1e-6F);
    }
    for (int row = 0; row < ROWS; row++) x[row * COLUMNS + 1] = row ? 4096 : 0;
    run(&desc, (void *const[]){x, stats});
    double share = 1.0 / ROWS, variance = 4096.0 * 4096 * share * (1 - share);
    assert_true(fabs((double)stats[COLUMNS + 1] / variance - 1) < 1e-6);
}

static void test_large_mean_of_pieces(void **state) {
    (void)state;
    check_large_mean_commit(&gp_cuda_kind);
}

/* The same in groups: one sample of many rows, and samples of one row. */
static void check_group(int64_t samples, int64_t rows, int64_t columns) {
    static float y[ROWS * COLUMNS];
    float stats[2 * ROWS];
    gp_op_desc desc = desc_of(GP_OP_GROUP_NORM_FORWARD);
    gp_tensor picture = gp_tensor_plain(GP_F32, 3, (const int64_t[]){samples, rows, columns});
    desc.attributes.group_norm = (gp_group_norm_attributes){0, 1};
    desc.operand[GP_GROUP_NORM_FORWARD_X] = picture;
    desc.operand[GP_GROUP_NORM_FORWARD_Y] = picture;
    desc.operand[GP_GROUP_NORM_FORWARD_STATS] = gp_tensor_plain(GP_F32, 3, (const int64_t[]){samples, 1, 2});
    fill_large();
    run(&desc, (void *const[]){x, NULL, NULL, y, stats});
    for (int64_t i = 0; i < samples * rows * columns; i++) assert_true(fabsf(fabsf(y[i]) - 1) < 1e-5F);
    for (int64_t n = 0; n < samples; n++) assert_true(stats[2 * n] == 4096.5F && fabsf(stats[2 * n + 1] - 2) < 1e-5F);
}

static void test_large_mean_of_groups(void **state) {
    (void)state;
    check_group(1, ROWS, COLUMNS - 1);
    check_group(2, ROWS / 2, COLUMNS - 1);
    check_group(3, 1, ROWS);
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

/* Sums of equal numbers in f32 would round in the same direction again and again. */
static void check_mean(gp_op_kind kind, int64_t channels) {
    enum { SIDE = 256, MOST_CHANNELS = 4 };
    static float picture[SIDE * SIDE * MOST_CHANNELS];
    float mean[MOST_CHANNELS];
    gp_op_desc desc = desc_of(kind);
    if (kind == GP_OP_AVG_POOL_FORWARD) desc.attributes.pool = (gp_pool_attributes){{SIDE, SIDE}, {1, 1}, {0, 0}, 0};
    desc.operand[0] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){1, SIDE, SIDE, channels});
    desc.operand[1] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){1, 1, 1, channels});
    for (int64_t i = 0; i < SIDE * SIDE * channels; i++) picture[i] = 100.1F;
    run(&desc, (void *const[]){picture, mean});
    for (int64_t c = 0; c < channels; c++) assert_true(mean[c] == 100.1F);
}

static void test_means_of_many_places(void **state) {
    (void)state;
    for (int64_t channels = 1; channels <= 4; channels += 3) {
        check_mean(GP_OP_MEAN_POOL_FORWARD, channels);
        check_mean(GP_OP_AVG_POOL_FORWARD, channels);
    }
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

enum { SAMPLES = 5, CLASSES = 40 };

typedef struct loss_case {
    float x[SAMPLES * CLASSES], dx[SAMPLES * CLASSES];
    int64_t target[SAMPLES];
    double partial[2];
} loss_case;

static void loss_fill(loss_case *c) {
    for (int i = 0; i < SAMPLES * CLASSES; i++) c->x[i] = (float)(i % 7);
    for (int n = 0; n < SAMPLES; n++) c->target[n] = n;
}

static void loss_run(loss_case *c, double smoothing) {
    gp_step_scalars scalars = {.divisor = SAMPLES, .finite = 1};
    gp_op_desc desc = desc_of(GP_OP_CROSS_ENTROPY_FORWARD);
    desc.attributes.cross_entropy = (gp_cross_entropy_attributes){smoothing, -100};
    desc.operand[GP_CROSS_ENTROPY_FORWARD_X] = matrix(GP_F32, SAMPLES, CLASSES);
    desc.operand[GP_CROSS_ENTROPY_FORWARD_TARGET] = vector(GP_I64, SAMPLES);
    desc.operand[GP_CROSS_ENTROPY_FORWARD_PARTIAL] = vector(GP_F64, 2);
    run(&desc, (void *const[]){c->x, c->target, c->partial});
    gp_op_desc backward = desc_of(GP_OP_CROSS_ENTROPY_BACKWARD);
    backward.attributes = desc.attributes;
    backward.operand[GP_CROSS_ENTROPY_BACKWARD_X] = matrix(GP_F32, SAMPLES, CLASSES);
    backward.operand[GP_CROSS_ENTROPY_BACKWARD_TARGET] = vector(GP_I64, SAMPLES);
    backward.operand[GP_CROSS_ENTROPY_BACKWARD_SCALARS] = gp_tensor_scalars();
    backward.operand[GP_CROSS_ENTROPY_BACKWARD_DX] = matrix(GP_F32, SAMPLES, CLASSES);
    run(&backward, (void *const[]){c->x, c->target, &scalars, c->dx});
}

/* The device cannot stop the run where it finds one; the loss says so, and nothing outside of the row is read. */
static void test_targets_that_are_no_class(void **state) {
    (void)state;
    static const int64_t wrong[] = {CLASSES, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (int row = 0; row < SAMPLES; row += SAMPLES - 1) {
            loss_case c;
            loss_fill(&c);
            c.target[row] = wrong[i];
            loss_run(&c, i % 2 ? 0.1 : 0);
            assert_true(isnan(c.partial[0]));
        }
    }
}

/* An infinite logit that is not the target's takes nothing from the others; a NaN that comes first is the largest. */
static void test_logits_that_are_not_finite(void **state) {
    (void)state;
    loss_case c;
    loss_fill(&c);
    loss_run(&c, 0);
    double right = c.partial[1];
    assert_true(isfinite(c.partial[0]));
    c.x[CLASSES - 1] = -INFINITY;
    loss_run(&c, 0);
    assert_true(isfinite(c.partial[0]) && c.partial[1] == right && c.dx[CLASSES - 1] == 0);
    c.x[0] = NAN; /* row 0, whose target is 0 */
    loss_run(&c, 0);
    assert_true(isnan(c.partial[0]) && c.partial[1] == right + 1);
    for (int i = 0; i < CLASSES; i++) assert_true(isnan(c.dx[i]));
    for (int i = CLASSES; i < SAMPLES * CLASSES; i++) assert_true(isfinite(c.dx[i]));
}

static void test_total_is_not_finite(void **state) {
    (void)state;
    static const double losses[] = {NAN, INFINITY, -INFINITY, 1.5};
    for (int i = 0; i < 4; i++) {
        double partial[] = {2, 3, losses[i], 4};
        gp_step_scalars scalars = {.finite = 7};
        gp_op_desc desc = desc_of(GP_OP_LOSS_TOTAL);
        desc.operand[GP_LOSS_TOTAL_PARTIAL] = matrix(GP_F64, 2, 2);
        desc.operand[GP_LOSS_TOTAL_SCALARS] = gp_tensor_scalars();
        run(&desc, (void *const[]){partial, &scalars});
        assert_true(scalars.finite == (i == 3) && scalars.right == 7 && (i < 3 || scalars.loss_sum == 3.5));
        scalars.finite = 0;
        run(&desc, (void *const[]){partial, &scalars});
        assert_true(scalars.finite == 0);
    }
}

static void test_norm_is_not_finite(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        double squares[] = {1, i % 2 ? NAN : INFINITY};
        gp_step_scalars scalars = {.finite = 1, .clip = 5};
        gp_op_desc desc = desc_of(GP_OP_CLIP_TOTAL);
        desc.attributes.clip.max_norm = i < 2 ? 0 : 3;
        desc.operand[GP_CLIP_TOTAL_SQUARES] = vector(GP_F64, 2);
        desc.operand[GP_CLIP_TOTAL_SCALARS] = gp_tensor_scalars();
        run(&desc, (void *const[]){squares, &scalars});
        assert_true(scalars.finite == (i < 2) && !isfinite(scalars.grad_norm));
        assert_true(i >= 2 || scalars.clip == 1);
    }
}

int main(void) {
    gp_cuda = &gp_host_api;
    gp_host_api_set_care(GP_HOST_RANGES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_mean),
        cmocka_unit_test(test_large_mean_of_pieces),
        cmocka_unit_test(test_large_mean_of_groups),
        cmocka_unit_test(test_means_of_many_places),
        cmocka_unit_test(test_targets_that_are_no_class),
        cmocka_unit_test(test_logits_that_are_not_finite),
        cmocka_unit_test(test_total_is_not_finite),
        cmocka_unit_test(test_norm_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
