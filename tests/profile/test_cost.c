/* Counted costs against figures worked out by hand, and the expected step against the formula of uniform pipelines. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "balance/expect.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "profile/cost.h"

typedef struct built {
    gp_yaml_document *document;
    gp_graph *graph;
} built;

static void expect_near(double is, double should, double apart) {
    if (!(fabs(is - should) <= apart)) fail_msg("%.17g is not within %g of %.17g", is, apart, should);
}

static built build(const char *text) {
    built model = {0};
    gp_error err = {0};
    gp_status status = gp_yaml_parse(text, strlen(text), "m.yaml", &model.document, &err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(model.document), &model.graph, &err);
    if (status != GP_OK) fail_msg("%s", err.text);
    return model;
}

static double counted_seconds(double flops, double bytes, int threads) {
    const gp_rates rates = gp_rates_assumed(threads);
    return gp_rates_seconds(&rates, flops, bytes);
}

static gp_status count_cost(const gp_graph *graph, int64_t samples, int64_t *cost, gp_error *err) {
    const gp_cost_request request = gp_cost_assumed(graph, samples);
    return gp_cost_by_time(&request, cost, err);
}

/* `width` to `width`, `count` times. */
static built build_chain(const char *layer, int width, int count) {
    size_t bytes = 200 + (size_t)count * 64, used = 0;
    char *text = malloc(bytes);
    assert_non_null(text);
    used += (size_t)snprintf(text, bytes, "input: {shape: [%d]}\nlayers:\n", width);
    for (int i = 0; i < count; i++) used += (size_t)snprintf(text + used, bytes - used, "  - %s\n", layer);
    snprintf(text + used, bytes - used, "loss: cross_entropy\n");
    built model = build(text);
    free(text);
    return model;
}

static void release(built *model) {
    gp_graph_destroy(&model->graph);
    gp_yaml_destroy(&model->document);
}

static void test_roofline(void **state) {
    (void)state;
    expect_near(counted_seconds(5e10, 5e9, 1), 1, 1e-12);
    expect_near(counted_seconds(1e11, 5e9, 1), 2, 1e-12);
    expect_near(counted_seconds(5e10, 2e10, 1), 4, 1e-12);
    expect_near(counted_seconds(1e11, 5e9, 4), 0.5, 1e-12);
}

static double moved(double elements) {
    return 4 * elements / GP_COUNTED_BYTES_PER_SECOND * 1e12;
}

/* Layers so small in arithmetic that bytes decide: every op costs what it reads and writes. */
static void test_by_time(void **state) {
    (void)state;
    built model = build("input: {shape: [8]}\n"
                        "layers:\n"
                        "  - relu\n"
                        "  - linear: {out: 2}\n"
                        "  - relu\n"
                        "loss: cross_entropy\n");
    int64_t cost[3];
    gp_error err = {0};
    assert_int_equal(count_cost(model.graph, 4, cost, &err), GP_OK);
    double n = 4;
    /* Nothing is trained before the first layers: no backward of the relu, none for the linear's input. */
    expect_near((double)cost[0], moved(2 * 8 * n), 2);
    double forward = moved(8 * n + 8 * 2 + 2 + 2 * n), weights = moved(8 * n + 2 * n + 8 * 2 + 2);
    expect_near((double)cost[1], forward + weights, 2);
    double relu = moved(2 * 2 * n) + moved(3 * 2 * n);
    double targets = 8 * n / GP_COUNTED_BYTES_PER_SECOND * 1e12;
    double partial = 16 / GP_COUNTED_BYTES_PER_SECOND * 1e12;
    double scalars = sizeof(gp_step_scalars) / GP_COUNTED_BYTES_PER_SECOND * 1e12;
    double loss = moved(2 * n) + targets + partial + moved(2 * 2 * n) + targets + scalars;
    expect_near((double)cost[2], relu + loss, 3);
    release(&model);
}

static void test_by_time_counts_arithmetic(void **state) {
    (void)state;
    built model = build_chain("linear: {out: 512, bias: false}", 512, 2);
    int64_t cost[2];
    gp_error err = {0};
    assert_int_equal(count_cost(model.graph, 4096, cost, &err), GP_OK);
    double product = 2.0 * 512 * 512 * 4096 / GP_COUNTED_FLOPS_PER_SECOND * 1e12;
    expect_near((double)cost[0], 2 * product, 2); /* forward, weights */
    assert_true((double)cost[1] > 3 * product && (double)cost[1] < 3.2 * product);
    release(&model);
}

