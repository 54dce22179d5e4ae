#include "schedule/issue.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "schedule/heap.h"

/* At equal times host threads act in this order. */
typedef enum act { NO_LAUNCH, COPY, COMPUTATION } act;
typedef enum host_state { GOES_ON, WAITS_FOR_VALUE, IN_BARRIER } host_state;

/* A device, and its host thread. */
typedef struct device {
    size_t pc; /* of the instruction that is issued next */
    host_state state;
    const gp_wait *until; /* WAITS_FOR_VALUE: its event */
    double ready;         /* when all was there for which the next instruction waits */
    double host;          /* from when its host thread can issue the next one */

    /* The end of the computing queue: its last entry, of which some kernels may not be issued yet. */
    double begun, launch;       /* from when it is issued, and how long */
    double start, seconds, end; /* `start` is that of the first kernel, as if no copy had come between its kernels */
    size_t last;                /* pc */
    double made;                /* end of the last computation in it */

    double queue[GP_QUEUES]; /* from when each queue of copies is free */
    double arrived;          /* the last of the copies that were issued into it */
} device;

/* What an edge carries of a micro-batch, or a member's part of a collective. */
typedef struct value {
    double sent;  /* when the host thread had issued the computation that made it; NaN: not yet */
    double ready; /* when that was over */
} value;

typedef struct issuer {
    const gp_issue_request *request;
    const gp_issue_model *model;
    const gp_stages *stages;
    const gp_programs *programs;
    gp_play *play;
    device *devices;
    value *values; /* [number of the event]: of what was sent, and posted */
    bool *copies;  /* [edge] it goes from one device to another */
    gp_channels channels;
    int meeting; /* devices in the barrier */
    double meeting_time;
    double host;   /* one host thread: from when it can issue the next instruction */
    gp_heap turns; /* of one host thread per device: what it does next */
} issuer;

static double later(double a, double b) {
    return a > b ? a : b;
}

static double ask(const issuer *p, gp_duration duration, int worker, const gp_instr *instr) {
    return duration ? duration(p->request->context, worker, p->devices[worker].pc, instr) : 0;
}

static size_t event_of(const issuer *p, const gp_wait *event) {
    return gp_event_number(p->stages, p->programs->pieces, event);
}

static const gp_instr *next_of(const issuer *p, int worker) {
    const gp_program *program = &p->programs->worker[worker];
    size_t pc = p->devices[worker].pc;
    return pc < program->count ? &program->instrs[pc] : NULL;
}

static double *host_of(issuer *p, int worker) {
    return p->model->one_host ? &p->host : &p->devices[worker].host;
}

static bool is_copy(const issuer *p, const gp_instr *instr) {
    return p->copies[instr->edge];
}

static act act_of(const issuer *p, const gp_instr *instr) {
    switch (instr->op) {
    case GP_INSTR_RECV: return is_copy(p, instr) ? COPY : NO_LAUNCH;
    case GP_INSTR_FORWARD:
    case GP_INSTR_RECOMPUTE:
    case GP_INSTR_BACKWARD:
    case GP_INSTR_BACKWARD_INPUT:
    case GP_INSTR_BACKWARD_WEIGHT:
    case GP_INSTR_UPDATE:
    case GP_INSTR_STEP: return p->model->launch > 0 ? COMPUTATION : NO_LAUNCH;
    default: return NO_LAUNCH;
    }
}

static void keep(issuer *p, int worker, double issued, double start, double end) {
    gp_play_worker *its = &p->play->worker[worker];
    if (end > p->play->length) p->play->length = end;
    if (!its->start) return;
    size_t pc = p->devices[worker].pc;
    its->issued[pc] = issued;
    its->start[pc] = start;
    its->end[pc] = end;
}

/* When all kernels are over that were issued to the device by `time`. */
static double issued_over(const device *d, double time) {
    if (time >= d->begun + d->launch) return d->end;
    return later(d->start + (time - d->begun) / d->launch * d->seconds, time);
}

