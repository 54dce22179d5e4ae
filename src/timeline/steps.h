/* The timeline's track of steps and evaluations. Each recorded one has a span from the first activity of a worker to
 * the last.
 *
 * The trainer's thread. */
#ifndef GP_TIMELINE_STEPS_H
#define GP_TIMELINE_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "plan/plan.h"
#include "trace/chrome.h"
#include "trace/recorder.h"

/* A step, or the evaluation after it: all of its mini-batches that were recorded. */
typedef struct gp_traced_step {
    bool training;
    int64_t step, mini_batches, samples;
    bool known; /* it ended, and what follows is its result */
    int64_t epoch;
    double loss;
} gp_traced_step;

typedef struct gp_tracing_steps {
    gp_traced_step *items; /* in the order in which they ran */
    size_t count, capacity;
} gp_tracing_steps;

/* Before each recorded mini-batch. GP_MEMORY. */
GP_MUST_USE gp_status gp_tracing_steps_add(gp_tracing_steps *steps, bool training, int64_t step, int64_t samples,
                                           gp_error *err);
/* What the last one came to; ignored if it was not recorded. */
void gp_tracing_steps_end(gp_tracing_steps *steps, bool training, int64_t step, int64_t epoch, double loss);
/* The track, from the spans that workers recorded. GP_MEMORY. */
GP_MUST_USE gp_status gp_tracing_steps_write(const gp_tracing_steps *steps, const gp_plan *plan,
                                             const gp_recorder *recorder, int track, gp_chrome *chrome, gp_error *err);
void gp_tracing_steps_fini(gp_tracing_steps *steps);
/* What the list takes with so many entries. */
size_t gp_tracing_steps_bytes(size_t count);

#endif
