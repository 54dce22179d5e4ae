/* Channels: how workers hand over what edges and collectives carry. Within a process, the sender says that the copy can
 * begin, the receiver copies and says that it has. Between processes go messages (pipeline/far.h).
 *
 * A channel has room for as many copies as can be in flight (plan/copy_order.h), and events for as many slots as
 * the sender has: a slot is not used again before it was pulled, and neither are its events.
 *
 * The run owns its channels. The trainer's thread opens and closes them; the rest is for the worker's own thread. */
#ifndef GP_PIPELINE_CHANNEL_H
#define GP_PIPELINE_CHANNEL_H

#include "pipeline/run_internal.h"

/* May be closed after a failure too. */
GP_MUST_USE gp_status gp_channels_open(gp_run *run, gp_error *err);
void gp_channels_close(gp_run *run);
/* Bytes that the channels of a run take. GP_MEMORY. */
GP_MUST_USE gp_status gp_channels_bytes(const gp_plan *plan, size_t *out, gp_error *err);
/* Any thread: wakes all that wait for a copy. */
void gp_channels_wake(gp_run *run);

/* The events of the worker's own device. */
GP_MUST_USE gp_status gp_channels_create_events(gp_worker *worker, gp_error *err);
void gp_channels_destroy_events(gp_worker *worker);

GP_MUST_USE gp_status gp_channel_send(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                      gp_error *err);
/* After the wait for its send. */
GP_MUST_USE gp_status gp_channel_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                         gp_error *err);
/* The stage's part can be read: the signal, and the event in the computing queue; also within the backward that makes
 * the part (plan/early_posts.h). */
GP_MUST_USE gp_status gp_channel_post(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                      gp_error *err);
/* Whether all contributors have posted, and what other processes send has arrived: a collect would wait for nothing. */
bool gp_channel_is_there(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *collect);
/* After the waits for all contributors. */
GP_MUST_USE gp_status gp_channel_collect(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                         gp_error *err);
/* An exchange within a pass, of statistics of batch norm: posts the stage's own part, waits for those of the other
 * replicas, and copies them to their places. On the host it waits until these are issued, in the queue for the work
 * itself. `number`: of the exchange in this pass, from 0. Cancellable. */
GP_MUST_USE gp_status gp_channel_exchange(gp_worker *worker, const gp_stage_plan *stage, const gp_exchange *exchange,
                                          int micro, size_t number, gp_error *err);
/* Before a forward or backward pass: finds the numbers of its exchanges. */
void gp_channel_begin_pass(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr);
/* On the host: until the event of this command has been issued. */
GP_MUST_USE gp_status gp_channel_wait(gp_worker *worker, const gp_mini_plan *mini, const gp_wait *wait, gp_error *err);
/* After all other waits of a receive or a collect: until what other processes send has arrived. */
GP_MUST_USE gp_status gp_channel_arrive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                        gp_error *err);
/* Makes the queue wait for the work itself. `instr`: the worker's instruction that waits. */
GP_MUST_USE gp_status gp_channel_wait_event(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                            const gp_wait *wait, gp_stream *queue, gp_error *err);

#endif
