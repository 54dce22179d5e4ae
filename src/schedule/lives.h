/* When the lives of a micro-batch's slots end on a stage: one rule for slots, memory and validator. When they begin:
 * gp_instr_begins (waits.h).
 *
 * Pure; any thread. */
#ifndef GP_SCHEDULE_LIVES_H
#define GP_SCHEDULE_LIVES_H

#include "schedule/program.h"

/* What a micro-batch has done so far on a stage; zero at first. */
typedef struct gp_life {
    uint32_t sent, grads_sent; /* copies of what leaves it */
    bool weight;               /* its backward for weights is done */
} gp_life;

/* Frames whose slot the instruction is the last to use, as bits 1 << frame; the micro-batch may have had none of them.
 * Outbox and gradient slots end with the last copy from them, whatever stands between the sends; gradient slots not
 * before the backward for weights. */
unsigned gp_life_end(const gp_stages *stages, bool training, const gp_instr *instr, gp_life *life);

#endif
