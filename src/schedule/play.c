#include "schedule/play.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "schedule/play_internal.h"

static gp_play_copies copies_of(const gp_player *p, int worker) {
    return p->request.copies ? p->request.copies[worker] : GP_PLAY_PULLED;
}

/* Whether the transport copies what a worker receives: as POSTED says, or as a message. */
static bool is_posted(const gp_player *p, const gp_instr *instr, int receiver) {
    return copies_of(p, receiver) == GP_PLAY_POSTED || gp_messages_has_edge(&p->messages, &p->request, instr);
}

static double ask(const gp_player *p, gp_duration duration, int worker, size_t pc, const gp_instr *instr) {
    return duration ? duration(p->request.context, worker, pc, instr) : 0;
}

static void pass_barrier(gp_player *p, gp_agent *a, double end) {
    gp_play_worker *its = &p->play->worker[a->worker];
    if (its->start) {
        its->start[a->pc] = a->clock;
        its->end[a->pc] = end;
    }
    a->clock = end;
    a->barriers++;
    a->pc++;
}

/* A thread waits for what its barrier waits for. False: it sleeps until then. */
static bool meet_some(gp_player *p, gp_agent *a) {
    double time = a->clock;
    if (!gp_player_events_over(p, a, &p->request.meets->worker[a->worker], a->barriers, &time)) return false;
    pass_barrier(p, a, time);
    return true;
}

/* Threads meet; queues are given their work before, and do not stop for it. True: all have met, and go on. */
static bool meet(gp_player *p, gp_agent *a) {
    a->sleeps = GP_IN_BARRIER;
    if (a->clock > p->meeting_time) p->meeting_time = a->clock;
    if (++p->meeting < p->threads) return false;
    for (int i = 0; i < p->first[p->programs->workers]; i++) {
        gp_agent *other = &p->agents[i];
        if (other->sleeps != GP_IN_BARRIER) continue;
        pass_barrier(p, other, p->meeting_time);
        if (other == a)
            other->sleeps = GP_AWAKE;
        else
            gp_player_wake(p, i);
    }
    p->meeting = 0;
    return true;
}

static void add_up(gp_play_worker *its, const gp_instr *instr, double start, double seconds) {
    if (gp_instr_copies(instr)) {
        its->copying += seconds;
    } else if (gp_instr_computes(instr) && seconds > 0) {
        its->busy += seconds;
        if (start < its->first) its->first = start;
        if (start + seconds > its->last) its->last = start + seconds;
    }
}

/* The part of a collective is there. */
static void part_arrives(gp_player *p, const gp_message *message, double time) {
    double *last = &p->messages.arrived[message->collect];
    if (time > *last) *last = time;
    if (--p->messages.due[message->collect] == 0)
        gp_player_wake_those(p, message->to, GP_ON_MESSAGES, message->collect);
}

/* What a member has posted leaves for other processes. */
static gp_status send_parts(gp_player *p, gp_wait event, double time, gp_error *err) {
    size_t count;
    const gp_message *messages = gp_messages_of(&p->messages, gp_player_number(p, &event), &count);
    for (size_t i = 0; i < count; i++) {
        const gp_message *its = &messages[i];
        double seconds = gp_messages_seconds(&p->messages, its->from, its->to, its->bytes);
        if (!gp_messages_queue(&p->messages, its->from, its->to)) {
            part_arrives(p, its, time + seconds + gp_messages_latency(&p->messages, its->from, its->to));
            continue;
        }
        uint32_t index = (uint32_t)(its - p->messages.items);
        GP_RETURN_IF_FAILED(
            gp_heap_push(&p->asks, (gp_heap_item){time, p->asked++, seconds, GP_OF_MESSAGE, index}, err));
    }
    return GP_OK;
}

