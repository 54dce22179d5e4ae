#include "pipeline/channel.h"

#include <stdlib.h>

#include "base/memory.h"
#include "pipeline/far.h"
#include "pipeline/far_lines.h"

enum { NUMBER_BITS = 16 };
_Static_assert(GP_MAX_MICRO_BATCHES < 1 << NUMBER_BITS, "copies of a step are counted in the low bits of a signal");

static const gp_device_kind *kind_of(const gp_run *run, int worker) {
    return run->plan->devices[worker].kind;
}

static bool needs_events(const gp_device_kind *kind) {
    return !kind->on_host || kind->stream_turn;
}

static int worker_at(const gp_plan *plan, const gp_edge *edge, bool sending) {
    return plan->stage[sending ? edge->from : edge->to].worker;
}

/* Whose device tells that a copy has been pulled: the sender's own, if a line carries it. */
static int worker_of_pulled(const gp_run *run, uint32_t edge) {
    return worker_at(run->plan, &run->plan->stages->edges[edge], gp_far_lines_has_edge(run, edge));
}

static gp_joining *joining_of(const gp_run *run, uint32_t collective, int stage) {
    return &run->joinings[gp_stages_place(run->plan->stages, collective, stage)];
}

static int worker_of_joining(const gp_run *run, size_t joining) {
    return run->plan->stage[run->joinings[joining].stage].worker;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* Slots from which an edge sends. */
static size_t count_slots(const gp_plan *plan, const gp_edge *edge) {
    const int *slots = plan->stage[edge->from].slots;
    if (edge->kind == GP_EDGE_GRADIENT) return (size_t)slots[GP_FRAME_GRAD];
    return (size_t)slots[GP_FRAME_OUTBOX] + (size_t)slots[GP_FRAME_SAVED];
}

/* The events of the sender's slot: of the one that the instruction sends from, or begins. */
static gp_copy_events *events_of(gp_run *run, uint32_t edge, const gp_instr *instr) {
    const gp_stages *stages = run->plan->stages;
    const gp_accesses accesses = gp_instr_accesses(stages, instr);
    gp_channel *channel = &run->channels[edge];
    int use = instr->op == GP_INSTR_SEND ? GP_SENDS : GP_BEGINS, frame = 0;
    while (frame < GP_FRAMES - 1 && !(accesses.frame[frame].uses & use)) frame++;
    size_t first = frame == GP_FRAME_SAVED ? (size_t)run->plan->stage[instr->stage].slots[GP_FRAME_OUTBOX] : 0;
    return &channel->events[first + gp_instr_get_slot(instr, accesses.frame[frame])];
}

/* ---- open, close ------------------------------------------------------------------------------------------------- */

static gp_status open_channel(const gp_run *run, uint32_t edge, gp_error *err) {
    gp_channel *channel = &run->channels[edge];
    channel->in_flight = run->orders->in_flight[edge];
    channel->slots = count_slots(run->plan, &run->plan->stages->edges[edge]);
    GP_RETURN_IF_FAILED(GP_NEW(&channel->copies, channel->in_flight, err));
    return GP_NEW(&channel->events, channel->slots, err);
}

static gp_status open_meetings(gp_run *run, gp_error *err) {
    size_t count = (size_t)run->plan->stages->count;
    run->meetings = aligned_alloc(_Alignof(gp_meeting), count * sizeof *run->meetings);
    if (!run->meetings) return gp_fail(err, GP_MEMORY, "out of memory: the exchanges of %zu stages", count);
    for (size_t s = 0; s < count; s++) {
        run->meetings[s] = (gp_meeting){.events = {NULL}};
        gp_signal_init(&run->meetings[s].posted);
    }
    return GP_OK;
}

/* The first place that is no more the collective's. */
static size_t places_end(const gp_stages *stages, size_t collective) {
    return collective + 1 < stages->collective_count ? stages->collectives[collective + 1].places : stages->places;
}

static gp_status open_collectives(gp_run *run, gp_error *err) {
    const gp_stages *stages = run->plan->stages;
    size_t count = stages->places;
    run->joinings = aligned_alloc(_Alignof(gp_joining), (count ? count : 1) * sizeof *run->joinings);
    if (!run->joinings) return gp_fail(err, GP_MEMORY, "out of memory: %zu collectives", stages->collective_count);
    run->joining_count = count;
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *its = &stages->collectives[c];
        for (size_t i = its->places; i < places_end(stages, c); i++) {
            run->joinings[i] = (gp_joining){.stage = its->lowest + (int)(i - its->places)};
            gp_signal_init(&run->joinings[i].joined);
        }
    }
    return GP_OK;
}

