/* Central differences in double precision against every layer's lowered backward, on a random projection.
 *
 * L = Σ projection·output (a loss: its mean). Inputs and parameters are shuffled grids: no two are near each other, and
 * none is near 0, so that no step crosses a kink of relu or max_pool. GP_TEST_SEED picks other values.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "device/ref/ref.h"
#include "layers/lowered_runner.h"

static uint64_t seed = 20240607;

typedef struct gradient_case {
    const char *layer;
    int64_t samples;
    int input_count;
    gp_shape inputs[4];
    bool loss;
} gradient_case;

#define PICTURE(c, h, w)                                                                                               \
    {                                                                                                                  \
        3, {                                                                                                           \
            c, h, w                                                                                                    \
        }                                                                                                              \
    }
#define ROWS(t, w)                                                                                                     \
    {                                                                                                                  \
        2, {                                                                                                           \
            t, w                                                                                                       \
        }                                                                                                              \
    }
#define ROW(w)                                                                                                         \
    {                                                                                                                  \
        1, {                                                                                                           \
            w                                                                                                          \
        }                                                                                                              \
    }

static const gradient_case cases[] = {
    {"conv: {out: 3, kernel: 3}", 2, 1, {PICTURE(2, 5, 4)}, false},
    {"conv: {out: 3, kernel: 3, pad: 1, bias: false}", 1, 1, {PICTURE(2, 4, 5)}, false},
    {"conv: {out: 4, kernel: [1, 3], stride: [2, 3], pad: [1, 2]}", 3, 1, {PICTURE(3, 5, 7)}, false},
    {"conv: {out: 6, kernel: 3, groups: 2, dilation: [2, 1], pad: 1}", 2, 1, {PICTURE(4, 6, 3)}, false},
    {"conv: {out: 3, kernel: 2, groups: 3, stride: 2}", 2, 1, {PICTURE(3, 5, 5)}, false},
    {"conv: {out: 5, kernel: 1}", 2, 1, {PICTURE(3, 1, 1)}, false},
    {"conv: {out: 2, kernel: 4, pad: 3, dilation: 2, stride: 3}", 1, 1, {PICTURE(1, 4, 6)}, false},
    {"linear: 4", 3, 1, {ROW(5)}, false},
    {"linear: {out: 1, bias: false}", 1, 1, {ROW(7)}, false},
    {"linear: {out: 3}", 2, 1, {ROWS(4, 5)}, false},
    {"batch_norm", 3, 1, {PICTURE(2, 3, 2)}, false},
    {"batch_norm: {eps: 0.1}", 5, 1, {ROW(3)}, false},
    {"batch_norm: {affine: false, eps: 1e-3}", 2, 1, {PICTURE(3, 1, 3)}, false},
    {"batch_norm", 1, 1, {PICTURE(2, 3, 3)}, false},
    {"batch_norm: {freeze: true, eps: 0.1}", 2, 1, {PICTURE(3, 2, 3)}, false},
    {"batch_norm: {freeze: true, affine: false}", 1, 1, {ROW(4)}, false},
    {"relu", 2, 1, {PICTURE(3, 3, 2)}, false},
    {"relu", 3, 1, {ROWS(2, 5)}, false},
    {"relu", 3, 1, {ROW(5)}, false},
    {"leaky_relu", 2, 1, {PICTURE(3, 3, 2)}, false},
    {"leaky_relu: 0.3", 3, 1, {ROWS(2, 5)}, false},
    {"leaky_relu: {slope: -2}", 3, 1, {ROW(5)}, false},
    {"gelu", 3, 1, {PICTURE(3, 3, 2)}, false},
    {"gelu: {tanh: true}", 3, 1, {ROWS(2, 5)}, false},
    {"silu", 3, 1, {ROW(7)}, false},
    {"sigmoid", 2, 1, {ROWS(3, 5)}, false},
    {"tanh", 2, 1, {PICTURE(2, 3, 2)}, false},
    {"instance_norm", 2, 1, {PICTURE(3, 4, 2)}, false},
    {"instance_norm: {affine: true, eps: 0.1}", 3, 1, {PICTURE(2, 3, 3)}, false},
    {"layer_norm", 3, 1, {ROW(6)}, false},
    {"layer_norm: 0.1", 2, 1, {ROWS(3, 5)}, false},
    {"group_norm: 2", 2, 1, {PICTURE(6, 2, 3)}, false},
    {"group_norm: {groups: 1, eps: 0.01}", 2, 1, {PICTURE(3, 3, 2)}, false},
    {"group_norm: {groups: 3, affine: false}", 3, 1, {ROW(9)}, false},
    {"group_norm: {groups: 4}", 2, 1, {PICTURE(4, 2, 3)}, false},
    {"max_pool: 2", 2, 1, {PICTURE(2, 5, 4)}, false},
    {"max_pool: {kernel: 3, stride: 2, pad: 1}", 2, 1, {PICTURE(3, 7, 6)}, false},
    {"max_pool: {kernel: [3, 1], stride: 1}", 1, 1, {PICTURE(2, 5, 3)}, false},
    {"max_pool: {kernel: [2, 3], stride: [3, 1], pad: [1, 1]}", 2, 1, {PICTURE(1, 7, 5)}, false},
    {"max_pool: {kernel: 3, stride: 2, ceil: true}", 2, 1, {PICTURE(2, 6, 4)}, false},
    {"max_pool: {kernel: [17, 16], stride: 1}", 1, 1, {PICTURE(1, 18, 17)}, false},
    {"avg_pool: 2", 2, 1, {PICTURE(2, 5, 4)}, false},
    {"avg_pool: {kernel: 3, stride: 2, pad: 1, ceil: true}", 2, 1, {PICTURE(2, 6, 4)}, false},
    {"avg_pool: {kernel: 3, stride: 2, pad: 1, ceil: true, count_pad: false}", 1, 1, {PICTURE(3, 6, 4)}, false},
    {"avg_pool: {kernel: [4, 3], stride: [3, 1], pad: [2, 1], count_pad: false}", 2, 1, {PICTURE(1, 7, 5)}, false},
    {"global_avg_pool", 2, 1, {PICTURE(3, 5, 3)}, false},
    {"upsample: 2", 2, 1, {PICTURE(3, 2, 3)}, false},
    {"upsample: {scale: [1, 3]}", 2, 1, {PICTURE(2, 3, 2)}, false},
    {"identity", 2, 1, {PICTURE(2, 3, 2)}, false},
    {"identity", 2, 1, {ROWS(2, 5)}, false},
    {"flatten", 2, 1, {PICTURE(3, 2, 4)}, false},
    {"flatten", 2, 1, {ROWS(3, 4)}, false},
    {"flatten", 2, 1, {ROW(4)}, false},
    {"dropout: 0.4", 3, 1, {PICTURE(3, 3, 3)}, false},
    {"dropout: {p: 0.7}", 2, 1, {ROWS(3, 5)}, false},
    {"dropout: {p: 0.4, channels: true}", 3, 1, {PICTURE(7, 2, 3)}, false},
    {"dropout: 0", 2, 1, {ROW(9)}, false},
    {"dropout: 1", 2, 1, {ROW(9)}, false},
    {"add: [a, b]", 2, 2, {PICTURE(2, 3, 3), PICTURE(2, 3, 3)}, false},
    {"add: [a, b, c, d]", 3, 4, {ROW(4), ROW(4), ROW(4), ROW(4)}, false},
    {"concat: [a, b]", 2, 2, {PICTURE(2, 3, 2), PICTURE(3, 3, 2)}, false},
    {"concat: [a, b, c]", 3, 3, {ROW(1), ROW(4), ROW(2)}, false},
    {"cross_entropy", 5, 1, {ROW(4)}, true},
    {"cross_entropy", 2, 1, {ROW(1)}, true},
    {"cross_entropy: 0.2", 3, 1, {ROWS(3, 4)}, true},
    {"cross_entropy: {smoothing: 1, ignore: 0}", 5, 1, {ROW(3)}, true},
    {"cross_entropy: {ignore: 255, smoothing: 0.05}", 2, 1, {PICTURE(3, 2, 3)}, true},
    {"mse", 3, 1, {ROW(4)}, true},
    {"mse", 2, 1, {PICTURE(2, 2, 3)}, true},
    {"bce_logits", 2, 1, {ROWS(2, 3)}, true},
};

static uint32_t draw(uint32_t purpose, int64_t element) {
    gp_philox counter = {{(uint32_t)(element / 4), purpose, 0, 0}};
    return gp_philox_draw(seed, counter).word[element % 4];
}

/* A shuffled grid on [−2, 2] that leaves out 0. */
static double *grid_values(int64_t count, uint32_t purpose) {
    double *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    int64_t points = count + count % 2;
    for (int64_t i = 0; i < count; i++) values[i] = 4 * ((double)i + 0.5) / (double)points - 2;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = draw(purpose, i) % (i + 1);
        double swapped = values[i];
        values[i] = values[j];
        values[j] = swapped;
    }
    return values;
}