/* What is posted within the instruction. Where threads share processors, that time is over; queues need none. */
static gp_status post_early(gp_player *p, const gp_agent *a, double start, double end, gp_error *err) {
    const gp_worker_posts *its = p->request.early ? &p->request.early[a->worker] : NULL;
    bool over = p->shares && a->queue < 0;
    for (size_t i = 0; its && !over && i < its->count; i++) {
        gp_wait event;
        double time = start + its->items[i].share * (end - start);
        if (its->items[i].pc != a->pc ||
            !gp_instr_event(&p->programs->worker[a->worker].instrs[its->items[i].post], &event))
            continue;
        gp_player_happened(p, event, time);
        GP_RETURN_IF_FAILED(send_parts(p, event, time, err));
    }
    return GP_OK;
}

/* It ends at `end`; the agent is free again from `free_at`. */
static gp_status finish(gp_player *p, gp_agent *a, const gp_instr *instr, double start, double free_at, double end,
                        gp_error *err) {
    gp_play_worker *its = &p->play->worker[a->worker];
    if (its->start) {
        its->start[a->pc] = start;
        its->end[a->pc] = end;
    }
    add_up(its, instr, start, end - start);
    if (end > p->play->length) p->play->length = end;
    a->clock = a->queue < 0 ? end : free_at;
    if (a->queue >= 0 && p->request.queues->worker[a->worker].mark[a->pc] >= 0) {
        size_t mark = (size_t)p->request.queues->worker[a->worker].mark[a->pc];
        p->marks[a->worker][mark] = end;
        gp_player_wake_those(p, a->worker, GP_ON_MARK, mark);
    }
    if (gp_instr_ends_backward(instr)) GP_RETURN_IF_FAILED(post_early(p, a, start, end, err));
    double posted = gp_player_posted(p, a, instr, start, end);
    a->pc++;
    /* Of a send, and of copies that are POSTED, elsewhere. */
    gp_wait event;
    if (!gp_instr_event(instr, &event) || event.kind == GP_WAIT_SENT) return GP_OK;
    if (event.kind == GP_WAIT_POSTED && !isnan(p->when[gp_player_number(p, &event)])) return GP_OK; /* early */
    if (gp_wait_is_joint(&event) || !is_posted(p, instr, a->worker)) gp_player_happened(p, event, posted);
    return event.kind == GP_WAIT_POSTED ? send_parts(p, event, posted, err) : GP_OK;
}

static int host_of(const gp_player *p, int worker) {
    return p->request.links ? p->request.links->host[worker] : 0;
}

static int threads_of(const gp_player *p, int worker) {
    return p->request.threads && p->request.threads[worker] > 1 ? p->request.threads[worker] : 1;
}

/* The agent, or a posted copy that its program has at `pc`, asks for a channel or for processors. At equal times
 * channels come first, in the order in which they are asked for. */
static gp_status ask_from(gp_player *p, const gp_agent *a, size_t pc, bool channel, double time, double seconds,
                          gp_error *err) {
    uint64_t who = (uint64_t)(a - p->agents), rank = channel ? p->asked++ : UINT64_C(1) << 63 | who;
    return gp_heap_push(&p->asks, (gp_heap_item){time, rank, seconds, (uint32_t)who, (uint32_t)pc}, err);
}

/* A transfer that needs no worker has arrived. */
static void arrive(gp_player *p, const gp_instr *instr, double time) {
    gp_player_happened(p, (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT}, time);
    gp_player_happened(p, (gp_wait){instr->edge, instr->micro, GP_WAIT_PULLED}, time);
}

static bool uses_channel(const gp_player *p, const gp_instr *instr, double seconds) {
    if (!gp_instr_has_edge(instr) || !(seconds > 0)) return false;
    const gp_edge *edge = &p->stages->edges[instr->edge];
    int from = gp_programs_worker(p->programs, edge->from), to = gp_programs_worker(p->programs, edge->to);
    return p->request.channels ? from != to : gp_messages_queue(&p->messages, from, to);
}

static double take_channel(gp_player *p, const gp_instr *instr, double time, double seconds) {
    const gp_edge *edge = &p->stages->edges[instr->edge];
    if (p->request.channels) return gp_channels_take(&p->channels, instr->edge, time, seconds);
    int from = gp_programs_worker(p->programs, edge->from), to = gp_programs_worker(p->programs, edge->to);
    return gp_messages_take(&p->messages, from, to, time, seconds);
}