gp_status gp_channels_open(gp_run *run, gp_error *err) {
    size_t edges = run->plan->stages->edge_count;
    GP_RETURN_IF_FAILED(gp_copy_orders_create(run->plan, &run->orders, err));
    run->channels = aligned_alloc(_Alignof(gp_channel), (edges ? edges : 1) * sizeof *run->channels);
    if (!run->channels) return gp_fail(err, GP_MEMORY, "out of memory: %zu channels", edges);
    for (size_t e = 0; e < edges; e++) {
        run->channels[e] = (gp_channel){.copies = NULL};
        gp_signal_init(&run->channels[e].sent);
        gp_signal_init(&run->channels[e].pulled);
    }
    for (size_t e = 0; e < edges; e++) GP_RETURN_IF_FAILED(open_channel(run, (uint32_t)e, err));
    GP_RETURN_IF_FAILED(open_meetings(run, err));
    return open_collectives(run, err);
}

void gp_channels_close(gp_run *run) {
    for (size_t e = 0; run->channels && e < run->plan->stages->edge_count; e++) {
        free(run->channels[e].copies);
        free(run->channels[e].events);
    }
    free(run->channels);
    free(run->joinings);
    free(run->meetings);
    gp_copy_orders_destroy(&run->orders);
}

/* `events`: bytes of those of a member whose device needs them. */
static size_t joinings_bytes(const gp_plan *plan, size_t events) {
    const gp_stages *stages = plan->stages;
    size_t bytes = stages->places * sizeof(gp_joining);
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *its = &stages->collectives[c];
        for (size_t i = its->places; i < places_end(stages, c); i++)
            if (needs_events(plan->devices[plan->stage[its->lowest + (int)(i - its->places)].worker].kind))
                bytes += events;
    }
    return bytes;
}

gp_status gp_channels_bytes(const gp_plan *plan, size_t *out, gp_error *err) {
    enum { EVENT = 32 }; /* bytes of an event, as malloc gives them */
    gp_copy_orders *orders = NULL;
    GP_RETURN_IF_FAILED(gp_copy_orders_create(plan, &orders, err));
    size_t bytes = orders->bytes + orders->edges * sizeof(gp_channel);
    for (size_t e = 0; e < orders->edges; e++) {
        const gp_edge *edge = &plan->stages->edges[e];
        size_t events = 0;
        for (int end = 0; end < 2; end++) events += needs_events(plan->devices[worker_at(plan, edge, end == 0)].kind);
        bytes += orders->in_flight[e] * sizeof(gp_copy);
        bytes += count_slots(plan, edge) * (sizeof(gp_copy_events) + events * EVENT);
    }
    gp_copy_orders_destroy(&orders);
    for (int s = 0; s < plan->stages->count; s++) {
        size_t events = needs_events(plan->devices[plan->stage[s].worker].kind) ? 2 * EVENT : 0;
        bytes += sizeof(gp_meeting);
        if (plan->stages->stage[s].group > 1) bytes += events;
    }
    *out = bytes + joinings_bytes(plan, (size_t)2 * EVENT);
    return GP_OK;
}

void gp_channels_wake(gp_run *run) {
    for (size_t e = 0; e < run->plan->stages->edge_count; e++) {
        gp_signal_wake(&run->channels[e].sent);
        gp_signal_wake(&run->channels[e].pulled);
    }
    for (size_t i = 0; i < run->joining_count; i++) gp_signal_wake(&run->joinings[i].joined);
    for (int s = 0; run->meetings && s < run->plan->stages->count; s++) gp_signal_wake(&run->meetings[s].posted);
}

/* Whether the stage is the worker's, and exchanges. */
static bool meets(const gp_run *run, const gp_worker *worker, int stage) {
    return run->plan->stage[stage].worker == worker->index && run->plan->stages->stage[stage].group > 1;
}

