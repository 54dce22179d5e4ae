/* Every layer against values that PyTorch computed (make_golden.py), on ref in f64 and f32 and on cpu in f32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/safetensors.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "layers/lowered_runner.h"

/* What a device and type may differ by, in units of the largest value of a tensor. */
static const struct device_case {
    const char *name;
    const gp_device_kind *kind;
    gp_dtype real;
    double tolerance;
} devices[] = {
    {"ref in f64", &gp_ref_kind, GP_F64, 1e-13},
    {"ref in f32", &gp_ref_kind, GP_F32, 1e-6},
    {"cpu in f32", &gp_cpu_kind, GP_F32, 2e-6},
};

typedef struct golden_case {
    const char *file, *name, *layer;
    double slack; /* multiplies the tolerance in f32: what its numbers lose by their own nature */
} golden_case;

static const golden_case cases[] = {
    {"conv", "plain", "conv: {out: 4, kernel: 3}", 1},
    {"conv", "same", "conv: {out: 3, kernel: 3, pad: 1, bias: false}", 1},
    {"conv", "odd", "conv: {out: 5, kernel: [3, 2], stride: [2, 3], pad: [2, 1]}", 1},
    {"conv", "dilated", "conv: {out: 3, kernel: [2, 3], dilation: [3, 2], pad: [1, 2]}", 1},
    {"conv", "grouped", "conv: {out: 4, kernel: 3, groups: 2, stride: 2, pad: 1}", 1},
    {"conv", "depthwise", "conv: {out: 6, kernel: 3, groups: 3, pad: 1}", 1},
    {"conv", "pointwise", "conv: {out: 2, kernel: 1}", 1},
    {"conv", "all", "conv: {out: 6, kernel: [3, 4], stride: [2, 1], pad: [3, 0], dilation: 2, groups: 2}", 1},
    {"conv", "overhang", "conv: {out: 2, kernel: 3, stride: 4}", 1},
    {"linear", "row", "linear: 5", 1},
    {"linear", "rows", "linear: {out: 4}", 1},
    {"linear", "unbiased", "linear: {out: 2, bias: false}", 1},
    {"batch_norm", "picture", "batch_norm", 1},
    {"batch_norm", "row", "batch_norm", 1},
    {"batch_norm", "options", "batch_norm: {eps: 1e-2, momentum: 0.3}", 1},
    {"batch_norm", "plain", "batch_norm: {affine: false, momentum: 0.25}", 1},
    {"batch_norm", "one_sample", "batch_norm", 1},
    {"batch_norm", "offset", "batch_norm", 200}, /* f32 keeps the mean of 1024 to 6e-5 */
    {"pool", "halves", "max_pool: 2", 1},
    {"pool", "padded", "max_pool: {kernel: 3, stride: 2, pad: 1}", 1},
    {"pool", "overlap", "max_pool: {kernel: [3, 2], stride: 1}", 1},
    {"pool", "gaps", "max_pool: {kernel: [2, 3], stride: [3, 4], pad: 1}", 1},
    {"pool", "ties", "max_pool: {kernel: 2, stride: 1, pad: 1}", 1},
    {"pool", "global", "global_avg_pool", 1},
    {"shapes", "relu", "relu", 1},
    {"shapes", "relu_zero", "relu", 1},
    {"shapes", "flatten", "flatten", 1},
    {"shapes", "flatten_rows", "flatten", 1},
    {"shapes", "add", "add: [a, b, c]", 1},
    {"shapes", "concat", "concat: [a, b, c]", 1},
    {"shapes", "concat_row", "concat: [a, b]", 1},
    {"shapes", "dropout_none", "dropout: 0", 1},
    {"shapes", "dropout_all", "dropout: 1", 1},
    {"conv_corners", "dilated_stride", "conv: {out: 4, kernel: 3, stride: 2, dilation: 2, pad: 1}", 1},
    {"conv_corners", "dilated_stride_apart",
     "conv: {out: 3, kernel: [2, 4], stride: [3, 1], dilation: [4, 2], pad: [0, 3]}", 1},
    {"conv_corners", "kernel_beyond_input", "conv: {out: 4, kernel: 5, pad: 2}", 1},
    {"conv_corners", "kernel_beyond_row", "conv: {out: 3, kernel: [3, 7], pad: [0, 3], bias: false}", 1},
    {"conv_corners", "dilation_beyond_input", "conv: {out: 4, kernel: 3, pad: 4, dilation: 4, groups: 4}", 1},
    {"conv_corners", "pad_beyond_kernel", "conv: {out: 2, kernel: 2, pad: [3, 4]}", 1},
    {"conv_corners", "pointwise_padded", "conv: {out: 5, kernel: 1, pad: 1, stride: 2}", 1},
    {"conv_corners", "pointwise_grouped", "conv: {out: 12, kernel: 1, groups: 4, bias: false}", 1},
    {"conv_corners", "stride_beyond_kernel", "conv: {out: 3, kernel: 2, stride: [4, 5], pad: 1}", 1},
    {"conv_corners", "whole", "conv: {out: 6, kernel: [4, 5]}", 1},
    {"conv_corners", "depthwise_wide", "conv: {out: 16, kernel: 3, pad: 1, groups: 16, bias: false}", 1},
    {"conv_corners", "depthwise_stride", "conv: {out: 8, kernel: 5, stride: 2, pad: 2, groups: 8}", 1},
    {"conv_corners", "depthwise_dilated", "conv: {out: 15, kernel: 3, pad: 2, dilation: 2, groups: 5}", 1},
    {"conv_corners", "grouped_wide", "conv: {out: 16, kernel: 3, pad: 1, groups: 8, bias: false}", 1},
    {"conv_corners", "wide", "conv: {out: 16, kernel: 3, pad: 1, stride: 2}", 1},
    {"conv_corners", "column", "conv: {out: 4, kernel: [3, 1], stride: [2, 1], pad: [1, 0]}", 1},
    {"conv_corners", "one_place", "conv: {out: 2, kernel: 3, pad: 1}", 1},
    {"activation", "leaky", "leaky_relu", 1},
    {"activation", "leaky_rows", "leaky_relu", 1},
    {"activation", "leaky_corners", "leaky_relu", 1},
    {"activation", "leaky_slope", "leaky_relu: 0.2", 1},
    {"activation", "leaky_slope_rows", "leaky_relu: 0.2", 1},
    {"activation", "leaky_slope_corners", "leaky_relu: 0.2", 1},
    {"activation", "leaky_minus", "leaky_relu: {slope: -1.5}", 1},
    {"activation", "leaky_minus_rows", "leaky_relu: {slope: -1.5}", 1},
    {"activation", "leaky_minus_corners", "leaky_relu: {slope: -1.5}", 1},
    {"activation", "leaky_none", "leaky_relu: 0", 1},
    {"activation", "leaky_none_rows", "leaky_relu: 0", 1},
    {"activation", "leaky_none_corners", "leaky_relu: 0", 1},
    {"activation", "gelu", "gelu", 1},
    {"activation", "gelu_rows", "gelu", 1},
    {"activation", "gelu_corners", "gelu", 1},
    {"activation", "gelu_tanh", "gelu: {tanh: true}", 1},
    {"activation", "gelu_tanh_rows", "gelu: {tanh: true}", 1},
    {"activation", "gelu_tanh_corners", "gelu: {tanh: true}", 1},
    {"activation", "silu", "silu", 1},
    {"activation", "silu_rows", "silu", 1},
    {"activation", "silu_corners", "silu", 1},
    {"activation", "sigmoid", "sigmoid", 1},
    {"activation", "sigmoid_rows", "sigmoid", 1},
    {"activation", "sigmoid_corners", "sigmoid", 1},
    {"activation", "tanh", "tanh", 1},
    {"activation", "tanh_rows", "tanh", 1},
    {"activation", "tanh_corners", "tanh", 1},
    {"activation", "channels_none", "dropout: {p: 0, channels: true}", 1},
    {"activation", "channels_all", "dropout: {p: 1, channels: true}", 1},
    {"sample_norm", "instance", "instance_norm", 1},
    {"sample_norm", "instance_affine", "instance_norm: {eps: 0.1, affine: true}", 1},
    {"sample_norm", "instance_row", "instance_norm", 1},
    {"sample_norm", "instance_pair", "instance_norm", 1},
    {"sample_norm", "instance_wide", "instance_norm: {affine: true}", 1},
    {"sample_norm", "instance_offset", "instance_norm: 1e-5", 200},
    {"sample_norm", "layer", "layer_norm", 1},
    {"sample_norm", "layer_rows", "layer_norm", 1},
    {"sample_norm", "layer_eps", "layer_norm: 0.5", 1},
    {"sample_norm", "layer_one_sample", "layer_norm", 1},
    {"sample_norm", "layer_wide", "layer_norm: {eps: 1e-6}", 1},
    {"sample_norm", "layer_offset", "layer_norm", 200},
    {"sample_norm", "layer_constant", "layer_norm", 1},
    {"sample_norm", "group", "group_norm: 2", 1},
    {"sample_norm", "group_one", "group_norm: 1", 1},
    {"sample_norm", "group_each", "group_norm: {groups: 4}", 1},
    {"sample_norm", "group_plain", "group_norm: {groups: 3, eps: 0.2, affine: false}", 1},
    {"sample_norm", "group_row", "group_norm: 3", 1},
    {"sample_norm", "group_wide", "group_norm: 2", 1},
    {"sample_norm", "group_many", "group_norm: 32", 1},
    {"sample_norm", "group_one_sample", "group_norm: 2", 1},
};

