/* Edges and collectives between workers on GPUs of different processes, over lines (plan/lines.h).
 *
 * A receive is enqueued where a worker of the same process would pull. A send is enqueued in a queue of its line, after
 * the event of its computation; the event after it says that its memory is free again. So "pulled" and "collected" by a
 * stage of another process mean here: gone. The host waits for no message, but when lines are opened: then each line
 * carries a first one, so that all that a library sets up for it is there before the first step.
 *
 * The run owns it. The trainer's thread opens and closes it; the rest is for the worker's own thread, if nothing else
 * is said. */
#ifndef GP_PIPELINE_FAR_LINES_H
#define GP_PIPELINE_FAR_LINES_H

#include "pipeline/run_internal.h"

/* Nothing for a run that is alone. See gp_lines_create. */
GP_MUST_USE gp_status gp_far_lines_open(gp_run *run, gp_error *err);
void gp_far_lines_close(gp_run *run);

/* Opens the worker's lines, in the order of their numbers, if they are not open yet: in the first command that all
 * processes carry out. Blocks until the other ends are opened too. */
GP_MUST_USE gp_status gp_far_lines_connect(gp_worker *worker, gp_error *err);
/* Ends all messages under way without finishing them, so that the queues come to their end: the run has failed. Any
 * thread, any number of times, until gp_far_lines_disconnect. */
void gp_far_lines_abort(gp_run *run);
/* The two halves of the end, for the trainer's thread: the worker's queues; then the lines of all workers, in the order
 * of their numbers, since closing one may wait for its other end. */
void gp_far_lines_end_queues(gp_worker *worker);
void gp_far_lines_disconnect(gp_run *run);

bool gp_far_lines_has_edge(const gp_run *run, uint32_t edge);
/* After `sent`; `gone` comes after it. */
GP_MUST_USE gp_status gp_far_lines_send(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                        const gp_event *sent, gp_event *gone, gp_error *err);
GP_MUST_USE gp_status gp_far_lines_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                           gp_error *err);
/* Sends the stage's part to all collectors on lines, after `posted`. */
GP_MUST_USE gp_status gp_far_lines_post(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                        const gp_event *posted, gp_error *err);
/* Before a collect: what it overwrites of the stage's own posts must have gone. In a run in one process it has been
 * collected by then, since what is collected depends on it; so nothing more is waited for (plan/lines.h). */
GP_MUST_USE gp_status gp_far_lines_wait_own(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                            gp_error *err);
/* Receives the parts of all contributors on lines. */
GP_MUST_USE gp_status gp_far_lines_collect(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                           gp_error *err);
/* Exchanges within a pass. Whether a line carries them from one stage to the other. */
bool gp_far_lines_exchanges(const gp_run *run, int from, int to);
/* Sends the stage's own part, after `posted`. It is written again in the next step only, after parts that the other one
 * posts when it has this one. */
GP_MUST_USE gp_status gp_far_lines_offer(gp_worker *worker, int from, int to, gp_device_range own,
                                         const gp_event *posted, gp_error *err);
/* Receives the other one's part, in the computing queue. */
GP_MUST_USE gp_status gp_far_lines_take(gp_worker *worker, int from, int to, gp_device_range place, gp_error *err);
/* On the host: until all messages that were sent have gone. */
GP_MUST_USE gp_status gp_far_lines_finish(gp_worker *worker, gp_error *err);

#endif
