#include "plan/staging.h"

#include "base/memory.h"
#include "plan/lines.h"

gp_route gp_plan_route(const gp_plan *plan, int from, int to) {
    if (plan->process[plan->stage[from].worker] == plan->process[plan->stage[to].worker]) return GP_ROUTE_WITHIN;
    return gp_plan_has_line(plan, from, to) ? GP_ROUTE_LINE : GP_ROUTE_WIRE;
}

static bool is_own(const gp_plan *plan, int from, int to) {
    return gp_plan_stage_is_far(plan, from) != gp_plan_stage_is_far(plan, to);
}

bool gp_plan_has_wire(const gp_plan *plan, int from, int to) {
    return is_own(plan, from, to) && gp_plan_route(plan, from, to) == GP_ROUTE_WIRE;
}

bool gp_plan_is_staged(const gp_plan *plan, int stage) {
    return !plan->devices[plan->stage[stage].worker].kind->on_host;
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* The most bytes of a copy. The last micro-batch has another size. */
static size_t copy_bytes(const gp_plan *plan, uint32_t e) {
    const gp_edge *edge = &plan->stages->edges[e];
    size_t most = 0;
    for (int m = 0; m < plan->mini_count; m++) {
        const gp_mini_plan *mini = &plan->minis[m];
        if (edge->kind == GP_EDGE_GRADIENT && !mini->training) continue;
        for (int end = 0; end < 2; end++) {
            uint16_t micro = (uint16_t)(end == 0 ? 0 : mini->pieces - 1);
            const gp_instr receive = {.op = GP_INSTR_RECV, .stage = (uint16_t)edge->to, .micro = micro, .edge = e};
            size_t bytes = gp_instr_bytes(plan, mini, &receive);
            if (bytes > most) most = bytes;
        }
    }
    return most;
}

/* A receiver has one to copy from while the next message arrives. */
gp_staging_ring gp_staging_of_edge(const gp_plan *plan, const gp_copy_orders *orders, uint32_t edge, bool receives) {
    enum { RECEIVING = 2 };
    const gp_edge *its = &plan->stages->edges[edge];
    size_t count = orders->in_flight[edge];
    if (gp_plan_route(plan, its->from, its->to) != GP_ROUTE_WIRE) return (gp_staging_ring){0};
    if (!gp_plan_is_staged(plan, receives ? its->to : its->from)) return (gp_staging_ring){0};
    if (receives && count > RECEIVING) count = RECEIVING;
    return (gp_staging_ring){gp_align_up(copy_bytes(plan, edge), GP_ALIGNMENT), count};
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

/* The most bytes that go from a contributor to a collector. `packed`: if they are in several ranges only. */
static size_t part_bytes(const gp_plan *plan, uint32_t collective, int from, int to, bool packed) {
    const gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)to, .collective = collective};
    int contributor = gp_indices_find(&plan->stages->collectives[collective].contributors, from);
    size_t most = 0;
    for (int m = 0; m < plan->mini_count && contributor >= 0; m++) {
        gp_moves moves = gp_moves_of(plan, &plan->minis[m], &collect);
        gp_move move;
        size_t bytes = 0, ranges = 0;
        moves.contributor = (size_t)contributor;
        for (; gp_moves_next(&moves, &move) && move.from == from; ranges++) bytes += move.bytes;
        if ((!packed || ranges > 1) && bytes > most) most = bytes;
    }
    return most;
}

bool gp_staging_is_shared(const gp_plan *plan, uint32_t collective, int from) {
    return gp_collective_has_sums(&plan->stages->collectives[collective]) && gp_plan_is_staged(plan, from);
}

