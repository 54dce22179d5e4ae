#include "toolkit/lowered_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "layers/lowering.h"
#include "model/graph.h"

#define TWO_CONVS(name, out)                                                                                           \
    "  - conv: {out: " out ", kernel: 3, pad: 1}\n  - relu\n"                                                          \
    "  - conv: {out: " out ", kernel: 3, pad: 1}\n  - relu: {name: " name "}\n"
#define DOWN(name, out) "  - max_pool: 2\n" TWO_CONVS(name, out)
#define UP(name, from, out)                                                                                            \
    "  - upsample: 2\n  - conv: {out: " out ", kernel: 3, pad: 1}\n  - concat: [-1, " from "]\n" TWO_CONVS(name, out)

const network networks[NETWORKS] = {
    [NETWORK_RESNET] = {"resnet-50, 32 of 3x224x224",
                        "resnet: {depth: 50, classes: 1000}\ninput: {shape: [3, 224, 224]}\nloss: cross_entropy\n", 32},
    [NETWORK_UNET] = {"u-net, 8 of 3x256x256",
                      "input: {shape: [3, 256, 256]}\nlayers:\n" TWO_CONVS("e1", "64") DOWN("e2", "128")
                          DOWN("e3", "256") DOWN("e4", "512") DOWN("e5", "1024") UP("d4", "e4", "512")
                              UP("d3", "e3", "256") UP("d2", "e2", "128")
                                  UP("d1", "e1", "64") "  - conv: {out: 1, kernel: 1}\nloss: bce_logits\n",
                      8},
};

static void stop(const char *what, const gp_error *err) {
    fprintf(stderr, "%s: %s\n", what, err->text);
    abort();
}

static void add(lowered_ops *ops, const char *layer, const gp_op_desc *desc) {
    gp_error err = {0};
    ops->total++;
    for (size_t i = 0; i < ops->count; i++) {
        if (memcmp(&ops->item[i].desc, desc, gp_op_desc_bytes(desc)) != 0) continue;
        ops->item[i].uses++;
        return;
    }
    if (GP_GROW(&ops->item, &ops->capacity, ops->count + 1, &err) != GP_OK) stop(layer, &err);
    lowered_op *op = &ops->item[ops->count++];
    snprintf(op->layer, sizeof op->layer, "%s", layer);
    memcpy(&op->desc, desc, sizeof *desc);
    op->uses = 1;
}

static void add_library_ops(lowered_ops *ops, const gp_node *node, const gp_lowering *lowering) {
    for (size_t i = 0; i < lowering->count; i++) {
        gp_op_desc desc = lowering->ops[i].desc;
        if (lowering->ops[i].pass == GP_PASS_EVALUATE || desc.kind > GP_OP_LINEAR_BACKWARD_WEIGHTS) continue;
        desc.threads = 1;
        if (desc.kind == GP_OP_CONV_BACKWARD_WEIGHTS)
            memset(&desc.operand[GP_CONV_BACKWARD_WEIGHTS_DB], 0, sizeof(gp_tensor));
        if (desc.kind == GP_OP_LINEAR_BACKWARD_WEIGHTS)
            memset(&desc.operand[GP_LINEAR_BACKWARD_WEIGHTS_DB], 0, sizeof(gp_tensor));
        add(ops, node->name, &desc);
        if (desc.kind != GP_OP_CONV_BACKWARD_WEIGHTS && desc.kind != GP_OP_LINEAR_BACKWARD_WEIGHTS) continue;
        desc.flags |= GP_OP_ACCUMULATE;
        add(ops, node->name, &desc);
    }
}

void lowered_ops_collect(const network *its, lowered_ops *out) {
    gp_error err = {0};
    gp_yaml_document *document = NULL;
    gp_graph *graph = NULL;
    gp_status status = gp_yaml_parse(its->model, strlen(its->model), "network.yaml", &document, &err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(document), &graph, &err);
    if (status != GP_OK) stop(its->name, &err);
    *out = (lowered_ops){0};
    for (int n = 0; n < graph->node_count; n++) {
        const gp_node *node = &graph->nodes[n];
        gp_lowering lowering;
        gp_lowering_init(&lowering, gp_types_of(GP_F32), its->samples, (uint32_t)n);
        if (node->layer->type->lower(node->layer, &lowering, &err) != GP_OK) stop(node->name, &err);
        add_library_ops(out, node, &lowering);
        gp_lowering_fini(&lowering);
    }
    gp_graph_destroy(&graph);
    gp_yaml_destroy(&document);
}

void lowered_ops_release(lowered_ops *ops) {
    free(ops->item);
    *ops = (lowered_ops){0};
}
