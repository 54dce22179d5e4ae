#include "pipeline/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/machine_processors.h"
#include "base/memory.h"
#include "pipeline/channel.h"
#include "pipeline/far.h"
#include "pipeline/far_lines.h"
#include "pipeline/spans.h"
#include "pipeline/team.h"

enum { EVENT = 32 }; /* bytes of an event, as malloc gives them */

/* Events that mark places of the worker's queues, in the mini-batch that has most of them. */
static int count_marks(const gp_plan *plan, int worker) {
    int most = 0;
    for (int m = 0; m < plan->mini_count; m++) {
        const gp_program_queues *queues = plan->minis[m].queues;
        if (queues && queues->worker[worker].marks > most) most = queues->worker[worker].marks;
    }
    return most;
}

static gp_status create_marks(gp_worker *worker, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    int most = count_marks(plan, worker->index);
    GP_RETURN_IF_FAILED(GP_NEW(&worker->marks, most, err));
    worker->mark_count = most;
    for (int i = 0; i < most; i++)
        GP_RETURN_IF_FAILED(gp_worker_kind(worker)->event_create(worker->device, false, &worker->marks[i], err));
    return GP_OK;
}

static void destroy_marks(gp_worker *worker) {
    for (int i = 0; i < worker->mark_count; i++)
        if (worker->marks[i]) gp_worker_kind(worker)->event_destroy(worker->marks[i]);
    free(worker->marks);
}

static gp_status open_worker(gp_worker *worker, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const gp_device_kind *kind = gp_worker_kind(worker);
    void *arena;
    GP_RETURN_IF_FAILED(kind->open(&plan->devices[worker->index], &worker->device, err));
    for (int q = 0; q < GP_QUEUES; q++)
        GP_RETURN_IF_FAILED(kind->stream_create(worker->device, q != GP_QUEUE_COMPUTE, &worker->queue[q], err));
    GP_RETURN_IF_FAILED(kind->reserve(worker->device, plan->arena[worker->index], &arena, err));
    worker->arena = arena;
    GP_RETURN_IF_FAILED(gp_bindings_init(plan, worker->index, &worker->bindings, err));
    GP_RETURN_IF_FAILED(create_marks(worker, err));
    return gp_channels_create_events(worker, err);
}

/* Of all workers before any closes: what is under way in one may use what another reserved. */
static void end_queues(gp_worker *worker) {
    gp_far_lines_end_queues(worker);
    for (int q = 0; q < GP_QUEUES; q++)
        if (worker->queue[q]) gp_worker_kind(worker)->stream_destroy(worker->queue[q]);
}

static void close_worker(gp_worker *worker) {
    const gp_device_kind *kind = gp_worker_kind(worker);
    gp_channels_destroy_events(worker);
    destroy_marks(worker);
    gp_spans_destroy(worker);
    gp_bindings_fini(&worker->bindings);
    if (worker->arena) kind->unreserve(worker->device, worker->arena);
    if (worker->device) kind->close(worker->device);
}

static gp_status refresh(gp_worker *worker, gp_error *err) {
    const gp_plan *plan = worker->run->plan;
    const gp_instr none = {.op = GP_INSTR_STEP};
    for (int s = 0; s < plan->stages->count; s++)
        if (plan->stage[s].worker == worker->index)
            GP_RETURN_IF_FAILED(
                gp_worker_routine(worker, &plan->stage[s], &plan->stage[s].refresh, NULL, &none, 0, err));
    return GP_OK;
}

static gp_status finish(gp_worker *worker, gp_error *err) {
    return gp_worker_kind(worker)->stream_finish(worker->queue[GP_QUEUE_COMPUTE], &worker->run->cancel, err);
}

/* Each copy ends before the next begins, so that a device needs no more pinned memory than for the largest. */
static gp_status copy_blocks(gp_worker *worker, bool in, gp_error *err) {
    const gp_command *command = &worker->run->command;
    for (size_t i = 0; i < command->block_count; i++) {
        if (command->blocks[i].worker != worker->index) continue;
        GP_RETURN_IF_FAILED(gp_worker_copy_block(worker, &command->blocks[i], in, err));
        GP_RETURN_IF_FAILED(finish(worker, err));
        gp_pulse_go_on(&worker->pulse); /* all blocks together may take long */
    }
    return GP_OK;
}

