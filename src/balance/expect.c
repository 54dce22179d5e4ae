#include "balance/expect.h"

#include <stdlib.h>

#include "base/memory.h"
#include "profile/cost.h"
#include "schedule/play.h"

/* ---- from a profile ---------------------------------------------------------------------------------------------- */

static bool is_in(const gp_routine *routine, const gp_graph *graph, int layer) {
    for (size_t o = 0; o < routine->count; o++)
        if (routine->ops[o].node >= 0 && graph->nodes[routine->ops[o].node].unit == layer) return true;
    return false;
}

/* The last layers of a stage need not be computed again if no later instruction reads their outputs. */
static void add_up(const gp_plan *plan, int s, const gp_profile *profile, double out[GP_PROFILE_TIMES]) {
    const gp_stage *stage = &plan->stages->stage[s];
    const gp_stage_plan *planned = &plan->stage[s];
    const gp_profile_device *row = gp_profile_find(profile, &planned->spec);
    const gp_routine *again = NULL;
    for (int z = 0; z < planned->sized_count; z++)
        if (planned->sized[z].routine[GP_ROUTINE_RECOMPUTE].count)
            again = &planned->sized[z].routine[GP_ROUTINE_RECOMPUTE];
    int last = plan->graph->nodes[stage->first_node + stage->node_count - 1].unit;
    for (int layer = plan->graph->nodes[stage->first_node].unit; layer <= last; layer++) {
        for (int t = 0; t < GP_PROFILE_TIMES; t++)
            if (t != GP_PROFILE_TIME_RECOMPUTE || (again && is_in(again, plan->graph, layer)))
                out[t] += row->slowdown * row->layers[layer].time[t];
    }
}

gp_status gp_durations_init(const gp_plan *plan, int mini, const gp_profile *profile, gp_durations *out,
                            gp_error *err) {
    gp_durations durations = {plan, &plan->minis[mini], profile, NULL};
    if (!gp_profile_is_counted(profile)) {
        GP_RETURN_IF_FAILED(GP_NEW(&durations.stage, plan->stages->count, err));
        for (int s = 0; s < plan->stages->count; s++) add_up(plan, s, profile, durations.stage[s]);
    }
    *out = durations;
    return GP_OK;
}

void gp_durations_fini(gp_durations *durations) {
    free(durations->stage);
    durations->stage = NULL;
}

/* Of the stage's gradients, in its shard; the stage shares out the updates. */
static double own_share(const gp_durations *d, int stage) {
    const gp_stage_plan *plan = &d->plan->stage[stage];
    gp_share shard = gp_stage_plan_shard(plan, d->plan->stages->stage[stage].replica);
    return plan->grads_bytes ? (double)shard.count / (double)plan->grads_bytes : 0;
}

/* The profile has one time for all that is done once per mini-batch: the loss's total, norms, clipping, statistics and
 * updates. Here the step has all of it. If the backward updates the parameters, the backward has all of it, since the
 * updates take most: one worker has both, so the length of the step is the same. If replicas share out the updates, an
 * update has its shard's share of it. */
static double profiled_seconds(const gp_durations *d, const gp_instr *instr) {
    const double *stage = d->stage[instr->stage];
    const gp_stage_plan *its_plan = &d->plan->stage[instr->stage];
    bool consumes = its_plan->consumes;
    gp_share its = gp_mini_share(d->mini, &d->plan->stages->stage[instr->stage], instr->micro);
    double share = (double)its.count / (double)d->profile->identity.samples;
    switch (instr->op) {
    case GP_INSTR_FORWARD: return share * stage[GP_PROFILE_TIME_FORWARD];
    case GP_INSTR_RECOMPUTE: return share * stage[GP_PROFILE_TIME_RECOMPUTE];
    case GP_INSTR_BACKWARD:
        return share * (stage[GP_PROFILE_TIME_BACKWARD_INPUT] + stage[GP_PROFILE_TIME_BACKWARD_WEIGHT]) +
               (consumes ? stage[GP_PROFILE_TIME_UPDATE] : 0);
    case GP_INSTR_BACKWARD_INPUT: return share * stage[GP_PROFILE_TIME_BACKWARD_INPUT];
    case GP_INSTR_BACKWARD_WEIGHT: return share * stage[GP_PROFILE_TIME_BACKWARD_WEIGHT];
    case GP_INSTR_UPDATE: return own_share(d, instr->stage) * stage[GP_PROFILE_TIME_UPDATE];
    case GP_INSTR_STEP: return consumes || its_plan->shards ? 0 : stage[GP_PROFILE_TIME_UPDATE];
    default: return 0;
    }
}

