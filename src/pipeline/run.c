#include "pipeline/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pipeline/run_internal.h"
#include "pipeline/spans.h"

static const gp_device_kind *kind_of(const gp_worker *worker) {
    return worker->run->plan->devices[worker->index].kind;
}

/* Whether the worker has the sending (or the receiving) end of an edge. */
static bool has_end(const gp_worker *worker, const gp_edge *edge, bool sending) {
    return worker->run->plan->stage[sending ? edge->from : edge->to].worker == worker->index;
}

static gp_status create_events(gp_worker *worker, gp_error *err) {
    gp_run *run = worker->run;
    const gp_stages *stages = run->plan->stages;
    for (uint32_t e = 0; e < stages->edge_count; e++) {
        for (int m = 0; m < run->max_pieces; m++) {
            gp_mail *mail = gp_run_mail(run, e, (uint16_t)m);
            if (has_end(worker, &stages->edges[e], true))
                GP_RETURN_IF_FAILED(kind_of(worker)->event_create(worker->device, false, &mail->sent_event, err));
            if (has_end(worker, &stages->edges[e], false))
                GP_RETURN_IF_FAILED(kind_of(worker)->event_create(worker->device, false, &mail->pulled_event, err));
        }
    }
    return GP_OK;
}

static void destroy_events(gp_worker *worker) {
    gp_run *run = worker->run;
    const gp_stages *stages = run->plan->stages;
    for (uint32_t e = 0; e < stages->edge_count; e++) {
        for (int m = 0; m < run->max_pieces; m++) {
            gp_mail *mail = gp_run_mail(run, e, (uint16_t)m);
            if (mail->sent_event && has_end(worker, &stages->edges[e], true))
                kind_of(worker)->event_destroy(mail->sent_event);
            if (mail->pulled_event && has_end(worker, &stages->edges[e], false))
                kind_of(worker)->event_destroy(mail->pulled_event);
        }
    }
}

static gp_status create_marks(gp_worker *worker, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    int most = gp_run_marks(plan, worker->index);
    GP_RETURN_IF_FAILED(GP_NEW(&worker->marks, most, err));
    worker->mark_count = most;
    for (int i = 0; i < most; i++)
        GP_RETURN_IF_FAILED(kind_of(worker)->event_create(worker->device, false, &worker->marks[i], err));
    return GP_OK;
}

static void destroy_marks(gp_worker *worker) {
    for (int i = 0; i < worker->mark_count; i++)
        if (worker->marks[i]) kind_of(worker)->event_destroy(worker->marks[i]);
    free(worker->marks);
}

static gp_status open_worker(gp_worker *worker, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const gp_device_kind *kind = kind_of(worker);
    void *arena;
    GP_RETURN_IF_FAILED(kind->open(&plan->devices[worker->index], &worker->device, err));
    for (int q = 0; q < GP_QUEUES; q++)
        GP_RETURN_IF_FAILED(kind->stream_create(worker->device, q != GP_QUEUE_COMPUTE, &worker->queue[q], err));
    GP_RETURN_IF_FAILED(kind->reserve(worker->device, plan->arena[worker->index], &arena, err));
    worker->arena = arena;
    GP_RETURN_IF_FAILED(create_marks(worker, err));
    return create_events(worker, err);
}

/* Of all workers before any closes: what is under way in one may use what another reserved. */
static void end_queues(gp_worker *worker) {
    for (int q = 0; q < GP_QUEUES; q++)
        if (worker->queue[q]) kind_of(worker)->stream_destroy(worker->queue[q]);
}

static void close_worker(gp_worker *worker) {
    const gp_device_kind *kind = kind_of(worker);
    destroy_events(worker);
    destroy_marks(worker);
    gp_spans_destroy(worker);
    if (worker->arena) kind->unreserve(worker->device, worker->arena);
    if (worker->device) kind->close(worker->device);
}

static gp_status refresh(gp_worker *worker, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const gp_instr none = {.op = GP_INSTR_STEP};
    for (int s = 0; s < plan->stages->count; s++)
        if (plan->stage[s].worker == worker->index)
            GP_RETURN_IF_FAILED(gp_worker_routine(worker, &plan->stage[s], &plan->stage[s].refresh, &none, 0, err));
    return GP_OK;
}

