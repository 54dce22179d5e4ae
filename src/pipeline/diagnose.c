#include "pipeline/diagnose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/run_internal.h"
#include "pipeline/team.h"

gp_status gp_run_diagnose(gp_run *run, int mini, const gp_step_input *input, gp_finding *out, gp_error *err) {
    gp_step_result result;
    gp_finding first = {0};
    gp_finding *watches = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&watches, run->plan->workers, err));
    run->watches = watches;
    gp_status status = gp_run_step(run, mini, input, &result, err);
    run->watches = NULL;
    for (int w = 0; w < run->plan->workers; w++)
        if (gp_finding_is_before(&watches[w], &first)) first = watches[w];
    free(watches);
    if (status == GP_OK) status = gp_team_settle(run, gp_team_gather_finding(run, &first, err), err);
    if (status == GP_OK) *out = first;
    return status;
}

static void name_tensor(char *buffer, size_t size, const gp_graph *graph, bool training, const gp_finding *finding) {
    const gp_node *node = &graph->nodes[finding->node];
    int index = finding->role.index;
    switch (finding->role.role) {
    case GP_ROLE_OUTPUT: snprintf(buffer, size, "output"); break;
    case GP_ROLE_INPUT: snprintf(buffer, size, "target"); break;
    case GP_ROLE_PARAM:
        snprintf(buffer, size, "%s, before the %s", graph->params[node->first_param + index].spec.suffix,
                 training ? "step" : "evaluation");
        break;
    case GP_ROLE_GRAD_PARAM:
        snprintf(buffer, size, "gradient of %s", graph->params[node->first_param + index].spec.suffix);
        break;
    case GP_ROLE_GRAD_INPUT:
        if (node->input_count > 1)
            snprintf(buffer, size, "gradient of its input \"%.80s\"", graph->values[node->inputs[index]].name);
        else
            snprintf(buffer, size, "gradient of its input");
        break;
    case GP_ROLE_STATS: snprintf(buffer, size, node->output < 0 ? "partial sums" : "statistics"); break;
    default: snprintf(buffer, size, "intermediate values"); break;
    }
}

const char *gp_finding_text(char buffer[GP_FINDING_TEXT], const gp_plan *plan, int mini, const gp_finding *finding) {
    const gp_graph *graph = plan->graph;
    char where[120] = "", tensor[120], what[400] = "input", elements[GP_NONFINITE_TEXT];
    if (finding->node >= 0) {
        const gp_node *node = &graph->nodes[finding->node];
        name_tensor(tensor, sizeof tensor, graph, plan->minis[mini].training, finding);
        if (finding->node == graph->node_count - 1)
            snprintf(what, sizeof what, "loss %s: %s", node->layer->type->name, tensor);
        else
            snprintf(what, sizeof what, "%s \"%.200s\": %s", node->layer->type->name, node->name, tensor);
    }
    if (finding->node < 0 || finding->role.role != GP_ROLE_PARAM)
        snprintf(where, sizeof where, "micro-batch %d of %d, ", finding->micro + 1, plan->minis[mini].pieces);
    gp_nonfinite_text(elements, (gp_nonfinite){.count = finding->bad, .first = finding->first}, finding->elements);
    snprintf(buffer, GP_FINDING_TEXT, "%s%s: %s", where, what, elements);
    return buffer;
}
