#include "plan/memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "plan/staging.h"
#include "schedule/slots.h"

static const gp_memory_kind frame_kind[GP_FRAMES] = {GP_MEMORY_STASH, GP_MEMORY_SAVED, GP_MEMORY_COPIES,
                                                     GP_MEMORY_COPIES};

static gp_status lay_out_stage(gp_stage_plan *stage, const gp_slot_counts *counts, gp_error *err) {
    static const gp_frame order[GP_FRAMES] = {GP_FRAME_STASH, GP_FRAME_OUTBOX, GP_FRAME_GRAD, GP_FRAME_SAVED};
    stage->bytes = stage->fixed;
    for (int i = 0; i < GP_FRAMES; i++) {
        gp_frame f = order[i];
        size_t bytes;
        stage->slots[f] = counts->frame[f];
        stage->frame_base[f] = stage->bytes;
        if (!gp_size_mul(stage->frame_stride[f], (size_t)counts->frame[f], &bytes) ||
            !gp_size_add(stage->bytes, bytes, &stage->bytes))
            return gp_fail(err, GP_MEMORY, "stage %d: needs more memory than this machine can address", stage->stage);
        stage->memory[frame_kind[f]] += bytes;
    }
    return GP_OK;
}

size_t gp_memory_transients(size_t training, size_t evaluation, size_t saved) {
    size_t beyond = evaluation > saved ? evaluation - saved : 0;
    return beyond > training ? beyond : training;
}

/* The transient area of a worker, behind its stages. The first of them accounts for it. */
static void lay_out_transients(gp_plan *plan, int worker) {
    size_t transient = 0, workspace = 0, evaluation = 0;
    gp_stage_plan *first = NULL, *last = NULL;
    for (int s = 0; s < plan->stages->count; s++) {
        gp_stage_plan *stage = &plan->stage[s];
        if (stage->worker != worker) continue;
        if (!first) first = stage;
        last = stage;
        if (stage->evaluation > evaluation) evaluation = stage->evaluation;
        if (stage->transient + stage->workspace <= transient + workspace) continue;
        transient = stage->transient;
        workspace = stage->workspace;
    }
    if (!first) return;
    size_t base = plan->arena[worker], saved = last->base + last->frame_base[GP_FRAME_SAVED];
    size_t bytes = gp_memory_transients(transient + workspace, evaluation, base - saved);
    plan->transient_base[worker] = base;
    plan->evaluation_base[worker] = saved;
    first->memory[GP_MEMORY_TRANSIENT] += bytes - workspace;
    first->memory[GP_MEMORY_WORKSPACE] += workspace;
    plan->arena[worker] = base + bytes;
}

gp_status gp_memory_lay_out(gp_plan *plan, gp_error *err) {
    gp_slot_counts *counts = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&counts, plan->stages->count, err));
    for (int m = 0; m < plan->mini_count; m++) gp_slots_count(plan->stages, plan->minis[m].programs, counts);
    gp_status status = GP_OK;
    for (int s = 0; s < plan->stages->count && status == GP_OK; s++) {
        gp_stage_plan *stage = &plan->stage[s];
        status = lay_out_stage(stage, &counts[s], err);
        stage->base = plan->arena[stage->worker];
        if (status == GP_OK && !gp_size_add(stage->base, stage->bytes, &plan->arena[stage->worker]))
            status =
                gp_fail(err, GP_MEMORY, "worker %d: needs more memory than this machine can address", stage->worker);
    }
    free(counts);
    GP_RETURN_IF_FAILED(status);
    for (int w = 0; w < plan->workers; w++) lay_out_transients(plan, w);
    return GP_OK;
}

/* Bytes of the slots that are alive while a program goes on: [frame][micro-batch] of each stage of a worker. */
typedef struct alive {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    bool *slots;    /* [(stage·frames + frame)·pieces + micro] */
    gp_life *lives; /* [stage·pieces + micro] */
    size_t bytes;
} alive;