static gp_status obey(gp_worker *worker, gp_error *err) {
    gp_status status = GP_OK;
    switch (worker->run->command.kind) {
    case GP_COMMAND_STEP: return gp_worker_step(worker, err);
    case GP_COMMAND_READ: status = copy_blocks(worker, false, err); break;
    case GP_COMMAND_WRITE: status = copy_blocks(worker, true, err); break;
    case GP_COMMAND_REFRESH:
        status = gp_far_lines_connect(worker, err);
        if (status == GP_OK) status = refresh(worker, err);
        if (status == GP_OK) status = finish(worker, err);
        break;
    case GP_COMMAND_NONE:
    case GP_COMMAND_QUIT: return GP_OK;
    }
    return status == GP_OK ? GP_OK : gp_error_context(err, "worker %d: ", worker->index);
}

/* Raises the flag and wakes all that sleep. */
static void cancel_run(gp_run *run, const gp_error *cause) {
    if (!gp_cancel_raise(&run->cancel, cause)) return;
    gp_signal_wake(&run->barrier.generation);
    for (int w = 0; w < run->plan->workers; w++) {
        gp_signal_wake(&run->workers[w].posted);
        gp_signal_wake(&run->workers[w].done);
    }
    gp_channels_wake(run);
}

/* Threads that the worker starts inherit its processors: those of its device and of libraries. */
static void pin(const gp_worker *worker) {
    const cpu_set_t *its = worker->run->processors ? &worker->run->processors[worker->index] : NULL;
    if (its && CPU_COUNT(its) > 0) (void)pthread_setaffinity_np(pthread_self(), sizeof *its, its);
}

static void *work(void *argument) {
    gp_worker *worker = argument;
    gp_run *run = worker->run;
    gp_error err = {0};
    pin(worker);
    gp_wait_spin(run->spin);
    gp_status status = open_worker(worker, &err);
    if (status != GP_OK) status = gp_error_context(&err, "worker %d: ", worker->index);
    for (uint64_t command = 0; status == GP_OK; command = worker->command) {
        gp_signal_raise(&worker->done, command + 1);
        status = gp_signal_wait(&worker->posted, command + 1, &run->cancel, &err);
        if (status != GP_OK) break;
        if (run->command.kind == GP_COMMAND_QUIT) break;
        status = obey(worker, &err);
    }
    if (status != GP_OK) cancel_run(run, &err);
    atomic_store(&worker->left, true);
    return NULL;
}

/* With enough processors for the threads of all workers on the host, each gets its own. Processes of one host do not
 * know of one another's: their launcher divides the processors. */
static gp_status divide_processors(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    cpu_set_t allowed;
    int *threads = NULL;
    if (!plan->pin || run->wire || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&threads, plan->workers, err));
    gp_status status = GP_NEW(&run->processors, plan->workers, err);
    for (int w = 0; w < plan->workers; w++) threads[w] = plan->devices[w].kind->on_host ? plan->devices[w].threads : 0;
    if (status == GP_OK && !gp_processors_divide("", &allowed, threads, plan->workers, run->processors)) {
        free(run->processors);
        run->processors = NULL;
    }
    free(threads);
    return status;
}

/* Those that may be busy at the same time, if all processes are on this host. A GPU's worker is one of them: it issues
 * work, and spins while it waits. */
static int busy_threads(const gp_plan *plan) {
    int busy = gp_plan_threads(plan);
    for (int w = 0; w < plan->workers; w++) busy += !plan->devices[w].kind->on_host;
    return busy;
}

/* Workers of this process. */
static int count_own(const gp_run *run) {
    int own = 0;
    for (int w = 0; w < run->plan->workers; w++) own += !gp_run_is_far(run, w);
    return own;
}

static gp_status prepare_run(gp_run *run, const gp_plan *plan, gp_error *err) {
    gp_barrier_init(&run->barrier, count_own(run));
    GP_RETURN_IF_FAILED(gp_channels_open(run, err));
    GP_RETURN_IF_FAILED(gp_far_open(run, err));
    GP_RETURN_IF_FAILED(gp_far_lines_open(run, err));
    GP_RETURN_IF_FAILED(gp_team_open(run, err));
    run->workers = aligned_alloc(_Alignof(gp_worker), (size_t)plan->workers * sizeof *run->workers);
    if (!run->workers) return gp_fail(err, GP_MEMORY, "out of memory: %d workers", plan->workers);
    memset(run->workers, 0, (size_t)plan->workers * sizeof *run->workers);
    for (int w = 0; w < plan->workers; w++) {
        run->workers[w].run = run;
        run->workers[w].index = w;
        gp_signal_init(&run->workers[w].posted);
        gp_signal_init(&run->workers[w].done);
    }
    run->spin = gp_machine_spin(busy_threads(plan));
    return divide_processors(run, err);
}

