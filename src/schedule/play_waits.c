/* What agents of a player wait for. */
#include <math.h>

#include "schedule/play_internal.h"

size_t gp_player_number(const gp_player *p, const gp_wait *event) {
    return gp_event_number(p->stages, p->programs->pieces, event);
}

void gp_player_wake(gp_player *p, int index) {
    p->agents[index].sleeps = GP_AWAKE;
    p->awake[p->awake_count++] = index;
}

void gp_player_wake_those(gp_player *p, int worker, gp_sleep_kind sleeps, size_t until) {
    for (int i = p->first[worker]; i < p->first[worker + 1]; i++)
        if (p->agents[i].sleeps == sleeps && p->agents[i].until == until) gp_player_wake(p, i);
}

/* Only the receiver waits for what is sent, only the sender for what is pulled, and only collectors for what is posted.
 */
void gp_player_happened(gp_player *p, gp_wait event, double time) {
    const int *worker = p->programs->worker_of_stage;
    size_t number = gp_player_number(p, &event);
    p->when[number] = time;
    if (!gp_wait_is_joint(&event)) {
        const gp_edge *edge = &p->stages->edges[event.edge];
        gp_player_wake_those(p, worker[event.kind == GP_WAIT_SENT ? edge->to : edge->from], GP_ON_EVENT, number);
        return;
    }
    if (event.kind == GP_WAIT_COLLECTED) return;
    const gp_collective *its = &p->stages->collectives[event.edge];
    for (size_t i = 0; i < its->collectors.count; i++)
        gp_player_wake_those(p, worker[its->collectors.items[i]], GP_ON_EVENT, number);
}

static bool wait_until(gp_agent *a, gp_sleep_kind sleeps, size_t until, double when, double *time) {
    if (isnan(when)) {
        a->sleeps = sleeps;
        a->until = until;
        return false;
    }
    if (when > *time) *time = when;
    return true;
}

bool gp_player_events_over(gp_player *p, gp_agent *a, const gp_worker_waits *waits, size_t at, double *time) {
    for (size_t i = waits->first[at]; i < waits->first[at + 1]; i++) {
        size_t event = gp_player_number(p, &waits->items[i]);
        a->event = &waits->items[i];
        if (!wait_until(a, GP_ON_EVENT, event, p->when[event], time)) return false;
    }
    return true;
}

/* What other processes have posted is there. False: the agent sleeps until then. */
static bool messages_over(gp_player *p, gp_agent *a, double *time) {
    const gp_instr *instr = &p->programs->worker[a->worker].instrs[a->pc];
    if (!p->messages.links || instr->op != GP_INSTR_COLLECT) return true;
    const gp_wait event = {instr->collective, instr->stage, GP_WAIT_COLLECTED};
    size_t collect = gp_player_number(p, &event) - p->messages.first_event;
    if (p->messages.due[collect] > 0) {
        a->sleeps = GP_ON_MESSAGES;
        a->until = collect;
        return false;
    }
    if (p->messages.arrived[collect] > *time) *time = p->messages.arrived[collect];
    return true;
}

bool gp_player_waits_over(gp_player *p, gp_agent *a, double *time) {
    if (!gp_player_events_over(p, a, &p->request.waits->worker[a->worker], a->pc, time)) return false;
    if (!messages_over(p, a, time)) return false;
    if (a->queue < 0) return true;
    const gp_queue_waits *queues = &p->request.queues->worker[a->worker].within;
    for (size_t i = queues->first[a->pc]; i < queues->first[a->pc + 1]; i++) {
        size_t mark = (size_t)queues->wait[i];
        if (!wait_until(a, GP_ON_MARK, mark, p->marks[a->worker][mark], time)) return false;
    }
    return true;
}
