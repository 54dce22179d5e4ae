#include "pipeline/far.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/far_internal.h"
#include "plan/tags.h"

/* ---- open, close ------------------------------------------------------------------------------------------------- */

bool gp_far_has_edge(const gp_run *run, uint32_t edge) {
    return run->far && run->far->parcels[edge];
}

size_t gp_far_staged(const gp_run *run) {
    return run->far ? run->far->staged : 0;
}

static gp_status open_ring(gp_run *run, uint32_t edge, gp_error *err) {
    bool receives = gp_plan_stage_is_far(run->plan, run->plan->stages->edges[edge].from);
    gp_far_ring *its = &run->far->rings[edge];
    its->its = gp_staging_of_edge(run->plan, run->orders, edge, receives);
    GP_RETURN_IF_FAILED(GP_NEW(&its->users, its->its.count, err));
    return gp_far_new_buffer(run->far, gp_size_times(its->its.bytes, its->its.count), &its->memory, err);
}

static gp_status open_edges(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    gp_far *far = run->far;
    GP_RETURN_IF_FAILED(GP_NEW(&far->parcels, plan->stages->edge_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&far->rings, plan->stages->edge_count, err));
    int micros = gp_tags_micros(plan);
    for (size_t e = 0; e < plan->stages->edge_count; e++) {
        const gp_edge *edge = &plan->stages->edges[e];
        if (!gp_plan_has_wire(plan, edge->from, edge->to)) continue;
        far->parcels[e] = aligned_alloc(_Alignof(gp_parcel), (size_t)micros * sizeof(gp_parcel));
        if (!far->parcels[e]) return gp_fail(err, GP_MEMORY, "out of memory: messages of an edge");
        for (int m = 0; m < micros; m++) gp_parcel_init(&far->parcels[e][m]);
        GP_RETURN_IF_FAILED(open_ring(run, (uint32_t)e, err));
    }
    return GP_OK;
}

/* ---- receives that begin ahead ----------------------------------------------------------------------------------- */

static bool uses_slot(const gp_stages *stages, const gp_instr *instr, int frame, uint16_t slot) {
    const gp_accesses accesses = gp_instr_accesses(stages, instr);
    return accesses.frame[frame].at && gp_instr_get_slot(instr, accesses.frame[frame]) == slot;
}

/* What enters the same slot in the same lifetime lies beside it. */
static bool lies_beside(const gp_instr *a, const gp_instr *b) {
    return a->micro == b->micro && (a->op == GP_INSTR_RECV || a->op == GP_INSTR_LOAD);
}

/* The instruction before which the receive `pc` can begin: after the one that copies from its buffer. */
static size_t earliest_staged(const gp_program *program, size_t buffers, size_t pc) {
    for (size_t at = pc; at > 0; at--) {
        const gp_instr *before = &program->instrs[at - 1];
        if (before->op == GP_INSTR_RECV && before->edge == program->instrs[pc].edge && --buffers == 0) return at;
    }
    return 0;
}

/* The same without a buffer: after the last one that uses its slot. If it must wait for another worker, at its place.
 */
static size_t earliest(const gp_plan *plan, const gp_mini_plan *mini, int worker, size_t pc) {
    const gp_program *program = &mini->programs->worker[worker];
    const gp_worker_waits *waits = &mini->waits->worker[worker];
    const gp_instr *receive = &program->instrs[pc];
    const gp_accesses accesses = gp_instr_accesses(plan->stages, receive);
    int frame = 0;
    while (frame < GP_FRAMES - 1 && !accesses.frame[frame].at) frame++;
    for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++)
        if (waits->items[i].kind != GP_WAIT_SENT) return pc;
    uint16_t slot = gp_instr_get_slot(receive, accesses.frame[frame]);
    for (size_t at = pc; at > 0; at--) {
        const gp_instr *before = &program->instrs[at - 1];
        if (before->stage != receive->stage || !uses_slot(plan->stages, before, frame, slot)) continue;
        if (!lies_beside(before, receive)) return at;
        for (size_t i = waits->first[at - 1]; i < waits->first[at]; i++)
            if (waits->items[i].kind != GP_WAIT_SENT) return at; /* it began the lifetime, after a wait */
    }
    return 0;
}

static bool is_far_receive(const gp_run *run, const gp_instr *instr) {
    return instr->op == GP_INSTR_RECV && gp_far_has_edge(run, instr->edge);
}

