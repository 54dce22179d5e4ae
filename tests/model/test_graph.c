/* Building graphs: names, from, skips, several users, shapes, parameters; size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    assert_null(model->graph);
}

static void expect_shape(const gp_graph *graph, int value, const char *shape) {
    char text[GP_SHAPE_TEXT];
    assert_string_equal(gp_shape_text(text, graph->values[value].shape), shape);
}

static void expect_inputs(const gp_graph *graph, int node, int count, const int *values) {
    assert_int_equal(graph->nodes[node].input_count, count);
    for (int i = 0; i < count; i++) assert_int_equal(graph->nodes[node].inputs[i], values[i]);
}

/* The manual's example. */
static void test_manual_example(void **state) {
    static const char text[] = "input: {shape: [1, 28, 28]}\n"
                               "layers:\n"
                               "  - conv: {out: 16, kernel: 5, pad: 2}\n"
                               "  - batch_norm\n"
                               "  - relu: {name: a}\n"
                               "  - conv: {out: 16, kernel: 3, pad: 1}\n"
                               "  - add: [a, -1]\n"
                               "  - max_pool: 2\n"
                               "  - flatten\n"
                               "  - linear: {out: 10}\n"
                               "loss: cross_entropy\n";
    static const char *const names[] = {"0", "1", "a", "3", "4", "5", "6", "7"};
    static const char *const shapes[] = {"[16, 28, 28]", "[16, 28, 28]", "[16, 28, 28]", "[16, 28, 28]",
                                         "[16, 28, 28]", "[16, 14, 14]", "[3136]",       "[10]"};
    static const char *const params[] = {"0.weight",      "0.bias",   "1.weight", "1.bias",   "1.running_mean",
                                         "1.running_var", "3.weight", "3.bias",   "7.weight", "7.bias"};
    (void)state;
    built model = build(text);
    const gp_graph *graph = model.graph;
    assert_int_equal(graph->layer_count, 8);
    assert_int_equal(graph->node_count, 9);
    assert_int_equal(graph->value_count, 10);
    for (int i = 0; i < 8; i++) {
        assert_string_equal(graph->nodes[i].name, names[i]);
        assert_string_equal(graph->values[i + 2].name, names[i]);
        assert_int_equal(graph->nodes[i].output, i + 2);
        assert_int_equal(graph->values[i + 2].producer, i);
        expect_shape(graph, i + 2, shapes[i]);
    }
    expect_inputs(graph, 0, 1, (const int[]){GP_VALUE_INPUT});
    expect_inputs(graph, 4, 2, (const int[]){4, 5});
    expect_inputs(graph, 8, 2, (const int[]){9, GP_VALUE_TARGET});
    assert_string_equal(graph->nodes[4].place.path, "m.yaml");
    assert_int_equal(graph->nodes[4].place.line, 7);
    assert_int_equal(graph->nodes[4].place.column, 5);
    assert_int_equal(graph->param_count, 10);
    for (int i = 0; i < 10; i++) {
        assert_string_equal(graph->params[i].name, params[i]);
        assert_int_equal(gp_graph_find_param(graph, params[i]), i);
    }
    assert_int_equal(gp_graph_find_param(graph, "2.weight"), -1);
    assert_int_equal(gp_graph_param_elements(graph), 16 * 25 + 16 + 32 + 16 * 16 * 9 + 16 + 3136 * 10 + 10);
    release(&model);
}

static void test_loss_and_target(void **state) {
    (void)state;
    built model = build("input: {shape: [6]}\nlayers: [linear: 3]\nloss: cross_entropy\n");
    const gp_node *loss = &model.graph->nodes[1];
    const gp_value *target = &model.graph->values[GP_VALUE_TARGET];
    assert_true(loss->layer->type->loss);
    assert_int_equal(loss->output, -1);
    assert_int_equal(loss->param_count, 0);
    assert_int_equal(loss->layer->type->classes(loss->layer), 3);
    assert_string_equal(target->name, "target");
    assert_int_equal(target->dtype, GP_I64);
    assert_int_equal(target->shape.rank, 0);
    assert_int_equal(target->producer, -1);
    assert_int_equal(target->use_count, 1);
    assert_int_equal(target->uses[0].node, 1);
    assert_int_equal(target->uses[0].input, 1);
    assert_false(target->needs_grad);
    release(&model);
}