static void set_alive(alive *a, int stage, gp_frame frame, int micro, bool on) {
    bool *is = &a->slots[((size_t)stage * GP_FRAMES + frame) * (size_t)a->mini->pieces + (size_t)micro];
    if (*is == on) return;
    *is = on;
    size_t bytes = a->plan->stage[stage].frame_stride[frame];
    a->bytes = on ? a->bytes + bytes : a->bytes - bytes;
}

static void before_instr(alive *a, const gp_instr *instr) {
    const gp_accesses its = gp_instr_accesses(a->plan->stages, instr);
    for (int f = 0; f < GP_FRAMES; f++)
        if (its.frame[f].uses & GP_BEGINS) set_alive(a, instr->stage, (gp_frame)f, instr->micro, true);
}

static void after_instr(alive *a, const gp_instr *instr) {
    gp_life *life = &a->lives[(size_t)instr->stage * (size_t)a->mini->pieces + instr->micro];
    unsigned ends = gp_life_end(a->plan->stages, a->mini->programs, instr, life);
    for (int f = 0; f < GP_FRAMES && ends; f++, ends >>= 1)
        if (ends & 1) set_alive(a, instr->stage, (gp_frame)f, instr->micro, false);
}

static size_t running_bytes(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_routine *routines[GP_INSTR_ROUTINES];
    size_t most = 0;
    for (int r = gp_instr_routines(plan, mini, instr, routines) - 1; r >= 0; r--) {
        size_t bytes = routines[r]->transient + routines[r]->workspace;
        if (bytes > most) most = bytes;
    }
    return most;
}

gp_status gp_memory_follow(const gp_plan *plan, int mini, int worker, size_t *bytes, gp_error *err) {
    alive a = {.plan = plan, .mini = &plan->minis[mini]};
    for (int s = 0; s < plan->stages->count; s++)
        if (plan->stage[s].worker == worker) a.bytes += plan->stage[s].fixed;
    size_t of_frame = (size_t)plan->stages->count * (size_t)a.mini->pieces;
    gp_status status = GP_NEW(&a.slots, of_frame * GP_FRAMES, err);
    if (status == GP_OK) status = GP_NEW(&a.lives, of_frame, err);
    const gp_program *program = &a.mini->programs->worker[worker];
    for (size_t pc = 0; pc < program->count && status == GP_OK; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        before_instr(&a, instr);
        bytes[pc] = a.bytes + running_bytes(plan, a.mini, instr);
        after_instr(&a, instr);
    }
    free(a.slots);
    free(a.lives);
    return status;
}

gp_status gp_memory_find_peak(const gp_plan *plan, int worker, gp_memory_peak *out, gp_error *err) {
    gp_memory_peak peak = {0};
    for (int m = 0; m < plan->mini_count; m++) {
        size_t count = plan->minis[m].programs->worker[worker].count, *bytes = NULL;
        GP_RETURN_IF_FAILED(GP_NEW(&bytes, count, err));
        gp_status status = gp_memory_follow(plan, m, worker, bytes, err);
        for (size_t pc = 0; pc < count && status == GP_OK; pc++)
            if (bytes[pc] > peak.bytes) peak = (gp_memory_peak){bytes[pc], m, pc};
        free(bytes);
        GP_RETURN_IF_FAILED(status);
    }
    *out = peak;
    return GP_OK;
}

/* What an instruction copies between the host and the worker's device, through pinned memory. */
static size_t pinned_bytes(const gp_plan *plan, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_device_kind *kind = plan->devices[plan->stage[instr->stage].worker].kind;
    gp_moves moves = gp_moves_of(plan, mini, instr);
    gp_move move;
    size_t sum = 0;
    while (gp_instr_copies(instr) && gp_moves_next(&moves, &move))
        if (move.from < 0 || plan->devices[plan->stage[move.from].worker].kind != kind ||
            gp_plan_route(plan, move.from, instr->stage) == GP_ROUTE_WIRE)
            sum += gp_align_up(move.bytes, GP_ALIGNMENT);
    return sum;
}