gp_status gp_channels_create_events(gp_worker *worker, gp_error *err) {
    const gp_run *run = worker->run;
    const gp_device_kind *kind = kind_of(run, worker->index);
    for (size_t e = 0; e < run->plan->stages->edge_count && needs_events(kind); e++) {
        const gp_edge *edge = &run->plan->stages->edges[e];
        gp_channel *channel = &run->channels[e];
        for (size_t s = 0; s < channel->slots; s++) {
            if (worker_at(run->plan, edge, true) == worker->index)
                GP_RETURN_IF_FAILED(kind->event_create(worker->device, false, &channel->events[s].sent, err));
            if (worker_of_pulled(run, (uint32_t)e) == worker->index)
                GP_RETURN_IF_FAILED(kind->event_create(worker->device, false, &channel->events[s].pulled, err));
        }
    }
    for (size_t i = 0; i < run->joining_count && needs_events(kind); i++) {
        if (worker_of_joining(run, i) != worker->index) continue;
        GP_RETURN_IF_FAILED(kind->event_create(worker->device, false, &run->joinings[i].posted, err));
        GP_RETURN_IF_FAILED(kind->event_create(worker->device, false, &run->joinings[i].collected, err));
    }
    for (int s = 0; s < run->plan->stages->count && needs_events(kind); s++)
        for (int e = 0; e < 2 && meets(run, worker, s); e++)
            GP_RETURN_IF_FAILED(kind->event_create(worker->device, false, &run->meetings[s].events[e], err));
    return GP_OK;
}

