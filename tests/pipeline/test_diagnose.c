/* The tensor where a mini-batch stops being finite is named, the same for every cut and every way to run it. */
#include "pipeline/diagnose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { SAMPLES = 10 }; /* micro-batches of 3, 3, 3, 1 */

static void put(void *values, int64_t at, double value) {
    ((float *)values)[at] = (float)value;
}

/* Element `at` of a parameter; −1: all of them. */
static void set_param(harness *h, const char *name, int64_t at, double value) {
    gp_error err = {0};
    float *values;
    int64_t elements = 0;
    int p = gp_graph_find_param(h->graph, name);
    assert_true(p >= 0 && gp_shape_elements(h->graph->params[p].spec.shape, &elements));
    values = malloc((size_t)elements * sizeof *values);
    assert_non_null(values);
    assert_int_equal(gp_run_read(h->run, &(gp_tensor_copy){p, -1, values}, 1, &err), GP_OK);
    for (int64_t i = 0; i < elements; i++)
        if (at < 0 || at == i) values[i] = (float)value;
    assert_int_equal(gp_run_write(h->run, &(gp_tensor_copy){p, -1, values}, 1, &err), GP_OK);
    assert_int_equal(gp_run_refresh(h->run, &err), GP_OK);
    free(values);
}

static void set_targets(harness *h) {
    memset(h->target, 0, SAMPLES * sizeof(int64_t));
}

