#include "plan/layer_ticks.h"

#include <string.h>

#include "base/printable.h"

size_t gp_instr_ticks(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_routine *routines[GP_INSTR_ROUTINES];
    int count = gp_instr_routines(plan, mini, instr, routines);
    size_t ticks = 0;
    for (int r = 0; r < count; r++) {
        ticks++;
        for (size_t o = 0; o < routines[r]->count; o++) ticks += routines[r]->ops[o].when != gp_instr_skips(instr);
    }
    return ticks;
}

size_t gp_mini_ticks(const gp_plan *plan, const gp_mini_plan *mini, int worker) {
    const gp_program *program = &mini->programs->worker[worker];
    size_t ticks = 0;
    if (plan->devices[worker].kind->event_elapsed) return 0;
    for (size_t pc = 0; pc < program->count; pc++) ticks += gp_instr_ticks(plan, mini, &program->instrs[pc]);
    return ticks;
}

/* Whole characters only. */
static void add_name(char buffer[GP_LAYER_TEXT], const char *name) {
    size_t used = strlen(buffer);
    const char *parts[] = {used > 0 ? " + " : "", name};
    for (int i = 0; i < 2; i++) {
        bool printable;
        for (const char *at = parts[i]; *at;) {
            size_t bytes = gp_printable_next(at, &printable);
            if (used + bytes >= GP_LAYER_TEXT) return;
            memcpy(buffer + used, at, bytes);
            buffer[used += bytes] = '\0';
            at += bytes;
        }
    }
}

/* Those of the parts, or those of its node and of the one beyond it. */
static void add_nodes(char buffer[GP_LAYER_TEXT], const gp_graph *graph, const gp_exec_op *op) {
    for (int p = 0; p < op->part_count; p++) add_name(buffer, graph->nodes[op->part[p].node].name);
    if (op->part_count > 0) return;
    add_name(buffer, graph->nodes[op->node].name);
    if (op->beyond > 0) add_name(buffer, graph->nodes[op->node + op->beyond].name);
}

const char *gp_layer_text(char buffer[GP_LAYER_TEXT], const gp_graph *graph, const gp_exec_op *op) {
    buffer[0] = '\0';
    if (op->node >= 0)
        add_nodes(buffer, graph, op);
    else if (op->owner > 0)
        add_name(buffer, graph->nodes[graph->params[op->owner - 1].node].name);
    else
        add_name(buffer, gp_op_name(op->prepared->desc.kind));
    return buffer;
}
