#include "check/happens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { QUEUES = 4, SHOWN = 4 };

/* What is done so far. */
typedef struct runner {
    gp_happens *h;
    const gp_more_wait *more;
    size_t more_count;
    bool clocks;
    uint8_t *ended;   /* [number] */
    size_t *at;       /* [chain] next instruction of the chain: its pc */
    uint32_t *passed; /* [chain] instructions of it that have ended */
    size_t *last;     /* [chain] number + 1 of the last of them; 0: none */
    size_t *issued;   /* [worker] instructions that its thread has given to its queues */
    uint32_t *host;   /* [worker·chains + chain] clock of that thread */
} runner;

static size_t number_of(const gp_happens *h, int worker, size_t pc) {
    return h->first[worker] + pc;
}

static const gp_claim_instr *instr_at(const gp_happens *h, int worker, size_t pc) {
    return &h->program->worker[worker].instrs[pc];
}

static int chain_at(const gp_happens *h, int worker, size_t pc) {
    return h->chain_of[worker] + (h->claim->workers[worker].queues ? instr_at(h, worker, pc)->queue : 0);
}

static void join(uint32_t *clock, const uint32_t *with, size_t chains) {
    for (size_t c = 0; c < chains; c++)
        if (with[c] > clock[c]) clock[c] = with[c];
}

static size_t first_more(const runner *r, int worker, size_t pc) {
    size_t low = 0, high = r->more_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const gp_claim_wait *it = &r->more[mid].after;
        if (it->worker < worker || (it->worker == worker && it->pc < pc))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_for(const runner *r, size_t i, int worker, size_t pc) {
    return i < r->more_count && r->more[i].after.worker == worker && r->more[i].after.pc == pc;
}

/* The first wait of an instruction that has not ended; NULL: none. */
static const gp_claim_wait *find_unmet(const runner *r, int worker, size_t pc) {
    const gp_claim_instr *instr = instr_at(r->h, worker, pc);
    for (size_t i = 0; i < instr->wait_count; i++) {
        const gp_claim_wait *wait = &r->h->program->waits[instr->waits + i];
        if (!r->ended[number_of(r->h, wait->worker, wait->pc)]) return wait;
    }
    for (size_t i = first_more(r, worker, pc); is_for(r, i, worker, pc); i++)
        if (!r->ended[number_of(r->h, r->more[i].before.worker, r->more[i].before.pc)]) return &r->more[i].before;
    return NULL;
}

static const gp_claim_wait *find_unmet_host(const runner *r, int worker, size_t pc) {
    const gp_claim_instr *instr = instr_at(r->h, worker, pc);
    for (size_t i = 0; i < instr->host_count; i++) {
        const gp_claim_wait *wait = &r->h->program->waits[instr->host + i];
        if (!r->ended[number_of(r->h, wait->worker, wait->pc)]) return wait;
    }
    return NULL;
}

static void end(runner *r, int worker, size_t pc) {
    gp_happens *h = r->h;
    const gp_claim_instr *instr = instr_at(h, worker, pc);
    size_t number = number_of(h, worker, pc);
    int chain = chain_at(h, worker, pc);
    r->ended[number] = 1;
    r->passed[chain]++;
    if (!r->clocks) return;
    uint32_t *clock = &h->clock[number * h->chains];
    if (r->last[chain] > 0) join(clock, &h->clock[(r->last[chain] - 1) * h->chains], h->chains);
    r->last[chain] = number + 1;
    for (size_t i = 0; i < instr->wait_count; i++) {
        const gp_claim_wait *wait = &h->program->waits[instr->waits + i];
        join(clock, &h->clock[number_of(h, wait->worker, wait->pc) * h->chains], h->chains);
    }
    for (size_t i = first_more(r, worker, pc); is_for(r, i, worker, pc); i++)
        join(clock, &h->clock[number_of(h, r->more[i].before.worker, r->more[i].before.pc) * h->chains], h->chains);
    clock[chain] = r->passed[chain];
}

/* What keeps the thread of a worker from giving an instruction to its queues; NULL: nothing. The instructions that it
 * waits for must have been given to their queues before: on its own worker they stand earlier in the program. */
static const gp_claim_wait *find_unissued(const runner *r, int worker, size_t pc) {
    const gp_claim_instr *instr = instr_at(r->h, worker, pc);
    for (size_t i = 0; i < instr->wait_count && r->h->claim->workers[worker].queues; i++) {
        const gp_claim_wait *wait = &r->h->program->waits[instr->waits + i];
        if (r->h->claim->workers[wait->worker].queues ? wait->pc >= r->issued[wait->worker]
                                                      : !r->ended[number_of(r->h, wait->worker, wait->pc)])
            return wait;
    }
    return find_unmet_host(r, worker, pc);
}

/* The thread gives instructions to the queues in the program's order. What it has waited for until then, the
 * instruction comes after. */
static bool issue(runner *r, int worker) {
    const gp_claim_worker_program *program = &r->h->program->worker[worker];
    size_t chains = r->h->chains;
    bool moved = false;
    while (r->issued[worker] < program->count && !find_unissued(r, worker, r->issued[worker])) {
        const gp_claim_instr *instr = &program->instrs[r->issued[worker]];
        for (size_t i = 0; r->clocks && i < instr->host_count; i++) {
            const gp_claim_wait *wait = &r->h->program->waits[instr->host + i];
            join(&r->host[(size_t)worker * chains], &r->h->clock[number_of(r->h, wait->worker, wait->pc) * chains],
                 chains);
        }
        if (r->clocks)
            memcpy(&r->h->clock[number_of(r->h, worker, r->issued[worker]) * chains], &r->host[(size_t)worker * chains],
                   chains * sizeof *r->host);
        r->issued[worker]++;
        moved = true;
    }
    return moved;
}

static bool advance_chain(runner *r, int worker, int chain) {
    bool moved = false;
    for (;;) {
        size_t *pc = &r->at[chain];
        while (*pc < r->issued[worker] && chain_at(r->h, worker, *pc) != chain) ++*pc;
        if (*pc >= r->issued[worker] || find_unmet(r, worker, *pc)) return moved;
        end(r, worker, (*pc)++);
        moved = true;
    }
}

static bool advance(runner *r) {
    bool moved = false;
    for (int w = 0; w < (int)r->h->claim->worker_count; w++) {
        moved |= issue(r, w);
        int chains = r->h->claim->workers[w].queues ? QUEUES : 1;
        for (int c = 0; c < chains; c++) moved |= advance_chain(r, w, r->h->chain_of[w] + c);
    }
    return moved;
}

/* An instruction of a worker that has not ended, and what it waits for: the earliest in the program's order. */
static bool find_stuck(const runner *r, int worker, gp_claim_wait *stuck, gp_claim_wait *on) {
    for (size_t pc = 0; pc < r->h->program->worker[worker].count; pc++) {
        if (r->ended[number_of(r->h, worker, pc)]) continue;
        const gp_claim_wait *wait = pc < r->issued[worker] ? find_unmet(r, worker, pc) : find_unissued(r, worker, pc);
        if (!wait) continue;
        *stuck = (gp_claim_wait){worker, pc};
        *on = *wait;
        return true;
    }
    return false;
}

/* Follows what waits for what until an instruction comes again. */
static gp_status refuse_deadlock(const runner *r, gp_error *err) {
    char text[900] = "";
    size_t used = 0;
    gp_claim_wait stuck = {0}, on = {0}, first = {-1, 0};
    int worker = 0;
    while (worker < (int)r->h->claim->worker_count && !find_stuck(r, worker, &stuck, &on)) worker++;
    for (int i = 0; i < SHOWN && find_stuck(r, worker, &stuck, &on) && used < sizeof text; i++) {
        if (i > 0 && stuck.worker == first.worker && stuck.pc == first.pc) break;
        if (i == 0) first = stuck;
        int wrote = snprintf(text + used, sizeof text - used,
                             "%sworker %d, instruction %zu (%s) waits for worker %d, instruction %zu (%s)",
                             i ? "; " : "", worker, stuck.pc, instr_at(r->h, worker, stuck.pc)->name, on.worker, on.pc,
                             instr_at(r->h, on.worker, on.pc)->name);
        used += wrote > 0 ? (size_t)wrote : 0;
        worker = on.worker;
    }
    return gp_fail(err, GP_PROGRAM, "no instruction can go on: %s", text);
}

static gp_status run(runner *r, gp_error *err) {
    const gp_happens *h = r->h;
    while (advance(r)) {}
    for (int w = 0; w < (int)h->claim->worker_count; w++)
        for (size_t pc = 0; pc < h->program->worker[w].count; pc++)
            if (!r->ended[number_of(h, w, pc)]) return refuse_deadlock(r, err);
    return GP_OK;
}

static gp_status prepare(runner *r, gp_error *err) {
    gp_happens *h = r->h;
    size_t workers = h->claim->worker_count, count = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&h->first, workers, err));
    GP_RETURN_IF_FAILED(GP_NEW(&h->chain_of, workers, err));
    for (size_t w = 0; w < workers; w++) {
        h->first[w] = count;
        count += h->program->worker[w].count;
        h->chain_of[w] = (int)h->chains;
        h->chains += h->claim->workers[w].queues ? QUEUES : 1;
    }
    GP_RETURN_IF_FAILED(GP_NEW(&r->ended, count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&r->at, h->chains, err));
    GP_RETURN_IF_FAILED(GP_NEW(&r->passed, h->chains, err));
    GP_RETURN_IF_FAILED(GP_NEW(&r->last, h->chains, err));
    GP_RETURN_IF_FAILED(GP_NEW(&r->issued, workers, err));
    if (!r->clocks) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&r->host, workers * h->chains, err));
    return GP_NEW(&h->clock, gp_size_times(count, h->chains), err);
}

