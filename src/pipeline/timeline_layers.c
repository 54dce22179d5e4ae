#include "pipeline/timeline_layers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plan/layer_ticks.h"

enum { ARGS_TEXT = 256, OP_TEXT = 16 };

/* "F" of "F s1 m3". */
static void name_op(char text[OP_TEXT], const gp_instr *instr) {
    char whole[GP_INSTR_TEXT];
    gp_instr_text(whole, instr);
    snprintf(text, OP_TEXT, "%.*s", (int)strcspn(whole, " "), whole);
}

static void write_op(const gp_layer_reader *reader, const gp_span *span, const char *instr, const gp_exec_op *op,
                     uint64_t from, uint64_t to, int track, gp_chrome *chrome) {
    const gp_graph *graph = reader->plan->graph;
    char name[GP_LAYER_TEXT], args[ARGS_TEXT];
    const char *pass = reader->plan->minis[span->group].training ? "training" : "evaluation";
    int used =
        snprintf(args, sizeof args, "\"op\":\"%s\",\"step\":%" PRIu32 ",\"pass\":\"%s\",\"pc\":%zu,\"kind\":\"%s\"",
                 instr, span->step, pass, span->index, gp_op_name(op->prepared->desc.kind));
    if (op->owner > 0)
        snprintf(args + used, sizeof args - (size_t)used, ",\"parameter\":\"%s\"",
                 graph->params[op->owner - 1].spec.suffix);
    gp_chrome_span(chrome, track, "layer", gp_layer_text(name, graph, op), from, to, args);
}

void gp_timeline_layers(gp_layer_reader *reader, const gp_span *span, int track, gp_chrome *chrome) {
    const gp_mini_plan *mini = &reader->plan->minis[span->group];
    const gp_instr *instr = &mini->programs->worker[reader->worker].instrs[span->index];
    const gp_routine *routines[GP_INSTR_ROUTINES];
    char op[OP_TEXT];
    if (!reader->ticks) return;
    int count = gp_instr_routines(reader->plan, mini, instr, routines);
    name_op(op, instr);
    for (int r = 0; r < count; r++) {
        uint64_t from = reader->ticks->times[reader->next++];
        for (size_t o = 0; o < routines[r]->count; o++) {
            if (routines[r]->ops[o].when == gp_instr_skips(instr)) continue;
            uint64_t to = reader->ticks->times[reader->next++];
            write_op(reader, span, op, &routines[r]->ops[o], from, to, track, chrome);
            from = to;
        }
    }
}
