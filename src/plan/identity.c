#include "plan/identity.h"

#include <string.h>

#include "base/philox.h"

/* Byte by byte from the lowest, so that the order of bytes in memory does not count. */
static uint64_t add_number(uint64_t hash, uint64_t number) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (8 * i));
    return gp_hash_bytes(hash, bytes, sizeof bytes);
}

/* With the 0 at its end, which parts it from the next one. */
static uint64_t add_text(uint64_t hash, const char *text) {
    return gp_hash_bytes(hash, text, strlen(text) + 1);
}

/* work and grad share their place with the edge and the collective: only one of them is the instruction's. */
static uint64_t add_instr(uint64_t hash, const gp_instr *instr) {
    uint64_t operand = gp_instr_has_edge(instr)         ? instr->edge
                       : gp_instr_has_collective(instr) ? instr->collective
                                                        : (uint64_t)instr->grad << 16 | instr->work;
    hash = add_number(hash, (uint64_t)instr->op | (uint64_t)instr->flags << 8 | (uint64_t)instr->stage << 16 |
                                (uint64_t)instr->micro << 32 | (uint64_t)instr->slot << 48);
    return add_number(hash, operand << 32 | instr->clock);
}

uint64_t gp_identity_programs(uint64_t hash, const gp_programs *programs) {
    hash = add_number(hash, (uint64_t)programs->workers);
    hash = add_number(hash, (uint64_t)programs->stages);
    hash = add_number(hash, (uint64_t)programs->pieces);
    hash = add_number(hash, (uint64_t)programs->training | (uint64_t)programs->descending << 1);
    for (int s = 0; s < programs->stages; s++) hash = add_number(hash, (uint64_t)gp_programs_worker(programs, s));
    for (int w = 0; w < programs->workers; w++) {
        const gp_program *program = &programs->worker[w];
        hash = add_number(hash, program->count);
        for (size_t pc = 0; pc < program->count; pc++) hash = add_instr(hash, &program->instrs[pc]);
    }
    return hash;
}

static uint64_t add_stages(uint64_t hash, const gp_plan *plan) {
    const gp_stages *stages = plan->stages;
    for (int n = 0; n < plan->graph->node_count; n++) {
        hash = add_text(hash, plan->graph->nodes[n].name);
        hash = add_text(hash, plan->graph->nodes[n].layer->type->name);
        hash = add_number(hash, (uint64_t)stages->stage_of_node[n]);
    }
    for (size_t e = 0; e < stages->edge_count; e++) {
        const gp_edge *edge = &stages->edges[e];
        hash = add_number(hash, (uint64_t)edge->kind);
        hash = add_number(hash, (uint64_t)edge->from);
        hash = add_number(hash, (uint64_t)edge->to);
        hash = add_number(hash, (uint64_t)edge->elements);
    }
    return hash;
}

/* What else processes must agree on: who has what, and what goes between them. */
static uint64_t add_processes(uint64_t hash, const gp_plan *plan) {
    hash = add_number(hash, (uint64_t)plan->processes);
    if (plan->lines) hash = add_text(hash, "lines");
    for (int w = 0; w < plan->workers; w++) hash = add_number(hash, (uint64_t)plan->process[w]);
    for (size_t c = 0; c < plan->stages->collective_count; c++) {
        const gp_collective *its = &plan->stages->collectives[c];
        const gp_instr post = {
            .op = GP_INSTR_POST, .stage = (uint16_t)its->contributors.items[0], .collective = (uint32_t)c};
        hash = add_number(hash, (uint64_t)its->kind | (uint64_t)its->part << 8);
        hash = add_number(hash, (uint64_t)its->contributors.count << 32 | (uint64_t)its->collectors.count);
        for (int m = 0; m < plan->mini_count; m++)
            hash = add_number(hash, gp_instr_bytes(plan, &plan->minis[m], &post));
    }
    return hash;
}

static uint64_t add_devices(uint64_t hash, const gp_plan *plan) {
    for (int w = 0; w < plan->workers; w++) {
        hash = add_text(hash, plan->devices[w].kind->name);
        hash = add_number(hash, (uint64_t)plan->devices[w].index);
        hash = add_number(hash, (uint64_t)plan->devices[w].threads);
    }
    return hash;
}

static uint64_t add_programs(uint64_t hash, const gp_plan *plan) {
    for (int m = 0; m < plan->mini_count; m++) {
        hash = add_number(hash, (uint64_t)plan->minis[m].samples);
        hash = gp_identity_programs(hash, plan->minis[m].programs);
    }
    return hash;
}

uint64_t gp_identity_plan(const gp_plan *plan) {
    uint64_t hash = add_devices(add_stages(0, plan), plan);
    if (plan->processes > 1) hash = add_processes(hash, plan);
    return add_programs(hash, plan);
}

void gp_identity_parts(const gp_plan *plan, uint64_t out[GP_IDENTITY_PARTS]) {
    out[GP_IDENTITY_STAGES] = add_stages(0, plan);
    out[GP_IDENTITY_DEVICES] = add_devices(0, plan);
    out[GP_IDENTITY_PROCESSES] = add_processes(0, plan);
    out[GP_IDENTITY_PROGRAMS] = add_programs(0, plan);
}

const char *gp_identity_part_name(gp_identity_part part) {
    static const char *const names[] = {"the layers of stages", "devices and their threads", "the processes of workers",
                                        "programs"};
    return names[part];
}
