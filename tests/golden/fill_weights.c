/* Fills the parameters of a configuration's model by a formula that make_models.py has too, and writes them as weights:
 *
 *     fill_weights config.yaml weights.safetensors
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "data/safetensors.h"
#include "model/graph.h"

/* In [-1, 1), exact in f32. */
static float uniform(uint32_t seed, uint32_t element) {
    uint32_t x = seed ^ (element * 0x9E3779B1U);
    x = (x ^ (x >> 16)) * 0x85EBCA6BU;
    x = (x ^ (x >> 13)) * 0xC2B2AE35U;
    x = x ^ (x >> 16);
    return (float)(x >> 8) * 0x1p-23F - 1;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static gp_status fill(const gp_param *param, gp_safetensors_item *item, gp_error *err) {
    const gp_shape *shape = &param->spec.shape;
    int64_t elements = 1, inputs = 1;
    float *values = NULL, centre = 0, spread = 0.125F;
    *item = (gp_safetensors_item){.name = param->name, .dtype = GP_F32, .rank = shape->rank};
    for (int i = 0; i < shape->rank; i++) {
        item->dim[i] = shape->dim[i];
        elements *= shape->dim[i];
        if (i > 0) inputs *= shape->dim[i];
    }
    if (shape->rank > 1) {
        spread = (float)sqrt(3 / (double)inputs);
    } else if (ends_with(param->name, ".running_var") || ends_with(param->name, ".weight")) {
        centre = ends_with(param->name, ".bn3.weight") ? 0.125F : 1;
        spread = centre / 4;
    }
    GP_RETURN_IF_FAILED(GP_NEW(&values, elements, err));
    uint32_t seed = (uint32_t)gp_hash_text(param->name);
    for (int64_t i = 0; i < elements; i++) values[i] = centre + spread * uniform(seed, (uint32_t)i);
    item->data = values;
    return GP_OK;
}

static gp_status fill_all(const char *config, const char *weights, gp_error *err) {
    gp_yaml_document *document = NULL;
    gp_graph *graph = NULL;
    gp_safetensors_item *items = NULL;
    gp_status status = gp_yaml_load(config, &document, err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_get(gp_yaml_root(document), "model"), &graph, err);
    if (status == GP_OK) status = GP_NEW(&items, graph->param_count, err);
    for (int p = 0; status == GP_OK && p < graph->param_count; p++) status = fill(&graph->params[p], &items[p], err);
    if (status == GP_OK) status = gp_safetensors_write(weights, items, (size_t)graph->param_count, NULL, err);
    for (int p = 0; items && p < graph->param_count; p++) free((void *)(uintptr_t)items[p].data);
    free(items);
    gp_graph_destroy(&graph);
    gp_yaml_destroy(&document);
    return status;
}

int main(int argc, char **argv) {
    gp_error err = {0};
    if (argc != 3) return 2;
    gp_status status = fill_all(argv[1], argv[2], &err);
    if (status != GP_OK) fprintf(stderr, "fill_weights: %s\n", err.text);
    return gp_status_exit(status);
}
