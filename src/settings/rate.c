#include "settings/rate.h"

#include <math.h>

#include "base/memory.h"

int64_t gp_time_steps(gp_time time, int64_t steps_per_epoch) {
    int64_t steps;
    if (!time.epochs) return time.count;
    return gp_int64_mul(time.count, steps_per_epoch, &steps) ? steps : INT64_MAX;
}

int64_t gp_time_end(gp_time time, gp_run_length run) {
    if (!time.epochs || !run.epochs) return gp_time_steps(time, run.epoch_steps);
    return gp_epochs_steps(run.epochs, time.count);
}

int64_t gp_times_passed(gp_time time, gp_run_length run, int64_t step) {
    if (!time.epochs || !run.epochs) return step / gp_time_steps(time, run.epoch_steps);
    return gp_epochs_ended(run.epochs, step) / time.count;
}

bool gp_time_is_due(gp_time time, gp_run_length run, int64_t step) {
    if (time.count <= 0 || step < 1) return false;
    return gp_times_passed(time, run, step) > gp_times_passed(time, run, step - 1);
}

static double annealed(const gp_optimizer_config *optimizer, double done, double left) {
    const double pi = 3.14159265358979323846;
    return optimizer->lr_min + (optimizer->lr - optimizer->lr_min) * (1 + cos(pi * done / left)) / 2;
}

static int milestones_passed(const gp_optimizer_config *optimizer, gp_run_length run, int64_t before) {
    int count = 0;
    while (count < optimizer->lr_milestone_count && gp_time_end(optimizer->lr_milestones[count], run) <= before)
        count++;
    return count;
}

static double multistep(const gp_optimizer_config *optimizer, int passed) {
    double rate = optimizer->lr;
    if (!optimizer->lr_gammas) return rate * pow(optimizer->lr_gamma, passed);
    for (int i = 0; i < passed; i++) rate *= optimizer->lr_gammas[i];
    return rate;
}

double gp_rate(const gp_optimizer_config *optimizer, gp_run_length run, int64_t step) {
    int64_t warmup = gp_time_end(optimizer->warmup, run);
    if (step < 1) step = 1;
    int64_t before = step - 1;
    if (step < warmup) {
        double from = optimizer->warmup_from;
        return optimizer->lr * (from + (1 - from) * (double)step / (double)warmup);
    }
    if (step == warmup) return optimizer->lr; /* f + (1 − f) need not round to 1 */
    switch (optimizer->lr_schedule) {
    case GP_LR_CONSTANT: break;
    case GP_LR_STEP: {
        int64_t steps_down = gp_times_passed(optimizer->lr_every, run, before);
        return optimizer->lr * pow(optimizer->lr_gamma, (double)steps_down);
    }
    case GP_LR_MULTISTEP: return multistep(optimizer, milestones_passed(optimizer, run, before));
    case GP_LR_COSINE: return annealed(optimizer, (double)(before - warmup), (double)(run.steps - warmup));
    }
    return optimizer->lr;
}
