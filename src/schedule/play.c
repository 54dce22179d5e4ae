#include "schedule/play.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "schedule/channels.h"
#include "schedule/sharing.h"

typedef enum sleep_kind { AWAKE, ON_EVENT, ON_MARK, IN_BARRIER, ON_CHANNEL, ON_PROCESSOR } sleep_kind;

/* What goes through a program in order: a thread through all of it; a device's queue through what is its. */
typedef struct agent {
    int worker;
    int queue; /* gp_queue; −1: a thread */
    size_t pc;
    size_t barriers; /* that it has passed */
    double clock;    /* the last of its instructions is over; ON_PROCESSOR: its instruction begins */
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
    gp_channels channels;
    gp_sharing sharing;
    bool shares; /* threads need more processors than there are */
} player;

static gp_play_copies copies_of(const player *p, int worker) {
    return p->request.copies ? p->request.copies[worker] : GP_PLAY_PULLED;
}

static double ask(const player *p, gp_duration duration, const agent *a, const gp_instr *instr) {
    return duration ? duration(p->request.context, a->worker, a->pc, instr) : 0;
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
    if (event.kind != GP_WAIT_JOINED) {
        const gp_edge *edge = &p->stages->edges[event.edge];
        wake_those(p, worker[event.kind == GP_WAIT_SENT ? edge->to : edge->from], ON_EVENT, number);
        return;
    }
    const gp_collective *its = &p->stages->collectives[event.edge];
    if (gp_indices_find(&its->collectors, event.micro) >= 0) return;
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

/* ---- waits ------------------------------------------------------------------------------------------------------- */

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

/* A thread waits for what its barrier waits for. False: it sleeps until then. */
static bool meet_some(player *p, agent *a) {
    gp_play_worker *its = &p->play->worker[a->worker];
    double time = a->clock;
    if (!events_over(p, a, &p->request.meets->worker[a->worker], a->barriers, &time)) return false;
    if (its->start) {
        its->start[a->pc] = a->clock;
        its->end[a->pc] = time;
    }
    a->clock = time;
    a->barriers++;
    a->pc++;
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
        gp_play_worker *its = &p->play->worker[other->worker];
        if (its->start) {
            its->start[other->pc] = other->clock;
            its->end[other->pc] = p->meeting_time;
        }
        other->clock = p->meeting_time;
        other->pc++;
        if (other == a)
            other->sleeps = AWAKE;
        else
            wake(p, i);
    }
    p->meeting = 0;
    return true;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

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
    if (event.kind == GP_WAIT_JOINED || copies_of(p, a->worker) != GP_PLAY_POSTED) happened(p, event, end);
}

static int threads_of(const player *p, int worker) {
    return p->request.threads && p->request.threads[worker] > 1 ? p->request.threads[worker] : 1;
}

/* True: the thread sleeps until processors have done the work. */
static bool takes_processors(player *p, agent *a, const gp_instr *instr, double time, double seconds) {
    if (!p->shares || a->queue >= 0 || !(seconds > 0)) return false;
    a->sleeps = ON_PROCESSOR;
    a->clock = time;
    gp_sharing_add(&p->sharing, &(gp_job){.time = time,
                                          .seconds = seconds,
                                          .threads = gp_instr_copies(instr) ? 1 : threads_of(p, a->worker),
                                          .who = (int)(a - p->agents)});
    return true;
}

/* A transfer that needs nobody has arrived. */
static void arrive(player *p, uint32_t edge, uint16_t micro, double time) {
    happened(p, (gp_wait){edge, micro, GP_WAIT_SENT}, time);
    happened(p, (gp_wait){edge, micro, GP_WAIT_PULLED}, time);
}

static bool uses_channel(const player *p, const gp_instr *instr, double seconds) {
    if (!p->request.channels || !(seconds > 0)) return false;
    const gp_edge *edge = &p->stages->edges[instr->edge];
    return p->programs->worker_of_stage[edge->from] != p->programs->worker_of_stage[edge->to];
}

static gp_status send(player *p, agent *a, const gp_instr *instr, double time, gp_error *err) {
    int to = p->programs->worker_of_stage[p->stages->edges[instr->edge].to];
    bool posted = copies_of(p, to) == GP_PLAY_POSTED;
    double seconds = posted ? ask(p, p->request.duration, a, instr) : 0;
    double latency = posted ? ask(p, p->request.latency, a, instr) : 0;
    finish(p, a, instr, time, time, time);
    if (posted && uses_channel(p, instr, seconds))
        return gp_channels_ask(&p->channels,
                               (gp_transfer){.time = time,
                                             .seconds = seconds,
                                             .latency = latency,
                                             .edge = instr->edge,
                                             .micro = instr->micro,
                                             .who = -1},
                               err);
    if (posted)
        arrive(p, instr->edge, instr->micro, time + seconds + latency);
    else
        happened(p, (gp_wait){instr->edge, instr->micro, GP_WAIT_SENT}, time);
    return GP_OK;
}

static gp_status receive(player *p, agent *a, const gp_instr *instr, double time, gp_error *err) {
    if (copies_of(p, a->worker) == GP_PLAY_POSTED) {
        finish(p, a, instr, time, time, time);
        return GP_OK;
    }
    double seconds = ask(p, p->request.duration, a, instr), latency = ask(p, p->request.latency, a, instr);
    if (!uses_channel(p, instr, seconds)) {
        if (takes_processors(p, a, instr, time, seconds)) return GP_OK;
        finish(p, a, instr, time, time + seconds, time + seconds + latency);
        return GP_OK;
    }
    a->sleeps = ON_CHANNEL;
    return gp_channels_ask(
        &p->channels, (gp_transfer){time, seconds, latency, instr->edge, instr->micro, (int)(a - p->agents), 0}, err);
}

