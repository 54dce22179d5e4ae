#include "plan/link_use.h"

#include <stdlib.h>

#include "base/memory.h"

typedef struct counter {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    gp_link_use *use;
    uint64_t *bytes[GP_LINK_KINDS]; /* [2·place + enters] place: the host, or the process */
} counter;

static int places_of(const gp_links *links, int kind) {
    return kind == GP_LINK_NETWORK ? links->hosts : links->processes;
}

static void count_move(counter *c, const gp_move *move, int to, bool begins) {
    const gp_links *links = c->plan->links;
    int from = move->from < 0 ? to : c->plan->stage[move->from].worker;
    if (from == to) return;
    int kind = (int)gp_links_kind(links, from, to);
    const int *place = kind == GP_LINK_NETWORK ? links->host : links->process;
    c->use[kind].copies += begins;
    c->use[kind].bytes += move->bytes;
    c->bytes[kind][2 * (size_t)place[from]] += move->bytes;
    c->bytes[kind][2 * (size_t)place[to] + 1] += move->bytes;
}

static void count_instr(counter *c, const gp_instr *instr) {
    gp_moves moves = gp_moves_of(c->plan, c->mini, instr);
    int last = -1;
    gp_move move;
    if (instr->op != GP_INSTR_RECV && instr->op != GP_INSTR_COLLECT) return;
    while (gp_moves_next(&moves, &move)) {
        count_move(c, &move, c->plan->stage[instr->stage].worker, move.from != last);
        last = move.from;
    }
}

/* What a pass exchanges within it: synchronised batch norms. */
static void count_exchanges(counter *c, const gp_instr *instr) {
    const gp_stage_plan *stage = &c->plan->stage[instr->stage];
    const gp_routine *routine = gp_instr_routine(c->mini, stage, instr);
    gp_move move;
    if (c->plan->stages->stage[instr->stage].group == 1) return;
    for (size_t o = 0; routine && o < routine->count; o++)
        for (int i = 0; gp_exchange_move(c->plan, stage, &routine->ops[o].exchange, instr->micro, i, &move); i++)
            count_move(c, &move, stage->worker, true);
}

static void find_busiest(const counter *c, int kind) {
    gp_link_use *use = &c->use[kind];
    for (int i = 0; i < 2 * places_of(c->plan->links, kind); i++) {
        if (c->bytes[kind][i] <= use->busiest_bytes) continue;
        use->busiest_bytes = c->bytes[kind][i];
        use->busiest = i / 2;
        use->enters = i % 2;
    }
}

gp_status gp_plan_link_use(const gp_plan *plan, int mini, gp_link_use use[GP_LINK_KINDS], gp_error *err) {
    counter c = {.plan = plan, .mini = &plan->minis[mini], .use = use};
    gp_status status = GP_OK;
    for (int k = 0; k < GP_LINK_KINDS && status == GP_OK; k++) {
        use[k] = (gp_link_use){0};
        status = GP_NEW(&c.bytes[k], 2 * places_of(plan->links, k), err);
    }
    for (int w = 0; w < c.mini->programs->workers && status == GP_OK; w++)
        for (size_t pc = 0; pc < c.mini->programs->worker[w].count; pc++) {
            count_instr(&c, &c.mini->programs->worker[w].instrs[pc]);
            count_exchanges(&c, &c.mini->programs->worker[w].instrs[pc]);
        }
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        if (status == GP_OK) find_busiest(&c, k);
        free(c.bytes[k]);
    }
    return status;
}
