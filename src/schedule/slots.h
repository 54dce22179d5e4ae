/* Gives instructions their slots: as few as a run of the programs in equal time needs, so that no worker waits for a
 * slot there. Reuse follows the order of that run, which therefore stays possible: no deadlock can come of it. */
#ifndef GP_SCHEDULE_SLOTS_H
#define GP_SCHEDULE_SLOTS_H

#include "base/status.h"
#include "schedule/program.h"

/* Slots that a stage's frames need. */
typedef struct gp_slot_counts {
    int frame[GP_FRAMES];
} gp_slot_counts;

/* Sets slot, work and grad of all instructions. `ahead`, per worker (NULL: none): its device receives on a queue of its
 * own, so that what a computation needs can come while the one before it runs; no receive then has a slot that this one
 * uses, for which it would have to wait. GP_PROGRAM where the programs cannot run at all, or need more slots than an
 * instruction can name. */
GP_MUST_USE gp_status gp_slots_assign(const gp_stages *stages, gp_programs *programs, const bool *ahead, gp_error *err);
/* The slots that the programs name: counts[stage], one more than the highest; only ever raised. */
void gp_slots_count(const gp_stages *stages, const gp_programs *programs, gp_slot_counts *counts);

/* What a micro-batch has done so far on a stage; zero at first. */
typedef struct gp_life {
    uint32_t sent, grads_sent; /* copies */
    uint32_t over;             /* frames whose last use on the stage is over, as bits 1 << frame */
} gp_life;

/* Frames whose slot the instruction is the last to use, as bits 1 << frame; the micro-batch may have had none of
 * them. */
unsigned gp_life_end(const gp_stages *stages, const gp_programs *programs, const gp_instr *instr, gp_life *life);

#endif