static void compute(issuer *p, int worker, const gp_instr *instr) {
    device *d = &p->devices[worker];
    gp_play_worker *its = &p->play->worker[worker];
    double *host = host_of(p, worker), seconds = ask(p, p->request->duration, worker, instr);
    d->begun = *host;
    d->launch = act_of(p, instr) == COMPUTATION && (seconds > 0 || instr->op != GP_INSTR_STEP) ? p->model->launch : 0;
    d->start = later(later(d->begun, d->end), d->arrived);
    d->seconds = seconds;
    d->end = d->made = later(d->start + seconds, d->begun + d->launch);
    d->last = d->pc;
    *host = d->begun + d->launch;
    keep(p, worker, d->begun, d->start, d->end);
    if (!(seconds > 0)) return;
    its->busy += seconds;
    if (d->start < its->first) its->first = d->start;
    if (d->end > its->last) its->last = d->end;
}

/* A copy that is issued at `time` and ends at `end` goes through the computing queue: kernels that were issued before
 * it have run, kernels that are issued after it run later. */
static void let_through(issuer *p, int worker, double time, double end) {
    device *d = &p->devices[worker];
    gp_play_worker *its = &p->play->worker[worker];
    if (time >= d->begun + d->launch) {
        d->begun = time;
        d->launch = d->seconds = 0;
        d->start = d->end = end;
        return;
    }
    d->start = later(d->start, end - (time - d->begun) / d->launch * d->seconds);
    d->end = d->made = later(d->start + d->seconds, d->begun + d->launch);
    if (d->seconds > 0 && d->end > its->last) its->last = d->end;
    if (d->end > p->play->length) p->play->length = d->end;
    if (its->end) its->end[d->last] = d->end;
}

/* When a copy starts whose queue and way must be free. */
static double copy_beside(issuer *p, int worker, const gp_instr *instr, double start, double seconds, double whole) {
    double *queue = &p->devices[worker].queue[gp_instr_queue(p->stages, instr)];
    start = later(start, *queue);
    if (seconds > 0) start = gp_channels_take(&p->channels, instr->edge, start, seconds);
    *queue = start + whole;
    return start;
}

/* The computation for which a copy waits that is issued at `time`, if it is not the one that made the value. */
static void note_before(issuer *p, int worker, int from, double time, double ready) {
    const device *source = &p->devices[from];
    uint32_t *after = p->play->worker[worker].after;
    if (!after || p->model->copies == GP_ISSUE_BESIDE) return;
    if (time >= source->begun + source->launch && source->made > ready)
        after[p->devices[worker].pc] = (uint32_t)source->last + 1;
}

static void copy(issuer *p, int worker, const gp_instr *instr, double time) {
    device *d = &p->devices[worker];
    gp_play_worker *its = &p->play->worker[worker];
    int from = gp_programs_worker(p->programs, p->stages->edges[instr->edge].from);
    double seconds = ask(p, p->request->duration, worker, instr);
    double whole = seconds + ask(p, p->request->latency, worker, instr);
    double ready = d->ready, start = later(time, ready);
    note_before(p, worker, from, time, ready);
    if (p->model->copies != GP_ISSUE_BESIDE) start = later(start, issued_over(&p->devices[from], time));
    if (p->model->copies == GP_ISSUE_SAME_QUEUE) {
        start = later(start, d->end);
        let_through(p, from, time, start + whole);
        let_through(p, worker, time, start + whole);
        d->queue[gp_instr_queue(p->stages, instr)] = start + whole;
    } else {
        start = copy_beside(p, worker, instr, start, seconds, whole);
    }
    d->arrived = later(d->arrived, start + whole);
    keep(p, worker, time, start, start + whole);
    its->copying += whole;
    its->copies++;
    its->delay += start - ready;
}

/* From when the instruction can be issued, a copy: has been. False: its host thread waits for another one. */
static bool next_time(issuer *p, int worker, const gp_instr *instr, double *time) {
    device *d = &p->devices[worker];
    const gp_worker_waits *waits = &p->request->waits->worker[worker];
    double host = *host_of(p, worker), last = host;
    d->ready = 0;
    for (size_t i = waits->first[d->pc]; i < waits->first[d->pc + 1]; i++) {
        d->until = &waits->items[i];
        const value *its = &p->values[event_of(p, d->until)];
        if (isnan(its->sent)) return false;
        last = later(last, its->sent);
        d->ready = later(d->ready, its->ready);
    }
    *time = last > host ? last + p->model->wake : host;
    if (instr->op == GP_INSTR_RECV && is_copy(p, instr)) *time += p->model->launch_copy;
    return true;
}