static const char *const loss_cases[] = {"plain", "ignored", "nothing_counts", "large", "ties"};

typedef struct values {
    double *items;
    int64_t count;
    int rank;
    int64_t dim[GP_SAFETENSORS_MAX_RANK];
} values;

static gp_safetensors *open_golden(const char *file) {
    gp_error err = {0};
    gp_safetensors *out = NULL;
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/%s.safetensors", GP_TEST_SOURCE_DIR, file);
    if (gp_safetensors_open(path, &out, &err) != GP_OK) fail_msg("%s", err.text);
    return out;
}

static bool has(gp_safetensors *file, const char *name, const char *what) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, what);
    return gp_safetensors_find(file, full) != NULL;
}

static values load(gp_safetensors *file, const char *name, const char *what) {
    gp_error err = {0};
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const gp_safetensor *tensor = gp_safetensors_find(file, full);
    if (!tensor) fail_msg("no tensor %s", full);
    values out = {.count = 1, .rank = tensor->rank};
    for (int i = 0; i < tensor->rank; i++) out.count *= out.dim[i] = tensor->dim[i];
    out.items = malloc((size_t)out.count * sizeof(double));
    assert_non_null(out.items);
    if (gp_safetensors_read(file, tensor, 0, (size_t)out.count * 8, out.items, &err) != GP_OK) fail_msg("%s", err.text);
    for (int64_t i = 0; tensor->dtype == GP_I64 && i < out.count; i++) {
        int64_t integer;
        memcpy(&integer, &out.items[i], sizeof integer);
        out.items[i] = (double)integer;
    }
    return out;
}