static double objective(lowered_runner *runner, const double *projection) {
    runner_run(runner, GP_PASS_FORWARD);
    double sum = 0;
    if (runner_layer(runner)->type->loss) {
        runner_run(runner, GP_PASS_TOTAL);
        return runner_scalars(runner)->loss_sum / runner_scalars(runner)->divisor;
    }
    double *output = runner_get(runner, GP_ROLE_OUTPUT, 0);
    for (int64_t i = 0; i < runner_count(runner, GP_ROLE_OUTPUT, 0); i++) sum += projection[i] * output[i];
    free(output);
    return sum;
}

/* Compares the gradient of one operand, element by element. */
static void compare(lowered_runner *runner, gp_role role, gp_role gradient_role, int index, double *values,
                    const double *projection, const char *layer) {
    const double step = 1e-5;
    double *gradient = runner_get(runner, gradient_role, index);
    for (int64_t i = 0; i < runner_count(runner, role, index); i++) {
        double kept = values[i];
        values[i] = kept + step;
        runner_set(runner, role, index, values);
        double above = objective(runner, projection);
        values[i] = kept - step;
        runner_set(runner, role, index, values);
        double below = objective(runner, projection);
        values[i] = kept;
        double numeric = (above - below) / (2 * step);
        double tolerance = 1e-7 * (1 + fabs(numeric)) + 1e-8 * fabs(above);
        if (!(fabs(numeric - gradient[i]) <= tolerance))
            fail_msg("%s: gradient of %s %d, element %lld: %.12g, but differences say %.12g (seed %llu)", layer,
                     role == GP_ROLE_PARAM ? "parameter" : "input", index, (long long)i, gradient[i], numeric,
                     (unsigned long long)seed);
    }
    runner_set(runner, role, index, values);
    free(gradient);
}

