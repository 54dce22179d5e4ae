/* Learning rates by step: warm-up, then the schedule.
 *
 * Pure functions of the configuration and the step's number; own nothing; any thread. */
#ifndef GP_SETTINGS_RATE_H
#define GP_SETTINGS_RATE_H

#include <stdint.h>

#include "settings/config.h"
#include "settings/epochs.h"

typedef struct gp_run_length {
    int64_t steps;           /* of the whole run */
    int64_t epoch_steps;     /* of an epoch, ≥ 1 */
    const gp_epochs *epochs; /* NULL: every epoch has epoch_steps steps */
} gp_run_length;

/* Steps that a time stands for, where an epoch has steps_per_epoch (≥ 1). */
int64_t gp_time_steps(gp_time time, int64_t steps_per_epoch);
/* Steps after which a time has passed since the beginning of the run. */
int64_t gp_time_end(gp_time time, gp_run_length run);
/* How many times in full have passed after `step` steps; the time is ≥ 1. */
int64_t gp_times_passed(gp_time time, gp_run_length run, int64_t step);
/* Whether a multiple of the time, which may be 0, has passed just after `step` ≥ 1 steps. */
bool gp_time_is_due(gp_time time, gp_run_length run, int64_t step);
/* The rate of step s (from 1; 0 is taken for 1): lr·(f+(1−f)·s/w) for s ≤ w steps of warm-up from share f. Then what
 * torch.optim.lr_scheduler has after being stepped once per step; StepLR and MultiStepLR from the start of the run:
 *
 *   constant   lr
 *   step       lr·gamma^⌊(s−1)/every⌋
 *   multistep  lr·gamma^k, k = how many milestones are ≤ s−1; with a list, lr times its first k gammas
 *   cosine     min + (lr−min)·(1+cos(π·(s−w−1)/T))/2: CosineAnnealingLR(T_max=T), T = steps − w, begun in step w+1
 *
 * Closed forms, so that nothing drifts and a run may go on anywhere. */
double gp_rate(const gp_optimizer_config *optimizer, gp_run_length run, int64_t step);

#endif
