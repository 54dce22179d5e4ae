/* What a configuration says of single layers: `pipeline.balance` where it names them, `pipeline.together`, and which
 * are kept for recomputing.
 *
 * Pure; any thread. */
#ifndef GP_BALANCE_RULES_H
#define GP_BALANCE_RULES_H

#include "config/names.h"
#include "cut/cut_problem.h"
#include "model/graph.h"

/* Two layers on one stage, and so all between them. */
typedef struct gp_bound_layers {
    gp_placed_name layer[2];
} gp_bound_layers;

/* What the configuration says; borrowed. */
typedef struct gp_layer_rules {
    const gp_placed_name *first; /* layers that begin a later stage */
    int first_count;
    const gp_bound_layers *together;
    int together_count;
    const gp_placed_name *keep; /* layers, or all below a name, whose outputs recomputing finds */
    int keep_count;
    const int64_t *layers; /* layers per stage, layers_count of them */
    int layers_count;
    gp_place place; /* of pipeline.balance */
} gp_layer_rules;

/* rules[layer] for graph->layer_count layers and so many stages. A name is a layer's, or what its name begins with up
 * to a dot (layer2 stands for layer2.0.conv1 and all that follow). GP_CONFIG with the name's place: no such layer, one
 * that is part of another, wrong order, more names than stages, names against each other. */
GP_MUST_USE gp_status gp_balance_rules(const gp_graph *graph, const gp_layer_rules *asked, int stages,
                                       gp_cut_rule *rules, gp_error *err);
/* keeps[node]: the node's output is kept although its stage recomputes, as `checkpoint: false` at the layer says, or
 * pipeline.checkpoint.keep, where a name stands for the last node that it is, or that is below it. GP_CONFIG with the
 * name's place where there is none. */
GP_MUST_USE gp_status gp_balance_keeps(const gp_graph *graph, const gp_layer_rules *asked, bool *keeps, gp_error *err);
/* GP_CONFIG at pipeline.balance where the numbers there cut layers apart that are to stay together. */
GP_MUST_USE gp_status gp_balance_check_together(const gp_graph *graph, const gp_layer_rules *asked,
                                                const gp_cut_rule *rules, gp_error *err);

#endif