/* Of the second of two convolutions, on the CPU, beside any device. */
static double effort_of(const char *text, int64_t samples, int threads) {
    built model = build(text);
    int64_t any[2], cpu[2];
    gp_error err = {0};
    gp_cost_request request = gp_cost_assumed(model.graph, samples);
    request.rates = gp_rates_assumed(threads);
    request.threads = threads;
    assert_int_equal(gp_cost_by_time(&request, any, &err), GP_OK);
    request.kind = &gp_cpu_kind;
    assert_int_equal(gp_cost_by_time(&request, cpu, &err), GP_OK);
    release(&model);
    return (double)cpu[1] / (double)any[1];
}

/* A large convolution is what effort is measured by, on any number of threads. Of 3x3 taps on 1x1 pictures eight see
 * padding and are not computed. A second thread has no part of a small product. */
static void test_methods_of_convolutions(void **state) {
    (void)state;
#define TWO(channels, kernel, pad, size)                                                                               \
    "input: {shape: [" #channels ", " #size ", " #size "]}\n"                                                          \
    "layers:\n"                                                                                                        \
    "  - conv: {out: " #channels ", kernel: " #kernel ", pad: " #pad ", bias: false}\n"                                \
    "  - conv: {out: " #channels ", kernel: " #kernel ", pad: " #pad ", bias: false}\n"                                \
    "loss: cross_entropy\n"
    expect_near(effort_of(TWO(64, 3, 1, 32), 16, 1), 1.15, 0.15);
    expect_near(effort_of(TWO(64, 3, 1, 32), 64, 8), effort_of(TWO(64, 3, 1, 32), 64, 1), 0.2);
    assert_true(effort_of(TWO(512, 3, 1, 1), 256, 1) < 0.2);
    assert_true(effort_of(TWO(16, 1, 0, 1), 16, 2) > 1.5 * effort_of(TWO(16, 1, 0, 1), 16, 1));
#undef TWO
}

/* A stage updates its parameters once for all micro-batches. */
static void test_share_of_the_update(void **state) {
    (void)state;
    built model = build_chain("linear: {out: 512, bias: false}", 512, 2);
    int64_t without[2], with[2];
    gp_error err = {0};
    gp_cost_request request = gp_cost_assumed(model.graph, 16);
    assert_int_equal(gp_cost_by_time(&request, without, &err), GP_OK);
    request.updates = 0.25;
    request.optimizer_states = 2;
    assert_int_equal(gp_cost_by_time(&request, with, &err), GP_OK);
    for (int i = 0; i < 2; i++) expect_near((double)(with[i] - without[i]), 0.25 * 7 * moved(512 * 512), 2);
    release(&model);
}

static void test_by_size(void **state) {
    (void)state;
    built model = build("input: {shape: [3, 8, 8]}\n"
                        "layers:\n"
                        "  - conv: {out: 4, kernel: 3}\n"
                        "  - batch_norm\n"
                        "  - flatten\n"
                        "  - linear: {out: 10}\n"
                        "loss: cross_entropy\n");
    int64_t cost[4];
    gp_error err = {0};
    assert_int_equal(gp_cost_by_size(model.graph, 5, 1, cost, &err), GP_OK);
    assert_int_equal(cost[0], 4 * (5 * 4 * 6 * 6 + 3 * (4 * 3 * 3 * 3 + 4)));
    assert_int_equal(cost[1], 4 * (5 * 4 * 6 * 6 + 3 * (4 + 4) + 4 + 4));
    assert_int_equal(cost[2], 4 * (5 * 4 * 6 * 6));
    assert_int_equal(cost[3], 4 * (5 * 10 + 3 * (10 * 144 + 10)));
    assert_int_equal(gp_cost_by_size(model.graph, 5, 2, cost, &err), GP_OK);
    assert_int_equal(cost[2], 4 * (5 * 4 * 6 * 6));
    assert_int_equal(cost[3], 4 * (5 * 10 + 4 * (10 * 144 + 10)));
    release(&model);
}

static void test_what_does_not_fit(void **state) {
    (void)state;
    built model = build("input: {shape: [1073741824]}\nlayers:\n  - relu\n  - linear: {out: 2}\nloss: cross_entropy\n");
    int64_t cost[2];
    gp_error err = {0};
    assert_int_equal(gp_cost_by_size(model.graph, INT64_C(1) << 31, 1, cost, &err), GP_UNSUPPORTED);
    assert_string_equal(err.text,
                        "m.yaml:3:5: relu \"0\": the bytes up to this layer add up to more than 64 bits can hold");
    assert_int_equal(count_cost(model.graph, INT64_C(1) << 28, cost, &err), GP_UNSUPPORTED);
    assert_string_equal(
        err.text, "m.yaml:3:5: relu \"0\": the picoseconds up to this layer add up to more than 64 bits can hold");
    release(&model);
}

