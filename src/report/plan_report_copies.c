/* The report's table of copies: edge by edge, or kind by kind where there are many. */
#include "base/memory.h"
#include "report/plan_report_parts.h"

enum { MOST_ROWS = 20 };

static gp_micros micros_of(const gp_report *report, size_t edge) {
    return gp_micros_of_edge(gp_mini_pieces(&report->plan->minis[report->mini]), report->plan->stages, edge);
}

/* A copy of the first micro-batch that it carries, the way the executor asks for it. */
static size_t edge_bytes(const gp_report *report, size_t edge) {
    gp_instr send = {.op = GP_INSTR_SEND,
                     .stage = (uint16_t)report->plan->stages->edges[edge].from,
                     .micro = (uint16_t)micros_of(report, edge).first};
    send.edge = (uint32_t)edge;
    return gp_instr_bytes(report->plan, &report->plan->minis[report->mini], &send);
}

static bool is_training(const gp_report *report) {
    return report->plan->minis[report->mini].training;
}

/* Forward-only plans have no gradients. Between replicas some edges may carry nothing. */
static bool is_used(const gp_report *report, size_t edge) {
    if (gp_micros_count(micros_of(report, edge)) == 0) return false;
    return is_training(report) || report->plan->stages->edges[edge].kind != GP_EDGE_GRADIENT;
}

static const char *value_name(const gp_report *report, const gp_edge *edge) {
    return report->plan->graph->values[edge->value].name;
}

static void write_bytes(const gp_report *report, size_t bytes) {
    gp_report_cell(report->out, gp_report_number((int64_t)bytes).text, 14, true);
    gp_report_cell(report->out, gp_report_bytes(bytes).text, 12, true);
    fputs("\n", report->out);
}

static void write_edges(const gp_report *report) {
    fprintf(report->out, "  %-12s%-38s%s%14s\n", "kind", "value", "stage → stage ", "bytes");
    for (size_t i = 0; i < report->plan->stages->edge_count; i++) {
        const gp_edge *edge = &report->plan->stages->edges[i];
        if (!is_used(report, i)) continue;
        fputs("  ", report->out);
        gp_report_cell(report->out, gp_edge_kind_name(edge->kind), 12, false);
        gp_report_cell(report->out, value_name(report, edge), 38, false);
        fprintf(report->out, "%6d → %-6d", edge->from, edge->to);
        write_bytes(report, edge_bytes(report, i));
    }
}

static const char *part_text(gp_part_kind part) {
    switch (part) {
    case GP_PART_SQUARES: return "squares of gradients";
    case GP_PART_SCALARS: return "the loss, and whether it is finite";
    case GP_PART_LOSSES: return "losses of replicas";
    case GP_PART_STATISTICS: return "statistics of replicas";
    case GP_PART_GRADIENTS: return "gradients of replicas";
    case GP_PART_BLOCKS: return "squares of replicas";
    case GP_PART_PARAMETERS: return "parameters of replicas";
    }
    return "?";
}

static void write_members(const gp_report *report, const gp_collective *its) {
    const gp_indices *members = &its->contributors;
    if (gp_collective_is_mutual(its))
        fprintf(report->out, "%6d … %-6d", members->items[0], members->items[members->count - 1]);
    else if (its->kind == GP_COLLECTIVE_GATHER)
        fprintf(report->out, "%6s → %-6d", "others", its->root);
    else
        fprintf(report->out, "%6d → %-6s", its->root, "others");
}

/* The most that a collector copies. */
static size_t collective_bytes(const gp_report *report, size_t collective) {
    const gp_indices *collectors = &report->plan->stages->collectives[collective].collectors;
    size_t most = 0;
    for (size_t i = 0; i < collectors->count; i++) {
        gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)collectors->items[i]};
        collect.collective = (uint32_t)collective;
        size_t bytes = gp_instr_bytes(report->plan, &report->plan->minis[report->mini], &collect);
        if (bytes > most) most = bytes;
    }
    return most;
}

