/* A step whose loss is not finite changes nothing, on no stage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"

enum { SAMPLES = 10 };

static void put(harness *h, int64_t sample, double value) {
    int64_t at = sample * h->input_elements + h->input_elements / 2;
    if (h->plan->real == GP_F64)
        ((double *)h->input)[at] = value;
    else
        ((float *)h->input)[at] = (float)value;
}

static void good_step(harness *h, uint32_t step) {
    gp_step_result result;
    gp_error err = {0};
    assert_int_equal(harness_step(h, SAMPLES, true, step, &result, &err), GP_OK);
    assert_true(result.finite);
    assert_true(isfinite(result.loss_sum));
}

static void bad_step(harness *h, uint32_t step, int64_t sample, double value) {
    gp_step_result result;
    gp_error err = {0};
    uint64_t before = harness_hash(h);
    harness_make_data(h, SAMPLES, step);
    put(h, sample, value);
    assert_int_equal(harness_run(h, SAMPLES, true, step, &result, &err), GP_OK);
    assert_false(result.finite);
    assert_true(!isfinite(result.loss_sum));
    if (harness_hash(h) != before)
        fail_msg("%g in sample %d changed something on %d stages", value, (int)sample, h->plan->workers);
}

/* Good steps with bad ones between them end like the good ones alone. */
static uint64_t train(const harness_options *options, bool bad) {
    harness h;
    harness_plan(&h, options);
    harness_start(&h, NULL);
    if (bad) bad_step(&h, 1, 0, NAN);
    good_step(&h, 1);
    if (bad) bad_step(&h, 2, SAMPLES - 1, INFINITY);
    if (bad) bad_step(&h, 2, 4, -INFINITY);
    good_step(&h, 2);
    if (bad) bad_step(&h, 3, 5, -NAN);
    good_step(&h, 3);
    uint64_t hash = harness_hash(&h);
    harness_end(&h);
    return hash;
}

typedef struct cut {
    int stages;
    int64_t layers[5];
} cut;

static void check(const gp_device_kind *kind, gp_dtype real, const char *model, const cut *cuts) {
    for (int c = 0; c < 4; c++) {
        for (int mode = GP_CHECKPOINT_NEVER; mode <= GP_CHECKPOINT_ALWAYS; mode++) {
            harness_options options = {.model = model,
                                       .layers = cuts[c].layers,
                                       .stages = cuts[c].stages,
                                       .kind = kind,
                                       .real = real,
                                       .checkpoint = (gp_checkpoint_mode)mode,
                                       .lockstep = mode != GP_CHECKPOINT_ALWAYS,
                                       .micro_batches = 4,
                                       .batch = SAMPLES};
            assert_true(train(&options, true) == train(&options, false));
        }
    }
}

static const char overflowing[] =
    "input: {shape: [4]}\nlayers: [{linear: 3}, relu, {linear: 5}]\nloss: cross_entropy\n";

static void fill_param(harness *h, const char *name, float value) {
    gp_error err = {0};
    float values[16];
    int p = gp_graph_find_param(h->graph, name);
    for (int i = 0; i < 16; i++) values[i] = i % 5 ? value : -value;
    assert_true(p >= 0);
    assert_int_equal(gp_run_write(h->run, &(gp_tensor_copy){p, -1, values}, 1, &err), GP_OK);
    assert_int_equal(gp_run_refresh(h->run, &err), GP_OK);
}

/* The loss is finite, and the gradient of the first weight is not: the step is refused where it is clipped, whatever
 * the cut; where the norm is only looked at, it is applied as without. */
static void check_overflow(const gp_device_kind *kind, int stages, const int64_t *layers, bool norms, bool clips) {
    harness h;
    gp_step_result result;
    gp_error err = {0};
    harness_options options = {.model = overflowing,
                               .layers = layers,
                               .stages = stages,
                               .kind = kind,
                               .real = GP_F32,
                               .norms = norms,
                               .clip_norm = clips ? 1 : 0,
                               .micro_batches = 4,
                               .batch = SAMPLES};
    harness_plan(&h, &options);
    harness_start(&h, NULL);
    harness_make_data(&h, SAMPLES, 1);
    for (int i = 0; i < 4 * SAMPLES; i++) ((float *)h.input)[i] *= 1e38F;
    fill_param(&h, "0.weight", 1e-37F);
    fill_param(&h, "2.weight", 100);
    uint64_t before = harness_hash(&h);
    assert_int_equal(harness_run(&h, SAMPLES, true, 1, &result, &err), GP_OK);
    assert_true(isfinite(result.loss_sum));
    assert_true(result.finite == !clips);
    assert_true(norms || clips ? !isfinite(result.grad_norm) : result.grad_norm == 0);
    assert_true((harness_hash(&h) == before) == clips);
    harness_end(&h);
}

static void test_gradients(void **state) {
    (void)state;
    const gp_device_kind *kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    for (int k = 0; k < 2; k++)
        for (int how = 0; how < 4; how++) {
            check_overflow(kinds[k], 1, (const int64_t[]){3}, how & 1, how & 2);
            check_overflow(kinds[k], 2, (const int64_t[]){1, 2}, how & 1, how & 2);
            check_overflow(kinds[k], 3, (const int64_t[]){1, 1, 1}, how & 1, how & 2);
        }
}

static const cut skips[] = {{1, {17}}, {2, {6, 11}}, {3, {2, 6, 9}}, {5, {2, 3, 4, 4, 4}}};
static const cut pictures[] = {{1, {16}}, {2, {7, 9}}, {3, {1, 6, 9}}, {5, {2, 3, 3, 4, 4}}};
static const cut vectors[] = {{1, {9}}, {2, {4, 5}}, {3, {2, 3, 4}}, {5, {1, 2, 2, 2, 2}}};

static void test_ref(void **state) {
    (void)state;
    check(&gp_ref_kind, GP_F32, network_skips, skips);
    check(&gp_ref_kind, GP_F64, network_vectors, vectors);
}

static void test_cpu(void **state) {
    (void)state;
    check(&gp_cpu_kind, GP_F32, network_skips, skips);
    check(&gp_cpu_kind, GP_F32, network_pictures, pictures);
    check(&gp_cpu_kind, GP_F32, network_vectors, vectors);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