static gp_shape sample_shape(const values *batch) {
    gp_shape shape = {.rank = batch->rank - 1};
    for (int i = 0; i < shape.rank; i++) shape.dim[i] = batch->dim[i + 1];
    return shape;
}

static void set(lowered_runner *runner, gp_safetensors *file, const char *name, const char *what, gp_role role,
                int index) {
    values from = load(file, name, what);
    assert_int_equal(from.count, runner_count(runner, role, index));
    runner_set(runner, role, index, from.items);
    free(from.items);
}

static void expect_close(const double *is, const values *must, const char *device, const char *name, const char *what,
                         double tolerance) {
    double largest = 1e-30;
    for (int64_t i = 0; i < must->count; i++) largest = fmax(largest, fabs(must->items[i]));
    for (int64_t i = 0; i < must->count; i++)
        if (!(fabs(is[i] - must->items[i]) <= tolerance * fmax(largest, 1)))
            fail_msg("%s: %s.%s, element %lld of %lld: %.9g, which must be %.9g", device, name, what, (long long)i,
                     (long long)must->count, is[i], must->items[i]);
}

static void expect(lowered_runner *runner, gp_safetensors *file, const struct device_case *device, const char *name,
                   const char *what, gp_role role, int index, double slack) {
    values must = load(file, name, what);
    assert_int_equal(must.count, runner_count(runner, role, index));
    double *is = runner_get(runner, role, index);
    expect_close(is, &must, device->name, name, what, device->tolerance * (device->real == GP_F32 ? slack : 1));
    free(is);
    free(must.items);
}

