/* Names and tensors of ops, what gp_op_desc_check refuses, and the cache of prepared ops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/dropout_mask.h"
#include "device/op_cases.h"
#include "device/ref/ref.h"

static void test_names(void **state) {
    (void)state;
    assert_string_equal(gp_op_name(GP_OP_CONV_FORWARD), "conv_forward");
    assert_string_equal(gp_op_name(GP_OP_FILL), "fill");
    assert_int_equal(gp_op_operand_count(GP_OP_NORM_BACKWARD_DATA), 7);
    assert_int_equal(gp_op_operand_count(GP_OP_FILL), 1);
    assert_string_equal(gp_op_operand_name(GP_OP_CONV_FORWARD, GP_CONV_FORWARD_B), "b");
    assert_string_equal(gp_op_operand_name(GP_OP_NORM_BACKWARD_DATA, GP_NORM_BACKWARD_DATA_DX), "dx");
    assert_true(gp_op_optional(GP_OP_CONV_FORWARD, GP_CONV_FORWARD_B));
    assert_false(gp_op_optional(GP_OP_CONV_FORWARD, GP_CONV_FORWARD_W));
    assert_true(gp_op_reads(GP_OP_SGD, GP_SGD_MOMENTUM) && gp_op_writes(GP_OP_SGD, GP_SGD_MOMENTUM));
    assert_true(gp_op_optional(GP_OP_SGD, GP_SGD_MOMENTUM));
    assert_true(gp_op_reads(GP_OP_SGD, GP_SGD_GRAD) && !gp_op_writes(GP_OP_SGD, GP_SGD_GRAD));
    assert_true(gp_op_writes(GP_OP_FILL, GP_FILL_Y) && !gp_op_reads(GP_OP_FILL, GP_FILL_Y));
}

static void assert_dims(gp_tensor tensor, int rank, const int64_t *dim, const int64_t *stride) {
    assert_int_equal(tensor.rank, rank);
    assert_int_equal(tensor.present, 1);
    for (int d = 0; d < GP_TENSOR_MAX_RANK; d++) {
        assert_int_equal(tensor.dim[d], d < rank ? dim[d] : 0);
        assert_int_equal(tensor.stride[d], d < rank ? stride[d] : 0);
    }
}

static void test_tensors(void **state) {
    (void)state;
    gp_tensor picture = gp_tensor_samples(GP_F32, 2, (gp_shape){3, {3, 5, 7}});
    assert_dims(picture, 4, (const int64_t[]){2, 5, 7, 3}, (const int64_t[]){105, 21, 3, 1});
    assert_dims(gp_tensor_samples(GP_F32, 2, (gp_shape){2, {4, 6}}), 3, (const int64_t[]){2, 4, 6},
                (const int64_t[]){24, 6, 1});
    assert_dims(gp_tensor_samples(GP_I64, 9, (gp_shape){0, {0}}), 1, (const int64_t[]){9}, (const int64_t[]){1});
    assert_dims(gp_tensor_param(GP_F32, (gp_shape){4, {8, 3, 5, 5}}), 4, (const int64_t[]){8, 3, 5, 5},
                (const int64_t[]){75, 25, 5, 1});
    assert_int_equal(gp_tensor_elements(&picture), 210);
    assert_int_equal(gp_tensor_rows(&picture), 70);
    assert_int_equal(gp_tensor_bytes(&picture), 840);
    assert_true(gp_tensor_contiguous(&picture));

    gp_tensor slice = gp_tensor_channels(picture, 2);
    assert_dims(slice, 4, (const int64_t[]){2, 5, 7, 2}, (const int64_t[]){105, 21, 3, 1});
    assert_int_equal(gp_tensor_bytes(&slice), (209 - 1 + 1) * 4);
    assert_false(gp_tensor_contiguous(&slice));
    assert_false(gp_tensor_same_dims(&slice, &picture));
    gp_tensor one_row = gp_tensor_channels(gp_tensor_plain(GP_F64, 2, (const int64_t[]){1, 8}), 3);
    assert_true(gp_tensor_contiguous(&one_row));
    assert_int_equal(gp_tensor_bytes(&one_row), 24);

    gp_tensor number = gp_tensor_plain(GP_F64, 0, NULL), absent = {0};
    assert_int_equal(gp_tensor_elements(&number), 1);
    assert_int_equal(gp_tensor_bytes(&number), 8);
    assert_int_equal(gp_tensor_elements(&absent), 0);
    assert_int_equal(gp_tensor_bytes(&absent), 0);
    assert_false(gp_tensor_same_dims(&number, &absent));
    gp_tensor huge = gp_tensor_plain(GP_F32, 3, (const int64_t[]){INT64_MAX / 2, 4, 4});
    assert_true(gp_tensor_bytes(&huge) == SIZE_MAX);
}

static void test_cases_pass_the_check(void **state) {
    (void)state;
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        for (int number = 0; number < 2 * GP_OP_CASES; number++) {
            gp_op_case op_case;
            gp_op_case_make((gp_op_kind)kind, number / 2, number % 2 ? GP_F32 : GP_F64, &op_case);
            gp_error err = {0};
            if (gp_op_desc_check(&op_case.desc, &err) != GP_OK) {
                char text[GP_CASE_TEXT];
                fail_msg("%s: %s", gp_op_case_text(text, &op_case), err.text);
            }
        }
    }
}

static void expect_refused(const gp_op_desc *desc, const char *message) {
    gp_error err = {0};
    assert_int_equal(gp_op_desc_check(desc, &err), GP_INTERNAL);
    assert_string_equal(err.text, message);
}

/* The descriptor of a case with one thing wrong. */
#define REFUSES(kind_, number, message, ...)                                                                           \
    do {                                                                                                               \
        gp_op_case op_case;                                                                                            \
        gp_op_case_make(GP_OP_##kind_, (number), GP_F32, &op_case);                                                    \
        gp_op_desc *desc = &op_case.desc;                                                                              \
        gp_tensor *operand = desc->operand;                                                                            \
        (void)operand;                                                                                                 \
        __VA_ARGS__;                                                                                                   \
        expect_refused(desc, message);                                                                                 \
    } while (0)

static gp_tensor tensor_of(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return gp_tensor_plain(GP_F32, rank, (const int64_t[]){a, b, c, d});
}

static void test_refuses_in_general(void **state) {
    (void)state;
    REFUSES(ADD, 3, "op: 99 is not a kind of op", desc->kind = (gp_op_kind)99);
    REFUSES(ADD, 3, "op add: 2 operands where it takes 3", desc->operands = 2);
    REFUSES(ADD, 3, "op add: unknown flags 0x4", desc->flags = 4);
    REFUSES(ADD, 3, "op add: accumulates, which only gradients of weights can", desc->flags = GP_OP_ACCUMULATE);
    REFUSES(ADD, 3, "op add: may round to TF32, which only convolutions and products can", desc->flags = GP_OP_TF32);
    REFUSES(ADD, 3, "op add: operands after its last are not zero", operand[15].dim[0] = 1);
    REFUSES(ADD, 3, "op add: attributes that it does not have are not zero", desc->attributes.norm.eps = 1);
    REFUSES(SGD, 1, "op sgd: attributes that it does not have are not zero", desc->attributes.conv.groups = 1);
    REFUSES(ADD, 3, "op add: operand b is absent", memset(&operand[1], 0, sizeof operand[1]));
    REFUSES(CONV_FORWARD, 3, "op conv_forward: operand b is absent but not zero", operand[2].dtype = GP_F64);
    REFUSES(ADD, 3, "op add: presence of b is 2", operand[1].present = 2);
    REFUSES(ADD, 3, "op add: rank of b is 5, which must be 0 to 4", operand[1].rank = 5);
    REFUSES(ADD, 3, "op add: 9 is not a dtype, in b", operand[1].dtype = (gp_dtype)9);
    REFUSES(ADD, 4, "op add: dimension 3 of b is beyond its rank 3 and not zero", operand[1].rank = 3;
            operand[1].dim[3] = 7; operand[1].stride[2] = 1);
    REFUSES(ADD, 3, "op add: dimension 0 of b is 0, which must be at least 1", operand[1].dim[0] = 0);
    REFUSES(ADD, 3, "op add: stride 2 of dimension 3 of b must be 1", operand[1].stride[3] = 2);
    REFUSES(ADD, 3, "op add: stride 16 of dimension 2 of b makes its elements overlap", operand[1].stride[2] = 16);
    REFUSES(ADD, 3, "op add: b is too large", operand[1].dim[0] = INT64_MAX / 4);
    REFUSES(ADD, 3, "op add: b is too large", operand[1].stride[0] = INT64_MAX / 2 - 1000);
    REFUSES(ADD, 3, "op add: a is I32, which must be F32, F64, BF16 or F16", operand[0].dtype = GP_I32);
    REFUSES(ADD, 3, "op add: y is F64 and a is F32, which must be equal", operand[2].dtype = GP_F64);
    REFUSES(COPY, 3, "op copy: y is I64 and x is F32, which must be equal", operand[1].dtype = GP_I64);
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: index is I32, which must be U8", operand[2].dtype = GP_I32);
    REFUSES(LOSS_TOTAL, 3, "op loss_total: partial is F32, which must be F64", operand[0].dtype = GP_F32);
    REFUSES(DROPOUT, 3, "op dropout: scalars must be u8 [72]", operand[1].dim[0] = 8);
}

static void test_refuses_formats(void **state) {
    (void)state;
    REFUSES(ADD, 3, "op add: b has an open format, which only weights may have", operand[1].format = GP_FORMAT_ANY);
    REFUSES(RELU_FORWARD, 3, "op relu_forward: x must be plain", operand[0].format = 7);
    REFUSES(ADD, 3, "op add: formats 7 of b and 0 of a differ", operand[1].format = 7);
    REFUSES(FILL, 3, "op fill: y is neither plain nor contiguous", operand[0].format = 7; operand[0].stride[0] += 1);
    gp_op_case op_case;
    gp_error err = {0};
    gp_op_case_make(GP_OP_CONV_FORWARD, 3, GP_F32, &op_case);
    op_case.desc.operand[GP_CONV_FORWARD_W].format = GP_FORMAT_ANY;
    assert_int_equal(gp_op_desc_check(&op_case.desc, &err), GP_OK);
    op_case.desc.operand[GP_CONV_FORWARD_W].format = 7;
    assert_int_equal(gp_op_desc_check(&op_case.desc, &err), GP_OK);
}

/* Case 3 of convolution: x [2,7,9,3], w [17,3,3,3], stride 2, pad 1, y [2,4,5,17]. */
static void test_refuses_products(void **state) {
    (void)state;
    REFUSES(CONV_FORWARD, 3, "op conv_forward: y is [2, 4, 6, 17], which must be [2, 4, 5, 17]",
            operand[3] = tensor_of(4, 2, 4, 6, 17));
    REFUSES(CONV_FORWARD, 3, "op conv_forward: y is [3, 4, 5, 17], which must be [2, 4, 5, 17]",
            operand[3] = tensor_of(4, 3, 4, 5, 17));
    REFUSES(CONV_BACKWARD_DATA, 3, "op conv_backward_data: dy is [2, 4, 5, 16], which must be [2, 4, 5, 17]",
            operand[0] = tensor_of(4, 2, 4, 5, 16));
    REFUSES(CONV_BACKWARD_WEIGHTS, 3, "op conv_backward_weights: dw is [17, 3, 3, 2], which must be [17, 3, 3, 3]",
            operand[2] = tensor_of(4, 17, 3, 3, 2));
    REFUSES(CONV_FORWARD, 6, "op conv_forward: b is [16], which must be [17]", operand[2] = tensor_of(1, 16, 0, 0, 0));
    REFUSES(CONV_FORWARD, 3, "op conv_forward: rank of x is 3, which must be 4", operand[0] = tensor_of(3, 2, 7, 9, 0));
    REFUSES(CONV_FORWARD, 3, "op conv_forward: kernel 0x3, which must be at least 1",
            desc->attributes.conv.kernel[0] = 0);
    REFUSES(CONV_FORWARD, 3, "op conv_forward: stride 2x0, which must be at least 1",
            desc->attributes.conv.stride[1] = 0);
    REFUSES(CONV_FORWARD, 3, "op conv_forward: pad -1x1, which must be at least 0", desc->attributes.conv.pad[0] = -1);
    REFUSES(CONV_FORWARD, 3, "op conv_forward: dilation 0x1, which must be at least 1",
            desc->attributes.conv.dilation[0] = 0);
    REFUSES(CONV_FORWARD, 3, "op conv_forward: 0 groups, which must be at least 1", desc->attributes.conv.groups = 0);
    REFUSES(CONV_FORWARD, 3, "op conv_forward: 3 groups do not divide both 3 and 17 channels",
            desc->attributes.conv.groups = 3);
    REFUSES(CONV_FORWARD, 3, "op conv_forward: kernel covers 11 elements, but the padded input has only 9",
            desc->attributes.conv.dilation[0] = 5);
    REFUSES(LINEAR_FORWARD, 3, "op linear_forward: w is [5, 16], which must be [5, 17]",
            operand[1] = tensor_of(2, 5, 16, 0, 0));
    REFUSES(LINEAR_FORWARD, 3, "op linear_forward: y is [3, 4, 4, 6], which must be [3, 4, 4, 5]",
            operand[1] = tensor_of(2, 5, 17, 0, 0);
            operand[3] = tensor_of(4, 3, 4, 4, 6));
    REFUSES(LINEAR_BACKWARD_DATA, 3, "op linear_backward_data: rank of w is 1, which must be 2",
            operand[1] = tensor_of(1, 5, 0, 0, 0));
    REFUSES(LINEAR_FORWARD, 3, "op linear_forward: rank of x is 1, which must be 2 to 4",
            operand[0] = tensor_of(1, 17, 0, 0, 0));
}

/* Case 3 on rows: x [3,4,4,17]. */
static void test_refuses_norms(void **state) {
    (void)state;
    REFUSES(NORM_STATISTICS, 3, "op norm_statistics: stats is [2, 17], which must be [3, 17]",
            operand[1] = tensor_of(2, 2, 17, 0, 0));
    REFUSES(NORM_APPLY, 6, "op norm_apply: beta is [65], which must be [17]", operand[0] = tensor_of(2, 3, 17, 0, 0);
            operand[5] = operand[0]; operand[1] = operand[2] = operand[3] = tensor_of(1, 17, 0, 0, 0);
            operand[4] = tensor_of(1, 65, 0, 0, 0));
    REFUSES(NORM_APPLY, 3, "op norm_apply: y is [48, 17], which must be [3, 4, 4, 17]",
            operand[5] = tensor_of(2, 48, 17, 0, 0));
    REFUSES(NORM_APPLY, 3, "op norm_apply: eps is -1, which must be at least 0", desc->attributes.norm.eps = -1);
    REFUSES(NORM_APPLY, 3, "op norm_apply: eps is inf, which must be at least 0", desc->attributes.norm.eps = INFINITY);
    REFUSES(NORM_APPLY, 3, "op norm_apply: eps is nan, which must be at least 0", desc->attributes.norm.eps = NAN);
    REFUSES(NORM_BACKWARD_REDUCE, 3, "op norm_backward_reduce: dy is [3, 4, 4, 16], which must be [3, 4, 4, 17]",
            operand[1] = tensor_of(4, 3, 4, 4, 16));
    REFUSES(NORM_BACKWARD_REDUCE, 3, "op norm_backward_reduce: sums is [17], which must be [2, 17]",
            operand[4] = tensor_of(1, 17, 0, 0, 0));
    REFUSES(NORM_BACKWARD_DATA, 3, "op norm_backward_data: variance is [3], which must be [17]",
            operand[3] = tensor_of(1, 3, 0, 0, 0));
    REFUSES(NORM_BACKWARD_DATA, 3, "op norm_backward_data: dx is [3, 4, 4, 18], which must be [3, 4, 4, 17]",
            operand[6] = tensor_of(4, 3, 4, 4, 18));
    REFUSES(NORM_APPLY_RELU, 3, "op norm_apply_relu: addend is [3, 4, 4, 16], which must be [3, 4, 4, 17]",
            operand[GP_NORM_APPLY_RELU_ADDEND] = tensor_of(4, 3, 4, 4, 16));
    REFUSES(NORM_APPLY_RELU, 6, "op norm_apply_relu: gamma is [4], which must be [17]",
            operand[GP_NORM_APPLY_RELU_GAMMA] = tensor_of(1, 4, 0, 0, 0));
    REFUSES(NORM_RELU_BACKWARD_REDUCE, 3, "op norm_relu_backward_reduce: sums is [17], which must be [2, 17]",
            operand[GP_NORM_RELU_BACKWARD_REDUCE_SUMS] = tensor_of(1, 17, 0, 0, 0));
    REFUSES(NORM_RELU_BACKWARD_DATA, 3, "op norm_relu_backward_data: eps is -1, which must be at least 0",
            desc->attributes.norm.eps = -1);
    REFUSES(NORM_ADD_RELU_BACKWARD_REDUCE, 3,
            "op norm_add_relu_backward_reduce: dz is [3, 4, 4, 18], which must be [3, 4, 4, 17]",
            operand[GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ] = tensor_of(4, 3, 4, 4, 18));
    REFUSES(GROUP_NORM_FORWARD, 12, "op group_norm_forward: eps is -1, which must be at least 0",
            desc->attributes.group_norm.eps = -1);
    REFUSES(GROUP_NORM_FORWARD, 12, "op group_norm_forward: eps is inf, which must be at least 0",
            desc->attributes.group_norm.eps = INFINITY);
    REFUSES(GROUP_NORM_FORWARD, 12, "op group_norm_forward: 5 groups do not divide 96 channels",
            desc->attributes.group_norm.groups = 5);
    REFUSES(GROUP_NORM_FORWARD, 12, "op group_norm_forward: 0 groups do not divide 96 channels",
            desc->attributes.group_norm.groups = 0);
    REFUSES(GROUP_NORM_FORWARD, 12, "op group_norm_forward: beta is [32], which must be [96]",
            operand[2] = tensor_of(1, 32, 0, 0, 0));
    REFUSES(GROUP_NORM_FORWARD, 12, "op group_norm_forward: y is [2, 12, 96], which must be [2, 4, 3, 96]",
            operand[3] = tensor_of(3, 2, 12, 96, 0));
    REFUSES(GROUP_NORM_BACKWARD_DATA, 12, "op group_norm_backward_data: stats is [2, 96, 2], which must be [2, 32, 2]",
            operand[2] = tensor_of(3, 2, 96, 2, 0));
    REFUSES(GROUP_NORM_BACKWARD_WEIGHTS, 12, "op group_norm_backward_weights: dbeta is [95], which must be [96]",
            operand[4] = tensor_of(1, 95, 0, 0, 0));
    REFUSES(GROUP_NORM_BACKWARD_DATA, 12,
            "op group_norm_backward_data: accumulates, which only gradients of weights can",
            desc->flags = GP_OP_ACCUMULATE);
    REFUSES(NORM_MERGE, 3, "op norm_merge: parts of 3 rows and a last part of 4", desc->attributes.norm.rows_full = 3;
            desc->attributes.norm.rows_last = 4);
    REFUSES(NORM_MERGE, 3, "op norm_merge: parts of 3 rows and a last part of 0", desc->attributes.norm.rows_full = 3;
            desc->attributes.norm.rows_last = 0);
    REFUSES(NORM_BACKWARD_DATA, 3, "op norm_backward_data: sums over -1 rows", desc->attributes.norm.rows_summed = -1);
    REFUSES(NORM_COMMIT, 3, "op norm_commit: momentum is 1.5, which must be 0 to 1",
            desc->attributes.norm.momentum = 1.5);
    REFUSES(NORM_COMMIT, 3, "op norm_commit: momentum is -0.5, which must be 0 to 1",
            desc->attributes.norm.momentum = -0.5);
    REFUSES(NORM_COMMIT, 3, "op norm_commit: parts of 3 rows and a last part of 4", desc->attributes.norm.rows_full = 3;
            desc->attributes.norm.rows_last = 4);
    REFUSES(NORM_COMMIT, 3, "op norm_commit: 4 parts of 3 replicas, and 1 rows of a sample",
            desc->attributes.norm.replicas = 3;
            desc->attributes.norm.rows_sample = 1);
    REFUSES(NORM_COMMIT, 0, "op norm_commit: only one row, which has no unbiased variance",
            desc->attributes.norm.rows_last = 1);
    REFUSES(NORM_COMMIT, 3, "op norm_commit: stats is [4, 2, 5], which must be [4, 3, 5]",
            operand[1] = tensor_of(3, 4, 2, 5, 0));
    REFUSES(NORM_COMMIT, 3, "op norm_commit: variance is [6], which must be [5]", operand[1] = tensor_of(3, 4, 3, 5, 0);
            operand[2] = tensor_of(1, 5, 0, 0, 0); operand[3] = tensor_of(1, 6, 0, 0, 0));
}

/* Case 9 of pooling: x [2,6,6,64], kernel 3, stride 3, y [2,2,2,64]. */
static void test_refuses_the_rest(void **state) {
    (void)state;
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: 3 windows over 6 elements, which must be 2",
            operand[1] = tensor_of(4, 2, 3, 2, 64));
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: 4 windows over 6 elements, which must be 2, or one more",
            desc->attributes.pool.stride[0] = 2;
            operand[1] = tensor_of(4, 2, 4, 2, 64));
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: y is [2, 2, 2, 63], which must be [2, 2, 2, 64]",
            operand[1] = tensor_of(4, 2, 2, 2, 63));
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: index is [2, 2, 2, 1], which must be [2, 2, 2, 64]",
            operand[2].dim[3] = 1);
    REFUSES(MAX_POOL_BACKWARD, 9, "op max_pool_backward: pad 2x0 is more than half of kernel 3x3",
            desc->attributes.pool.pad[0] = 2);
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: index is U8, which must be I32",
            desc->attributes.pool.kernel[0] = 16;
            desc->attributes.pool.kernel[1] = 17);
    REFUSES(MAX_POOL_FORWARD, 12, "op max_pool_forward: index is U8, which must be I32", operand[2].dtype = GP_U8);
    REFUSES(
        MAX_POOL_FORWARD, 12,
        "op max_pool_forward: kernel 65536x32768 has more than 2147483647 elements, the most that an index can hold",
        desc->attributes.pool.kernel[0] = 65536;
        desc->attributes.pool.kernel[1] = 32768);
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: count_pad is 1, which must be 0",
            desc->attributes.pool.count_pad = 1);
    REFUSES(AVG_POOL_FORWARD, 9, "op avg_pool_forward: count_pad is 2, which must be 0 or 1",
            desc->attributes.pool.count_pad = 2);
    REFUSES(AVG_POOL_FORWARD, 9, "op avg_pool_forward: 3 windows over 6 elements, which must be 2",
            operand[1] = tensor_of(4, 2, 3, 2, 64));
    REFUSES(AVG_POOL_BACKWARD, 9, "op avg_pool_backward: dy is [2, 2, 2, 63], which must be [2, 2, 2, 64]",
            operand[0] = tensor_of(4, 2, 2, 2, 63));
    /* Case 13: x [2,2,6,3], kernel 3x4, stride 2x3, pad 0x2, ceil: one window of 3 over 2. */
    REFUSES(AVG_POOL_FORWARD, 13, "op avg_pool_forward: kernel 4 is larger than the padded input of 2",
            desc->attributes.pool.kernel[0] = 4);
    REFUSES(UPSAMPLE_FORWARD, 1, "op upsample_forward: dimension 2 of y is 16, which must be a multiple of 5",
            operand[1] = tensor_of(4, 2, 6, 16, 17));
    REFUSES(UPSAMPLE_BACKWARD, 1, "op upsample_backward: dy is [2, 6, 15, 16], which must be [2, 6, 15, 17]",
            operand[0] = tensor_of(4, 2, 6, 15, 16));
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: kernel 7 is larger than the padded input of 6",
            desc->attributes.pool.kernel[1] = 7;
            desc->attributes.pool.stride[1] = 1);
    REFUSES(MAX_POOL_FORWARD, 9, "op max_pool_forward: 2 windows over 6 elements, which must be 1",
            desc->attributes.pool.kernel[1] = 7);
    REFUSES(MEAN_POOL_FORWARD, 3, "op mean_pool_forward: y is [3, 1, 2, 3], which must be [3, 1, 1, 3]",
            operand[1] = tensor_of(4, 3, 1, 2, 3));
    REFUSES(MEAN_POOL_BACKWARD, 3, "op mean_pool_backward: dy is [3, 1, 1, 4], which must be [3, 1, 1, 3]",
            operand[0] = tensor_of(4, 3, 1, 1, 4));
    REFUSES(FLATTEN, 3, "op flatten: y is [3, 271], which must be [3, 272]", operand[1] = tensor_of(2, 3, 271, 0, 0));
    REFUSES(UNFLATTEN, 3, "op unflatten: x is [4, 272], which must be [3, 272]",
            operand[0] = tensor_of(2, 4, 272, 0, 0));
    REFUSES(RELU_BACKWARD, 3, "op relu_backward: dy is [3, 4, 17], which must be [3, 4, 4, 17]",
            operand[1] = tensor_of(3, 3, 4, 17, 0));
    REFUSES(ACTIVATION_FORWARD, 3, "op activation_forward: 6 is not a function",
            desc->attributes.activation.function = 6);
    REFUSES(ACTIVATION_FORWARD, 3,
            "op activation_forward: slope is 0.1, which must be finite, and 0 except for leaky_relu",
            desc->attributes.activation.slope = 0.1);
    REFUSES(ACTIVATION_BACKWARD, 0,
            "op activation_backward: slope is inf, which must be finite, and 0 except for leaky_relu",
            desc->attributes.activation.slope = INFINITY);
    REFUSES(ACTIVATION_FORWARD, 3, "op activation_forward: reserved must be 0",
            desc->attributes.activation.reserved = 1);
    REFUSES(ACTIVATION_BACKWARD, 3, "op activation_backward: dy is [3, 4, 17], which must be [3, 4, 4, 17]",
            operand[1] = tensor_of(3, 3, 4, 17, 0));
    REFUSES(ADD, 3, "op add: b is [3, 4, 4, 16], which must be [3, 4, 4, 17]", operand[1] = tensor_of(4, 3, 4, 4, 16));
    REFUSES(DROPOUT, 3, "op dropout: p is 1, which must be at least 0 and below 1", desc->attributes.dropout.p = 1);
    REFUSES(DROPOUT, 3, "op dropout: p is -0.5, which must be at least 0 and below 1",
            desc->attributes.dropout.p = -0.5);
    REFUSES(DROPOUT, 3, "op dropout: node 0 and purpose 256 do not fit one word of a counter",
            desc->attributes.dropout.node = 0;
            desc->attributes.dropout.purpose = 256);
    REFUSES(DROPOUT, 3, "op dropout: 17179869184 elements in a sample do not fit a counter",
            operand[GP_DROPOUT_X] = operand[GP_DROPOUT_Y] = tensor_of(4, 2, 1 << 17, 1 << 17, 1));
    REFUSES(DROPOUT, 3, "op dropout: node 16777216 and purpose 3 do not fit one word of a counter",
            desc->attributes.dropout.node = 1 << 24);
    REFUSES(DROPOUT, 3, "op dropout: channels must be 0 or 1, reserved 0", desc->attributes.dropout.channels = 2);
    REFUSES(DROPOUT, 3, "op dropout: channels must be 0 or 1, reserved 0", desc->attributes.dropout.reserved = 1);
    REFUSES(DROPOUT, 6, "op dropout: rank of x is 3, which must be 4", desc->attributes.dropout.channels = 1);
    REFUSES(CROSS_ENTROPY_FORWARD, 3, "op cross_entropy_forward: target is [9], which must be 10 elements without gaps",
            operand[1].dim[0] = 9);
    REFUSES(CROSS_ENTROPY_FORWARD, 3, "op cross_entropy_forward: partial is [3], which must be [2]",
            operand[2].dim[0] = 3);
    REFUSES(CROSS_ENTROPY_BACKWARD, 3, "op cross_entropy_backward: dx is [10, 17], which must be [2, 5, 17]",
            operand[3] = tensor_of(2, 10, 17, 0, 0));
    REFUSES(CROSS_ENTROPY_FORWARD, 3, "op cross_entropy_forward: smoothing is 1.5, which must be 0 to 1",
            desc->attributes.cross_entropy.smoothing = 1.5);
    REFUSES(CROSS_ENTROPY_FORWARD, 3, "op cross_entropy_forward: smoothing is -0.5, which must be 0 to 1",
            desc->attributes.cross_entropy.smoothing = -0.5);
    REFUSES(ELEMENT_LOSS_FORWARD, 3, "op element_loss_forward: 2 is not a function of elements, or reserved is not 0",
            desc->attributes.element_loss.function = 2);
    REFUSES(ELEMENT_LOSS_FORWARD, 3, "op element_loss_forward: 0 is not a function of elements, or reserved is not 0",
            desc->attributes.element_loss.function = 0;
            desc->attributes.element_loss.reserved = 1);
    REFUSES(ELEMENT_LOSS_FORWARD, 3, "op element_loss_forward: target is [3, 4, 17], which must be [3, 4, 4, 17]",
            operand[1] = tensor_of(3, 3, 4, 17, 0));
    REFUSES(ELEMENT_LOSS_FORWARD, 3, "op element_loss_forward: target is I64, which must be F32, F64, BF16 or F16",
            operand[1].dtype = GP_I64);
    REFUSES(ELEMENT_LOSS_BACKWARD, 3, "op element_loss_backward: dx is [48, 17], which must be [3, 4, 4, 17]",
            operand[3] = tensor_of(2, 48, 17, 0, 0));
    REFUSES(LOSS_TOTAL, 3, "op loss_total: partial is [4, 1], which must be [4, 2]", operand[0].dim[1] = 1);
    REFUSES(LOSS_TOTAL, 3, "op loss_total: 4 parts of 3 replicas, of which 1 are there, and 1 of the last",
            desc->attributes.loss_total = (gp_loss_total_attributes){3, 1, 1});
    REFUSES(LOSS_TOTAL, 3, "op loss_total: 4 parts of 2 replicas, of which 3 are there, and 1 of the last",
            desc->attributes.loss_total = (gp_loss_total_attributes){2, 3, 1});
    REFUSES(LOSS_TOTAL, 3, "op loss_total: 4 parts of 2 replicas, of which 2 are there, and 0 of the last",
            desc->attributes.loss_total = (gp_loss_total_attributes){2, 2, 0});
    REFUSES(LOSS_TOTAL, 3, "op loss_total: 4 parts of 0 replicas, of which 1 are there, and 1 of the last",
            desc->attributes.loss_total = (gp_loss_total_attributes){0, 1, 1});
    REFUSES(SQUARE_SUM, 3, "op square_sum: sum is F32, which must be F64", operand[1].dtype = GP_F32);
    REFUSES(SQUARE_SUM, 3, "op square_sum: sum is [2], which must be [1]", operand[1].dim[0] = 2);
    REFUSES(SQUARE_BLOCKS, 3, "op square_blocks: blocks of 0 elements, which must be at least 1",
            desc->attributes.blocks.elements = 0);
    REFUSES(SQUARE_BLOCKS, 3, "op square_blocks: sums is [5], which must be [1]", operand[1].dim[0] = 5);
    REFUSES(CLIP_TOTAL, 3, "op clip_total: squares is F32, which must be F64", operand[0].dtype = GP_F32);
    REFUSES(CLIP_TOTAL, 3, "op clip_total: rank of squares is 0, which must be 1",
            operand[0] = tensor_of(0, 0, 0, 0, 0);
            operand[0].dtype = GP_F64);
    REFUSES(CLIP_TOTAL, 3, "op clip_total: max_norm -1, which must be at least 0", desc->attributes.clip.max_norm = -1);
    REFUSES(CLIP_TOTAL, 3, "op clip_total: max_norm inf, which must be at least 0",
            desc->attributes.clip.max_norm = INFINITY);
    REFUSES(SGD, 5, "op sgd: nesterov without momentum", desc->attributes.sgd.momentum = 0);
    REFUSES(SGD, 3, "op sgd: momentum 0.9 and its state must both be present, or both absent",
            desc->attributes.sgd.momentum = 0.9);
    REFUSES(SGD, 3, "op sgd: nesterov must be 0 or 1, reserved 0", desc->attributes.sgd.reserved = 1);
    REFUSES(SGD, 3, "op sgd: momentum 0 and decay -1, which must be at least 0", desc->attributes.sgd.decay = -1);
    REFUSES(SGD, 3, "op sgd: momentum -1 and decay 0, which must be at least 0", desc->attributes.sgd.momentum = -1;
            desc->attributes.sgd.decay = 0);
    REFUSES(SGD, 3, "op sgd: momentum inf and decay 0, which must be at least 0",
            desc->attributes.sgd.momentum = INFINITY;
            desc->attributes.sgd.decay = 0);
    REFUSES(SGD, 3, "op sgd: momentum 0 and decay inf, which must be at least 0",
            desc->attributes.sgd.decay = INFINITY);
    REFUSES(SGD, 3, "op sgd: nesterov must be 0 or 1, reserved 0", desc->attributes.sgd.nesterov = 2);
    REFUSES(SGD, 3, "op sgd: grad is [3], which must be [3, 4, 4, 17]", operand[1] = tensor_of(1, 3, 0, 0, 0));
    REFUSES(ADAM, 3, "op adam: betas 1 and 0.5, which must be at least 0 and below 1", desc->attributes.adam.beta1 = 1;
            desc->attributes.adam.beta2 = 0.5);
    REFUSES(ADAM, 3, "op adam: betas 0.5 and -0.5, which must be at least 0 and below 1",
            desc->attributes.adam.beta1 = 0.5;
            desc->attributes.adam.beta2 = -0.5);
    REFUSES(ADAM, 0, "op adam: eps -1 and decay 0, which must be at least 0", desc->attributes.adam.eps = -1);
    REFUSES(ADAM, 0, "op adam: eps 0 and decay -1, which must be at least 0", desc->attributes.adam.eps = 0;
            desc->attributes.adam.decay = -1);
    REFUSES(ADAM, 0, "op adam: eps inf and decay 0, which must be at least 0", desc->attributes.adam.eps = INFINITY);
    REFUSES(ADAM, 0, "op adam: eps 0 and decay inf, which must be at least 0", desc->attributes.adam.eps = 0;
            desc->attributes.adam.decay = INFINITY);
    REFUSES(ADAM, 3, "op adam: decoupled must be 0 or 1, reserved 0", desc->attributes.adam.reserved = 1);
    REFUSES(ADAM, 3, "op adam: decoupled must be 0 or 1, reserved 0", desc->attributes.adam.decoupled = 2);
    REFUSES(ADAM, 3, "op adam: v is [3, 4, 4, 16], which must be [3, 4, 4, 17]",
            operand[GP_ADAM_V] = tensor_of(4, 3, 4, 4, 16));
}

