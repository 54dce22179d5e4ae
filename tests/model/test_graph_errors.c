/* Models that are wrong, each with its exact message. Every text is a whole `model:` subtree, called m.yaml. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/graph.h"

#define PICTURE "input: {shape: [1, 8, 8]}\n"
#define ROW     "input: {shape: [6]}\n"
#define LOSS    "loss: cross_entropy\n"
/* The list begins on line 4, column 3. */
#define HEAD PICTURE LOSS "layers:\n"
#define FLAT ROW LOSS "layers:\n"

static const struct bad_model {
    const char *text, *message;
} bad_models[] = {
#include "model/bad_models.inc"
};

static void check(const struct bad_model *bad, int index) {
    gp_yaml_document *document = NULL;
    gp_graph *graph = NULL;
    gp_error err = {0};
    gp_status status = gp_yaml_parse(bad->text, strlen(bad->text), "m.yaml", &document, &err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(document), &graph, &err);
    if (status != GP_CONFIG || strcmp(err.text, bad->message) != 0)
        fail_msg("model %d:\n%s\nsays %d: %s\nnot      %s", index, bad->text, (int)status, err.text, bad->message);
    assert_null(graph);
    gp_yaml_destroy(&document);
}

static void test_messages(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_models / sizeof *bad_models; i++) check(&bad_models[i], (int)i);
}

/* What is wrong in none of them: the texts that the table varies. */
static void test_heads_are_good(void **state) {
    static const char *const good[] = {HEAD "- batch_norm: {eps: 16}\n- batch_norm: 0.5\n- flatten\n- linear: 3\n",
                                       FLAT "- linear: 3\n"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        gp_yaml_document *document = NULL;
        gp_graph *graph = NULL;
        gp_error err = {0};
        assert_int_equal(gp_yaml_parse(good[i], strlen(good[i]), "m.yaml", &document, &err), GP_OK);
        if (gp_graph_build(gp_yaml_root(document), &graph, &err) != GP_OK) fail_msg("%s", err.text);
        gp_graph_destroy(&graph);
        gp_yaml_destroy(&document);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages), cmocka_unit_test(test_heads_are_good)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
