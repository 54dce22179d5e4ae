/* The reference device's ops on small cases computed by hand, in f32 and f64, and the device itself. What holds for all
 * shapes is in test_ref_properties.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/op_bench.h"
#include "device/op_run.h"
#include "device/ref/ref.h"

static const gp_dtype reals[] = {GP_F32, GP_F64};
enum { REALS = 2 };

static op_bench begin(gp_op_kind kind) {
    op_bench bench;
    op_bench_init(&bench, &gp_ref_kind, kind);
    return bench;
}

static gp_conv_attributes conv_of(int64_t kh, int64_t kw, int64_t stride, int64_t pad) {
    return (gp_conv_attributes){{kh, kw}, {stride, stride}, {pad, pad}, {1, 1}, 1};
}

static void test_conv_forward(void **state) {
    (void)state;
    const double picture[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, kernel[] = {1, 2, 3, 4};
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        op_bench b = begin(GP_OP_CONV_FORWARD);
        b.op_case.desc.attributes.conv = conv_of(2, 2, 1, 0);
        op_bench_set(&b, GP_CONV_FORWARD_X, op_slice(dtype, 3, 4, 1, 3, 3, 1), picture);
        op_bench_set(&b, GP_CONV_FORWARD_W, op_plain(dtype, 4, 1, 1, 2, 2), kernel);
        op_bench_set(&b, GP_CONV_FORWARD_B, op_plain(dtype, 1, 1, 0, 0, 0), (const double[]){10});
        op_bench_set(&b, GP_CONV_FORWARD_Y, op_slice(dtype, 2, 4, 1, 2, 2, 1), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_CONV_FORWARD_Y, (const double[]){47, 57, 77, 87}, 0);
        op_bench_fini(&b);

        /* pad 1, dilation 2, stride 2 down and 1 across */
        b = begin(GP_OP_CONV_FORWARD);
        b.op_case.desc.attributes.conv = (gp_conv_attributes){{2, 2}, {2, 1}, {1, 1}, {2, 2}, 1};
        op_bench_set(&b, GP_CONV_FORWARD_X, op_plain(dtype, 4, 1, 3, 3, 1), picture);
        op_bench_set(&b, GP_CONV_FORWARD_W, op_plain(dtype, 4, 1, 1, 2, 2), kernel);
        op_bench_set(&b, GP_CONV_FORWARD_Y, op_plain(dtype, 4, 1, 2, 3, 1), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_CONV_FORWARD_Y, (const double[]){20, 36, 15, 10, 16, 5}, 0);
        op_bench_fini(&b);
    }
}

static void test_conv_forward_groups_and_rectangles(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        op_bench b = begin(GP_OP_CONV_FORWARD);
        b.op_case.desc.attributes.conv = conv_of(1, 1, 1, 0);
        b.op_case.desc.attributes.conv.groups = 2;
        op_bench_set(&b, GP_CONV_FORWARD_X, op_plain(dtype, 4, 1, 1, 1, 4), (const double[]){1, 2, 3, 4});
        op_bench_set(&b, GP_CONV_FORWARD_W, op_plain(dtype, 4, 2, 2, 1, 1), (const double[]){1, 10, 100, 1000});
        op_bench_set(&b, GP_CONV_FORWARD_Y, op_plain(dtype, 4, 1, 1, 1, 2), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_CONV_FORWARD_Y, (const double[]){21, 4300}, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_CONV_FORWARD);
        b.op_case.desc.attributes.conv = (gp_conv_attributes){{1, 3}, {1, 1}, {0, 1}, {1, 1}, 1};
        op_bench_set(&b, GP_CONV_FORWARD_X, op_plain(dtype, 4, 1, 1, 3, 1), (const double[]){1, 2, 3});
        op_bench_set(&b, GP_CONV_FORWARD_W, op_plain(dtype, 4, 1, 1, 1, 3), (const double[]){1, 10, 100});
        op_bench_set(&b, GP_CONV_FORWARD_Y, op_plain(dtype, 4, 1, 1, 3, 1), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_CONV_FORWARD_Y, (const double[]){210, 321, 32}, 0);
        op_bench_fini(&b);
    }
}

static void test_conv_backward(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        for (uint32_t flags = 0; flags <= GP_OP_ACCUMULATE; flags++) {
            op_bench b = begin(GP_OP_CONV_BACKWARD_WEIGHTS);
            b.op_case.desc.attributes.conv = conv_of(2, 2, 1, 0);
            b.op_case.desc.flags = flags;
            op_bench_set(&b, GP_CONV_BACKWARD_WEIGHTS_X, op_plain(dtype, 4, 1, 2, 2, 1), (const double[]){1, 2, 3, 4});
            op_bench_set(&b, GP_CONV_BACKWARD_WEIGHTS_DY, op_plain(dtype, 4, 1, 1, 1, 1), (const double[]){2});
            op_bench_set(&b, GP_CONV_BACKWARD_WEIGHTS_DW, op_plain(dtype, 4, 1, 1, 2, 2), (const double[]){1, 1, 1, 1});
            op_bench_set(&b, GP_CONV_BACKWARD_WEIGHTS_DB, op_plain(dtype, 1, 1, 0, 0, 0), (const double[]){5});
            op_bench_run(&b);
            double more = flags ? 1 : 0;
            op_bench_expect(&b, GP_CONV_BACKWARD_WEIGHTS_DW, (const double[]){2 + more, 4 + more, 6 + more, 8 + more},
                            0);
            op_bench_expect(&b, GP_CONV_BACKWARD_WEIGHTS_DB, (const double[]){flags ? 7 : 2}, 0);
            op_bench_fini(&b);
        }
        op_bench b = begin(GP_OP_CONV_BACKWARD_DATA);
        b.op_case.desc.attributes.conv = conv_of(2, 2, 1, 0);
        op_bench_set(&b, GP_CONV_BACKWARD_DATA_DY, op_plain(dtype, 4, 1, 1, 2, 1), (const double[]){1, 10});
        op_bench_set(&b, GP_CONV_BACKWARD_DATA_W, op_plain(dtype, 4, 1, 1, 2, 2), (const double[]){1, 2, 3, 4});
        op_bench_set(&b, GP_CONV_BACKWARD_DATA_DX, op_slice(dtype, 1, 4, 1, 2, 3, 1), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_CONV_BACKWARD_DATA_DX, (const double[]){1, 12, 20, 3, 34, 40}, 0);
        op_bench_fini(&b);
    }
}