static void write_collectives(const gp_report *report) {
    const gp_stages *stages = report->plan->stages;
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *its = &stages->collectives[c];
        size_t bytes = 0;
        if (its->bucket > 0) continue; /* the first one stands for all */
        for (size_t b = 0; b < (size_t)its->buckets; b++) bytes += collective_bytes(report, c + b);
        if ((!is_training(report) && its->part != GP_PART_LOSSES) || bytes == 0) continue;
        fputs("  ", report->out);
        gp_report_cell(report->out, gp_collective_kind_name(its->kind), 12, false);
        gp_report_cell(report->out, part_text(its->part), 38, false);
        write_members(report, its);
        write_bytes(report, bytes);
    }
}

/* What a replica copies within the passes of a mini-batch. */
static size_t exchanged_bytes(const gp_report *report, int stage) {
    const gp_plan *plan = report->plan;
    const gp_mini_plan *mini = &plan->minis[report->mini];
    const gp_program *program = &mini->programs->worker[plan->stage[stage].worker];
    size_t sum = 0;
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        const gp_routine *routine = gp_instr_routine(mini, &plan->stage[stage], instr);
        gp_move move;
        for (size_t o = 0; instr->stage == stage && routine && o < routine->count; o++)
            for (int i = 0;
                 gp_exchange_move(plan, &plan->stage[stage], &routine->ops[o].exchange, instr->micro, i, &move); i++)
                sum += move.bytes;
    }
    return sum;
}

static void write_exchanges(const gp_report *report) {
    const gp_stages *stages = report->plan->stages;
    for (int n = stages->numbers - 1; n >= 0 && is_training(report); n--) {
        int first = stages->first[n];
        if (stages->stage[first].group == 1) continue;
        fputs("  ", report->out);
        gp_report_cell(report->out, "exchange", 12, false);
        gp_report_cell(report->out, "batch norm of replicas, in passes", 38, false);
        fprintf(report->out, "%6d … %-6d", first, first + stages->stage[first].replicas - 1);
        write_bytes(report, exchanged_bytes(report, first));
    }
}

static void write_kind(const gp_report *report, gp_edge_kind kind) {
    const gp_stages *stages = report->plan->stages;
    size_t sum = 0, most = 0, largest = 0;
    int64_t count = 0;
    for (size_t i = 0; i < stages->edge_count; i++) {
        if (stages->edges[i].kind != kind || !is_used(report, i)) continue;
        size_t bytes = edge_bytes(report, i);
        count++;
        sum += bytes;
        if (bytes <= most) continue;
        most = bytes;
        largest = i;
    }
    if (count == 0) return;
    fputs("  ", report->out);
    gp_report_cell(report->out, gp_edge_kind_name(kind), 12, false);
    gp_report_cell(report->out, gp_report_number(count).text, 10, true);
    gp_report_cell(report->out, gp_report_bytes(sum).text, 14, true);
    fprintf(report->out, "  %s: ", gp_report_bytes(most).text);
    gp_report_cell(report->out, value_name(report, &stages->edges[largest]), 28, false);
    fprintf(report->out, " %d → %d\n", stages->edges[largest].from, stages->edges[largest].to);
}

static void write_kinds(const gp_report *report) {
    fprintf(report->out, "  %-12s%10s%14s  %s\n", "kind", "copies", "in all", "the largest");
    write_kind(report, GP_EDGE_ACTIVATION);
    write_kind(report, GP_EDGE_SKIP);
    write_kind(report, GP_EDGE_GRADIENT);
}

void gp_report_copies(const gp_report *report) {
    const gp_stages *stages = report->plan->stages;
    size_t used = 0;
    for (size_t i = 0; i < stages->edge_count; i++) used += is_used(report, i);
    if (stages->count == 1) {
        fputs("\ncopies between stages: none\n", report->out);
        return;
    }
    fprintf(report->out, "\ncopies between stages, of a micro-batch of %s%s\n",
            gp_report_count(gp_mini_samples(&report->plan->minis[report->mini], 0), "sample").text,
            is_training(report) && stages->count > stages->numbers
                ? " (gather, broadcast, scatter, exchange: of a mini-batch)"
            : is_training(report) && stages->norms ? " (gather, broadcast: of a mini-batch)"
            : is_training(report)                  ? " (broadcast: of a mini-batch)"
            : stages->count > stages->numbers      ? " (gather: of a mini-batch)"
                                                   : "");
    if (used > MOST_ROWS)
        write_kinds(report);
    else
        write_edges(report);
    write_collectives(report);
    write_exchanges(report);
}