static gp_status obey(gp_worker *worker, gp_error *err) {
    const gp_command *command = &worker->run->command;
    const gp_device_kind *kind = kind_of(worker);
    bool mine = command->worker == worker->index;
    gp_status status = GP_OK;
    switch (command->kind) {
    case GP_COMMAND_STEP: return gp_worker_step(worker, err);
    case GP_COMMAND_READ:
    case GP_COMMAND_WRITE:
        if (mine) status = gp_worker_copy(worker, command, command->kind == GP_COMMAND_WRITE, err);
        break;
    case GP_COMMAND_REFRESH: status = refresh(worker, err); break;
    case GP_COMMAND_NONE:
    case GP_COMMAND_QUIT: return GP_OK;
    }
    if (status == GP_OK) status = kind->stream_finish(worker->queue[GP_QUEUE_COMPUTE], &worker->run->cancel, err);
    return status == GP_OK ? GP_OK : gp_error_context(err, "worker %d: ", worker->index);
}

/* Raises the flag and wakes all that sleep. */
static void cancel_run(gp_run *run, const gp_error *cause) {
    if (!gp_cancel_raise(&run->cancel, cause)) return;
    gp_signal_wake(&run->posted);
    gp_signal_wake(&run->barrier.generation);
    for (int w = 0; w < run->plan->workers; w++) gp_signal_wake(&run->workers[w].done);
    for (size_t i = 0; i < run->plan->stages->edge_count * (size_t)run->max_pieces; i++) {
        gp_signal_wake(&run->mail[i].sent);
        gp_signal_wake(&run->mail[i].pulled);
    }
}

static void *work(void *argument) {
    gp_worker *worker = argument;
    gp_run *run = worker->run;
    gp_error err = {0};
    gp_status status = open_worker(worker, &err);
    if (status != GP_OK) status = gp_error_context(&err, "worker %d: ", worker->index);
    while (status == GP_OK) {
        gp_signal_raise(&worker->done, worker->command + 1);
        status = gp_signal_wait(&run->posted, worker->command + 1, &run->cancel, &err);
        if (status != GP_OK) break;
        worker->command++;
        if (run->command.kind == GP_COMMAND_QUIT) return NULL;
        status = obey(worker, &err);
    }
    cancel_run(run, &err);
    return NULL;
}

static void join_workers(gp_run *run) {
    for (int w = 0; w < run->plan->workers; w++)
        if (run->workers[w].started) pthread_join(run->workers[w].thread, NULL);
    for (int w = 0; w < run->plan->workers; w++) run->workers[w].started = false;
}

/* Until every worker has carried out the last command; where the run was cancelled, until every worker has ended, since
 * what the command lent them is the caller's again, and then the first cause. */
static gp_status wait_for_workers(gp_run *run, gp_error *err) {
    for (int w = 0; w < run->plan->workers; w++) {
        if (gp_signal_wait(&run->workers[w].done, run->commands + 1, &run->cancel, err) == GP_OK) continue;
        join_workers(run);
        return gp_cancel_cause(&run->cancel, err);
    }
    return GP_OK;
}

static gp_status post(gp_run *run, const gp_command *command, gp_error *err) {
    gp_status cause = gp_cancel_cause(&run->cancel, err);
    if (cause != GP_OK) return cause;
    run->command = *command;
    run->commands++;
    gp_signal_raise(&run->posted, run->commands);
    return wait_for_workers(run, err);
}

/* A run that has failed says why, whatever was under way. */
static gp_status check_rest(gp_run *run, gp_error *err) {
    gp_status cause = gp_cancel_cause(&run->cancel, err);
    if (cause != GP_OK || run->under_way == 0) return cause;
    return gp_fail(err, GP_INTERNAL, "a step is under way");
}

/* What a run does between steps. */
static gp_status post_at_rest(gp_run *run, const gp_command *command, gp_error *err) {
    GP_RETURN_IF_FAILED(check_rest(run, err));
    return post(run, command, err);
}

static gp_status prepare_run(gp_run *run, const gp_plan *plan, gp_error *err) {
    size_t mails;
    for (int m = 0; m < plan->mini_count; m++)
        if (plan->minis[m].pieces > run->max_pieces) run->max_pieces = plan->minis[m].pieces;
    if (!gp_size_mul(plan->stages->edge_count, (size_t)run->max_pieces, &mails))
        return gp_fail(err, GP_MEMORY, "too many copies");
    gp_signal_init(&run->posted);
    gp_barrier_init(&run->barrier, plan->workers);
    run->mail = aligned_alloc(_Alignof(gp_mail), (mails ? mails : 1) * sizeof *run->mail);
    run->workers = aligned_alloc(_Alignof(gp_worker), (size_t)plan->workers * sizeof *run->workers);
    if (!run->mail || !run->workers) {
        free(run->workers); /* none to stop */
        run->workers = NULL;
        return gp_fail(err, GP_MEMORY, "out of memory: %zu copies", mails);
    }
    for (size_t i = 0; i < mails; i++) {
        gp_signal_init(&run->mail[i].sent);
        gp_signal_init(&run->mail[i].pulled);
        run->mail[i].sent_event = run->mail[i].pulled_event = NULL;
        run->mail[i].address = NULL;
    }
    memset(run->workers, 0, (size_t)plan->workers * sizeof *run->workers);
    for (int w = 0; w < plan->workers; w++) {
        run->workers[w].run = run;
        run->workers[w].index = w;
        gp_signal_init(&run->workers[w].done);
    }
    return GP_OK;
}

