/* model.rules: what they match, what they set, which of them wins; and the list that --expand prints is the same model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/expand.h"
#include "model/graph.h"
#include "model/rules.h"

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

#define RESNET "input: {shape: [3, 32, 32]}\nloss: cross_entropy\nresnet: {depth: 18, classes: 10}\n"
#define LIST                                                                                                           \
    "input: {shape: [2, 8, 8]}\nloss: cross_entropy\nlayers:\n"                                                        \
    "- conv: {name: a, out: 4, kernel: 3, pad: 1, freeze: true, init: {weight: {normal: 0.5}, bias: 1}}\n"             \
    "- relu\n"                                                                                                         \
    "- max_pool: 2\n"                                                                                                  \
    "- sequential: {name: block, layers: [conv: {out: 4, kernel: 1}, batch_norm, add: [-1, input]]}\n"                 \
    "- flatten\n"                                                                                                      \
    "- linear: 10\n"

static const gp_node *node_of(const gp_graph *graph, const char *name) {
    for (int n = 0; n < graph->node_count; n++)
        if (strcmp(graph->nodes[n].name, name) == 0) return &graph->nodes[n];
    fail_msg("there is no layer %s", name);
    return NULL;
}

static const gp_param_spec *spec_of(const gp_graph *graph, const char *name) {
    int index = gp_graph_find_param(graph, name);
    if (index < 0) fail_msg("there is no parameter %s", name);
    return &graph->params[index].spec;
}

static int count_frozen(const gp_graph *graph) {
    int count = 0;
    for (int n = 0; n < graph->node_count; n++) count += graph->nodes[n].layer->frozen;
    return count;
}

static int count_kept(const gp_graph *graph) {
    int count = 0;
    for (int n = 0; n < graph->node_count; n++) count += graph->nodes[n].layer->keeps;
    return count;
}

static void matches_patterns(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        {"*", "", true},
        {"*", "a.b", true},
        {"a*", "abc", true},
        {"a*", "ba", false},
        {"*.bias", "layer1.0.bias", true},
        {"*.bias", "bias", false},
        {"layer?.0", "layer1.0", true},
        {"layer?.0", "layer10.0", false},
        {"*a*a", "banana", true},
        {"*ab", "aab", true},
        {"a", "a", true},
        {"a", "ab", false},
        {"", "", true},
        {"", "a", false},
        {"?", "", false},
        {"a**b", "ab", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (gp_rule_matches(cases[i].pattern, cases[i].name) != cases[i].matches)
            fail_msg("%s and %s", cases[i].pattern, cases[i].name);
}

/* A name stands for all below it: 4 convolutions and 4 norms of layer1; nothing else, and not layer10. */
static void freezes_by_name(void **state) {
    (void)state;
    built model = build(RESNET "rules: {layer1: {freeze: true}}\n");
    assert_int_equal(count_frozen(model.graph), 8);
    assert_true(node_of(model.graph, "layer1.1.bn2")->layer->frozen);
    assert_false(node_of(model.graph, "layer2.0.conv1")->layer->frozen);
    assert_false(model.graph->params[gp_graph_find_param(model.graph, "layer1.0.conv1.weight")].trained);
    assert_true(model.graph->params[gp_graph_find_param(model.graph, "conv1.weight")].trained);
    release(&model);
    model = build(RESNET "rules: {layer4.0.downsample: {freeze: true}}\n");
    assert_int_equal(count_frozen(model.graph), 2);
    release(&model);
}

static void matches_kinds_and_patterns(void **state) {
    (void)state;
    built model = build(RESNET "rules: {batch_norm: {freeze: true}}\n");
    assert_int_equal(count_frozen(model.graph), 20);
    release(&model);
    /* A layer has the name relu; the kind has 16 more. */
    model = build(RESNET "rules: {relu: {checkpoint: false}}\n");
    assert_int_equal(count_kept(model.graph), 1);
    release(&model);
    model = build(RESNET "rules: {'kind:relu': {checkpoint: false}}\n");
    assert_int_equal(count_kept(model.graph), 17);
    release(&model);
    model = build(RESNET "rules: {'layer?.0.conv*': {freeze: true}}\n");
    assert_int_equal(count_frozen(model.graph), 8);
    release(&model);
}

/* An init has the parameters that it names, whatever other layers the rule matches. */
static void initialises(void **state) {
    (void)state;
    built model =
        build(RESNET "rules: {layer1: {init: {bias: 0.5}}, '*.downsample.?.weight': {init: {normal: 0.25}}}\n");
    assert_true(spec_of(model.graph, "layer1.0.bn1.bias")->value == 0.5);
    assert_true(spec_of(model.graph, "layer2.0.bn1.bias")->value == 0);
    assert_int_equal(spec_of(model.graph, "layer3.0.downsample.0.weight")->init, GP_INIT_NORMAL);
    assert_true(spec_of(model.graph, "layer3.0.downsample.0.weight")->value == 0.25);
    assert_true(spec_of(model.graph, "layer3.0.downsample.1.weight")->value == 0.25);
    assert_true(spec_of(model.graph, "layer3.0.conv1.weight")->value < 0.2);
    release(&model);
}

