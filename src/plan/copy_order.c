#include "plan/copy_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static gp_copy_order *order_of(gp_copy_orders *orders, int mini, const gp_instr *instr) {
    return &orders->order[2 * ((size_t)mini * orders->edges + instr->edge) + (instr->op == GP_INSTR_RECV)];
}

/* ---- the numbers ------------------------------------------------------------------------------------------------- */

/* While the programs are gone through: what an edge has had so far. */
typedef struct tally {
    uint16_t count;
    bool rises, falls;
} tally;

/* Counts the copies of a mini-batch; `fills`: writes the numbers into the tables. */
static void count_copies(gp_copy_orders *orders, const gp_programs *programs, int mini, bool fills, tally *tallies) {
    for (size_t i = 0; i < 2 * orders->edges; i++) tallies[i] = (tally){0, true, true};
    for (int w = 0; w < programs->workers; w++) {
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            const gp_instr *instr = &programs->worker[w].instrs[pc];
            if (instr->op != GP_INSTR_SEND && instr->op != GP_INSTR_RECV) continue;
            tally *its = &tallies[2 * (size_t)instr->edge + (instr->op == GP_INSTR_RECV)];
            gp_copy_order *order = order_of(orders, mini, instr);
            its->rises = its->rises && instr->micro == its->count;
            its->falls = its->falls && instr->micro == programs->pieces - 1 - its->count;
            if (fills && order->number) order->number[instr->micro] = its->count;
            its->count++;
        }
    }
}

static gp_status find_order(gp_copy_orders *orders, const gp_programs *programs, int mini, tally *tallies,
                            gp_error *err) {
    gp_copy_order *first = &orders->order[2 * (size_t)mini * orders->edges];
    count_copies(orders, programs, mini, false, tallies);
    for (size_t i = 0; i < 2 * orders->edges; i++) {
        first[i].falling = tallies[i].falls;
        if (tallies[i].rises || tallies[i].falls) continue;
        GP_RETURN_IF_FAILED(GP_NEW(&first[i].number, programs->pieces, err));
        orders->bytes += (size_t)programs->pieces * sizeof *first[i].number;
    }
    count_copies(orders, programs, mini, true, tallies);
    return GP_OK;
}

/* ---- in flight --------------------------------------------------------------------------------------------------- */

static bool same_order(const gp_copy_orders *orders, int mini, uint32_t edge) {
    const gp_copy_order *sent = &orders->order[2 * ((size_t)mini * orders->edges + edge)], *received = sent + 1;
    size_t bytes = (size_t)orders->pieces[mini] * sizeof *sent->number;
    if (sent->number && received->number) return memcmp(sent->number, received->number, bytes) == 0;
    return !sent->number && !received->number && sent->falling == received->falling;
}

/* `received` [edge]: copies that the worker has seen received. */
static void count_sent(gp_copy_orders *orders, int mini, const gp_instr *instr, const uint16_t *received) {
    uint16_t *most = &orders->in_flight[instr->edge];
    int sent = gp_copy_number(orders, mini, instr->edge, false, instr->micro) + 1;
    /* Received in another order, a late copy does not show that those before it are over. */
    int in_flight = same_order(orders, mini, instr->edge) ? sent - received[instr->edge] : orders->pieces[mini];
    if (in_flight > *most) *most = (uint16_t)in_flight;
}

static void count_in_flight(gp_copy_orders *orders, const gp_mini_plan *plan, int mini, uint16_t *received) {
    for (size_t e = 0; e < orders->edges; e++) received[e] = 0;
    for (int w = 0; w < plan->programs->workers; w++) {
        const gp_program *program = &plan->programs->worker[w];
        const gp_worker_waits *waits = &plan->waits->worker[w];
        for (size_t pc = 0; pc < program->count; pc++) {
            for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++) {
                const gp_wait *wait = &waits->items[i];
                if (wait->kind != GP_WAIT_PULLED) continue;
                uint16_t after = (uint16_t)(gp_copy_number(orders, mini, wait->edge, true, wait->micro) + 1);
                if (after > received[wait->edge]) received[wait->edge] = after;
            }
            if (program->instrs[pc].op == GP_INSTR_SEND) count_sent(orders, mini, &program->instrs[pc], received);
        }
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static gp_status find_all(gp_copy_orders *orders, const gp_plan *plan, gp_error *err) {
    tally *tallies = NULL;
    uint16_t *received = NULL;
    gp_status status = GP_NEW(&tallies, 2 * orders->edges, err);
    if (status == GP_OK) status = GP_NEW(&received, orders->edges, err);
    for (int m = 0; m < plan->mini_count && status == GP_OK; m++) {
        orders->pieces[m] = plan->minis[m].pieces;
        status = find_order(orders, plan->minis[m].programs, m, tallies, err);
        if (status == GP_OK) count_in_flight(orders, &plan->minis[m], m, received);
    }
    free(received);
    free(tallies);
    return status;
}

gp_status gp_copy_orders_create(const gp_plan *plan, gp_copy_orders **out, gp_error *err) {
    gp_copy_orders *orders = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&orders, 1, err));
    size_t count = 2 * (size_t)plan->mini_count * plan->stages->edge_count;
    orders->edges = plan->stages->edge_count;
    orders->minis = plan->mini_count;
    orders->bytes = sizeof *orders + (size_t)plan->mini_count * sizeof *orders->pieces + count * sizeof *orders->order +
                    orders->edges * sizeof *orders->in_flight;
    gp_status status = GP_NEW(&orders->pieces, plan->mini_count, err);
    if (status == GP_OK) status = GP_NEW(&orders->order, count, err);
    if (status == GP_OK) status = GP_NEW(&orders->in_flight, orders->edges, err);
    if (status == GP_OK) status = find_all(orders, plan, err);
    if (status == GP_OK)
        *out = orders;
    else
        gp_copy_orders_destroy(&orders);
    return status;
}

void gp_copy_orders_destroy(gp_copy_orders **orders) {
    gp_copy_orders *it = *orders;
    if (!it) return;
    for (size_t i = 0; it->order && i < 2 * (size_t)it->minis * it->edges; i++) free(it->order[i].number);
    free(it->order);
    free(it->pieces);
    free(it->in_flight);
    free(it);
    *orders = NULL;
}