/* Signals stay the business of the calling thread: workers inherit a mask that blocks them. */
static gp_status start_workers(gp_run *run, gp_error *err) {
    sigset_t all, before;
    int failed = 0, w = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (w < run->plan->workers && !failed) {
        failed = pthread_create(&run->workers[w].thread, NULL, work, &run->workers[w]);
        if (!failed) run->workers[w++].started = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return gp_fail(err, GP_MEMORY, "worker %d: its thread could not be started: %s", w, strerror(failed));
    return wait_for_workers(run, err);
}

static gp_status clear_params(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    for (int p = 0; p < plan->graph->param_count; p++) {
        const gp_stage_plan *stage = &plan->stage[plan->stages->stage_of_node[plan->graph->params[p].node]];
        const gp_param_plan *param = gp_stage_plan_param(stage, p);
        void *zeros = NULL;
        GP_RETURN_IF_FAILED(gp_new_array(&zeros, 1, param->bytes, err));
        gp_status status = GP_OK;
        int states = param->trained ? plan->update.states : 0;
        for (int s = -1; s < states && status == GP_OK; s++) status = gp_run_write(run, p, s, zeros, err);
        free(zeros);
        GP_RETURN_IF_FAILED(status);
    }
    return GP_OK;
}

gp_status gp_run_create(const gp_plan *plan, const gp_hooks *hooks, gp_run **out, gp_error *err) {
    gp_run *run = NULL;
    void *block = aligned_alloc(_Alignof(gp_run), sizeof(gp_run));
    if (!block) return gp_fail(err, GP_MEMORY, "out of memory: a run");
    run = memset(block, 0, sizeof *run);
    run->plan = plan;
    if (hooks) run->hooks = *hooks;
    gp_status status = gp_cancel_init(&run->cancel, err);
    if (status != GP_OK) {
        free(run);
        return status;
    }
    status = prepare_run(run, plan, err);
    if (status == GP_OK) status = start_workers(run, err);
    if (status == GP_OK) status = clear_params(run, err);
    if (status != GP_OK) {
        gp_run_destroy(&run);
        return status;
    }
    *out = run;
    return GP_OK;
}

/* Workers that are idle leave at the word; those that wait for one another leave because the run is cancelled. */
static void stop_workers(gp_run *run) {
    const gp_error stopped = {GP_CANCELLED, "the run was stopped"};
    gp_command quit = {.kind = GP_COMMAND_QUIT};
    bool idle = !gp_cancelled(&run->cancel);
    for (int w = 0; w < run->plan->workers; w++)
        idle = idle && run->workers[w].started && gp_signal_reached(&run->workers[w].done, run->commands + 1);
    if (idle) {
        run->command = quit;
        gp_signal_raise(&run->posted, ++run->commands);
    } else {
        cancel_run(run, &stopped);
    }
    join_workers(run);
    for (int w = 0; w < run->plan->workers; w++) end_queues(&run->workers[w]);
    for (int w = 0; w < run->plan->workers; w++) close_worker(&run->workers[w]);
}

void gp_run_destroy(gp_run **run) {
    gp_run *it = *run;
    if (!it) return;
    if (it->workers) stop_workers(it);
    gp_cancel_fini(&it->cancel);
    free(it->workers);
    free(it->mail);
    free(it);
    *run = NULL;
}

static gp_command step_command(gp_run *run, int turn) {
    const gp_stage_plan *last = &run->plan->stage[run->plan->stages->count - 1];
    return (gp_command){.kind = GP_COMMAND_STEP,
                        .mini = run->mini,
                        .worker = last->worker,
                        .offset = last->base + last->scalars,
                        .bytes = sizeof run->report[turn],
                        .host = &run->report[turn]};
}

static gp_step_result result_of(const gp_step_scalars *report) {
    return (gp_step_result){report->loss_sum, report->right, report->finite != 0, report->grad_norm, report->clip};
}

gp_status gp_run_step(gp_run *run, int mini, const gp_step_input *input, gp_step_result *result, gp_error *err) {
    GP_RETURN_IF_FAILED(check_rest(run, err));
    run->mini = mini;
    run->turn = 0;
    gp_command command = step_command(run, run->turn);
    command.begins = command.ends = true;
    command.input = input;
    GP_RETURN_IF_FAILED(post(run, &command, err));
    *result = result_of(&run->report[run->turn]);
    return GP_OK;
}

gp_status gp_run_begin(gp_run *run, int mini, const gp_step_input *input, gp_error *err) {
    bool behind = run->under_way > 0;
    if (behind && (run->under_way == 2 || mini != run->mini || !gp_plan_overlaps(run->plan, mini) || run->recorder))
        return gp_fail(err, GP_INTERNAL, "a step cannot begin: the step that is running must end first");
    run->mini = mini;
    run->turn = behind ? 1 - run->turn : 0;
    gp_command command = step_command(run, run->turn);
    command.begins = true;
    command.behind = behind;
    command.input = input;
    GP_RETURN_IF_FAILED(post(run, &command, err));
    run->under_way++;
    return GP_OK;
}

gp_status gp_run_end(gp_run *run, gp_step_result *result, gp_error *err) {
    if (run->under_way == 0) return gp_fail(err, GP_INTERNAL, "no step is under way");
    int turn = run->under_way == 2 ? 1 - run->turn : run->turn;
    gp_command command = step_command(run, turn);
    command.ends = true;
    command.before = run->under_way == 2;
    GP_RETURN_IF_FAILED(post(run, &command, err));
    run->under_way--;
    *result = result_of(&run->report[turn]);
    return GP_OK;
}

gp_status gp_run_prediction(gp_run *run, int mini, void *out, gp_error *err) {
    const gp_plan *plan = run->plan;
    const gp_mini_plan *its = &plan->minis[mini];
    const gp_stage_plan *last = &plan->stage[plan->stages->count - 1];
    int loss = plan->graph->node_count - 1;
    const gp_stats_plan *stats = NULL;
    int64_t elements;
    for (size_t i = 0; i < last->stats_count; i++)
        if (last->stats[i].node == loss && last->stats[i].index == GP_LOSS_STATS_PREDICTION) stats = &last->stats[i];
    if (!stats || !gp_shape_elements(plan->graph->nodes[loss].layer->inputs[0], &elements))
        return gp_fail(err, GP_INTERNAL, "the plan keeps no prediction");
    size_t sample = (size_t)elements * gp_dtype_size(plan->real);
    for (int m = 0; m < its->pieces; m++) {
        gp_command command = {.kind = GP_COMMAND_READ,
                              .worker = last->worker,
                              .offset = last->base + stats->offset + (size_t)m * stats->bytes,
                              .bytes = (size_t)gp_mini_samples(its, m) * sample,
                              .host = (char *)out + (size_t)(its->piece * m) * sample};
        GP_RETURN_IF_FAILED(post_at_rest(run, &command, err));
    }
    return GP_OK;
}

gp_status gp_run_squares(gp_run *run, double *out, gp_error *err) {
    const gp_stage_plan *last = &run->plan->stage[run->plan->stages->count - 1];
    if (!run->plan->stages->norms) return gp_fail(err, GP_INTERNAL, "the plan computes no norms");
    gp_command command = {.kind = GP_COMMAND_READ,
                          .worker = last->worker,
                          .offset = last->base + last->squares,
                          .bytes = (last->squares_before + last->square_count) * sizeof(double),
                          .host = out};
    return post_at_rest(run, &command, err);
}

void gp_run_record(gp_run *run, gp_recorder *recorder) {
    run->recorder = recorder;
}

static gp_status move_param(gp_run *run, gp_command_kind kind, int param, int state, void *host, gp_error *err) {
    const gp_plan *plan = run->plan;
    const gp_stage_plan *stage = &plan->stage[plan->stages->stage_of_node[plan->graph->params[param].node]];
    const gp_param_plan *its = gp_stage_plan_param(stage, param);
    gp_command command = {.kind = kind,
                          .worker = stage->worker,
                          .offset = stage->base + (state < 0 ? its->master : its->state[state]),
                          .bytes = its->bytes,
                          .host = host,
                          .param = its};
    return post_at_rest(run, &command, err);
}

gp_status gp_run_read(gp_run *run, int param, int state, void *out, gp_error *err) {
    return move_param(run, GP_COMMAND_READ, param, state, out, err);
}

gp_status gp_run_write(gp_run *run, int param, int state, const void *values, gp_error *err) {
    return move_param(run, GP_COMMAND_WRITE, param, state, (void *)(uintptr_t)values, err);
}

gp_status gp_run_refresh(gp_run *run, gp_error *err) {
    gp_command command = {.kind = GP_COMMAND_REFRESH};
    return post_at_rest(run, &command, err);
}

void *gp_run_arena(const gp_run *run, int worker) {
    return run->workers[worker].arena;
}
