/* What a worker does with its program: one function per kind of instruction, and not a word about schedules. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/channel.h"
#include "pipeline/far.h"
#include "pipeline/far_lines.h"
#include "pipeline/places.h"
#include "pipeline/run_internal.h"
#include "pipeline/spans.h"
#include "plan/layer_ticks.h"

static gp_status load(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, const gp_step_input *input,
                      gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    gp_move move;
    for (int i = 0; gp_instr_move(plan, mini, instr, i, &move); i++) {
        const char *host = move.value == GP_VALUE_INPUT ? input->input : input->target;
        size_t sample = gp_value_bytes(plan->graph, move.value, 1);
        char *address = worker->arena + move.offset;
        GP_RETURN_IF_FAILED(plan->devices[worker->index].kind->copy_in(
            worker->queue[GP_QUEUE_IN], address, host + (size_t)move.first * sample, move.bytes, err));
        if (worker->run->watches)
            GP_RETURN_IF_FAILED(gp_watch_load(worker, instr, move.value, address, move.bytes, err));
    }
    return GP_OK;
}

static gp_status compute(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const gp_routine *routines[GP_INSTR_ROUTINES];
    int count = gp_instr_routines(plan, mini, instr, routines);
    gp_channel_begin_pass(worker, mini, instr);
    int64_t first = gp_mini_share(mini, &plan->stages->stage[instr->stage], instr->micro).first;
    for (int r = 0; r < count; r++)
        GP_RETURN_IF_FAILED(
            gp_worker_routine(worker, &plan->stage[instr->stage], routines[r], mini, instr, first, err));
    return GP_OK;
}

/* On the host: that the copies are issued, not that they are over. */
static gp_status meet(gp_worker *worker, const gp_mini_plan *mini, gp_error *err) {
    gp_run *run = worker->run;
    size_t barrier = worker->barriers++;
    if (!mini->meets) return gp_barrier_meet(&run->barrier, &run->cancel, err);
    const gp_worker_waits *its = &mini->meets->worker[worker->index];
    for (size_t i = its->first[barrier]; i < its->first[barrier + 1]; i++)
        GP_RETURN_IF_FAILED(gp_channel_wait(worker, mini, &its->items[i], err));
    return GP_OK;
}

/* Whether it was carried out within a backward before. */
static bool is_done(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr) {
    size_t pc = (size_t)(instr - mini->programs->worker[worker->index].instrs);
    if (!gp_instr_has_collective(instr) || !mini->early) return false;
    const gp_worker_posts *early = &mini->early[worker->index];
    return gp_early_posts_have(early, pc) || gp_early_sums_have(early, worker->sums, pc);
}

static gp_status carry_out(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    gp_run *run = worker->run;
    if (is_done(worker, mini, instr)) {
        gp_ticks *ticks = gp_spans_ticks(worker);
        uint64_t now = ticks ? gp_clock() : 0;
        for (size_t i = ticks ? gp_instr_ticks(run->plan, mini, instr) : 0; i > 0; i--) gp_ticks_add(ticks, now);
        return GP_OK;
    }
    if (gp_instr_computes(instr)) return compute(worker, mini, instr, err);
    switch (instr->op) {
    case GP_INSTR_LOAD: return load(worker, mini, instr, run->command.input, err);
    case GP_INSTR_SEND: return gp_channel_send(worker, mini, instr, err);
    case GP_INSTR_RECV: return gp_channel_receive(worker, mini, instr, err);
    case GP_INSTR_POST: return gp_channel_post(worker, mini, instr, err);
    case GP_INSTR_COLLECT: return gp_channel_collect(worker, mini, instr, err);
    case GP_INSTR_BARRIER: return meet(worker, mini, err);
    default: return gp_fail(err, GP_INTERNAL, "no such instruction: %d", instr->op);
    }
}

static gp_status wait_for_marks(gp_worker *worker, const gp_queue_waits *waits, size_t pc, gp_stream *queue,
                                gp_error *err) {
    const gp_device_kind *kind = worker->run->plan->devices[worker->index].kind;
    for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++)
        GP_RETURN_IF_FAILED(kind->stream_wait(queue, worker->marks[waits->wait[i]], err));
    return GP_OK;
}

/* First for instructions of other workers, then for those of the worker's other queues. The mini-batch before is
 * enqueued already: the host need not wait for it, and its events still stand for it. */