static void test_linear(void **state) {
    (void)state;
    const double x[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 0, 1, 2, 1, 0}, dy[] = {1, 2, 3, 4};
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        op_bench b = begin(GP_OP_LINEAR_FORWARD);
        op_bench_set(&b, GP_LINEAR_FORWARD_X, op_slice(dtype, 2, 3, 1, 2, 3, 0), x);
        op_bench_set(&b, GP_LINEAR_FORWARD_W, op_plain(dtype, 2, 2, 3, 0, 0), w);
        op_bench_set(&b, GP_LINEAR_FORWARD_B, op_plain(dtype, 1, 2, 0, 0, 0), (const double[]){100, 200});
        op_bench_set(&b, GP_LINEAR_FORWARD_Y, op_slice(dtype, 1, 3, 1, 2, 2, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_LINEAR_FORWARD_Y, (const double[]){104, 204, 110, 213}, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_LINEAR_BACKWARD_DATA);
        op_bench_set(&b, GP_LINEAR_BACKWARD_DATA_DY, op_slice(dtype, 1, 2, 2, 2, 0, 0), dy);
        op_bench_set(&b, GP_LINEAR_BACKWARD_DATA_W, op_plain(dtype, 2, 2, 3, 0, 0), w);
        op_bench_set(&b, GP_LINEAR_BACKWARD_DATA_DX, op_slice(dtype, 2, 2, 2, 3, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_LINEAR_BACKWARD_DATA_DX, (const double[]){5, 2, 1, 11, 4, 3}, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_LINEAR_BACKWARD_WEIGHTS);
        b.op_case.desc.flags = GP_OP_ACCUMULATE;
        op_bench_set(&b, GP_LINEAR_BACKWARD_WEIGHTS_X, op_slice(dtype, 1, 2, 2, 3, 0, 0), x);
        op_bench_set(&b, GP_LINEAR_BACKWARD_WEIGHTS_DY, op_plain(dtype, 2, 2, 2, 0, 0), dy);
        op_bench_set(&b, GP_LINEAR_BACKWARD_WEIGHTS_DW, op_plain(dtype, 2, 2, 3, 0, 0), (const double[6]){0, 1});
        op_bench_set(&b, GP_LINEAR_BACKWARD_WEIGHTS_DB, op_plain(dtype, 1, 2, 0, 0, 0), (const double[]){1, 0});
        op_bench_run(&b);
        op_bench_expect(&b, GP_LINEAR_BACKWARD_WEIGHTS_DW, (const double[]){13, 18, 21, 18, 24, 30}, 0);
        op_bench_expect(&b, GP_LINEAR_BACKWARD_WEIGHTS_DB, (const double[]){5, 6}, 0);
        op_bench_fini(&b);
    }
}

static void test_norm_forward(void **state) {
    (void)state;
    const double x[] = {1, 0, 2, 0, 3, 4, 4, 4};
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        op_bench b = begin(GP_OP_NORM_STATISTICS);
        op_bench_set(&b, GP_NORM_STATISTICS_X, op_slice(dtype, 1, 4, 2, 1, 2, 2), x);
        op_bench_set(&b, GP_NORM_STATISTICS_STATS, op_slice(dtype, 3, 2, 3, 2, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_STATISTICS_STATS, (const double[]){2.5, 2, 1.25, 4, 0, 0}, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_NORM_APPLY);
        b.op_case.desc.attributes.norm.eps = 5;
        op_bench_set(&b, GP_NORM_APPLY_X, op_slice(dtype, 1, 2, 2, 2, 0, 0), (const double[]){7, 0, 1, 6});
        op_bench_set(&b, GP_NORM_APPLY_MEAN, op_plain(dtype, 1, 2, 0, 0, 0), (const double[]){1, 2});
        op_bench_set(&b, GP_NORM_APPLY_VARIANCE, op_plain(dtype, 1, 2, 0, 0, 0), (const double[]){4, 11});
        op_bench_set(&b, GP_NORM_APPLY_Y, op_slice(dtype, 2, 2, 2, 2, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_APPLY_Y, (const double[]){2, -0.5, 0, 1}, 1e-7);
        op_bench_set(&b, GP_NORM_APPLY_GAMMA, op_plain(dtype, 1, 2, 0, 0, 0), (const double[]){3, -2});
        op_bench_set(&b, GP_NORM_APPLY_BETA, op_plain(dtype, 1, 2, 0, 0, 0), (const double[]){0.5, 10});
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_APPLY_Y, (const double[]){6.5, 11, 0.5, 8}, 1e-6);
        op_bench_fini(&b);
    }
}

/* x̂ = {−1, 1} by mean 3, variance 4, eps 0; dy = {1, 4}: Σ dy·x̂ = 3, Σ dy = 5, dx = γ/2·(dy − (5 + x̂·3)/2). */
static void test_norm_backward(void **state) {
    (void)state;
    const double x[] = {1, 5}, dy[] = {1, 4}, mean = 3, variance = 4, gamma = 10, sums[] = {3, 5};
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        gp_tensor values = op_slice(dtype, 1, 2, 2, 1, 0, 0), number = op_plain(dtype, 1, 1, 0, 0, 0);
        gp_tensor pair = op_slice(dtype, 1, 2, 2, 1, 0, 0);
        op_bench b = begin(GP_OP_NORM_BACKWARD_REDUCE);
        op_bench_set(&b, GP_NORM_BACKWARD_REDUCE_X, values, x);
        op_bench_set(&b, GP_NORM_BACKWARD_REDUCE_DY, values, dy);
        op_bench_set(&b, GP_NORM_BACKWARD_REDUCE_MEAN, number, &mean);
        op_bench_set(&b, GP_NORM_BACKWARD_REDUCE_VARIANCE, number, &variance);
        op_bench_set(&b, GP_NORM_BACKWARD_REDUCE_SUMS, pair, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_BACKWARD_REDUCE_SUMS, sums, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_NORM_BACKWARD_DATA);
        op_bench_set(&b, GP_NORM_BACKWARD_DATA_X, values, x);
        op_bench_set(&b, GP_NORM_BACKWARD_DATA_DY, values, dy);
        op_bench_set(&b, GP_NORM_BACKWARD_DATA_MEAN, number, &mean);
        op_bench_set(&b, GP_NORM_BACKWARD_DATA_VARIANCE, number, &variance);
        op_bench_set(&b, GP_NORM_BACKWARD_DATA_GAMMA, number, &gamma);
        op_bench_set(&b, GP_NORM_BACKWARD_DATA_SUMS, pair, (const double[]){1, 5});
        op_bench_set(&b, GP_NORM_BACKWARD_DATA_DX, values, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_BACKWARD_DATA_DX, (const double[]){-5, 5}, 0);
        op_bench_fini(&b);
    }
}

/* x first, mean and variance from `mean` on; eps 0. */
static op_bench begin_norm(gp_op_kind kind, gp_dtype dtype, int mean) {
    const double x[] = {1, 5}, three = 3, four = 4;
    op_bench b = begin(kind);
    op_bench_set(&b, 0, op_slice(dtype, 1, 2, 2, 1, 0, 0), x);
    op_bench_set(&b, mean, op_plain(dtype, 1, 1, 0, 0, 0), &three);
    op_bench_set(&b, mean + 1, op_plain(dtype, 1, 1, 0, 0, 0), &four);
    return b;
}

/* The same x̂ = {−1, 1}, gamma 10, beta −4: z = {−14, 6}, or {1, −1} with an addend; dy = {1, 4} becomes {0, 4}, or
 * {1, 0}. */
static void test_norm_and_relu(void **state) {
    (void)state;
    const double gamma = 10, beta = -4, addend[] = {15, -7}, dy[] = {1, 4};
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        gp_tensor values = op_slice(dtype, 2, 2, 2, 1, 0, 0), number = op_plain(dtype, 1, 1, 0, 0, 0);
        gp_tensor pair = op_slice(dtype, 1, 2, 2, 1, 0, 0);
        op_bench b = begin_norm(GP_OP_NORM_APPLY_RELU, dtype, GP_NORM_APPLY_RELU_MEAN);
        op_bench_set(&b, GP_NORM_APPLY_RELU_GAMMA, number, &gamma);
        op_bench_set(&b, GP_NORM_APPLY_RELU_BETA, number, &beta);
        op_bench_set(&b, GP_NORM_APPLY_RELU_Y, values, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_APPLY_RELU_Y, (const double[]){0, 6}, 0);
        op_bench_set(&b, GP_NORM_APPLY_RELU_ADDEND, values, addend);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_APPLY_RELU_Y, (const double[]){1, 0}, 0);
        op_bench_fini(&b);

        b = begin_norm(GP_OP_NORM_RELU_BACKWARD_REDUCE, dtype, GP_NORM_RELU_BACKWARD_REDUCE_MEAN);
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_REDUCE_DY, values, dy);
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_REDUCE_GAMMA, number, &gamma);
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_REDUCE_BETA, number, &beta);
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_REDUCE_SUMS, pair, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_RELU_BACKWARD_REDUCE_SUMS, (const double[]){4, 4}, 0);
        op_bench_fini(&b);

        b = begin_norm(GP_OP_NORM_RELU_BACKWARD_DATA, dtype, GP_NORM_RELU_BACKWARD_DATA_MEAN);
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_DATA_DY, values, dy);
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_DATA_GAMMA, number, &gamma);
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_DATA_BETA, number, &beta);
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_DATA_SUMS, pair, (const double[]){1, 5});
        op_bench_set(&b, GP_NORM_RELU_BACKWARD_DATA_DX, values, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_RELU_BACKWARD_DATA_DX, (const double[]){-10, 5}, 0);
        op_bench_fini(&b);

        b = begin_norm(GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE, dtype, GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN);
        op_bench_set(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y, values, (const double[]){1, 0});
        op_bench_set(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY, values, dy);
        op_bench_set(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, values, NULL);
        op_bench_set(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS, pair, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, (const double[]){1, 0}, 0);
        op_bench_expect(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS, (const double[]){-1, 1}, 0);
        op_bench_set(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_ADDEND, values, (const double[]){2, 5});
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, (const double[]){3, 0}, 0);
        op_bench_expect(&b, GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS, (const double[]){-3, 3}, 0);
        op_bench_fini(&b);
    }
}

static void test_relu(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        gp_tensor values = op_slice(reals[r], 1, 2, 2, 2, 0, 0);
        op_bench b = begin(GP_OP_RELU_FORWARD);
        op_bench_set(&b, GP_RELU_FORWARD_X, values, (const double[]){-1, 2, NAN, 0});
        op_bench_set(&b, GP_RELU_FORWARD_Y, values, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_RELU_FORWARD_Y, (const double[]){0, 2, NAN, 0}, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_RELU_BACKWARD);
        op_bench_set(&b, GP_RELU_BACKWARD_Y, values, (const double[]){0, 2, 0.5, 0});
        op_bench_set(&b, GP_RELU_BACKWARD_DY, values, (const double[]){5, -6, 7, 8});
        op_bench_set(&b, GP_RELU_BACKWARD_DX, values, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_RELU_BACKWARD_DX, (const double[]){0, -6, 7, 0}, 0);
        op_bench_fini(&b);
    }
}

