/* Pools and losses over grids of their options against values that PyTorch computed (make_pools_losses.py), on ref in
 * f64 and on cpu in f32; losses also in micro-batches of 3, 3 and 1. */
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

static const struct device_case {
    const char *name;
    const gp_device_kind *kind;
    gp_dtype real;
    double tolerance;
} devices[] = {{"ref in f64", &gp_ref_kind, GP_F64, 1e-13}, {"cpu in f32", &gp_cpu_kind, GP_F32, 2e-6}};
enum { DEVICES = sizeof devices / sizeof devices[0], NAME = 96 };

typedef struct values {
    double *items;
    int64_t count;
    gp_shape sample; /* the shape but for its first dimension */
    int64_t samples;
} values;

static gp_safetensors *open_golden(const char *file) {
    gp_error err = {0};
    gp_safetensors *out = NULL;
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/%s.safetensors", GP_TEST_SOURCE_DIR, file);
    if (gp_safetensors_open(path, &out, &err) != GP_OK) fail_msg("%s", err.text);
    return out;
}

static values load(gp_safetensors *file, const char *name, const char *what) {
    gp_error err = {0};
    char full[NAME + 32];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const gp_safetensor *tensor = gp_safetensors_find(file, full);
    if (!tensor) fail_msg("no tensor %s", full);
    values out = {.count = 1, .sample.rank = tensor->rank - 1, .samples = tensor->rank ? tensor->dim[0] : 1};
    for (int i = 0; i < tensor->rank; i++) out.count *= tensor->dim[i];
    for (int i = 1; i < tensor->rank; i++) out.sample.dim[i - 1] = tensor->dim[i];
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

static double number(gp_safetensors *file, const char *name, const char *what) {
    values loaded = load(file, name, what);
    double out = loaded.items[0];
    free(loaded.items);
    return out;
}

/* `must` from element `first` on. */
static void expect(lowered_runner *runner, const values *must, int64_t first, gp_role role,
                   const struct device_case *device, const char *layer, const char *what) {
    double *is = runner_get(runner, role, 0), largest = 1;
    for (int64_t i = 0; i < must->count; i++) largest = fmax(largest, fabs(must->items[i]));
    for (int64_t i = 0; i < runner_count(runner, role, 0); i++)
        if (!(fabs(is[i] - must->items[first + i]) <= device->tolerance * largest))
            fail_msg("%s: %s: %s, element %lld: %.9g, which must be %.9g", device->name, layer, what, (long long)i,
                     is[i], must->items[first + i]);
    free(is);
}

static void check_layer(gp_safetensors *file, const char *name, const char *layer, const struct device_case *device) {
    values input = load(file, name, "input0"), grad_output = load(file, name, "grad_output");
    values output = load(file, name, "output"), grad_input = load(file, name, "grad_input0");
    lowered_runner *runner = runner_create(&(runner_options){.kind = device->kind,
                                                             .real = device->real,
                                                             .layer = layer,
                                                             .inputs = &input.sample,
                                                             .input_count = 1,
                                                             .samples = input.samples,
                                                             .pieces = 1});
    if (!gp_shape_equal(runner_layer(runner)->output, output.sample)) {
        char is[GP_SHAPE_TEXT], must[GP_SHAPE_TEXT];
        fail_msg("%s: output %s, which must be %s", layer, gp_shape_text(is, runner_layer(runner)->output),
                 gp_shape_text(must, output.sample));
    }
    runner_set(runner, GP_ROLE_INPUT, 0, input.items);
    runner_set(runner, GP_ROLE_GRAD_OUTPUT, 0, grad_output.items);
    static const gp_pass passes[] = {GP_PASS_EVALUATE, GP_PASS_FORWARD};
    for (int p = 0; p < 2; p++) {
        runner_poison(runner);
        runner_run(runner, passes[p]);
        expect(runner, &output, 0, GP_ROLE_OUTPUT, device, layer, "output");
    }
    runner_run(runner, GP_PASS_BACKWARD);
    expect(runner, &grad_input, 0, GP_ROLE_GRAD_INPUT, device, layer, "gradient");
    free(input.items);
    free(grad_output.items);
    free(output.items);
    free(grad_input.items);
    runner_destroy(&runner);
}

static const char *const windows[] = {
    "kernel: 2, stride: 2",
    "kernel: 3, stride: 2, pad: 1",
    "kernel: 3, pad: 1",
    "kernel: [2, 3], stride: 2, pad: 1",
    "kernel: 3, stride: 1, pad: 1",
    "kernel: [4, 2], stride: [3, 1], pad: [2, 1]",
    "kernel: 5, stride: 4, pad: 2",
    "kernel: [1, 3], stride: 2, pad: [0, 1]",
    "kernel: 2, stride: 3, pad: 1",
    "kernel: 4",
    "kernel: [7, 6], stride: 1",
    "kernel: 3, stride: 5, pad: 1",
};

static void test_windows(void **state) {
    gp_safetensors *file = open_golden("windows");
    char name[NAME], layer[2 * NAME];
    (void)state;
    for (int d = 0; d < DEVICES; d++)
        for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
            for (int ceil = 0; ceil < 2; ceil++) {
                const char *ceil_text = ceil ? ", ceil: true" : "";
                snprintf(name, sizeof name, "max_%zu_%d", i, ceil);
                snprintf(layer, sizeof layer, "max_pool: {%s%s}", windows[i], ceil_text);
                check_layer(file, name, layer, &devices[d]);
                for (int count = 0; count < 2; count++) { /* counting is the default */
                    snprintf(name, sizeof name, "avg_%zu_%d_%d", i, ceil, count);
                    snprintf(layer, sizeof layer, "avg_pool: {%s%s%s}", windows[i], ceil_text,
                             count ? "" : ", count_pad: false");
                    check_layer(file, name, layer, &devices[d]);
                }
            }
    gp_safetensors_close(&file);
}

static void test_single_layers(void **state) {
    static const char *const cases[][2] = {
        {"max_larger", "max_pool: {kernel: 3, stride: 2, ceil: true}"},
        {"avg_larger", "avg_pool: {kernel: 3, stride: 2, ceil: true}"},
        {"max_large", "max_pool: {kernel: [17, 16], stride: 1}"},
        {"upsample_both", "upsample: 2"},
        {"upsample_pair", "upsample: [2, 3]"},
        {"upsample_one", "upsample: {scale: 1}"},
        {"identity", "identity"},
    };
    gp_safetensors *file = open_golden("windows");
    (void)state;
    for (int d = 0; d < DEVICES; d++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            check_layer(file, cases[c][0], cases[c][1], &devices[d]);
    gp_safetensors_close(&file);
}

enum { SAMPLES = 7, PIECE = 3, PIECES = 3 };

static lowered_runner *loss_runner(const struct device_case *device, const char *loss, const gp_shape *shape,
                                   int64_t samples, double divisor) {
    lowered_runner *runner = runner_create(&(runner_options){.kind = device->kind,
                                                             .real = device->real,
                                                             .layer = loss,
                                                             .loss = true,
                                                             .inputs = shape,
                                                             .input_count = 1,
                                                             .samples = samples,
                                                             .pieces = PIECES,
                                                             .last = 1});
    runner_scalars(runner)->divisor = divisor;
    return runner;
}

/* Micro-batches of 3, 3 and 1; the divisor is that of all. The last one's sums are carried over to where the others
 * lie, since its runner is another. */
static void check_loss(gp_safetensors *file, const char *name, const char *loss, bool right,
                       const struct device_case *device) {
    values logits = load(file, name, "input0"), target = load(file, name, "target");
    values gradient = load(file, name, "grad_input0");
    double counts = number(file, name, "counts"), sum = number(file, name, "sum");
    double divisor = counts > 0 ? counts : 1;
    lowered_runner *full = loss_runner(device, loss, &logits.sample, PIECE, divisor);
    lowered_runner *last = loss_runner(device, loss, &logits.sample, 1, divisor);
    assert_int_equal(logits.samples, SAMPLES);
    assert_true(gp_shape_equal(runner_layer(full)->output, target.sample));
    for (int piece = 0; piece < PIECES; piece++) {
        lowered_runner *runner = piece < PIECES - 1 ? full : last;
        int64_t first = logits.count / SAMPLES * PIECE * piece;
        runner_set_piece(runner, piece);
        runner_set(runner, GP_ROLE_INPUT, 0, logits.items + first);
        runner_set(runner, GP_ROLE_INPUT, 1, target.items + target.count / SAMPLES * PIECE * piece);
        runner_run(runner, GP_PASS_FORWARD);
        runner_run(runner, GP_PASS_BACKWARD);
        expect(runner, &gradient, first, GP_ROLE_GRAD_INPUT, device, loss, name);
    }
    double *partial = runner_get(last, GP_ROLE_STATS, GP_LOSS_STATS_PARTIAL);
    runner_set_piece(full, PIECES - 1);
    runner_set(full, GP_ROLE_STATS, GP_LOSS_STATS_PARTIAL, partial);
    runner_run(full, GP_PASS_TOTAL);
    const gp_step_scalars *scalars = runner_scalars(full);
    if (!(fabs(scalars->loss_sum - sum) <= 2 * device->tolerance * fmax(1, fabs(sum))))
        fail_msg("%s: %s: %s: loss %.9g, which must be %.9g", device->name, loss, name, scalars->loss_sum, sum);
    assert_true(scalars->right == (right ? number(file, name, "right") : 0));
    if (counts == 0) assert_true(scalars->loss_sum == 0);
    free(partial);
    free(logits.items);
    free(target.items);
    free(gradient.items);
    runner_destroy(&full);
    runner_destroy(&last);
}

static const char *const shapes[] = {"row", "rows", "picture"};

static void test_cross_entropy(void **state) {
    static const char *const smoothing[] = {"", "smoothing: 0.1, ", "smoothing: 1, "};
    static const char *const ignore[][2] = {
        {"-100", "ignore: -100"}, {"255", "ignore: 255"}, {"1", "ignore: 1"}, {"all", "ignore: -100"}};
    gp_safetensors *file = open_golden("losses");
    char name[NAME], loss[NAME];
    (void)state;
    for (int d = 0; d < DEVICES; d++)
        for (int shape = 0; shape < 3; shape++)
            for (int s = 0; s < 3; s++)
                for (int i = 0; i < 4; i++) {
                    snprintf(name, sizeof name, "cross_entropy_%s_%d_%s", shapes[shape], s, ignore[i][0]);
                    snprintf(loss, sizeof loss, "cross_entropy: {%s%s}", smoothing[s], ignore[i][1]);
                    check_loss(file, name, loss, true, &devices[d]);
                }
    gp_safetensors_close(&file);
}

static void test_losses_of_numbers(void **state) {
    static const char *const kinds[] = {"mse", "bce_logits"};
    gp_safetensors *file = open_golden("losses");
    char name[NAME];
    (void)state;
    for (int d = 0; d < DEVICES; d++) {
        for (int shape = 0; shape < 3; shape++)
            for (int kind = 0; kind < 2; kind++) {
                snprintf(name, sizeof name, "%s_%s", kinds[kind], shapes[shape]);
                check_loss(file, name, kinds[kind], false, &devices[d]);
            }
        check_loss(file, "bce_logits_large", "bce_logits", false, &devices[d]);
    }
    gp_safetensors_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_single_layers),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_losses_of_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