static gp_status carry_out(player *p, agent *a, const gp_instr *instr, double time, gp_error *err) {
    if (instr->op == GP_INSTR_SEND) return send(p, a, instr, time, err);
    if (instr->op == GP_INSTR_RECV) return receive(p, a, instr, time, err);
    double seconds = ask(p, p->request.duration, a, instr);
    if (takes_processors(p, a, instr, time, seconds)) return GP_OK;
    finish(p, a, instr, time, time + seconds, time + seconds);
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

/* One transfer that waited for its channel. */
static void grant(player *p) {
    gp_transfer transfer;
    double start;
    if (!gp_channels_next(&p->channels, &transfer, &start)) return;
    double over = start + transfer.seconds, end = over + transfer.latency;
    if (transfer.who < 0) {
        arrive(p, transfer.edge, transfer.micro, end);
        return;
    }
    agent *a = &p->agents[transfer.who];
    finish(p, a, &p->programs->worker[a->worker].instrs[a->pc], start, over, end);
    wake(p, transfer.who);
}

/* The next event of the processors. */
static void share(player *p) {
    gp_job job;
    double over;
    if (!gp_sharing_next(&p->sharing, &job, &over)) return;
    agent *a = &p->agents[job.who];
    const gp_instr *instr = &p->programs->worker[a->worker].instrs[a->pc];
    double latency = instr->op == GP_INSTR_RECV ? ask(p, p->request.latency, a, instr) : 0;
    finish(p, a, instr, a->clock, over, over + latency);
    wake(p, job.who);
}

/* Called when no agent can go on, so that no agent asks for an earlier time than the earliest event. False: no event
 * is left. */
static bool next_event(player *p) {
    double transfer = p->request.channels ? gp_channels_peek(&p->channels) : INFINITY;
    double job = p->shares ? gp_sharing_peek(&p->sharing) : INFINITY;
    if (isinf(transfer) && isinf(job)) return false;
    if (transfer <= job)
        grant(p);
    else
        share(p);
    return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

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
    do {
        while (p->awake_count > 0) GP_RETURN_IF_FAILED(go_on(p, &p->agents[p->awake[--p->awake_count]], err));
    } while (next_event(p));
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
static gp_status share_processors(player *p, gp_error *err) {
    int64_t threads = 0;
    int workers = p->programs->workers;
    for (int w = 0; w < workers; w++)
        if (copies_of(p, w) != GP_PLAY_QUEUED) threads += threads_of(p, w);
    p->shares = p->request.processors > 0 && threads > p->request.processors;
    return p->shares ? gp_sharing_init(&p->sharing, p->request.processors, p->first[workers], err) : GP_OK;
}

static gp_status prepare(player *p, gp_error *err) {
    int workers = p->programs->workers;
    size_t events;
    GP_RETURN_IF_FAILED(gp_event_count(p->stages, p->programs->pieces, &events, err));
    p->play->workers = workers;
    GP_RETURN_IF_FAILED(GP_NEW(&p->play->worker, workers, err));
    for (int w = 0; w < workers; w++) {
        gp_play_worker *its = &p->play->worker[w];
        its->first = INFINITY;
        if (!p->request.timeline) continue;
        GP_RETURN_IF_FAILED(GP_NEW(&its->start, p->programs->worker[w].count, err));
        GP_RETURN_IF_FAILED(GP_NEW(&its->end, p->programs->worker[w].count, err));
    }
    GP_RETURN_IF_FAILED(GP_NEW(&p->when, events, err));
    for (size_t i = 0; i < events; i++) p->when[i] = NAN;
    if (p->request.channels) GP_RETURN_IF_FAILED(gp_channels_init(&p->channels, p->stages, p->programs, err));
    GP_RETURN_IF_FAILED(make_agents(p, err));
    return share_processors(p, err);
}

static bool all_are_posted(const player *p) {
    bool posted = p->programs->workers > 0;
    for (int w = 0; w < p->programs->workers; w++) posted = posted && copies_of(p, w) == GP_PLAY_POSTED;
    return posted;
}

gp_status gp_play_run(const gp_play_request *request, gp_play **out, gp_error *err) {
    player p = {.request = *request, .stages = request->stages, .programs = request->programs};
    gp_status status = GP_NEW(&p.play, 1, err);
    if (status == GP_OK) status = prepare(&p, err);
    if (status == GP_OK) status = play(&p, err);
    for (int w = 0; status == GP_OK && w < p.play->workers; w++)
        if (p.play->worker[w].first > p.play->worker[w].last) p.play->worker[w].first = 0;
    gp_channels_fini(&p.channels);
    gp_sharing_fini(&p.sharing);
    for (int w = 0; p.marks && w < p.programs->workers; w++) free(p.marks[w]);
    free(p.marks);
    free(p.agents);
    free(p.first);
    free(p.awake);
    if (status == GP_OK && request->timeline && all_are_posted(&p))
        p.play->arrived = p.when; /* GP_WAIT_SENT come first */
    else
        free(p.when);
    if (status != GP_OK)
        gp_play_destroy(&p.play);
    else
        *out = p.play;
    return status;
}

gp_status gp_play_create(const gp_stages *stages, const gp_programs *programs, const gp_waits *waits,
                         gp_duration duration, const void *context, gp_play **out, gp_error *err) {
    gp_play_request request = {.stages = stages,
                               .programs = programs,
                               .waits = waits,
                               .duration = duration,
                               .context = context,
                               .timeline = true};
    return gp_play_run(&request, out, err);
}