/* Values at 0, ±1 and −3, as PyTorch has them; of sigmoid and tanh the gradient is a function of the value. */
static void test_activations(void **state) {
    (void)state;
    const double x[] = {0, 1, -1, -3}, dy[] = {1, 2, 1, -1};
    static const struct {
        gp_activation function;
        double slope, y[4], dx[4];
    } table[] = {
        {GP_LEAKY_RELU, 0.25, {0, 1, -0.25, -0.75}, {0.25, 2, 0.25, -0.25}},
        {GP_GELU,
         0,
         {0, 0.841344746069, -0.158655253931, -0.00404969409489},
         {0.5, 2.16663094118, -0.0833154705877, 0.0119456472042}},
        {GP_GELU_TANH,
         0,
         {0, 0.841191990608, -0.158808009392, -0.00363739208177},
         {0.5, 2.16592816769, -0.0829640838458, 0.011584166631}},
        {GP_SILU,
         0,
         {0, 0.73105857863, -0.26894142137, -0.142277619533},
         {0.5, 1.85534102374, 0.0723294881285, 0.0881041060152}},
        {GP_SIGMOID,
         0,
         {0.5, 0.73105857863, 0.26894142137, 0.0474258731776},
         {0.25, 0.393223866483, 0.196611933241, -0.0451766597309}},
        {GP_TANH,
         0,
         {0, 0.761594155956, -0.761594155956, -0.995054753687},
         {1, 0.839948683228, 0.419974341614, -0.00986603716544}},
    };
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
        for (int r = 0; r < REALS; r++) {
            gp_tensor values = op_slice(reals[r], 1, 2, 2, 2, 0, 0);
            op_bench b = begin(GP_OP_ACTIVATION_FORWARD);
            b.op_case.desc.attributes.activation.function = (uint32_t)table[t].function;
            b.op_case.desc.attributes.activation.slope = table[t].slope;
            op_bench_set(&b, GP_ACTIVATION_FORWARD_X, values, x);
            op_bench_set(&b, GP_ACTIVATION_FORWARD_Y, values, NULL);
            op_bench_run(&b);
            op_bench_expect(&b, GP_ACTIVATION_FORWARD_Y, table[t].y, 1e-7);
            op_bench d = begin(GP_OP_ACTIVATION_BACKWARD);
            d.op_case.desc.attributes = b.op_case.desc.attributes;
            bool output = gp_activation_takes_output(table[t].function);
            op_bench_set(&d, GP_ACTIVATION_BACKWARD_A, values, output ? table[t].y : x);
            op_bench_set(&d, GP_ACTIVATION_BACKWARD_DY, values, dy);
            op_bench_set(&d, GP_ACTIVATION_BACKWARD_DX, values, NULL);
            op_bench_run(&d);
            op_bench_expect(&d, GP_ACTIVATION_BACKWARD_DX, table[t].dx, 1e-7);
            op_bench_fini(&b);
            op_bench_fini(&d);
        }
    }
}

/* Two samples of two rows and two channels. The first has mean 2 and variance 2 in one group; its channels by
 * themselves have means 1 and 3, variance 1. The second has mean 2 and variance 1 either way. */
static void test_group_norm(void **state) {
    (void)state;
    const double x[] = {0, 2, 2, 4, 1, 1, 3, 3}, eps = 0.5;
    for (int r = 0; r < REALS; r++) {
        for (int64_t groups = 1; groups <= 2; groups++) {
            gp_tensor values = op_slice(reals[r], 1, 4, 2, 2, 1, 2), stats = op_slice(reals[r], 1, 3, 2, groups, 2, 0);
            gp_tensor vector = op_plain(reals[r], 1, 2, 0, 0, 0);
            double y[8], expected[8];
            for (int64_t i = 0; i < 8; i++) {
                int64_t n = i / 4, group = groups == 2 ? i % 2 : 0;
                double mean = n == 1 ? 2 : groups == 2 ? (group ? 3 : 1) : 2;
                double inverse = 1 / sqrt((n == 1 || groups == 2 ? 1 : 2) + eps);
                y[i] = (x[i] - mean) * inverse * (i % 2 ? -2 : 3) + (i % 2 ? 1 : 0);
                expected[(n * groups + group) * 2] = mean;
                expected[(n * groups + group) * 2 + 1] = inverse;
            }
            op_bench b = begin(GP_OP_GROUP_NORM_FORWARD);
            b.op_case.desc.attributes.group_norm = (gp_group_norm_attributes){eps, groups};
            op_bench_set(&b, GP_GROUP_NORM_FORWARD_X, values, x);
            op_bench_set(&b, GP_GROUP_NORM_FORWARD_GAMMA, vector, (const double[]){3, -2});
            op_bench_set(&b, GP_GROUP_NORM_FORWARD_BETA, vector, (const double[]){0, 1});
            op_bench_set(&b, GP_GROUP_NORM_FORWARD_Y, values, NULL);
            op_bench_set(&b, GP_GROUP_NORM_FORWARD_STATS, stats, NULL);
            op_bench_run(&b);
            op_bench_expect(&b, GP_GROUP_NORM_FORWARD_Y, y, 1e-6);
            op_bench_expect(&b, GP_GROUP_NORM_FORWARD_STATS, expected, 1e-6);
            op_bench_fini(&b);
        }
    }
}

/* One group of (0, 2) and one of (1, 5): means 1 and 3, 1/deviation given as 1 and 0.5. */
static void test_group_norm_backward(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        gp_tensor values = op_slice(reals[r], 1, 2, 2, 2, 0, 0), stats = op_slice(reals[r], 1, 3, 2, 1, 2, 0);
        gp_tensor vector = op_plain(reals[r], 1, 2, 0, 0, 0);
        const double x[] = {0, 2, 1, 5}, dy[] = {1, 3, 2, -4}, pairs[] = {1, 1, 3, 0.5};
        op_bench b = begin(GP_OP_GROUP_NORM_BACKWARD_DATA);
        b.op_case.desc.attributes.group_norm = (gp_group_norm_attributes){1e-5, 1};
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_DATA_X, values, x);
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_DATA_DY, values, dy);
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_DATA_STATS, stats, pairs);
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_DATA_GAMMA, vector, (const double[]){2, 1});
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_DATA_DX, values, NULL);
        op_bench_run(&b);
        /* dy·gamma is (2, 3) and (4, −4), x̂ is (−1, 1) twice: what is left after means and products is nothing */
        op_bench_expect(&b, GP_GROUP_NORM_BACKWARD_DATA_DX, (const double[]){0, 0, 0, 0}, 1e-6);
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_DATA_STATS, stats, (const double[]){0, 1, 1, 0.5});
        op_bench_run(&b);
        /* x̂ is (0, 2) and (0, 2): products 6 and −8, sums 5 and 0 */
        op_bench_expect(&b, GP_GROUP_NORM_BACKWARD_DATA_DX, (const double[]){-0.5, -5.5, 2, 2}, 1e-6);
        op_bench_fini(&b);

        b = begin(GP_OP_GROUP_NORM_BACKWARD_WEIGHTS);
        b.op_case.desc.attributes.group_norm = (gp_group_norm_attributes){1e-5, 1};
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_X, values, x);
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_DY, values, dy);
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_STATS, stats, pairs);
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA, vector, NULL);
        op_bench_set(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA, vector, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA, (const double[]){-3, -1}, 0);
        op_bench_expect(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA, (const double[]){3, -1}, 0);
        b.op_case.desc.flags = GP_OP_ACCUMULATE;
        op_bench_run(&b);
        op_bench_expect(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA, (const double[]){-6, -2}, 0);
        op_bench_expect(&b, GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA, (const double[]){6, -2}, 0);
        op_bench_fini(&b);
    }
}

static void test_max_pool(void **state) {
    (void)state;
    const gp_pool_attributes padded = {{2, 2}, {2, 2}, {1, 1}, 0}, ceil = {{2, 2}, {2, 2}, {0, 0}, 0};
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        /* windows of rows {0}, {1,2} and as many columns: padding does not win over what is negative, the first of
         * equals wins over the second, NaN over all */
        op_bench b = begin(GP_OP_MAX_POOL_FORWARD);
        b.op_case.desc.attributes.pool = padded;
        op_bench_set(&b, GP_MAX_POOL_FORWARD_X, op_slice(dtype, 1, 4, 1, 3, 3, 1),
                     (const double[]){-7, -3, -3, 4, 9, NAN, 5, NAN, 1});
        op_bench_set(&b, GP_MAX_POOL_FORWARD_Y, op_slice(dtype, 2, 4, 1, 2, 2, 1), NULL);
        op_bench_set(&b, GP_MAX_POOL_FORWARD_INDEX, op_slice(GP_U8, 2, 4, 1, 2, 2, 1), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_MAX_POOL_FORWARD_Y, (const double[]){-7, -3, 5, NAN}, 0);
        op_bench_expect(&b, GP_MAX_POOL_FORWARD_INDEX, (const double[]){3, 2, 3, 1}, 0);
        op_bench_fini(&b);

        /* ceil mode: the last windows overhang; no index asked for */
        b = begin(GP_OP_MAX_POOL_FORWARD);
        b.op_case.desc.attributes.pool = ceil;
        op_bench_set(&b, GP_MAX_POOL_FORWARD_X, op_plain(dtype, 4, 1, 3, 3, 1),
                     (const double[]){1, 2, 3, 4, 5, 6, 7, 8, -9});
        op_bench_set(&b, GP_MAX_POOL_FORWARD_Y, op_plain(dtype, 4, 1, 2, 2, 1), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_MAX_POOL_FORWARD_Y, (const double[]){5, 6, 8, -9}, 0);
        op_bench_fini(&b);

        /* windows {0,1,2} and {1,2,3}: both chose element 2 of channel 0, elements 0 and 3 of channel 1 */
        b = begin(GP_OP_MAX_POOL_BACKWARD);
        b.op_case.desc.attributes.pool = (gp_pool_attributes){{1, 3}, {1, 1}, {0, 0}, 0};
        op_bench_set(&b, GP_MAX_POOL_BACKWARD_INDEX, op_slice(GP_U8, 1, 4, 1, 1, 2, 2), (const double[]){2, 0, 1, 2});
        op_bench_set(&b, GP_MAX_POOL_BACKWARD_DY, op_slice(dtype, 1, 4, 1, 1, 2, 2), (const double[]){1, 10, 2, 20});
        op_bench_set(&b, GP_MAX_POOL_BACKWARD_DX, op_slice(dtype, 1, 4, 1, 1, 4, 2), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_MAX_POOL_BACKWARD_DX, (const double[]){0, 10, 0, 0, 3, 0, 0, 20}, 0);
        op_bench_fini(&b);
    }
}