/* Every way to say where a value comes from, on layers of any kind; one value used four times, twice by one layer. */
static void test_from(void **state) {
    static const char text[] = "input: {shape: [2, 6, 6]}\n"
                               "layers:\n"
                               "- relu: {name: stem.a}\n"
                               "- conv: {out: 3, kernel: 1, name: b, from: input}\n"
                               "- concat: {from: [b, stem.a, input], name: all}\n"
                               "- relu: {from: all}\n"
                               "- add: [-1, -2]\n"
                               "- add: {from: [all, all, -1]}\n"
                               "- flatten: {from: '5'}\n"
                               "- linear: 2\n"
                               "loss: cross_entropy\n";
    (void)state;
    built model = build(text);
    const gp_graph *graph = model.graph;
    expect_inputs(graph, 0, 1, (const int[]){0});
    expect_inputs(graph, 1, 1, (const int[]){0});
    expect_inputs(graph, 2, 3, (const int[]){3, 2, 0});
    expect_inputs(graph, 3, 1, (const int[]){4});
    expect_inputs(graph, 4, 2, (const int[]){5, 4});
    expect_inputs(graph, 5, 3, (const int[]){4, 4, 6});
    expect_inputs(graph, 6, 1, (const int[]){7});
    expect_shape(graph, 4, "[7, 6, 6]");
    const gp_value *all = &graph->values[4];
    static const gp_use uses[] = {{3, 0}, {4, 1}, {5, 0}, {5, 1}};
    assert_int_equal(all->use_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(all->uses[i].node, uses[i].node);
        assert_int_equal(all->uses[i].input, uses[i].input);
    }
    assert_int_equal(graph->values[GP_VALUE_INPUT].use_count, 3);
    release(&model);
}

static void expect_units(const gp_graph *graph, int count, const int *ends) {
    assert_int_equal(graph->layer_count, count);
    for (int unit = 0; unit < count; unit++) {
        assert_int_equal(graph->unit_end[unit], ends[unit]);
        for (int n = unit ? ends[unit - 1] : 0; n < ends[unit]; n++) assert_int_equal(graph->nodes[n].unit, unit);
    }
    assert_int_equal(graph->nodes[graph->node_count - 1].unit, count - 1);
}

/* A sequential is one layer of several nodes; its names are its own first, then those outside. */
static void test_sequential(void **state) {
    static const char text[] = "input: {shape: [2, 6, 6]}\n"
                               "layers:\n"
                               "- relu: {name: a}\n"
                               "- relu: {name: c}\n"
                               "- sequential:\n"
                               "    name: b\n"
                               "    from: a\n"
                               "    layers:\n"
                               "    - conv: {out: 2, kernel: 1}\n"
                               "    - relu: {name: a}\n"
                               "    - add: [a, -2]\n"
                               "    - sequential:\n"
                               "        from: ['0']\n"
                               "        layers:\n"
                               "        - relu: {from: input}\n"
                               "        - add: [input, '0', a, c]\n"
                               "    - add: [-1, -2, input]\n"
                               "- add: [-1, -2, a]\n"
                               "- sequential: {layers: [concat: [input, b.a, b.3, b, b.2]]}\n"
                               "- flatten: {from: '4'}\n"
                               "loss: cross_entropy\n";
    static const char *const names[] = {"a", "c", "b.0", "b.a", "b.2", "b.3.0", "b.3.1", "b.4", "3", "4.0", "5"};
    (void)state;
    built model = build(text);
    const gp_graph *graph = model.graph;
    for (int n = 0; n < 11; n++) assert_string_equal(graph->nodes[n].name, names[n]);
    expect_units(graph, 6, (const int[]){1, 2, 8, 9, 10, 11});
    /* Node n makes value n + 2. */
    expect_inputs(graph, 2, 1, (const int[]){2});
    expect_inputs(graph, 3, 1, (const int[]){4});
    expect_inputs(graph, 4, 2, (const int[]){5, 4});
    expect_inputs(graph, 5, 1, (const int[]){4});
    expect_inputs(graph, 6, 4, (const int[]){4, 7, 5, 3});
    expect_inputs(graph, 7, 3, (const int[]){8, 6, 2});
    expect_inputs(graph, 8, 3, (const int[]){9, 3, 2});
    expect_inputs(graph, 9, 5, (const int[]){10, 5, 8, 9, 6});
    expect_inputs(graph, 10, 1, (const int[]){11});
    expect_inputs(graph, 11, 2, (const int[]){12, GP_VALUE_TARGET});
    assert_string_equal(graph->params[0].name, "b.0.weight");
    assert_int_equal(graph->nodes[3].place.line, 10);
    release(&model);
}

