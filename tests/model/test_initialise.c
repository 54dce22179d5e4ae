/* Initial values: PyTorch's bounds, statistics, and that they follow from seed, name and element alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "model/graph.h"

typedef struct built {
    gp_yaml_document *document;
    gp_graph *graph;
} built;

static built build(const char *text) {
    built model = {0};
    gp_error err = {0};
    gp_status status = gp_yaml_parse(text, strlen(text), "m.yaml", &model.document, &err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(model.document), &model.graph, &err);
    if (status != GP_OK) fail_msg("%s", err.text);
    return model;
}

static void release(built *model) {
    gp_graph_destroy(&model->graph);
    gp_yaml_destroy(&model->document);
}

static int64_t elements_of(const gp_param *param) {
    int64_t elements = 0;
    assert_true(gp_shape_elements(param->spec.shape, &elements));
    return elements;
}

static double *values_of(const built *model, const char *name, uint64_t seed) {
    int index = gp_graph_find_param(model->graph, name);
    assert_true(index >= 0);
    const gp_param *param = &model->graph->params[index];
    double *values = malloc((size_t)elements_of(param) * sizeof *values);
    assert_non_null(values);
    gp_param_initialise(param, seed, GP_F64, values);
    return values;
}

static const char wide[] = "input: {shape: [8, 12, 12]}\n"
                           "layers:\n"
                           "- conv: {out: 64, kernel: [3, 5], groups: 2, name: c}\n"
                           "- batch_norm: {name: n}\n"
                           "- flatten\n"
                           "- linear: {out: 16, name: l}\n"
                           "loss: cross_entropy\n";

static void expect_uniform(const built *model, const char *name, double bound) {
    const gp_param *param = &model->graph->params[gp_graph_find_param(model->graph, name)];
    int64_t count = elements_of(param);
    double *values = values_of(model, name, 7);
    double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i];
        squares += values[i] * values[i];
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    double sigma = bound / sqrt(3), n = (double)count;
    assert_true(low >= -bound && high < bound);
    assert_true(fabs(sum / n) < 5 * sigma / sqrt(n));
    /* A uniform's square has the standard deviation 2/√45·bound². */
    assert_true(fabs(squares / n - sigma * sigma) < 5 * bound * bound * 2 / sqrt(45) / sqrt(n));
    if (count > 500) assert_true(low < -0.99 * bound && high > 0.99 * bound);
    free(values);
}

/* kaiming_uniform_(a=√5) is uniform in ±1/√fan_in; so is the bias. */
static void test_bounds(void **state) {
    (void)state;
    built model = build(wide);
    expect_uniform(&model, "c.weight", 1 / sqrt(4 * 3 * 5));
    expect_uniform(&model, "c.bias", 1 / sqrt(4 * 3 * 5));
    expect_uniform(&model, "l.weight", 1 / sqrt(64 * 10 * 8));
    expect_uniform(&model, "l.bias", 1 / sqrt(64 * 10 * 8));
    release(&model);
}

static void test_constants(void **state) {
    static const struct {
        const char *name;
        double value;
    } expected[] = {{"n.weight", 1}, {"n.bias", 0}, {"n.running_mean", 0}, {"n.running_var", 1}};
    (void)state;
    built model = build(wide);
    for (size_t p = 0; p < 4; p++) {
        double *values = values_of(&model, expected[p].name, 3);
        for (int i = 0; i < 64; i++) assert_true(values[i] == expected[p].value);
        free(values);
    }
    release(&model);
}

/* The counter of base/philox.h, written out. */
static void test_counters(void **state) {
    const uint64_t seed = 0x123456789ABCDEF0U, name = gp_hash_text("c.weight");
    (void)state;
    built model = build(wide);
    double *values = values_of(&model, "c.weight", seed);
    for (uint32_t element = 0; element < 40; element++) {
        gp_philox draw =
            gp_philox_draw(seed, (gp_philox){{element / 4, (uint32_t)name, (uint32_t)(name >> 32), GP_RANDOM_INITIAL}});
        double uniform = gp_philox_uniform(draw.word[element % 4]);
        assert_true(values[element] == (2 * uniform - 1) * (1 / sqrt(60)));
    }
    free(values);
    release(&model);
}

static void test_seed_and_name_alone(void **state) {
    static const char other[] = "input: {shape: [8, 12, 12]}\n"
                                "layers:\n"
                                "- relu\n"
                                "- conv: {out: 64, kernel: [3, 5], groups: 2, name: before}\n"
                                "- conv: {out: 64, kernel: [3, 5], groups: 2, name: c, from: input}\n"
                                "- add: [before, c]\n"
                                "- flatten: {from: [-1]}\n"
                                "- flatten: {from: '0', name: f}\n"
                                "- concat: [-2, f]\n"
                                "loss: cross_entropy\n";
    (void)state;
    built first = build(wide), second = build(other);
    size_t bytes = 64 * 4 * 15 * sizeof(double);
    double *a = values_of(&first, "c.weight", 1), *b = values_of(&second, "c.weight", 1);
    double *c = values_of(&second, "before.weight", 1), *d = values_of(&first, "c.weight", 2);
    double *e = values_of(&first, "c.weight", 1 + (UINT64_C(1) << 32));
    assert_memory_equal(a, b, bytes);
    assert_memory_not_equal(a, c, bytes);
    assert_memory_not_equal(a, d, bytes);
    assert_memory_not_equal(a, e, bytes);
    free(a);
    free(b);
    free(c);
    free(d);
    free(e);
    release(&first);
    release(&second);
}