/* Windows of 1x257 places, each one further on: a place that a byte cannot name. */
static void test_max_pool_of_large_windows(void **state) {
    (void)state;
    double x[260], dx[260] = {0};
    for (int i = 0; i < 260; i++) x[i] = i < 258 ? i : -1;
    for (int r = 0; r < REALS; r++) {
        op_bench b = begin(GP_OP_MAX_POOL_FORWARD);
        b.op_case.desc.attributes.pool = (gp_pool_attributes){{1, 257}, {1, 1}, {0, 0}, 0};
        op_bench_set(&b, GP_MAX_POOL_FORWARD_X, op_plain(reals[r], 4, 1, 1, 260, 1), x);
        op_bench_set(&b, GP_MAX_POOL_FORWARD_Y, op_plain(reals[r], 4, 1, 1, 4, 1), NULL);
        op_bench_set(&b, GP_MAX_POOL_FORWARD_INDEX, op_plain(GP_I32, 4, 1, 1, 4, 1), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_MAX_POOL_FORWARD_Y, (const double[]){256, 257, 257, 257}, 0);
        op_bench_expect(&b, GP_MAX_POOL_FORWARD_INDEX, (const double[]){256, 256, 255, 254}, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_MAX_POOL_BACKWARD);
        b.op_case.desc.attributes.pool = (gp_pool_attributes){{1, 257}, {1, 1}, {0, 0}, 0};
        op_bench_set(&b, GP_MAX_POOL_BACKWARD_INDEX, op_plain(GP_I32, 4, 1, 1, 4, 1),
                     (const double[]){256, 256, 255, 254});
        op_bench_set(&b, GP_MAX_POOL_BACKWARD_DY, op_plain(reals[r], 4, 1, 1, 4, 1), (const double[]){1, 2, 4, 8});
        op_bench_set(&b, GP_MAX_POOL_BACKWARD_DX, op_plain(reals[r], 4, 1, 1, 260, 1), NULL);
        op_bench_run(&b);
        dx[256] = 1;
        dx[257] = 14;
        op_bench_expect(&b, GP_MAX_POOL_BACKWARD_DX, dx, 0);
        op_bench_fini(&b);
    }
}

/* One row of 1 … 4, windows of 3 two apart, one place of padding on each side; rounded up a third window would begin in
 * the padding. Without a second row of padding a window of 2x3 counts its places in one row. */
static void test_avg_pool(void **state) {
    (void)state;
    const struct {
        gp_pool_attributes pool;
        int64_t windows;
        double y[3], dx[4];
    } expected[] = {
        {{{1, 3}, {1, 2}, {0, 1}, 1}, 2, {1, 3}, {4, 12, 8, 8}},
        {{{1, 3}, {1, 2}, {0, 1}, 0}, 2, {1.5, 3}, {6, 14, 8, 8}},
        {{{1, 3}, {1, 3}, {0, 1}, 1}, 2, {1, 7.0 / 3}, {4, 4, 8, 8}},
        {{{1, 3}, {1, 2}, {0, 0}, 1}, 2, {2, 3.5}, {4, 4, 16, 12}},
        {{{1, 3}, {1, 2}, {0, 0}, 0}, 2, {2, 3.5}, {4, 4, 16, 12}},
        {{{1, 4}, {1, 3}, {0, 2}, 1}, 2, {0.75, 9.0 / 4}, {3, 9, 6, 6}},
    };
    for (int r = 0; r < REALS; r++) {
        for (size_t e = 0; e < sizeof expected / sizeof expected[0]; e++) {
            int64_t windows = expected[e].windows;
            op_bench b = begin(GP_OP_AVG_POOL_FORWARD);
            b.op_case.desc.attributes.pool = expected[e].pool;
            op_bench_set(&b, GP_AVG_POOL_FORWARD_X, op_slice(reals[r], 1, 4, 1, 1, 4, 1), (const double[]){1, 2, 3, 4});
            op_bench_set(&b, GP_AVG_POOL_FORWARD_Y, op_slice(reals[r], 2, 4, 1, 1, windows, 1), NULL);
            op_bench_run(&b);
            op_bench_expect(&b, GP_AVG_POOL_FORWARD_Y, expected[e].y, reals[r] == GP_F32 ? 1e-6 : 1e-15);
            op_bench_fini(&b);

            b = begin(GP_OP_AVG_POOL_BACKWARD);
            b.op_case.desc.attributes.pool = expected[e].pool;
            op_bench_set(&b, GP_AVG_POOL_BACKWARD_DY, op_slice(reals[r], 1, 4, 1, 1, windows, 1),
                         (const double[]){12, 24});
            op_bench_set(&b, GP_AVG_POOL_BACKWARD_DX, op_slice(reals[r], 2, 4, 1, 1, 4, 1), NULL);
            op_bench_run(&b);
            op_bench_expect(&b, GP_AVG_POOL_BACKWARD_DX, expected[e].dx, 1e-14);
            op_bench_fini(&b);
        }
    }
}

static void test_upsample(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        op_bench b = begin(GP_OP_UPSAMPLE_FORWARD);
        op_bench_set(&b, GP_UPSAMPLE_FORWARD_X, op_slice(reals[r], 1, 4, 1, 1, 2, 2), (const double[]){1, 10, 2, 20});
        op_bench_set(&b, GP_UPSAMPLE_FORWARD_Y, op_slice(reals[r], 2, 4, 1, 2, 4, 2), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_UPSAMPLE_FORWARD_Y,
                        (const double[]){1, 10, 1, 10, 2, 20, 2, 20, 1, 10, 1, 10, 2, 20, 2, 20}, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_UPSAMPLE_BACKWARD);
        op_bench_set(&b, GP_UPSAMPLE_BACKWARD_DY, op_slice(reals[r], 1, 4, 1, 2, 4, 1),
                     (const double[]){1, 2, 3, 4, 10, 20, 30, 40});
        op_bench_set(&b, GP_UPSAMPLE_BACKWARD_DX, op_slice(reals[r], 2, 4, 1, 1, 2, 1), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_UPSAMPLE_BACKWARD_DX, (const double[]){33, 77}, 0);
        op_bench_fini(&b);
    }
}

static void test_mean_pool(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        op_bench b = begin(GP_OP_MEAN_POOL_FORWARD);
        op_bench_set(&b, GP_MEAN_POOL_FORWARD_X, op_slice(dtype, 1, 4, 1, 2, 2, 2),
                     (const double[]){1, 10, 2, 20, 3, 30, 6, 60});
        op_bench_set(&b, GP_MEAN_POOL_FORWARD_Y, op_slice(dtype, 1, 4, 1, 1, 1, 2), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_MEAN_POOL_FORWARD_Y, (const double[]){3, 30}, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_MEAN_POOL_BACKWARD);
        op_bench_set(&b, GP_MEAN_POOL_BACKWARD_DY, op_slice(dtype, 1, 4, 1, 1, 1, 2), (const double[]){4, 8});
        op_bench_set(&b, GP_MEAN_POOL_BACKWARD_DX, op_slice(dtype, 1, 4, 1, 2, 2, 2), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_MEAN_POOL_BACKWARD_DX, (const double[]){1, 2, 1, 2, 1, 2, 1, 2}, 0);
        op_bench_fini(&b);
    }
}

/* [n,h,w,c] = [1,2,2,2]: channel 0 is 1…4, channel 1 is 5…8. */
static void test_flatten(void **state) {
    (void)state;
    const double picture[] = {1, 5, 2, 6, 3, 7, 4, 8}, flat[] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int r = 0; r < REALS; r++) {
        gp_dtype dtype = reals[r];
        op_bench b = begin(GP_OP_FLATTEN);
        op_bench_set(&b, GP_FLATTEN_X, op_slice(dtype, 1, 4, 1, 2, 2, 2), picture);
        op_bench_set(&b, GP_FLATTEN_Y, op_slice(dtype, 3, 2, 1, 8, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_FLATTEN_Y, flat, 0);
        op_bench_set(&b, GP_FLATTEN_X, op_slice(dtype, 1, 3, 1, 4, 2, 0), picture);
        op_bench_run(&b);
        op_bench_expect(&b, GP_FLATTEN_Y, picture, 0);
        op_bench_fini(&b);

        b = begin(GP_OP_UNFLATTEN);
        op_bench_set(&b, GP_FLATTEN_X, op_slice(dtype, 3, 2, 1, 8, 0, 0), flat);
        op_bench_set(&b, GP_FLATTEN_Y, op_slice(dtype, 1, 4, 1, 2, 2, 2), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_FLATTEN_Y, picture, 0);
        op_bench_fini(&b);
    }
}

static void test_add(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        op_bench b = begin(GP_OP_ADD);
        op_bench_set(&b, GP_ADD_A, op_slice(reals[r], 1, 2, 2, 2, 0, 0), (const double[]){1, 2, 3, 4});
        op_bench_set(&b, GP_ADD_B, op_slice(reals[r], 2, 2, 2, 2, 0, 0), (const double[]){10, 20, 30, 40});
        op_bench_set(&b, GP_ADD_Y, op_slice(reals[r], 3, 2, 2, 2, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_ADD_Y, (const double[]){11, 22, 33, 44}, 0);
        op_bench_fini(&b);
    }
}

