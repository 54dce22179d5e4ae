/* Edges and collectives between processes: what workers send to, and receive from, those of other processes.
 *
 * A send or a post begins a message straight from the worker's arena; its memory is free again when the message has
 * gone. So "pulled" by a stage of another process means here: gone. A receive is begun ahead, as soon as its slot is
 * free, so that a long message travels while the worker computes. A message of a collective whose part has several
 * ranges is packed. All sizes are the plan's, and the same in both processes.
 *
 * Buckets of gradients are bulk messages (process/wire.h). The parts that others scatter have places of their own, and
 * their receives begin with the step. The sums of an exchange lie where the own part for that replica was scattered
 * from, and their receive begins when that message has gone. So each has its receive whatever the worker waits for.
 *
 * A worker on a GPU sends from staging and receives into it (plan/staging.h). To send, its thread waits until the part
 * is computed, and copies it there; so the arena is free at once. What has arrived is copied in the queue of the
 * instruction that receives it. A receive begins as soon as a buffer is free.
 *
 * Not for what lines carry. The run owns it; it is opened and closed by the trainer's thread, after the channels; the
 * rest is for the worker's own thread. */
#ifndef GP_PIPELINE_FAR_H
#define GP_PIPELINE_FAR_H

#include "pipeline/run_internal.h"

/* Nothing for a run that is alone. */
GP_MUST_USE gp_status gp_far_open(gp_run *run, gp_error *err);
void gp_far_close(gp_run *run);

/* Whether the other end of a worker's edge is in another process. */
bool gp_far_has_edge(const gp_run *run, uint32_t edge);
/* Begins the receives that are possible before (pc −1) or after an instruction. */
void gp_far_receive_ahead(gp_worker *worker, const gp_mini_plan *mini, int64_t pc);
/* `sent`: stands after the computation in its queue; NULL: a device does at once what it is given. */
GP_MUST_USE gp_status gp_far_send(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                  const gp_event *sent, gp_error *err);
/* Waits until what an edge carries has arrived. */
GP_MUST_USE gp_status gp_far_receive(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err);
/* And then copies it from its buffer, if it has one. */
GP_MUST_USE gp_status gp_far_copy_in(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err);
/* Sends the stage's part to all collectors in other processes. `posted`: as `sent`. */
GP_MUST_USE gp_status gp_far_post(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr,
                                  const gp_event *posted, gp_error *err);
/* Whether they have arrived. */
bool gp_far_is_there(const gp_worker *worker, const gp_mini_plan *mini, const gp_instr *collect);
/* Waits for the parts of all contributors in other processes. */
GP_MUST_USE gp_status gp_far_collect(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err);
/* And then copies them to their places, if they are in buffers. */
GP_MUST_USE gp_status gp_far_unpack(gp_worker *worker, const gp_mini_plan *mini, const gp_instr *instr, gp_error *err);
/* An exchange within a pass: begins to send the stage's own part to the replicas in other processes, and to receive
 * theirs. gp_far_take follows for each of them. `posted`: as in gp_far_post. */
GP_MUST_USE gp_status gp_far_offer(gp_worker *worker, const gp_stage_plan *stage, const gp_exchange *exchange,
                                   int micro, const gp_event *posted, gp_error *err);
/* Waits for the part of one of them, and until the own part of the exchange before has gone to it. Then the part is in
 * its place, or its copy is in the queue of computations. */
GP_MUST_USE gp_status gp_far_take(gp_worker *worker, int stage, const gp_move *move, gp_error *err);
/* PULLED by a stage of another process: until the message of this step has gone. */
GP_MUST_USE gp_status gp_far_wait_gone(gp_worker *worker, uint32_t edge, uint16_t micro, gp_error *err);
/* Until all messages of the step have gone. */
GP_MUST_USE gp_status gp_far_finish(gp_worker *worker, const gp_mini_plan *mini, gp_error *err);
/* Bytes of its buffers: those of gp_staging_bytes. */
size_t gp_far_staged(const gp_run *run);

#endif