/* A micro-batch that training would refuse has its cost: an evaluation may meet it. */
static void test_one_sample_of_batch_norm(void **state) {
    (void)state;
    built model = build("input: {shape: [3]}\nlayers:\n  - linear: {out: 2}\n  - batch_norm\nloss: cross_entropy\n");
    int64_t cost[2];
    gp_error err = {0};
    assert_int_equal(count_cost(model.graph, 1, cost, &err), GP_OK);
    assert_true(cost[1] > 0);
    release(&model);
}

static void test_long_models(void **state) {
    (void)state;
    enum { LAYERS = 5000 };
    built model = build_chain("linear: {out: 16}", 16, LAYERS);
    static int64_t cost[LAYERS];
    gp_error err = {0};
    assert_int_equal(count_cost(model.graph, 4, cost, &err), GP_OK);
    for (int i = 2; i < LAYERS - 1; i++) assert_int_equal(cost[i], cost[1]);
    assert_true(cost[0] < cost[1] && cost[LAYERS - 1] > cost[1]);
    release(&model);
}

typedef struct planned {
    built model;
    gp_plan *plan;
} planned;

static planned plan_chain(const char *layer, int width, int stages, int micro_batches, bool training, bool lockstep) {
    planned p = {build_chain(layer, width, stages), NULL};
    int64_t *layers = calloc((size_t)stages, sizeof *layers);
    gp_device_spec *devices = calloc((size_t)stages, sizeof *devices);
    assert_true(layers && devices);
    for (int s = 0; s < stages; s++) {
        layers[s] = 1;
        devices[s] = (gp_device_spec){.kind = &gp_ref_kind, .threads = 1};
    }
    gp_mini_size size = {16 * micro_batches, training};
    gp_plan_request request = {.graph = p.model.graph,
                               .layers = layers,
                               .stages = stages,
                               .devices = devices,
                               .update = {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9}},
                               .batch = size.samples,
                               .micro_batches = micro_batches,
                               .checkpoint = GP_CHECKPOINT_NEVER,
                               .lockstep = lockstep,
                               .sizes = &size,
                               .size_count = 1};
    gp_error err = {0};
    if (gp_plan_create(&request, &p.plan, &err) != GP_OK) fail_msg("%s", err.text);
    free(layers);
    free(devices);
    return p;
}

static gp_expectation expect(const planned *p) {
    gp_expectation expected = {0};
    gp_error err = {0};
    if (gp_expect(p->plan, 0, NULL, &expected, &err) != GP_OK) fail_msg("%s", err.text);
    return expected;
}

static void release_plan(planned *p) {
    gp_plan_destroy(&p->plan);
    release(&p->model);
}

static double seconds_of(const gp_routine *routine) {
    double seconds = 0;
    for (size_t o = 0; o < routine->count; o++)
        seconds += counted_seconds(routine->ops[o].prepared->flops, routine->ops[o].prepared->bytes, 1);
    return seconds;
}

/* Forward only, in lockstep, on stages that differ in nothing but the loss: m+n−1 clocks; in each a copy of the same
 * bytes, then the same layer, and, as long as the last stage works, the loss as well. */
static void test_expect_uniform(void **state) {
    (void)state;
    static const int stages[] = {1, 2, 3, 8}, pieces[] = {1, 4, 7};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 3; k++) {
            int n = stages[i], m = pieces[k];
            planned p = plan_chain("linear: {out: 64}", 64, n, m, false, true);
            double copy = 16 * 64 * 4 / GP_COUNTED_BYTES_PER_SECOND;
            double target = 16 * 8 / GP_COUNTED_BYTES_PER_SECOND;
            double layer = counted_seconds(2.0 * 16 * 64 * 64 + 16 * 64, 4.0 * (2 * 16 * 64 + 64 * 64 + 64), 1);
            const gp_mini_plan *mini = &p.plan->minis[0];
            double whole = seconds_of(&gp_mini_sized(mini, &p.plan->stage[n - 1], 0)->routine[GP_ROUTINE_EVALUATE]);
            double loss = whole - layer, total = seconds_of(&mini->total[n - 1]);
            assert_true(loss > 0 && total > 0);
            gp_expectation expected = expect(&p);
            /* The first targets are loaded while another stage computes. */
            double seconds = (m + n - 1) * (copy + layer) + m * loss + (n > 1 ? m - 1 : m) * target + total;
            expect_near(expected.seconds, seconds, 1e-6 * seconds);
            for (int w = 0; w < n; w++) {
                double busy = m * (w == n - 1 ? whole : layer) + (w == n - 1 ? total : 0);
                expect_near(expected.busy[w], busy, 1e-6 * busy);
            }
            double busy = m * (n * layer + loss) + total;
            expect_near(expected.bubble, 1 - busy / (n * seconds), 1e-6);
            free(expected.busy);
            release_plan(&p);
        }
}