static void test_copy_reorder_fill(void **state) {
    (void)state;
    static const gp_dtype all[] = {GP_F32, GP_F64, GP_I32, GP_I64, GP_U8};
    const double values[] = {1, 2, 3, 4};
    for (size_t t = 0; t < sizeof all / sizeof all[0]; t++) {
        for (int k = 0; k < 2; k++) {
            op_bench b = begin(k ? GP_OP_REORDER : GP_OP_COPY);
            op_bench_set(&b, GP_COPY_X, op_slice(all[t], 1, 2, 2, 2, 0, 0), values);
            op_bench_set(&b, GP_COPY_Y, op_slice(all[t], 2, 2, 2, 2, 0, 0), NULL);
            op_bench_run(&b);
            op_bench_expect(&b, GP_COPY_Y, values, 0);
            op_bench_fini(&b);
        }
        op_bench b = begin(GP_OP_FILL);
        op_bench_set(&b, GP_FILL_Y, op_slice(all[t], 2, 2, 2, 2, 0, 0), values);
        op_bench_run(&b);
        op_bench_expect(&b, GP_FILL_Y, (const double[4]){0}, 0);
        op_bench_fini(&b);
    }
}

static void test_cross_entropy_forward(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        /* log 2; then 1000 and not infinity; then nothing, ignored; then a tie that the first class wins */
        op_bench b = begin(GP_OP_CROSS_ENTROPY_FORWARD);
        b.op_case.desc.attributes.cross_entropy.ignore = -100;
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_X, op_slice(reals[r], 1, 2, 4, 2, 0, 0),
                     (const double[]){0, 0, 1000, 0, 3, 4, 7, 7});
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_TARGET, op_plain(GP_I64, 1, 4, 0, 0, 0),
                     (const double[]){0, 1, -100, 0});
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_PARTIAL, op_plain(GP_F64, 1, 2, 0, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_CROSS_ENTROPY_FORWARD_PARTIAL, (const double[]){1000 + 2 * log(2), 2}, 1e-12);

        op_bench_put(&b, GP_CROSS_ENTROPY_FORWARD_TARGET, 2, 2);
        gp_error err = {0};
        assert_int_equal(op_bench_try(&b, &err), GP_DATA);
        assert_string_equal(
            err.text,
            "cross_entropy_forward: target 2 of row 2 is not a class: classes are 0 to 1, and -100 is ignored");
        op_bench_put(&b, GP_CROSS_ENTROPY_FORWARD_TARGET, 2, -1);
        assert_int_equal(op_bench_try(&b, &err), GP_DATA);

        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_X, op_plain(reals[r], 3, 1, 4, 2, 0), (const double[8]){0});
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_TARGET, op_plain(GP_I64, 2, 1, 4, 0, 0),
                     (const double[]){-100, -100, -100, -100});
        op_bench_run(&b);
        op_bench_expect(&b, GP_CROSS_ENTROPY_FORWARD_PARTIAL, (const double[]){0, 0}, 0);
        op_bench_fini(&b);
    }
}

static void test_cross_entropy_backward(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        gp_tensor logits = op_slice(reals[r], 1, 2, 3, 2, 0, 0);
        op_bench b = begin(GP_OP_CROSS_ENTROPY_BACKWARD);
        b.op_case.desc.attributes.cross_entropy.ignore = -100;
        op_bench_set(&b, GP_CROSS_ENTROPY_BACKWARD_X, logits, (const double[]){0, 0, NAN, 1, 1000, 0});
        op_bench_set(&b, GP_CROSS_ENTROPY_BACKWARD_TARGET, op_plain(GP_I64, 1, 3, 0, 0, 0),
                     (const double[]){1, -100, 1});
        op_bench_scalars(&b, GP_CROSS_ENTROPY_BACKWARD_SCALARS, (gp_step_scalars){.divisor = 4});
        op_bench_set(&b, GP_CROSS_ENTROPY_BACKWARD_DX, logits, NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_CROSS_ENTROPY_BACKWARD_DX, (const double[]){0.125, -0.125, 0, 0, 0.25, -0.25}, 1e-8);
        op_bench_put(&b, GP_CROSS_ENTROPY_BACKWARD_TARGET, 0, 2);
        gp_error err = {0};
        assert_int_equal(op_bench_try(&b, &err), GP_DATA);
        op_bench_fini(&b);
    }
}

/* Logits [0, log 3] give [1/4, 3/4]; class 0 is the one to ignore. */
static void test_cross_entropy_smoothing_and_ignore(void **state) {
    (void)state;
    const double log3 = log(3), a = -log(0.25), b_ = -log(0.75), smoothing[] = {0, 0.2, 1};
    for (int s = 0; s < 3; s++) {
        gp_tensor logits = op_slice(GP_F64, 1, 2, 2, 2, 0, 0);
        op_bench b = begin(GP_OP_CROSS_ENTROPY_FORWARD);
        b.op_case.desc.attributes.cross_entropy = (gp_cross_entropy_attributes){smoothing[s], 0};
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_X, logits, (const double[]){0, log3, 0, log3});
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_TARGET, op_plain(GP_I64, 1, 2, 0, 0, 0), (const double[]){0, 1});
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_PARTIAL, op_plain(GP_F64, 1, 2, 0, 0, 0), NULL);
        op_bench_run(&b);
        double loss = (1 - smoothing[s]) * b_ + smoothing[s] / 2 * (a + b_);
        op_bench_expect(&b, GP_CROSS_ENTROPY_FORWARD_PARTIAL, (const double[]){loss, 1}, 1e-14);
        op_bench_put(&b, GP_CROSS_ENTROPY_FORWARD_TARGET, 1, -100);
        gp_error err = {0};
        assert_int_equal(op_bench_try(&b, &err), GP_DATA);
        assert_string_equal(
            err.text,
            "cross_entropy_forward: target -100 of row 1 is not a class: classes are 0 to 1, and 0 is ignored");
        op_bench_fini(&b);

        b = begin(GP_OP_CROSS_ENTROPY_BACKWARD);
        b.op_case.desc.attributes.cross_entropy = (gp_cross_entropy_attributes){smoothing[s], 0};
        op_bench_set(&b, GP_CROSS_ENTROPY_BACKWARD_X, logits, (const double[]){0, log3, 0, log3});
        op_bench_set(&b, GP_CROSS_ENTROPY_BACKWARD_TARGET, op_plain(GP_I64, 1, 2, 0, 0, 0), (const double[]){0, 1});
        op_bench_scalars(&b, GP_CROSS_ENTROPY_BACKWARD_SCALARS, (gp_step_scalars){.divisor = 2});
        op_bench_set(&b, GP_CROSS_ENTROPY_BACKWARD_DX, logits, NULL);
        op_bench_run(&b);
        double gradient = (0.25 - smoothing[s] / 2) / 2;
        op_bench_expect(&b, GP_CROSS_ENTROPY_BACKWARD_DX, (const double[]){0, 0, gradient, -gradient}, 1e-14);
        op_bench_fini(&b);
    }
}

/* An infinite logit of a class that nobody asked for adds nothing; smoothing asks for all. */
static void test_cross_entropy_of_infinite_logits(void **state) {
    (void)state;
    for (int smooth = 0; smooth < 2; smooth++) {
        op_bench b = begin(GP_OP_CROSS_ENTROPY_FORWARD);
        b.op_case.desc.attributes.cross_entropy = (gp_cross_entropy_attributes){smooth * 0.5, -100};
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_X, op_plain(GP_F32, 2, 1, 2, 0, 0), (const double[]){3, -INFINITY});
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_TARGET, op_plain(GP_I64, 1, 1, 0, 0, 0), (const double[]){0});
        op_bench_set(&b, GP_CROSS_ENTROPY_FORWARD_PARTIAL, op_plain(GP_F64, 1, 2, 0, 0, 0), NULL);
        op_bench_run(&b);
        double loss = op_bench_get(&b, GP_CROSS_ENTROPY_FORWARD_PARTIAL, 0);
        assert_true(smooth ? isinf(loss) && loss > 0 : loss == 0);
        op_bench_fini(&b);
    }
}

static void test_element_losses(void **state) {
    (void)state;
    /* bce_logits: neither 1000 nor −1000 overflows */
    const double x[] = {1, 0, 1000, -1000}, target[] = {3, 0.25, 1, 0.5}, log2 = log(2);
    const double sum[] = {4 + 0.0625 + 999.0 * 999 + 1000.5 * 1000.5, log(1 + exp(-1)) + 1 - 3 + log2 + 0 + 500};
    const double dx[][4] = {{-2, -0.25, 999, -1000.5}, {(1 / (1 + exp(-1)) - 3) / 2, 0.125, 0, -0.25}};
    for (int r = 0; r < REALS; r++) {
        for (uint32_t function = 0; function < GP_ELEMENT_LOSSES; function++) {
            gp_tensor tensor = op_slice(reals[r], 1, 2, 2, 2, 0, 0);
            op_bench b = begin(GP_OP_ELEMENT_LOSS_FORWARD);
            b.op_case.desc.attributes.element_loss.function = function;
            op_bench_set(&b, GP_ELEMENT_LOSS_FORWARD_X, tensor, x);
            op_bench_set(&b, GP_ELEMENT_LOSS_FORWARD_TARGET, tensor, target);
            op_bench_set(&b, GP_ELEMENT_LOSS_FORWARD_PARTIAL, op_plain(GP_F64, 1, 2, 0, 0, 0), NULL);
            op_bench_run(&b);
            op_bench_expect(&b, GP_ELEMENT_LOSS_FORWARD_PARTIAL, (const double[]){sum[function], 0}, 1e-9);
            op_bench_fini(&b);

            b = begin(GP_OP_ELEMENT_LOSS_BACKWARD);
            b.op_case.desc.attributes.element_loss.function = function;
            op_bench_set(&b, GP_ELEMENT_LOSS_BACKWARD_X, tensor, x);
            op_bench_set(&b, GP_ELEMENT_LOSS_BACKWARD_TARGET, tensor, target);
            op_bench_scalars(&b, GP_ELEMENT_LOSS_BACKWARD_SCALARS, (gp_step_scalars){.divisor = 2});
            op_bench_set(&b, GP_ELEMENT_LOSS_BACKWARD_DX, tensor, NULL);
            op_bench_run(&b);
            op_bench_expect(&b, GP_ELEMENT_LOSS_BACKWARD_DX, dx[function], reals[r] == GP_F32 ? 1e-7 : 1e-14);
            op_bench_fini(&b);
        }
    }
}