void gp_channels_destroy_events(gp_worker *worker) {
    const gp_run *run = worker->run;
    for (size_t e = 0; e < run->plan->stages->edge_count; e++) {
        const gp_edge *edge = &run->plan->stages->edges[e];
        for (size_t s = 0; s < run->channels[e].slots; s++) {
            const gp_copy_events *events = &run->channels[e].events[s];
            if (events->sent && worker_at(run->plan, edge, true) == worker->index)
                kind_of(run, worker->index)->event_destroy(events->sent);
            if (events->pulled && worker_of_pulled(run, (uint32_t)e) == worker->index)
                kind_of(run, worker->index)->event_destroy(events->pulled);
        }
    }
    for (size_t i = 0; i < run->joining_count; i++) {
        const gp_joining *its = &run->joinings[i];
        if (worker_of_joining(run, i) != worker->index) continue;
        if (its->posted) kind_of(run, worker->index)->event_destroy(its->posted);
        if (its->collected) kind_of(run, worker->index)->event_destroy(its->collected);
    }
    for (int s = 0; s < run->plan->stages->count; s++)
        for (int e = 0; e < 2 && meets(run, worker, s); e++)
            if (run->meetings[s].events[e]) kind_of(run, worker->index)->event_destroy(run->meetings[s].events[e]);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static uint64_t number_of(const gp_worker *worker, const gp_mini_plan *mini, uint32_t edge, bool received,
                          uint16_t micro) {
    const gp_run *run = worker->run;
    return gp_copy_number(run->orders, (int)(mini - run->plan->minis), edge, received, micro);
}

/* What the signal reaches with the copy of that number. */
static uint64_t value_of(const gp_worker *worker, uint64_t number) {
    return (worker->command << NUMBER_BITS) + number + 1;
}

/* That of the micro-batch, from its send until the sender has waited for its receive. */
static gp_copy *find_copy(const gp_worker *worker, const gp_mini_plan *mini, uint32_t edge, uint16_t micro) {
    const gp_channel *channel = &worker->run->channels[edge];
    return &channel->copies[number_of(worker, mini, edge, false, micro) % channel->in_flight];
}

gp_status gp_channel_send(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    gp_run *run = worker->run;
    gp_copy_events *events = events_of(run, instr->edge, instr);
    if (events->sent)
        GP_RETURN_IF_FAILED(
            kind_of(run, worker->index)->event_record(events->sent, worker->queue[GP_QUEUE_COMPUTE], err));
    if (gp_far_has_edge(run, instr->edge)) return gp_far_send(worker, mini, instr, events->sent, err);
    if (gp_far_lines_has_edge(run, instr->edge))
        return gp_far_lines_send(worker, mini, instr, events->sent, events->pulled, err);
    gp_move move;
    gp_instr_move(run->plan, mini, instr, 0, &move);
    gp_copy *copy = find_copy(worker, mini, instr->edge, instr->micro);
    *copy = (gp_copy){worker->arena + move.offset, events};
    uint64_t number = number_of(worker, mini, instr->edge, false, instr->micro);
    gp_signal_raise(&run->channels[instr->edge].sent, value_of(worker, number));
    return GP_OK;
}

/* Through the host's memory where the two ends are of different kinds. */
static gp_status pull(gp_worker *worker, gp_stream *queue, void *to, const gp_worker *from, const void *address,
                      size_t bytes, gp_error *err) {
    const gp_run *run = worker->run;
    const gp_device_kind *here = kind_of(run, worker->index), *there = kind_of(run, from->index);
    if (here == there) return here->pull(queue, to, from->device, address, bytes, err);
    if (there->on_host) return here->copy_in(queue, to, address, bytes, err);
    if (here->on_host) return there->fetch(from->device, to, address, bytes, &run->cancel, err);
    return gp_fail(err, GP_UNSUPPORTED, "copies from %s to %s are not available", there->name, here->name);
}

gp_status gp_channel_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    gp_run *run = worker->run;
    const gp_plan *plan = run->plan;
    gp_move move;
    if (gp_far_has_edge(run, instr->edge)) return gp_far_copy_in(worker, mini, instr, err); /* it was waited for */
    if (gp_far_lines_has_edge(run, instr->edge)) return gp_far_lines_receive(worker, mini, instr, err);
    gp_instr_move(plan, mini, instr, 0, &move);
    const gp_copy *copy = find_copy(worker, mini, instr->edge, instr->micro);
    gp_event *pulled = copy->events->pulled;
    gp_stream *queue = worker->queue[gp_instr_queue(plan->stages, instr)];
    const gp_worker *from = &run->workers[plan->stage[move.from].worker];
    GP_RETURN_IF_FAILED(pull(worker, queue, worker->arena + move.offset, from, copy->address, move.bytes, err));
    if (pulled) GP_RETURN_IF_FAILED(kind_of(run, worker->index)->event_record(pulled, queue, err));
    uint64_t number = number_of(worker, mini, instr->edge, true, instr->micro);
    gp_signal_raise(&run->channels[instr->edge].pulled, value_of(worker, number));
    return GP_OK;
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

static uint64_t joined_value(const gp_worker *worker, bool collected) {
    return 2 * worker->command + collected;
}

static gp_status join(gp_worker *worker, const gp_instr *instr, bool collected, gp_error *err) {
    gp_joining *joining = joining_of(worker->run, instr->collective, instr->stage);
    gp_event *event = collected ? joining->collected : joining->posted;
    gp_stream *queue = worker->queue[gp_instr_queue(worker->run->plan->stages, instr)];
    if (event) GP_RETURN_IF_FAILED(kind_of(worker->run, worker->index)->event_record(event, queue, err));
    gp_signal_raise(&joining->joined, joined_value(worker, collected));
    return GP_OK;
}

gp_status gp_channel_post(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_event *posted = joining_of(worker->run, instr->collective, instr->stage)->posted;
    GP_RETURN_IF_FAILED(join(worker, instr, false, err));
    GP_RETURN_IF_FAILED(gp_far_lines_post(worker, mini, instr, posted, err));
    return gp_far_post(worker, mini, instr, posted, err);
}

static bool has_posted(const gp_worker *worker, uint32_t collective, int stage) {
    return gp_signal_reached(&joining_of(worker->run, collective, stage)->joined, joined_value(worker, false));
}

bool gp_channel_is_there(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *collect) {
    const gp_run *run = worker->run;
    const gp_indices *contributors = &run->plan->stages->collectives[collect->collective].contributors;
    for (size_t i = 0; i < contributors->count; i++) {
        int from = contributors->items[i];
        if (!gp_run_is_far(run, run->plan->stage[from].worker) && !has_posted(worker, collect->collective, from))
            return false;
    }
    return gp_far_is_there(worker, mini, collect);
}

gp_status gp_channel_collect(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    gp_stream *queue = worker->queue[gp_instr_queue(plan->stages, instr)];
    gp_moves moves = gp_moves_of(plan, mini, instr);
    gp_move move;
    GP_RETURN_IF_FAILED(gp_far_lines_wait_own(worker, mini, instr, err));
    while (gp_moves_next(&moves, &move)) {
        const gp_worker *from = &worker->run->workers[plan->stage[move.from].worker];
        if (gp_run_is_far(worker->run, from->index)) continue; /* it was waited for, or comes over a line */
        GP_RETURN_IF_FAILED(
            pull(worker, queue, worker->arena + move.offset, from, from->arena + move.source, move.bytes, err));
    }
    GP_RETURN_IF_FAILED(gp_far_unpack(worker, mini, instr, err));
    GP_RETURN_IF_FAILED(gp_far_lines_collect(worker, mini, instr, err));
    return join(worker, instr, true, err);
}

/* ---- exchanges within a pass ------------------------------------------------------------------------------------- */

static gp_status post_part(gp_worker *worker, int stage, uint64_t number, gp_error *err) {
    gp_meeting *meeting = &worker->run->meetings[stage];
    gp_event *event = meeting->events[number % 2];
    if (event)
        GP_RETURN_IF_FAILED(
            kind_of(worker->run, worker->index)->event_record(event, worker->queue[GP_QUEUE_COMPUTE], err));
    gp_signal_raise(&meeting->posted, number);
    return GP_OK;
}

static gp_status wait_for_part(gp_worker *worker, int from, uint64_t number, gp_error *err) {
    gp_meeting *meeting = &worker->run->meetings[from];
    const gp_event *event = meeting->events[number % 2];
    GP_RETURN_IF_FAILED(gp_signal_wait(&meeting->posted, number, &worker->run->cancel, err));
    if (!event) return GP_OK;
    return kind_of(worker->run, worker->index)->stream_wait(worker->queue[GP_QUEUE_COMPUTE], event, err);
}

static gp_status offer_on_lines(gp_worker *worker, const gp_stage_plan *stage, const gp_exchange *exchange, int micro,
                                const gp_event *posted, gp_error *err) {
    const gp_run *run = worker->run;
    char *own = worker->arena + gp_exchange_own(run->plan, stage, exchange, micro);
    gp_move move;
    for (int i = 0; gp_exchange_move(run->plan, stage, exchange, micro, i, &move); i++)
        if (gp_far_lines_exchanges(run, stage->stage, move.from))
            GP_RETURN_IF_FAILED(
                gp_far_lines_offer(worker, stage->stage, move.from, (gp_device_range){own, move.bytes}, posted, err));
    return GP_OK;
}

static gp_status exchange_parts(gp_worker *worker, const gp_stage_plan *stage, const gp_exchange *exchange, int micro,
                                size_t number, gp_error *err) {
    gp_run *run = worker->run;
    const gp_meeting *meeting = &run->meetings[stage->stage];
    uint64_t in_all = (meeting->command << GP_MEETING_BITS) + meeting->before + number + 1;
    gp_move move;
    GP_RETURN_IF_FAILED(post_part(worker, stage->stage, in_all, err));
    GP_RETURN_IF_FAILED(gp_far_offer(worker, stage, exchange, micro, meeting->events[in_all % 2], err));
    GP_RETURN_IF_FAILED(offer_on_lines(worker, stage, exchange, micro, meeting->events[in_all % 2], err));
    for (int i = 0; gp_exchange_move(run->plan, stage, exchange, micro, i, &move); i++) {
        const gp_worker *from = &run->workers[run->plan->stage[move.from].worker];
        if (gp_far_lines_exchanges(run, move.from, stage->stage)) {
            const gp_device_range place = {worker->arena + move.offset, move.bytes};
            GP_RETURN_IF_FAILED(gp_far_lines_take(worker, move.from, stage->stage, place, err));
            continue;
        }
        if (gp_run_is_far(run, from->index)) {
            GP_RETURN_IF_FAILED(gp_far_take(worker, stage->stage, &move, err));
            continue;
        }
        GP_RETURN_IF_FAILED(wait_for_part(worker, move.from, in_all, err));
        GP_RETURN_IF_FAILED(pull(worker, worker->queue[GP_QUEUE_COMPUTE], worker->arena + move.offset, from,
                                 from->arena + move.source, move.bytes, err));
    }
    return GP_OK;
}

/* Replicas are on devices of one kind. Each micro-batch has a place for its parts. It is written again in the next
 * step, after an exchange of the same micro-batch among the same replicas. */
gp_status gp_channel_exchange(gp_worker *worker, const gp_stage_plan *stage, const gp_exchange *exchange, int micro,
                              size_t number, gp_error *err) {
    gp_pulse_pause(&worker->pulse);
    GP_RETURN_IF_FAILED(exchange_parts(worker, stage, exchange, micro, number, err));
    gp_pulse_resume(&worker->pulse);
    return GP_OK;
}

static bool is_same_pass(const gp_instr *a, const gp_instr *b) {
    return a->micro == b->micro && (a->op == GP_INSTR_FORWARD) == (b->op == GP_INSTR_FORWARD);
}

/* A new step begins at the beginning of the program. */
static void begin_meetings(const gp_worker *worker, gp_meeting *meeting) {
    if (meeting->command == worker->command) return;
    meeting->command = worker->command;
    meeting->before = meeting->after = 0;
    meeting->pc = 0;
}

void gp_channel_begin_pass(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_plan *plan = worker->run->plan;
    gp_meeting *meeting = &worker->run->meetings[instr->stage];
    int first = gp_stages_group(plan->stages, instr->stage);
    const gp_program *program = &mini->programs->worker[plan->stage[first].worker];
    if (!mini->training || !gp_instr_is_joint(plan->stages, instr)) return;
    begin_meetings(worker, meeting);
    while (meeting->pc < program->count) {
        const gp_instr *there = &program->instrs[meeting->pc++];
        if (there->stage != first || !gp_instr_is_joint(plan->stages, there)) continue;
        meeting->before = meeting->after;
        meeting->after += gp_instr_routine(mini, &plan->stage[first], there)->exchanges;
        if (is_same_pass(there, instr)) return;
    }
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

/* Whether another process makes the event happen. */
static bool leads_away(const gp_run *run, const gp_wait *wait) {
    if (!gp_wait_is_joint(wait)) return gp_far_has_edge(run, wait->edge) || gp_far_lines_has_edge(run, wait->edge);
    return gp_run_is_far(run, run->plan->stage[wait->micro].worker);
}

/* What arrives is waited for last, when all its places are free (gp_channel_arrive). The host waits for no line. */
static gp_status wait_away(gp_worker *worker, const gp_wait *wait, gp_error *err) {
    bool gone = wait->kind == GP_WAIT_PULLED && kind_of(worker->run, worker->index)->on_host;
    return gone ? gp_far_wait_gone(worker, wait->edge, wait->micro, err) : GP_OK;
}

gp_status gp_channel_arrive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    if (instr->op == GP_INSTR_RECV && gp_far_has_edge(worker->run, instr->edge))
        return gp_far_receive(worker, mini, instr, err);
    return instr->op == GP_INSTR_COLLECT ? gp_far_collect(worker, mini, instr, err) : GP_OK;
}

gp_status gp_channel_wait(gp_worker *worker, const gp_mini_plan *mini, const gp_wait *wait, gp_error *err) {
    gp_run *run = worker->run;
    if (leads_away(run, wait)) return wait_away(worker, wait, err);
    if (gp_wait_is_joint(wait))
        return gp_signal_wait(&joining_of(run, wait->edge, wait->micro)->joined,
                              joined_value(worker, wait->kind == GP_WAIT_COLLECTED), &run->cancel, err);
    gp_channel *channel = &run->channels[wait->edge];
    bool pulled = wait->kind == GP_WAIT_PULLED;
    uint64_t number = number_of(worker, mini, wait->edge, pulled, wait->micro);
    return gp_signal_wait(pulled ? &channel->pulled : &channel->sent, value_of(worker, number), &run->cancel, err);
}

static const gp_event *event_of(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                const gp_wait *wait) {
    switch ((gp_wait_kind)wait->kind) {
    case GP_WAIT_SENT: return find_copy(worker, mini, wait->edge, wait->micro)->events->sent;
    case GP_WAIT_PULLED: return events_of(worker->run, wait->edge, instr)->pulled;
    case GP_WAIT_POSTED: return joining_of(worker->run, wait->edge, wait->micro)->posted;
    case GP_WAIT_COLLECTED: return joining_of(worker->run, wait->edge, wait->micro)->collected;
    }
    return NULL;
}

/* What arrives over a line holds up the queue by itself. What the wire carries, the host waits for, and a sender's
 * arena is free at once. */
static gp_status wait_event_away(gp_worker *worker, const gp_instr *instr, const gp_wait *wait, gp_stream *queue,
                                 gp_error *err) {
    const gp_device_kind *kind = kind_of(worker->run, worker->index);
    if (kind->on_host) return GP_OK;
    if (wait->kind != GP_WAIT_PULLED || gp_far_has_edge(worker->run, wait->edge)) return GP_OK;
    return kind->stream_wait(queue, events_of(worker->run, wait->edge, instr)->pulled, err);
}

/* An event of another kind of device is the host's to wait for. */
gp_status gp_channel_wait_event(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_wait *wait,
                                gp_stream *queue, gp_error *err) {
    gp_run *run = worker->run;
    if (leads_away(run, wait)) return wait_event_away(worker, instr, wait, queue, err);
    const gp_event *event = event_of(worker, mini, instr, wait);
    int stage = gp_event_stage(run->plan->stages, wait);
    const gp_device_kind *kind = kind_of(run, run->plan->stage[stage].worker);
    if (!event) return GP_OK;
    if (kind == kind_of(run, worker->index)) return kind->stream_wait(queue, event, err);
    return kind->event_finish(event, &run->cancel, err);
}