static gp_status start_workers(gp_run *run, gp_error *err) {
    int failed = 0, w = 0;
    while (w < run->plan->workers && !failed) {
        if (!gp_run_is_far(run, w)) failed = gp_thread_start(&run->workers[w].thread, 0, work, &run->workers[w]);
        run->workers[w].started = !failed && !gp_run_is_far(run, w);
        w += !failed;
    }
    if (failed) return gp_fail(err, GP_MEMORY, "worker %d: its thread could not be started: %s", w, strerror(failed));
    return gp_run_wait(run, err);
}

gp_status gp_run_create(const gp_plan *plan, const gp_hooks *hooks, gp_run **out, gp_error *err) {
    return gp_run_create_team(plan, hooks, NULL, out, err);
}

gp_cancel *gp_run_cancel(gp_run *run) {
    return &run->cancel;
}

gp_status gp_run_create_team(const gp_plan *plan, const gp_hooks *hooks, gp_wire *wire, gp_run **out, gp_error *err) {
    gp_run *run = NULL;
    void *block = aligned_alloc(_Alignof(gp_run), sizeof(gp_run));
    if (!block) return gp_fail(err, GP_MEMORY, "out of memory: a run");
    run = memset(block, 0, sizeof *run);
    run->plan = plan;
    run->wire = plan->processes > 1 ? wire : NULL;
    if (hooks) run->hooks = *hooks;
    gp_status status = gp_cancel_init(&run->cancel, err);
    if (status != GP_OK) {
        free(run);
        return status;
    }
    status = prepare_run(run, plan, err);
    if (status == GP_OK) status = start_workers(run, err);
    if (status == GP_OK) status = gp_run_clear(run, err);
    if (status != GP_OK) {
        gp_run_destroy(&run);
        return status;
    }
    *out = run;
    return GP_OK;
}

/* Workers that are idle leave at the word; those that wait for one another leave because the run is cancelled. */
static void stop_workers(gp_run *run) {
    const gp_error stopped = {.status = GP_CANCELLED, .text = "the run was stopped"};
    const gp_command quit = {.kind = GP_COMMAND_QUIT};
    bool idle = !gp_cancelled(&run->cancel);
    for (int w = 0; w < run->plan->workers; w++)
        idle = idle &&
               (gp_run_is_far(run, w) ||
                (run->workers[w].started && gp_signal_reached(&run->workers[w].done, run->workers[w].command + 1)));
    if (!idle && run->wire) run->wire->kind->halt(run->wire); /* no message may touch an arena that is gone */
    if (idle)
        gp_run_give(run, &quit);
    else
        cancel_run(run, &stopped);
    if (!idle) gp_far_lines_abort(run); /* what waits for another process may wait for ever */
    gp_run_join(run);
    if (!idle) gp_far_lines_abort(run); /* those that were opened meanwhile */
    for (int w = 0; w < run->plan->workers; w++) end_queues(&run->workers[w]);
    gp_far_lines_disconnect(run);
    for (int w = 0; w < run->plan->workers; w++)
        if (!gp_run_is_far(run, w)) close_worker(&run->workers[w]);
}

void gp_run_destroy(gp_run **run) {
    gp_run *it = *run;
    if (!it) return;
    gp_team_close(it);
    if (it->workers) stop_workers(it);
    gp_far_close(it);
    gp_far_lines_close(it);
    gp_cancel_fini(&it->cancel);
    free(it->workers);
    free(it->processors);
    gp_channels_close(it);
    free(it);
    *run = NULL;
}

bool gp_run_is_pinned(const gp_run *run) {
    return run->processors != NULL;
}

uint32_t gp_run_spin(const gp_run *run) {
    return run->spin;
}

uint64_t gp_run_wakes(const gp_run *run) {
    return run->wakes;
}

void *gp_run_arena(const gp_run *run, int worker) {
    return run->workers[worker].arena;
}

gp_status gp_run_bytes(const gp_plan *plan, size_t *out, gp_error *err) {
    size_t channels;
    GP_RETURN_IF_FAILED(gp_channels_bytes(plan, &channels, err));
    size_t bytes = sizeof(gp_run) + (size_t)plan->workers * sizeof(gp_worker);
    for (int w = 0; w < plan->workers; w++) bytes += (size_t)count_marks(plan, w) * (sizeof(gp_event *) + EVENT);
    *out = gp_size_plus(bytes, channels);
    return GP_OK;
}
