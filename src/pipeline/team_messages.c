#include "pipeline/team_messages.h"

#include <string.h>

int gp_team_entries(const gp_plan *plan) {
    return plan->graph->param_count * (1 + plan->update.states);
}

gp_status gp_call_check(const gp_plan *plan, const gp_call *call, gp_error *err) {
    bool steps = call->kind == GP_CALL_COUNT || call->kind == GP_CALL_STEP || call->kind == GP_CALL_DIAGNOSE;
    bool lists = call->kind == GP_CALL_READ || call->kind == GP_CALL_WRITE;
    bool good = call->kind < GP_CALLS && call->count >= 0 && call->count <= (lists ? gp_team_entries(plan) : 0) &&
                (!steps || (call->mini >= 0 && call->mini < plan->mini_count));
    return good ? GP_OK : gp_fail(err, GP_INTERNAL, "process 0 calls for what this process does not know");
}

/* A state that the parameter has, in this plan. */
gp_status gp_call_entry_check(const gp_plan *plan, const gp_call_entry *entry, gp_error *err) {
    bool good = entry->param >= 0 && entry->param < plan->graph->param_count && entry->state >= -1 &&
                entry->state < (plan->graph->params[entry->param].trained ? plan->update.states : 0);
    return good ? GP_OK : gp_fail(err, GP_INTERNAL, "process 0 calls for a tensor that does not exist");
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

gp_finding_message gp_finding_pack(const gp_finding *finding) {
    return (gp_finding_message){.found = finding->found,
                                .backward = finding->backward,
                                .turn = finding->turn,
                                .micro = finding->micro,
                                .node = finding->node,
                                .role = (int32_t)finding->role.role,
                                .index = finding->role.index,
                                .first = (int32_t)finding->first,
                                .bad = finding->bad,
                                .elements = finding->elements};
}

/* A tensor that the node has. */
static bool is_possible_role(const gp_graph *graph, const gp_finding_message *its) {
    if (its->node == -1) return true;
    const gp_node *node = &graph->nodes[its->node];
    if (its->index < 0 || its->index >= GP_MAX_OPERANDS) return false;
    switch (its->role) {
    case GP_ROLE_PARAM:
    case GP_ROLE_GRAD_PARAM: return node->first_param + its->index < graph->param_count;
    case GP_ROLE_GRAD_INPUT: return its->index < node->input_count;
    default: return true;
    }
}

static bool is_possible(const gp_plan *plan, const gp_finding_message *its) {
    return its->found == 1 && (its->backward == 0 || its->backward == 1) && its->turn >= 0 &&
           its->turn < plan->micro_batches && its->micro >= 0 && its->micro < plan->micro_batches && its->node >= -1 &&
           its->node < plan->graph->node_count && its->role >= 0 && its->role <= GP_ROLE_SCALARS && its->first >= 0 &&
           its->first <= GP_NEGATIVE_INFINITE && its->bad >= 1 && its->bad <= its->elements &&
           is_possible_role(plan->graph, its);
}

bool gp_finding_unpack(const gp_plan *plan, const gp_finding_message *from, gp_finding *out) {
    if (!is_possible(plan, from)) return false;
    *out = (gp_finding){.found = true,
                        .backward = from->backward,
                        .turn = from->turn,
                        .micro = from->micro,
                        .node = from->node,
                        .role = {(gp_role)from->role, from->index},
                        .first = (gp_finite)from->first,
                        .bad = from->bad,
                        .elements = from->elements};
    return true;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

gp_answer gp_answer_pack(const gp_error *how) {
    gp_answer its = {.status = (int32_t)how->status};
    memcpy(its.text, how->text, sizeof its.text);
    return its;
}

void gp_answer_unpack(const gp_answer *its, int from, gp_error *out) {
    bool known = its->status > GP_OK && its->status <= GP_INTERRUPTED;
    out->status = GP_OK;
    if (its->status == GP_OK) return;
    gp_fail(out, known ? (gp_status)its->status : GP_INTERNAL, "process %d: %.*s", from, GP_ERROR_TEXT - 1, its->text);
}
