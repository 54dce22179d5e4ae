/* Learning rates by step: warm-up, then the schedule.
 *
 * Pure functions of the configuration and the step's number; own nothing; any thread. */
#ifndef GP_TRAIN_RATE_H
#define GP_TRAIN_RATE_H

#include <stdint.h>

#include "config/config.h"

/* Steps that a time stands for, where an epoch has steps_per_epoch (≥ 1). */
int64_t gp_time_steps(gp_time time, int64_t steps_per_epoch);
/* The rate of step s (from 1): lr·(f+(1−f)·s/w) for s ≤ w steps of warm-up from share f, then lr. */
double gp_rate(const gp_optimizer_config *optimizer, int64_t warmup_steps, int64_t step);

#endif