/* Training: GPipe's bubble (n−1)/(m+n−1), as far as copies and the loss are small. */
static void test_expect_bubble(void **state) {
    (void)state;
    for (int lockstep = 0; lockstep < 2; lockstep++) {
        planned p = plan_chain("linear: {out: 1024}", 1024, 4, 8, true, lockstep);
        gp_expectation expected = expect(&p);
        expect_near(expected.bubble, 3.0 / 11, 0.06);
        free(expected.busy);
        release_plan(&p);
    }
}

/* The first backward overwrites gradients, the others add: fewer bytes, and never both. */
static void test_expect_first_backward(void **state) {
    (void)state;
    planned p = plan_chain("linear: {out: 64}", 64, 1, 3, true, true);
    const gp_mini_plan *mini = &p.plan->minis[0];
    const gp_sized *sized = gp_mini_sized(mini, &p.plan->stage[0], 0);
    double first = 0, rest = 0;
    for (size_t o = 0; o < sized->routine[GP_ROUTINE_BACKWARD].count; o++) {
        const gp_exec_op *op = &sized->routine[GP_ROUTINE_BACKWARD].ops[o];
        double seconds = counted_seconds(op->prepared->flops, op->prepared->bytes, 1);
        if (op->when != GP_WHEN_REST) first += seconds;
        if (op->when != GP_WHEN_FIRST) rest += seconds;
    }
    assert_true(first < rest);
    double busy = 3 * seconds_of(&sized->routine[GP_ROUTINE_KEEP]) + first + 2 * rest + seconds_of(&mini->total[0]) +
                  seconds_of(&mini->step[0]);
    gp_expectation expected = expect(&p);
    expect_near(expected.busy[0], busy, 1e-6 * busy);
    free(expected.busy);
    release_plan(&p);
}

/* A layer of several nodes costs what its nodes cost. */
static void test_of_sequential(void **state) {
    (void)state;
    built flat = build("input: {shape: [8]}\nlayers: [linear: 6, relu, linear: 4, relu, linear: 3]\n"
                       "loss: cross_entropy\n");
    built grouped = build("input: {shape: [8]}\nlayers: [linear: 6, sequential: {layers: [relu, linear: 4, relu]}, "
                          "linear: 3]\nloss: cross_entropy\n");
    int64_t nodes[5], layers[3];
    gp_error err = {0};
    assert_int_equal(grouped.graph->layer_count, 3);
    assert_int_equal(count_cost(flat.graph, 4, nodes, &err), GP_OK);
    assert_int_equal(count_cost(grouped.graph, 4, layers, &err), GP_OK);
    assert_int_equal(layers[0], nodes[0]);
    assert_int_equal(layers[1], nodes[1] + nodes[2] + nodes[3]);
    assert_int_equal(layers[2], nodes[4]);
    assert_int_equal(gp_cost_by_size(flat.graph, 4, 1, nodes, &err), GP_OK);
    assert_int_equal(gp_cost_by_size(grouped.graph, 4, 1, layers, &err), GP_OK);
    assert_int_equal(layers[1], nodes[1] + nodes[2] + nodes[3]);
    release(&flat);
    release(&grouped);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_sequential),
        cmocka_unit_test(test_roofline),
        cmocka_unit_test(test_by_time),
        cmocka_unit_test(test_methods_of_convolutions),
        cmocka_unit_test(test_share_of_the_update),
        cmocka_unit_test(test_by_size),
        cmocka_unit_test(test_by_time_counts_arithmetic),
        cmocka_unit_test(test_long_models),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_one_sample_of_batch_norm),
        cmocka_unit_test(test_expect_uniform),
        cmocka_unit_test(test_expect_bubble),
        cmocka_unit_test(test_expect_first_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