static void scale_samples(harness *h, int64_t first, int64_t last, double by) {
    for (int64_t i = first * h->input_elements; i < last * h->input_elements; i++) ((float *)h->input)[i] *= (float)by;
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

static void nan_in_the_data(harness *h) {
    put(h->input, 8 * h->input_elements + 1, NAN);
    put(h->input, 8 * h->input_elements + 2, INFINITY);
    put(h->input, 9 * h->input_elements, NAN);
}

static void infinite_target(harness *h) {
    put(h->target, 4 * h->target_elements + 1, -INFINITY);
}

static void bad_weight(harness *h) {
    set_param(h, "2.weight", 5, -INFINITY);
    set_param(h, "2.weight", 6, NAN);
    set_param(h, "8.bias", 0, NAN);
}

static void bad_statistics(harness *h) {
    set_param(h, "9.running_var", 3, NAN);
}

/* What nobody uses is no cause. */
static void unused_statistics(harness *h) {
    set_param(h, "a.running_mean", 0, NAN);
    set_param(h, "7.weight", 0, NAN);
}

/* 7 inputs of 1e30, then sums of 9: over the top in the second layer of weights, for the samples from 6 on. */
static void overflow(harness *h) {
    set_param(h, "a.weight", -1, 1e30);
    set_param(h, "2.weight", -1, 1e30);
    scale_samples(h, 0, 6, 1e-30);
    for (int64_t i = 0; i < 4 * h->input_elements; i++) put(h->input, 6 * h->input_elements + i, 1);
}

/* Forward all is finite; the gradient of the first weight is the sum of such as are not, in samples 3 to 5. */
static void overflow_in_a_gradient(harness *h) {
    set_targets(h);
    set_param(h, "0.weight", -1, 1e-37);
    set_param(h, "2.weight", -1, 100);
    for (int64_t i = 0; i < 3; i++) set_param(h, "2.weight", i, -100);
    for (int64_t i = 0; i < SAMPLES * h->input_elements; i++) put(h->input, i, 1e-3);
    for (int64_t i = 3 * h->input_elements; i < 6 * h->input_elements; i++) put(h->input, i, 3e38);
}

/* Each of three shares of the gradient of `a` is finite, two of them add up to what is not. */
static void overflow_in_a_sum_of_gradients(harness *h) {
    set_targets(h);
    set_param(h, "a.weight", -1, 0);
    set_param(h, "a.bias", -1, 0);
    set_param(h, "2.bias", -1, 0);
    for (int64_t i = 0; i < 6; i++) set_param(h, "2.weight", i, i < 3 ? 3.4e38 : -3.4e38);
}

static void fill_samples(harness *h, int64_t first, int64_t last, double value) {
    for (int64_t i = first * h->input_elements; i < last * h->input_elements; i++) put(h->input, i, value);
}

/* One place of the norm's channel 0 is −inf in samples 3 to 5, which relu hides; what the others are is too much for
 * the layer behind it. */
static void hidden_overflow(harness *h) {
    fill_samples(h, 0, SAMPLES, 1);
    put(h->input, 4 * h->input_elements + 2, -1000);
    set_param(h, "n.weight", 0, 3.3e38);
    set_param(h, "3.weight", -1, 100);
}

/* In samples 6 to 8 both addends are finite, and of one sign. */
static void overflow_in_a_sum(harness *h) {
    fill_samples(h, 0, SAMPLES, 0);
    for (int64_t i = 6 * h->input_elements; i < 9 * h->input_elements; i++) put(h->input, i, i % 4 < 2 ? -1 : 1);
    set_param(h, "c.bias", -1, 0);
    set_param(h, "c.weight", -1, 0);
    set_param(h, "c.weight", 0, 3e38);
    set_param(h, "c.weight", 3, 3e38);
    set_param(h, "n.weight", -1, 3e38);
}

/* Forward all is finite; in samples 3 to 5 the norm's gradient is multiplied by more than it can be. */
static void overflow_behind_a_norm(harness *h) {
    fill_samples(h, 0, SAMPLES, 0);
    set_targets(h);
    ((int64_t *)h->target)[3] = 1;
    set_param(h, "c.bias", -1, 0);
    set_param(h, "n.weight", -1, 1e33);
    set_param(h, "n.bias", -1, 1);
    set_param(h, "4.weight", -1, -1e8);
    for (int64_t i = 0; i < 8; i++) set_param(h, "4.weight", i, 1e8);
}

/* The same where what relu lets through is wanted by two. */
static void overflow_behind_a_sum(harness *h) {
    fill_samples(h, 0, SAMPLES, 0);
    set_targets(h);
    ((int64_t *)h->target)[3] = 1;
    set_param(h, "c.bias", -1, 0);
    set_param(h, "n.weight", -1, 1e33);
    set_param(h, "n.bias", -1, 1);
    set_param(h, "5.weight", -1, -1e8);
    for (int64_t i = 0; i < 8; i++) set_param(h, "5.weight", i, 1e8);
}

/* In sample 3 two users of what relu makes have a finite share of its gradient each, and the sum is too much. */
static void overflow_where_shares_meet(harness *h) {
    set_targets(h);
    ((int64_t *)h->target)[3] = 1;
    set_param(h, "c.weight", -1, 0);
    set_param(h, "c.bias", -1, 0);
    set_param(h, "n.weight", -1, 0);
    set_param(h, "n.bias", -1, 1e-37);
    set_param(h, "p.weight", -1, 6e37);
    set_param(h, "q.weight", -1, 6e37);
    set_param(h, "8.weight", -1, -10);
    for (int64_t i = 0; i < 8; i++) set_param(h, "8.weight", i, 10);
}

static const char overflowing[] =
    "input: {shape: [4]}\nlayers: [{linear: 3}, relu, {linear: 5}]\nloss: cross_entropy\n";
static const char folding[] =
    "input: {shape: [4]}\nlayers: [{linear: {out: 3, name: a}}, add: [a, a, a, a, a, a, a, a, a, a, a], linear: 2]\n"
    "loss: cross_entropy\n";
static const char norm[] =
    "input: {shape: [2, 2, 2]}\nlayers: [batch_norm: {name: n, eps: 1}, relu, flatten, linear: 2]\n"
    "loss: cross_entropy\n";
static const char norm_sum[] = "input: {shape: [2, 2, 2]}\nlayers: [conv: {out: 2, kernel: 1, name: c}, batch_norm: "
                               "{name: n, eps: 1, from: input}, "
                               "add: [n, c], relu, flatten, linear: 2]\nloss: cross_entropy\n";
static const char conv_norm[] =
    "input: {shape: [2, 2, 2]}\nlayers: [conv: {out: 2, kernel: 1, name: c}, batch_norm: {name: n}, relu, flatten, "
    "linear: 2]\nloss: cross_entropy\n";
static const char conv_norm_sum[] = "input: {shape: [2, 2, 2]}\nlayers: [conv: {out: 2, kernel: 1, name: c}, "
                                    "batch_norm: {name: n}, add: [c, -1], relu, "
                                    "flatten, linear: 2]\nloss: cross_entropy\n";
#define POINTS "conv: {out: 2, kernel: 1, name: "
static const char shared_sum[] =
    "input: {shape: [2, 2, 2]}\nlayers: [" POINTS "c}, batch_norm: {name: n}, add: [c, -1], "
    "relu: {name: y}, " POINTS "p}, " POINTS "q, from: y}, add: [p, q], flatten, "
    "linear: 2]\nloss: cross_entropy\n";
static const char numbers[] = "input: {shape: [4]}\nlayers: [{linear: 3}, tanh, {linear: 2}]\nloss: mse\n";

typedef struct fault {
    const char *model;
    void (*make)(harness *h);
    const char *sentence;
    int64_t layers[3][4]; /* of cuts, the first of one stage */
} fault;

#define SKIPS                                                                                                          \
    {                                                                                                                  \
        {17}, {8, 9}, {                                                                                                \
            3, 5, 2, 7                                                                                                 \
        }                                                                                                              \
    }
#define FROZEN                                                                                                         \
    {                                                                                                                  \
        {17}, {8, 9}, {                                                                                                \
            3, 6, 1, 7                                                                                                 \
        }                                                                                                              \
    }
#define VECTORS                                                                                                        \
    {                                                                                                                  \
        {9}, {4, 5}, {                                                                                                 \
            1, 2, 3, 3                                                                                                 \
        }                                                                                                              \
    }
#define SMALL                                                                                                          \
    {                                                                                                                  \
        {3}, {1, 2}, {                                                                                                 \
            1, 1, 1                                                                                                    \
        }                                                                                                              \
    }

#define FOUR                                                                                                           \
    {                                                                                                                  \
        {4}, {1, 3}, {                                                                                                 \
            2, 1, 1                                                                                                    \
        }                                                                                                              \
    }
#define FIVE                                                                                                           \
    {                                                                                                                  \
        {5}, {2, 3}, {                                                                                                 \
            3, 1, 1                                                                                                    \
        }                                                                                                              \
    }
#define SIX                                                                                                            \
    {                                                                                                                  \
        {6}, {2, 4}, {                                                                                                 \
            1, 2, 1, 2                                                                                                 \
        }                                                                                                              \
    }

/* Shares meet on the stage of relu, from two stages, and on another stage. */
#define NINE                                                                                                           \
    {                                                                                                                  \
        {9}, {5, 4}, {                                                                                                 \
            1, 3, 3, 2                                                                                                 \
        }                                                                                                              \
    }

static const fault faults[] = {
    {network_vectors, nan_in_the_data, "micro-batch 3 of 4, input: 2 of 21 elements, the first is nan", VECTORS},
    {network_skips, nan_in_the_data, "micro-batch 3 of 4, input: 2 of 252 elements, the first is nan", SKIPS},
    {numbers, infinite_target, "micro-batch 2 of 4, loss mse: target: 1 of 6 elements, the first is -inf", SMALL},
    {network_vectors, bad_weight, "linear \"2\": weight, before the step: 2 of 81 elements, the first is -inf",
     VECTORS},
    {network_frozen, bad_statistics,
     "batch_norm \"9\": running_var, before the step: 1 of 10 elements, the first is nan", FROZEN},
    {network_skips, unused_statistics, "conv \"7\": weight, before the step: 1 of 72 elements, the first is nan",
     SKIPS},
    {network_vectors, overflow, "micro-batch 3 of 4, linear \"2\": output: 27 of 27 elements, the first is inf",
     VECTORS},
    {overflowing, overflow_in_a_gradient,
     "micro-batch 2 of 4, linear \"0\": gradient of weight: 12 of 12 elements, the first is inf", SMALL},
    {folding, overflow_in_a_sum_of_gradients,
     "micro-batch 4 of 4, add \"1\": gradient of its input \"a\": 3 of 3 elements, the first is -inf", SMALL},
    {norm, hidden_overflow, "micro-batch 2 of 4, batch_norm \"n\": output: 1 of 24 elements, the first is -inf", FOUR},
    {norm_sum, overflow_in_a_sum, "micro-batch 3 of 4, add \"2\": output: 24 of 24 elements, the first is -inf", SIX},
    {conv_norm, overflow_behind_a_norm,
     "micro-batch 2 of 4, batch_norm \"n\": gradient of its input: 24 of 24 elements, the first is inf", FIVE},
    {conv_norm_sum, overflow_behind_a_sum,
     "micro-batch 2 of 4, batch_norm \"n\": gradient of its input: 24 of 24 elements, the first is inf", SIX},
    {shared_sum, overflow_where_shares_meet,
     "micro-batch 2 of 4, conv \"p\": gradient of its input: 8 of 24 elements, the first is inf", NINE},
};

/* ---- and what is said of it -------------------------------------------------------------------------------------- */

static void check(const fault *with, const gp_device_kind *kind, int cut, gp_checkpoint_mode mode, bool unfused) {
    harness h;
    gp_error err = {0};
    gp_finding finding = {0};
    gp_step_result result;
    char text[GP_FINDING_TEXT];
    int stages = 0;
    while (stages < 4 && with->layers[cut][stages]) stages++;
    const harness_options options = {.model = with->model,
                                     .layers = with->layers[cut],
                                     .stages = stages,
                                     .kind = kind,
                                     .checkpoint = mode,
                                     .lockstep = mode != GP_CHECKPOINT_NEVER,
                                     .clip_norm = 1,
                                     .unfused = unfused,
                                     .micro_batches = 4,
                                     .batch = SAMPLES};
    harness_plan(&h, &options);
    harness_start(&h, NULL);
    harness_make_data(&h, SAMPLES, 1);
    with->make(&h);
    assert_int_equal(harness_run(&h, SAMPLES, true, 1, &result, &err), GP_OK);
    if (result.finite) fail_msg("all is finite where this was expected: %s", with->sentence);
    uint64_t before = harness_hash(&h);
    int mini = gp_plan_find(h.plan, true, SAMPLES);
    const gp_step_input input = {h.input, h.target, 7, 1, 0.05, (double)(SAMPLES * h.target_elements), 0, 0};
    assert_int_equal(gp_run_diagnose(h.run, mini, &input, &finding, &err), GP_OK);
    assert_true(finding.found);
    assert_string_equal(gp_finding_text(text, h.plan, mini, &finding), with->sentence);
    assert_true(harness_hash(&h) == before);
    harness_end(&h);
}

static void test_faults(void **state) {
    (void)state;
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (int k = 0; k < 2; k++)
            for (int cut = 0; cut < 3; cut++)
                for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++)
                    for (int unfused = 0; unfused < 2; unfused++)
                        check(&faults[f], kinds[k], cut, (gp_checkpoint_mode)mode, unfused);
}

