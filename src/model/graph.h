/* The graph: nodes in the order of execution, each a layer; values with one producer and their users; parameters.
 *
 * Built from the `model:` subtree by gp_graph_build, then read-only: any thread. The graph owns nodes, layers, values,
 * names. Value 0 is the input, value 1 the target; the loss is a node too, the last one, and makes no value. Values
 * that skip over layers are plain edges.
 */
#ifndef GP_MODEL_GRAPH_H
#define GP_MODEL_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"
#include "config/tree.h"
#include "layers/layer.h"
#include "model/names.h"

enum { GP_VALUE_INPUT = 0, GP_VALUE_TARGET = 1, GP_MAX_NODES = 1 << 20 };

/* One use of a value: input `input` of node `node`. */
typedef struct gp_use {
    int node;
    int input;
} gp_use;

typedef struct gp_value {
    const char *name; /* of the layer that makes it; "input", "target" */
    gp_shape shape;   /* of one sample */
    gp_dtype dtype;   /* gp_graph.types.storage, or the integers of an input or of classes */
    int producer;     /* node; −1 for input and target */
    gp_use *uses;     /* in the order of execution; never empty, but for an unused input */
    int use_count;
    bool needs_grad; /* some trained parameter lies before it */
} gp_value;

typedef struct gp_param {
    char *name; /* "conv1.weight" */
    int node;
    int index; /* among its node's parameters */
    gp_param_spec spec;
    bool trained; /* neither a buffer nor a frozen layer's */
} gp_param;

typedef struct gp_node {
    char *name;
    gp_place place; /* of its entry in the configuration */
    int unit;       /* layer, as balance counts, that it is or is part of; the loss: the last one */
    gp_layer *layer;
    int *inputs; /* values */
    int input_count;
    int output;      /* value; −1 for the loss */
    int first_param; /* in gp_graph.params */
    int param_count;
} gp_node;

typedef struct gp_graph {
    gp_node *nodes; /* those of the layers, then the loss */
    int node_count;
    int layer_count; /* what `balance` counts: a sequential is one layer of several nodes, which no cut divides */
    int *unit_end;   /* [layer_count]: the node behind the last one of each such layer */
    gp_value *values;
    int value_count;
    gp_param *params;
    int param_count;
    gp_names param_names; /* of gp_graph_find_param */
    gp_types types;       /* F32, until gp_graph_set_types */
} gp_graph;

/* `model` is borrowed for the call; names and places it lent stay valid as long as its document (places). GP_CONFIG
 * with the place of the layer. */
GP_MUST_USE gp_status gp_graph_build(const gp_yaml *model, gp_graph **out, gp_error *err);
/* The same of a list of layers in place of the model's own, of a model that has been checked. Its rules are not
 * looked at. */
GP_MUST_USE gp_status gp_graph_build_list(const gp_yaml *model, const gp_yaml *layers, gp_graph **out, gp_error *err);
/* Only the mistakes that show without shapes, of a model whose own keys have some. */
GP_MUST_USE gp_status gp_graph_check_list(const gp_yaml *model, const gp_yaml *layers, gp_error *err);
void gp_graph_destroy(gp_graph **graph);

/* Before anything is lowered or planned. */
void gp_graph_set_types(gp_graph *graph, gp_types types);
/* Lets all layers compute in TF32 where a device can; before anything is lowered. */
void gp_graph_allow_tf32(gp_graph *graph);

/* Index of a parameter by name; −1 where there is none. */
int gp_graph_find_param(const gp_graph *graph, const char *name);
/* Elements of all parameters, frozen ones included (buffers not counted). */
int64_t gp_graph_param_elements(const gp_graph *graph);
/* Of these, the elements of frozen layers. */
int64_t gp_graph_frozen_elements(const gp_graph *graph);
/* Initial value of a parameter into `out` (elements of `dtype`, F32 or F64, PyTorch's order), from counters: key =
 * seed, counter = (parameter's name, element). */
void gp_param_initialise(const gp_param *param, uint64_t seed, gp_dtype dtype, void *out);
/* "conv \"a\": kernel 7 is larger than …" with the node's place before it, for what a layer said of itself. */
gp_status gp_node_error(const gp_node *node, gp_error *err);

#endif