static void test_counts(void **state) {
    (void)state;
    gp_op_case op_case;
    double flops, bytes;
    gp_op_case_make(GP_OP_CONV_FORWARD, 3, GP_F32, &op_case);
    gp_op_count(&op_case.desc, &flops, &bytes);
    assert_true(flops == 2.0 * (2 * 4 * 5) * 17 * 3 * 3 * 3);
    assert_true(bytes == 4.0 * (2 * 7 * 9 * 3 + 17 * 3 * 3 * 3 + 2 * 4 * 5 * 17));
    gp_op_case_make(GP_OP_CONV_BACKWARD_WEIGHTS, 3, GP_F32, &op_case);
    for (uint32_t times = 1; times <= 2; times++) {
        op_case.desc.flags = times == 2 ? GP_OP_ACCUMULATE : 0;
        gp_op_count(&op_case.desc, &flops, &bytes);
        assert_true(bytes == 4.0 * (2 * 7 * 9 * 3 + times * 17 * 3 * 3 * 3 + 2 * 4 * 5 * 17));
    }
    gp_op_case_make(GP_OP_SGD, 3, GP_F64, &op_case);
    gp_op_count(&op_case.desc, &flops, &bytes);
    assert_true(bytes == 8.0 * 3 * (3 * 4 * 4 * 17) + sizeof(gp_step_scalars));
}