/* What the device's host thread does next, if it need not wait. */
static bool next_turn(issuer *p, int worker, gp_heap_item *out) {
    device *d = &p->devices[worker];
    const gp_instr *instr = next_of(p, worker);
    d->state = GOES_ON;
    if (!instr) return false;
    if (!next_time(p, worker, instr, &out->time)) {
        d->state = WAITS_FOR_VALUE;
        return false;
    }
    out->rank = (uint64_t)act_of(p, instr) << 32 | (uint32_t)worker;
    out->who = (uint32_t)worker;
    return true;
}

/* There is room for a turn of each device. */
static void queue_turn(issuer *p, int worker) {
    gp_heap_item its = {0};
    if (next_turn(p, worker, &its)) gp_heap_rise(&p->turns, p->turns.count++, its);
}

/* The host thread of the stage's worker goes on if it waits for the event. */
static void tell(issuer *p, int stage, size_t event) {
    int worker = gp_programs_worker(p->programs, stage);
    if (!p->model->one_host && p->devices[worker].state == WAITS_FOR_VALUE &&
        event_of(p, p->devices[worker].until) == event)
        queue_turn(p, worker);
}

static void send(issuer *p, int worker, const gp_instr *instr) {
    device *d = &p->devices[worker];
    double host = *host_of(p, worker);
    gp_wait sent;
    if (!gp_instr_event(instr, &sent)) return;
    size_t event = event_of(p, &sent);
    p->values[event] = (value){host, d->made};
    keep(p, worker, host, d->made, d->made);
    if (sent.kind == GP_WAIT_SENT) {
        tell(p, p->stages->edges[instr->edge].to, event);
        return;
    }
    const gp_indices *collectors = &p->stages->collectives[instr->collective].collectors;
    for (size_t i = 0; i < collectors->count; i++) tell(p, collectors->items[i], event);
}

/* Parts of a collective, or a value of the same device. */
static void receive(issuer *p, int worker, const gp_instr *instr, double time) {
    device *d = &p->devices[worker];
    gp_queue queue = gp_instr_queue(p->stages, instr);
    double start = later(time, d->ready);
    start = later(start, queue == GP_QUEUE_COMPUTE ? d->end : d->queue[queue]);
    if (queue != GP_QUEUE_COMPUTE) d->queue[queue] = start;
    d->arrived = later(d->arrived, start);
    keep(p, worker, time, start, start);
}

static void load(issuer *p, int worker, const gp_instr *instr, double time) {
    device *d = &p->devices[worker];
    double seconds = ask(p, p->request->duration, worker, instr), start = later(time, d->queue[GP_QUEUE_IN]);
    d->queue[GP_QUEUE_IN] = start + seconds;
    d->arrived = later(d->arrived, start + seconds);
    p->play->worker[worker].copying += seconds;
    keep(p, worker, time, start, start + seconds);
}

/* True: all have met, and go on. Devices do not stop. */
static bool meet(issuer *p, int worker) {
    int workers = p->programs->workers;
    p->devices[worker].state = IN_BARRIER;
    p->meeting_time = later(p->meeting_time, *host_of(p, worker));
    if (++p->meeting < workers) return false;
    p->meeting = 0;
    for (int w = 0; w < workers; w++) {
        double *host = host_of(p, w), over;
        if (*host < p->meeting_time) *host = p->meeting_time + (p->model->one_host ? 0 : p->model->wake);
        over = later(*host, p->devices[w].end);
        keep(p, w, *host, over, over);
        p->devices[w].state = GOES_ON;
        p->devices[w].pc++;
    }
    return true;
}

/* `time`: when it can be issued, a copy: has been. Not a barrier. */
static void issue(issuer *p, int worker, const gp_instr *instr, double time) {
    *host_of(p, worker) = time;
    switch (instr->op) {
    case GP_INSTR_SEND:
    case GP_INSTR_POST: send(p, worker, instr); break;
    case GP_INSTR_COLLECT: receive(p, worker, instr, time); break;
    case GP_INSTR_LOAD: load(p, worker, instr, time); break;
    case GP_INSTR_RECV:
        if (is_copy(p, instr))
            copy(p, worker, instr, time);
        else
            receive(p, worker, instr, time);
        break;
    default: compute(p, worker, instr);
    }
    p->devices[worker].pc++;
}