gp_status gp_happens_create(const gp_claim *claim, const gp_claim_program *program, const gp_more_wait *more,
                            size_t more_count, bool clocks, gp_happens **out, gp_error *err) {
    runner r = {.more = more, .more_count = more_count, .clocks = clocks};
    GP_RETURN_IF_FAILED(GP_NEW(&r.h, 1, err));
    r.h->claim = claim;
    r.h->program = program;
    gp_status status = prepare(&r, err);
    if (status == GP_OK) status = run(&r, err);
    free(r.ended);
    free(r.at);
    free(r.passed);
    free(r.last);
    free(r.issued);
    free(r.host);
    if (status != GP_OK)
        gp_happens_destroy(&r.h);
    else
        *out = r.h;
    return status;
}

void gp_happens_destroy(gp_happens **happens) {
    gp_happens *it = *happens;
    if (!it) return;
    free(it->first);
    free(it->chain_of);
    free(it->clock);
    free(it);
    *happens = NULL;
}

bool gp_happens_before(const gp_happens *h, gp_claim_wait a, gp_claim_wait b) {
    size_t number = number_of(h, a.worker, a.pc);
    int chain = chain_at(h, a.worker, a.pc);
    uint32_t own = h->clock[number * h->chains + (size_t)chain],
             seen = h->clock[number_of(h, b.worker, b.pc) * h->chains + (size_t)chain];
    return (a.worker != b.worker || a.pc != b.pc) && seen >= own;
}