/* What is done as one op computes what its parts do, and moves nothing between them. */
static void test_counts_of_wholes(void **state) {
    (void)state;
    const double elements = 3 * 4 * 4 * 17, vectors = 2 * 17;
    static const struct {
        gp_op_kind kind;
        double flops, passes, vectors; /* an element's; the vectors in pairs */
    } expected[] = {{GP_OP_NORM_APPLY_RELU, 4 + 1 + 1, 3, 1},
                    {GP_OP_NORM_RELU_BACKWARD_REDUCE, 5 + 1 + 2, 2, 2},
                    {GP_OP_NORM_RELU_BACKWARD_DATA, 7 + 1 + 2, 3, 2},
                    {GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, 5 + 1 + 1, 5, 2}};
    for (size_t e = 0; e < sizeof expected / sizeof expected[0]; e++) {
        gp_op_case op_case;
        double flops, bytes;
        gp_op_case_make(expected[e].kind, 3, GP_F32, &op_case); /* no gamma, no beta, and an addend */
        gp_op_count(&op_case.desc, &flops, &bytes);
        assert_true(flops == expected[e].flops * elements);
        assert_true(bytes == 4.0 * (expected[e].passes * elements + expected[e].vectors * vectors));
    }
}

static atomic_int prepares, releases;