/* What a posted copy takes; the latency comes after it. */
static double posted_seconds(const gp_player *p, int worker, size_t pc, const gp_instr *instr, double *latency) {
    if (!gp_messages_has_edge(&p->messages, &p->request, instr)) {
        *latency = ask(p, p->request.latency, worker, pc, instr);
        return ask(p, p->request.duration, worker, pc, instr);
    }
    int from, to = gp_programs_worker(p->programs, p->stages->edges[instr->edge].to);
    double bytes = 0;
    (void)p->request.part(p->request.context, instr, 0, &from, &bytes);
    *latency = gp_messages_latency(&p->messages, worker, to);
    return gp_messages_seconds(&p->messages, worker, to, bytes);
}

static gp_status send(gp_player *p, gp_agent *a, const gp_instr *instr, double time, gp_error *err) {
    int to = gp_programs_worker(p->programs, p->stages->edges[instr->edge].to);
    size_t pc = a->pc;
    double latency;
    GP_RETURN_IF_FAILED(finish(p, a, instr, time, time, time, err));
    if (!is_posted(p, instr, to)) {
        gp_player_happened(p, (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT}, time);
        return GP_OK;
    }
    double seconds = posted_seconds(p, a->worker, pc, instr, &latency);
    if (uses_channel(p, instr, seconds)) return ask_from(p, a, pc, true, time, seconds, err);
    arrive(p, instr, time + seconds + latency);
    return GP_OK;
}

static gp_status carry_out(gp_player *p, gp_agent *a, const gp_instr *instr, double time, gp_error *err) {
    if (instr->op == GP_INSTR_SEND) return send(p, a, instr, time, err);
    bool copy = instr->op == GP_INSTR_RECV;
    if (copy && is_posted(p, instr, a->worker)) return finish(p, a, instr, time, time, time, err);
    double seconds = ask(p, p->request.duration, a->worker, a->pc, instr);
    bool channel = uses_channel(p, instr, seconds);
    if (channel || (p->shares && a->queue < 0 && seconds > 0)) {
        a->sleeps = GP_ASKS;
        a->clock = time;
        return ask_from(p, a, a->pc, channel, time, seconds, err);
    }
    double latency = copy ? ask(p, p->request.latency, a->worker, a->pc, instr) : 0;
    return finish(p, a, instr, time, time + seconds, time + seconds + latency, err);
}

/* Until its program ends, or it sleeps. */
static gp_status go_on(gp_player *p, gp_agent *a, gp_error *err) {
    const gp_program *program = &p->programs->worker[a->worker];
    while (a->sleeps == GP_AWAKE && a->pc < program->count) {
        const gp_instr *instr = &program->instrs[a->pc];
        if (instr->op == GP_INSTR_BARRIER && a->queue < 0) {
            if (p->request.meets ? !meet_some(p, a) : !meet(p, a)) return GP_OK;
            continue;
        }
        if (a->queue >= 0 && (int)gp_instr_queue(p->stages, instr) != a->queue) {
            a->pc++;
            continue;
        }
        double time = a->clock;
        if (!gp_player_waits_over(p, a, &time) || !gp_player_join_group(p, a, &time)) return GP_OK;
        GP_RETURN_IF_FAILED(carry_out(p, a, instr, time, err));
    }
    return GP_OK;
}

/* What an agent asked for is over. */
static gp_status go_on_after(gp_player *p, gp_agent *a, double start, double over, gp_error *err) {
    const gp_instr *instr = &p->programs->worker[a->worker].instrs[a->pc];
    double latency = instr->op == GP_INSTR_RECV ? ask(p, p->request.latency, a->worker, a->pc, instr) : 0;
    GP_RETURN_IF_FAILED(finish(p, a, instr, start, over, over + latency, err));
    gp_player_wake(p, (int)(a - p->agents));
    return GP_OK;
}