static void expect_normal(const built *model, const char *name, double sigma) {
    const gp_param *param = &model->graph->params[gp_graph_find_param(model->graph, name)];
    int64_t count = elements_of(param);
    double *values = values_of(model, name, 7);
    double moment[5] = {0}, n = (double)count;
    int64_t within = 0;
    for (int64_t i = 0; i < count; i++) {
        double z = values[i] / sigma, power = 1;
        for (int k = 1; k <= 4; k++) moment[k] += power *= z;
        within += fabs(z) < 1;
    }
    /* Standard errors of a normal's moments and of the share within one sigma. */
    assert_true(fabs(moment[1] / n) < 5 / sqrt(n));
    assert_true(fabs(moment[2] / n - 1) < 5 * sqrt(2 / n));
    assert_true(fabs(moment[3] / n) < 5 * sqrt(15 / n));
    assert_true(fabs(moment[4] / n - 3) < 5 * sqrt(96 / n));
    assert_true(fabs((double)within / n - 0.682689) < 5 * sqrt(0.2166 / n));
    double products[2] = {0, 0}; /* neighbours that share a word, and such that do not */
    for (int64_t i = 0; i + 1 < count; i++) products[i % 2] += values[i] * values[i + 1] / (sigma * sigma);
    assert_true(fabs(products[0] / n) < 5 / sqrt(n) && fabs(products[1] / n) < 5 / sqrt(n));
    free(values);
}

static void test_normal(void **state) {
    static const char text[] =
        "input: {shape: [8, 12, 12]}\n"
        "layers:\n"
        "- conv: {out: 64, kernel: [3, 5], groups: 2, name: c, init: {weight: {kaiming_normal: fan_out}, bias: 0}}\n"
        "- conv: {out: 32, kernel: [3, 5], groups: 2, name: d, init: {weight: kaiming_normal, bias: {normal: 2}}}\n"
        "- batch_norm: {name: n, init: {weight: -0.5}}\n"
        "- flatten\n"
        "- linear: {out: 16, name: l, init: {weight: {normal: 0.01}, bias: {uniform: 3}}}\n"
        "loss: cross_entropy\n";
    (void)state;
    built model = build(text);
    expect_normal(&model, "c.weight", sqrt(2.0 / (64 * 15)));
    expect_normal(&model, "d.weight", sqrt(2.0 / (32 * 15)));
    expect_normal(&model, "d.bias", 2);
    expect_normal(&model, "l.weight", 0.01);
    expect_uniform(&model, "l.bias", 3);
    double *bias = values_of(&model, "c.bias", 1), *scale = values_of(&model, "n.weight", 1);
    double *shift = values_of(&model, "n.bias", 1);
    for (int i = 0; i < 32; i++) assert_true(bias[i] == 0 && scale[i] == -0.5 && shift[i] == 0);
    free(bias);
    free(scale);
    free(shift);
    release(&model);
}

/* Box and Muller on the counter of base/philox.h, written out. */
static void test_normal_counters(void **state) {
    const uint64_t seed = 77, name = gp_hash_text("l.weight");
    (void)state;
    built model = build("input: {shape: [7]}\nlayers: [linear: {out: 9, name: l, init: {weight: {normal: 1}}}]\n"
                        "loss: cross_entropy\n");
    double *values = values_of(&model, "l.weight", seed);
    for (uint32_t element = 0; element < 63; element++) {
        gp_philox draw =
            gp_philox_draw(seed, (gp_philox){{element / 4, (uint32_t)name, (uint32_t)(name >> 32), GP_RANDOM_INITIAL}});
        const uint32_t *pair = &draw.word[element % 4 / 2 * 2];
        double radius = sqrt(-2 * log(ldexp((double)pair[0] + 1, -32)));
        double angle = 2 * acos(-1) * ldexp(pair[1], -32);
        assert_true(fabs(values[element] - radius * (element % 2 ? sin(angle) : cos(angle))) < 1e-12);
    }
    free(values);
    release(&model);
}

static void test_rounding_to_f32(void **state) {
    (void)state;
    built model = build(wide);
    const gp_param *param = &model.graph->params[gp_graph_find_param(model.graph, "l.bias")];
    double *values = values_of(&model, "l.bias", 9);
    float rounded[16];
    gp_param_initialise(param, 9, GP_F32, rounded);
    for (int i = 0; i < 16; i++) assert_true(rounded[i] == (float)values[i]);
    free(values);
    release(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),          cmocka_unit_test(test_constants),
        cmocka_unit_test(test_counters),        cmocka_unit_test(test_seed_and_name_alone),
        cmocka_unit_test(test_rounding_to_f32), cmocka_unit_test(test_normal),
        cmocka_unit_test(test_normal_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
