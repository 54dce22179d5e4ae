/* Plays programs without devices: when each instruction would start and end, given how long each takes.
 *
 * Waits, barriers and the order on each worker are those of the executor. It is how slots find their lives, how the
 * validator proves that nothing deadlocks, and what --plan expects of a step. Pure; one thread.
 */
#ifndef GP_PIPELINE_PLAY_H
#define GP_PIPELINE_PLAY_H

#include "base/status.h"
#include "pipeline/waits.h"

/* Seconds (or any unit) that an instruction takes once it has started. */
typedef double (*gp_duration)(const void *context, int worker, size_t pc, const gp_instr *instr);

typedef struct gp_play {
    int workers;
    double **start, **end; /* [worker][pc] */
    double length;         /* end of the last instruction */
} gp_play;

/* GP_PROGRAM with the sentence where the programs deadlock: which worker waits at which instruction for what. */
GP_MUST_USE gp_status gp_play_create(const gp_stages *stages, const gp_programs *programs, const gp_waits *waits,
                                     gp_duration duration, const void *context, gp_play **out, gp_error *err);
void gp_play_destroy(gp_play **play);

#endif