/* A name outside that begins like those of the group is none of its own. */
static void test_names_outside(void **state) {
    static const char text[] = "input: {shape: [2, 6, 6]}\n"
                               "layers:\n"
                               "- relu: {name: c}\n"
                               "- relu: {name: b.c}\n"
                               "- sequential: {name: b, layers: [add: [c, b.c, input]]}\n"
                               "- flatten\n"
                               "loss: cross_entropy\n";
    (void)state;
    built model = build(text);
    expect_inputs(model.graph, 2, 3, (const int[]){2, 3, 3});
    release(&model);
}

static void test_needs_grad(void **state) {
    static const char text[] = "input: {shape: [2, 6, 6]}\n"
                               "layers:\n"
                               "- max_pool: 2\n"
                               "- batch_norm: {affine: false, name: plain}\n"
                               "- conv: {out: 2, kernel: 1, name: c}\n"
                               "- add: [c, plain]\n"
                               "- flatten\n"
                               "loss: cross_entropy\n";
    static const bool needs[] = {false, false, false, false, true, true, true};
    (void)state;
    built model = build(text);
    for (int v = 0; v < model.graph->value_count; v++) assert_int_equal(model.graph->values[v].needs_grad, needs[v]);
    release(&model);
}

/* What lies before the first trained parameter needs no gradient; frozen layers behind it pass one on. */
static void test_frozen(void **state) {
    static const char text[] = "input: {shape: [2, 6, 6]}\n"
                               "layers:\n"
                               "- conv: {out: 2, kernel: 1, freeze: true}\n"
                               "- sequential: {freeze: true, layers: [batch_norm, relu,\n"
                               "  sequential: {layers: [conv: {out: 2, kernel: 1, bias: false}]}]}\n"
                               "- sequential: {freeze: true, layers: [batch_norm: {affine: false},\n"
                               "  conv: {out: 2, kernel: 1, bias: false, freeze: false}]}\n"
                               "- batch_norm: {freeze: true, affine: false}\n"
                               "- flatten\n"
                               "- linear: {out: 2, bias: false, freeze: false}\n"
                               "loss: cross_entropy\n";
    static const bool needs[] = {false, false, false, false, false, false, false, true, true, true, true};
    (void)state;
    built model = build(text);
    for (int v = 0; v < model.graph->value_count; v++) assert_int_equal(model.graph->values[v].needs_grad, needs[v]);
    for (int p = 0; p < model.graph->param_count; p++) {
        const gp_param *param = &model.graph->params[p];
        bool trained = strcmp(param->name, "2.1.weight") == 0 || strcmp(param->name, "5.weight") == 0;
        assert_int_equal(param->trained, trained);
    }
    assert_int_equal(model.graph->param_count, 2 + 4 + 1 + 2 + 1 + 2 + 1);
    release(&model);
}