static gp_status wait_for(gp_worker *worker, const gp_mini_plan *mini, size_t pc, gp_error *err) {
    gp_run *run = worker->run;
    const gp_worker_waits *waits = &mini->waits->worker[worker->index];
    const gp_worker_queues *queues = mini->queues ? &mini->queues->worker[worker->index] : NULL;
    const gp_instr *instr = &mini->programs->worker[worker->index].instrs[pc];
    gp_stream *queue = worker->queue[gp_instr_queue(run->plan->stages, instr)];
    if (run->command.behind && queues) { /* never without */
        const gp_worker_waits *behind = &mini->behind->worker[worker->index];
        for (size_t i = behind->first[pc]; i < behind->first[pc + 1]; i++)
            if (!queues->behind.known[i])
                GP_RETURN_IF_FAILED(gp_channel_wait_event(worker, mini, instr, &behind->items[i], queue, err));
        GP_RETURN_IF_FAILED(wait_for_marks(worker, &queues->behind, pc, queue, err));
    }
    for (size_t i = waits->first[pc]; i < waits->first[pc + 1]; i++) {
        const gp_wait *wait = &waits->items[i];
        GP_RETURN_IF_FAILED(gp_channel_wait(worker, mini, wait, err));
        if (!queues || !queues->within.known[i])
            GP_RETURN_IF_FAILED(gp_channel_wait_event(worker, mini, instr, wait, queue, err));
    }
    if (queues) GP_RETURN_IF_FAILED(wait_for_marks(worker, &queues->within, pc, queue, err));
    return gp_channel_arrive(worker, mini, instr, err);
}

static gp_status carry_out_marked(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err) {
    const gp_device_kind *kind = worker->run->plan->devices[worker->index].kind;
    char text[GP_INSTR_TEXT];
    if (!worker->named) return carry_out(worker, mini, instr, err);
    kind->mark_begin(gp_instr_text(text, instr));
    gp_status status = carry_out(worker, mini, instr, err);
    kind->mark_end();
    return status;
}

static gp_status set_mark(gp_worker *worker, const gp_mini_plan *mini, const gp_site *site, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    int mark = mini->queues ? mini->queues->worker[worker->index].mark[site->pc] : -1;
    if (mark < 0) return GP_OK;
    gp_stream *queue = worker->queue[gp_instr_queue(plan->stages, site->instr)];
    return plan->devices[worker->index].kind->event_record(worker->marks[mark], queue, err);
}

/* All that it waits for is there. */
static gp_status do_instr(gp_worker *worker, const gp_mini_plan *mini, const gp_site *site, gp_error *err) {
    const gp_hooks *hooks = &worker->run->hooks;
    if (hooks->before) GP_RETURN_IF_FAILED(hooks->before(hooks->context, site, err));
    GP_RETURN_IF_FAILED(gp_places_begin(worker, site, err));
    GP_RETURN_IF_FAILED(carry_out_marked(worker, mini, site->instr, err));
    GP_RETURN_IF_FAILED(set_mark(worker, mini, site, err));
    GP_RETURN_IF_FAILED(gp_places_end(worker, site, err));
    return hooks->after ? hooks->after(hooks->context, site, err) : GP_OK;
}

static gp_status one_instr(gp_worker *worker, const gp_mini_plan *mini, const gp_site *site, gp_error *err) {
    bool waits = site->instr->op == GP_INSTR_BARRIER;
    if (gp_cancelled(&worker->run->cancel)) return gp_fail(err, GP_CANCELLED, "cancelled");
    gp_spans_come_to(worker, site);
    GP_RETURN_IF_FAILED(wait_for(worker, mini, site->pc, err));
    GP_RETURN_IF_FAILED(gp_spans_start(worker, site, err));
    if (!waits) gp_pulse_begin(&worker->pulse, site->mini, site->pc);
    gp_status status = do_instr(worker, mini, site, err);
    gp_pulse_end(&worker->pulse);
    return status == GP_OK ? gp_spans_end(worker, site, err) : status;
}

/* If another step is still under way, its results stay until this step overwrites them. */
static gp_status write_scalars(gp_worker *worker, const gp_command *command, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    size_t bytes = command->behind ? offsetof(gp_step_scalars, loss_sum) : sizeof(gp_step_scalars);
    gp_step_scalars scalars;
    memset(&scalars, 0, sizeof scalars);
    scalars.seed = command->input->seed;
    scalars.step = command->input->step;
    scalars.rate = command->input->rate;
    scalars.divisor = command->input->divisor;
    scalars.finite = 1;
    scalars.clip = 1;
    for (int s = 0; s < plan->stages->count; s++) {
        const gp_stage_plan *stage = &plan->stage[s];
        if (stage->worker != worker->index) continue;
        GP_RETURN_IF_FAILED(plan->devices[worker->index].kind->copy_in(
            worker->queue[GP_QUEUE_COMPUTE], worker->arena + stage->base + stage->scalars, &scalars, bytes, err));
    }
    return GP_OK;
}

