/* Built-in models: torchvision's names, shapes and numbers of parameters; torchgpipe's numbers of layers. */
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

static built build_model(const char *model, int size) {
    char text[256];
    snprintf(text, sizeof text, "%s\ninput: {shape: [3, %d, %d]}\nloss: cross_entropy\n", model, size, size);
    return build(text);
}

static void release(built *model) {
    gp_graph_destroy(&model->graph);
    gp_yaml_destroy(&model->document);
}

/* Parameters as torchvision counts them; layers: 4 + blocks + 3 of a ResNet. */
static const struct {
    const char *name, *model;
    int64_t parameters;
    int layers;
} models[] = {
    {"resnet18", "resnet: 18", 11689512, 4 + 8 * 8 + 3},
    {"resnet34", "resnet: {depth: 34}", 21797672, 4 + 16 * 8 + 3},
    {"resnet50", "resnet: {depth: 50, classes: 1000}", 25557032, 4 + 16 * 11 + 3},
    {"resnet101", "resnet: 101", 44549160, 370},
    {"resnet152", "resnet: 152", 60192808, 4 + 50 * 11 + 3},
    {"vgg11", "vgg: 11", 132863336, 8 + 8 + 5 + 1 + 7},
    {"vgg13", "vgg: {depth: 13, batch_norm: false}", 133047848, 10 + 10 + 5 + 1 + 7},
    {"vgg16", "vgg: 16", 138357544, 13 + 13 + 5 + 1 + 7},
    {"vgg19", "vgg: 19", 143667240, 16 + 16 + 5 + 1 + 7},
    {"vgg11_bn", "vgg: {depth: 11, batch_norm: true}", 132868840, 8 * 3 + 5 + 1 + 7},
    {"vgg13_bn", "vgg: {depth: 13, batch_norm: true}", 133053736, 10 * 3 + 5 + 1 + 7},
    {"vgg16_bn", "vgg: {depth: 16, batch_norm: true}", 138365992, 13 * 3 + 5 + 1 + 7},
    {"vgg19_bn", "vgg: {depth: 19, batch_norm: true}", 143678248, 16 * 3 + 5 + 1 + 7},
};
enum { MODELS = sizeof models / sizeof *models };

static void test_counts(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        built model = build_model(models[m].model, 224);
        if (gp_graph_param_elements(model.graph) != models[m].parameters ||
            model.graph->layer_count != models[m].layers)
            fail_msg("%s: %lld parameters, %d layers", models[m].name, (long long)gp_graph_param_elements(model.graph),
                     model.graph->layer_count);
        assert_int_equal(model.graph->values[model.graph->nodes[model.graph->node_count - 2].output].shape.dim[0],
                         1000);
        release(&model);
    }
}

/* The lines of one model: "resnet18 conv1.weight 64 3 7 7", in the order of its state_dict. */
static int check_names(FILE *file, int m) {
    built model = build_model(models[m].model, 224);
    const gp_graph *graph = model.graph;
    char line[256];
    int seen = 0;
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        char of[32], name[64];
        int at = 0;
        assert_int_equal(sscanf(line, "%31s %63s%n", of, name, &at), 2);
        if (strcmp(of, models[m].name) != 0) continue;
        int found = gp_graph_find_param(graph, name);
        if (found < 0) fail_msg("%s has no %s", of, name);
        const gp_shape *shape = &graph->params[found].spec.shape;
        char *rest = line + at;
        for (int d = 0; d < shape->rank; d++)
            if (strtoll(rest, &rest, 10) != shape->dim[d]) fail_msg("%s %s has another shape", of, name);
        assert_string_equal(rest, "\n");
        seen++;
    }
    assert_int_equal(seen, graph->param_count);
    release(&model);
    return seen;
}

static void test_names_and_shapes(void **state) {
    FILE *file = fopen(GP_TEST_SOURCE_DIR "/golden/models/names.txt", "r");
    int lines = 0, seen = 0;
    (void)state;
    assert_non_null(file);
    for (int m = 0; m < MODELS; m++) seen += check_names(file, m);
    rewind(file);
    for (int c = getc(file); c != EOF; c = getc(file)) lines += c == '\n';
    fclose(file);
    assert_int_equal(seen, lines);
}

static void expect_init(const gp_graph *graph, const char *name, gp_init_kind kind, double value) {
    const gp_param_spec *spec = &graph->params[gp_graph_find_param(graph, name)].spec;
    assert_int_equal(spec->init, kind);
    assert_true(spec->value > value - 1e-12 && spec->value < value + 1e-12);
}

static void test_initial_values(void **state) {
    (void)state;
    built model = build_model("resnet: 50", 64);
    /* √(2 / (out · kh · kw)) */
    expect_init(model.graph, "conv1.weight", GP_INIT_NORMAL, 0.025253813613805268);
    expect_init(model.graph, "layer1.0.downsample.0.weight", GP_INIT_NORMAL, 0.08838834764831845);
    expect_init(model.graph, "layer1.0.bn3.weight", GP_INIT_CONSTANT, 1);
    expect_init(model.graph, "fc.weight", GP_INIT_UNIFORM, 0.02209708691207961); /* 1/√2048 */
    release(&model);
    model = build_model("vgg: {depth: 11, classes: 3}", 32);
    expect_init(model.graph, "features.0.weight", GP_INIT_NORMAL, 0.05892556509887896);
    expect_init(model.graph, "features.0.bias", GP_INIT_CONSTANT, 0);
    expect_init(model.graph, "classifier.0.weight", GP_INIT_NORMAL, 0.01);
    expect_init(model.graph, "classifier.6.bias", GP_INIT_CONSTANT, 0);
    release(&model);
}

/* Sizes whose mean of 7×7 is exact: repeated, as it is, averaged; all else is refused. */
static void test_vgg_sizes(void **state) {
    static const struct {
        int size;
        const char *layer; /* that makes the 7×7 */
    } sizes[] = {{32, "upsample"}, {63, "upsample"}, {224, "max_pool"}, {255, "max_pool"}, {448, "avg_pool"}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        built model = build_model("vgg: 11", sizes[i].size);
        const gp_graph *graph = model.graph;
        int flatten = 0;
        while (strcmp(graph->nodes[flatten].name, "flatten") != 0) flatten++;
        assert_string_equal(graph->nodes[flatten - 1].layer->type->name, sizes[i].layer);
        char text[GP_SHAPE_TEXT];
        assert_string_equal(gp_shape_text(text, graph->nodes[flatten].layer->inputs[0]), "[512, 7, 7]");
        release(&model);
    }
}

/* What stands in place of a built-in model has the model's place. */
static void test_place(void **state) {
    (void)state;
    built model = build("loss: cross_entropy\ninput: {shape: [1, 9, 9]}\nresnet: 18\n");
    for (int n = 0; n + 1 < model.graph->node_count; n++) {
        assert_int_equal(model.graph->nodes[n].place.line, 3);
        assert_int_equal(model.graph->nodes[n].place.column, 1);
        assert_string_equal(model.graph->nodes[n].place.path, "m.yaml");
    }
    release(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),         cmocka_unit_test(test_names_and_shapes),
        cmocka_unit_test(test_initial_values), cmocka_unit_test(test_vgg_sizes),
        cmocka_unit_test(test_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
