/* Commands to the workers of a run, and the wait for their end. The trainer's thread. */
#include "pipeline/far_lines.h"
#include "pipeline/run_internal.h"

void gp_run_join(gp_run *run) {
    for (int w = 0; w < run->plan->workers; w++)
        if (run->workers[w].started) pthread_join(run->workers[w].thread, NULL);
    for (int w = 0; w < run->plan->workers; w++) run->workers[w].started = false;
}

/* Until every worker has carried out its last command. After a cancellation, until every worker has ended, since the
 * command's memory is the caller's again; then the first cause. */
gp_status gp_run_wait(gp_run *run, gp_error *err) {
    for (int w = 0; w < run->plan->workers; w++) {
        gp_worker *worker = &run->workers[w];
        if (gp_run_is_far(run, w)) continue;
        if (gp_signal_wait(&worker->done, worker->command + 1, &run->cancel, err) == GP_OK) continue;
        gp_far_lines_abort(run);
        gp_run_join(run);
        return gp_cancel_cause(&run->cancel, err);
    }
    return GP_OK;
}

static void wake(gp_run *run, gp_worker *worker) {
    if (worker->command == run->commands || gp_run_is_far(run, worker->index)) return;
    worker->command = run->commands;
    run->wakes++;
    gp_signal_raise(&worker->posted, run->commands);
}

void gp_run_give(gp_run *run, const gp_command *command) {
    bool blocks = command->kind == GP_COMMAND_READ || command->kind == GP_COMMAND_WRITE;
    run->command = *command;
    run->commands++;
    for (size_t i = 0; i < command->block_count && blocks; i++) wake(run, &run->workers[command->blocks[i].worker]);
    for (int w = 0; w < run->plan->workers && !blocks; w++) wake(run, &run->workers[w]);
}

gp_status gp_run_post(gp_run *run, const gp_command *command, gp_error *err) {
    gp_status cause = gp_cancel_cause(&run->cancel, err);
    if (cause != GP_OK) return cause;
    gp_run_give(run, command);
    return gp_run_wait(run, err);
}