/* ---- counted ----------------------------------------------------------------------------------------------------- */

/* One run of a routine on a stage; of ops that differ between the first backward and the rest, those of its kind. */
static double routine_seconds(const gp_rates *rates, const gp_routine *routine, bool first) {
    double seconds = 0;
    for (size_t o = 0; o < routine->count; o++) {
        const gp_exec_op *op = &routine->ops[o];
        if (op->when == (first ? GP_WHEN_REST : GP_WHEN_FIRST)) continue;
        seconds += gp_rates_seconds(rates, op->prepared->effort * op->prepared->flops, op->prepared->bytes);
    }
    return seconds;
}

static double counted_seconds(const gp_durations *d, const gp_instr *instr) {
    const gp_stage_plan *stage = &d->plan->stage[instr->stage];
    const gp_rates rates = gp_profile_rates(d->profile, &stage->spec);
    const gp_routine *routines[GP_INSTR_ROUTINES];
    double seconds = 0;
    for (int r = gp_instr_routines(d->plan, d->mini, instr, routines) - 1; r >= 0; r--)
        seconds += routine_seconds(&rates, routines[r], r == 0 && (instr->flags & GP_INSTR_FIRST) != 0);
    return seconds;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* From the host (−1), or from a worker. */
static double move_seconds(const gp_durations *d, int from, int to, size_t bytes) {
    const gp_device_spec *devices = d->plan->devices;
    const gp_link *link = from < 0 ? NULL : gp_links_between(d->plan->links, from, to);
    if (link) return link->latency + (double)bytes / link->bandwidth;
    const char *kind = from < 0 ? "host" : devices[from].kind->name;
    const gp_profile_copy *copy = d->profile ? gp_profile_find_copy(d->profile, kind, devices[to].kind->name) : NULL;
    const gp_rates rates = gp_profile_rates(d->profile, &devices[to]);
    return copy ? copy->latency + (double)bytes * copy->per_byte
                : rates.copy_latency + (double)bytes / rates.copy_bytes;
}

/* What a replica copies from the others within a pass: one after the other, but messages come at the same time. */
static double exchange_seconds(const gp_durations *d, int stage, const gp_exchange *exchange, int micro) {
    const gp_plan *plan = d->plan;
    int to = plan->stage[stage].worker;
    double seconds = 0, latency = 0;
    gp_move move;
    for (int i = 0; gp_exchange_move(plan, &plan->stage[stage], exchange, micro, i, &move); i++) {
        int from = plan->stage[move.from].worker;
        if (!gp_links_are_messages(plan->links, from, to)) {
            seconds += move_seconds(d, from, to, move.bytes);
            continue;
        }
        const gp_link *link = gp_links_between(plan->links, from, to);
        seconds += (double)move.bytes / link->bandwidth;
        if (link->latency > latency) latency = link->latency;
    }
    return seconds + latency;
}

static double exchanging_seconds(const gp_durations *d, const gp_instr *instr) {
    const gp_routine *routines[GP_INSTR_ROUTINES];
    double seconds = 0;
    if (d->plan->stages->stage[instr->stage].group <= 1) return 0;
    for (int r = gp_instr_routines(d->plan, d->mini, instr, routines) - 1; r >= 0; r--)
        for (size_t o = 0; o < routines[r]->count; o++)
            if (routines[r]->ops[o].exchange.count > 1)
                seconds += exchange_seconds(d, instr->stage, &routines[r]->ops[o].exchange, instr->micro);
    return seconds;
}

double gp_durations_computing(const gp_durations *durations, const gp_instr *instr) {
    double seconds = durations->stage ? profiled_seconds(durations, instr) : counted_seconds(durations, instr);
    return seconds + exchanging_seconds(durations, instr);
}

double gp_durations_copying(const gp_durations *durations, const gp_instr *instr) {
    const gp_plan *plan = durations->plan;
    int to = plan->stage[instr->stage].worker;
    gp_moves moves = gp_moves_of(plan, durations->mini, instr);
    double seconds = 0;
    gp_move move;
    while (gp_instr_copies(instr) && gp_moves_next(&moves, &move)) {
        if (move.bytes == 0) continue;
        int from = move.from < 0 ? -1 : plan->stage[move.from].worker;
        if (from < 0 || !gp_links_are_messages(plan->links, from, to))
            seconds += move_seconds(durations, from, to, move.bytes);
    }
    return seconds;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

/* Parts of an instruction are asked for one after another. */
typedef struct part_cursor {
    gp_moves moves; /* instr NULL: of none yet */
    int next;
} part_cursor;

typedef struct player {
    const gp_durations *durations;
    const gp_replay *replay;  /* NULL: as predicted */
    const gp_play *predicted; /* says how long copies take; NULL: as long as their durations */
    part_cursor *parts;
} player;

static double instr_seconds(const void *context, int worker, size_t pc, const gp_instr *instr) {
    const player *p = context;
    bool copies = gp_instr_copies(instr);
    if (!copies && !gp_instr_computes(instr)) return 0;
    if (p->replay && (!copies || p->replay->copies)) return p->replay->seconds[worker][pc];
    if (p->predicted) return p->predicted->worker[worker].end[pc] - p->predicted->worker[worker].start[pc];
    return copies ? gp_durations_copying(p->durations, instr) : gp_durations_computing(p->durations, instr);
}

static bool part(const void *context, const gp_instr *instr, int i, int *from, double *bytes) {
    const player *p = context;
    part_cursor *at = p->parts;
    gp_move move;
    if (at->moves.instr != instr || at->next != i) {
        at->moves = gp_moves_of(p->durations->plan, p->durations->mini, instr);
        for (at->next = 0; at->next < i; at->next++)
            if (!gp_moves_next(&at->moves, &move)) return false;
    }
    at->next++;
    if (!gp_moves_next(&at->moves, &move)) return false;
    *from = move.from;
    *bytes = (double)move.bytes;
    return true;
}

/* How each worker copies, and the threads of its computations. */
static void describe_workers(const gp_plan *plan, gp_play_copies *copies, int *threads) {
    for (int w = 0; w < plan->workers; w++) {
        copies[w] = plan->devices[w].kind->on_host ? GP_PLAY_PULLED : GP_PLAY_QUEUED;
        threads[w] = plan->devices[w].threads;
    }
}

/* Measured times have in them that threads shared processors. */
static gp_status play(const player *with, gp_play **out, gp_error *err) {
    const gp_plan *plan = with->durations->plan;
    const gp_mini_plan *mini = with->durations->mini;
    gp_play_copies *copies = NULL;
    int *threads = NULL;
    gp_status status = GP_NEW(&copies, plan->workers, err);
    if (status == GP_OK) status = GP_NEW(&threads, plan->workers, err);
    if (status == GP_OK) {
        describe_workers(plan, copies, threads);
        status = gp_play_run(&(gp_play_request){.stages = plan->stages,
                                                .programs = mini->programs,
                                                .waits = mini->waits,
                                                .meets = mini->meets,
                                                .queues = mini->queues,
                                                .copies = copies,
                                                .early = mini->early,
                                                .duration = instr_seconds,
                                                .context = with,
                                                .processors = with->replay ? 0 : plan->processors,
                                                .threads = threads,
                                                .links = with->replay && with->replay->copies ? NULL : plan->links,
                                                .part = part,
                                                .timeline = true},
                             out, err);
    }
    free(threads);
    free(copies);
    return status;
}

gp_status gp_expect_replay(const gp_plan *plan, int mini, const gp_profile *profile, const gp_replay *replay,
                           gp_play **out, gp_error *err) {
    gp_durations durations;
    gp_play *predicted = NULL;
    part_cursor parts = {.next = 0};
    GP_RETURN_IF_FAILED(gp_durations_init(plan, mini, profile, &durations, err));
    gp_status status = GP_OK;
    if (replay && !replay->copies && gp_plan_shares(plan))
        status = play(&(player){&durations, NULL, NULL, &parts}, &predicted, err);
    if (status == GP_OK) status = play(&(player){&durations, replay, predicted, &parts}, out, err);
    gp_play_destroy(&predicted);
    gp_durations_fini(&durations);
    return status;
}

gp_status gp_expect_play(const gp_plan *plan, int mini, const gp_profile *profile, gp_play **out, gp_error *err) {
    return gp_expect_replay(plan, mini, profile, NULL, out, err);
}

gp_status gp_expect(const gp_plan *plan, int mini, const gp_profile *profile, gp_expectation *out, gp_error *err) {
    gp_play *played = NULL;
    double *busy = NULL;
    GP_RETURN_IF_FAILED(gp_expect_play(plan, mini, profile, &played, err));
    gp_status status = GP_NEW(&busy, plan->workers, err);
    for (int w = 0; w < plan->workers && status == GP_OK; w++) busy[w] = played->worker[w].busy;
    if (status == GP_OK) *out = (gp_expectation){played->length, gp_play_bubble(played), busy};
    gp_play_destroy(&played);
    return status;
}