static void rules_beat_entries_and_earlier_rules(void **state) {
    (void)state;
    built model = build(LIST "rules: {a: {freeze: false, init: {bias: 2}}}\n");
    assert_false(node_of(model.graph, "a")->layer->frozen);
    assert_true(spec_of(model.graph, "a.bias")->value == 2);
    assert_true(spec_of(model.graph, "a.weight")->value == 0.5); /* its own stays */
    release(&model);
    model = build(
        LIST "rules: {conv: {freeze: true, init: {bias: 3}}, block: {freeze: false}, block.0: {init: {bias: 4}}}\n");
    assert_true(node_of(model.graph, "a")->layer->frozen);
    assert_false(node_of(model.graph, "block.0")->layer->frozen);
    assert_true(spec_of(model.graph, "a.bias")->value == 3);
    assert_true(spec_of(model.graph, "block.0.bias")->value == 4);
    release(&model);
    model = build(
        LIST "rules: {block: {freeze: false}, block.0: {init: {bias: 4}}, conv: {freeze: true, init: {bias: 3}}}\n");
    assert_true(node_of(model.graph, "block.0")->layer->frozen);
    assert_true(spec_of(model.graph, "block.0.bias")->value == 3);
    release(&model);
}

/* Entries of every form get options: a name alone, a main option, a list for one. */
static void entries_keep_their_own_options(void **state) {
    (void)state;
    built model = build(LIST "rules: {'*': {checkpoint: false}, '5': {freeze: true, init: {bias: 1}}}\n");
    assert_int_equal(count_kept(model.graph), 8);
    assert_int_equal(model.graph->values[node_of(model.graph, "2")->output].shape.dim[1], 4);  /* max_pool: 2 */
    assert_int_equal(node_of(model.graph, "block.2")->input_count, 2);                         /* add: [-1, input] */
    assert_int_equal(model.graph->values[node_of(model.graph, "5")->output].shape.dim[0], 10); /* linear: 10 */
    assert_true(node_of(model.graph, "5")->layer->frozen);
    release(&model);
}

static void expect_same(const gp_graph *a, const gp_graph *b) {
    assert_int_equal(a->node_count, b->node_count);
    assert_int_equal(a->param_count, b->param_count);
    for (int n = 0; n < a->node_count; n++) {
        assert_string_equal(a->nodes[n].name, b->nodes[n].name);
        assert_int_equal(a->nodes[n].layer->frozen, b->nodes[n].layer->frozen);
        assert_int_equal(a->nodes[n].layer->keeps, b->nodes[n].layer->keeps);
    }
    for (int p = 0; p < a->param_count; p++) {
        assert_string_equal(a->params[p].name, b->params[p].name);
        assert_int_equal(a->params[p].trained, b->params[p].trained);
        assert_int_equal(a->params[p].spec.init, b->params[p].spec.init);
        assert_true(a->params[p].spec.value == b->params[p].spec.value);
    }
}

/* What --expand prints has no rules, and is the same model. The tree that was built from keeps its rules. */
static void expands(void **state) {
    (void)state;
    static const char *const models[] = {
        RESNET "rules: {batch_norm: {init: {weight: 0.5}}, layer1: {freeze: true}, layer1.1: {freeze: false}, "
               "'*.bias': {init: 2}, 'kind:relu': {checkpoint: false}}\n",
        LIST
        "rules: {'*': {checkpoint: false}, block: {freeze: true}, conv: {init: {bias: 3}}, '5': {freeze: false}}\n"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        built ruled = build(models[i]);
        gp_error err = {0};
        gp_layer_list list = {0};
        char *text = NULL;
        assert_non_null(gp_yaml_find(ruled.document, "rules.conv") ? gp_yaml_find(ruled.document, "rules")
                                                                   : gp_yaml_find(ruled.document, "rules.batch_norm"));
        assert_int_equal(gp_model_expand(gp_yaml_root(ruled.document), &list, &err), GP_OK);
        assert_int_equal(gp_yaml_text(ruled.document, "expanded", &text, &err), GP_OK);
        assert_null(strstr(text, "rules"));
        built written = build(text);
        expect_same(ruled.graph, written.graph);
        free(text);
        release(&written);
        release(&ruled);
        gp_layer_list_fini(&list);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_patterns),
        cmocka_unit_test(freezes_by_name),
        cmocka_unit_test(matches_kinds_and_patterns),
        cmocka_unit_test(initialises),
        cmocka_unit_test(rules_beat_entries_and_earlier_rules),
        cmocka_unit_test(entries_keep_their_own_options),
        cmocka_unit_test(expands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