static gp_status find_early(gp_run *run, const gp_mini_plan *mini, int worker, gp_far_early *out, gp_error *err) {
    const gp_program *program = &mini->programs->worker[worker];
    GP_RETURN_IF_FAILED(GP_NEW(&out->first, program->count + 2, err));
    GP_RETURN_IF_FAILED(GP_NEW(&out->items, program->count, err));
    uint32_t *at = NULL, total = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&at, program->count, err));
    for (size_t pc = 0; pc < program->count; pc++) {
        if (!is_far_receive(run, &program->instrs[pc])) continue;
        size_t buffers = run->far->rings[program->instrs[pc].edge].its.count;
        at[pc] =
            (uint32_t)(buffers > 0 ? earliest_staged(program, buffers, pc) : earliest(run->plan, mini, worker, pc));
        out->first[at[pc] + 1]++;
        total++;
    }
    for (size_t i = 0; i < program->count; i++) out->first[i + 1] += out->first[i];
    for (size_t pc = program->count; pc-- > 0;)
        if (is_far_receive(run, &program->instrs[pc])) out->items[--out->first[at[pc] + 1]] = (uint32_t)pc;
    /* Filling has moved each end down to its beginning. */
    memmove(out->first, out->first + 1, program->count * sizeof *out->first);
    out->first[program->count] = total;
    free(at);
    return GP_OK;
}

static gp_status open_earlies(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    gp_far *far = run->far;
    GP_RETURN_IF_FAILED(GP_NEW(&far->earlies, plan->mini_count * plan->workers, err));
    far->early_count = plan->mini_count * plan->workers;
    for (int i = 0; i < far->early_count; i++)
        if (!gp_plan_worker_is_far(plan, i % plan->workers))
            GP_RETURN_IF_FAILED(
                find_early(run, &plan->minis[i / plan->workers], i % plan->workers, &far->earlies[i], err));
    return GP_OK;
}

gp_status gp_far_open(gp_run *run, gp_error *err) {
    if (!run->wire) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&run->far, 1, err));
    GP_RETURN_IF_FAILED(open_edges(run, err));
    GP_RETURN_IF_FAILED(gp_far_open_collectives(run, err));
    GP_RETURN_IF_FAILED(gp_far_open_peers(run, err));
    return open_earlies(run, err);
}

void gp_far_close(gp_run *run) {
    gp_far *far = run->far;
    if (!far) return;
    for (size_t e = 0; far->parcels && e < run->plan->stages->edge_count; e++) free(far->parcels[e]);
    for (size_t e = 0; far->rings && e < run->plan->stages->edge_count; e++) {
        free(far->rings[e].memory);
        free(far->rings[e].users);
    }
    gp_far_close_collectives(run);
    gp_far_close_peers(run);
    free(far->rings);
    for (int i = 0; i < far->early_count; i++) {
        free(far->earlies[i].first);
        free(far->earlies[i].items);
    }
    free(far->parcels);
    free(far->earlies);
    free(far);
    run->far = NULL;
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* Number of the buffer of a copy, if the edge has buffers. */
static size_t place_of(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_run *run = worker->run;
    bool receives = instr->op == GP_INSTR_RECV;
    uint16_t number = gp_copy_number(run->orders, (int)(mini - run->plan->minis), instr->edge, receives, instr->micro);
    return number % run->far->rings[instr->edge].its.count;
}

/* NULL: the edge has none. */
static char *buffer_of(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr) {
    const gp_far_ring *its = &worker->run->far->rings[instr->edge];
    return its->its.count > 0 ? its->memory + place_of(worker, mini, instr) * its->its.bytes : NULL;
}

/* Copies a part to its buffer, when the message before it has left that. With as many buffers as copies are in flight,
 * the receiver needs nothing for this that comes later in a serial execution of the programs. */
static gp_status fill_buffer(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_move *move,
                             const gp_event *sent, gp_error *err) {
    gp_run *run = worker->run;
    gp_far_user *its = &run->far->rings[instr->edge].users[place_of(worker, mini, instr)];
    GP_RETURN_IF_FAILED(gp_far_wait_computed(worker, sent, err));
    gp_pulse_pause(&worker->pulse);
    if (its->command == worker->command) GP_RETURN_IF_FAILED(gp_parcel_wait(its->parcel, &run->cancel, err));
    gp_pulse_resume(&worker->pulse);
    *its = (gp_far_user){&run->far->parcels[instr->edge][instr->micro], worker->command};
    return gp_far_take_out(worker, buffer_of(worker, mini, instr), worker->arena + move->offset, move->bytes, err);
}

gp_status gp_far_send(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_event *sent,
                      gp_error *err) {
    gp_run *run = worker->run;
    char *buffer = buffer_of(worker, mini, instr);
    gp_move move;
    gp_instr_move(run->plan, mini, instr, 0, &move);
    if (buffer) GP_RETURN_IF_FAILED(fill_buffer(worker, mini, instr, &move, sent, err));
    gp_wire_send(run->wire, &run->far->parcels[instr->edge][instr->micro], worker->command,
                 gp_far_process_of(run, run->plan->stages->edges[instr->edge].to),
                 gp_tag_of_edge(run->plan, instr->edge, instr->micro), buffer ? buffer : worker->arena + move.offset,
                 move.bytes);
    return GP_OK;
}

static void begin_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr) {
    gp_run *run = worker->run;
    char *buffer = buffer_of(worker, mini, instr);
    gp_move move;
    gp_instr_move(run->plan, mini, instr, 0, &move);
    gp_wire_receive(run->wire, &run->far->parcels[instr->edge][instr->micro], worker->command,
                    gp_far_process_of(run, run->plan->stages->edges[instr->edge].from),
                    gp_tag_of_edge(run->plan, instr->edge, instr->micro), buffer ? buffer : worker->arena + move.offset,
                    move.bytes);
}

