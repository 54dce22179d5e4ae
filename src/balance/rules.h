/* What a configuration says of single layers: `pipeline.balance` where it names them, `pipeline.together`, and which
 * are kept for recomputing.
 *
 * Pure; any thread. */
#ifndef GP_BALANCE_RULES_H
#define GP_BALANCE_RULES_H

#include "balance/cut_problem.h"
#include "config/config.h"
#include "model/graph.h"

/* rules[layer] for graph->layer_count layers and so many stages. A name is a layer's, or what its name begins with up
 * to a dot (layer2 stands for layer2.0.conv1 and all that follow). GP_CONFIG with the name's place: no such layer, one
 * that is part of another, wrong order, more names than stages, names against each other. */
GP_MUST_USE gp_status gp_balance_rules(const gp_graph *graph, const gp_pipeline_config *pipeline, int stages,
                                       gp_cut_rule *rules, gp_error *err);
/* keeps[node]: the node's output is kept although its stage recomputes, as `checkpoint: false` at the layer says, or
 * pipeline.checkpoint.keep, where a name stands for the last node that it is, or that is below it. GP_CONFIG with the
 * name's place where there is none. */
GP_MUST_USE gp_status gp_balance_keeps(const gp_graph *graph, const gp_pipeline_config *pipeline, bool *keeps,
                                       gp_error *err);
/* GP_CONFIG at pipeline.balance where the numbers there cut layers apart that are to stay together. */
GP_MUST_USE gp_status gp_balance_check_together(const gp_graph *graph, const gp_pipeline_config *pipeline,
                                                const gp_cut_rule *rules, gp_error *err);

#endif