static gp_status grant(gp_player *p, const gp_heap_item *its, gp_error *err) {
    if (its->who == GP_OF_MESSAGE) {
        const gp_message *message = &p->messages.items[its->what];
        double begin = gp_messages_take(&p->messages, message->from, message->to, its->time, its->seconds);
        double latency = gp_messages_latency(&p->messages, message->from, message->to);
        part_arrives(p, message, begin + its->seconds + latency);
        return GP_OK;
    }
    gp_agent *a = &p->agents[its->who];
    const gp_instr *instr = &p->programs->worker[a->worker].instrs[its->what];
    if (!uses_channel(p, instr, its->seconds)) {
        bool copies = instr->op == GP_INSTR_LOAD || instr->op == GP_INSTR_RECV;
        int threads = copies ? 1 : threads_of(p, a->worker);
        p->jobs++;
        return gp_sharing_begin(&p->sharing[host_of(p, a->worker)], its->time, its->seconds, threads, (int)its->who,
                                err);
    }
    double latency, start = take_channel(p, instr, its->time, its->seconds), over = start + its->seconds;
    if (instr->op != GP_INSTR_SEND) return go_on_after(p, a, start, over, err);
    (void)posted_seconds(p, a->worker, its->what, instr, &latency);
    arrive(p, instr, over + latency);
    return GP_OK;
}

/* The host on which a job ends first, if one is under way. */
static gp_sharing *first_to_end(const gp_player *p) {
    gp_sharing *first = &p->sharing[0];
    for (int h = 1; h < p->hosts && p->jobs > 0; h++)
        if (gp_sharing_first_end(&p->sharing[h]) < gp_sharing_first_end(first)) first = &p->sharing[h];
    return first;
}

/* Called when no agent can go on, so that no agent asks for an earlier time than the earliest event. At equal times
 * jobs end before others begin. */
static gp_status next_event(gp_player *p, gp_error *err) {
    gp_sharing *sharing = first_to_end(p);
    double end = gp_sharing_first_end(sharing);
    const gp_heap_item *first = p->asks.count > 0 ? &p->asks.items[0] : NULL;
    bool job = first && first->rank >> 63;
    if (first && (job ? first->time < end : first->time <= end)) {
        gp_heap_item its = gp_heap_pop(&p->asks);
        return grant(p, &its, err);
    }
    gp_agent *a = &p->agents[gp_sharing_end(sharing)];
    p->jobs--;
    return go_on_after(p, a, a->clock, end, err);
}

static gp_status say_deadlock(const gp_player *p, const gp_agent *a, gp_error *err) {
    if (a->sleeps == GP_IN_BARRIER)
        return gp_programs_refuse(p->programs, a->worker, a->pc, err,
                                  "deadlock: waits at a barrier that only %d of %d workers reach", p->meeting,
                                  p->threads);
    if (a->sleeps == GP_IN_GROUP)
        return gp_programs_refuse(p->programs, a->worker, a->pc, err,
                                  "deadlock: the other replicas with which it synchronises batch norm never come here");
    char text[GP_EVENT_TEXT];
    if (a->sleeps == GP_ON_EVENT)
        return gp_programs_refuse(p->programs, a->worker, a->pc, err, "deadlock: waits until %s, which never happens",
                                  gp_event_text(text, a->event));
    return gp_fail(err, GP_INTERNAL, "worker %d, instruction %zu: the simulation stopped without a cause", a->worker,
                   a->pc);
}

static gp_status play(gp_player *p, gp_error *err) {
    while (p->awake_count > 0 || p->asks.count > 0 || p->jobs > 0)
        GP_RETURN_IF_FAILED(p->awake_count > 0 ? go_on(p, &p->agents[p->awake[--p->awake_count]], err)
                                               : next_event(p, err));
    const gp_agent *last = NULL; /* a mark that does not come is another agent's fault */
    for (int i = p->first[p->programs->workers] - 1; i >= 0; i--) {
        const gp_agent *a = &p->agents[i];
        if (a->pc == p->programs->worker[a->worker].count) continue;
        if (!last || a->sleeps != GP_ON_MARK) last = a;
    }
    return last ? say_deadlock(p, last, err) : GP_OK;
}

