#include "fuzz/fuzz_stages.h"

#include <string.h>

#include "fuzz/fuzz.h"
#include "model/graph.h"

static const char model[] = "input: {shape: [3]}\n"
                            "layers: [{linear: {out: 3, name: a}}, relu, {add: [-1, a]}, {linear: 3}, {add: [-1, a]}]\n"
                            "loss: cross_entropy\n";

static const gp_graph *graph_of_model(void) {
    static gp_graph *graph;
    static gp_yaml_document *document;
    gp_error err = {0};
    if (graph) return graph;
    FUZZ_PROMISE(gp_yaml_parse(model, strlen(model), "model", &document, &err) == GP_OK);
    FUZZ_PROMISE(gp_graph_build(gp_yaml_root(document), &graph, &err) == GP_OK);
    return graph;
}

const gp_stages *fuzz_stages(int count) {
    static gp_stages *stages[FUZZ_MOST_STAGES + 1];
    if (count < 1 || count > FUZZ_MOST_STAGES) return NULL;
    if (!stages[count]) {
        const gp_graph *graph = graph_of_model();
        gp_error err = {0};
        int64_t layers[FUZZ_MOST_STAGES] = {1, 1, 1, 1};
        layers[count - 1] = graph->layer_count - (count - 1);
        const gp_stages_request request = {.graph = graph, .layers = layers, .numbers = count};
        FUZZ_PROMISE(gp_stages_create(&request, &stages[count], &err) == GP_OK);
    }
    return stages[count];
}