static void test_loss_total(void **state) {
    (void)state;
    const double first[] = {1e16, 1, -INFINITY, NAN};
    for (int i = 0; i < 4; i++) {
        op_bench b = begin(GP_OP_LOSS_TOTAL);
        op_bench_set(&b, GP_LOSS_TOTAL_PARTIAL, op_slice(GP_F64, 1, 2, 3, 2, 0, 0),
                     (const double[]){first[i], 2, 1, 3, -first[i], 4});
        op_bench_scalars(&b, GP_LOSS_TOTAL_SCALARS, (gp_step_scalars){.seed = 7, .divisor = 5, .finite = 9});
        op_bench_run(&b);
        gp_step_scalars scalars;
        memcpy(&scalars, b.host[GP_LOSS_TOTAL_SCALARS], sizeof scalars);
        assert_int_equal(scalars.finite, i < 2);
        /* in order of index: 1e16 + 1 is rounded to 1e16 before it is taken away again */
        if (i < 2) assert_true(scalars.loss_sum == (i == 0 ? 0 : 1));
        assert_true(scalars.right == 9 && scalars.seed == 7 && scalars.divisor == 5);
        /* What a mini-batch before found stays. */
        op_bench_scalars(&b, GP_LOSS_TOTAL_SCALARS, (gp_step_scalars){.finite = 0});
        op_bench_run(&b);
        memcpy(&scalars, b.host[GP_LOSS_TOTAL_SCALARS], sizeof scalars);
        assert_true(scalars.finite == 0 && scalars.right == 9);
        op_bench_fini(&b);
    }
}

/* Of two micro-batches and three replicas: two have a share of the first, one of the last. What stands in the places of
 * the others is no term. */
static void test_loss_total_of_shares(void **state) {
    (void)state;
    op_bench b = begin(GP_OP_LOSS_TOTAL);
    b.op_case.desc.attributes.loss_total = (gp_loss_total_attributes){3, 2, 1};
    op_bench_set(&b, GP_LOSS_TOTAL_PARTIAL, op_slice(GP_F64, 1, 2, 6, 2, 0, 0),
                 (const double[]){1, 2, 4, 3, NAN, 9, 16, 1, NAN, 9, NAN, 9});
    op_bench_scalars(&b, GP_LOSS_TOTAL_SCALARS, (gp_step_scalars){.finite = 1});
    op_bench_run(&b);
    gp_step_scalars scalars;
    memcpy(&scalars, b.host[GP_LOSS_TOTAL_SCALARS], sizeof scalars);
    assert_true(scalars.loss_sum == 21 && scalars.right == 6 && scalars.finite == 1);
    op_bench_fini(&b);
}

static void test_square_sum(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        op_bench b = begin(GP_OP_SQUARE_SUM);
        op_bench_set(&b, GP_SQUARE_SUM_X, op_slice(reals[r], 2, 2, 2, 3, 0, 0), (const double[]){1, -2, 3, 0.5, 0, -4});
        op_bench_set(&b, GP_SQUARE_SUM_SUM, op_plain(GP_F64, 1, 1, 0, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_SQUARE_SUM_SUM, (const double[]){30.25}, 0);
        op_bench_fini(&b);
    }
}

static void test_square_blocks(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        op_bench b = begin(GP_OP_SQUARE_BLOCKS);
        b.op_case.desc.attributes.blocks.elements = 4;
        op_bench_set(&b, GP_SQUARE_BLOCKS_X, op_slice(reals[r], 2, 2, 2, 3, 0, 0),
                     (const double[]){1, -2, 3, 0.5, 0, -4});
        op_bench_set(&b, GP_SQUARE_BLOCKS_SUMS, op_plain(GP_F64, 1, 2, 0, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_SQUARE_BLOCKS_SUMS, (const double[]){14.25, 16}, 0);
        op_bench_fini(&b);
    }
}

static void test_blocks_total(void **state) {
    (void)state;
    op_bench b = begin(GP_OP_BLOCKS_TOTAL);
    op_bench_set(&b, GP_BLOCKS_TOTAL_SUMS, op_plain(GP_F64, 1, 3, 0, 0, 0), (const double[]){14.25, 16, 0.5});
    op_bench_set(&b, GP_BLOCKS_TOTAL_SUM, op_plain(GP_F64, 1, 1, 0, 0, 0), NULL);
    op_bench_run(&b);
    op_bench_expect(&b, GP_BLOCKS_TOTAL_SUM, (const double[]){30.75}, 0);
    op_bench_fini(&b);
}

