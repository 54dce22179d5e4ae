/* How far each queue of a GPU is, for failures that come late. A queue notes a number before and behind each
 * instruction, and between its layers (pipeline/notes.h). After a failure the host can say which instructions had
 * begun and not ended, and in which layers they were.
 *
 * Numbers count the notes of a worker's program from 1; 0 is noted where an instruction has ended. Two steps with the
 * same program have the same numbers.
 *
 * Nothing where a device does at once what it is given. A worker's thread, about its own queues; gp_places_tell looks
 * at those of all workers. */
#ifndef GP_PIPELINE_PLACES_H
#define GP_PIPELINE_PLACES_H

#include "pipeline/run_internal.h"

/* The worker's thread: behind all that the instruction waits for. */
GP_MUST_USE gp_status gp_places_begin(gp_worker *worker, const gp_site *site, gp_error *err);
/* Of an instruction that computes: behind an op of a routine that has a note behind it. */
GP_MUST_USE gp_status gp_places_pass(gp_worker *worker, const gp_instr *instr, gp_error *err);
/* Behind all that it does. */
GP_MUST_USE gp_status gp_places_end(gp_worker *worker, const gp_site *site, gp_error *err);
/* The instruction that a queue of the worker is at when it tells the note; NULL: none. Any thread. */
const gp_instr *gp_places_instr(const gp_plan *plan, int mini, int worker, uint32_t noted);
/* Any worker's thread, after a failure in a step, and the last that it does: puts before what err says where the
 * devices were that are lost. */
void gp_places_tell(const gp_run *run, gp_error *err);

#endif