static gp_status turn_queues(gp_worker *worker, gp_error *err) {
    const gp_device_kind *kind = worker->run->plan->devices[worker->index].kind;
    for (int q = 0; q < GP_QUEUES && kind->stream_turn; q++)
        GP_RETURN_IF_FAILED(kind->stream_turn(worker->queue[q], err));
    return GP_OK;
}

static gp_status begin(gp_worker *worker, const gp_program *program, gp_error *err) {
    const gp_command *command = &worker->run->command;
    if (command->behind) GP_RETURN_IF_FAILED(turn_queues(worker, err));
    GP_RETURN_IF_FAILED(write_scalars(worker, command, err));
    if (worker->run->watches) GP_RETURN_IF_FAILED(gp_watch_params(worker, err));
    return gp_spans_begin(worker, program, err);
}

static gp_status run_program(gp_worker *worker, gp_error *err) {
    const gp_command *command = &worker->run->command;
    const gp_mini_plan *mini = &worker->run->plan->minis[command->mini];
    const gp_program *program = &mini->programs->worker[worker->index];
    worker->barriers = worker->sums = 0;
    if (gp_far_lines_connect(worker, err) != GP_OK || begin(worker, program, err) != GP_OK)
        return gp_error_context(err, "worker %d: ", worker->index);
    gp_far_receive_ahead(worker, mini, -1);
    for (size_t pc = 0; pc < program->count; pc++) {
        gp_site site = {worker->index, command->mini, command->input->step, pc, &program->instrs[pc]};
        gp_status status = one_instr(worker, mini, &site, err);
        if (status == GP_OK) gp_far_receive_ahead(worker, mini, (int64_t)pc);
        if (status == GP_OK) continue;
        char text[GP_INSTR_TEXT];
        return gp_error_context(err, "worker %d, %s: ", worker->index, gp_instr_text(text, site.instr));
    }
    if (gp_worker_copy_block(worker, command->blocks, false, err) == GP_OK && gp_far_finish(worker, mini, err) == GP_OK)
        return GP_OK;
    return gp_error_context(err, "worker %d, end of the step: ", worker->index);
}

/* Without a profiler, this one mark is all that marks cost in a step. */
static gp_status run_marked(gp_worker *worker, gp_error *err) {
    const gp_command *command = &worker->run->command;
    const gp_device_kind *kind = worker->run->plan->devices[worker->index].kind;
    char text[GP_INSTR_TEXT] = "evaluation";
    if (!kind->mark_begin) return run_program(worker, err);
    if (worker->run->plan->minis[command->mini].training)
        snprintf(text, sizeof text, "step %" PRIu32, command->input->step);
    worker->named = kind->mark_begin(text);
    gp_status status = run_program(worker, err);
    kind->mark_end();
    return status;
}

/* The step's only wait for the device. */
static gp_status finish(gp_worker *worker, gp_error *err) {
    gp_run *run = worker->run;
    const gp_device_kind *kind = run->plan->devices[worker->index].kind;
    bool before = run->command.before;
    gp_status status = GP_OK;
    for (int q = 0; q < GP_QUEUES && status == GP_OK; q++) {
        if (!before) status = kind->stream_finish(worker->queue[q], &run->cancel, err);
        if (before && kind->turn_finish) status = kind->turn_finish(worker->queue[q], &run->cancel, err);
    }
    if (status == GP_OK) status = gp_far_lines_finish(worker, err);
    if (status == GP_OK && !before) status = gp_spans_collect(worker, err);
    return status == GP_OK ? GP_OK : gp_error_context(err, "worker %d, end of the step: ", worker->index);
}

gp_status gp_worker_step(gp_worker *worker, gp_error *err) {
    const gp_command *command = &worker->run->command;
    gp_status status = GP_OK;
    if (command->begins) status = run_marked(worker, err);
    if (command->ends && status == GP_OK) status = finish(worker, err);
    if (status == GP_DEVICE) gp_places_tell(worker->run, err);
    return status;
}