gp_status gp_far_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    gp_parcel *parcel = &worker->run->far->parcels[instr->edge][instr->micro];
    if (parcel->value != worker->command) begin_receive(worker, mini, instr);
    return gp_parcel_wait(parcel, &worker->run->cancel, err);
}

gp_status gp_far_copy_in(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const char *buffer = buffer_of(worker, mini, instr);
    gp_move move;
    if (!buffer) return GP_OK;
    gp_instr_move(plan, mini, instr, 0, &move);
    gp_stream *queue = worker->queue[gp_instr_queue(plan->stages, instr)];
    return gp_worker_kind(worker)->copy_in(queue, worker->arena + move.offset, buffer, move.bytes, err);
}

/* ---- ahead ------------------------------------------------------------------------------------------------------- */

void gp_far_receive_ahead(gp_worker *worker, const gp_mini_plan *mini, int64_t pc) {
    gp_run *run = worker->run;
    if (!run->far) return;
    if (pc < 0) gp_far_begin_buckets(worker, mini);
    const gp_far_early *its = &run->far->earlies[(int)(mini - run->plan->minis) * run->plan->workers + worker->index];
    const gp_program *program = &mini->programs->worker[worker->index];
    size_t next = (size_t)(pc + 1);
    if (next >= program->count) return;
    for (uint32_t i = its->first[next]; i < its->first[next + 1]; i++)
        if (its->items[i] != next) begin_receive(worker, mini, &program->instrs[its->items[i]]);
}

/* ---- what has gone ----------------------------------------------------------------------------------------------- */

gp_status gp_far_wait_gone(gp_worker *worker, uint32_t edge, uint16_t micro, gp_error *err) {
    return gp_parcel_wait(&worker->run->far->parcels[edge][micro], &worker->run->cancel, err);
}

gp_status gp_far_finish(gp_worker *worker, const gp_mini_plan *mini, gp_error *err) {
    const gp_run *run = worker->run;
    const gp_program *program = &mini->programs->worker[worker->index];
    for (int s = 0; run->far && s < run->plan->stages->count; s++)
        if (run->plan->stage[s].worker == worker->index) GP_RETURN_IF_FAILED(gp_far_wait_peers(worker, s, err));
    for (size_t pc = 0; run->far && pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (instr->op == GP_INSTR_SEND && gp_far_has_edge(run, instr->edge))
            GP_RETURN_IF_FAILED(gp_parcel_wait(&run->far->parcels[instr->edge][instr->micro], &run->cancel, err));
        if (instr->op == GP_INSTR_POST)
            GP_RETURN_IF_FAILED(gp_far_wait_posted(worker, instr->collective, instr->stage, err));
    }
    return GP_OK;
}