size_t gp_staging_of_pair(const gp_plan *plan, uint32_t collective, int from, int to) {
    size_t exchange = collective;
    if (gp_plan_route(plan, from, to) != GP_ROUTE_WIRE) return 0;
    if (gp_staging_is_shared(plan, collective, from)) return 0;
    bool staged = gp_plan_is_staged(plan, gp_plan_stage_is_far(plan, from) ? to : from);
    size_t bytes = part_bytes(plan, collective, from, to, !staged);
    if (staged && plan->stages->collectives[collective].kind == GP_COLLECTIVE_SCATTER)
        exchange = gp_stages_exchange(plan->stages, collective);
    size_t sums = exchange != collective ? part_bytes(plan, (uint32_t)exchange, to, from, false) : 0;
    return sums > bytes ? sums : bytes;
}

/* ---- exchanges within a pass ------------------------------------------------------------------------------------- */

size_t gp_staging_of_peer(const gp_plan *plan, int stage) {
    const gp_stage_plan *its = &plan->stage[stage];
    size_t most = 0;
    if (plan->stages->stage[stage].group == 1 || !gp_plan_is_staged(plan, stage)) return 0;
    for (size_t i = 0; i < its->stats_count; i++)
        if (its->stats[i].bytes > most) most = its->stats[i].bytes;
    return gp_align_up(most, GP_ALIGNMENT);
}

/* ---- the sum ----------------------------------------------------------------------------------------------------- */

static size_t edges_bytes(const gp_plan *plan, const gp_copy_orders *orders) {
    size_t sum = 0;
    for (size_t e = 0; e < plan->stages->edge_count; e++) {
        const gp_edge *edge = &plan->stages->edges[e];
        if (!is_own(plan, edge->from, edge->to)) continue;
        const gp_staging_ring its =
            gp_staging_of_edge(plan, orders, (uint32_t)e, gp_plan_stage_is_far(plan, edge->from));
        sum = gp_size_plus(sum, gp_size_times(its.bytes, its.count));
    }
    return sum;
}

/* Of what the members of this process send to those of other processes, or receive from them. */
static size_t collective_bytes(const gp_plan *plan, uint32_t collective, bool receives) {
    const gp_collective *its = &plan->stages->collectives[collective];
    const gp_indices *own = receives ? &its->collectors : &its->contributors;
    const gp_indices *others = receives ? &its->contributors : &its->collectors;
    size_t sum = 0;
    for (size_t i = 0; i < own->count; i++) {
        int here = own->items[i];
        if (gp_plan_stage_is_far(plan, here)) continue;
        for (size_t k = 0; k < others->count; k++) {
            int there = others->items[k];
            if (!gp_plan_stage_is_far(plan, there)) continue;
            size_t bytes = gp_staging_of_pair(plan, collective, receives ? there : here, receives ? here : there);
            sum = gp_size_plus(sum, bytes);
        }
    }
    return sum;
}

static size_t peers_bytes(const gp_plan *plan, int stage) {
    int first = gp_stages_group(plan->stages, stage);
    size_t count = 0;
    for (int s = first; s < first + plan->stages->stage[stage].group; s++)
        count += gp_plan_route(plan, s, stage) == GP_ROUTE_WIRE;
    return gp_size_times(gp_staging_of_peer(plan, stage), GP_PEER_BUFFERS * count);
}

gp_status gp_staging_bytes(const gp_plan *plan, size_t *out, gp_error *err) {
    gp_copy_orders *orders = NULL;
    *out = 0;
    if (plan->processes == 1) return GP_OK;
    GP_RETURN_IF_FAILED(gp_copy_orders_create(plan, &orders, err));
    size_t sum = edges_bytes(plan, orders);
    gp_copy_orders_destroy(&orders);
    for (size_t c = 0; c < plan->stages->collective_count; c++)
        for (int receives = 0; receives < 2; receives++)
            sum = gp_size_plus(sum, collective_bytes(plan, (uint32_t)c, receives));
    for (int s = 0; s < plan->stages->count; s++)
        if (!gp_plan_stage_is_far(plan, s)) sum = gp_size_plus(sum, peers_bytes(plan, s));
    *out = sum;
    return GP_OK;
}