static lowered_runner *create(gp_safetensors *file, const golden_case *it, const struct device_case *device) {
    gp_shape shapes[4];
    int count = 0;
    int64_t samples = 0;
    char what[32];
    for (; snprintf(what, sizeof what, "input%d", count), has(file, it->name, what); count++) {
        values input = load(file, it->name, what);
        samples = input.dim[0];
        shapes[count] = sample_shape(&input);
        free(input.items);
    }
    lowered_runner *runner = runner_create(&(runner_options){.kind = device->kind,
                                                             .real = device->real,
                                                             .layer = it->layer,
                                                             .inputs = shapes,
                                                             .input_count = count,
                                                             .samples = samples,
                                                             .pieces = 1});
    for (int i = 0; i < count; i++) {
        snprintf(what, sizeof what, "input%d", i);
        set(runner, file, it->name, what, GP_ROLE_INPUT, i);
    }
    set(runner, file, it->name, "grad_output", GP_ROLE_GRAD_OUTPUT, 0);
    return runner;
}

static int params_of(lowered_runner *runner, gp_param_spec specs[GP_LAYER_MAX_PARAMS]) {
    const gp_layer *layer = runner_layer(runner);
    return layer->type->params ? layer->type->params(layer, specs) : 0;
}

/* Output and all gradients; after a recompute as well. */
static void check_training(lowered_runner *runner, gp_safetensors *file, const golden_case *it,
                           const struct device_case *device) {
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    int count = params_of(runner, specs);
    char what[32];
    expect(runner, file, device, it->name, "output", GP_ROLE_OUTPUT, 0, it->slack);
    runner_run(runner, GP_PASS_BACKWARD);
    for (int i = 0; i < runner_layer(runner)->input_count; i++) {
        snprintf(what, sizeof what, "grad_input%d", i);
        expect(runner, file, device, it->name, what, GP_ROLE_GRAD_INPUT, i, it->slack);
    }
    for (int i = 0; i < count; i++) {
        if (specs[i].buffer) continue;
        snprintf(what, sizeof what, "grad_%s", specs[i].suffix);
        expect(runner, file, device, it->name, what, GP_ROLE_GRAD_PARAM, i, it->slack);
    }
}

static void check_commit(lowered_runner *runner, gp_safetensors *file, const golden_case *it,
                         const struct device_case *device) {
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    int count = params_of(runner, specs);
    char what[32];
    if (!runner_layer(runner)->type->lower_mini_batch) return;
    runner_run(runner, GP_PASS_COMMIT);
    for (int i = 0; i < count; i++) {
        if (!specs[i].buffer) continue;
        snprintf(what, sizeof what, "new_%s", specs[i].suffix);
        expect(runner, file, device, it->name, what, GP_ROLE_PARAM, i, 1);
    }
}

static void check_case(gp_safetensors *file, const golden_case *it, const struct device_case *device) {
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    lowered_runner *runner = create(file, it, device);
    int count = params_of(runner, specs);
    for (int i = 0; i < count; i++) set(runner, file, it->name, specs[i].suffix, GP_ROLE_PARAM, i);
    runner_run(runner, GP_PASS_EVALUATE);
    if (has(file, it->name, "evaluated"))
        expect(runner, file, device, it->name, "evaluated", GP_ROLE_OUTPUT, 0, it->slack);
    else if (strncmp(it->layer, "dropout", 7) != 0)
        expect(runner, file, device, it->name, "output", GP_ROLE_OUTPUT, 0, it->slack);
    else
        expect(runner, file, device, it->name, "input0", GP_ROLE_OUTPUT, 0, it->slack);
    runner_poison(runner);
    runner_run(runner, GP_PASS_FORWARD);
    check_training(runner, file, it, device);
    runner_poison(runner);
    runner_recompute(runner);
    check_training(runner, file, it, device);
    check_commit(runner, file, it, device);
    runner_destroy(&runner);
}

static void test_layers(void **state) {
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            gp_safetensors *file = open_golden(cases[i].file);
            check_case(file, &cases[i], &devices[d]);
            gp_safetensors_close(&file);
        }
}

