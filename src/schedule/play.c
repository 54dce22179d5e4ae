#include "schedule/play.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "schedule/channels.h"
#include "schedule/sharing.h"

/* ASKS: for a channel or for processors. */
typedef enum sleep_kind { AWAKE, ON_EVENT, ON_MARK, IN_BARRIER, ASKS } sleep_kind;

/* What goes through a program in order: a thread through all of it; a device's queue through what is its. */
typedef struct agent {
    int worker;
    int queue; /* gp_queue; −1: a thread */
    size_t pc;
    size_t barriers; /* that it has passed */
    double clock;    /* the last of its instructions is over; ASKS: its instruction may begin */
    sleep_kind sleeps;
    size_t until;         /* ON_EVENT: its number; ON_MARK: the mark */
    const gp_wait *event; /* ON_EVENT */
} agent;

typedef struct player {
    gp_play_request request;
    const gp_stages *stages;
    const gp_programs *programs;
    gp_play *play;
    agent *agents; /* by worker, then queue */
    int *first;    /* [worker + 1] its agents */
    int threads;   /* agents that meet in barriers */
    int meeting;
    double meeting_time;
    double *when;   /* [number of the event] when it happened; NaN: not yet */
    double **marks; /* [worker][mark], likewise; NULL: no queues */
    int *awake;     /* agents that can go on */
    int awake_count;
    gp_heap asks;   /* copies that ask for their channel, and jobs that ask for processors */
    uint64_t asked; /* for a channel, so far */
    gp_channels channels;
    gp_sharing sharing;
    bool shares; /* threads need more processors than there are */
} player;

static gp_play_copies copies_of(const player *p, int worker) {
    return p->request.copies ? p->request.copies[worker] : GP_PLAY_PULLED;
}

static double ask(const player *p, gp_duration duration, int worker, size_t pc, const gp_instr *instr) {
    return duration ? duration(p->request.context, worker, pc, instr) : 0;
}

static size_t number_of(const player *p, const gp_wait *event) {
    return gp_event_number(p->stages, p->programs->pieces, event);
}

static void wake(player *p, int index) {
    p->agents[index].sleeps = AWAKE;
    p->awake[p->awake_count++] = index;
}

static void wake_those(player *p, int worker, sleep_kind sleeps, size_t until) {
    for (int i = p->first[worker]; i < p->first[worker + 1]; i++)
        if (p->agents[i].sleeps == sleeps && p->agents[i].until == until) wake(p, i);
}

/* Only the receiver waits for what is sent, only the sender for what is pulled, and only collectors for what is posted.
 */
static void happened(player *p, gp_wait event, double time) {
    const int *worker = p->programs->worker_of_stage;
    size_t number = number_of(p, &event);
    p->when[number] = time;
    if (!gp_wait_is_joint(&event)) {
        const gp_edge *edge = &p->stages->edges[event.edge];
        wake_those(p, worker[event.kind == GP_WAIT_SENT ? edge->to : edge->from], ON_EVENT, number);
        return;
    }
    if (event.kind == GP_WAIT_COLLECTED) return;
    const gp_collective *its = &p->stages->collectives[event.edge];
    for (size_t i = 0; i < its->collectors.count; i++)
        wake_those(p, worker[its->collectors.items[i]], ON_EVENT, number);
}

static bool wait_until(agent *a, sleep_kind sleeps, size_t until, double when, double *time) {
    if (isnan(when)) {
        a->sleeps = sleeps;
        a->until = until;
        return false;
    }
    if (when > *time) *time = when;
    return true;
}

/* False: the agent sleeps until what it waits for happens. */
static bool events_over(player *p, agent *a, const gp_worker_waits *waits, size_t at, double *time) {
    for (size_t i = waits->first[at]; i < waits->first[at + 1]; i++) {
        size_t event = number_of(p, &waits->items[i]);
        a->event = &waits->items[i];
        if (!wait_until(a, ON_EVENT, event, p->when[event], time)) return false;
    }
    return true;
}