/* The norm of 3 and 4; clipped as PyTorch does, with its 1e-6. */
static void test_clip_total(void **state) {
    (void)state;
    static const struct {
        double most, first, norm, clip;
        int finite;
    } cases[] = {{0, 9, 5, 1, 1},
                 {10, 9, 5, 1, 1},
                 {5, 9, 5, 5 / 5.000001, 1},
                 {1, 9, 5, 1 / 5.000001, 1},
                 {0, INFINITY, INFINITY, 1, 1},
                 {0, NAN, NAN, 1, 1},
                 {1, INFINITY, INFINITY, 0, 0},
                 {1, NAN, NAN, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        op_bench b = begin(GP_OP_CLIP_TOTAL);
        b.op_case.desc.attributes.clip.max_norm = cases[i].most;
        op_bench_set(&b, GP_CLIP_TOTAL_SQUARES, op_plain(GP_F64, 1, 2, 0, 0, 0), (const double[]){cases[i].first, 16});
        op_bench_scalars(&b, GP_CLIP_TOTAL_SCALARS, (gp_step_scalars){.divisor = 5, .loss_sum = 2, .finite = 1});
        op_bench_run(&b);
        gp_step_scalars scalars;
        memcpy(&scalars, b.host[GP_CLIP_TOTAL_SCALARS], sizeof scalars);
        assert_true(scalars.grad_norm == cases[i].norm || (isnan(scalars.grad_norm) && isnan(cases[i].norm)));
        assert_true(scalars.clip == cases[i].clip);
        assert_int_equal(scalars.finite, cases[i].finite);
        assert_true(scalars.divisor == 5 && scalars.loss_sum == 2);
        /* What was not finite before stays so. */
        op_bench_scalars(&b, GP_CLIP_TOTAL_SCALARS, (gp_step_scalars){.finite = 0});
        op_bench_run(&b);
        memcpy(&scalars, b.host[GP_CLIP_TOTAL_SCALARS], sizeof scalars);
        assert_int_equal(scalars.finite, 0);
        op_bench_fini(&b);
    }
}

/* Parts of 3, 3 and 2 rows merge to what one pass over all 8 finds; their sums add up. */
static void test_norm_merge(void **state) {
    (void)state;
    const double stats[] = {/* of 1, 5, -2 */ 1.25,  74. / 9,   1. / 12,
                            /* of 0.5, 7, 7 */ 4.75, 507. / 54, 1. / 12,
                            /* of 3, -4 */ -0.5,     12.25,     0};
    const double mean = 17.5 / 8, variance = 153.25 / 8 - mean * mean;
    for (int r = 0; r < REALS; r++) {
        double tolerance = reals[r] == GP_F32 ? 1e-5 : 1e-13;
        op_bench b = begin(GP_OP_NORM_MERGE);
        b.op_case.desc.attributes.norm = (gp_norm_attributes){.rows_full = 3, .rows_last = 2};
        op_bench_set(&b, GP_NORM_MERGE_STATS, op_slice(reals[r], 2, 3, 3, 3, 1, 0), stats);
        op_bench_set(&b, GP_NORM_MERGE_MEAN, op_plain(reals[r], 1, 1, 0, 0, 0), NULL);
        op_bench_set(&b, GP_NORM_MERGE_VARIANCE, op_plain(reals[r], 1, 1, 0, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_MERGE_MEAN, &mean, tolerance);
        op_bench_expect(&b, GP_NORM_MERGE_VARIANCE, &variance, tolerance);
        op_bench_fini(&b);
        b = begin(GP_OP_NORM_MERGE_SUMS);
        op_bench_set(&b, GP_NORM_MERGE_SUMS_PARTS, op_slice(reals[r], 2, 3, 3, 2, 2, 0),
                     (const double[]){1, 2, 3, 4, 10, 20, 30, 40, 100, 200, 300, 400});
        op_bench_set(&b, GP_NORM_MERGE_SUMS_SUMS, op_plain(reals[r], 2, 2, 2, 0, 0), NULL);
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_MERGE_SUMS_SUMS, (const double[]){111, 222, 333, 444}, 0);
        op_bench_fini(&b);
    }
}

/* 3, 3 and 2 rows against one pass over all 8. The pieces' means are given in two parts. */
static void test_norm_commit(void **state) {
    (void)state;
    const double rows[] = {1, 5, -2, 0.5, 7, 7, 3, -4};
    enum { FULL = 3, PIECES = 3, ROWS = 8 };
    double mean = 0, squares = 0, stats[PIECES * 3];
    for (int i = 0; i < ROWS; i++) mean += rows[i] / ROWS;
    for (int i = 0; i < ROWS; i++) squares += (rows[i] - mean) * (rows[i] - mean);
    for (int p = 0; p < PIECES; p++) {
        int count = p == PIECES - 1 ? ROWS - p * FULL : FULL;
        double sum = 0, square = 0;
        for (int i = 0; i < count; i++) sum += rows[p * FULL + i];
        for (int i = 0; i < count; i++) square += pow(rows[p * FULL + i] - sum / count, 2);
        stats[3 * p] = sum / count - 0.125;
        stats[3 * p + 1] = square / count;
        stats[3 * p + 2] = 0.125;
    }
    for (int r = 0; r < REALS; r++) {
        op_bench b = begin(GP_OP_NORM_COMMIT);
        b.op_case.desc.attributes.norm = (gp_norm_attributes){
            .eps = 1e-5, .momentum = 0.25, .rows_full = FULL, .rows_last = ROWS - (PIECES - 1) * FULL};
        op_bench_scalars(&b, GP_NORM_COMMIT_SCALARS, (gp_step_scalars){.finite = 0});
        op_bench_set(&b, GP_NORM_COMMIT_STATS, op_slice(reals[r], 2, 3, PIECES, 3, 1, 0), stats);
        op_bench_set(&b, GP_NORM_COMMIT_MEAN, op_plain(reals[r], 1, 1, 0, 0, 0), (const double[]){8});
        op_bench_set(&b, GP_NORM_COMMIT_VARIANCE, op_plain(reals[r], 1, 1, 0, 0, 0), (const double[]){4});
        op_bench_run(&b);
        op_bench_expect(&b, GP_NORM_COMMIT_MEAN, (const double[]){8}, 0);
        op_bench_expect(&b, GP_NORM_COMMIT_VARIANCE, (const double[]){4}, 0);
        op_bench_scalars(&b, GP_NORM_COMMIT_SCALARS, (gp_step_scalars){.finite = 1});
        op_bench_run(&b);
        double tolerance = reals[r] == GP_F32 ? 1e-5 : 1e-13;
        op_bench_expect(&b, GP_NORM_COMMIT_MEAN, (const double[]){6 + 0.25 * mean}, tolerance);
        op_bench_expect(&b, GP_NORM_COMMIT_VARIANCE, (const double[]){3 + 0.25 * squares / (ROWS - 1)}, tolerance);
        op_bench_fini(&b);
    }
}

static void run_sgd_step(op_bench *b, double rate, double grad) {
    gp_step_scalars scalars = {.rate = rate, .finite = 1, .clip = 1};
    op_bench_scalars(b, GP_SGD_SCALARS, scalars);
    op_bench_put(b, GP_SGD_GRAD, 0, grad);
    op_bench_run(b);
}

/* PyTorch's update written out, with all numbers exact in binary. */
static void test_sgd(void **state) {
    (void)state;
    for (int r = 0; r < REALS; r++) {
        gp_tensor tensor = op_slice(reals[r], 1, 2, 1, 1, 0, 0);
        for (uint32_t nesterov = 0; nesterov < 2; nesterov++) {
            op_bench b = begin(GP_OP_SGD);
            b.op_case.desc.attributes.sgd = (gp_sgd_attributes){0.5, 0.25, nesterov, 0};
            op_bench_set(&b, GP_SGD_GRAD, tensor, (const double[]){3});
            op_bench_set(&b, GP_SGD_MOMENTUM, tensor, (const double[]){0});
            op_bench_set(&b, GP_SGD_PARAM, tensor, (const double[]){4});
            /* g = 3 + 0.25·4 = 4; velocity 4; step 4, or 4 + 0.5·4 = 6 */
            run_sgd_step(&b, 0.5, 3);
            op_bench_expect(&b, GP_SGD_MOMENTUM, (const double[]){4}, 0);
            op_bench_expect(&b, GP_SGD_PARAM, (const double[]){nesterov ? 1 : 2}, 0);
            /* g = 1 + 0.25·p = 1.5 or 1.25; velocity 2 + g; step that, or g + half of it */
            run_sgd_step(&b, 1, 1);
            op_bench_expect(&b, GP_SGD_MOMENTUM, (const double[]){nesterov ? 3.25 : 3.5}, 0);
            op_bench_expect(&b, GP_SGD_PARAM, (const double[]){nesterov ? 1 - 1.25 - 1.625 : -1.5}, 0);
            op_bench_scalars(&b, GP_SGD_SCALARS, (gp_step_scalars){.rate = 1, .finite = 0});
            op_bench_run(&b);
            op_bench_expect(&b, GP_SGD_MOMENTUM, (const double[]){nesterov ? 3.25 : 3.5}, 0);
            op_bench_expect(&b, GP_SGD_PARAM, (const double[]){nesterov ? 1 - 1.25 - 1.625 : -1.5}, 0);
            op_bench_fini(&b);
        }
        op_bench b = begin(GP_OP_SGD);
        op_bench_set(&b, GP_SGD_GRAD, tensor, (const double[]){3});
        op_bench_set(&b, GP_SGD_PARAM, tensor, (const double[]){4});
        run_sgd_step(&b, 0.5, 3);
        op_bench_expect(&b, GP_SGD_PARAM, (const double[]){2.5}, 0);
        op_bench_fini(&b);
    }
}

/* Each product and sum in f32, as PyTorch's loops have them. */
static void test_sgd_rounds_as_f32(void **state) {
    (void)state;
    for (int number = 0; number < GP_OP_CASES; number++) {
        op_bench b = begin(GP_OP_SGD);
        gp_op_case_make(GP_OP_SGD, number, GP_F32, &b.op_case);
        const gp_sgd_attributes *sgd = &b.op_case.desc.attributes.sgd;
        int64_t elements = gp_tensor_elements(&b.op_case.desc.operand[GP_SGD_PARAM]);
        for (int i = 0; i < 4; i++) {
            if (!b.op_case.desc.operand[i].present) continue;
            op_bench_set(&b, i, b.op_case.desc.operand[i], NULL);
            gp_op_case_fill(&b.op_case, i, b.host[i]);
        }
        float *expected = malloc((size_t)elements * sizeof *expected);
        assert_non_null(expected);
        for (int64_t i = 0; i < elements; i++) {
            float p = (float)op_bench_get(&b, GP_SGD_PARAM, i), g = (float)op_bench_get(&b, GP_SGD_GRAD, i);
            g = (float)b.op_case.scalars.clip * g;
            if (sgd->decay != 0) g = g + (float)sgd->decay * p;
            if (sgd->momentum != 0) {
                float v = (float)sgd->momentum * (float)op_bench_get(&b, GP_SGD_MOMENTUM, i) + g;
                g = sgd->nesterov ? g + (float)sgd->momentum * v : v;
            }
            expected[i] = b.op_case.scalars.finite ? p - (float)b.op_case.scalars.rate * g : p;
        }
        op_bench_run(&b);
        for (int64_t i = 0; i < elements; i++) assert_true(op_bench_get(&b, GP_SGD_PARAM, i) == (double)expected[i]);
        free(expected);
        op_bench_fini(&b);
    }
}

enum { ADAM_ELEMENTS = 4, ADAM_STEPS = 30 };

/* Parameter and states after 30 steps of torch.optim.Adam and AdamW (PyTorch 2.9.1, foreach=False) in f32 and in f64,
 * from the gradients of run_adam and rates that change from step to step. */
static const struct {
    gp_adam_attributes attributes;
    double wanted[2][3][ADAM_ELEMENTS]; /* [f32, f64][param, m, v] */
} adam_runs[] = {
    {{0.9, 0.999, 1e-08, 0, 0, 0},
     {{{0.952482522, -0.52086556, 0.267275959, 2.02221823},
       {-0.0147284698, -0.0472867899, 0.036246758, -0.026529396},
       {0.00454468792, 0.00454162201, 0.00467844075, 0.00462020934}},
      {{0.9524825530729512, -0.5208656047263097, 0.2672759750331, 2.022218314743592},
       {-0.01472846702393891, -0.04728678908996749, 0.03624676175984453, -0.02652939725032011},
       {0.004544686621849087, 0.004541620390810442, 0.004678439658094325, 0.004620207453034846}}}},
    {{0.3, 0.95, 0.001, 0.1, 0, 0},
     {{{0.887751877, -0.435356885, 0.214938655, 1.83071363},
       {-0.23602052, -0.207707092, 0.109111935, 0.224345967},
       {0.12930578, 0.122450098, 0.121616893, 0.145530075}},
      {{0.8877518552881755, -0.4353569265448355, 0.21493866118487, 1.830713855168557},
       {-0.2360205380239707, -0.2077071035152796, 0.1091119430408984, 0.2243459833992013},
       {0.1293058038913768, 0.1224501102025373, 0.1216169216622647, 0.1455301144521447}}}},
    {{0.9, 0.999, 1e-08, 0.1, 1, 0},
     {{{0.910102606, -0.497858226, 0.255473107, 1.93340409},
       {-0.0147284698, -0.0472867899, 0.036246758, -0.026529396},
       {0.00454468792, 0.00454162201, 0.00467844075, 0.00462020934}},
      {{0.9101021285516258, -0.4978580467799784, 0.2554729071964371, 1.933402939166782},
       {-0.01472846702393891, -0.04728678908996749, 0.03624676175984453, -0.02652939725032011},
       {0.004544686621849087, 0.004541620390810442, 0.004678439658094325, 0.004620207453034846}}}},
    {{0.8, 0.99, 1e-08, 0, 1, 0},
     {{{0.962000847, -0.512303948, 0.259649754, 2.01922274},
       {-0.0459018312, -0.0871457234, 0.0674292892, -0.0465482138},
       {0.0401249044, 0.0398538411, 0.0409235917, 0.0406758003}},
      {{0.9620006592579404, -0.5123039139852295, 0.2596497281511715, 2.019222866774578},
       {-0.04590183024916616, -0.08714572198402776, 0.06742928405740391, -0.04654820935871773},
       {0.04012490102040946, 0.039853836767604, 0.04092359151914892, 0.04067579840169825}}}},
};

static void run_adam(op_bench *b, gp_dtype real, const gp_adam_attributes *attributes) {
    gp_tensor tensor = op_slice(real, 1, 2, 2, ADAM_ELEMENTS / 2, 0, 0);
    const double zero[ADAM_ELEMENTS] = {0}, param[ADAM_ELEMENTS] = {1, -0.5, 0.25, 2};
    b->op_case.desc.attributes.adam = *attributes;
    op_bench_set(b, GP_ADAM_GRAD, tensor, zero);
    op_bench_set(b, GP_ADAM_M, tensor, zero);
    op_bench_set(b, GP_ADAM_V, tensor, zero);
    op_bench_set(b, GP_ADAM_PARAM, tensor, param);
    for (int step = 1; step <= ADAM_STEPS; step++) {
        gp_step_scalars scalars = {
            .step = (uint32_t)step, .rate = step % 2 ? 0.01 : 0.02, .finite = 1, .clip = step % 3 ? 1 : 0.5};
        op_bench_scalars(b, GP_ADAM_SCALARS, scalars);
        for (int i = 0; i < ADAM_ELEMENTS; i++)
            op_bench_put(b, GP_ADAM_GRAD, i, ((step * 7 + i * 13) % 11 - 5) / 8.0 / scalars.clip);
        op_bench_run(b);
    }
}

static void expect_adam(const op_bench *b, const double wanted[3][ADAM_ELEMENTS], double tolerance) {
    op_bench_expect(b, GP_ADAM_PARAM, wanted[0], tolerance);
    op_bench_expect(b, GP_ADAM_M, wanted[1], tolerance);
    op_bench_expect(b, GP_ADAM_V, wanted[2], tolerance);
}

static void test_adam(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof adam_runs / sizeof *adam_runs; i++) {
        for (int r = 0; r < REALS; r++) {
            op_bench b = begin(GP_OP_ADAM);
            run_adam(&b, reals[r], &adam_runs[i].attributes);
            bool single = reals[r] == GP_F32;
            double tolerance = single ? 2.5e-7 : 1e-14;
            expect_adam(&b, adam_runs[i].wanted[single ? 0 : 1], tolerance);
            op_bench_scalars(&b, GP_ADAM_SCALARS, (gp_step_scalars){.step = 31, .rate = 1, .finite = 0, .clip = 1});
            op_bench_run(&b);
            expect_adam(&b, adam_runs[i].wanted[single ? 0 : 1], tolerance);
            op_bench_fini(&b);
        }
    }
}