/* As long as nothing that another host thread does comes first. */
static void go_on(issuer *p, gp_heap_item its) {
    int worker = (int)its.who;
    do {
        const gp_instr *instr = next_of(p, worker);
        if (instr->op == GP_INSTR_BARRIER) {
            bool all = meet(p, worker);
            for (int w = 0; all && w < p->programs->workers; w++) queue_turn(p, w);
            return;
        }
        issue(p, worker, instr, its.time);
        if (!next_turn(p, worker, &its)) return;
    } while (p->turns.count == 0 || gp_heap_before(&its, &p->turns.items[0]));
    gp_heap_rise(&p->turns, p->turns.count++, its);
}

static void one_for_each(issuer *p) {
    for (int w = 0; w < p->programs->workers; w++) queue_turn(p, w);
    while (p->turns.count > 0) go_on(p, gp_heap_pop(&p->turns));
}

/* What the device has up to that clock, until it must wait. True: something was issued. */
static bool sweep_device(issuer *p, int worker, uint32_t clock) {
    bool moved = false;
    const gp_instr *instr;
    double time;
    if (p->devices[worker].state == IN_BARRIER) return false;
    while ((instr = next_of(p, worker)) && instr->clock <= clock) {
        if (instr->op == GP_INSTR_BARRIER) return meet(p, worker) || moved;
        if (!next_time(p, worker, instr, &time)) break;
        issue(p, worker, instr, time);
        moved = true;
    }
    return moved;
}

static void one_for_all(issuer *p) {
    int workers = p->programs->workers;
    uint32_t clocks = 0;
    for (int w = 0; w < workers; w++) {
        const gp_program *program = &p->programs->worker[w];
        for (size_t pc = 0; pc < program->count; pc++)
            if (program->instrs[pc].clock >= clocks) clocks = program->instrs[pc].clock + 1;
    }
    for (uint32_t clock = 0; clock < clocks; clock++)
        for (bool moved = true; moved;) {
            moved = false;
            for (int w = 0; w < workers; w++) moved = sweep_device(p, w, clock) || moved;
        }
}

static gp_status check_over(const issuer *p, gp_error *err) {
    for (int w = 0; w < p->programs->workers; w++) {
        const device *d = &p->devices[w];
        const gp_instr *instr = next_of(p, w);
        if (!instr) continue;
        if (d->state == IN_BARRIER && p->meeting < p->programs->workers)
            return gp_programs_refuse(p->programs, w, d->pc, err,
                                      "deadlock: its host thread waits at a barrier that only %d of %d workers reach",
                                      p->meeting, p->programs->workers);
        char text[GP_EVENT_TEXT];
        if (instr->op == GP_INSTR_RECV || instr->op == GP_INSTR_COLLECT)
            return gp_programs_refuse(p->programs, w, d->pc, err,
                                      "deadlock: its host thread waits until %s, which never happens",
                                      gp_event_text(text, d->until));
        return gp_fail(err, GP_INTERNAL, "worker %d, instruction %zu: the simulation stopped without a cause", w,
                       d->pc);
    }
    return GP_OK;
}

static gp_status prepare(issuer *p, gp_error *err) {
    int workers = p->programs->workers;
    const int *worker = p->programs->worker_of_stage;
    size_t events = gp_event_count(p->stages, p->programs->pieces);
    GP_RETURN_IF_FAILED(gp_play_begin(p->programs, p->request->timeline, true, &p->play, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->devices, workers, err));
    GP_RETURN_IF_FAILED(GP_GROW(&p->turns.items, &p->turns.capacity, workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->values, events, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->copies, p->stages->edge_count, err));
    for (size_t i = 0; i < events; i++) p->values[i].sent = NAN;
    for (size_t e = 0; e < p->stages->edge_count; e++) {
        const gp_edge *edge = &p->stages->edges[e];
        p->copies[e] = worker[edge->from] != worker[edge->to];
    }
    return gp_channels_init(&p->channels, p->stages, p->programs, err);
}

gp_status gp_issue_play(const gp_issue_request *request, gp_play **out, gp_error *err) {
    issuer p = {.request = request, .model = &request->model, .stages = request->stages, .programs = request->programs};
    gp_status status = prepare(&p, err);
    if (status == GP_OK) {
        if (p.model->one_host)
            one_for_all(&p);
        else
            one_for_each(&p);
        status = check_over(&p, err);
    }
    gp_channels_fini(&p.channels);
    free(p.devices);
    free(p.turns.items);
    free(p.values);
    free(p.copies);
    return gp_play_end(&p.play, status, out);
}