/* Pinned memory of a mini-batch in each queue; twice as much if another one may be under way. */
static void most_pinned(const gp_plan *plan, int worker, const gp_mini_plan *mini, size_t most[GP_QUEUES]) {
    const gp_program *program = &mini->programs->worker[worker];
    size_t sum[GP_QUEUES] = {0};
    for (size_t pc = 0; pc < program->count; pc++)
        sum[gp_instr_queue(plan->stages, &program->instrs[pc])] += pinned_bytes(plan, mini, &program->instrs[pc]);
    for (int q = 0; q < GP_QUEUES; q++) {
        size_t pinned = (mini->behind ? 2 : 1) * plan->devices[worker].kind->pinned(sum[q]);
        if (pinned > most[q]) most[q] = pinned;
    }
}

/* The most that a message over the wire takes out of the worker's device at a time. */
static size_t most_fetched(const gp_plan *plan, int worker, const gp_mini_plan *mini) {
    const gp_program *program = &mini->programs->worker[worker];
    size_t most = 0;
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        bool sends = instr->op == GP_INSTR_SEND &&
                     gp_plan_route(plan, instr->stage, plan->stages->edges[instr->edge].to) == GP_ROUTE_WIRE;
        bool posts =
            instr->op == GP_INSTR_POST && plan->stages->collectives[instr->collective].transport == GP_TRANSPORT_MPI;
        size_t bytes = sends || posts ? gp_instr_bytes(plan, mini, instr) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

size_t gp_memory_pinned(const gp_plan *plan, int worker) {
    const gp_device_kind *kind = plan->devices[worker].kind;
    size_t most[GP_QUEUES] = {0}, fetched = 0, all = 0;
    if (!kind->pinned) return 0;
    for (int m = 0; m < plan->mini_count; m++) {
        size_t bytes = most_fetched(plan, worker, &plan->minis[m]);
        if (bytes > fetched) fetched = bytes;
        most_pinned(plan, worker, &plan->minis[m], most);
    }
    for (int s = 0; s < plan->stages->count; s++)
        for (int p = 0; plan->stage[s].worker == worker && p < plan->stage[s].param_count; p++) {
            size_t pinned = kind->pinned(plan->stage[s].params[p].bytes);
            if (pinned > most[GP_QUEUE_COMPUTE]) most[GP_QUEUE_COMPUTE] = pinned;
        }
    for (int q = 0; q < GP_QUEUES; q++) all += most[q];
    return all + (fetched > 0 ? kind->pinned(fetched) : 0);
}

gp_status gp_memory_check(const gp_plan *plan, int *worker, gp_error *err) {
    for (int w = 0; w < plan->workers; w++) {
        size_t beside = plan->devices[w].kind->beside;
        if (plan->devices[w].memory == 0 || plan->arena[w] <= gp_device_room(&plan->devices[w])) continue;
        char needed[32], allowed[32], bytes[32], parts[GP_ERROR_TEXT / 2] = "";
        size_t used = 0;
        for (int k = 0; k < GP_MEMORY_KINDS; k++) {
            size_t sum = 0;
            for (int s = 0; s < plan->stages->count; s++)
                if (plan->stage[s].worker == w) sum += plan->stage[s].memory[k];
            if (sum == 0 || used >= sizeof parts) continue;
            int wrote = snprintf(parts + used, sizeof parts - used, "%s%s %s", used ? ", " : "",
                                 gp_memory_kind_name((gp_memory_kind)k), gp_bytes_text(bytes, sum));
            used += wrote > 0 ? (size_t)wrote : 0;
        }
        *worker = w;
        if (beside > 0 && used < sizeof parts)
            snprintf(parts + used, sizeof parts - used, ", libraries about %s", gp_bytes_text(bytes, beside));
        return gp_fail(err, GP_MEMORY, "worker %d needs %s (%zu bytes), but its memory is %s (%s)", w,
                       gp_bytes_text(needed, plan->arena[w] + beside), plan->arena[w] + beside,
                       gp_bytes_text(allowed, plan->devices[w].memory), parts);
    }
    return GP_OK;
}