/* The pass looks and changes nothing: where all is finite there is nothing to name, though that step is applied. */
static void test_nothing_to_find(void **state) {
    (void)state;
    harness h;
    gp_error err = {0};
    gp_finding finding = {.found = true};
    const harness_options options = {.model = network_skips,
                                     .layers = (const int64_t[]){8, 9},
                                     .stages = 2,
                                     .kind = &gp_cpu_kind,
                                     .micro_batches = 4,
                                     .batch = SAMPLES};
    harness_plan(&h, &options);
    harness_start(&h, NULL);
    harness_make_data(&h, SAMPLES, 1);
    int mini = gp_plan_find(h.plan, true, SAMPLES);
    const gp_step_input input = {h.input, h.target, 7, 1, 0.05, SAMPLES, 0, 0};
    assert_int_equal(gp_run_diagnose(h.run, mini, &input, &finding, &err), GP_OK);
    assert_false(finding.found);
    uint64_t looked_at = harness_hash(&h);
    harness_end(&h);

    gp_step_result result;
    harness_plan(&h, &options);
    harness_start(&h, NULL);
    assert_int_equal(harness_step(&h, SAMPLES, true, 1, &result, &err), GP_OK);
    assert_true(harness_hash(&h) == looked_at);
    harness_end(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_nothing_to_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
