#include "pipeline/play.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

typedef struct player {
    const gp_stages *stages;
    const gp_programs *programs;
    const gp_waits *waits;
    gp_duration duration;
    const void *context;
    gp_play *play;
    size_t *pc;    /* [worker] the next instruction */
    double *clock; /* [worker] end of the last */
    bool *met;     /* [worker] waits in the barrier */
    int meeting;   /* how many do */
    double meeting_time;
    /* [kind][edge·pieces + micro]: when it happened, NaN before; and who sleeps until it does, +1 */
    double *when[2];
    int *sleeper[2];
    int *queue; /* workers that can go on */
    int queued;
} player;

static size_t place(const player *p, uint32_t edge, uint16_t micro) {
    return (size_t)edge * (size_t)p->programs->pieces + micro;
}

static void happened(player *p, gp_wait_kind kind, uint32_t edge, uint16_t micro, double time) {
    size_t at = place(p, edge, micro);
    p->when[kind][at] = time;
    if (p->sleeper[kind][at]) {
        p->queue[p->queued++] = p->sleeper[kind][at] - 1;
        p->sleeper[kind][at] = 0;
    }
}

/* False: the worker sleeps until what it waits for happens. */
static bool waits_over(player *p, int worker, size_t pc, double *time) {
    const gp_worker_waits *waits = &p->waits->worker[worker];
    for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++) {
        const gp_wait *wait = &waits->items[i];
        size_t at = place(p, wait->edge, wait->micro);
        double when = p->when[wait->kind][at];
        if (isnan(when)) {
            p->sleeper[wait->kind][at] = worker + 1;
            return false;
        }
        if (when > *time) *time = when;
    }
    return true;
}

/* True: all have met, and go on. */
static bool meet(player *p, int worker) {
    p->met[worker] = true;
    if (p->clock[worker] > p->meeting_time) p->meeting_time = p->clock[worker];
    if (++p->meeting < p->programs->workers) return false;
    for (int w = 0; w < p->programs->workers; w++) {
        size_t pc = p->pc[w]++;
        p->play->start[w][pc] = p->clock[w];
        p->play->end[w][pc] = p->clock[w] = p->meeting_time;
        p->met[w] = false;
        if (w != worker) p->queue[p->queued++] = w;
    }
    p->meeting = 0;
    return true;
}

static void run_worker(player *p, int worker) {
    const gp_program *program = &p->programs->worker[worker];
    while (p->pc[worker] < program->count) {
        size_t pc = p->pc[worker];
        const gp_instr *instr = &program->instrs[pc];
        if (instr->op == GP_INSTR_BARRIER) {
            if (!meet(p, worker)) return;
            continue;
        }
        double time = p->clock[worker];
        if (!waits_over(p, worker, pc, &time)) return;
        double end = time + (p->duration ? p->duration(p->context, worker, pc, instr) : 0);
        p->play->start[worker][pc] = time;
        p->play->end[worker][pc] = p->clock[worker] = end;
        p->pc[worker]++;
        if (instr->op == GP_INSTR_SEND) happened(p, GP_WAIT_SENT, instr->edge, instr->micro, end);
        if (instr->op == GP_INSTR_RECV) happened(p, GP_WAIT_PULLED, instr->edge, instr->micro, end);
        if (end > p->play->length) p->play->length = end;
    }
}

static gp_status say_deadlock(const player *p, gp_error *err) {
    for (int w = 0; w < p->programs->workers; w++) {
        const gp_program *program = &p->programs->worker[w];
        size_t pc = p->pc[w];
        if (pc >= program->count) continue;
        if (p->met[w])
            return gp_programs_refuse(p->programs, w, pc, err, "waits in a barrier that %d of %d workers reach",
                                      p->meeting, p->programs->workers);
        const gp_worker_waits *waits = &p->waits->worker[w];
        for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++) {
            const gp_wait *wait = &waits->items[i];
            if (!isnan(p->when[wait->kind][place(p, wait->edge, wait->micro)])) continue;
            return gp_programs_refuse(
                p->programs, w, pc, err,
                "deadlock: waits for micro-batch %u to be %s on edge %u, which cannot happen before", wait->micro,
                wait->kind == GP_WAIT_SENT ? "sent" : "pulled", wait->edge);
        }
    }
    return gp_fail(err, GP_INTERNAL, "the player stopped for no reason");
}

static gp_status prepare(player *p, gp_error *err) {
    int workers = p->programs->workers;
    size_t events;
    if (!gp_size_mul(p->stages->edge_count, (size_t)p->programs->pieces, &events))
        return gp_fail(err, GP_MEMORY, "too many copies");
    gp_play *play = p->play;
    play->workers = workers;
    GP_RETURN_IF_FAILED(GP_NEW(&play->start, workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&play->end, workers, err));
    for (int w = 0; w < workers; w++) {
        GP_RETURN_IF_FAILED(GP_NEW(&play->start[w], p->programs->worker[w].count, err));
        GP_RETURN_IF_FAILED(GP_NEW(&play->end[w], p->programs->worker[w].count, err));
    }
    GP_RETURN_IF_FAILED(GP_NEW(&p->pc, workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->clock, workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->met, workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&p->queue, workers, err));
    for (int k = 0; k < 2; k++) {
        GP_RETURN_IF_FAILED(GP_NEW(&p->when[k], events, err));
        GP_RETURN_IF_FAILED(GP_NEW(&p->sleeper[k], events, err));
        for (size_t i = 0; i < events; i++) p->when[k][i] = NAN;
    }
    for (int w = workers - 1; w >= 0; w--) p->queue[p->queued++] = w;
    return GP_OK;
}

gp_status gp_play_create(const gp_stages *stages, const gp_programs *programs, const gp_waits *waits,
                         gp_duration duration, const void *context, gp_play **out, gp_error *err) {
    player p = {.stages = stages, .programs = programs, .waits = waits, .duration = duration, .context = context};
    gp_status status = GP_NEW(&p.play, 1, err);
    if (status != GP_OK) return status;
    status = prepare(&p, err);
    while (status == GP_OK && p.queued > 0) run_worker(&p, p.queue[--p.queued]);
    for (int w = 0; w < programs->workers && status == GP_OK; w++)
        if (p.pc[w] < programs->worker[w].count) status = say_deadlock(&p, err);
    free(p.pc);
    free(p.clock);
    free(p.met);
    free(p.queue);
    for (int k = 0; k < 2; k++) {
        free(p.when[k]);
        free(p.sleeper[k]);
    }
    if (status != GP_OK)
        gp_play_destroy(&p.play);
    else
        *out = p.play;
    return status;
}

void gp_play_destroy(gp_play **play) {
    gp_play *it = *play;
    if (!it) return;
    for (int w = 0; w < it->workers; w++) {
        if (it->start) free(it->start[w]);
        if (it->end) free(it->end[w]);
    }
    free(it->start);
    free(it->end);
    free(it);
    *play = NULL;
}