static gp_status counting_prepare(gp_prepared *prepared, gp_error *err) {
    atomic_fetch_add(&prepares, 1);
    return gp_ref_kind.prepare(prepared, err);
}

static void counting_release(gp_prepared *prepared) {
    atomic_fetch_add(&releases, 1);
    gp_ref_kind.release(prepared);
}

static gp_device_kind counting_kind(void) {
    gp_device_kind kind = gp_ref_kind;
    kind.prepare = counting_prepare;
    kind.release = counting_release;
    atomic_store(&prepares, 0);
    atomic_store(&releases, 0);
    return kind;
}

static void test_cache_identity(void **state) {
    (void)state;
    const gp_device_kind kind = counting_kind();
    gp_error err = {0};
    gp_op_cache *cache;
    assert_int_equal(gp_op_cache_create(&cache, &err), GP_OK);
    gp_op_case op_case, again;
    gp_op_case_make(GP_OP_ADD, 3, GP_F32, &op_case);
    gp_op_case_make(GP_OP_ADD, 3, GP_F32, &again);
    const gp_prepared *first, *second;
    assert_int_equal(gp_op_prepare(cache, &kind, &op_case.desc, &first, &err), GP_OK);
    assert_int_equal(gp_op_prepare(cache, &kind, &again.desc, &second, &err), GP_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(atomic_load(&prepares), 1);
    assert_memory_equal(&first->desc, &op_case.desc, sizeof first->desc);
    assert_true(first->flops == 3 * 4 * 4 * 17);
    assert_int_equal(first->operand[GP_ADD_Y].bytes, 3 * 4 * 4 * 17 * 4);
    again.desc.threads = 2;
    assert_int_equal(gp_op_prepare(cache, &kind, &again.desc, &second, &err), GP_OK);
    assert_ptr_not_equal(first, second);
    assert_int_equal(gp_op_prepare(cache, &gp_ref_kind, &op_case.desc, &second, &err), GP_OK);
    assert_ptr_not_equal(first, second);

    second = first;
    op_case.desc.operand[GP_ADD_B].dim[0]++;
    assert_int_equal(gp_op_prepare(cache, &kind, &op_case.desc, &second, &err), GP_INTERNAL);
    gp_op_case_make(GP_OP_LINEAR_FORWARD, 3, GP_F32, &op_case);
    op_case.desc.operand[GP_LINEAR_FORWARD_W].format = 5;
    assert_int_equal(gp_op_prepare(cache, &kind, &op_case.desc, &second, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, "ref cannot linear_forward: w has format 5, and it knows only plain ones");
    assert_ptr_equal(second, first);
    gp_op_cache_destroy(&cache);
    assert_null(cache);
    assert_int_equal(atomic_load(&releases), 2);
    gp_op_cache_destroy(&cache);
}

enum { THREADS = 6, DESCRIPTORS = GP_OP_KINDS * GP_OP_CASES };

typedef struct visitor {
    pthread_t thread;
    pthread_barrier_t *start;
    gp_op_cache *cache;
    const gp_device_kind *kind;
    const gp_prepared *prepared[DESCRIPTORS];
    gp_status status;
} visitor;

static void *visit(void *argument) {
    visitor *v = argument;
    pthread_barrier_wait(v->start);
    for (int i = 0; i < DESCRIPTORS && v->status == GP_OK; i++) {
        gp_op_case op_case;
        gp_op_case_make((gp_op_kind)(i / GP_OP_CASES), i % GP_OP_CASES, GP_F32, &op_case);
        v->status = gp_op_prepare(v->cache, v->kind, &op_case.desc, &v->prepared[i], NULL);
    }
    return NULL;
}

static int count_distinct(const gp_prepared *const *prepared, int count) {
    int distinct = 0;
    for (int i = 0; i < count; i++) {
        int j = 0;
        while (j < i && memcmp(&prepared[j]->desc, &prepared[i]->desc, gp_op_desc_bytes(&prepared[i]->desc)) != 0) j++;
        distinct += j == i;
    }
    return distinct;
}

static void test_cache_from_many_threads(void **state) {
    (void)state;
    const gp_device_kind kind = counting_kind();
    gp_op_cache *cache;
    assert_int_equal(gp_op_cache_create(&cache, NULL), GP_OK);
    static visitor visitors[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int t = 0; t < THREADS; t++) {
        visitors[t] = (visitor){.start = &start, .cache = cache, .kind = &kind};
        assert_int_equal(pthread_create(&visitors[t].thread, NULL, visit, &visitors[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) pthread_join(visitors[t].thread, NULL);
    pthread_barrier_destroy(&start);
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(visitors[t].status, GP_OK);
        for (int i = 0; i < DESCRIPTORS; i++) assert_ptr_equal(visitors[t].prepared[i], visitors[0].prepared[i]);
    }
    int distinct = count_distinct(visitors[0].prepared, DESCRIPTORS);
    assert_int_equal(atomic_load(&prepares), distinct);
    gp_op_cache_destroy(&cache);
    assert_int_equal(atomic_load(&releases), distinct);
}

/* The bound that loops compare words with, at its two sides. */
static void test_dropout_bound(void **state) {
    (void)state;
    static const double rates[] = {0, 0x1p-26, 0x1p-24, 0.1, 0.25, 0.3, 0.5, 0.9, 1 - 0x1p-24, 1 - 0x1p-25};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        const gp_dropout_attributes dropout = {.p = rates[i]};
        uint32_t least = gp_dropout_least(&dropout);
        assert_in_range(least, 0, 1 << 24);
        if (least > 0) assert_false(gp_dropout_keeps(&dropout, (least - 1) << 8 | 0xff));
        if (least < 1 << 24) assert_true(gp_dropout_keeps(&dropout, least << 8));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_cases_pass_the_check),
        cmocka_unit_test(test_refuses_in_general),
        cmocka_unit_test(test_refuses_formats),
        cmocka_unit_test(test_refuses_products),
        cmocka_unit_test(test_refuses_norms),
        cmocka_unit_test(test_refuses_the_rest),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_counts_of_wholes),
        cmocka_unit_test(test_cache_identity),
        cmocka_unit_test(test_cache_from_many_threads),
        cmocka_unit_test(test_dropout_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