static void test_device_memory_and_copies(void **state) {
    (void)state;
    gp_error err = {0};
    const gp_device_kind *kind = &gp_ref_kind;
    gp_device *a, *b;
    const gp_device_spec spec = {.kind = kind, .threads = 1, .memory = 1000};
    assert_int_equal(kind->open(&spec, &a, &err), GP_OK);
    assert_int_equal(kind->open(&spec, &b, &err), GP_OK);
    gp_stream *stream, *other;
    gp_event *event;
    assert_int_equal(kind->stream_create(a, false, &stream, &err), GP_OK);
    assert_int_equal(kind->stream_create(b, false, &other, &err), GP_OK);
    assert_int_equal(kind->event_create(a, false, &event, &err), GP_OK);
    void *block_a, *block_b, *more;
    assert_int_equal(kind->reserve(a, 600, &block_a, &err), GP_OK);
    assert_int_equal(kind->reserve(b, 1000, &block_b, &err), GP_OK);
    assert_int_equal((uintptr_t)block_a % GP_ALIGNMENT, 0);
    assert_int_equal(kind->reserve(a, 401, &more, &err), GP_MEMORY);
    assert_string_equal(err.text, "ref: needs 401 more bytes, but 600 of its 1000 bytes are in use");
    kind->unreserve(a, block_a);
    assert_int_equal(kind->reserve(a, 1000, &block_a, &err), GP_OK);

    char sent[1000], received[1000] = {0};
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (char)(i * 7);
    assert_int_equal(kind->copy_in(stream, block_a, sent, sizeof sent, &err), GP_OK);
    assert_int_equal(kind->stream_wait(other, event, &err), GP_INTERNAL);
    assert_string_equal(err.text, "ref: a stream waits for an event that was never recorded");
    assert_int_equal(kind->event_record(event, stream, &err), GP_OK);
    assert_int_equal(kind->stream_wait(other, event, &err), GP_OK);
    assert_int_equal(kind->pull(other, block_b, a, block_a, sizeof sent, &err), GP_OK);
    assert_int_equal(kind->copy_out(other, received, block_b, sizeof received, &err), GP_OK);
    assert_int_equal(kind->stream_finish(other, NULL, &err), GP_OK);
    assert_memory_equal(sent, received, sizeof sent);

    kind->event_destroy(event);
    kind->unreserve(a, block_a);
    kind->unreserve(b, block_b);
    kind->stream_destroy(stream);
    kind->stream_destroy(other);
    kind->close(a);
    kind->close(b);
    const gp_device_spec second = {.kind = kind, .index = 1, .threads = 1}, threads = {.kind = kind, .threads = 2};
    assert_int_equal(kind->open(&second, &a, &err), GP_DEVICE);
    assert_int_equal(kind->open(&threads, &a, &err), GP_UNSUPPORTED);
}

static void test_refuses_narrow_reals(void **state) {
    (void)state;
    gp_op_desc desc;
    gp_op_cache *cache;
    gp_error err = {0};
    const gp_prepared *prepared;
    gp_op_desc_init(&desc, GP_OP_ADD);
    for (int i = 0; i < 3; i++) desc.operand[i] = gp_tensor_plain(GP_BF16, 1, (const int64_t[]){3});
    assert_int_equal(gp_op_cache_create(&cache, &err), GP_OK);
    assert_int_equal(gp_op_prepare(cache, &gp_ref_kind, &desc, &prepared, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text, "ref: add does not take BF16 as its operand a");
    gp_op_cache_destroy(&cache);
}

static void test_run_wants_its_operands(void **state) {
    (void)state;
    op_bench b = begin(GP_OP_ADD);
    for (int i = 0; i < 3; i++) op_bench_set(&b, i, op_plain(GP_F32, 2, 1, 1, 0, 0), (const double[]){1});
    gp_op_cache *cache;
    gp_error err = {0};
    const gp_prepared *prepared;
    const gp_op_args args = {0};
    assert_int_equal(gp_op_cache_create(&cache, &err), GP_OK);
    assert_int_equal(gp_op_prepare(cache, &gp_ref_kind, &b.op_case.desc, &prepared, &err), GP_OK);
    void *const operands[] = {b.host[0], NULL, b.host[2]};
    assert_int_equal(gp_device_run(&gp_ref_kind, NULL, prepared, operands, NULL, &args, &err), GP_INTERNAL);
    assert_string_equal(err.text, "add: operand b has no address");
    gp_op_cache_destroy(&cache);
    op_bench_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_forward),
        cmocka_unit_test(test_conv_forward_groups_and_rectangles),
        cmocka_unit_test(test_conv_backward),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_norm_forward),
        cmocka_unit_test(test_norm_backward),
        cmocka_unit_test(test_norm_and_relu),
        cmocka_unit_test(test_relu),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_group_norm),
        cmocka_unit_test(test_group_norm_backward),
        cmocka_unit_test(test_max_pool),
        cmocka_unit_test(test_max_pool_of_large_windows),
        cmocka_unit_test(test_avg_pool),
        cmocka_unit_test(test_upsample),
        cmocka_unit_test(test_mean_pool),
        cmocka_unit_test(test_flatten),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_copy_reorder_fill),
        cmocka_unit_test(test_cross_entropy_forward),
        cmocka_unit_test(test_cross_entropy_backward),
        cmocka_unit_test(test_cross_entropy_smoothing_and_ignore),
        cmocka_unit_test(test_cross_entropy_of_infinite_logits),
        cmocka_unit_test(test_element_losses),
        cmocka_unit_test(test_loss_total),
        cmocka_unit_test(test_loss_total_of_shares),
        cmocka_unit_test(test_square_sum),
        cmocka_unit_test(test_square_blocks),
        cmocka_unit_test(test_blocks_total),
        cmocka_unit_test(test_clip_total),
        cmocka_unit_test(test_norm_merge),
        cmocka_unit_test(test_norm_commit),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_sgd_rounds_as_f32),
        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_device_memory_and_copies),
        cmocka_unit_test(test_refuses_narrow_reals),
        cmocka_unit_test(test_run_wants_its_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