static void test_parameters(void **state) {
    static const char text[] =
        "input: {shape: [4, 9, 7]}\n"
        "layers:\n"
        "- conv: {out: 6, kernel: [3, 5], stride: [2, 1], pad: [1, 0], groups: 2, bias: false, name: c}\n"
        "- batch_norm: {affine: false, name: n}\n"
        "- global_avg_pool\n"
        "- flatten\n"
        "- linear: {out: 5, bias: false, name: l}\n"
        "loss: cross_entropy\n";
    static const struct {
        const char *name, *shape;
        bool buffer, norm_or_bias;
        int node, index;
    } expected[] = {{"c.weight", "[6, 2, 3, 5]", false, false, 0, 0},
                    {"n.running_mean", "[6]", true, false, 1, 0},
                    {"n.running_var", "[6]", true, false, 1, 1},
                    {"l.weight", "[5, 6]", false, false, 4, 0}};
    (void)state;
    built model = build(text);
    expect_shape(model.graph, 2, "[6, 5, 3]");
    expect_shape(model.graph, 4, "[6, 1, 1]");
    assert_int_equal(model.graph->param_count, 4);
    for (int i = 0; i < 4; i++) {
        char shape[GP_SHAPE_TEXT];
        const gp_param *param = &model.graph->params[i];
        assert_string_equal(param->name, expected[i].name);
        assert_string_equal(gp_shape_text(shape, param->spec.shape), expected[i].shape);
        assert_int_equal(param->spec.buffer, expected[i].buffer);
        assert_int_equal(param->spec.norm_or_bias, expected[i].norm_or_bias);
        assert_int_equal(param->node, expected[i].node);
        assert_int_equal(param->index, expected[i].index);
    }
    release(&model);
}

static void test_rows(void **state) {
    (void)state;
    built model =
        build("input: {shape: [5, 8]}\nlayers: [linear: 3, relu, dropout: 0.1, flatten, batch_norm, linear: 2]\n"
              "loss: cross_entropy\n");
    expect_shape(model.graph, 2, "[5, 3]");
    expect_shape(model.graph, 5, "[15]");
    release(&model);
}

static void test_node_error(void **state) {
    gp_error err = {0};
    (void)state;
    built model = build("input: {shape: [6]}\nlayers:\n- linear: {out: 3, name: fc}\nloss: cross_entropy\n");
    gp_status status = gp_fail(&err, GP_CONFIG, "is out of luck");
    assert_int_equal(gp_node_error(&model.graph->nodes[0], &err), status);
    assert_string_equal(err.text, "m.yaml:3:3: linear \"fc\": is out of luck");
    release(&model);
}

/* Work that grows with the square of the length would take minutes here. Its time limit is ctest's. */
static void test_many_layers(void **state) {
    enum { BLOCKS = 12000, LINE = 120 };
    static const char head[] = "input: {shape: [1, 4, 4]}\nloss: cross_entropy\nlayers:\n- relu: {name: first}\n";
    size_t size = sizeof head + (size_t)BLOCKS * LINE + 64;
    char *text = malloc(size);
    (void)state;
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, size, "%s", head);
    for (int i = 0; i < BLOCKS; i++)
        used += (size_t)snprintf(text + used, size - used,
                                 "- batch_norm: {name: block.%d.bn}\n- add: [first, block.%d.bn]\n", i, i);
    snprintf(text + used, size - used, "- flatten\n");
    built model = build(text);
    assert_int_equal(model.graph->layer_count, 2 * BLOCKS + 2);
    assert_int_equal(model.graph->values[2].use_count, BLOCKS + 1);
    for (int i = 0; i < model.graph->param_count; i++)
        assert_int_equal(gp_graph_find_param(model.graph, model.graph->params[i].name), i);
    release(&model);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manual_example), cmocka_unit_test(test_loss_and_target),
        cmocka_unit_test(test_from),           cmocka_unit_test(test_sequential),
        cmocka_unit_test(test_names_outside),  cmocka_unit_test(test_needs_grad),
        cmocka_unit_test(test_frozen),         cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_rows),           cmocka_unit_test(test_node_error),
        cmocka_unit_test(test_many_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