static lowered_runner *norm_runner(const struct device_case *device, const gp_shape *shape, int64_t samples) {
    return runner_create(&(runner_options){.kind = device->kind,
                                           .real = device->real,
                                           .layer = "batch_norm: {momentum: 0.2}",
                                           .inputs = shape,
                                           .input_count = 1,
                                           .samples = samples,
                                           .pieces = 3,
                                           .last = 1});
}

/* Micro-batches of 3, 3 and 1 leave the running statistics that PyTorch has after the whole batch of 7. */
static void check_deferred(gp_safetensors *file, const struct device_case *device) {
    values input = load(file, "deferred", "input0");
    gp_shape shape = sample_shape(&input);
    int64_t stride = input.count / 7;
    lowered_runner *full = norm_runner(device, &shape, 3), *last = norm_runner(device, &shape, 1);
    set(full, file, "deferred", "running_mean", GP_ROLE_PARAM, 2);
    set(full, file, "deferred", "running_var", GP_ROLE_PARAM, 3);
    for (int piece = 0; piece < 3; piece++) {
        lowered_runner *runner = piece < 2 ? full : last;
        runner_set_piece(runner, piece);
        runner_set(runner, GP_ROLE_INPUT, 0, input.items + 3 * piece * stride);
        runner_run(runner, GP_PASS_FORWARD);
    }
    double *stats = runner_get(last, GP_ROLE_STATS, 0);
    runner_set_piece(full, 2);
    runner_set(full, GP_ROLE_STATS, 0, stats);
    runner_run(full, GP_PASS_COMMIT);
    expect(full, file, device, "deferred", "new_running_mean", GP_ROLE_PARAM, 2, 1);
    expect(full, file, device, "deferred", "new_running_var", GP_ROLE_PARAM, 3, 1);
    free(stats);
    free(input.items);
    runner_destroy(&full);
    runner_destroy(&last);
}

static void test_deferred_batch_norm(void **state) {
    gp_safetensors *file = open_golden("batch_norm");
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) check_deferred(file, &devices[d]);
    gp_safetensors_close(&file);
}

static double number(gp_safetensors *file, const char *name, const char *what) {
    values loaded = load(file, name, what);
    double out = loaded.items[0];
    free(loaded.items);
    return out;
}

static void check_loss(gp_safetensors *file, const char *name, const struct device_case *device) {
    values logits = load(file, name, "input0");
    gp_shape shape = sample_shape(&logits);
    lowered_runner *runner = runner_create(&(runner_options){.kind = device->kind,
                                                             .real = device->real,
                                                             .layer = "cross_entropy",
                                                             .loss = true,
                                                             .inputs = &shape,
                                                             .input_count = 1,
                                                             .samples = logits.dim[0],
                                                             .pieces = 1});
    double sum = number(file, name, "sum"), right = number(file, name, "right");
    runner_set(runner, GP_ROLE_INPUT, 0, logits.items);
    set(runner, file, name, "target", GP_ROLE_INPUT, 1);
    static const gp_pass passes[] = {GP_PASS_EVALUATE, GP_PASS_FORWARD};
    for (int i = 0; i < 2; i++) {
        gp_step_scalars *scalars = runner_scalars(runner);
        *scalars =
            (gp_step_scalars){.divisor = number(file, name, "counts"), .loss_sum = NAN, .right = NAN, .finite = 1};
        runner_set(runner, GP_ROLE_STATS, 0, (const double[]){NAN, NAN});
        runner_run(runner, passes[i]);
        runner_run(runner, GP_PASS_TOTAL);
        if (!(fabs(scalars->loss_sum - sum) <= device->tolerance * fmax(1, fabs(sum))))
            fail_msg("%s: %s: loss %.9g, which must be %.9g", device->name, name, scalars->loss_sum, sum);
        assert_true(scalars->right == right);
        assert_true(scalars->finite == 1);
    }
    runner_run(runner, GP_PASS_BACKWARD);
    expect(runner, file, device, name, "grad_input0", GP_ROLE_GRAD_INPUT, 0, 1);
    free(logits.items);
    runner_destroy(&runner);
}

static void test_cross_entropy(void **state) {
    gp_safetensors *file = open_golden("cross_entropy");
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        for (size_t i = 0; i < sizeof loss_cases / sizeof *loss_cases; i++)
            check_loss(file, loss_cases[i], &devices[d]);
    gp_safetensors_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_deferred_batch_norm),
        cmocka_unit_test(test_cross_entropy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