static gp_status make_agents(gp_player *p, gp_error *err) {
    int workers = p->programs->workers;
    GP_RETURN_IF_FAILED(GP_NEW(&p->agents, (size_t)workers * GP_QUEUES, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->awake, (size_t)workers * GP_QUEUES, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->first, workers + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->marks, workers, err));
    for (int w = 0; w < workers; w++) {
        bool queued = copies_of(p, w) == GP_PLAY_QUEUED;
        int count = p->first[w];
        for (int q = 0; q < (queued ? GP_QUEUES : 1); q++)
            p->agents[count++] = (gp_agent){.worker = w, .queue = queued ? q : -1};
        p->first[w + 1] = count;
        p->threads += !queued;
        if (!queued) continue;
        int marks = p->request.queues->worker[w].marks;
        GP_RETURN_IF_FAILED(GP_NEW(&p->marks[w], marks, err));
        for (int m = 0; m < marks; m++) p->marks[w][m] = NAN;
    }
    for (int i = p->first[workers] - 1; i >= 0; i--) p->awake[p->awake_count++] = i;
    return GP_OK;
}

/* Enough processors for all threads change nothing. */
static gp_status share_processors(gp_player *p, gp_error *err) {
    p->hosts = p->request.links ? p->request.links->hosts : 1;
    GP_RETURN_IF_FAILED(GP_NEW(&p->sharing, p->hosts, err));
    int64_t *threads = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&threads, p->hosts, err));
    for (int w = 0; w < p->programs->workers; w++)
        if (copies_of(p, w) != GP_PLAY_QUEUED) threads[host_of(p, w)] += threads_of(p, w);
    for (int h = 0; h < p->hosts; h++) {
        p->shares |= p->request.processors > 0 && threads[h] > p->request.processors;
        p->sharing[h].processors = p->request.processors;
    }
    free(threads);
    return GP_OK;
}

static gp_status prepare(gp_player *p, gp_error *err) {
    size_t events = gp_event_count(p->stages, p->programs->pieces);
    GP_RETURN_IF_FAILED(gp_play_begin(p->programs, p->request.timeline, false, &p->play, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->when, events, err));
    for (size_t i = 0; i < events; i++) p->when[i] = NAN;
    GP_RETURN_IF_FAILED(GP_NEW(&p->groups, 2 * p->stages->count, err));
    if (p->request.channels) GP_RETURN_IF_FAILED(gp_channels_init(&p->channels, p->stages, p->programs, err));
    GP_RETURN_IF_FAILED(gp_messages_init(&p->messages, &p->request, err));
    GP_RETURN_IF_FAILED(share_processors(p, err));
    return make_agents(p, err);
}

static bool all_are_posted(const gp_player *p) {
    bool posted = p->programs->workers > 0;
    for (int w = 0; w < p->programs->workers; w++) posted = posted && copies_of(p, w) == GP_PLAY_POSTED;
    return posted;
}

gp_status gp_play_run(const gp_play_request *request, gp_play **out, gp_error *err) {
    gp_player p = {.request = *request, .stages = request->stages, .programs = request->programs};
    gp_status status = prepare(&p, err);
    if (status == GP_OK) status = play(&p, err);
    gp_channels_fini(&p.channels);
    gp_messages_fini(&p.messages);
    free(p.asks.items);
    for (int h = 0; p.sharing && h < p.hosts; h++) free(p.sharing[h].jobs.items);
    free(p.sharing);
    for (int w = 0; p.marks && w < p.programs->workers; w++) free(p.marks[w]);
    free(p.marks);
    free(p.groups);
    free(p.agents);
    free(p.first);
    free(p.awake);
    if (status == GP_OK && request->timeline && all_are_posted(&p))
        p.play->arrived = p.when; /* GP_WAIT_SENT come first */
    else
        free(p.when);
    return gp_play_end(&p.play, status, out);
}