static void set_values(lowered_runner *runner, gp_role role, int count, uint32_t purpose, double **values) {
    for (int i = 0; i < count; i++) {
        values[i] = grid_values(runner_count(runner, role, i), purpose + (uint32_t)i);
        runner_set(runner, role, i, values[i]);
    }
}

static void free_values(double **values, int count) {
    for (int i = 0; i < count; i++) free(values[i]);
}

/* Classes in turn, every third ignored; or numbers. */
static void set_target(lowered_runner *runner, const gp_layer *loss) {
    double target[24];
    int64_t count = runner_count(runner, GP_ROLE_INPUT, 1);
    assert_in_range(count, 1, 24);
    for (int64_t i = 0; i < count; i++) {
        if (loss->type->classes)
            target[i] = (double)(i % 3 == 2 ? loss->type->ignore(loss) : (2 * i + 1) % loss->type->classes(loss));
        else
            target[i] = (double)(i * 7 % 5) / 4;
    }
    runner_set(runner, GP_ROLE_INPUT, 1, target);
    runner_scalars(runner)->divisor = 3;
}

/* Grids have values below 0; a variance has not. */
static void set_variances(lowered_runner *runner, const gp_param_spec *specs, int count, double *const values[]) {
    for (int i = 0; i < count; i++) {
        if (strcmp(specs[i].suffix, "running_var") != 0) continue;
        for (int64_t e = 0; e < runner_count(runner, GP_ROLE_PARAM, i); e++) values[i][e] = fabs(values[i][e]);
        runner_set(runner, GP_ROLE_PARAM, i, values[i]);
    }
}

static void check_case(const gradient_case *it) {
    lowered_runner *runner = runner_create(&(runner_options){.kind = &gp_ref_kind,
                                                             .real = GP_F64,
                                                             .layer = it->layer,
                                                             .loss = it->loss,
                                                             .inputs = it->inputs,
                                                             .input_count = it->input_count,
                                                             .samples = it->samples,
                                                             .pieces = 1});
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    const gp_layer *layer = runner_layer(runner);
    int params = layer->type->params ? layer->type->params(layer, specs) : 0;
    double *inputs[4], *values[GP_LAYER_MAX_PARAMS], *projection = NULL;
    runner_set_first_sample(runner, 3);
    set_values(runner, GP_ROLE_INPUT, it->input_count, 1, inputs);
    set_values(runner, GP_ROLE_PARAM, params, 100, values);
    set_variances(runner, specs, params, values);
    if (it->loss) {
        set_target(runner, layer);
    } else {
        set_values(runner, GP_ROLE_GRAD_OUTPUT, 1, 200, &projection);
    }
    runner_run(runner, GP_PASS_FORWARD);
    runner_run(runner, GP_PASS_BACKWARD);
    for (int i = 0; i < it->input_count; i++)
        compare(runner, GP_ROLE_INPUT, GP_ROLE_GRAD_INPUT, i, inputs[i], projection, it->layer);
    for (int i = 0; i < params; i++)
        if (!specs[i].buffer && !layer->frozen)
            compare(runner, GP_ROLE_PARAM, GP_ROLE_GRAD_PARAM, i, values[i], projection, it->layer);
    free_values(inputs, it->input_count);
    free_values(values, params);
    free(projection);
    runner_destroy(&runner);
}

static void test_gradients(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

/* A layer that nobody checks would be a hole in this net. */
static void test_every_layer_is_here(void **state) {
    (void)state;
    for (int loss = 0; loss < 2; loss++)
        for (const char *const *name = gp_layer_names(loss); *name; name++) {
            bool found = false;
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                size_t length = strlen(*name);
                const char *layer = cases[i].layer;
                if (strncmp(layer, *name, length) != 0) continue;
                if (layer[length] == ':' || layer[length] == '\0') found = true;
            }
            if (!found) fail_msg("%s has no gradient check", *name);
        }
}

int main(void) {
    const char *given = getenv("GP_TEST_SEED");
    if (given) seed = strtoull(given, NULL, 10);
    print_message("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients), cmocka_unit_test(test_every_layer_is_here)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