/* Likewise. */
static bool waits_over(player *p, agent *a, double *time) {
    if (!events_over(p, a, &p->request.waits->worker[a->worker], a->pc, time)) return false;
    if (a->queue < 0) return true;
    const gp_queue_waits *queues = &p->request.queues->worker[a->worker].within;
    for (size_t i = queues->first[a->pc]; i < queues->first[a->pc + 1]; i++) {
        size_t mark = (size_t)queues->wait[i];
        if (!wait_until(a, ON_MARK, mark, p->marks[a->worker][mark], time)) return false;
    }
    return true;
}

static void pass_barrier(player *p, agent *a, double end) {
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
static bool meet_some(player *p, agent *a) {
    double time = a->clock;
    if (!events_over(p, a, &p->request.meets->worker[a->worker], a->barriers, &time)) return false;
    pass_barrier(p, a, time);
    return true;
}

/* Threads meet; queues are given their work before, and do not stop for it. True: all have met, and go on. */
static bool meet(player *p, agent *a) {
    a->sleeps = IN_BARRIER;
    if (a->clock > p->meeting_time) p->meeting_time = a->clock;
    if (++p->meeting < p->threads) return false;
    for (int i = 0; i < p->first[p->programs->workers]; i++) {
        agent *other = &p->agents[i];
        if (other->sleeps != IN_BARRIER) continue;
        pass_barrier(p, other, p->meeting_time);
        if (other == a)
            other->sleeps = AWAKE;
        else
            wake(p, i);
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

/* It ends at `end`; the agent is free again from `free_at`. */
static void finish(player *p, agent *a, const gp_instr *instr, double start, double free_at, double end) {
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
        wake_those(p, a->worker, ON_MARK, mark);
    }
    a->pc++;
    /* Of a send, and of copies that are POSTED, elsewhere. */
    gp_wait event;
    if (!gp_instr_event(instr, &event) || event.kind == GP_WAIT_SENT) return;
    if (gp_wait_is_joint(&event) || copies_of(p, a->worker) != GP_PLAY_POSTED) happened(p, event, end);
}

static int threads_of(const player *p, int worker) {
    return p->request.threads && p->request.threads[worker] > 1 ? p->request.threads[worker] : 1;
}

/* The agent, or a posted copy that its program has at `pc`, asks for a channel or for processors. At equal times
 * channels come first, in the order in which they are asked for. */
static gp_status ask_from(player *p, const agent *a, size_t pc, bool channel, double time, double seconds,
                          gp_error *err) {
    uint64_t who = (uint64_t)(a - p->agents), rank = channel ? p->asked++ : UINT64_C(1) << 63 | who;
    return gp_heap_push(&p->asks, (gp_heap_item){time, rank, seconds, (uint32_t)who, (uint32_t)pc}, err);
}

/* A transfer that needs nobody has arrived. */
static void arrive(player *p, const gp_instr *instr, double time) {
    happened(p, (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT}, time);
    happened(p, (gp_wait){instr->edge, instr->micro, GP_WAIT_PULLED}, time);
}

static bool uses_channel(const player *p, const gp_instr *instr, double seconds) {
    if (!p->request.channels || !gp_instr_has_edge(instr) || !(seconds > 0)) return false;
    const gp_edge *edge = &p->stages->edges[instr->edge];
    return gp_programs_worker(p->programs, edge->from) != gp_programs_worker(p->programs, edge->to);
}

static gp_status send(player *p, agent *a, const gp_instr *instr, double time, gp_error *err) {
    int to = gp_programs_worker(p->programs, p->stages->edges[instr->edge].to);
    size_t pc = a->pc;
    finish(p, a, instr, time, time, time);
    if (copies_of(p, to) != GP_PLAY_POSTED) {
        happened(p, (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT}, time);
        return GP_OK;
    }
    double seconds = ask(p, p->request.duration, a->worker, pc, instr);
    if (uses_channel(p, instr, seconds)) return ask_from(p, a, pc, true, time, seconds, err);
    arrive(p, instr, time + seconds + ask(p, p->request.latency, a->worker, pc, instr));
    return GP_OK;
}

static gp_status carry_out(player *p, agent *a, const gp_instr *instr, double time, gp_error *err) {
    if (instr->op == GP_INSTR_SEND) return send(p, a, instr, time, err);
    bool copy = instr->op == GP_INSTR_RECV;
    if (copy && copies_of(p, a->worker) == GP_PLAY_POSTED) {
        finish(p, a, instr, time, time, time);
        return GP_OK;
    }
    double seconds = ask(p, p->request.duration, a->worker, a->pc, instr);
    bool channel = uses_channel(p, instr, seconds);
    if (channel || (p->shares && a->queue < 0 && seconds > 0)) {
        a->sleeps = ASKS;
        a->clock = time;
        return ask_from(p, a, a->pc, channel, time, seconds, err);
    }
    double latency = copy ? ask(p, p->request.latency, a->worker, a->pc, instr) : 0;
    finish(p, a, instr, time, time + seconds, time + seconds + latency);
    return GP_OK;
}

/* Until its program ends, or it sleeps. */
static gp_status go_on(player *p, agent *a, gp_error *err) {
    const gp_program *program = &p->programs->worker[a->worker];
    while (a->sleeps == AWAKE && a->pc < program->count) {
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
        if (!waits_over(p, a, &time)) return GP_OK;
        GP_RETURN_IF_FAILED(carry_out(p, a, instr, time, err));
    }
    return GP_OK;
}

/* What an agent asked for is over. */
static void go_on_after(player *p, agent *a, double start, double over) {
    const gp_instr *instr = &p->programs->worker[a->worker].instrs[a->pc];
    double latency = instr->op == GP_INSTR_RECV ? ask(p, p->request.latency, a->worker, a->pc, instr) : 0;
    finish(p, a, instr, start, over, over + latency);
    wake(p, (int)(a - p->agents));
}

static gp_status grant(player *p, const gp_heap_item *its, gp_error *err) {
    agent *a = &p->agents[its->who];
    const gp_instr *instr = &p->programs->worker[a->worker].instrs[its->what];
    if (!uses_channel(p, instr, its->seconds)) {
        bool copies = instr->op == GP_INSTR_LOAD || instr->op == GP_INSTR_RECV;
        int threads = copies ? 1 : threads_of(p, a->worker);
        return gp_sharing_begin(&p->sharing, its->time, its->seconds, threads, (int)its->who, err);
    }
    double start = gp_channels_take(&p->channels, instr->edge, its->time, its->seconds), over = start + its->seconds;
    if (instr->op == GP_INSTR_SEND)
        arrive(p, instr, over + ask(p, p->request.latency, a->worker, its->what, instr));
    else
        go_on_after(p, a, start, over);
    return GP_OK;
}

/* Called when no agent can go on, so that no agent asks for an earlier time than the earliest event. At equal times
 * jobs end before others begin. */
static gp_status next_event(player *p, gp_error *err) {
    double end = gp_sharing_first_end(&p->sharing);
    const gp_heap_item *first = p->asks.count > 0 ? &p->asks.items[0] : NULL;
    bool job = first && first->rank >> 63;
    if (first && (job ? first->time < end : first->time <= end)) {
        gp_heap_item its = gp_heap_pop(&p->asks);
        return grant(p, &its, err);
    }
    agent *a = &p->agents[gp_sharing_end(&p->sharing)];
    go_on_after(p, a, a->clock, end);
    return GP_OK;
}

static gp_status say_deadlock(const player *p, const agent *a, gp_error *err) {
    if (a->sleeps == IN_BARRIER)
        return gp_programs_refuse(p->programs, a->worker, a->pc, err,
                                  "deadlock: waits at a barrier that only %d of %d workers reach", p->meeting,
                                  p->threads);
    char text[GP_EVENT_TEXT];
    if (a->sleeps == ON_EVENT)
        return gp_programs_refuse(p->programs, a->worker, a->pc, err, "deadlock: waits until %s, which never happens",
                                  gp_event_text(text, a->event));
    return gp_fail(err, GP_INTERNAL, "worker %d, instruction %zu: the simulation stopped without a cause", a->worker,
                   a->pc);
}

static gp_status play(player *p, gp_error *err) {
    while (p->awake_count > 0 || p->asks.count > 0 || p->sharing.jobs.count > 0)
        GP_RETURN_IF_FAILED(p->awake_count > 0 ? go_on(p, &p->agents[p->awake[--p->awake_count]], err)
                                               : next_event(p, err));
    const agent *last = NULL; /* a mark that does not come is another agent's fault */
    for (int i = p->first[p->programs->workers] - 1; i >= 0; i--) {
        const agent *a = &p->agents[i];
        if (a->pc == p->programs->worker[a->worker].count) continue;
        if (!last || a->sleeps != ON_MARK) last = a;
    }
    return last ? say_deadlock(p, last, err) : GP_OK;
}

static gp_status make_agents(player *p, gp_error *err) {
    int workers = p->programs->workers;
    GP_RETURN_IF_FAILED(GP_NEW(&p->agents, (size_t)workers * GP_QUEUES, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->awake, (size_t)workers * GP_QUEUES, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->first, workers + 1, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->marks, workers, err));
    for (int w = 0; w < workers; w++) {
        bool queued = copies_of(p, w) == GP_PLAY_QUEUED;
        int count = p->first[w];
        for (int q = 0; q < (queued ? GP_QUEUES : 1); q++)
            p->agents[count++] = (agent){.worker = w, .queue = queued ? q : -1};
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
static void share_processors(player *p) {
    int64_t threads = 0;
    int workers = p->programs->workers;
    for (int w = 0; w < workers; w++)
        if (copies_of(p, w) != GP_PLAY_QUEUED) threads += threads_of(p, w);
    p->shares = p->request.processors > 0 && threads > p->request.processors;
    p->sharing.processors = p->request.processors;
}

static gp_status prepare(player *p, gp_error *err) {
    size_t events = gp_event_count(p->stages, p->programs->pieces);
    GP_RETURN_IF_FAILED(gp_play_begin(p->programs, p->request.timeline, false, &p->play, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->when, events, err));
    for (size_t i = 0; i < events; i++) p->when[i] = NAN;
    if (p->request.channels) GP_RETURN_IF_FAILED(gp_channels_init(&p->channels, p->stages, p->programs, err));
    share_processors(p);
    return make_agents(p, err);
}

static bool all_are_posted(const player *p) {
    bool posted = p->programs->workers > 0;
    for (int w = 0; w < p->programs->workers; w++) posted = posted && copies_of(p, w) == GP_PLAY_POSTED;
    return posted;
}

gp_status gp_play_run(const gp_play_request *request, gp_play **out, gp_error *err) {
    player p = {.request = *request, .stages = request->stages, .programs = request->programs};
    gp_status status = prepare(&p, err);
    if (status == GP_OK) status = play(&p, err);
    gp_channels_fini(&p.channels);
    free(p.asks.items);
    free(p.sharing.jobs.items);
    for (int w = 0; p.marks && w < p.programs->workers; w++) free(p.marks[w]);
    free(p.marks);
    free(p.agents);
    free(p.first);
    free(p.awake);
    if (status == GP_OK && request->timeline && all_are_posted(&p))
        p.play->arrived = p.when; /* GP_WAIT_SENT come first */
    else
        free(p.when);
    return gp_play_end(&p.play, status, out);
}
