/* The lookout: it finds a worker that hangs, so that a run ends instead of waiting for ever.
 *
 * A worker hangs if it has computed one instruction for longer than the timeout, and longer than 20 times what was
 * expected. A thread that does nothing else (train/lookout.h) calls gp_lookout_look a few times a second. Only this
 * process's workers are looked at; each process looks at its own. A worker is not to blame for what it waits for, and
 * time for which the whole process was stopped does not count. A run that is alone hangs, too, if for that long none of
 * its workers goes on: then it does not matter what they wait for.
 *
 * A GPU works on its own: looked at are the calls that give it work, and its queue of computations while progress notes
 * are written (pipeline/places.h). */
#ifndef GP_PIPELINE_LOOKOUT_H
#define GP_PIPELINE_LOOKOUT_H

#include "base/status.h"
#include "pipeline/run.h"

/* How many times longer than expected an instruction may take. */
enum { GP_LOOKOUT_TIMES = 20 };

typedef struct gp_lookout gp_lookout;

/* Seconds that the instructions of a stage are expected to take, at the most; how many numbers a table has of them. */
size_t gp_lookout_expected_count(const gp_plan *plan);
static inline size_t gp_lookout_expected_index(const gp_plan *plan, int mini, const gp_instr *instr) {
    return ((size_t)mini * (size_t)plan->stages->count + instr->stage) * GP_INSTR_OPS + instr->op;
}

/* `timeout` in seconds. `alone`: the run has no other process. `expected`: by the index above, borrowed; NULL, or 0:
 * nothing is expected. The run is borrowed. GP_MEMORY. */
GP_MUST_USE gp_status gp_lookout_create(gp_run *run, double timeout, bool alone, const double *expected,
                                        gp_lookout **out, gp_error *err);
void gp_lookout_destroy(gp_lookout **lookout);
/* `awake`: seconds since the last look in which this process was not stopped. GP_LOST: a worker hangs; the sentence
 * names it. Any thread, one at a time. Does not block. */
GP_MUST_USE gp_status gp_lookout_look(gp_lookout *lookout, double awake, gp_error *err);
/* Whether the threads of all workers are at their end: none of them can hang. Any thread. */
bool gp_lookout_have_left(const gp_lookout *lookout);

#endif
